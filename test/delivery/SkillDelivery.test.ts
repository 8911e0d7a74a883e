import { assert, describe, it } from "@effect/vitest"
import {
  Cause,
  Chunk,
  ConfigProvider,
  Context,
  DateTime,
  Deferred,
  Duration,
  Effect,
  Either,
  Exit,
  Fiber,
  Layer,
  Option,
  Schema,
  Scope,
  Stream,
  TestClock
} from "effect"
import type { YieldWrap } from "effect/Utils"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import * as DeliveryStatus from "../../src/delivery/DeliveryStatus.js"
import { RegistryClient } from "../../src/delivery/RegistryClient.js"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import * as SnapshotRecord from "../../src/delivery/SnapshotRecord.js"
import { delivery, entry, latched, r1, r2, r3, snapshot, unchanged, unchangedEntry } from "../support/Script.js"
import * as Skills from "../support/Skills.js"

const container = "team"

/** Runs with a scripted registry of its own. */
const scripted = <A, E>(
  name: string,
  body: () => Effect.Effect<A, E, Scope.Scope | RegistryScript.RegistryScript | RegistryClient>
) => it.scoped(name, () => Effect.provide(body(), RegistryScript.layer))

describe("freshness", () => {
  scripted("an acquire asks at the window's end and after it, not before", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* skills.enqueue(snapshot(r1), unchanged(r1), snapshot(r2))
      assert.strictEqual(yield* skills.revision, "r1")
      yield* TestClock.adjust(4_999)
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual(yield* skills.requestCount, 1)
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual(yield* skills.requestCount, 2)
      yield* TestClock.adjust(5_001)
      assert.strictEqual(yield* skills.revision, "r2")
      assert.strictEqual(yield* skills.requestCount, 3)
    })
  )

  scripted("a window of 0 asks at every acquire", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(snapshot(r1), unchanged(r1), unchanged(r1))
      yield* Effect.repeatN(skills.acquire, 2)
      assert.strictEqual(yield* skills.requestCount, 3)
    })
  )

  scripted("a clock that went back counts as expired", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* TestClock.setTime(10_000)
      yield* skills.enqueue(snapshot(r1), unchanged(r1))
      yield* skills.acquire
      yield* TestClock.setTime(9_999)
      yield* skills.acquire
      assert.strictEqual(yield* skills.requestCount, 2)
    })
  )

  scripted("the window starts when the result is installed, not when it was asked for", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const slow = yield* latched(snapshot(r1))
      yield* skills.enqueue(slow.reply)
      const fiber = yield* Effect.fork(skills.acquire)
      yield* slow.started
      yield* TestClock.adjust(3_000)
      yield* slow.open
      yield* Fiber.join(fiber)
      assert.deepStrictEqual((yield* skills.status).lastCheckedAt, DateTime.unsafeMake(3_000))
      yield* TestClock.adjust(4_999)
      yield* skills.acquire
      assert.strictEqual(yield* skills.requestCount, 1)
    })
  )

  scripted("initialize asks ahead of the first acquire, which then asks no more, and fails as it would", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* skills.enqueue(new DeliveryError.NetworkError({}), snapshot(r1))
      assert.strictEqual((yield* Effect.flip(skills.initialize))._tag, "NETWORK_ERROR")
      assert.strictEqual(yield* skills.initialize, undefined)
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual(yield* skills.requestCount, 2)
    })
  )

  scripted("an unchanged answer and an equal snapshot keep the held value", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(snapshot(r1), unchanged(r1), snapshot(r1))
      const first = yield* skills.acquire
      assert.strictEqual(yield* skills.acquire, first)
      assert.strictEqual(yield* skills.acquire, first)
      const [cold, ...conditional] = yield* skills.requests
      assert.deepStrictEqual(cold, { _tag: "Get", request: { containerId: container } })
      assert.deepStrictEqual(conditional, [
        { _tag: "Get", request: { containerId: container, ifNoneMatch: r1.etag } },
        { _tag: "Get", request: { containerId: container, ifNoneMatch: r1.etag } }
      ])
    })
  )
})

describe("failure", () => {
  scripted("trouble with nothing held fails, leaves the delivery uninitialized, and the next acquire asks", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* skills.enqueue(new DeliveryError.NetworkError({}), snapshot(r1))
      assert.strictEqual(yield* skills.code, "NETWORK_ERROR")
      const status = yield* skills.status
      assert.strictEqual(status.initialized, false)
      assert.strictEqual(status.stale, false)
      assert.strictEqual(status.lastError?.code, "NETWORK_ERROR")
      assert.strictEqual(status.lastCheckedAt, undefined)
      assert.strictEqual(yield* skills.requestCount, 1)
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual((yield* skills.status).lastError, undefined)
    })
  )

  for (const error of [
    new DeliveryError.NetworkError({}),
    new DeliveryError.Timeout({}),
    new DeliveryError.InvalidSnapshot({}),
    new DeliveryError.UnsupportedServer({})
  ]) {
    scripted(`${error._tag} with a snapshot held delivers it, stale, and the next acquire asks`, () =>
      Effect.gen(function* () {
        const skills = yield* delivery({ container })
        yield* skills.enqueue(snapshot(r1), error, error, unchanged(r1))
        yield* skills.acquire
        yield* TestClock.adjust(5_000)
        assert.strictEqual(yield* skills.revision, "r1")
        const status = yield* skills.status
        assert.strictEqual(status.stale, true)
        assert.strictEqual(status.lastError?.code, error._tag)
        assert.deepStrictEqual(status.lastCheckedAt, DateTime.unsafeMake(0))
        assert.strictEqual(yield* skills.revision, "r1")
        assert.strictEqual(yield* skills.requestCount, 3)
        yield* skills.acquire
        const recovered = yield* skills.status
        assert.strictEqual(recovered.stale, false)
        assert.strictEqual(recovered.lastError, undefined)
        assert.deepStrictEqual(recovered.lastCheckedAt, DateTime.unsafeMake(5_000))
      })
    )
  }

  scripted("trouble that the clock puts back inside the window is asked about again", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* TestClock.setTime(10_000)
      yield* skills.enqueue(snapshot(r1), new DeliveryError.NetworkError({}), unchanged(r1))
      yield* skills.acquire
      yield* TestClock.setTime(0)
      yield* skills.acquire
      yield* TestClock.setTime(10_001)
      yield* skills.acquire
      assert.strictEqual(yield* skills.requestCount, 3)
    })
  )

  scripted("a snapshot that breaks a rule is trouble and is never installed", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(snapshot(r1), snapshot({ ...r2, etag: r3.etag }))
      yield* skills.acquire
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual((yield* skills.status).lastError?.code, "INVALID_SNAPSHOT")
    })
  )

  scripted("an unchanged answer for anything else than what is held is refused", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(
        unchanged(r1),
        snapshot(r1),
        unchanged(r2),
        RegistryScript.unchanged("r2", r1.etag),
        RegistryScript.unchanged("r1", r2.etag)
      )
      assert.strictEqual(yield* skills.code, "INVALID_SNAPSHOT")
      yield* skills.acquire
      for (const _ of [1, 2, 3]) {
        assert.strictEqual(yield* skills.revision, "r1")
        const status = yield* skills.status
        assert.strictEqual(status.stale, true)
        assert.strictEqual(status.lastError?.code, "INVALID_SNAPSHOT")
      }
    })
  )

  scripted("a defect of the client reaches the caller, and the next acquire asks", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* skills.enqueue(Effect.die("bug"), snapshot(r1))
      const exit = yield* Effect.exit(skills.acquire)
      assert.isTrue(Exit.isFailure(exit) && Cause.isDie(exit.cause))
      assert.strictEqual(yield* skills.revision, "r1")
    })
  )
})

