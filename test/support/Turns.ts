import { Effect, Fiber } from "effect"

/** How many turns of the event loop another fiber gets while `effect` runs, which has to succeed. */
export const turnsDuring = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    let turns = 0
    const other = yield* Effect.fork(
      Effect.forever(
        Effect.zipRight(
          turn,
          Effect.sync(() => turns++)
        )
      )
    )
    yield* effect
    yield* Fiber.interrupt(other)
    return turns
  })

/** One turn of the event loop, by other means than the codec's. */
const turn = Effect.async<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})
