import { execFile, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { Effect, Queue } from "effect"

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end, with these environment variables and no others; an interruption kills it. */
export const execute = (
  program: string,
  args: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>> = {}
) =>
  Effect.async<Ended>((resume) => {
    const options = { env: variables, maxBuffer: 64 * 1024 * 1024 }
    const child = execFile(program, args, options, (_, stdout, stderr) =>
      resume(Effect.succeed({ code: child.exitCode, stdout, stderr }))
    )
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** Runs a TypeScript program from the repository's sources. */
export const run = (file: string, variables?: Readonly<Record<string, string>>, args: ReadonlyArray<string> = []) =>
  execute(process.execPath, ["scripts/run.mjs", file, ...args], variables)

/** Starts a TypeScript program that goes on until it is interrupted, which the scope does. */
export const start = Effect.fnUntraced(function* (file: string, args: ReadonlyArray<string>) {
  const lines = yield* Queue.unbounded<string>()
  const problems = yield* Queue.unbounded<string>()
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(process.execPath, ["scripts/run.mjs", file, ...args], { stdio: "pipe" })),
    (child) =>
      Effect.async<void>((resume) => {
        child.once("close", () => resume(Effect.void))
        child.kill("SIGINT")
      })
  )
  createInterface(child.stdout).on("line", (line) => lines.unsafeOffer(line))
  createInterface(child.stderr).on("line", (line) => problems.unsafeOffer(line))
  return {
    /** The next line of standard output. */
    line: Queue.take(lines),
    /** The next line of standard error. */
    problem: Queue.take(problems),
    /** Writes a line to standard input. */
    write: (line: string) => Effect.sync(() => child.stdin.write(`${line}\n`))
  }
})
