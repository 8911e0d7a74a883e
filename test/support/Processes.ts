import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { basename, join, resolve } from "node:path"
import { createInterface } from "node:readline"
import { Effect } from "effect"
import { build } from "esbuild"

/**
 * A program of this directory, by its name, or of another by its path from here, bundled once per scope so that plain `node`
 * runs it. With `external` packages stay imports, as native drivers have to; so that it finds them, it lies below the
 * repository's own.
 */
export const bundled = Effect.fnUntraced(function* (name: string, packages: "bundle" | "external" = "bundle") {
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => {
      mkdirSync(".tmp", { recursive: true })
      return resolve(mkdtempSync(".tmp/process-"))
    }),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  )
  const outfile = join(directory, `${basename(name)}.mjs`)
  yield* Effect.promise(() =>
    build({
      entryPoints: [join(import.meta.dirname, `${name}.ts`)],
      outfile,
      bundle: true,
      packages,
      platform: "node",
      format: "esm",
      conditions: ["effect-agent-contracts-source"],
      // For packages that are no ES modules and ask for modules of Node.
      banner: {
        js: `import{createRequire as $createRequire}from"node:module";const require=$createRequire(import.meta.url);`
      },
      logLevel: "error"
    })
  )
  return outfile
})

/** Killed when the scope closes, if it still runs then. */
export const start = (program: string, ...args: ReadonlyArray<string | number>) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [program, ...args.map(String)], { stdio: ["ignore", "pipe", "inherit"] })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Its exit code, or the signal that ended it. */
export const ending = (child: ChildProcess) =>
  Effect.promise(async () => {
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit")
    return child.signalCode ?? child.exitCode
  })

/** Waits for a line of its standard output. */
export const said = (child: ChildProcess & { readonly stdout: NodeJS.ReadableStream }, line: string) =>
  Effect.promise(async () => {
    for await (const said of createInterface(child.stdout)) if (said === line) return
    throw new Error(`The process ended without saying ${line}`)
  })
