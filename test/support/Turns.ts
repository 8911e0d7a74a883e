import { Effect } from "effect"

/** How many turns of the event loop come while `effect` runs, which has to succeed. */
export const turnsDuring = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const count = yield* Effect.acquireRelease(
        Effect.sync(() => {
          // Not a fiber: now and then the scheduler has a fiber wait for a timer, and turns would pass uncounted.
          const turn = () => {
            count.turns++
            count.next = setImmediate(turn)
          }
          const count = { turns: 0, next: setImmediate(turn) }
          return count
        }),
        (count) => Effect.sync(() => clearImmediate(count.next))
      )
      yield* effect
      return count.turns
    })
  )