describe("a client that goes wrong", () => {
  scripted("by interrupting itself is trouble", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(snapshot(r1), Effect.interrupt)
      yield* skills.acquire
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual((yield* skills.status).lastError?.code, "NETWORK_ERROR")
    })
  )

  scripted("after it has denied leaves the denial", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(
        snapshot(r1),
        RegistryScript.denied(new DeliveryError.RevisionRevoked({}), Effect.die("bug")),
        new DeliveryError.NetworkError({})
      )
      yield* skills.acquire
      assert.isTrue(Exit.isFailure(yield* Effect.exit(skills.acquire)))
      assert.strictEqual((yield* skills.status).lastError?.code, "REVISION_REVOKED")
      assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
    })
  )
})

describe("denial", () => {
  const denials = DeliveryError.Denial.members.map((member) => DeliveryError.fromCode(member._tag))
  for (const denial of [...denials, DeliveryError.fromCode("INVALID_CONFIG")]) {
    scripted(`${denial._tag} blocks until a check succeeds`, () =>
      Effect.gen(function* () {
        const skills = yield* delivery({ container })
        yield* skills.enqueue(snapshot(r1), denial, new DeliveryError.NetworkError({}), unchanged(r1))
        yield* skills.acquire
        yield* TestClock.adjust(5_000)
        assert.strictEqual(yield* skills.code, denial._tag)
        const blocked = yield* skills.status
        assert.strictEqual(blocked.stale, false)
        assert.strictEqual(blocked.lastError?.code, denial._tag)
        assert.strictEqual(blocked.initialized, true)
        // An unreachable server cannot undo it.
        assert.strictEqual(yield* skills.code, denial._tag)
        assert.deepStrictEqual(yield* skills.status, blocked)
        assert.strictEqual(yield* skills.requestCount, 3)
        assert.strictEqual(yield* skills.revision, "r1")
        const recovered = yield* skills.status
        assert.strictEqual(recovered.lastError, undefined)
        assert.strictEqual(recovered.stale, false)
      })
    )
  }

  scripted("a denial replaces stale trouble, and another denial replaces it", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(
        snapshot(r1),
        new DeliveryError.NetworkError({}),
        new DeliveryError.RevisionRevoked({}),
        new DeliveryError.DeliveryDisabled({})
      )
      yield* skills.acquire
      yield* skills.acquire
      assert.strictEqual((yield* skills.status).stale, true)
      assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
      assert.strictEqual((yield* skills.status).stale, false)
      assert.strictEqual(yield* skills.code, "DELIVERY_DISABLED")
      assert.strictEqual((yield* skills.status).lastError?.code, "DELIVERY_DISABLED")
    })
  )

  scripted("a denial without a snapshot fails and leaves the delivery uninitialized", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* skills.enqueue(new DeliveryError.ContainerNotFound({}))
      assert.strictEqual(yield* skills.code, "CONTAINER_NOT_FOUND")
      assert.strictEqual((yield* skills.status).initialized, false)
    })
  )

  scripted("a denial that refuses to soften: retryable of the server changes nothing", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(snapshot(r1), new DeliveryError.RevisionRevoked({ retryable: true }))
      yield* skills.acquire
      assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
      assert.strictEqual((yield* skills.status).lastError?.retryable, true)
    })
  )

  scripted("the body of a denial may make it more exact", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const exact = new DeliveryError.EntitlementRequired({})
      yield* skills.enqueue(RegistryScript.denied(new DeliveryError.AuthorizationFailed({}), Effect.succeed(exact)))
      assert.strictEqual(yield* skills.code, "ENTITLEMENT_REQUIRED")
    })
  )

  scripted("a denial whose body never comes holds at the deadline", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const body = yield* Deferred.make<void>()
      const stalled = Effect.zipRight(Deferred.succeed(body, undefined), Effect.never)
      yield* skills.enqueue(RegistryScript.denied(new DeliveryError.AuthorizationFailed({}), stalled))
      const fiber = yield* Effect.fork(skills.code)
      yield* Deferred.await(body)
      yield* TestClock.adjust(5_000)
      assert.strictEqual(yield* Fiber.join(fiber), "AUTHORIZATION_FAILED")
    })
  )
})

