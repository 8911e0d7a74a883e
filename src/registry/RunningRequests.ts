/**
 * The requests that a server answers at the moment, which a stop waits for.
 *
 * @module
 */
import { Effect } from "effect"

/** None run yet. */
export const make = () => {
  const idle = Effect.unsafeMakeLatch(false)
  let running = 0
  let stopping = false
  const left = Effect.sync(() => {
    if (--running === 0 && stopping) idle.unsafeOpen()
  })
  return {
    isStopping: () => stopping,
    count: () => running,
    counted: <A, E, R>(app: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        running++
        return Effect.ensuring(app, left)
      }),
    /** Takes nothing more; done when nothing runs. */
    stop: Effect.suspend(() => {
      stopping = true
      // What closes a scope cannot be interrupted, and a grace that cannot interrupt never ends.
      return running === 0 ? Effect.void : Effect.interruptible(idle.await)
    })
  }
}
