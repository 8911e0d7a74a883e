// Bundles the command line and the fake harness into one directory with everything they need, so that they start fast and
// run without peers:
// node scripts/bundle.mjs [directory]
import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { build } from "esbuild"

// The bundle looks for the fixtures two levels up.
const outdir = process.argv[2] ?? "dist/bin"

/** @type {import("esbuild").BuildOptions & { metafile: true }} */
const shared = {
  outdir,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20.19",
  conditions: ["effect-agent-contracts-source", "node"],
  // Database drivers are looked up where the package is installed, when a registry is served: one is native, and nobody
  // needs both.
  external: ["@libsql/client", "pg", "pg-cursor", "pg-connection-string"],
  // Parsing is much of the start. Names stay as they are: a defect's stack has to be readable.
  minifySyntax: true,
  minifyWhitespace: true,
  metafile: true,
  logLevel: "warning"
}

// The entries are bundled apart from the commands, which are imported when they run. With shared chunks they would load whatever
// any command needs of Effect, and `--help` would take half as long again.
/** @type {Set<string>} */
const commands = new Set()

/** @type {import("esbuild").Plugin} */
const leaveCommandsOut = {
  name: "leave-commands-out",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\.\// }, ({ kind, path, resolveDir }) => {
      if (kind !== "dynamic-import" || !resolveDir.endsWith("cli")) return
      commands.add(resolve(resolveDir, path.replace(/\.js$/, ".ts")))
      return { path, external: true }
    })
}

rmSync(outdir, { recursive: true, force: true })
const entry = await build({
  ...shared,
  entryPoints: { "agent-contracts": "src/cli/main.ts", "agent-contracts-fake-harness": "src/cli/fakeHarnessMain.ts" },
  plugins: [leaveCommandsOut]
})
const rest = await build({
  ...shared,
  entryPoints: [...commands],
  splitting: true,
  // For packages that are no ES modules and ask for modules of Node.
  banner: {
    js: `import{createRequire as $createRequire}from"node:module";const require=$createRequire(import.meta.url);`
  }
})
for (const name of ["agent-contracts", "agent-contracts-fake-harness"]) chmodSync(join(outdir, `${name}.js`), 0o755)

const inputs = Object.keys({ ...entry.metafile.inputs, ...rest.metafile.inputs })
const packages = inputs.flatMap((input) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1] ?? [])
const licenses = [...new Set(packages)]
  .sort()
  .map((name) => `${name}\n\n${readFileSync(join("node_modules", name, "LICENSE"), "utf8").trim()}\n`)
writeFileSync(join(outdir, "LICENSES.txt"), licenses.join(`\n${"-".repeat(80)}\n\n`))
