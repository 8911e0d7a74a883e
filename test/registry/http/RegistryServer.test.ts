import { createServer, get, type IncomingMessage } from "node:http"
import { buffer } from "node:stream/consumers"
import { HttpServer } from "@effect/platform"
import { NodeHttpServer } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Logger, Scope, TestClock } from "effect"
import * as Registry from "../../../src/registry/Registry.js"
import * as RegistryServer from "../../../src/registry/RegistryServer.js"
import { StoreUnavailable } from "../../../src/store/StoreError.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import * as InterceptedStore from "../../support/InterceptedStore.js"
import * as RawConnection from "../../support/RawConnection.js"
import { attributesOf, recorded } from "../../support/Recorded.js"
import { libsql, stores } from "../../support/Stores.js"

const snapshotOf = (container: string) => `/api/v1/learning/containers/${container}/skills`

describe("a server that stops", () => {
  it.scopedLive.each(stores)(
    "finishes the requests that run, those to %s too, and sends new ones elsewhere",
    ([, store]) =>
      Effect.gen(function* () {
        const reached = yield* Effect.makeLatch()
        const go = yield* Effect.makeLatch()
        const scope = yield* Scope.make()
        const registry = yield* HttpRegistry.start({
          store,
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

  it.scopedLive("finishes the archives that are on their way, at the pace of who receives them", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      // More than the sockets between them hold.
      const archive = new Uint8Array(16 * 1024 * 1024)
      const registry = yield* HttpRegistry.start({ override: () => ({ archive: () => Effect.succeed(archive) }) }).pipe(
        Scope.extend(scope)
      )
      yield* registry.publish("a")
      const response = yield* Effect.async<IncomingMessage>((resume) => {
        get(registry.url + snapshotOf("a"), { headers: { "x-api-key": registry.key } }, (response) =>
          resume(Effect.succeed(response))
        )
      })

      const stopping = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* registry.request("/v1/skills").pipe(Effect.repeat({ until: ({ status }) => status === 503 }))
      expect(registry.server.listening).toBe(true)

      const received = yield* Effect.promise(() => buffer(response))
      expect(received.length).toBe(Number(response.headers["content-length"]))
      yield* Fiber.join(stopping)
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

describe("a server of Node that stops", () => {
  it.scopedLive("cuts off those who do not read the end of their answer", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const archive = new Uint8Array(16 * 1024 * 1024)
      const registry = yield* HttpRegistry.start({
        shutdownGrace: "100 millis",
        override: () => ({ archive: () => Effect.succeed(archive) })
      }).pipe(Scope.extend(scope))
      yield* registry.publish("a")
      const response = yield* Effect.async<IncomingMessage>((resume) => {
        get(registry.url + snapshotOf("a"), { headers: { "x-api-key": registry.key } }, (response) =>
          resume(Effect.succeed(response))
        ).on("error", () => {})
      })
      yield* Scope.close(scope, Exit.void)
      expect(registry.server.listening).toBe(false)
      expect((yield* Effect.either(Effect.tryPromise(() => buffer(response))))._tag).toBe("Left")
    })
  )
})

describe("a server that starts", () => {
  it.scopedLive("closes the connections that came before anybody could answer", () =>
    Effect.gen(function* () {
      const node = createServer()
      const http = Context.get(
        yield* Layer.build(NodeHttpServer.layer(() => node, { host: "127.0.0.1", port: 0 })),
        HttpServer.HttpServer
      )
      const url = HttpServer.formatAddress(http.address)
      const connection = yield* RawConnection.open(url)
      yield* Effect.async<void>((resume) => {
        node.once("request", () => resume(Effect.void))
        Effect.runFork(connection.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))
      })
      yield* Layer.build(
        RegistryServer.layer({ node }).pipe(
          Layer.provide(Layer.provide(Registry.layer, libsql)),
          Layer.provide(Layer.succeed(HttpServer.HttpServer, http)),
          Layer.provide(Logger.remove(Logger.defaultLogger))
        )
      )
      expect(yield* connection.closed).toBe("")
      expect((yield* Effect.promise(() => fetch(`${url}/health`))).status).toBe(200)
    })
  )
})

describe("health", () => {
  it.scoped("is that of the process, readiness that of the store, whatever the clock does", () =>
    Effect.gen(function* () {
      let isGone = false
      let hangs = false
      const store = Layer.provide(
        InterceptedStore.layer(() => Effect.suspend(() => (hangs ? Effect.never : Effect.succeed(isGone)))),
        libsql
      )
      yield* TestClock.setTime(10_000_000)
      const registry = yield* HttpRegistry.start({ store })
      const status = (path: string) => Effect.flatMap(registry.request(path), HttpRegistry.statusOf)
      expect(yield* status("/ready")).toBe(200)

      isGone = true
      yield* TestClock.setTime(5_000_000)
      const response = yield* registry.request("/ready")
      expect(response.headers.get("retry-after")).toBe("1")
      expect(yield* HttpRegistry.refusalOf(response)).toEqual([503, "NETWORK_ERROR"])
      expect(yield* status("/health")).toBe(200)

      isGone = false
      yield* TestClock.adjust("1 second")
      expect(yield* status("/ready")).toBe(200)

      hangs = true
      yield* TestClock.adjust("1 second")
      const hanging = yield* Effect.fork(status("/ready"))
      const passing = yield* Effect.fork(
        Effect.forever(
          Effect.zipRight(
            TestClock.adjust("1 second"),
            Effect.promise(() => new Promise(setImmediate))
          )
        )
      )
      expect(yield* Fiber.join(hanging)).toBe(503)
      yield* Fiber.interrupt(passing)
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
      const [first, second, third] = lines
        .map((line) => JSON.parse(line))
        .filter(({ message }) => message === "request")
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

  it.scopedLive("has every request but those that memory answers with 304 and probes, each with its request-id", () =>
    Effect.gen(function* () {
      const { lines, logger } = collect()
      let away = false
      const registry = yield* HttpRegistry.start({
        logger,
        rateLimit: { requests: 4, per: "1 hour" },
        override: (real) => ({
          archive: (sha256) =>
            Effect.suspend(() => (away ? new StoreUnavailable({ reason: "away" }) : real.archive(sha256)))
        })
      })
      yield* registry.publish("a")
      const { etag } = yield* Effect.orDie(registry.registry.resolve("a"))
      const other = yield* registry.issue("read", ["b"])
      const ask = (headers: Record<string, string>, path = snapshotOf("a")) =>
        Effect.tap(registry.request(path, { headers }), HttpRegistry.statusOf)
      const held = { "if-none-match": etag }
      yield* ask({ "if-none-match": '"x"' }, snapshotOf("absent"))
      lines.length = 0
      yield* ask({}, "/health")
      yield* ask({}, "/ready")
      expect((yield* ask(held)).status).toBe(304)
      expect(lines).toEqual([])

      const answers = [
        yield* ask({ "if-none-match": '"x"' }),
        yield* ask({ ...held, "x-api-key": "ask_nobody_secret" }),
        yield* ask({ ...held, "x-api-key": other }),
        yield* Effect.suspend(() => {
          away = true
          return ask({ "if-none-match": '"x"' })
        }),
        yield* ask(held)
      ]
      expect(answers.map(({ status }) => status)).toEqual([200, 401, 403, 503, 429])
      const parsed = lines.map((line) => JSON.parse(line))
      expect(
        parsed
          .filter(({ message }) => message === "request")
          .map(({ annotations, logLevel }) => [logLevel, annotations["http.status"], annotations["request.id"]])
      ).toEqual(
        answers.map(({ headers, status }) => [status === 503 ? "WARN" : "INFO", status, headers.get("request-id")])
      )
      expect(parsed.filter(({ message }) => message !== "request")).toMatchObject([
        {
          message: "A request was refused.",
          logLevel: "WARN",
          annotations: {
            "error.code": "STORE_UNAVAILABLE",
            "error.reason": "away",
            "request.id": answers[3]?.headers.get("request-id")
          }
        }
      ])
    })
  )

  it.scopedLive("says when a server serves and what it stops with", () =>
    Effect.gen(function* () {
      const { lines, logger } = collect()
      const scope = yield* Scope.make()
      yield* Scope.extend(HttpRegistry.start({ logger }), scope)
      yield* Scope.close(scope, Exit.void)
      expect(lines.map((line) => JSON.parse(line).message)).toEqual(["Serving.", "Stopping: 0 requests are running."])
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
        const text = yield* Effect.promise(() => response.text())
        expect([response.status, text]).toEqual([500, expect.stringContaining("INTERNAL_ERROR")])
        expect(text).not.toContain("RegistryServer.test.ts")
      }
      expect(lines.filter((line) => line.includes("RegistryServer.test.ts") && !line.includes('"ERROR"'))).toEqual([])
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
      const ask = (path: string, headers: Record<string, string> = {}, isHeld = false) =>
        Effect.gen(function* () {
          const { exit, spans } = yield* recorded(
            Effect.scoped(
              Effect.gen(function* () {
                const registry = yield* HttpRegistry.start()
                yield* registry.publish("a")
                const { etag } = yield* Effect.orDie(registry.registry.resolve("a"))
                const held = isHeld ? { "if-none-match": etag } : {}
                const response = yield* Effect.promise(() =>
                  fetch(registry.url + path, {
                    headers: { authorization: `Bearer ${registry.key}`, ...held, ...headers }
                  })
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
      const isHeld = true
      const sampled = yield* ask(snapshotOf("a"), { traceparent: traceparent(true) }, isHeld)
      expect(sampled.servers.map((span) => span.traceId)).toEqual([traceId])
      // What costs more than the answer to that nothing changed is for those who look at it.
      expect((yield* ask(snapshotOf("a"), { traceparent: traceparent(false) }, isHeld)).servers).toEqual([])
      expect((yield* ask(snapshotOf("a"), {}, isHeld)).servers).toEqual([])
    })
  )
})

describe("a span", () => {
  it.scopedLive("has nothing of a query, nor of a header in which a key may be", () =>
    Effect.gen(function* () {
      const { exit, spans } = yield* recorded(
        Effect.scoped(
          Effect.gen(function* () {
            const registry = yield* HttpRegistry.start()
            const secret = { "x-goog-api-key": "SECRET", "x-api-key": registry.key, cookie: "SECRET" }
            yield* registry.request("/v1/skills?api_key=SECRET&limit=1", { headers: secret })
            yield* registry.request("/nowhere?key=SECRET", { headers: { "x-api-key": "SECRET" } })
            const connection = yield* RawConnection.open(registry.url)
            yield* connection.write(
              `GET /v1/skills#SECRET HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${registry.key}\r\nConnection: close\r\n\r\n`
            )
            yield* connection.closed
            return registry.key
          })
        )
      )
      const key = yield* exit
      const servers = spans.filter(({ name }) => name.startsWith("http.server")).map((span) => attributesOf(span))
      expect(servers.length).toBe(3)
      expect(servers[0]).toMatchObject({
        "url.path": "/v1/skills",
        "url.full": expect.stringMatching(/^http:.*\/v1\/skills$/),
        "url.query": "<redacted>",
        "http.request.header.x-goog-api-key": "<redacted>",
        "http.request.header.host": expect.stringContaining("127.0.0.1")
      })
      const all = JSON.stringify(spans.map((span) => attributesOf(span)))
      expect(all).not.toContain("SECRET")
      expect(all).not.toContain(key)
    })
  )
})

describe("a request", () => {
  it.scopedLive("that names its trace in words gets an id of the server's", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const response = yield* registry.request("/v1/skills", { headers: { b3: `<script>${"a".repeat(3000)}-b-1` } })
      expect(response.headers.get("request-id")).toMatch(/^[0-9a-f]{16}$/)
    })
  )

  it.scopedLive("reaches a route by its path alone, as it is written", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      yield* registry.publish("a")
      const { etag } = yield* Effect.orDie(registry.registry.resolve("a"))
      for (const path of ["/V1/skills", "//v1/skills", "/api/v1/learning/Containers/a", "/v1//skills"]) {
        expect([path, ...(yield* HttpRegistry.refusalOf(yield* registry.request(path)))]).toEqual([
          path,
          404,
          "ROUTE_NOT_FOUND"
        ])
      }
      for (const held of ["", `If-None-Match: ${etag}\r\n`]) {
        const connection = yield* RawConnection.open(registry.url)
        yield* connection.write(
          `GET /api/v1/learning/containers/a#b/skills HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${registry.key}\r\n${held}\r\n`
        )
        expect(yield* connection.receive("ROUTE_NOT_FOUND")).toMatch(/^HTTP\/1\.1 404 /)
      }
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
