import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import { InvocationSnapshot, layer, provide } from "../../src/delivery/InvocationSnapshot.js"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import * as Skills from "../support/Skills.js"

/** A delivery that checks on every acquire, over scripted replies. */
const delivery = SkillDelivery.layer({ container: "c", freshness: 0 }).pipe(Layer.provideMerge(RegistryScript.layer))

const published = (revision: string) => RegistryScript.snapshot(Skills.response(Skills.greeting, revision))

const script = Effect.flatMap(RegistryScript.RegistryScript, (script) =>
  Effect.as(script.enqueue(published("r1"), published("r2"), published("r3")), script)
)

describe("InvocationSnapshot.provide", () => {
  it.effect("acquires once, before the invocation runs, however often it is asked", () =>
    Effect.gen(function* () {
      const { requests } = yield* script
      const seen = yield* provide(
        Effect.all([InvocationSnapshot, InvocationSnapshot, requests], { concurrency: "unbounded" })
      )
      assert.strictEqual(seen[0], seen[1])
      assert.strictEqual(seen[2].length, 1)
      assert.strictEqual((yield* requests).length, 1)
    }).pipe(Effect.provide(delivery))
  )

  it.effect("keeps what it got while the delivery installs another revision; the next invocation gets that one", () =>
    Effect.gen(function* () {
      yield* script
      const acquired = yield* Deferred.make<void>()
      const refreshed = yield* Deferred.make<void>()
      const revision = Effect.map(InvocationSnapshot, (snapshot) => snapshot.revision)
      const invocation = yield* provide(
        Effect.all([revision, Deferred.succeed(acquired, undefined), Deferred.await(refreshed), revision])
      ).pipe(Effect.fork)

      yield* Deferred.await(acquired)
      const other = yield* provide(revision)
      yield* Deferred.succeed(refreshed, undefined)
      const [before, , , after] = yield* Fiber.join(invocation)

      assert.deepStrictEqual([before, after], ["r1", "r1"])
      assert.strictEqual(other, "r2")
      assert.strictEqual(yield* provide(revision), "r3")
    }).pipe(Effect.provide(delivery))
  )

  it.effect("fails with the acquire's error and runs nothing of the invocation", () =>
    Effect.gen(function* () {
      const script = yield* RegistryScript.RegistryScript
      yield* script.enqueue(RegistryScript.denied(new DeliveryError.RevisionRevoked({})))
      let ran = false
      const error = yield* provide(
        Effect.sync(() => {
          ran = true
        })
      ).pipe(Effect.flip)
      assert.strictEqual(error._tag, "REVISION_REVOKED")
      assert.isFalse(ran)
    }).pipe(Effect.provide(delivery))
  )
})

describe("InvocationSnapshot.layer", () => {
  it.effect("acquires when it is built, once for all that share the build", () =>
    Effect.gen(function* () {
      const { requests } = yield* script
      const seen = yield* Effect.provide(Effect.zip(InvocationSnapshot, InvocationSnapshot), layer)
      assert.strictEqual(seen[0].revision, "r1")
      assert.strictEqual(seen[0], seen[1])
      assert.strictEqual((yield* requests).length, 1)
    }).pipe(Effect.provide(delivery))
  )
})
