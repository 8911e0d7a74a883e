import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, TestClock } from "effect"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import * as InterceptedStore from "../../support/InterceptedStore.js"
import { layerPostgresAt, libsql, ownPostgres } from "../../support/Stores.js"
import { skillFile } from "../../support/Uploads.js"

/** A database that goes away and comes back: the file of a server cannot, so that every call to it fails instead. */
const databases = [
  [
    "libSQL",
    Effect.sync(() => {
      let isGone = false
      const turn = (value: boolean) =>
        Effect.sync(() => {
          isGone = value
        })
      const store = Layer.provide(
        InterceptedStore.layer(() => Effect.sync(() => isGone)),
        libsql
      )
      return { store, goAway: turn(true), comeBack: turn(false) }
    })
  ],
  [
    "PostgreSQL",
    Effect.map(ownPostgres, (cluster) => ({
      store: Layer.orDie(layerPostgresAt(Redacted.make(cluster.url("postgres")))),
      goAway: Effect.promise(() => cluster.stop()),
      comeBack: Effect.promise(() => cluster.start())
    }))
  ]
] as const

const container = "/api/v1/learning/containers/a"

const upload = () => {
  const body = new FormData()
  body.append("files[]", new File([skillFile("farewell")], "farewell/SKILL.md"))
  return { method: "POST", body }
}

const json = (body: unknown, method = "POST") => ({ method, body: JSON.stringify(body) })

describe.each(databases)("a server whose %s goes away and comes back", (_, database) => {
  it.scoped("says on every route that it cannot answer, then goes on with what it had", () =>
    Effect.gen(function* () {
      const { comeBack, goAway, store } = yield* database
      const registry = yield* HttpRegistry.start({ store })
      const revision = yield* registry.publish("a")
      const [skill] = (yield* registry.registry.listSkills()).items
      const skills = [{ skillId: skill?.id ?? "", version: skill?.latestVersion ?? "" }]
      const status = (path: string, init?: RequestInit) =>
        Effect.flatMap(registry.request(path, init), HttpRegistry.statusOf)
      const unavailable = (asked: ReadonlyArray<readonly [path: string, init?: RequestInit]>) =>
        Effect.forEach(asked, ([path, init = {}]) =>
          Effect.gen(function* () {
            const response = yield* registry.request(path, init)
            const refusal = response.status < 400 ? ["answered"] : yield* HttpRegistry.refusalOf(response)
            const route = `${init.method ?? "GET"} ${path}`
            expect([route, ...refusal, response.headers.get("retry-after")]).toEqual([route, 503, "NETWORK_ERROR", "1"])
          })
        )

      const delivery = yield* HttpRegistry.deliver(registry, { container: "a" })
      const held = yield* delivery.acquire
      const conditional = { headers: { "if-none-match": held.etag } }
      expect(yield* status("/ready")).toBe(200)

      yield* goAway
      // What was confirmed within the last second is answered from memory, and nothing else.
      yield* unavailable([
        [`${container}/skills`],
        [container],
        ["/api/v1/learning/containers"],
        [`${container}/revisions`],
        ["/api/v1/learning/keys"],
        ["/v1/skills"],
        [`/v1/skills/${skill?.id}`],
        [`/v1/skills/${skill?.id}/versions`],
        [`/v1/skills/${skill?.id}/versions/1/content`]
      ])
      expect(yield* status(`${container}/skills`, conditional)).toBe(304)

      yield* TestClock.adjust("1 second")
      const stranger = { headers: { "x-api-key": "ask_nobody_secret" } }
      yield* unavailable([
        [`${container}/skills`, conditional],
        [`${container}/skills`, stranger],
        ["/api/v1/learning/skills/batch", json({ containers: [{ containerId: "a" }] })],
        ["/api/v1/learning/containers/b", json({}, "PUT")],
        ["/v1/skills", stranger],
        ["/v1/skills", upload()],
        ["/ready"]
      ])
      expect(yield* status("/health")).toBe(200)
      expect(yield* delivery.acquire).toBe(held)
      expect((yield* delivery.status).lastError).toMatchObject({ code: "NETWORK_ERROR", retryable: true })

      yield* comeBack
      yield* TestClock.adjust("1 second")
      expect(yield* status("/ready")).toBe(200)
      expect(yield* status(`${container}/skills`, conditional)).toBe(304)
      expect(yield* status(`${container}/skills`, stranger)).toBe(401)
      expect(yield* delivery.acquire).toBe(held)
      const { containers, keys } = yield* HttpRegistry.connect(registry, registry.key)
      const { items } = yield* containers.listContainers({ urlParams: {} })
      expect(items).toMatchObject([{ id: "a", enabled: true, latest: { revision, skills } }])
      expect((yield* keys.listKeys()).length).toBe(1)
      expect((yield* registry.registry.listSkills()).items.length).toBe(1)
      const published = yield* containers.publish({
        path: { containerId: "a" },
        payload: { base: revision, skills: [] }
      })
      expect((yield* delivery.acquire).revision).toBe(published.revision)

      // Who asks is in memory, so that it is publishing itself that fails.
      yield* goAway
      yield* unavailable([[`${container}/revisions`, json({ base: published.revision, skills })]])
    })
  )
})
