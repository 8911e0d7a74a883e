import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Logger, Redacted, Scope } from "effect"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { skillFile } from "../../support/Uploads.js"

const snapshotOf = (containerId: string) => `/api/v1/learning/containers/${containerId}/skills`

/** Makes the platform answer, which gives a request whose caller records its trace a span. */
const recordedTrace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }

const etagOf = (registry: HttpRegistry.HttpRegistry, containerId: string) =>
  Effect.map(Effect.orDie(registry.registry.resolve(containerId)), ({ etag }) => etag)

/** How many requests the platform answers, which logs each. */
const counted = () => {
  const lines: Array<string> = []
  const logger = Logger.map(Logger.jsonLogger, (line) => {
    lines.push(line)
  })
  return { logger, platformAnswers: () => lines.filter((line) => line.includes('"message":"request"')).length }
}

describe("an agent that holds the latest", () => {
  it.scopedLive("gets ahead of the platform what the platform answers, header by header", () =>
    Effect.gen(function* () {
      const { logger, platformAnswers } = counted()
      const registry = yield* HttpRegistry.start({ logger })
      const first = yield* registry.publish("a")
      const firstEtag = yield* etagOf(registry, "a")
      yield* registry.publish("a", { "other/SKILL.md": skillFile("other") })
      const latest = snapshotOf("a")
      const pinned = `${latest}?revision=${first}`
      const headersOf = (response: Response) =>
        [...response.headers].filter(([name]) => name !== "date" && name !== "request-id")

      for (const [path, etag] of [
        [latest, yield* etagOf(registry, "a")],
        [pinned, firstEtag]
      ] as const) {
        const held = { "if-none-match": etag }
        const byPlatform = yield* registry.request(path, { headers: { ...held, ...recordedTrace } })
        const before = platformAnswers()
        const ahead = yield* registry.request(path, { headers: held })
        expect(platformAnswers()).toBe(before)
        expect(byPlatform.status).toBe(304)
        expect(ahead.status).toBe(304)
        expect(headersOf(ahead)).toEqual(headersOf(byPlatform))
      }
      // Each revision is held against its own.
      expect((yield* registry.request(latest, { headers: { "if-none-match": firstEtag } })).status).toBe(200)
    })
  )

  it.scopedLive("is answered by the platform as soon as anything else is to be said", () =>
    Effect.gen(function* () {
      const { logger, platformAnswers } = counted()
      const registry = yield* HttpRegistry.start({ logger })
      yield* registry.publish("a")
      yield* registry.publish("b", { "other/SKILL.md": skillFile("other") })
      const etag = yield* etagOf(registry, "a")
      const { apiKey, key } = yield* Effect.orDie(
        registry.registry.issueKey({ name: "agent", scope: "read", containers: ["a", "gone"] })
      )
      const ask = (containerId: string, headers: Record<string, string> = {}) =>
        Effect.gen(function* () {
          const before = platformAnswers()
          const response = yield* registry.request(snapshotOf(containerId), {
            headers: { "x-api-key": Redacted.value(key), "if-none-match": etag, ...headers }
          })
          const by = platformAnswers() === before ? "ahead" : "platform"
          if (response.status < 400) return [by, response.status]
          return [by, ...(yield* HttpRegistry.refusalOf(response))]
        })

      // The first confirmation is nobody's memory yet.
      yield* ask("a")
      expect(yield* ask("a")).toEqual(["ahead", 304])
      expect(yield* ask("a", { "if-none-match": `"x", ${etag}` })).toEqual(["ahead", 304])
      expect(yield* ask("a", { "if-none-match": '"x"' })).toEqual(["platform", 200])
      expect(yield* ask("b", { "if-none-match": yield* etagOf(registry, "b") })).toEqual([
        "platform",
        403,
        "AUTHORIZATION_FAILED"
      ])
      expect(yield* ask("gone")).toEqual(["platform", 404, "CONTAINER_NOT_FOUND"])
      expect(yield* ask("a", { "x-api-key": "ask_none" })).toEqual(["platform", 401, "AUTHENTICATION_FAILED"])

      yield* Effect.orDie(registry.registry.setEnabled("a", false))
      expect(yield* ask("a")).toEqual(["platform", 403, "DELIVERY_DISABLED"])
      yield* Effect.orDie(registry.registry.setEnabled("a", true))
      expect((yield* ask("a"))[1]).toBe(304)
      yield* Effect.orDie(registry.registry.revokeKey(apiKey.id))
      expect(yield* ask("a")).toEqual(["platform", 401, "AUTHENTICATION_FAILED"])
    })
  )

  it.scopedLive("takes from the rate of its key, and is told when it asks too often", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ rateLimit: { requests: 3, per: "1 hour" } })
      yield* registry.publish("a")
      const held = { "if-none-match": yield* etagOf(registry, "a") }
      const statuses = yield* Effect.replicateEffect(
        Effect.map(registry.request(snapshotOf("a"), { headers: held }), ({ status }) => status),
        5
      )
      expect(statuses).toEqual([304, 304, 304, 429, 429])
    })
  )

  it.scopedLive("hears that the server stops, from whoever listened before", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const registry = yield* Scope.extend(HttpRegistry.start(), scope)
      expect(registry.server.listenerCount("request")).toBe(1)
      yield* Scope.close(scope, Exit.void)
      expect(registry.server.listenerCount("request")).toBe(0)
    })
  )
})