describe("pin", () => {
  const pinned = { container, revision: "r1", freshness: 0 }

  scripted("its revision goes with every request and never advances", () =>
    Effect.gen(function* () {
      const skills = yield* delivery(pinned)
      yield* skills.enqueue(snapshot(r2), snapshot(r1), snapshot(r2), RegistryScript.unchanged("r2", r1.etag))
      assert.strictEqual(yield* skills.code, "INVALID_SNAPSHOT")
      assert.strictEqual((yield* skills.status).mode, "pinned")
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual((yield* skills.status).stale, true)
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual((yield* skills.status).lastError?.code, "INVALID_SNAPSHOT")
      for (const asked of yield* skills.requests) {
        assert.strictEqual(asked._tag === "Get" ? asked.request.revision : undefined, "r1")
      }
    })
  )
})

describe("sharing", () => {
  scripted("ten thousand concurrent acquires make one request and get one value", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const slow = yield* latched(snapshot(r1))
      yield* skills.enqueue(slow.reply)
      const fiber = yield* Effect.fork(
        Effect.all(
          Array.from({ length: 10_000 }, () => skills.acquire),
          { concurrency: "unbounded" }
        )
      )
      yield* slow.started
      yield* slow.open
      const snapshots = yield* Fiber.join(fiber)
      assert.strictEqual(new Set(snapshots).size, 1)
      assert.strictEqual(yield* skills.requestCount, 1)
    })
  )

  scripted("who joins late shares the deadline of the check", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const slow = yield* latched(snapshot(r1))
      yield* skills.enqueue(slow.reply)
      const first = yield* Effect.fork(skills.code)
      yield* slow.started
      yield* TestClock.adjust(4_999)
      const late = yield* Effect.fork(skills.code)
      yield* Effect.yieldNow()
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* Fiber.join(first), "TIMEOUT")
      assert.strictEqual(yield* Fiber.join(late), "TIMEOUT")
      assert.strictEqual(yield* skills.requestCount, 1)
    })
  )

  scripted("a failure of the shared check reaches all, and none asks again by itself", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const slow = yield* latched(new DeliveryError.NetworkError({}))
      yield* skills.enqueue(slow.reply)
      const fiber = yield* Effect.fork(
        Effect.all(
          Array.from({ length: 100 }, () => skills.code),
          { concurrency: "unbounded" }
        )
      )
      yield* slow.started
      yield* slow.open
      assert.deepStrictEqual(new Set(yield* Fiber.join(fiber)), new Set(["NETWORK_ERROR"]))
      assert.strictEqual(yield* skills.requestCount, 1)
    })
  )
})

describe("timeout", () => {
  scripted("interrupts the request, and its late answer never installs", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0, timeout: "2 seconds" })
      const released = yield* Deferred.make<void>()
      const deaf = yield* latched(snapshot(r2))
      const released2 = Deferred.succeed(released, undefined)
      // Deaf to interruption until it has its answer: as late as an answer can come.
      yield* skills.enqueue(
        snapshot(r1),
        deaf.reply.pipe(Effect.uninterruptible, Effect.ensuring(released2)),
        unchanged(r1)
      )
      yield* skills.acquire
      const fiber = yield* Effect.fork(skills.revision)
      yield* deaf.started
      yield* TestClock.adjust(1_999)
      assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* Fiber.join(fiber), "r1")
      const status = yield* skills.status
      assert.strictEqual(status.lastError?.code, "TIMEOUT")
      assert.strictEqual(status.lastError?.retryable, true)
      yield* deaf.open
      yield* Deferred.await(released)
      assert.deepStrictEqual(yield* skills.status, status)
      assert.strictEqual(yield* skills.revision, "r1")
    })
  )

  scripted("a hanging request is interrupted", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const hanging = yield* latched(Effect.never)
      yield* skills.enqueue(hanging.reply)
      const fiber = yield* Effect.fork(skills.code)
      yield* hanging.started
      yield* TestClock.adjust(5_000)
      assert.strictEqual(yield* Fiber.join(fiber), "TIMEOUT")
      yield* hanging.interrupted
    })
  )
})

describe("interruption", () => {
  scripted("a caller leaves at once and the others go on", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const slow = yield* latched(snapshot(r1))
      yield* skills.enqueue(slow.reply)
      const first = yield* Effect.fork(skills.revision)
      yield* slow.started
      const second = yield* Effect.fork(skills.revision)
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(first)
      yield* slow.open
      assert.strictEqual(yield* Fiber.join(second), "r1")
      assert.strictEqual(yield* skills.requestCount, 1)
    })
  )

  scripted("the last caller's interrupts the request and changes no status", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      const slow = yield* latched(snapshot(r2))
      yield* skills.enqueue(snapshot(r1), new DeliveryError.NetworkError({}), slow.reply, unchanged(r1))
      yield* skills.acquire
      yield* skills.acquire
      const before = yield* skills.status
      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.fork(skills.acquire))
      yield* slow.started
      yield* Fiber.interruptAll(fibers)
      yield* slow.interrupted
      assert.deepStrictEqual(yield* skills.status, before)
      assert.strictEqual(yield* skills.revision, "r1")
      assert.strictEqual(yield* skills.requestCount, 4)
    })
  )

  scripted("returns at once though the request is deaf to it, and the next acquire starts a fresh check", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const deaf = yield* latched(snapshot(r1))
      const wound = yield* Deferred.make<void>()
      yield* skills.enqueue(
        deaf.reply.pipe(Effect.uninterruptible, Effect.ensuring(Deferred.succeed(wound, undefined))),
        snapshot(r2)
      )
      const fiber = yield* Effect.fork(skills.acquire)
      yield* deaf.started
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* skills.revision, "r2")
      yield* deaf.open
      yield* Deferred.await(wound)
      assert.strictEqual(yield* skills.revision, "r2")
      assert.strictEqual(yield* skills.requestCount, 2)
    })
  )

  scripted("records a denial whose head had arrived", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      const reading = yield* Deferred.make<void>()
      const stalled = Effect.zipRight(Deferred.succeed(reading, undefined), Effect.never)
      yield* skills.enqueue(
        snapshot(r1),
        RegistryScript.denied(new DeliveryError.AuthorizationFailed({}), stalled),
        new DeliveryError.NetworkError({})
      )
      yield* skills.acquire
      const fiber = yield* Effect.fork(skills.acquire)
      yield* Deferred.await(reading)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual((yield* skills.status).lastError?.code, "AUTHORIZATION_FAILED")
      assert.strictEqual(yield* skills.code, "AUTHORIZATION_FAILED")
    })
  )

  scripted("of ten thousand waiting callers one by one leaves nothing behind", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const slow = yield* latched(snapshot(r1))
      yield* skills.enqueue(slow.reply, snapshot(r2))
      const fibers = yield* Effect.forEach(Array.from({ length: 10_000 }), () => Effect.fork(skills.acquire))
      yield* slow.started
      yield* Fiber.interruptAll(fibers)
      yield* slow.interrupted
      assert.strictEqual(yield* skills.revision, "r2")
      assert.strictEqual(yield* skills.requestCount, 2)
    })
  )

  scripted("of an acquire in an uninterruptible region still lets the check time out", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      const hanging = yield* latched(Effect.never)
      yield* skills.enqueue(hanging.reply)
      const fiber = yield* Effect.fork(Effect.uninterruptible(skills.code))
      yield* hanging.started
      yield* TestClock.adjust(5_000)
      assert.strictEqual(yield* Fiber.join(fiber), "TIMEOUT")
    })
  )
})

