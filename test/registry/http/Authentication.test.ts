import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { KeyScope } from "../../../src/registry/RegistryModel.js"
import { StoreUnavailable } from "../../../src/store/StoreError.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import * as RawConnection from "../../support/RawConnection.js"
import { stores } from "../../support/Stores.js"

/** Every kind of route, of what exists and of what does not. */
const routes = [
  ["GET", "/api/v1/learning/containers/a/skills"],
  ["GET", "/api/v1/learning/containers/absent/skills"],
  ["GET", "/api/v1/learning/containers/a/skills?revision=absent"],
  ["GET", "/api/v1/learning/containers/%00/skills"],
  ["POST", "/api/v1/learning/skills/batch"],
  ["GET", "/api/v1/learning/containers"],
  ["GET", "/api/v1/learning/containers/a"],
  ["GET", "/api/v1/learning/containers/absent"],
  ["PUT", "/api/v1/learning/containers/a"],
  ["PATCH", "/api/v1/learning/containers/absent"],
  ["GET", "/api/v1/learning/containers/a/revisions"],
  ["GET", "/api/v1/learning/containers/absent/revisions"],
  ["POST", "/api/v1/learning/containers/a/revisions"],
  ["POST", "/api/v1/learning/containers/absent/revisions/x/revoke"],
  ["GET", "/api/v1/learning/keys"],
  ["POST", "/api/v1/learning/keys"],
  ["POST", "/api/v1/learning/keys/x/revoke"],
  ["GET", "/"],
  ["GET", "/no/such/route"],
  ["DELETE", "/api/v1/learning/containers/a"]
] as const

const skillsRoutes = [
  ["GET", "/v1/skills"],
  ["POST", "/v1/skills"],
  ["GET", "/v1/skills/absent"],
  ["DELETE", "/v1/skills/absent"],
  ["GET", "/v1/skills/absent/versions?limit=none"],
  ["GET", "/v1/skills/absent/versions/1/content"],
  ["GET", "/v1/absent"]
] as const

const shown = (response: Response) =>
  Effect.promise(async () => {
    const { date, "request-id": _, ...headers } = Object.fromEntries(response.headers)
    return { status: response.status, headers, body: await response.text() }
  })

describe("without a key", () => {
  it.scopedLive("every route gives the same answer, so that a scan learns nothing", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      yield* registry.publish("a")
      const keys = [
        { "x-api-key": "" },
        { "x-api-key": "ask_nobody_secret" },
        { "x-api-key": `${registry.key}x` },
        { authorization: `Basic ${registry.key}` },
        { authorization: "Bearer" }
      ]
      for (const [all, code] of [
        [routes, `"code":"AUTHENTICATION_FAILED"`],
        [skillsRoutes, `"error_code":"AUTHENTICATION_FAILED"`]
      ] as const) {
        const answers = new Set<string>()
        for (const key of keys) {
          for (const [method, path] of all) {
            for (const held of [{}, { "if-none-match": '"x"' }]) {
              const response = yield* Effect.promise((signal) =>
                fetch(registry.url + path, { method, headers: { ...key, ...held }, signal })
              )
              answers.add(JSON.stringify(yield* shown(response)))
            }
          }
        }
        expect(answers.size).toBe(1)
        const [answer = ""] = answers
        expect(JSON.parse(answer)).toMatchObject({
          status: 401,
          headers: { "www-authenticate": 'Bearer realm="registry"', "cache-control": "private, no-cache" },
          body: expect.stringContaining(code)
        })
      }
    })
  )

  it.scopedLive("every route gives the same answer when the store is away too", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({
        override: () => ({ authenticate: () => new StoreUnavailable({ reason: "away" }) })
      })
      yield* registry.publish("a")
      for (const all of [routes, skillsRoutes]) {
        const answers = new Set<string>()
        for (const [method, path] of all) {
          const response = yield* registry.request(path, { method, headers: { "x-api-key": "ask_nobody_secret" } })
          answers.add(JSON.stringify(yield* shown(response)))
        }
        expect([...answers].map((answer) => JSON.parse(answer))).toMatchObject([
          { status: 503, headers: { "retry-after": "1" }, body: expect.stringContaining("NETWORK_ERROR") }
        ])
      }
    })
  )

  it.scopedLive("a body is not waited for", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024)) })
      const response = yield* Effect.promise((signal) =>
        fetch(`${registry.url}/v1/skills`, {
          method: "POST",
          body: endless,
          duplex: "half",
          headers: { "content-type": "multipart/form-data; boundary=x" },
          signal
        } as RequestInit)
      )
      expect(response.status).toBe(401)
    })
  )

  it.scopedLive("health, readiness and documentation are open", () =>
    Effect.gen(function* () {
      const { url } = yield* HttpRegistry.start()
      for (const path of ["/health", "/ready", "/openapi.json"]) {
        expect((yield* Effect.promise(() => fetch(url + path))).status).toBe(200)
      }
    })
  )
})

