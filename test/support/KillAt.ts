import { Effect } from "effect"

/**
 * Counts the calls that go through it, and kills this process during the n-th as `SIGKILL` would at any moment, with no chance
 * to clean up: the call has left for the thread pool or the database, or is even done. 0 kills at none.
 */
export const killAt = (n: number) => {
  let calls = 0
  return <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      calls++
      if (calls !== n) return call
      return Effect.fork(Effect.interruptible(call)).pipe(
        Effect.zipRight(Effect.yieldNow()),
        Effect.zipRight(Effect.sync(() => process.kill(process.pid, "SIGKILL"))),
        Effect.zipRight(Effect.never)
      )
    })
}
