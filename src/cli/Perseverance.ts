/**
 * Asking a registry again that could not answer: it starts anew, or too much is asked of it.
 *
 * @module
 */
import { Data, Effect } from "effect"
import * as Output from "./Output.js"
import type { RegistryFailure, Unavailable, Unreachable } from "./RegistryFailure.js"

/** A failure that may pass. */
export class Passing extends Data.TaggedError("Passing")<{
  readonly error: Unavailable | Unreachable
  /** How many seconds the registry asks to be left alone; 0 where it does not say. */
  readonly retryAfter: number
}> {}

/** How often it is asked again. */
const mostRetries = 5

/** What all waiting may take, in seconds. */
const mostWaiting = 30

/**
 * Asks again what may pass: after half a second, then after twice as long each time, or when the registry says; five times, and
 * no longer than 30 seconds in all. Each time standard error says so. For what may be done twice.
 */
export const persevere = <A, R>(
  request: Effect.Effect<A, RegistryFailure | Passing, R>
): Effect.Effect<A, RegistryFailure, R> => {
  const attempt = (retries: number, waited: number): Effect.Effect<A, RegistryFailure, R> =>
    Effect.catchTag(request, "Passing", ({ error, retryAfter }) => {
      const delay = Math.max(2 ** retries / 2, retryAfter)
      if (retries === mostRetries || waited + delay > mostWaiting) return Effect.fail(error)
      const next = `Trying again in ${delay} s (${retries + 1} of ${mostRetries}).`
      return Output.problem(`${error._tag}: ${error.message} ${next}`).pipe(
        Effect.zipRight(Effect.sleep(`${delay} seconds`)),
        Effect.zipRight(attempt(retries + 1, waited + delay))
      )
    })
  return attempt(0, 0)
}
