/**
 * What became of an effect under test: a value, a failure of the contract, or neither.
 *
 * @module
 */
import { Cause, Data, Duration, Effect, Exit, Option } from "effect"
import type { DeliveryError } from "../delivery/DeliveryError.js"

/** `Broken` is what no contract allows: the effect died, was interrupted, or never ended. */
export type Outcome<A> = Data.TaggedEnum<{
  Success: { readonly value: A }
  Failure: { readonly error: DeliveryError }
  Broken: { readonly problem: string }
}>
interface OutcomeDefinition extends Data.TaggedEnum.WithGenerics<1> {
  readonly taggedEnum: Outcome<this["A"]>
}
export const { $match: match, Broken, Failure, Success } = Data.taggedEnum<OutcomeDefinition>()

/** Waits for the effect; never fails. */
export const of = <A, R>(effect: Effect.Effect<A, DeliveryError, R>): Effect.Effect<Outcome<A>, never, R> =>
  Effect.map(Effect.exit(effect), Exit.match({ onSuccess: (value) => Success({ value }), onFailure: ofCause }))

/**
 * The same, but one that does not end within `patience`, by the caller's clock, is left behind: a case that hangs must fail,
 * not hang the run. `patience` begins anew each time that `progress` succeeds.
 */
export const within = <A, R>(
  effect: Effect.Effect<A, DeliveryError, R>,
  patience: Duration.DurationInput,
  progress: Effect.Effect<unknown> = Effect.never
): Effect.Effect<Outcome<A>, never, R> =>
  Effect.raceFirst(
    Effect.disconnect(of(effect)),
    progress.pipe(
      Effect.timeoutOption(patience),
      Effect.repeat({ while: Option.isSome }),
      Effect.as(Broken({ problem: `no outcome within ${Duration.format(patience)}` }))
    )
  )

const ofCause = (cause: Cause.Cause<DeliveryError>): Outcome<never> =>
  Option.match(Cause.failureOption(cause), {
    onSome: (error) => Failure({ error }),
    onNone: () =>
      Broken({
        problem: Cause.isInterruptedOnly(cause) ? "interrupted" : `died: ${Cause.prettyErrors(cause)[0]?.message ?? ""}`
      })
  })
