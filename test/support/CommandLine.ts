/** The bundled `agent-contracts` as a process of its own. */
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { Deferred, Effect, Queue } from "effect"
import { inject } from "vitest"
import * as Program from "./Program.js"

export const bundle = inject("commandLine")

/** Runs a command to its end, with these environment variables and no others. */
export const run = (args: ReadonlyArray<string>, variables?: Readonly<Record<string, string>>) =>
  Program.execute(process.execPath, [bundle, ...args], variables)

/** Starts a command that goes on until it gets a signal; it is killed with the scope. */
export const start = Effect.fnUntraced(function* (
  args: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>>
) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [bundle, ...args], { env: variables, stdio: ["ignore", "pipe", "pipe"] })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const lines = yield* Queue.unbounded<string>()
  const ended = yield* Deferred.make<number | null>()
  createInterface(child.stdout).on("line", (line) => lines.unsafeOffer(line))
  const problems: Array<string> = []
  child.stderr.setEncoding("utf8").on("data", (text: string) => problems.push(text))
  child.on("close", (code) => Deferred.unsafeDone(ended, Effect.succeed(code)))
  return {
    /** The next line of standard output. */
    line: Queue.take(lines),
    /** What it has written to standard error so far. */
    problems: Effect.sync(() => problems.join("")),
    signal: (name: NodeJS.Signals) => Effect.sync(() => child.kill(name)),
    ended: Deferred.await(ended)
  }
})
