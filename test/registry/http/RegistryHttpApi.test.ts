import { OpenApi } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as SkillBundle from "../../../src/publishing/SkillBundle.js"
import { RegistryHttpApi } from "../../../src/registry/RegistryHttpApi.js"
import { CorruptBlob } from "../../../src/store/BlobStore.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { stores } from "../../support/Stores.js"
import { loose, skillFile } from "../../support/Uploads.js"

const codeOf = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(call), (error) => (error as { readonly _tag: string })._tag)

const upload = (registry: HttpRegistry.HttpRegistry, name: string) =>
  Effect.gen(function* () {
    const bundle = yield* SkillBundle.fromFiles(loose({ [`${name}/SKILL.md`]: skillFile(name) }))
    const { skill, version } = yield* registry.registry.createSkill({ displayTitle: null, bundle, keyId: "test" })
    return { skillId: skill.id, version: version.version }
  })

describe.each(stores)("the client of the declared API, of a registry on %s", (_, store) => {
  it.scopedLive("creates, publishes, lists, revokes and switches", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const { containers } = yield* HttpRegistry.connect(registry, registry.key)
      const containerId = "team/é"
      const created = yield* containers.putContainer({ path: { containerId }, payload: { title: "Team" } })
      expect(created).toMatchObject({ id: "team/é", title: "Team", enabled: true })
      expect((yield* containers.putContainer({ path: { containerId }, payload: {} })).title).toBe("Team")
      expect((yield* containers.putContainer({ path: { containerId }, payload: { title: null } })).title).toBe(null)

      const one = yield* upload(registry, "one")
      const base = created.latest?.revision ?? null
      const published = yield* containers.publish({ path: { containerId }, payload: { base, skills: [one] } })
      expect(published.skills).toEqual([{ ...one, name: "one" }])
      expect((yield* containers.getContainer({ path: { containerId } })).latest).toEqual(published)
      const listed = yield* containers.listRevisions({ path: { containerId }, urlParams: { limit: 1 } })
      expect(listed.items).toEqual([published])
      const rest = yield* containers.listRevisions({
        path: { containerId },
        urlParams: { page: listed.nextPage ?? "" }
      })
      expect(rest.items.map(({ revision }) => revision)).toEqual([base])

      const revoked = yield* containers.revoke({ path: { containerId, revision: published.revision } })
      expect(revoked.revokedAt).not.toBe(null)
      expect((yield* containers.getContainer({ path: { containerId } })).latest?.revision).toBe(base)
      expect((yield* containers.setEnabled({ path: { containerId }, payload: { enabled: false } })).enabled).toBe(false)
      expect((yield* containers.listContainers({ urlParams: {} })).items.map(({ id }) => id)).toEqual(["team/é"])
    })
  )

  it.scopedLive("gets failures as the errors they were, with what it needs to go on", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const { containers, keys } = yield* HttpRegistry.connect(registry, registry.key)
      const path = { containerId: "a" }
      const created = yield* containers.putContainer({ path, payload: {} })
      const empty = created.latest?.revision ?? ""
      const one = yield* upload(registry, "one")
      const publish = (base: string | null, skills: ReadonlyArray<typeof one>) =>
        containers.publish({ path, payload: { base, skills } })

      expect(yield* Effect.flip(publish("stale", [one]))).toMatchObject({
        _tag: "BASE_MISMATCH",
        base: "stale",
        latest: empty
      })
      const published = yield* publish(empty, [one])
      const twin = yield* upload(registry, "one")
      expect(yield* Effect.flip(publish(published.revision, [one, twin]))).toMatchObject({
        _tag: "UNDELIVERABLE_SET",
        containerId: "a",
        problems: [{ skill: "one", rule: expect.any(String) }]
      })
      yield* registry.registry.revoke("a", published.revision)
      expect(yield* Effect.flip(publish(empty, [one]))).toMatchObject({
        _tag: "REVOKED_SET",
        revision: published.revision
      })
      expect(yield* codeOf(publish(empty, [{ skillId: "absent", version: "1" }]))).toBe("SKILL_NOT_FOUND")
      expect(yield* codeOf(publish(empty, [{ skillId: one.skillId, version: "9" }]))).toBe("SKILL_VERSION_NOT_FOUND")
      expect(yield* codeOf(containers.getContainer({ path: { containerId: "absent" } }))).toBe("CONTAINER_NOT_FOUND")
      expect(yield* codeOf(containers.listContainers({ urlParams: { page: "made up" } }))).toBe("INVALID_PAGE")
      expect(yield* codeOf(containers.putContainer({ path, payload: { title: "two\nlines" } }))).toBe("INVALID_VALUE")
      expect(yield* codeOf(keys.revokeKey({ path: { keyId: "absent" } }))).toBe("KEY_NOT_FOUND")
      const reader = yield* HttpRegistry.connect(registry, yield* registry.issue("read"))
      expect(yield* codeOf(reader.keys.listKeys())).toBe("AUTHORIZATION_FAILED")
      const stranger = yield* HttpRegistry.connect(registry, "ask_nobody_secret")
      expect(yield* codeOf(stranger.keys.listKeys())).toBe("AUTHENTICATION_FAILED")
    })
  )

  it.scopedLive("issues, lists and revokes keys", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const { keys } = yield* HttpRegistry.connect(registry, registry.key)
      const { apiKey, key } = yield* keys.issueKey({ payload: { name: "ci", scope: "read", containers: ["a"] } })
      expect(apiKey).toMatchObject({ name: "ci", scope: "read", containers: ["a"], revokedAt: null })
      expect(yield* registry.registry.authenticate(key)).toEqual(apiKey)
      expect((yield* keys.listKeys()).map(({ id }) => id)).toContain(apiKey.id)
      expect((yield* keys.revokeKey({ path: { keyId: apiKey.id } })).revokedAt).not.toBe(null)
      expect(yield* codeOf(registry.registry.authenticate(key))).toBe("AUTHENTICATION_FAILED")

      const body = JSON.stringify({ name: "more", scope: "publish" })
      const issued = yield* registry.request("/api/v1/learning/keys", { method: "POST", body })
      expect(issued.headers.get("cache-control")).toBe("no-store")
      const shown = yield* HttpRegistry.jsonOf<{ readonly key: string }>(issued)
      expect((yield* registry.registry.authenticate(Redacted.make(shown.key))).scope).toBe("publish")
    })
  )

  it.scopedLive("gets a damaged archive as a failure that another try does not mend", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({
        store,
        override: () => ({ archive: (sha256) => new CorruptBlob({ sha256 }) })
      })
      const { skillId, version } = yield* upload(registry, "one")
      const response = yield* registry.request(`/v1/skills/${skillId}/versions/${version}/content`)
      expect(response.headers.get("x-should-retry")).toBe("false")
      expect(yield* HttpRegistry.refusalOf(response)).toEqual([500, "CORRUPT_BLOB"])
    })
  )
})

