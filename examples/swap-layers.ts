import assert from "node:assert/strict"
import { Console, Effect, Layer, TestClock, TestContext } from "effect"
import { DeliveryError, RegistryScript, SkillArchive, SkillDelivery } from "effect-agent-contracts/delivery"

// The delivery is the real one; the registry behind it answers from a script.
const Delivery = SkillDelivery.layer({ container: "team-skills" }).pipe(Layer.provideMerge(RegistryScript.layer))

const test = Effect.gen(function* () {
  const script = yield* RegistryScript.RegistryScript
  const published = yield* SkillArchive.pack("r1", [
    { name: "greeting", description: "Greets people", files: { "SKILL.md": "Say hello." } }
  ])
  yield* script.enqueue(
    RegistryScript.snapshot(published),
    Effect.fail(new DeliveryError.NetworkError({})),
    RegistryScript.denied(new DeliveryError.RevisionRevoked({}))
  )

  yield* SkillDelivery.acquire
  yield* SkillDelivery.acquire
  assert.equal((yield* script.requests).length, 1, "a fresh snapshot is not asked for again")

  yield* TestClock.adjust("5 seconds")
  const held = yield* SkillDelivery.acquire
  const status = yield* SkillDelivery.status
  assert.deepEqual(
    [held.revision, status.stale],
    ["r1", true],
    "an unreachable registry leaves the held snapshot, stale"
  )

  const denied = yield* Effect.flip(SkillDelivery.acquire)
  assert.equal(denied._tag, "REVISION_REVOKED", "a denial blocks")
  yield* Console.log("passed")
})

// `it.effect` of @effect/vitest provides the TestContext itself.
await test.pipe(Effect.provide(Layer.provideMerge(Delivery, TestContext.TestContext)), Effect.runPromise)
