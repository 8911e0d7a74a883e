/**
 * Long work in short turns.
 *
 * @module
 */
import { Effect } from "effect"
import { sliceBytes, yieldToEventLoop } from "#codec"

/**
 * Counts work, in bytes or whatever costs about as much, and lets the event loop run its other work whenever a slice of it is
 * done. Work is counted, not timed, so that the same input always takes the same steps.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as Pace from "./Pace.js"
 *
 * const program = Effect.gen(function* () {
 *   const pace = Pace.make()
 *   for (const file of [new Uint8Array(10), new Uint8Array(20)]) yield* pace(file.length)
 * })
 * ```
 */
export const make = (slice: number = sliceBytes) => {
  let done = 0
  return (work: number): Effect.Effect<void> => {
    done += work
    if (done < slice) return Effect.void
    done = 0
    return yieldToEventLoop
  }
}
