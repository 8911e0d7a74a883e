import { describe, expect, it } from "@effect/vitest"
import { type Clock, Effect, TestClock } from "effect"
import * as RateLimit from "../../../src/registry/RateLimit.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"

const outcomes = (take: RateLimit.RateLimit["take"], key: string, times: number) =>
  Effect.all(
    Array.from({ length: times }, () =>
      Effect.match(take(key), { onFailure: (error) => error.retryAfterSeconds, onSuccess: () => "taken" as const })
    )
  )

describe("a rate limit", () => {
  it.effect("lets a burst through, then says when the next request is welcome", () =>
    Effect.gen(function* () {
      const { take } = RateLimit.make({ requests: 3, per: "30 seconds" })
      expect(yield* outcomes(take, "a", 4)).toEqual(["taken", "taken", "taken", 10])
      yield* TestClock.adjust("9 seconds")
      expect(yield* outcomes(take, "a", 1)).toEqual([1])
      yield* TestClock.adjust("1 second")
      expect(yield* outcomes(take, "a", 2)).toEqual(["taken", 10])
      yield* TestClock.adjust("1 hour")
      expect(yield* outcomes(take, "a", 4)).toEqual(["taken", "taken", "taken", 10])
    })
  )

  it.effect("is each key's own", () =>
    Effect.gen(function* () {
      const { take } = RateLimit.make({ requests: 1, per: "1 minute" })
      expect(yield* outcomes(take, "a", 2)).toEqual(["taken", 60])
      expect(yield* outcomes(take, "b", 2)).toEqual(["taken", 60])
    })
  )

  it.effect("takes exactly its number of requests when they do not divide the time evenly", () =>
    Effect.gen(function* () {
      const { take } = RateLimit.make({ requests: 7, per: "1 second" })
      for (let round = 0; round < 50; round++) {
        const taken = (yield* outcomes(take, "a", 9)).filter((outcome) => outcome === "taken")
        expect(taken.length).toBe(7)
        yield* TestClock.adjust("1 second")
      }
    })
  )

  it.effect("does not lock a key out when the clock is set back", () =>
    Effect.gen(function* () {
      const { take } = RateLimit.make({ requests: 2, per: "10 seconds" })
      yield* TestClock.setTime(86_400_000)
      expect(yield* outcomes(take, "a", 2)).toEqual(["taken", "taken"])
      yield* TestClock.adjust("5 seconds")
      const clock = yield* Effect.clock
      const setBack: Clock.Clock = Object.assign(Object.create(clock), {
        unsafeCurrentTimeMillis: () => 0,
        currentTimeMillis: Effect.succeed(0),
        unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos()
      })
      expect(yield* Effect.withClock(outcomes(take, "a", 2), setBack)).toEqual(["taken", 5])
    })
  )

  it.scoped("answers 429 with Retry-After in both envelopes, the conditional path included, under the clock", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ rateLimit: { requests: 4, per: "40 seconds" } })
      yield* registry.publish("a")
      const asks = [
        registry.request("/api/v1/learning/containers/a/skills", { headers: { "if-none-match": '"x"' } }),
        registry.request("/api/v1/learning/containers/a/skills"),
        registry.request("/api/v1/learning/containers"),
        registry.request("/v1/skills")
      ]
      for (const ask of asks) {
        const response = yield* ask
        expect(response.status).toBe(200)
        yield* Effect.promise(() => response.arrayBuffer())
      }
      yield* TestClock.adjust("4 seconds")
      for (const ask of asks) {
        const response = yield* ask
        expect(response.headers.get("retry-after")).toBe("6")
        expect(yield* HttpRegistry.refusalOf(response)).toEqual([429, "NETWORK_ERROR"])
      }
      const another = yield* registry.issue("publish")
      const elsewhere = yield* registry.request("/v1/skills", { headers: { "x-api-key": another } })
      expect(elsewhere.status).toBe(200)
      yield* TestClock.adjust("6 seconds")
      expect((yield* registry.request("/v1/skills")).status).toBe(200)
    })
  )
})