/** What each scope may begin to do; the answer of what may is not 403, whatever else it is. */
const cases: ReadonlyArray<readonly [method: string, path: string, scope: KeyScope]> = [
  ["GET", "/api/v1/learning/containers/a/skills", "read"],
  ["POST", "/api/v1/learning/skills/batch", "read"],
  ["GET", "/api/v1/learning/containers", "publish"],
  ["PUT", "/api/v1/learning/containers/a", "publish"],
  ["GET", "/api/v1/learning/containers/a", "publish"],
  ["GET", "/api/v1/learning/containers/a/revisions", "publish"],
  ["POST", "/api/v1/learning/containers/a/revisions", "publish"],
  ["POST", "/api/v1/learning/containers/a/revisions/x/revoke", "publish"],
  ["POST", "/v1/skills", "publish"],
  ["GET", "/v1/skills", "publish"],
  ["GET", "/v1/skills/x", "publish"],
  ["DELETE", "/v1/skills/x", "publish"],
  ["POST", "/v1/skills/x/versions", "publish"],
  ["GET", "/v1/skills/x/versions", "publish"],
  ["GET", "/v1/skills/x/versions/1", "publish"],
  ["DELETE", "/v1/skills/x/versions/1", "publish"],
  ["GET", "/v1/skills/x/versions/1/content", "publish"],
  ["PATCH", "/api/v1/learning/containers/a", "admin"],
  ["GET", "/api/v1/learning/keys", "admin"],
  ["POST", "/api/v1/learning/keys", "admin"],
  ["POST", "/api/v1/learning/keys/x/revoke", "admin"]
]

describe("a key", () => {
  it.scopedLive("may do what its scope says, and no more", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      yield* registry.publish("a")
      const scopes = ["read", "publish", "admin"] as const
      for (const [held, scope] of scopes.entries()) {
        const key = yield* registry.issue(scope)
        for (const [method, path, needed] of cases) {
          const response = yield* registry.request(path, {
            method,
            headers: { "x-api-key": key },
            ...(method === "POST" || method === "PUT" || method === "PATCH" ? { body: "{}" } : {})
          })
          yield* Effect.promise(() => response.arrayBuffer())
          expect(`${method} ${path} with ${scope}: ${response.status === 403}`).toBe(
            `${method} ${path} with ${scope}: ${held < scopes.indexOf(needed)}`
          )
        }
      }
    })
  )
})