describe("the layer", () => {
  scripted("sends nothing when it is built", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      assert.strictEqual(yield* skills.requestCount, 0)
      assert.deepStrictEqual(yield* skills.status, { initialized: false, mode: "latest", stale: false })
    })
  )

  scripted("interrupts the request and every caller when it closes", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const skills = yield* Scope.extend(delivery({ container }), scope)
      const hanging = yield* latched(Effect.never)
      yield* skills.enqueue(hanging.reply)
      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.fork(skills.acquire))
      yield* hanging.started
      yield* Scope.close(scope, Exit.void)
      yield* hanging.interrupted
      for (const fiber of fibers) {
        const exit = yield* Fiber.await(fiber)
        assert.isTrue(Exit.isInterrupted(exit))
      }
      assert.isTrue(Exit.isInterrupted(yield* Effect.exit(skills.acquire)))
      assert.strictEqual(yield* skills.requestCount, 1)
    })
  )

  const refused: ReadonlyArray<readonly [string, SkillDelivery.Options, string]> = [
    ["a blank container", { container: " " }, "container"],
    ["a container named ..", { container: ".." }, "container"],
    ["a blank revision", { container, revision: "" }, "revision"],
    ["an empty list", { containers: [] }, "containers"],
    ["a container given twice", { containers: ["a", { container: "a", revision: "r1" }] }, "containers"],
    ["51 containers", { containers: Array.from({ length: 51 }, (_, index) => `c${index}`) }, "containers"],
    ["an infinite window", { container, freshness: Duration.infinity }, "freshness"],
    ["a timeout of 0", { container, timeout: 0 }, "timeout"],
    ["an infinite timeout", { container, timeout: Duration.infinity }, "timeout"],
    // As JavaScript may call it.
    ["nothing at all", {} as SkillDelivery.Options, "container"],
    ["a pin beside a list", { containers: ["a"], revision: "r1" } as unknown as SkillDelivery.Options, "containers"],
    ["a list that is no list", { containers: "a" } as unknown as SkillDelivery.Options, "containers"],
    ["a timeout that is no duration", { container, timeout: "soon" as unknown as number }, "timeout"]
  ]
  for (const [what, options, setting] of refused) {
    scripted(`refuses ${what}, naming the setting`, () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(SkillDelivery.make(options))
        assert.strictEqual(error._tag, "INVALID_CONFIG")
        assert.strictEqual(error.setting, setting)
      })
    )
  }

  scripted("an empty container is a success without skills", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* skills.enqueue(snapshot(Skills.response({}, "empty")))
      assert.deepStrictEqual((yield* skills.acquire).skills, [])
      assert.strictEqual((yield* skills.status).initialized, true)
    })
  )
})

describe("the layer from the environment", () => {
  const build = (variables: Record<string, string>, options?: SkillDelivery.ConfigOptions) =>
    Layer.build(SkillDelivery.layerConfig(options)).pipe(
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(variables)))),
      Effect.map(Context.get(SkillDelivery.SkillDelivery))
    )
  const id = "CPK_INTELLIGENCE_LEARNING_CONTAINER_ID"
  const pin = "CPK_INTELLIGENCE_SKILLS_REVISION"

  scripted("takes the container and its pin", () =>
    Effect.gen(function* () {
      const script = yield* RegistryScript.RegistryScript
      yield* script.enqueue(snapshot(r1))
      yield* (yield* build({ [id]: container, [pin]: "r1" })).acquire
      assert.deepStrictEqual(yield* script.requests, [
        { _tag: "Get", request: { containerId: container, revision: "r1" } }
      ])
    })
  )

  scripted("reads neither for an explicit list", () =>
    Effect.gen(function* () {
      const script = yield* RegistryScript.RegistryScript
      yield* script.enqueue(RegistryScript.batch(Either.right(entry(r2))))
      yield* (yield* build({ [id]: container, [pin]: "r1" }, { containers: ["a"] })).acquire
      assert.deepStrictEqual(yield* script.requests, [{ _tag: "Batch", requests: [{ containerId: "a" }] }])
    })
  )

  for (const [what, variables, setting] of [
    ["a missing container", {}, id],
    ["a blank container", { [id]: " " }, id],
    ["a blank pin", { [id]: container, [pin]: "" }, pin]
  ] as const) {
    scripted(`refuses ${what}, naming the variable`, () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(build(variables))
        assert.strictEqual(error._tag, "INVALID_CONFIG")
        assert.strictEqual(error.setting, setting)
      })
    )
  }
})

