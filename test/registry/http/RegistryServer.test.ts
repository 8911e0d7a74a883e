import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Logger, Scope, TestClock } from "effect"
import { StoreUnavailable } from "../../../src/store/StoreError.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { attributesOf, recorded } from "../../support/Recorded.js"

const snapshotOf = (container: string) => `/api/v1/learning/containers/${container}/skills`

describe("a server that stops", () => {
  it.scopedLive("finishes the requests that run, store included, and sends new ones elsewhere", () =>
    Effect.gen(function* () {
      const reached = yield* Effect.makeLatch()
      const go = yield* Effect.makeLatch()
      const scope = yield* Scope.make()
      const registry = yield* HttpRegistry.start({
        override: (real) => ({
          getContainer: (id) => reached.open.pipe(Effect.zipRight(go.await), Effect.zipRight(real.getContainer(id)))
        })
      }).pipe(Scope.extend(scope))
      yield* registry.publish("a")
      const running = yield* Effect.fork(registry.request("/api/v1/learning/containers/a"))
      yield* reached.await

      const stopping = yield* Effect.fork(Scope.close(scope, Exit.void))
      const late = yield* registry
        .request("/api/v1/learning/containers/a")
        .pipe(Effect.repeat({ until: ({ status }) => status === 503 }))
      expect(late.headers.get("connection")).toBe("close")
      expect(late.headers.get("retry-after")).toBe("1")
      expect(yield* HttpRegistry.refusalOf(late)).toEqual([503, "NETWORK_ERROR"])
      expect((yield* registry.request("/v1/skills")).status).toBe(503)
      expect((yield* registry.request(snapshotOf("a"), { headers: { "if-none-match": '"x"' } })).status).toBe(503)

      yield* go.open
      const finished = yield* Fiber.join(running)
      expect(finished.status).toBe(200)
      expect(yield* Effect.promise(() => finished.json())).toMatchObject({ id: "a" })
      yield* Fiber.join(stopping)
      expect(registry.server.listening).toBe(false)
    })
  )

  it.scoped("waits no longer than its grace", () =>
    Effect.gen(function* () {
      const reached = yield* Effect.makeLatch()
      const scope = yield* Scope.make()
      const isOver = yield* Effect.makeLatch()
      const registry = yield* HttpRegistry.start({
        shutdownGrace: "10 seconds",
        logger: Logger.make(({ message }) => {
          if (String(message).startsWith("Stopped although")) isOver.unsafeOpen()
        }),
        override: () => ({ getContainer: () => Effect.zipRight(reached.open, Effect.never) })
      }).pipe(Scope.extend(scope))
      const controller = new AbortController()
      const running = yield* Effect.fork(
        Effect.exit(
          Effect.tryPromise(() =>
            fetch(`${registry.url}/api/v1/learning/containers/a`, {
              headers: { "x-api-key": registry.key },
              signal: controller.signal
            })
          )
        )
      )
      yield* reached.await
      // As at the end of a process.
      const stopping = yield* Effect.fork(Effect.uninterruptible(Scope.close(scope, Exit.void)))
      yield* registry.request("/v1/skills").pipe(Effect.repeat({ until: ({ status }) => status === 503 }))
      yield* TestClock.adjust("9 seconds")
      expect(stopping.unsafePoll()).toBe(null)
      yield* TestClock.adjust("1 second")
      yield* isOver.await
      // The platform waits for connections on its own; the client is the one to leave.
      controller.abort()
      yield* Fiber.join(stopping)
      yield* Fiber.join(running)
    })
  )
})

describe("health", () => {
  it.scoped("is that of the process, readiness that of the store, asked once a second", () =>
    Effect.gen(function* () {
      let asked = 0
      let away = false
      const registry = yield* HttpRegistry.start({
        override: (real) => ({
          listContainers: (options) =>
            Effect.suspend(() => {
              asked++
              return away ? new StoreUnavailable({ reason: "away" }) : real.listContainers(options)
            })
        })
      })
      const status = (path: string) => Effect.map(registry.request(path), (response) => response.status)
      expect(yield* status("/ready")).toBe(200)
      expect(yield* status("/ready")).toBe(200)
      expect(asked).toBe(1)
      away = true
      yield* TestClock.adjust("1 second")
      const response = yield* registry.request("/ready")
      expect(response.headers.get("retry-after")).toBe("1")
      expect(yield* HttpRegistry.refusalOf(response)).toEqual([503, "NETWORK_ERROR"])
      expect(yield* status("/health")).toBe(200)
      away = false
      yield* TestClock.adjust("1 second")
      expect(yield* status("/ready")).toBe(200)
    })
  )
})

