/**
 * Long work in short turns.
 *
 * @module
 */
import { sliceBytes } from "#codec"

/**
 * Counts work, in bytes or whatever costs about as much, and says whenever a slice of it is done: then it is time for
 * `yieldToEventLoop`. Work is counted, not timed, so that the same input always takes the same steps. A question and no
 * effect, since most pieces of work are small: a thousand steps of an effect that do nothing cost more than they.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { yieldToEventLoop } from "#codec"
 * import * as Pace from "./Pace.js"
 *
 * const program = Effect.gen(function* () {
 *   const pace = Pace.make()
 *   for (const file of [new Uint8Array(10), new Uint8Array(20)]) {
 *     if (pace(file.length)) yield* yieldToEventLoop
 *   }
 * })
 * ```
 */
export const make = (slice: number = sliceBytes) => {
  let done = 0
  return (work: number): boolean => {
    done += work
    if (done < slice) return false
    done = 0
    return true
  }
}