it.scoped("a failure of a whole list names the container that it is said of", () =>
  Effect.gen(function* () {
    const skills = yield* delivery({ containers: ["a", "b"] })
    yield* skills.enqueue(
      new DeliveryError.NetworkError({}),
      RegistryScript.batch(Either.right(entry(r1)), Either.left(new DeliveryError.Timeout({ timeoutMs: 1 })))
    )
    assert.strictEqual((yield* Effect.flip(skills.acquire)).container, "a")
    assert.strictEqual((yield* Effect.flip(skills.acquire)).container, "b")
  }).pipe(Effect.provide(RegistryScript.layer))
)

it.scoped("a client that answers for too few containers gives nobody a snapshot", () =>
  Effect.gen(function* () {
    const client = yield* Effect.provide(RegistryClient, RegistryScript.layer)
    const short: typeof client = {
      ...client,
      batch: () => Effect.succeed({ _tag: "Batch", replies: [Either.right(entry(r1))] })
    }
    const skills = yield* SkillDelivery.make({ containers: ["a", "b"] }).pipe(
      Effect.provideService(RegistryClient, short)
    )
    const error = yield* Effect.flip(skills.acquire)
    assert.deepStrictEqual([error._tag, "check" in error && error.check], ["INVALID_SNAPSHOT", "batch-shape"])
  })
)

describe("durations", () => {
  for (const [setting, input] of [
    ["freshness", -1],
    ["freshness", Number.NaN],
    ["freshness", -5n],
    ["freshness", "-5 seconds"],
    ["freshness", [-1, 0]],
    ["freshness", "Infinity"],
    ["timeout", -1],
    ["timeout", 0]
  ] as const) {
    scripted(
      `a ${setting} of ${JSON.stringify(input, (_, value) => (typeof value === "object" ? value : String(value)))} is refused`,
      () =>
        Effect.gen(function* () {
          const error = yield* Effect.flip(SkillDelivery.make({ container, [setting]: input }))
          assert.strictEqual(error.setting, setting)
        })
    )
  }
})

describe("a list of containers", () => {
  const containers = ["a", { container: "b/ü", revision: "r2" }] as const
  const list = { containers, freshness: 5_000 }

  scripted("is one batch request and one combined snapshot with qualified names", () =>
    Effect.gen(function* () {
      const skills = yield* delivery(list)
      yield* skills.enqueue(RegistryScript.batch(Either.right(entry(r1)), Either.right(entry(r2))))
      const acquired = yield* skills.acquire
      assert.deepStrictEqual(
        acquired.skills.map((skill) => skill.name),
        ["a/greeting", "b%2F%C3%BC/greeting"]
      )
      assert.match(acquired.revision, /^multi:[0-9a-f]{64}$/)
      assert.strictEqual(acquired.etag, `"${acquired.revision.slice("multi:".length)}"`)
      assert.deepStrictEqual(yield* skills.requests, [
        { _tag: "Batch", requests: [{ containerId: "a" }, { containerId: "b/ü", revision: "r2" }] }
      ])
      const status = yield* skills.status
      assert.strictEqual(status.initialized, true)
      assert.strictEqual(status.revision, undefined)
      assert.strictEqual(status.mode, "latest")
      assert.deepStrictEqual(
        status.containers?.map(({ containerId, mode, revision }) => ({ containerId, mode, revision })),
        [
          { containerId: "a", mode: "latest", revision: "r1" },
          { containerId: "b/ü", mode: "pinned", revision: "r2" }
        ]
      )
    })
  )

  scripted("of one is still a batch with qualified names", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ containers: ["a"] })
      yield* skills.enqueue(RegistryScript.batch(Either.right(entry(r1))))
      assert.deepStrictEqual(
        (yield* skills.acquire).skills.map((skill) => skill.name),
        ["a/greeting"]
      )
    })
  )

  scripted("gives the same value while no part changes", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ ...list, freshness: 0 })
      yield* skills.enqueue(
        RegistryScript.batch(Either.right(entry(r1)), Either.right(entry(r2))),
        RegistryScript.batch(Either.right(unchangedEntry(r1)), Either.right(entry(r2))),
        RegistryScript.batch(Either.right(entry(r3)), Either.right(unchangedEntry(r2)))
      )
      const first = yield* skills.acquire
      assert.strictEqual(yield* skills.acquire, first)
      assert.notStrictEqual(yield* skills.acquire, first)
    })
  )

  scripted("keeps good parts, fails as a whole, and asks again only for those that need it", () =>
    Effect.gen(function* () {
      const skills = yield* delivery(list)
      yield* skills.enqueue(
        RegistryScript.batch(Either.right(entry(r1)), Either.left(new DeliveryError.NetworkError({}))),
        RegistryScript.batch(Either.right(entry(r2)))
      )
      assert.strictEqual(yield* skills.code, "NETWORK_ERROR")
      const status = yield* skills.status
      assert.strictEqual(status.initialized, false)
      assert.strictEqual(status.lastCheckedAt, undefined)
      assert.strictEqual(status.containers?.[0]?.initialized, true)
      yield* skills.acquire
      assert.deepStrictEqual((yield* skills.requests)[1], {
        _tag: "Batch",
        requests: [{ containerId: "b/ü", revision: "r2" }]
      })
    })
  )

  scripted("fails with the first denial in list order before any cold failure", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ containers: ["a", "b", "c"] })
      yield* skills.enqueue(
        RegistryScript.batch(
          Either.left(new DeliveryError.NetworkError({})),
          Either.left(new DeliveryError.RevisionRevoked({})),
          Either.left(new DeliveryError.ContainerNotFound({}))
        )
      )
      assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
      assert.strictEqual((yield* skills.status).lastError?.code, "REVISION_REVOKED")
    })
  )

  scripted("a bad archive concerns its own container only and names it", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ containers: ["a", "b"] })
      yield* skills.enqueue(
        RegistryScript.batch(Either.right(entry({ ...r1, etag: r3.etag })), Either.right(entry(r2)))
      )
      const error = yield* Effect.flip(skills.acquire)
      assert.strictEqual(error._tag, "INVALID_SNAPSHOT")
      assert.strictEqual(error.container, "a")
      assert.strictEqual((yield* skills.status).containers?.[1]?.initialized, true)
    })
  )

  scripted("a denial of the request denies all", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ containers: ["a", "b"] })
      yield* skills.enqueue(RegistryScript.denied(new DeliveryError.AuthorizationFailed({})))
      assert.strictEqual(yield* skills.code, "AUTHORIZATION_FAILED")
      for (const part of (yield* skills.status).containers ?? []) {
        assert.strictEqual(part.lastError?.code, "AUTHORIZATION_FAILED")
      }
    })
  )

  scripted("its status is as old as its oldest part and stale when any is", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ containers: ["a", "b"], freshness: 0 })
      yield* skills.enqueue(
        RegistryScript.batch(Either.right(entry(r1)), Either.right(entry(r2))),
        RegistryScript.batch(Either.left(new DeliveryError.Timeout({})), Either.right(unchangedEntry(r2)))
      )
      yield* skills.acquire
      yield* TestClock.adjust(7)
      yield* skills.acquire
      const status = yield* skills.status
      assert.deepStrictEqual(status.lastCheckedAt, DateTime.unsafeMake(0))
      assert.strictEqual(status.stale, true)
      assert.strictEqual(status.lastError?.code, "TIMEOUT")
    })
  )

  scripted("one acquire waits for a running check of one part and asks for the other", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ containers: ["a", "b"] })
      const slow = yield* latched(RegistryScript.batch(Either.right(entry(r2))))
      yield* skills.enqueue(
        RegistryScript.batch(Either.right(entry(r1)), Either.left(new DeliveryError.NetworkError({}))),
        slow.reply,
        RegistryScript.batch(Either.right(entry(r3)))
      )
      yield* Effect.flip(skills.acquire)
      yield* TestClock.adjust(4_000)
      // Only b needs a check now; while it runs, a expires.
      const first = yield* Effect.fork(skills.acquire)
      yield* slow.started
      yield* TestClock.adjust(1_000)
      const second = yield* Effect.fork(skills.acquire)
      yield* Effect.yieldNow()
      yield* slow.open
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      assert.deepStrictEqual(
        (yield* skills.requests).map((asked) => asked._tag === "Batch" && asked.requests.map((one) => one.containerId)),
        [["a", "b"], ["b"], ["a"]]
      )
      assert.strictEqual((yield* skills.status).containers?.[0]?.revision, "r3")
    })
  )
})

