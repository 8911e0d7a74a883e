import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Option } from "effect"
import * as RegistryConnection from "../../../src/cli/RegistryConnection.js"
import * as SkillBundle from "../../../src/publishing/SkillBundle.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { stores } from "../../support/Stores.js"
import { loose } from "../../support/Uploads.js"

/** Ids that are long, or that a path could take for something else. */
const ids = [
  // Nine times as long in a path.
  "日".repeat(255),
  `${"🧭".repeat(127)}é`,
  "%2F%25%41 %é%:/?#[]@!$&'()*+,;=",
  "../../keys"
]

/** The client of the command line, as its commands connect it. */
const connect = (registry: HttpRegistry.HttpRegistry) =>
  RegistryConnection.connect({ apiUrl: Option.some(registry.url), keyFile: Option.none() }).pipe(
    Effect.provide(NodeContext.layer),
    Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["CPK_INTELLIGENCE_API_KEY", registry.key]])))
  )

/** The life of a container under this id. */
const live = (registry: HttpRegistry.HttpRegistry, id: string) =>
  Effect.gen(function* () {
    const { call } = yield* connect(registry)
    const path = yield* RegistryConnection.containerPath(id)
    const created = yield* call(({ containers }) => containers.putContainer({ path, payload: {} }))
    expect(created.id).toBe(id)

    const bundle = yield* SkillBundle.fromFiles(loose(HttpRegistry.greeting))
    const { skill } = yield* registry.registry.createSkill({ displayTitle: null, bundle, keyId: "test" })
    const empty = created.latest?.revision ?? ""
    const payload = { base: empty, skills: [{ skillId: skill.id, version: skill.latestVersion }] }
    const { revision } = yield* call(({ containers }) => containers.publish({ path, payload }))
    const { items } = yield* call(({ containers }) => containers.listRevisions({ path, urlParams: {} }))
    expect(items.map((entry) => [entry.containerId, entry.revision])).toEqual([
      [id, revision],
      [id, empty]
    ])

    const single = yield* HttpRegistry.deliver(registry, { container: id })
    const pinned = yield* HttpRegistry.deliver(registry, { container: id, revision })
    const listed = yield* HttpRegistry.deliver(registry, { containers: [id] })
    const snapshot = yield* single.acquire
    expect(snapshot.revision).toBe(revision)
    expect(yield* single.acquire).toBe(snapshot)
    expect((yield* pinned.acquire).revision).toBe(revision)
    expect((yield* listed.acquire).skills.map(({ name }) => name)).toEqual([`${encodeURIComponent(id)}/greeting`])

    yield* call(({ containers }) => containers.revoke({ path: { ...path, revision } }))
    expect((yield* single.acquire).revision).toBe(empty)
    expect((yield* listed.acquire).skills).toEqual([])
    expect(yield* Effect.flip(pinned.acquire)).toMatchObject({ _tag: "REVISION_REVOKED" })

    yield* call(({ containers }) => containers.setEnabled({ path, payload: { enabled: false } }))
    expect(yield* call(({ containers }) => containers.getContainer({ path }))).toMatchObject({ id, enabled: false })
    expect(yield* Effect.flip(single.acquire)).toMatchObject({ _tag: "DELIVERY_DISABLED" })
  })

describe.each(stores)("a container on %s", (_, store) => {
  it.scopedLive("is created, published, acquired, revoked and switched off under whatever id", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      for (const id of ids) yield* live(registry, id)
    })
  )
})

describe("an id of 256 characters", () => {
  it.scopedLive("is refused by the command line before anything is sent, and by the server", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const id = "é".repeat(256)
      expect(yield* Effect.flip(RegistryConnection.containerPath(id))).toMatchObject({ _tag: "UsageError" })
      const response = yield* registry.request(`/api/v1/learning/containers/${encodeURIComponent(id)}`, {
        method: "PUT",
        body: "{}"
      })
      expect(yield* HttpRegistry.refusalOf(response)).toEqual([400, "INVALID_REQUEST"])
    })
  )
})
