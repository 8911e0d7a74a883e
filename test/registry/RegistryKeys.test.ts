import { SqlClient } from "@effect/sql"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Option, Redacted, TestClock } from "effect"
import { actingKey, Registry } from "../../src/registry/Registry.js"
import { bundle, registries } from "../support/RegistryStores.js"

for (const [name, registry] of registries) {
  describe(`keys on ${name}`, () => {
    it.effect("an issued key authenticates as its record until it is revoked", () =>
      Effect.gen(function* () {
        const { authenticate, issueKey, listKeys, revokeKey } = yield* Registry
        const agent = yield* issueKey({ name: "agent", scope: "read", containers: ["a", "team/b"] })
        const publisher = yield* issueKey({ name: "CI", scope: "publish", containers: null })
        expect(agent.apiKey).toMatchObject({
          name: "agent",
          scope: "read",
          containers: ["a", "team/b"],
          revokedAt: null
        })
        expect(yield* authenticate(agent.key)).toEqual(agent.apiKey)
        expect(yield* authenticate(publisher.key)).toEqual(publisher.apiKey)

        yield* TestClock.adjust("1 minute")
        const revoked = yield* revokeKey(agent.apiKey.id)
        expect(revoked.revokedAt?.epochMillis).toBe(60_000)
        expect(yield* Effect.flip(authenticate(agent.key))).toMatchObject({ _tag: "AUTHENTICATION_FAILED" })
        expect(yield* authenticate(publisher.key)).toEqual(publisher.apiKey)
        yield* TestClock.adjust("1 minute")
        expect(yield* revokeKey(agent.apiKey.id)).toEqual(revoked)
        expect(yield* listKeys).toEqual([revoked, publisher.apiKey])
        for (const keyId of ["", "\0", "0".repeat(18)]) {
          expect(yield* Effect.flip(revokeKey(keyId))).toMatchObject({ _tag: "KEY_NOT_FOUND" })
        }
      }).pipe(Effect.provide(registry))
    )

    it.effect("a key that was revoked writes nothing more, whenever its request was let in", () =>
      Effect.gen(function* () {
        const registry = yield* Registry
        const { container } = yield* registry.putContainer({ id: "a" })
        const base = container.latest?.revision ?? ""
        const upload = yield* bundle("greeting")
        const { skill } = yield* registry.createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
        const second = yield* bundle("greeting", "Hi.")
        yield* registry.addVersion({ skillId: skill.id, bundle: second, keyId: "k" })
        const { apiKey } = yield* registry.issueKey({ name: "leaked", scope: "admin", containers: null })
        const writes: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          registry.putContainer({ id: "b" }),
          registry.putContainer({ id: "a", title: "Renamed" }),
          registry.setEnabled("a", false),
          registry.publish({ containerId: "a", base, skills: [{ skillId: skill.id, version: "1" }] }),
          registry.revoke("a", base),
          registry.createSkill({ displayTitle: "Other", bundle: second, keyId: apiKey.id }),
          registry.addVersion({ skillId: skill.id, bundle: upload, keyId: apiKey.id }),
          registry.deleteVersion(skill.id, "1"),
          registry.deleteSkill(skill.id),
          registry.issueKey({ name: "another", scope: "admin", containers: null }),
          registry.revokeKey(apiKey.id)
        ]
        const contents = Effect.all([
          registry.listContainers(),
          registry.listRevisions("a"),
          registry.listSkills(),
          registry.listVersions(skill.id),
          registry.listKeys
        ])
        const acting = Effect.locally(actingKey, Option.some(apiKey.id))
        yield* acting(registry.putContainer({ id: "a" }))
        yield* registry.revokeKey(apiKey.id)
        const before = yield* contents
        for (const write of writes) {
          expect(yield* Effect.flip(acting(write))).toMatchObject({ _tag: "AUTHENTICATION_FAILED" })
          const unknown = Effect.locally(write, actingKey, Option.some("0".repeat(18)))
          expect(yield* Effect.flip(unknown)).toMatchObject({ _tag: "AUTHENTICATION_FAILED" })
        }
        expect(yield* contents).toEqual(before)
        for (const write of writes.slice(0, 4)) yield* write
      }).pipe(Effect.provide(registry))
    )

    it.effect("a key that differs anywhere is refused", () =>
      Effect.gen(function* () {
        const { authenticate, issueKey } = yield* Registry
        const one = Redacted.value((yield* issueKey({ name: "one", scope: "admin", containers: null })).key)
        const two = Redacted.value((yield* issueKey({ name: "two", scope: "read", containers: [] })).key)
        const other = (character: string) => (character === "a" ? "b" : "a")
        const wrong = [
          "",
          " ",
          "\0",
          "x".repeat(100_000),
          ` ${one}`,
          `${one} `,
          one.toUpperCase(),
          one.slice(0, -1),
          // The id of the one with the secret of the other.
          one.slice(0, 23) + two.slice(23),
          ...Array.from(one, (character, at) => one.slice(0, at) + other(character) + one.slice(at + 1))
        ]
        for (const key of wrong) {
          expect(yield* Effect.flip(authenticate(Redacted.make(key)))).toMatchObject({ _tag: "AUTHENTICATION_FAILED" })
        }
        expect((yield* authenticate(Redacted.make(one))).scope).toBe("admin")
      }).pipe(Effect.provide(registry))
    )

    it.effect("the database holds no key, only its digest", () =>
      Effect.gen(function* () {
        const { issueKey } = yield* Registry
        const sql = yield* SqlClient.SqlClient
        const { key } = yield* issueKey({ name: "agent", scope: "read", containers: null })
        const secret = /^ask_[0-9a-f]+_(.{43})$/.exec(Redacted.value(key))?.[1] ?? "absent"
        expect(secret.length).toBe(43)
        const rows = yield* sql`SELECT * FROM api_keys`
        expect(rows.length).toBe(1)
        expect(JSON.stringify(rows)).not.toContain(secret)
      }).pipe(Effect.provide(registry))
    )

    it.effect("the first key is kept before it is valid, is an admin's, and there is only one first", () =>
      Effect.gen(function* () {
        const { authenticate, issueFirstKey, listKeys } = yield* Registry
        let kept: ReadonlyArray<Redacted.Redacted> = []
        const keep = (key: Redacted.Redacted) =>
          Effect.sync(() => {
            kept = [...kept, key]
          })
        expect(yield* Effect.flip(issueFirstKey("first", () => Effect.fail("disk full" as const)))).toBe("disk full")
        expect(yield* listKeys).toEqual([])
        const issued = yield* Effect.replicateEffect(issueFirstKey("first", keep), 4, { concurrency: "unbounded" })
        const [first] = issued.flatMap(Option.toArray)
        expect(issued.filter(Option.isSome).length).toBe(1)
        expect(first).toMatchObject({ name: "first", scope: "admin", containers: null })
        expect(yield* Effect.forEach(kept, authenticate)).toEqual([first])
        expect(yield* listKeys).toEqual([first])
      }).pipe(Effect.provide(registry))
    )

    it.effect("a name that is no line and a container that cannot be are refused", () =>
      Effect.gen(function* () {
        const { issueKey, listKeys } = yield* Registry
        for (const name of ["", "a\r\nb", "x".repeat(256)]) {
          expect(yield* Effect.flip(issueKey({ name, scope: "read", containers: null }))).toMatchObject({
            _tag: "INVALID_VALUE",
            field: "name"
          })
        }
        for (const container of ["", "..", "a\0"]) {
          expect(yield* Effect.flip(issueKey({ name: "agent", scope: "read", containers: [container] }))).toMatchObject(
            { _tag: "INVALID_VALUE", field: "container id" }
          )
        }
        expect(yield* listKeys).toEqual([])
      }).pipe(Effect.provide(registry))
    )
  })
}