describe("a list of sets", () => {
  it.scopedLive("comes in pages of a hundred at most, whatever is asked, and goes on behind them", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const { containers } = yield* HttpRegistry.connect(registry, registry.key)
      yield* Effect.forEach(Array.from({ length: 101 }), (_, index) =>
        registry.registry.putContainer({ id: `c${index}` })
      )
      const first = yield* containers.listContainers({ urlParams: { limit: 1000 } })
      const second = yield* containers.listContainers({ urlParams: { limit: 1000, page: first.nextPage ?? "" } })
      expect([first.items.length, second.items.length, second.nextPage]).toEqual([100, 1, null])

      const path = { containerId: "c0" }
      const one = yield* upload(registry, "one")
      let base = (yield* containers.getContainer({ path })).latest?.revision ?? null
      for (let index = 0; index < 100; index++) {
        const skills = index % 2 === 0 ? [one] : []
        base = (yield* containers.publish({ path, payload: { base, skills } })).revision
      }
      const page = yield* containers.listRevisions({ path, urlParams: { limit: 1000 } })
      const rest = yield* containers.listRevisions({ path, urlParams: { limit: 1000, page: page.nextPage ?? "" } })
      expect([...page.items, ...rest.items].map(({ sequence }) => sequence)).toEqual(
        Array.from({ length: 101 }, (_, index) => 101 - index)
      )
      expect(page.items.length).toBe(100)
    })
  )
})

describe("the OpenAPI document", () => {
  it.scopedLive("has a generated client send a key with every request but those to health", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const document = yield* HttpRegistry.jsonOf<{
        readonly security: unknown
        readonly paths: Record<string, Record<string, { readonly security?: unknown }>>
      }>(yield* registry.request("/openapi.json"))
      expect(document.security).toEqual([{ bearer: [] }, { apiKey: [] }])
      const open = Object.entries(document.paths).flatMap(([path, operations]) =>
        Object.values(operations).flatMap(({ security }) => (security === undefined ? [] : [[path, security]]))
      )
      expect(open).toEqual([
        ["/health", []],
        ["/ready", []]
      ])
    })
  )

  it.scopedLive("is served, and describes every route with the keys that open it", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const response = yield* Effect.promise(() => fetch(`${registry.url}/openapi.json`))
      const document = yield* HttpRegistry.jsonOf<OpenApi.OpenAPISpec>(response)
      expect(document).toEqual(JSON.parse(JSON.stringify(OpenApi.fromApi(RegistryHttpApi))))
      expect(Object.keys(document.paths).sort()).toEqual([
        "/api/v1/learning/containers",
        "/api/v1/learning/containers/{containerId}",
        "/api/v1/learning/containers/{containerId}/revisions",
        "/api/v1/learning/containers/{containerId}/revisions/{revision}/revoke",
        "/api/v1/learning/containers/{containerId}/skills",
        "/api/v1/learning/keys",
        "/api/v1/learning/keys/{keyId}/revoke",
        "/api/v1/learning/skills/batch",
        "/health",
        "/ready",
        "/v1/skills",
        "/v1/skills/{skillId}",
        "/v1/skills/{skillId}/versions",
        "/v1/skills/{skillId}/versions/{version}",
        "/v1/skills/{skillId}/versions/{version}/content"
      ])
      expect(document.security).toEqual([{ bearer: [] }, { apiKey: [] }])
    })
  )
})
