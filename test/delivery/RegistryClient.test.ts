import { inspect } from "node:util"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "@effect/platform"
import { NodeHttpClient, Undici } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Exit, Fiber, Layer, Redacted, Ref, Scope } from "effect"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"
import * as RegistryClient from "../../src/delivery/RegistryClient.js"
import { httpClients } from "../support/HttpClients.js"
import * as Loopback from "../support/LoopbackRegistry.js"
import { attributesOf, recorded } from "../support/Recorded.js"
import { apiKey, connect, opaque } from "../support/RegistryConnection.js"

const r1 = opaque(new Uint8Array([1, 2, 3]))
const key = Redacted.make(apiKey)

/** Heads of a good answer with a declared length, and without one. */
const head = Loopback.head(200, { ...RegistryApi.snapshotHeaders(r1), "content-length": 1000 })
const chunkedHead = Loopback.head(200, RegistryApi.snapshotHeaders(r1))
const half: Loopback.Handler = ({ write }) => write("half")
const hangUp: Loopback.Handler = (exchange) => exchange.hangUp
const reset: Loopback.Handler = (exchange) => exchange.reset
const raw =
  (text: string): Loopback.Handler =>
  (exchange) =>
    exchange.raw(text)

describe.each(httpClients)("RegistryClient over %s", (_, http) => {
  const overHttp = <A, E>(
    effect: Effect.Effect<A, E, Loopback.LoopbackRegistry | HttpClient.HttpClient | Scope.Scope>
  ) => Effect.provide(effect, Layer.merge(Loopback.layer, http))

  describe("the request", () => {
    it.scoped("is one GET of the container's route with the headers of the contract", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        yield* registry.enqueue(Loopback.snapshot(r1))
        expect(yield* client.get({ containerId: "team skills/é" })).toEqual({
          _tag: "Snapshot",
          response: r1,
          transfer: true
        })

        const [request, ...more] = yield* registry.requests
        expect(more).toEqual([])
        expect(request?.method).toBe("GET")
        expect(request?.url).toBe("/api/v1/learning/containers/team%20skills%2F%C3%A9/skills")
        expect(request?.headers).toMatchObject({
          authorization: `Bearer ${apiKey}`,
          accept: "application/zip",
          "accept-encoding": "identity"
        })
        expect(request?.headers).not.toHaveProperty("if-none-match")
        expect(request?.body).toBe("")
      }).pipe(overHttp)
    )

    it.scoped("sends the pin and the held ETag", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        yield* registry.enqueue(Loopback.unchanged("r 1&2", r1.etag))
        const reply = yield* client.get({ containerId: "a", revision: "r 1&2", ifNoneMatch: r1.etag })
        expect(reply).toEqual({ _tag: "Unchanged", revision: "r 1&2", etag: r1.etag })

        const [request] = yield* registry.requests
        expect(request?.url).toBe("/api/v1/learning/containers/a/skills?revision=r%201%262")
        expect(request?.headers["if-none-match"]).toBe(r1.etag)
      }).pipe(overHttp)
    )

    it.scoped("of several containers is one POST of what is asked, and nothing else", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        yield* registry.enqueue(Loopback.json(500, {}))
        const asked = [{ containerId: "b" }, { containerId: "a", revision: "r1", ifNoneMatch: r1.etag }]
        yield* Effect.flip(client.batch(asked.map((one) => ({ ...one, more: "not sent" }))))

        const [request, ...more] = yield* registry.requests
        expect(more).toEqual([])
        expect(request?.method).toBe("POST")
        expect(request?.url).toBe("/api/v1/learning/skills/batch")
        expect(request?.headers).toMatchObject({
          authorization: `Bearer ${apiKey}`,
          accept: "application/json",
          "accept-encoding": "identity",
          "content-type": "application/json"
        })
        expect(JSON.parse(request?.body ?? "")).toEqual({ containers: asked })
      }).pipe(overHttp)
    )

    it.scoped.each(["", "/", "/learning/v2", "/learning/v2//"])("goes below an API URL with the path %j", (path) =>
      Effect.gen(function* () {
        const registry = yield* Loopback.LoopbackRegistry
        const client = yield* RegistryClient.make({ apiUrl: registry.url + path, apiKey: key })
        const base = path.replace(/\/+$/, "")
        expect(client.apiUrl).toBe(registry.url + base)
        yield* registry.enqueue(Loopback.snapshot(r1), Loopback.batch())
        yield* client.get({ containerId: "a" })
        yield* client.batch([{ containerId: "a" }])
        expect((yield* registry.requests).map((request) => request.url)).toEqual([
          `${base}/api/v1/learning/containers/a/skills`,
          `${base}/api/v1/learning/skills/batch`
        ])
      }).pipe(overHttp)
    )

    it.scoped("carries the trace of its own span", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        yield* registry.enqueue(Loopback.snapshot(r1), Loopback.snapshot(r1))
        const { spans } = yield* recorded(client.get({ containerId: "a" }).pipe(Effect.withSpan("caller")))
        yield* client.get({ containerId: "a" }).pipe(Effect.withTracerEnabled(false))

        const get = spans.find((span) => span.name === "RegistryClient.get")
        const [traced, untraced] = yield* registry.requests
        expect(traced?.headers).toMatchObject({
          traceparent: `00-${get?.traceId}-${get?.spanId}-01`,
          b3: expect.stringContaining(`${get?.traceId}-${get?.spanId}-1`)
        })
        expect(untraced?.headers).not.toHaveProperty("traceparent")
        expect(untraced?.headers).not.toHaveProperty("b3")
      }).pipe(overHttp)
    )
  })

  describe("a redirect", () => {
    it.scoped.each([301, 302, 303, 307, 308])("%i is not followed, and the key does not travel", (status) =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        const elsewhere = yield* Loopback.make
        yield* elsewhere.enqueue(Loopback.snapshot(r1), Loopback.snapshot(r1))
        const away = yield* Loopback.watched(Loopback.head(status, { location: `${elsewhere.url}/taken` }))
        const within = yield* Loopback.watched(Loopback.head(status, { location: "/api/v1/taken" }))
        yield* registry.enqueue(away.handler, within.handler)

        // Its body never ends: nothing waits for it.
        const error = yield* Effect.flip(Effect.scoped(client.get({ containerId: "a" })))
        expect(error).toEqual(new DeliveryError.UnsupportedServer({ status, container: "a" }))
        expect(yield* Effect.flip(Effect.scoped(client.batch([{ containerId: "a" }])))).toEqual(
          new DeliveryError.UnsupportedServer({ status })
        )
        yield* away.closed
        yield* within.closed
        expect(yield* elsewhere.requests).toEqual([])
        expect((yield* registry.requests).length).toBe(2)
      }).pipe(overHttp)
    )
  })

  describe("the connection", () => {
    it.scoped("is closed when the call is interrupted before an answer", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        const silent = yield* Loopback.watched(() => Effect.void)
        yield* registry.enqueue(silent.handler)
        const call = yield* Effect.fork(Effect.scoped(client.get({ containerId: "a" })))
        yield* silent.reached
        expect(Exit.isInterrupted(yield* Fiber.interrupt(call))).toBe(true)
        yield* silent.closed
      }).pipe(overHttp)
    )

    it.scoped("is closed when the call is interrupted inside the body", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        const stalled = yield* Loopback.watched(Loopback.sequence(head, half))
        yield* registry.enqueue(stalled.handler)
        const arrived = yield* Effect.makeLatch()
        const call = yield* Effect.scoped(client.get({ containerId: "a" })).pipe(
          Effect.provideService(RegistryClient.DownloadProgress, { onBytes: () => arrived.open }),
          Effect.fork
        )
        yield* arrived.await
        expect(Exit.isInterrupted(yield* Fiber.interrupt(call))).toBe(true)
        yield* stalled.closed
      }).pipe(overHttp)
    )

    it.scoped("lives as long as the scope of the call: a denial's body can still be read, and is let go", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        const denial = yield* Loopback.watched(Loopback.head(403))
        yield* registry.enqueue(denial.handler)
        const scope = yield* Scope.make()
        const reply = yield* Scope.extend(client.get({ containerId: "a" }), scope)
        expect(reply._tag).toBe("Denied")
        yield* Scope.close(scope, Exit.void)
        yield* denial.closed
      }).pipe(overHttp)
    )

    it.scoped("is closed with the scope although nobody has read the body of a 401", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        const stalled = yield* Loopback.watched(Loopback.head(401, { "content-length": 1_000 }))
        yield* registry.enqueue(stalled.handler)
        const error = yield* Effect.flip(Effect.scoped(client.get({ containerId: "a" })))
        expect(error).toEqual(new DeliveryError.AuthenticationFailed({ container: "a" }))
        yield* stalled.closed
      }).pipe(overHttp)
    )
  })

  describe("the transport", () => {
    it.scoped("fails as NETWORK_ERROR with the system's code when nobody listens", () =>
      Effect.gen(function* () {
        const gone = yield* Effect.scoped(Loopback.make)
        const client = yield* RegistryClient.make({ apiUrl: gone.url, apiKey: key })
        expect(yield* Effect.flip(client.get({ containerId: "a" }))).toEqual(
          new DeliveryError.NetworkError({ reason: "ECONNREFUSED", container: "a" })
        )
        expect(yield* Effect.flip(client.batch([{ containerId: "a" }]))).toEqual(
          new DeliveryError.NetworkError({ reason: "ECONNREFUSED" })
        )
      }).pipe(overHttp)
    )

    it.scoped.each<readonly [string, Loopback.Handler]>([
      ["FIN instead of an answer", hangUp],
      ["RST instead of an answer", reset],
      ["half a head", Loopback.sequence(raw("HTTP/1.1 200 OK\r\nContent-"), hangUp)],
      ["no HTTP at all", Loopback.sequence(raw("220 mail.example ESMTP\r\n"), hangUp)],
      ["FIN before the body", Loopback.sequence(head, hangUp)],
      ["RST before the body", Loopback.sequence(head, reset)],
      ["FIN inside the body", Loopback.sequence(head, half, hangUp)],
      ["RST inside the body", Loopback.sequence(head, half, reset)],
      ["FIN inside a chunked body", Loopback.sequence(chunkedHead, half, hangUp)],
      ["RST inside a chunked body", Loopback.sequence(chunkedHead, half, reset)],
      ["FIN inside an error's body", Loopback.sequence(Loopback.head(500), half, hangUp)]
    ])("fails as NETWORK_ERROR on %s", ([, handler]) =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        yield* registry.enqueue(handler)
        const error = yield* Effect.flip(client.get({ containerId: "a" }))
        expect(error).toMatchObject({ _tag: "NETWORK_ERROR", container: "a", retryable: true })
        expect((yield* registry.requests).length).toBe(1)
      }).pipe(overHttp)
    )
  })

  it.scoped("tells of the bytes while they arrive", () =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      const more = yield* Effect.makeLatch()
      yield* registry.enqueue(({ end, head, write }) =>
        head(200, { ...RegistryApi.snapshotHeaders(r1), "content-length": 6 }).pipe(
          Effect.zipRight(write("abc")),
          Effect.zipRight(more.await),
          Effect.zipRight(write("def")),
          Effect.zipRight(end)
        )
      )
      const told = yield* Ref.make<ReadonlyArray<readonly [number, number | undefined]>>([])
      yield* client.get({ containerId: "a" }).pipe(
        Effect.provideService(RegistryClient.DownloadProgress, {
          onBytes: (received, total) =>
            Effect.zipRight(
              Ref.update(told, (all) => [...all, [received, total] as const]),
              more.open
            )
        })
      )
      expect(yield* told).toEqual([
        [3, 6],
        [6, 6]
      ])
    }).pipe(overHttp)
  )

  it.scoped("leaves neither the key nor anything that the server wrote in errors, spans or logs", () =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      const loud = "SERVER-WROTE-THIS"
      const shouting = { "x-note": loud, etag: loud, "x-copilotkit-skills-revision": loud, location: `http://${loud}/` }
      const envelope = JSON.stringify({ error: { code: loud, message: loud, category: loud, retryable: false } })
      const known = JSON.stringify({
        error: { code: "REVISION_REVOKED", message: loud, category: loud, retryable: false }
      })
      const answers = [
        ...[200, 302, 304, 401, 403, 404, 500].map((status) => Loopback.respond(status, shouting, envelope)),
        Loopback.respond(403, {}, known),
        Loopback.respond(410, {}, known),
        Loopback.respond(200, { "content-type": loud }, loud),
        Loopback.json(200, { containers: [{ containerId: "a", status: loud, error: { code: loud } }] }),
        Loopback.sequence(raw(`HTTP/1.1 ${loud}\r\n\r\n`), hangUp)
      ]
      const seen: Array<string> = []
      for (const answer of answers) {
        yield* registry.enqueue(answer, answer)
        const asked = { containerId: "a", revision: "r1", ifNoneMatch: r1.etag }
        const got = yield* recorded(
          client.get(asked).pipe(
            Effect.flatMap((reply) => (reply._tag === "Denied" ? Effect.asVoid(reply.refined) : Effect.void)),
            Effect.tapErrorCause(Effect.logError)
          )
        )
        const batch = yield* recorded(Effect.tapErrorCause(client.batch([asked]), Effect.logError))
        seen.push(...[got, batch].map((one) => inspect(one, { depth: 12, showHidden: true })))
      }
      expect(seen.length).toBe(2 * answers.length)
      for (const text of seen) {
        expect(text).toContain("RegistryClient.")
        expect(text).not.toContain(loud)
        expect(text).not.toContain(apiKey)
      }
    }).pipe(overHttp)
  )

  it.scoped("writes the container, the status, the bytes and the outcome to its span, and has no other", () =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      yield* registry.enqueue(Loopback.snapshot(r1), Loopback.respond(401), Loopback.json(200, { containers: [] }))
      const { spans } = yield* recorded(
        Effect.all([
          client.get({ containerId: "a" }),
          Effect.either(client.get({ containerId: "a" })),
          client.batch([{ containerId: "a" }, { containerId: "b" }])
        ])
      )
      expect(spans.map((span) => [span.name, attributesOf(span)])).toEqual([
        [
          "RegistryClient.get",
          {
            "skills.container": "a",
            "http.response.status_code": 200,
            "skills.bytes": 3,
            "skills.outcome": "snapshot"
          }
        ],
        [
          "RegistryClient.get",
          {
            "skills.container": "a",
            "http.response.status_code": 401,
            "skills.outcome": "AUTHENTICATION_FAILED"
          }
        ],
        [
          "RegistryClient.batch",
          {
            "skills.container_count": 2,
            "http.response.status_code": 200,
            "skills.bytes": 17,
            "skills.outcome": "batch"
          }
        ]
      ])
    }).pipe(overHttp)
  )
})