describe("a key for some containers", () => {
  it.scopedLive("does nothing but read, whatever scope its row has: skills are everybody's", () =>
    Effect.gen(function* () {
      let containers: ReadonlyArray<string> | null = null
      const registry = yield* HttpRegistry.start({
        override: (real) => ({
          authenticate: (key) => Effect.map(real.authenticate(key), (found) => ({ ...found, containers }))
        })
      })
      yield* registry.publish("a")
      const [skill] = (yield* registry.registry.listSkills()).items
      containers = ["a"]
      const asked: ReadonlyArray<readonly [method: string, path: string]> = [
        ...cases.flatMap(([method, path, scope]) => (scope === "read" ? [] : [[method, path] as const])),
        ["GET", `/v1/skills/${skill?.id}/versions/1/content`],
        ["DELETE", `/v1/skills/${skill?.id}`]
      ]
      for (const [method, path] of asked) {
        const response = yield* registry.request(path, { method })
        expect([path, ...(yield* HttpRegistry.refusalOf(response))]).toEqual([path, 403, "AUTHORIZATION_FAILED"])
      }
      expect((yield* registry.request("/api/v1/learning/containers/a/skills")).status).toBe(200)
    })
  )
})

describe.each(stores)("a key on %s", (_, store) => {
  it.scopedLive("for some containers learns nothing of others, not even that they exist", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      yield* registry.publish("a")
      yield* registry.publish("b")
      const key = yield* registry.issue("read", ["a"])
      const ask = (container: string) =>
        registry.request(`/api/v1/learning/containers/${container}/skills`, { headers: { "x-api-key": key } })
      expect((yield* ask("a")).status).toBe(200)
      for (const container of ["b", "absent"]) {
        expect(yield* HttpRegistry.refusalOf(yield* ask(container))).toEqual([403, "AUTHORIZATION_FAILED"])
      }
    })
  )

  it.scopedLive("for some containers is one that reads: no other is issued", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const issue = (scope: KeyScope) =>
        registry.request("/api/v1/learning/keys", {
          method: "POST",
          body: JSON.stringify({ name: scope, scope, containers: ["a"] })
        })
      for (const scope of ["publish", "admin"] as const) {
        expect(yield* HttpRegistry.refusalOf(yield* issue(scope))).toEqual([400, "INVALID_VALUE"])
      }
      expect((yield* issue("read")).status).toBe(200)
    })
  )

  it.scopedLive("opens nothing once it is revoked", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      yield* registry.publish("a")
      const { apiKey, key } = yield* registry.registry.issueKey({ name: "gone", scope: "admin", containers: null })
      const headers = { authorization: `Bearer ${Redacted.value(key)}`, "if-none-match": '"x"' }
      const ask = Effect.promise(() => fetch(`${registry.url}/api/v1/learning/containers/a/skills`, { headers }))
      expect((yield* ask).status).toBe(200)
      yield* registry.registry.revokeKey(apiKey.id)
      expect((yield* ask).status).toBe(401)
    })
  )

  it.scopedLive("that is revoked while its request is on its way writes nothing", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const { apiKey, key } = yield* registry.registry.issueKey({ name: "leaked", scope: "admin", containers: null })
      const body = JSON.stringify({ name: "another", scope: "admin" })
      const connection = yield* RawConnection.open(registry.url)
      const head = [
        "POST /api/v1/learning/keys HTTP/1.1",
        "Host: x",
        `X-Api-Key: ${Redacted.value(key)}`,
        `Content-Length: ${body.length}`,
        "Expect: 100-continue",
        "",
        ""
      ].join("\r\n")
      yield* connection.write(head)
      // Its head has been read; whether its key has been, another request of the same key tells.
      yield* connection.receive("100 Continue")
      const asked = { headers: { "x-api-key": Redacted.value(key) } }
      expect((yield* registry.request("/api/v1/learning/keys", asked)).status).toBe(200)
      yield* registry.registry.revokeKey(apiKey.id)
      expect((yield* registry.request("/api/v1/learning/keys", asked)).status).toBe(401)
      yield* connection.write(body)
      const answer = yield* connection.receive("AUTHENTICATION_FAILED")
      expect(answer).toMatch(/HTTP\/1\.1 401 /)
      expect((yield* registry.registry.listKeys).map(({ name }) => name)).toEqual(["admin", "leaked"])
    })
  )
})
