import { SqlClient } from "@effect/sql"
import { describe, expect, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, TestClock } from "effect"
import * as Registry from "../../src/registry/Registry.js"
import * as InterceptedStore from "../support/InterceptedStore.js"
import { stores } from "../support/Stores.js"

/** One server of several over the store that is provided, in the current scope. */
const server = (before: InterceptedStore.Before = () => Effect.succeed(false)) =>
  Effect.map(Layer.build(Layer.fresh(Layer.provide(Registry.layer, InterceptedStore.layer(before)))), (context) =>
    Context.get(context, Registry.Registry)
  )

/** A database that a test counts, stops, and lets go. */
const makeSwitch = () => {
  const state = { statements: 0, isGone: false, hang: undefined as Effect.Effect<void> | undefined, hangs: "" }
  const before: InterceptedStore.Before = (call) =>
    Effect.suspend(() => {
      state.statements++
      const hang = call.includes(state.hangs) ? state.hang : undefined
      return Effect.as(hang ?? Effect.void, state.isGone)
    })
  return { state, before }
}

for (const [name, store] of stores) {
  describe(`the live view on ${name}`, () => {
    it.scoped("what another server revoked, published or switched off is seen within a second, and not later", () =>
      Effect.gen(function* () {
        const a = yield* server()
        const b = yield* server()
        const { container } = yield* a.putContainer({ id: "c" })
        const empty = container.latest?.revision ?? ""
        const { apiKey, key } = yield* a.issueKey({ name: "agent", scope: "read", containers: null })
        expect(yield* b.authenticate(key)).toEqual(apiKey)
        expect((yield* b.resolve("c")).revision).toBe(empty)
        expect((yield* b.resolve("c", empty)).revision).toBe(empty)

        yield* a.setEnabled("c", false)
        yield* TestClock.adjust("1 second")
        expect(yield* Effect.flip(b.resolve("c"))).toMatchObject({ _tag: "DELIVERY_DISABLED" })

        yield* a.setEnabled("c", true)
        yield* a.revoke("c", empty)
        yield* a.revokeKey(apiKey.id)
        // Both of the last confirmation still.
        expect(yield* Effect.flip(b.resolve("c"))).toMatchObject({ _tag: "DELIVERY_DISABLED" })
        expect(yield* b.authenticate(key)).toEqual(apiKey)
        yield* TestClock.adjust("1 second")
        expect(yield* Effect.flip(b.resolve("c"))).toMatchObject({ _tag: "REVISION_REVOKED" })
        expect(yield* Effect.flip(b.resolve("c", empty))).toMatchObject({ _tag: "REVISION_REVOKED" })
        expect(yield* Effect.flip(b.authenticate(key))).toMatchObject({ _tag: "AUTHENTICATION_FAILED" })

        yield* a.putContainer({ id: "d" })
        yield* TestClock.adjust("1 second")
        expect((yield* b.resolve("d")).revision).toBe(empty)
      }).pipe(Effect.provide(store))
    )

    it.scoped("a server's own writes are seen at once", () =>
      Effect.gen(function* () {
        const { authenticate, issueKey, putContainer, resolve, revoke, revokeKey } = yield* server()
        expect(yield* Effect.flip(resolve("c"))).toMatchObject({ _tag: "CONTAINER_NOT_FOUND", container: "c" })
        const { container } = yield* putContainer({ id: "c" })
        const empty = container.latest?.revision ?? ""
        expect((yield* resolve("c", empty)).revision).toBe(empty)
        yield* revoke("c", empty)
        expect(yield* Effect.flip(resolve("c", empty))).toMatchObject({ _tag: "REVISION_REVOKED" })
        expect(yield* Effect.flip(resolve("c"))).toMatchObject({ _tag: "REVISION_REVOKED" })
        const { apiKey, key } = yield* issueKey({ name: "agent", scope: "read", containers: null })
        expect(yield* authenticate(key)).toEqual(apiKey)
        yield* revokeKey(apiKey.id)
        expect(yield* Effect.flip(authenticate(key))).toMatchObject({ _tag: "AUTHENTICATION_FAILED" })
      }).pipe(Effect.provide(store))
    )

    it.scoped(
      "answers come from memory for half a second, then from memory while it is confirmed, never after a second",
      () =>
        Effect.gen(function* () {
          const { before, state } = makeSwitch()
          const { putContainer, resolve } = yield* server(before)
          yield* putContainer({ id: "c" })
          yield* resolve("c")
          state.statements = 0
          yield* TestClock.adjust("499 millis")
          yield* Effect.replicateEffect(resolve("c"), 100)
          expect(state.statements).toBe(0)

          // From here on the answer does not wait, but starts a confirmation: one for all.
          const confirming = yield* Deferred.make<void>()
          const mayConfirm = yield* Deferred.make<void>()
          state.hang = Effect.zipRight(Deferred.succeed(confirming, undefined), Deferred.await(mayConfirm))
          yield* TestClock.adjust("1 millis")
          yield* Effect.replicateEffect(resolve("c"), 100)
          yield* Deferred.await(confirming)
          expect(state.statements).toBe(1)
          yield* TestClock.adjust("499 millis")
          yield* resolve("c")

          // A second after it began it is over, so that this waits.
          yield* TestClock.adjust("1 millis")
          const waiting = yield* Effect.fork(resolve("c"))
          yield* Effect.yieldNow()
          expect(yield* Fiber.poll(waiting)).toMatchObject({ _tag: "None" })
          yield* Deferred.succeed(mayConfirm, undefined)
          yield* Fiber.join(waiting)
          expect(state.statements).toBe(1)
        }).pipe(Effect.provide(store))
    )

    it.scoped(
      "a server that cannot confirm answers from memory for a second, then not at all, and again when it can",
      () =>
        Effect.gen(function* () {
          const { before, state } = makeSwitch()
          const { authenticate, issueKey, putContainer, resolve } = yield* server(before)
          yield* putContainer({ id: "c" })
          const { key } = yield* issueKey({ name: "agent", scope: "read", containers: null })
          yield* resolve("c")
          state.isGone = true
          yield* TestClock.adjust("999 millis")
          yield* resolve("c")
          yield* authenticate(key)
          yield* TestClock.adjust("1 millis")
          expect(yield* Effect.flip(resolve("c"))).toMatchObject({ _tag: "STORE_UNAVAILABLE", reason: "ECONNREFUSED" })
          expect(yield* Effect.flip(authenticate(key))).toMatchObject({ _tag: "STORE_UNAVAILABLE" })
          expect(yield* Effect.flip(resolve("c", "0".repeat(64)))).toMatchObject({ _tag: "STORE_UNAVAILABLE" })
          state.isGone = false
          yield* resolve("c")
          yield* authenticate(key)
        }).pipe(Effect.provide(store))
    )

    it.scoped("memory may be polled while it is confirmed, which a poll sees to, and not after a second", () =>
      Effect.gen(function* () {
        const { before, state } = makeSwitch()
        const { issueKey, putContainer, resolve, setEnabled, unsafePoll } = yield* server(before)
        yield* putContainer({ id: "c" })
        const { apiKey, key } = yield* issueKey({ name: "agent", scope: "read", containers: null })
        expect(unsafePoll(key, "c")).toBeUndefined()
        const resolved = yield* resolve("c")
        expect(unsafePoll(key, "c")).toEqual({ apiKey, resolved })
        expect(unsafePoll(key, "other")).toBeUndefined()
        expect(unsafePoll(key, "c", resolved.revision)).toBeUndefined()
        expect(yield* resolve("c", resolved.revision)).toEqual(resolved)
        expect(unsafePoll(key, "c", resolved.revision)).toEqual({ apiKey, resolved })

        yield* TestClock.adjust("500 millis")
        const statements = state.statements
        expect(unsafePoll(key, "c")).toEqual({ apiKey, resolved })
        yield* TestClock.adjust("600 millis")
        // Waits for the confirmation that the poll began, and needs no other.
        expect(yield* resolve("c")).toEqual(resolved)
        expect(state.statements).toBe(statements + 1)
        expect(unsafePoll(key, "c")).toEqual({ apiKey, resolved })

        yield* TestClock.adjust("1 second")
        expect(unsafePoll(key, "c")).toBeUndefined()
        yield* resolve("c")
        yield* setEnabled("c", false)
        expect(unsafePoll(key, "c")).toBeUndefined()
        yield* Effect.flip(resolve("c"))
        expect(unsafePoll(key, "c")).toBeUndefined()
      }).pipe(Effect.provide(store))
    )

    it.scoped("a database that hangs is waited for no longer than a second, and then asked anew", () =>
      Effect.gen(function* () {
        const { before, state } = makeSwitch()
        const { putContainer, resolve } = yield* server(before)
        const { container } = yield* putContainer({ id: "c" })
        const started = yield* Deferred.make<void>()
        const mayEnd = yield* Deferred.make<void>()
        state.hang = Effect.uninterruptible(
          Effect.zipRight(Deferred.succeed(started, undefined), Deferred.await(mayEnd))
        )
        const waiting = yield* Effect.fork(Effect.flip(resolve("c")))
        yield* Deferred.await(started)
        const joined = yield* Effect.fork(Effect.flip(resolve("c")))
        yield* TestClock.adjust("1 second")
        expect(yield* Fiber.join(waiting)).toMatchObject({ _tag: "STORE_UNAVAILABLE", reason: "timeout" })
        expect(yield* Fiber.join(joined)).toMatchObject({ _tag: "STORE_UNAVAILABLE", reason: "timeout" })
        state.hang = undefined
        yield* Deferred.succeed(mayEnd, undefined)
        expect((yield* resolve("c")).revision).toBe(container.latest?.revision)
      }).pipe(Effect.provide(store))
    )

    it.scoped(
      "more than can be read in a second is read in the next one: until then there is no answer, then a whole one",
      () =>
        Effect.gen(function* () {
          const { before, state } = makeSwitch()
          const sql = yield* SqlClient.SqlClient
          const { putContainer, ready, resolve } = yield* server(before)
          const { container } = yield* putContainer({ id: "first" })
          yield* sql`
          INSERT INTO containers (id, enabled, latest_sequence, next_sequence, created_at, ordinal, change)
          WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < 12000)
          SELECT 'c' || n, 0, NULL, 1, 0, n, n FROM n`
          yield* sql`UPDATE registry_state SET change = 12000`
          const isHanging = yield* Deferred.make<void>()
          let pages = 0
          state.hangs = "FROM containers"
          state.hang = Effect.suspend(() =>
            ++pages === 2 ? Effect.zipRight(Deferred.succeed(isHanging, undefined), Effect.never) : Effect.void
          )
          const asking = yield* Effect.fork(Effect.flip(resolve("c12000")))
          yield* Deferred.await(isHanging)
          yield* TestClock.adjust("1 second")
          expect(yield* Fiber.join(asking)).toMatchObject({ _tag: "STORE_UNAVAILABLE", reason: "timeout" })
          yield* ready
          // The first page is not read again.
          expect(pages).toBe(2 + 2)
          expect(yield* Effect.flip(resolve("c12000"))).toMatchObject({ _tag: "DELIVERY_DISABLED" })
          expect((yield* resolve("first")).revision).toBe(container.latest?.revision)
        }).pipe(Effect.provide(store))
    )

    it.scoped("a clock that goes back costs a confirmation", () =>
      Effect.gen(function* () {
        const { before, state } = makeSwitch()
        const { putContainer, resolve } = yield* server(before)
        yield* TestClock.setTime(10_000)
        yield* putContainer({ id: "c" })
        yield* resolve("c")
        state.statements = 0
        yield* TestClock.setTime(5_000)
        yield* resolve("c")
        expect(state.statements).toBe(1)
      }).pipe(Effect.provide(store))
    )

    it.scoped("a container's pins are asked of the database once, and again after each of its changes", () =>
      Effect.gen(function* () {
        const { before, state } = makeSwitch()
        const { putContainer, resolve, setEnabled } = yield* server(before)
        const { container } = yield* putContainer({ id: "c" })
        const pin = container.latest?.revision ?? ""
        yield* resolve("c", pin)
        state.statements = 0
        yield* Effect.replicateEffect(resolve("c", pin), 10)
        expect(state.statements).toBe(0)
        yield* setEnabled("c", true)
        yield* resolve("c")
        state.statements = 0
        yield* resolve("c", pin)
        expect(state.statements).toBe(1)
        state.isGone = true
        expect(yield* Effect.flip(resolve("c", "0".repeat(64)))).toMatchObject({ _tag: "STORE_UNAVAILABLE" })
      }).pipe(Effect.provide(store))
    )

    it.scoped("whoever asks while others write is answered by the first confirmation that began after it asked", () =>
      Effect.gen(function* () {
        let confirmations = 0
        let write: Effect.Effect<unknown, unknown> = Effect.void
        const registry = yield* server((call) =>
          Effect.gen(function* () {
            if (!call.includes("SELECT change FROM registry_state")) return false
            confirmations++
            const writing = yield* Effect.fork(write)
            // On libSQL it comes to wait for the one connection, and has it next, before the rows are read.
            if (name === "PostgreSQL") yield* Fiber.await(writing)
            else yield* Effect.repeatN(Effect.yieldNow(), 20)
            return false
          })
        )
        const { container } = yield* registry.putContainer({ id: "c" })
        const { apiKey, key } = yield* registry.issueKey({ name: "agent", scope: "read", containers: null })
        write = registry.setEnabled("c", true)
        for (let round = 1; round <= 5; round++) {
          yield* registry.setEnabled("c", true)
          const asking = [
            Effect.map(registry.resolve("c"), ({ revision }) => revision),
            Effect.map(registry.authenticate(key), ({ id }) => id)
          ]
          expect(yield* Effect.all(asking, { concurrency: "unbounded" })).toEqual([
            container.latest?.revision,
            apiKey.id
          ])
          expect(confirmations).toBe(round)
        }
      }).pipe(Effect.provide(store))
    )

    it.scoped("a write that is refused costs no confirmation, since it has left nothing", () =>
      Effect.gen(function* () {
        const { before, state } = makeSwitch()
        const { putContainer, resolve, revokeKey } = yield* server(before)
        yield* putContainer({ id: "c" })
        yield* resolve("c")
        expect(yield* Effect.flip(revokeKey("0".repeat(18)))).toMatchObject({ _tag: "KEY_NOT_FOUND" })
        state.statements = 0
        yield* resolve("c")
        expect(state.statements).toBe(0)
        // Of this one nobody knows.
        state.isGone = true
        expect(yield* Effect.flip(revokeKey("0".repeat(18)))).toMatchObject({ _tag: "STORE_UNAVAILABLE" })
        expect(yield* Effect.flip(resolve("c"))).toMatchObject({ _tag: "STORE_UNAVAILABLE" })
      }).pipe(Effect.provide(store))
    )

    // On libSQL everybody waits for the one connection.
    it.scoped.skipIf(name === "libSQL")(
      "who asks after a write waits for more than the confirmation that it overtook",
      () =>
        Effect.gen(function* () {
          const { before, state } = makeSwitch()
          const { putContainer, resolve, revoke } = yield* server(before)
          const { container } = yield* putContainer({ id: "c" })
          const empty = container.latest?.revision ?? ""
          yield* resolve("c")
          yield* (yield* server()).setEnabled("c", true)
          const hasRead = yield* Deferred.make<void>()
          const mayGoOn = yield* Deferred.make<void>()
          // The containers are read before the keys.
          state.hangs = "FROM api_keys"
          state.hang = Effect.zipRight(Deferred.succeed(hasRead, undefined), Deferred.await(mayGoOn))
          yield* TestClock.adjust("1 second")
          const earlier = yield* Effect.fork(resolve("c"))
          yield* Deferred.await(hasRead)
          state.hang = undefined

          yield* revoke("c", empty)
          const after = yield* Effect.replicateEffect(Effect.fork(Effect.flip(resolve("c"))), 3)
          yield* Effect.yieldNow()
          const statements = state.statements
          yield* Deferred.succeed(mayGoOn, undefined)
          expect((yield* Fiber.join(earlier)).revision).toBe(empty)
          for (const asking of after) expect(yield* Fiber.join(asking)).toMatchObject({ _tag: "REVISION_REVOKED" })
          // One for all of them: the change number and, since it is new, containers and keys.
          expect(state.statements).toBe(statements + 3)
          expect(yield* Effect.flip(resolve("c"))).toMatchObject({ _tag: "REVISION_REVOKED" })
        }).pipe(Effect.provide(store))
    )
  })
}