describe("status", () => {
  scripted("changes gives the current status, then each distinct one", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      yield* skills.enqueue(snapshot(r1), unchanged(r1), new DeliveryError.RevisionRevoked({}), snapshot(r2))
      const seen = yield* Effect.fork(Stream.runCollect(Stream.take(skills.changes, 4)))
      yield* Effect.yieldNow()
      yield* skills.acquire
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* skills.acquire
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* Effect.flip(skills.acquire)
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* skills.acquire
      assert.deepStrictEqual(
        Chunk.toReadonlyArray(yield* Fiber.join(seen)).map(({ lastError, revision }) => [revision, lastError?.code]),
        [
          [undefined, undefined],
          ["r1", undefined],
          ["r1", "REVISION_REVOKED"],
          ["r2", undefined]
        ]
      )
    })
  )

  scripted("changes does not repeat a status that a slow reader saw last", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container, freshness: 0 })
      const [first, second] = [new DeliveryError.NetworkError({}), new DeliveryError.UnsupportedServer({})]
      yield* skills.enqueue(first, second, first, snapshot(r1))
      yield* Effect.flip(skills.acquire)
      const reading = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const seen = yield* skills.changes.pipe(
        Stream.tap(() => Effect.zipRight(Deferred.succeed(reading, undefined), Deferred.await(goOn))),
        Stream.take(2),
        Stream.runCollect,
        Effect.fork
      )
      yield* Deferred.await(reading)
      yield* Effect.flip(skills.acquire)
      yield* Effect.flip(skills.acquire)
      yield* Deferred.succeed(goOn, undefined)
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* skills.acquire
      assert.deepStrictEqual(
        Chunk.toReadonlyArray(yield* Fiber.join(seen)).map((status) => status.lastError?.code),
        ["NETWORK_ERROR", undefined]
      )
    })
  )

  scripted("a slow reader of changes skips to the newest, and the stream ends with the layer", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const skills = yield* Scope.extend(delivery({ container, freshness: 0 }), scope)
      const reading = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const seen = yield* skills.changes.pipe(
        Stream.tap(() => Effect.zipRight(Deferred.succeed(reading, undefined), Deferred.await(goOn))),
        Stream.runCollect,
        Effect.fork
      )
      yield* Deferred.await(reading)
      yield* skills.enqueue(snapshot(r1), snapshot(r2), snapshot(r3))
      yield* Effect.repeatN(skills.acquire, 2)
      yield* Deferred.succeed(goOn, undefined)
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(
        Chunk.toReadonlyArray(yield* Fiber.join(seen)).map((status) => status.revision),
        [undefined, "r3"]
      )
    })
  )

  scripted("encodes to JSON with ISO 8601 times", () =>
    Effect.gen(function* () {
      const skills = yield* delivery({ container })
      yield* skills.enqueue(snapshot(r1))
      yield* skills.initialize
      assert.deepStrictEqual(yield* Schema.encode(DeliveryStatus.DeliveryStatus)(yield* skills.status), {
        initialized: true,
        revision: "r1",
        mode: "latest",
        lastCheckedAt: "1970-01-01T00:00:00.000Z",
        stale: false
      })
      assert.isTrue(Object.isFrozen(yield* skills.status))
    })
  )
})