describe("the log", () => {
  const collect = () => {
    const lines: Array<string> = []
    return { lines, logger: Logger.map(Logger.jsonLogger, (line) => void lines.push(line)) }
  }

  it.scopedLive("has one structured line for each request, and neither keys nor queries", () =>
    Effect.gen(function* () {
      const { lines, logger } = collect()
      const registry = yield* HttpRegistry.start({ logger })
      yield* registry.publish("a")
      const reader = yield* registry.issue("read")
      yield* registry.request(`/api/v1/learning/containers/a?key=${registry.key}`)
      yield* registry.request("/v1/skills", { headers: { "x-api-key": reader } })
      yield* registry.request("/no%0a/route\u0085", { headers: { "x-api-key": "ask_wrong_key" } })
      const body = JSON.stringify({ name: "more", scope: "read" })
      const issued = yield* registry.request("/api/v1/learning/keys", { method: "POST", body })
      const { key } = yield* HttpRegistry.jsonOf<{ readonly key: string }>(issued)
      const [first, second, third] = lines.map((line) => JSON.parse(line))
      expect(first).toMatchObject({
        message: "request",
        logLevel: "INFO",
        annotations: {
          "http.method": "GET",
          "http.path": "/api/v1/learning/containers/a",
          "http.status": 200,
          "duration.ms": expect.any(Number),
          "key.id": expect.any(String)
        }
      })
      expect(second.annotations).toMatchObject({ "http.path": "/v1/skills", "http.status": 403 })
      expect(third.annotations).toMatchObject({ "http.path": "/no%0a/route%C2%85", "http.status": 401 })
      for (const secret of [registry.key, reader, key, "ask_wrong_key"]) expect(lines.join("\n")).not.toContain(secret)
    })
  )

  it.scopedLive("tells where a bug is; the answer only that there was one", () =>
    Effect.gen(function* () {
      const { lines, logger } = collect()
      const registry = yield* HttpRegistry.start({
        logger,
        override: () => ({
          getContainer: () => Effect.die(new TypeError("a secret value")),
          getSkill: () => Effect.die("a secret value"),
          resolve: () => Effect.die(new TypeError("a secret value"))
        })
      })
      for (const [path, headers] of [
        ["/api/v1/learning/containers/a", {}],
        ["/v1/skills/a", {}],
        [snapshotOf("a"), {}],
        [snapshotOf("a"), { "if-none-match": '"x"' }]
      ] as const) {
        const response = yield* registry.request(path, { headers })
        expect(yield* HttpRegistry.refusalOf(response)).toEqual([500, "INTERNAL_ERROR"])
      }
      const errors = lines.map((line) => JSON.parse(line)).filter(({ logLevel }) => logLevel === "ERROR")
      expect(errors.length).toBe(4)
      expect(JSON.stringify(errors[0])).toContain("RegistryServer.test.ts")
      expect(lines.join("\n")).not.toContain("secret")
    })
  )
})

describe("the trace", () => {
  const traceId = "0af7651916cd43dd8448eb211c80319c"
  const traceparent = (sampled: boolean) => `00-${traceId}-b7ad6b7169203331-0${sampled ? 1 : 0}`

  it.scopedLive("of the caller goes on in every request, and names it; a key is nowhere in it", () =>
    Effect.gen(function* () {
      const ask = (path: string, headers: Record<string, string> = {}) =>
        Effect.gen(function* () {
          const { exit, spans } = yield* recorded(
            Effect.scoped(
              Effect.gen(function* () {
                const registry = yield* HttpRegistry.start()
                yield* registry.publish("a")
                const response = yield* Effect.promise(() =>
                  fetch(registry.url + path, { headers: { authorization: `Bearer ${registry.key}`, ...headers } })
                )
                yield* Effect.promise(() => response.arrayBuffer())
                return { key: registry.key, requestId: response.headers.get("request-id") }
              })
            )
          )
          const value = yield* exit
          const servers = spans.filter(({ name }) => name.startsWith("http.server"))
          expect(JSON.stringify(spans.map((span) => attributesOf(span)))).not.toContain(value.key)
          return { ...value, servers }
        })

      const traced = yield* ask("/v1/skills", { traceparent: traceparent(true) })
      expect(traced.servers.map((span) => span.traceId)).toEqual([traceId])
      expect(traced.requestId).toBe(traceId)
      const whole = yield* ask(snapshotOf("a"), { traceparent: traceparent(true) })
      expect(whole.servers.map((span) => span.traceId)).toEqual([traceId])
      const untraced = yield* ask("/v1/skills")
      expect(untraced.servers.map((span) => span.traceId)).toEqual([untraced.requestId])
      const held = { "if-none-match": '"x"' }
      const sampled = yield* ask(snapshotOf("a"), { ...held, traceparent: traceparent(true) })
      expect(sampled.servers.map((span) => span.traceId)).toEqual([traceId])
      expect((yield* ask(snapshotOf("a"), { ...held, traceparent: traceparent(false) })).servers).toEqual([])
      expect((yield* ask(snapshotOf("a"), held)).servers).toEqual([])
    })
  )
})

describe("a header", () => {
  it.scopedLive("holds nothing of a stored name but what may stand in it", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({
        override: (real) => ({
          getVersion: (skillId, version) =>
            Effect.map(real.getVersion(skillId, version), (found) => ({
              ...found,
              name: 'a"\r\nset-cookie: b=c\u0000é'
            }))
        })
      })
      yield* registry.publish("a")
      const [skill] = (yield* registry.registry.listSkills()).items
      const response = yield* registry.request(`/v1/skills/${skill?.id}/versions/${skill?.latestVersion}/content`)
      expect(response.status).toBe(200)
      expect(response.headers.get("content-disposition")).toBe('attachment; filename="a___set-cookie__b_c__.zip"')
      expect(response.headers.get("set-cookie")).toBe(null)
    })
  )
})