/** A client whose every answer is made here. */
/** A request waits for the one before it instead of opening another connection. */
const oneConnection = Layer.scoped(
  NodeHttpClient.Dispatcher,
  Effect.acquireRelease(
    Effect.sync(() => new Undici.Agent({ connections: 1 })),
    (agent) => Effect.promise(() => agent.destroy())
  )
)

const answering = (answer: () => Response) =>
  HttpClient.make((request) => Effect.sync(() => HttpClientResponse.fromWeb(request, answer())))

const silent = HttpClient.make(() => Effect.dieMessage("a request was sent"))

const configured = (options: RegistryClient.Options) =>
  RegistryClient.make(options).pipe(Effect.provideService(HttpClient.HttpClient, silent))

describe("RegistryClient", () => {
  it.effect.each([
    "",
    "registry.example",
    "//registry.example",
    "ftp://registry.example",
    "file:///registry",
    "http://",
    "http://secret@registry.example",
    "http://user:secret@registry.example",
    "http://registry.example?secret",
    "http://registry.example/?",
    "http://registry.example#secret",
    "http://registry.example/#"
  ])("does not take the API URL %j", (apiUrl) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(configured({ apiUrl, apiKey: key }))
      expect(error).toMatchObject({ _tag: "INVALID_CONFIG", setting: "apiUrl" })
      expect(inspect(error)).not.toContain("secret")
    })
  )

  it.effect.each(["", " ", "\t", "secret key", "secret\n", " secret", "sécret", "secret\u0000", "secret\u007f"])(
    "does not take the API key %j, and does not quote it",
    (secret) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(
          configured({ apiUrl: "http://registry.example", apiKey: Redacted.make(secret) })
        )
        expect(error).toMatchObject({ _tag: "INVALID_CONFIG", setting: "apiKey" })
        expect(inspect(error)).not.toMatch(/s.cret[^s]*key|s.cret\s/)
      })
  )

  it.effect("sends nothing for a request that is not valid", () =>
    Effect.gen(function* () {
      const client = yield* configured({ apiUrl: "http://registry.example", apiKey: key })
      const invalid = { _tag: "INVALID_CONFIG" }
      expect(yield* Effect.flip(client.get({ containerId: ".." }))).toMatchObject(invalid)
      expect(yield* Effect.flip(client.get({ containerId: "a", revision: " " }))).toMatchObject(invalid)
      expect(yield* Effect.flip(client.batch([]))).toMatchObject(invalid)
      expect(yield* Effect.flip(client.batch([{ containerId: "a" }, { containerId: "a" }]))).toMatchObject(invalid)
    }).pipe(Effect.scoped)
  )

  it.effect("derives the sealing key from the API key alone, and keeps both redacted", () =>
    Effect.gen(function* () {
      const sealing = (apiUrl: string, secret: string) =>
        Effect.map(configured({ apiUrl, apiKey: Redacted.make(secret) }), (client) => client.sealingKey)
      const one = yield* sealing("http://one.example", "secret-a")
      expect(Redacted.value(one).length).toBe(32)
      expect(Redacted.value(yield* sealing("http://two.example", "secret-a"))).toEqual(Redacted.value(one))
      expect(Redacted.value(yield* sealing("http://one.example", "secret-b"))).not.toEqual(Redacted.value(one))
      expect(inspect(one)).toContain("<redacted>")
    })
  )

  describe("layerConfig", () => {
    const build = (...settings: ReadonlyArray<readonly [string, string]>) =>
      RegistryClient.RegistryClient.pipe(
        Effect.provide(RegistryClient.layerConfig),
        Effect.provideService(HttpClient.HttpClient, silent),
        Effect.withConfigProvider(ConfigProvider.fromMap(new Map(settings)))
      )
    const url = ["INTELLIGENCE_API_URL", "http://registry.example/"] as const
    const secret = ["CPK_INTELLIGENCE_API_KEY", apiKey] as const

    it.effect("takes the settings in use for this contract", () =>
      Effect.gen(function* () {
        expect((yield* build(url, secret)).apiUrl).toBe("http://registry.example")
      })
    )

    it.effect("names the setting that is missing or cannot be used", () =>
      Effect.gen(function* () {
        const setting = (...settings: ReadonlyArray<readonly [string, string]>) =>
          Effect.map(Effect.flip(build(...settings)), (error) => `${error._tag} ${error.setting}: ${error.problem}`)
        expect(yield* setting(secret)).toBe("INVALID_CONFIG INTELLIGENCE_API_URL: is not set")
        expect(yield* setting(url)).toBe("INVALID_CONFIG CPK_INTELLIGENCE_API_KEY: is not set")
        expect(yield* setting(["INTELLIGENCE_API_URL", "registry"], secret)).toBe(
          "INVALID_CONFIG INTELLIGENCE_API_URL: must begin with http:// or https://"
        )
        expect(yield* setting(["INTELLIGENCE_API_URL", "http://"], secret)).toBe(
          "INVALID_CONFIG INTELLIGENCE_API_URL: is not a URL"
        )
        expect(yield* setting(url, ["CPK_INTELLIGENCE_API_KEY", "a b"])).toContain(
          "CPK_INTELLIGENCE_API_KEY: is empty, or has a space"
        )
      })
    )
  })

  describe("a client that the caller has set up", () => {
    const over = (client: HttpClient.HttpClient) =>
      RegistryClient.make({ apiUrl: "http://registry.example", apiKey: key }).pipe(
        Effect.provideService(HttpClient.HttpClient, client)
      )

    it.scoped("may fail for statuses: a denial is still a denial, and an unchanged answer is one", () =>
      Effect.gen(function* () {
        const answers = [
          new Response(null, { status: 401 }),
          new Response(null, { status: 403 }),
          new Response(null, { status: 304, headers: RegistryApi.unchangedHeaders("r1", r1.etag) })
        ]
        const client = yield* over(HttpClient.filterStatusOk(answering(() => answers.shift() ?? Response.error())))
        expect((yield* Effect.flip(client.get({ containerId: "a" })))._tag).toBe("AUTHENTICATION_FAILED")
        expect((yield* client.get({ containerId: "a" }))._tag).toBe("Denied")
        expect((yield* client.get({ containerId: "a", ifNoneMatch: r1.etag }))._tag).toBe("Unchanged")
      })
    )

    it.scoped("may take a broken body for one that has ended: what is shorter than declared has not arrived", () =>
      Effect.gen(function* () {
        const headers = { ...RegistryApi.snapshotHeaders(r1), "content-length": String(r1.archive.length + 1) }
        const client = yield* over(answering(() => new Response(r1.archive, { headers })))
        expect(yield* Effect.flip(client.get({ containerId: "a" }))).toEqual(
          new DeliveryError.NetworkError({ container: "a" })
        )
      })
    )

    it.scoped("keeps its own options of fetch, but for redirects", () =>
      Effect.gen(function* () {
        const asked: Array<RequestInit | undefined> = []
        const fetch = ((_: unknown, init?: RequestInit) => {
          asked.push(init)
          return Promise.resolve(new Response(r1.archive, { headers: RegistryApi.snapshotHeaders(r1) }))
        }) as typeof globalThis.fetch
        const options = Layer.succeed(FetchHttpClient.RequestInit, { credentials: "omit", redirect: "follow" })
        yield* RegistryClient.RegistryClient.pipe(
          Effect.flatMap((client) => client.get({ containerId: "a" })),
          Effect.provide(
            RegistryClient.layer({ apiUrl: "http://registry.example", apiKey: key }).pipe(
              Layer.provide([FetchHttpClient.layer, options])
            )
          ),
          Effect.provideService(FetchHttpClient.Fetch, fetch)
        )
        expect(asked).toMatchObject([{ credentials: "omit", redirect: "manual" }])
      })
    )

    it.scoped("gives what a browser makes of a redirect, which says nothing more", () =>
      Effect.gen(function* () {
        // `Response.error()` has the status of an opaque redirect.
        const client = yield* over(answering(() => Response.error()))
        expect(yield* Effect.flip(client.get({ containerId: "a" }))).toEqual(
          new DeliveryError.UnsupportedServer({ container: "a" })
        )
      })
    )

    it.scoped("keeps its connection for the next request when an answer was read to its end", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        yield* registry.enqueue(Loopback.snapshot(r1), Loopback.unchanged("r1", r1.etag), Loopback.snapshot(r1))
        for (let request = 0; request < 3; request++) {
          yield* Effect.scoped(client.get({ containerId: "a", ifNoneMatch: r1.etag }))
        }
        expect((yield* registry.requests).map(({ connection }) => connection)).toEqual([0, 0, 0])
      }).pipe(
        Effect.provide([Layer.provide(NodeHttpClient.layerUndiciWithoutDispatcher, oneConnection), Loopback.layer])
      )
    )
  })
})
