/**
 * How often a key may ask. Per server: several servers behind a balancer each allow the rate.
 *
 * @module
 */
import { Clock, Duration, Effect, Schema } from "effect"

/** At most `requests` at once, and as many again every `per`. */
export interface Rate {
  readonly requests: number
  readonly per: Duration.DurationInput
}

/** The key asks too often. The same request is welcome after `retryAfterSeconds`. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RATE_LIMITED", {
  retryAfterSeconds: Schema.Number
}) {
  override get message(): string {
    return `This key asks too often. Ask again in ${this.retryAfterSeconds} s.`
  }
}

/** Holds a number for each key that it has seen. */
export interface RateLimit {
  /** Takes one request of a key, or fails. */
  readonly take: (keyId: string) => Effect.Effect<void, RateLimited>
  /** Takes one if it is not too early, and says whether it did; runs no effect. `now` is on the monotonic clock, in nanoseconds. */
  readonly unsafeTake: (keyId: string, now: bigint) => boolean
}

/**
 * A limit that every key has for itself.
 *
 * The generic cell rate algorithm: a key's `due` is when all it has asked so far would have been asked at an even rate. On the
 * monotonic clock, since one that is set back would lock every key out.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as RateLimit from "./RateLimit.js"
 *
 * const { take } = RateLimit.make({ requests: 1, per: "1 minute" })
 * Effect.runPromise(Effect.flip(Effect.zipRight(take("a"), take("a")))).then(console.log) // RATE_LIMITED, in 60 s
 * ```
 */
export const make = ({ per, requests }: Rate): RateLimit => {
  const span = Duration.toMillis(per)
  const interval = span / requests
  const due = new Map<string, number>()
  /** Milliseconds by which a request comes too early; it is taken when it does not. */
  const ask = (keyId: string, nanos: bigint): number => {
    const now = Number(nanos) / 1_000_000
    const before = Math.max(due.get(keyId) ?? now, now)
    const early = before + interval - span - now
    // Sums of fractions come out a little off.
    const isEarly = early > 0.001
    due.set(keyId, isEarly ? before : before + interval)
    return isEarly ? early : 0
  }
  return {
    take: (keyId) =>
      Clock.clockWith((clock) => {
        const early = ask(keyId, clock.unsafeCurrentTimeNanos())
        return early > 0 ? new RateLimited({ retryAfterSeconds: Math.ceil(early / 1000) }) : Effect.void
      }),
    unsafeTake: (keyId, now) => ask(keyId, now) === 0
  }
}
