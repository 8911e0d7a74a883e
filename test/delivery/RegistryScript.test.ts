import { describe, expect, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Either, Exit, Fiber } from "effect"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import { RegistryClient } from "../../src/delivery/RegistryClient.js"
import * as Script from "../../src/delivery/RegistryScript.js"

const etag = `"${"a".repeat(64)}"`

describe("RegistryScript", () => {
  it.layer(Script.layer)((it) => {
    it.scoped("gives the queued replies in order and records every request", () =>
      Effect.gen(function* () {
        const script = yield* Script.RegistryScript
        const client = yield* RegistryClient
        yield* script.enqueue(Script.unchanged("r1", etag), Script.batch(Either.left(new DeliveryError.NetworkError())))
        yield* script.enqueue(Effect.fail(new DeliveryError.Timeout()))

        expect(yield* client.get({ containerId: "a", ifNoneMatch: etag })).toEqual({
          _tag: "Unchanged",
          revision: "r1",
          etag
        })
        expect((yield* client.batch([{ containerId: "a" }]))._tag).toBe("Batch")
        expect((yield* Effect.flip(client.get({ containerId: "b" })))._tag).toBe("TIMEOUT")
        expect(yield* script.requests).toEqual([
          { _tag: "Get", request: { containerId: "a", ifNoneMatch: etag } },
          { _tag: "Batch", requests: [{ containerId: "a" }] },
          { _tag: "Get", request: { containerId: "b" } }
        ])
      })
    )

    it.scoped("drops unused replies and says how many there were", () =>
      Effect.gen(function* () {
        const script = yield* Script.RegistryScript
        yield* script.enqueue(Script.unchanged("r1", etag), Script.unchanged("r2", etag))
        expect(yield* script.clear).toBe(2)
        expect(yield* script.clear).toBe(0)
      })
    )

    it.scoped("dies when nothing is queued, and when the reply does not fit the request", () =>
      Effect.gen(function* () {
        const script = yield* Script.RegistryScript
        const client = yield* RegistryClient
        const defect = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
          Effect.map(Effect.exit(effect), (exit) =>
            Exit.isFailure(exit) && Cause.isDie(exit.cause) ? String(Cause.squash(exit.cause)) : "no defect"
          )
        expect(yield* defect(client.get({ containerId: "a" }))).toContain('no reply queued for a get of "a"')
        yield* script.enqueue(Script.batch(), Script.unchanged("r1", etag))
        expect(yield* defect(client.get({ containerId: "a" }))).toContain("is a Batch")
        expect(yield* defect(client.batch([{ containerId: "a" }]))).toContain("is a Unchanged")
      })
    )

    it.effect("runs a reply in the scope of its request, so that a test sees the release", () =>
      Effect.gen(function* () {
        const script = yield* Script.RegistryScript
        const client = yield* RegistryClient
        const started = yield* Deferred.make<void>()
        const released = yield* Deferred.make<void>()
        yield* script.enqueue(
          Effect.acquireRelease(Deferred.succeed(started, undefined), () => Deferred.succeed(released, undefined)).pipe(
            Effect.zipRight(Effect.never)
          )
        )
        const fiber = yield* Effect.fork(Effect.scoped(client.get({ containerId: "a" })))
        yield* Deferred.await(started)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.await(released)
      })
    )
  })
})
