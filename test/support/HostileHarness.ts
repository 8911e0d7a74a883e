import { readFileSync } from "node:fs"
import { join } from "node:path"
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import * as Harness from "../../src/runner/Harness.js"

const program = join(import.meta.dirname, "HostileHarness.mjs")

/** A harness that does these steps, as `HostileHarness.mjs` has them. */
export const layer = (steps: ReadonlyArray<string>, options: Partial<Harness.Options> = {}) =>
  Harness.layer({ command: process.execPath, args: [program, ...steps], ...options }).pipe(
    Layer.provide(NodeContext.layer),
    Layer.orDie
  )

/** Whether a process runs. One that nobody has asked for its end does not, although it has its number still. */
export const isRunning = (pid: number): boolean => {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return false
  }
}

/** Waits until the system has ended the process, which a signal only tells it to. */
export const gone = (pid: number): Effect.Effect<void> =>
  Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve))).pipe(
    Effect.repeat({ while: () => isRunning(pid) }),
    Effect.asVoid
  )
