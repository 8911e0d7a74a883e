import { HttpClient, HttpClientRequest } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Schema, Scope, TestClock } from "effect"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import { DeliveryStatus } from "../../src/delivery/DeliveryStatus.js"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"
import type * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import { httpClients } from "../support/HttpClients.js"
import { deliver, held } from "../support/HttpDelivery.js"
import * as Loopback from "../support/LoopbackRegistry.js"
import { r1, r2 } from "../support/Script.js"

const team = { container: "team" }

const statusOf = ({ status }: SkillDelivery.SkillDelivery["Type"]) =>
  Effect.map(status, Schema.encodeSync(DeliveryStatus))

const silent = Loopback.watched(() => Effect.void)

/** The head of a good answer and half of its body. */
const half: Loopback.Handler = Loopback.sequence(
  Loopback.head(200, { ...RegistryApi.snapshotHeaders(r2), "content-length": r2.archive.length }),
  ({ write }) => write(r2.archive.subarray(0, r2.archive.length / 2))
)

const unchanged = Loopback.unchanged(r1.revision, r1.etag)

describe.each(httpClients)("SkillDelivery over %s", (_, http) => {
  const overHttp = <A, E>(
    effect: Effect.Effect<A, E, Loopback.LoopbackRegistry | HttpClient.HttpClient | Scope.Scope>
  ) => Effect.provide(effect, Layer.merge(Loopback.layer, http))

  it.scoped("delivers cold, unchanged, a new revision, a revocation and the recovery, one request each", () =>
    Effect.gen(function* () {
      const skills = yield* deliver(team)
      yield* skills.enqueue(
        Loopback.snapshot(r1),
        unchanged,
        Loopback.snapshot(r2),
        Loopback.failure(410, new DeliveryError.RevisionRevoked()),
        Loopback.snapshot(r1)
      )
      const status = { initialized: true, mode: "latest", stale: false }
      expect(yield* skills.requestCount).toBe(0)

      const cold = yield* skills.acquire
      expect(cold.skills.map((skill) => skill.name)).toEqual(["greeting"])
      expect(yield* statusOf(skills)).toEqual({
        ...status,
        revision: "r1",
        lastCheckedAt: "1970-01-01T00:00:00.000Z"
      })
      yield* TestClock.adjust(4_999)
      expect(yield* skills.acquire).toBe(cold)
      expect(yield* skills.requestCount).toBe(1)

      yield* TestClock.adjust(1)
      expect(yield* skills.acquire).toBe(cold)
      expect(yield* statusOf(skills)).toMatchObject({ revision: "r1", lastCheckedAt: "1970-01-01T00:00:05.000Z" })

      yield* TestClock.adjust(5_000)
      expect(yield* skills.outcome).toBe("r2")
      expect(yield* statusOf(skills)).toEqual({ ...status, revision: "r2", lastCheckedAt: "1970-01-01T00:00:10.000Z" })

      yield* TestClock.adjust(5_000)
      expect(yield* skills.outcome).toBe("REVISION_REVOKED")
      expect(yield* statusOf(skills)).toEqual({
        ...status,
        revision: "r2",
        lastCheckedAt: "1970-01-01T00:00:10.000Z",
        lastError: {
          code: "REVISION_REVOKED",
          message: new DeliveryError.RevisionRevoked({ container: "team" }).message,
          retryable: false
        }
      })

      expect(yield* skills.outcome).toBe("r1")
      expect(yield* statusOf(skills)).toEqual({ ...status, revision: "r1", lastCheckedAt: "1970-01-01T00:00:15.000Z" })
      const conditions = (yield* skills.requests).map((request) => request.headers["if-none-match"])
      expect(conditions).toEqual([undefined, r1.etag, r1.etag, r2.etag, r2.etag])
    }).pipe(overHttp)
  )

  it.scoped("asks once for a list, then only for what needs a check, and delivers the parts as one", () =>
    Effect.gen(function* () {
      const skills = yield* deliver({ containers: ["a", { container: "b", revision: "r1" }] })
      yield* skills.enqueue(
        Loopback.batch(RegistryApi.snapshotEntry("a", r2), RegistryApi.errorEntry("b", new DeliveryError.Timeout())),
        Loopback.batch(RegistryApi.snapshotEntry("b", r1)),
        Loopback.failure(403, new DeliveryError.DeliveryDisabled())
      )
      expect(yield* skills.outcome).toBe("TIMEOUT")
      const both = yield* skills.acquire
      expect(both.skills.map((skill) => skill.name)).toEqual(["a/greeting", "b/greeting"])
      expect(yield* skills.acquire).toBe(both)

      yield* TestClock.adjust(5_000)
      expect(yield* skills.outcome).toBe("DELIVERY_DISABLED")
      const codes = (yield* statusOf(skills)).containers?.map((container) => container.lastError?.code)
      expect(codes).toEqual(["DELIVERY_DISABLED", "DELIVERY_DISABLED"])
      const bodies = (yield* skills.requests).map((request) => JSON.parse(request.body).containers)
      expect(bodies).toEqual([
        [{ containerId: "a" }, { containerId: "b", revision: "r1" }],
        [{ containerId: "b", revision: "r1" }],
        [
          { containerId: "a", ifNoneMatch: r2.etag },
          { containerId: "b", revision: "r1", ifNoneMatch: r1.etag }
        ]
      ])
    }).pipe(overHttp)
  )

  it.scoped("makes one request for 10,000 fibers that acquire at once", () =>
    Effect.gen(function* () {
      const skills = yield* deliver(team)
      const answer = yield* held(Loopback.snapshot(r1))
      yield* skills.enqueue(answer.handler)
      let running = 0
      const allRun = yield* Effect.makeLatch()
      const caller = Effect.suspend(() => {
        if (++running === 10_000) allRun.unsafeOpen()
        return skills.acquire
      })
      const callers = yield* Effect.fork(
        Effect.all(Effect.replicate(caller, 10_000), { concurrency: "unbounded", batching: false })
      )
      yield* allRun.await
      yield* answer.arrived
      yield* answer.open

      const acquired = yield* Fiber.join(callers)
      expect(acquired).toHaveLength(10_000)
      expect(new Set(acquired).size).toBe(1)
      expect(yield* skills.requestCount).toBe(1)
    }).pipe(overHttp)
  )

  describe("at the deadline", () => {
    it.scoped("a request without an answer is interrupted, and its late answer is never installed", () =>
      Effect.gen(function* () {
        const skills = yield* deliver(team)
        const answeredLate = yield* Effect.makeLatch()
        const late = yield* silent
        yield* skills.enqueue(
          Loopback.sequence(late.handler, Loopback.snapshot(r1), () => answeredLate.open),
          Loopback.respond(503)
        )
        const caller = yield* Effect.fork(skills.outcome)
        yield* late.reached
        yield* TestClock.adjust(4_999)
        expect(caller.unsafePoll()).toBe(null)
        yield* TestClock.adjust(1)
        expect(yield* Fiber.join(caller)).toBe("TIMEOUT")
        yield* late.closed
        yield* answeredLate.await

        const timedOut = yield* statusOf(skills)
        expect(timedOut).toMatchObject({ initialized: false, stale: false, lastError: { code: "TIMEOUT" } })
        expect(yield* skills.outcome).toBe("UNSUPPORTED_SERVER")
        expect(yield* skills.requestCount).toBe(2)
      }).pipe(overHttp)
    )

    it.scoped("half a body is cut off, and what is held stays delivered, stale", () =>
      Effect.gen(function* () {
        const skills = yield* deliver(team)
        const stalled = yield* Loopback.watched(half)
        yield* skills.enqueue(Loopback.snapshot(r1), stalled.handler, Loopback.snapshot(r2))
        const first = yield* skills.acquire
        yield* TestClock.adjust(5_000)

        const caller = yield* Effect.fork(skills.acquire)
        yield* stalled.reached
        yield* TestClock.adjust(5_000)
        expect(yield* Fiber.join(caller)).toBe(first)
        yield* stalled.closed
        expect(yield* statusOf(skills)).toMatchObject({
          revision: "r1",
          stale: true,
          lastCheckedAt: "1970-01-01T00:00:00.000Z",
          lastError: { code: "TIMEOUT", retryable: true }
        })
        expect(yield* skills.outcome).toBe("r2")
        expect(yield* statusOf(skills)).not.toHaveProperty("lastError")
      }).pipe(overHttp)
    )

    it.scoped("a 403 whose body stalls denies, and callers that join share the deadline", () =>
      Effect.gen(function* () {
        const skills = yield* deliver(team)
        const stalled = yield* Loopback.watched(Loopback.head(403, { "content-length": 1_000 }))
        yield* skills.enqueue(stalled.handler)
        const caller = yield* Effect.fork(skills.outcome)
        yield* stalled.reached
        yield* skills.headArrived
        yield* TestClock.adjust(4_999)
        const joined = yield* Effect.fork(skills.outcome)
        expect(yield* statusOf(skills)).not.toHaveProperty("lastError")
        yield* TestClock.adjust(1)
        expect(yield* Fiber.join(caller)).toBe("AUTHORIZATION_FAILED")
        expect(yield* Fiber.join(joined)).toBe("AUTHORIZATION_FAILED")
        yield* stalled.closed
        expect(yield* statusOf(skills)).toMatchObject({ lastError: { code: "AUTHORIZATION_FAILED" } })
        expect(yield* skills.requestCount).toBe(1)
      }).pipe(overHttp)
    )
  })

  describe("an interruption", () => {
    it.scoped("of the last caller interrupts the request and changes no status", () =>
      Effect.gen(function* () {
        const skills = yield* deliver(team)
        const unanswered = yield* silent
        const cutOff = yield* Loopback.watched(half)
        yield* skills.enqueue(unanswered.handler, Loopback.snapshot(r1), cutOff.handler, Loopback.snapshot(r2))
        const before = yield* statusOf(skills)

        const first = yield* Effect.fork(skills.acquire)
        const second = yield* Effect.fork(skills.acquire)
        yield* unanswered.reached
        expect(Exit.isInterrupted(yield* Fiber.interrupt(first))).toBe(true)
        expect(Exit.isInterrupted(yield* Fiber.interrupt(second))).toBe(true)
        yield* unanswered.closed
        expect(yield* statusOf(skills)).toEqual(before)

        expect(yield* skills.outcome).toBe("r1")
        yield* TestClock.adjust(5_000)
        const inBody = yield* Effect.fork(skills.acquire)
        yield* cutOff.reached
        yield* skills.headArrived
        const holding = yield* statusOf(skills)
        yield* Fiber.interrupt(inBody)
        yield* cutOff.closed
        expect(yield* statusOf(skills)).toEqual(holding)
        expect(yield* skills.outcome).toBe("r2")
        expect(yield* skills.requestCount).toBe(4)
      }).pipe(overHttp)
    )

    it.scoped("of the first caller leaves the others waiting for the same request", () =>
      Effect.gen(function* () {
        const skills = yield* deliver(team)
        const answer = yield* held(Loopback.snapshot(r1))
        yield* skills.enqueue(answer.handler)
        const first = yield* Effect.fork(skills.outcome)
        const others = yield* Effect.forEach([1, 2, 3], () => Effect.fork(skills.outcome))
        yield* answer.arrived
        expect(Exit.isInterrupted(yield* Fiber.interrupt(first))).toBe(true)
        expect(others.map((fiber) => fiber.unsafePoll())).toEqual([null, null, null])
        yield* answer.open
        expect(yield* Effect.forEach(others, Fiber.join)).toEqual(["r1", "r1", "r1"])
        expect(yield* skills.requestCount).toBe(1)
      }).pipe(overHttp)
    )

    it.scoped("of the last caller keeps a denial whose head has arrived", () =>
      Effect.gen(function* () {
        const skills = yield* deliver(team)
        const stalled = yield* Loopback.watched(Loopback.head(403))
        yield* skills.enqueue(stalled.handler, Loopback.respond(502), Loopback.snapshot(r1))
        const caller = yield* Effect.fork(skills.acquire)
        yield* stalled.reached
        yield* skills.headArrived
        // The head has reached the client, and the delivery a turn of the event loop later.
        yield* TestClock.adjust(1)
        yield* Fiber.interrupt(caller)
        yield* stalled.closed
        expect(yield* statusOf(skills)).toMatchObject({
          initialized: false,
          stale: false,
          lastError: { code: "AUTHORIZATION_FAILED" }
        })
        // An unreachable server cannot undo it; a good answer does.
        expect(yield* skills.outcome).toBe("AUTHORIZATION_FAILED")
        expect(yield* skills.outcome).toBe("r1")
      }).pipe(overHttp)
    )

    it.effect("of everything by closing the layer ends every caller and closes the connection", () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const skills = yield* Scope.extend(deliver(team), scope)
        const unanswered = yield* silent
        yield* skills.enqueue(unanswered.handler)
        const callers = yield* Effect.forEach([1, 2, 3], () => Effect.fork(skills.acquire))
        yield* unanswered.reached
        yield* Scope.close(scope, Exit.void)
        const exits = yield* Effect.forEach(callers, Fiber.await)
        expect(exits.map(Exit.isInterrupted)).toEqual([true, true, true])
        yield* unanswered.closed
        expect(yield* skills.requestCount).toBe(1)
      }).pipe(overHttp, Effect.scoped)
    )
  })

  it.scoped("a redirect is not followed: the key stays, and so does what is held", () =>
    Effect.gen(function* () {
      const skills = yield* deliver(team)
      const thief = yield* Loopback.make
      yield* thief.enqueue(Loopback.snapshot(r2))
      yield* skills.enqueue(
        Loopback.snapshot(r1),
        Loopback.respond(307, { location: `${thief.url}/api/v1/learning/containers/team/skills` })
      )
      const first = yield* skills.acquire
      yield* TestClock.adjust(5_000)
      expect(yield* skills.acquire).toBe(first)
      expect(yield* statusOf(skills)).toMatchObject({ stale: true, lastError: { code: "UNSUPPORTED_SERVER" } })
      expect(yield* thief.requests).toEqual([])
    }).pipe(overHttp)
  )

  it.scoped("a dead server leaves what is held delivered, stale, until one answers again", () =>
    Effect.gen(function* () {
      const reborn = yield* Loopback.LoopbackRegistry
      const http = yield* HttpClient.HttpClient
      // A server comes back at another port, so its address is looked up anew for each request.
      let address = reborn.url
      const resolved = HttpClient.mapRequest(
        http,
        HttpClientRequest.updateUrl((url) => url.replace(reborn.url, address))
      )
      const scope = yield* Scope.make()
      const dying = yield* Scope.extend(Loopback.make, scope)
      const skills = yield* Effect.provideService(deliver(team), HttpClient.HttpClient, resolved)

      address = dying.url
      yield* dying.enqueue(Loopback.snapshot(r1))
      const first = yield* skills.acquire
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust(5_000)
      expect(yield* skills.acquire).toBe(first)
      expect(yield* skills.acquire).toBe(first)
      expect(yield* statusOf(skills)).toMatchObject({
        initialized: true,
        revision: "r1",
        stale: true,
        lastCheckedAt: "1970-01-01T00:00:00.000Z",
        lastError: { code: "NETWORK_ERROR", retryable: true }
      })

      address = reborn.url
      yield* skills.enqueue(unchanged)
      expect(yield* skills.acquire).toBe(first)
      expect(yield* statusOf(skills)).toEqual({
        initialized: true,
        revision: "r1",
        mode: "latest",
        stale: false,
        lastCheckedAt: "1970-01-01T00:00:05.000Z"
      })
      expect(yield* skills.requestCount).toBe(1)
    }).pipe(overHttp)
  )
})