describe("a persistent cache", () => {
  /** A cache in a Map, with a switch for each way in which a store goes wrong. */
  const memory = Effect.sync(() => {
    const records = new Map<string, Uint8Array>()
    const calls: Array<string> = []
    const faults: { load?: Effect.Effect<never, SnapshotCache.SnapshotCacheError>; save?: Effect.Effect<void> } = {}
    const service: SnapshotCache.SnapshotCacheService = {
      persistent: true,
      load: (slot) =>
        Effect.suspend(() => {
          calls.push("load")
          return faults.load ?? Effect.succeed(Option.fromNullable(records.get(slot)))
        }),
      save: (slot, record) =>
        Effect.suspend(() => {
          calls.push("save")
          return Effect.zipRight(
            faults.save ?? Effect.void,
            Effect.sync(() => void records.set(slot, record))
          )
        })
    }
    return { records, calls, faults, service }
  })

  type Delivery = Effect.Effect.Success<ReturnType<typeof delivery>>

  type Memory = Effect.Effect.Success<typeof memory>

  /** One process: a delivery over the cache, closed at its end. */
  const process = <Step extends YieldWrap<Effect.Effect<unknown, unknown, Scope.Scope>>, A>(
    cache: Memory,
    body: (skills: Delivery) => Generator<Step, A, never>,
    options: SkillDelivery.Options = { container }
  ) =>
    Effect.scoped(Effect.flatMap(delivery(options), (skills) => Effect.gen(() => body(skills)))).pipe(
      Effect.provideService(SnapshotCache.SnapshotCache, cache.service),
      Effect.provide(RegistryScript.layer)
    )

  const fill = (cache: Memory) =>
    process(cache, function* (skills) {
      yield* skills.enqueue(snapshot(r1))
      yield* skills.acquire
    })

  /** Every save hangs from now on; done when the next one has begun. */
  const hangSaves = (cache: Memory) =>
    Effect.map(Deferred.make<void>(), (begun) => {
      cache.faults.save = Effect.zipRight(Deferred.succeed(begun, undefined), Effect.never)
      return Deferred.await(begun)
    })

  it.effect("is held but never fresh: the first acquire asks with its ETag", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(unchanged(r1))
        assert.strictEqual(yield* skills.revision, "r1")
        assert.deepStrictEqual(yield* skills.requests, [
          { _tag: "Get", request: { containerId: container, ifNoneMatch: r1.etag } }
        ])
        yield* skills.acquire
        assert.strictEqual(yield* skills.requestCount, 1)
      })
      assert.deepStrictEqual(cache.calls, ["load", "save", "load"])
    })
  )

  it.effect("a record that only its check's time would change is written once an hour", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(snapshot(r1), unchanged(r1), unchanged(r1), snapshot(r1))
        yield* skills.acquire
        yield* TestClock.adjust(3_599_999)
        yield* skills.acquire
        assert.deepStrictEqual(cache.calls, ["load", "save"])
        yield* TestClock.adjust(5_000)
        yield* skills.acquire
        assert.deepStrictEqual(cache.calls, ["load", "save", "save"])
        yield* TestClock.adjust(3_599_999)
        yield* skills.acquire
      })
      assert.deepStrictEqual(cache.calls, ["load", "save", "save"])
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.NetworkError({}))
        yield* skills.acquire
        assert.deepStrictEqual((yield* skills.status).lastCheckedAt, DateTime.unsafeMake(3_604_999))
      })
    })
  )

  it.effect("is delivered, stale, when the registry is out of reach", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      yield* process(cache, function* (skills) {
        assert.strictEqual((yield* skills.status).initialized, false)
        yield* skills.enqueue(new DeliveryError.NetworkError({}))
        assert.strictEqual(yield* skills.revision, "r1")
        const status = yield* skills.status
        assert.strictEqual(status.stale, true)
        assert.deepStrictEqual(status.lastCheckedAt, DateTime.unsafeMake(0))
      })
    })
  )

  it.effect("keeps a denial across restarts until a check succeeds", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.RevisionRevoked({}))
        assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
      })
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.NetworkError({}), unchanged(r1))
        assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
        assert.strictEqual(yield* skills.revision, "r1")
      })
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.NetworkError({}))
        assert.strictEqual(yield* skills.revision, "r1")
      })
    })
  )

  it.effect("a denial is written before the acquire fails with it", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      const writing = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      cache.faults.save = Effect.zipRight(Deferred.succeed(writing, undefined), Deferred.await(goOn))
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.ContainerNotFound({}))
        const fiber = yield* Effect.fork(skills.code)
        yield* Deferred.await(writing)
        assert.isTrue(Option.isNone(yield* Fiber.poll(fiber)))
        yield* Deferred.succeed(goOn, undefined)
        assert.strictEqual(yield* Fiber.join(fiber), "CONTAINER_NOT_FOUND")
        assert.strictEqual(cache.records.size, 1)
      })
    })
  )

  it.effect("a store that hangs on a denial holds the acquire no longer than the timeout", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      const writing = yield* hangSaves(cache)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.ContainerNotFound({}))
        const fiber = yield* Effect.fork(skills.code)
        yield* writing
        yield* TestClock.adjust(5_000)
        assert.strictEqual(yield* Fiber.join(fiber), "CONTAINER_NOT_FOUND")
      })
    })
  )

  it.effect("an acquire that comes while a denial is written asks anew", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      const writing = yield* hangSaves(cache)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.RevisionRevoked({}), snapshot(r1))
        const denied = yield* Effect.fork(skills.code)
        yield* writing
        // The first one leaves in the same breath, and takes nobody along.
        yield* Fiber.interruptFork(denied)
        assert.strictEqual(yield* skills.revision, "r1")
        assert.strictEqual(yield* skills.requestCount, 2)
        yield* TestClock.adjust(5_000)
      }).pipe(Effect.zipLeft(TestClock.adjust(10_000), { concurrent: true }))
    })
  )

  it.effect("a denial that could not be written is written at the next chance", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.RevisionRevoked({}), new DeliveryError.RevisionRevoked({}))
        cache.faults.save = Effect.die("full")
        assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
        delete cache.faults.save
        assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
      })
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.NetworkError({}))
        assert.strictEqual(yield* skills.code, "REVISION_REVOKED")
      })
    })
  )

  it.effect("a clock that goes back while a denial is written prolongs nothing", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      const writing = yield* hangSaves(cache)
      yield* TestClock.setTime(3_600_000)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(Effect.zipRight(TestClock.setTime(0), new DeliveryError.RevisionRevoked({})))
        const fiber = yield* Effect.fork(skills.code)
        yield* writing
        yield* TestClock.adjust(5_000)
        assert.strictEqual(yield* Fiber.join(fiber), "REVISION_REVOKED")
      })
    })
  )

  for (const [how, fault] of [
    ["fails", new SnapshotCache.SnapshotCacheError({ operation: "load", reason: "size" })],
    ["dies", Effect.die("bug")],
    ["interrupts itself", Effect.interrupt]
  ] as const) {
    it.effect(`a store that ${how} on loading counts as empty`, () =>
      Effect.gen(function* () {
        const cache = yield* memory
        cache.faults.load = fault
        yield* process(cache, function* (skills) {
          yield* skills.enqueue(snapshot(r1))
          assert.strictEqual(yield* skills.revision, "r1")
          assert.strictEqual(yield* skills.requestCount, 1)
        })
      })
    )
  }

  it.effect("a save never delays an acquire, and the layer's end waits for it", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      const goOn = yield* Deferred.make<void>()
      cache.faults.save = Deferred.await(goOn)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(snapshot(r1))
        assert.strictEqual(yield* skills.revision, "r1")
        assert.strictEqual(cache.records.size, 0)
        yield* Deferred.succeed(goOn, undefined)
      })
      assert.strictEqual(cache.records.size, 1)
    })
  )

  it.effect("the layer's end waits for all of a list's saves together, no longer than the timeout", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      const begun = yield* hangSaves(cache)
      const scope = yield* Scope.make()
      const skills = yield* delivery({ containers: ["a", "b", "c"] }).pipe(
        Effect.provideService(SnapshotCache.SnapshotCache, cache.service),
        Effect.provide(RegistryScript.layer),
        Scope.extend(scope)
      )
      const r = Either.right(entry(r1))
      yield* skills.enqueue(RegistryScript.batch(r, r, r))
      yield* skills.acquire
      yield* begun
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      yield* TestClock.adjust(4_999)
      assert.isTrue(Option.isNone(yield* Fiber.poll(closing)))
      yield* TestClock.adjust(1)
      yield* Fiber.join(closing)
    })
  )

  it.effect("a store that hangs on loading leaves half of the timeout for the registry", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      const loading = yield* Deferred.make<void>()
      cache.faults.load = Effect.zipRight(Deferred.succeed(loading, undefined), Effect.uninterruptible(Effect.never))
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(snapshot(r1))
        const fiber = yield* Effect.fork(skills.revision)
        yield* Deferred.await(loading)
        yield* TestClock.adjust(2_500)
        assert.strictEqual(yield* Fiber.join(fiber), "r1")
      })
    })
  )

  const damage: ReadonlyArray<readonly [string, (record: Uint8Array) => Uint8Array]> = [
    ["torn", (record) => record.slice(0, record.length / 2)],
    ["empty", () => new Uint8Array()],
    [
      "changed in its last byte",
      (record) => record.map((byte, index) => (index === record.length - 1 ? byte ^ 1 : byte))
    ]
  ]
  for (const [how, change] of damage) {
    it.effect(`a record that is ${how} counts as none`, () =>
      Effect.gen(function* () {
        const cache = yield* memory
        yield* fill(cache)
        for (const [slot, record] of cache.records) cache.records.set(slot, change(record))
        yield* process(cache, function* (skills) {
          yield* skills.enqueue(snapshot(r2))
          assert.strictEqual(yield* skills.revision, "r2")
          assert.deepStrictEqual(yield* skills.requests, [{ _tag: "Get", request: { containerId: container } }])
        })
      })
    )
  }

  it.effect("an archive that was sealed but is no valid snapshot counts as none", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      const { apiUrl, sealingKey } = yield* Effect.provide(RegistryClient, RegistryScript.layer)
      const key = { apiUrl, containerId: container }
      const sealed = yield* SnapshotRecord.seal(
        key,
        { snapshot: { revision: "other", etag: r1.etag, archive: r1.archive, checkedAt: 0 } },
        sealingKey
      )
      assert.isTrue(cache.records.has(SnapshotRecord.slot(key, sealingKey)))
      cache.records.set(SnapshotRecord.slot(key, sealingKey), sealed)
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.NetworkError({}))
        assert.strictEqual(yield* skills.code, "NETWORK_ERROR")
      })
    })
  )

  it.effect("a pin and the latest of one container are records of their own", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      yield* process(
        cache,
        function* (skills) {
          yield* skills.enqueue(new DeliveryError.NetworkError({}))
          assert.strictEqual(yield* skills.code, "NETWORK_ERROR")
        },
        { container, revision: "r1" }
      )
    })
  )

  it.effect("is read again when the acquire that read it was interrupted", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      const loading = yield* Deferred.make<void>()
      cache.faults.load = Effect.zipRight(Deferred.succeed(loading, undefined), Effect.never)
      yield* process(cache, function* (skills) {
        const fiber = yield* Effect.fork(skills.acquire)
        yield* Deferred.await(loading)
        yield* Fiber.interrupt(fiber)
        delete cache.faults.load
        yield* skills.enqueue(new DeliveryError.NetworkError({}))
        assert.strictEqual(yield* skills.revision, "r1")
      })
    })
  )

  it.effect("an interrupted denial is recorded for the next process", () =>
    Effect.gen(function* () {
      const cache = yield* memory
      yield* fill(cache)
      const reading = yield* Deferred.make<void>()
      yield* process(cache, function* (skills) {
        const stalled = Effect.zipRight(Deferred.succeed(reading, undefined), Effect.never)
        yield* skills.enqueue(RegistryScript.denied(new DeliveryError.AuthorizationFailed({}), stalled))
        yield* Effect.fork(skills.acquire)
        yield* Deferred.await(reading)
        // The process ends here, with the acquire still waiting.
      })
      yield* process(cache, function* (skills) {
        yield* skills.enqueue(new DeliveryError.NetworkError({}))
        assert.strictEqual(yield* skills.code, "AUTHORIZATION_FAILED")
      })
    })
  )
})
