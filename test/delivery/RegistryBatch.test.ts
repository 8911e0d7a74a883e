import { HttpClient, HttpClientResponse } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Fiber, Layer, Option, Redacted, type Scope } from "effect"
import * as fc from "fast-check"
import { yieldToEventLoop } from "#codec"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"
import * as RegistryClient from "../../src/delivery/RegistryClient.js"
import { httpClients } from "../support/HttpClients.js"
import * as Loopback from "../support/LoopbackRegistry.js"
import { apiKey, connect, opaque } from "../support/RegistryConnection.js"

const r1 = opaque(new Uint8Array([1, 2, 3]))
const r2 = opaque(new Uint8Array([4, 5, 6, 7]), "r2")
const snapshotOf = (response: typeof r1) => Either.right({ _tag: "Snapshot", response, transfer: true })

const revoked = (container: string, retryable = false) => new DeliveryError.RevisionRevoked({ container, retryable })
const invalid = (check: DeliveryError.SnapshotCheck, container?: string) =>
  new DeliveryError.InvalidSnapshot({ check, ...(container === undefined ? {} : { container }) })

const a = RegistryApi.snapshotEntry("a", r1)
const b = RegistryApi.snapshotEntry("b", r2)
const bRevoked = RegistryApi.errorEntry("b", revoked("b"))

/** A client to which any request is answered with this. */
const answered = (answer: () => Response) =>
  RegistryClient.make({ apiUrl: "http://registry.example", apiKey: Redacted.make(apiKey) }).pipe(
    Effect.provideService(
      HttpClient.HttpClient,
      HttpClient.make((request) => Effect.sync(() => HttpClientResponse.fromWeb(request, answer())))
    )
  )

const json = (text: string) => new Response(text, { headers: { "content-type": "application/json" } })

/** What comes of a 200 with this JSON for these requests. */
const batch = (requests: ReadonlyArray<RegistryApi.SnapshotRequest>, body: unknown) =>
  Effect.gen(function* () {
    const client = yield* answered(() => json(typeof body === "string" ? body : JSON.stringify(body)))
    const reply = yield* Effect.scoped(client.batch(requests))
    return reply._tag === "Batch" ? reply.replies : yield* Effect.dieMessage("denied")
  })

const ab = [{ containerId: "a" }, { containerId: "b" }]

describe("a batch", () => {
  it.effect("gives every container its own answer, in the order of the request", () =>
    Effect.gen(function* () {
      const requests = [
        { containerId: "z", revision: "r2" },
        { containerId: "a", ifNoneMatch: r1.etag },
        { containerId: "b" }
      ]
      const containers = [
        RegistryApi.snapshotEntry("z", r2),
        RegistryApi.unchangedEntry("a", "r1", r1.etag),
        RegistryApi.errorEntry("b", revoked("b", true))
      ]
      expect(yield* batch(requests, { containers, more: 1 })).toEqual([
        snapshotOf(r2),
        Either.right({ _tag: "Unchanged", revision: "r1", etag: r1.etag }),
        Either.left(revoked("b", true))
      ])
    })
  )

  it.live("gives an archive of many slices, and none that is not canonical in a later one", () =>
    Effect.gen(function* () {
      const long = opaque(new Uint8Array(5_000_000).fill(7))
      const entry = RegistryApi.snapshotEntry("a", long)
      const [reply] = yield* batch([{ containerId: "a" }], { containers: [entry] })
      if (reply === undefined || Either.isLeft(reply) || reply.right._tag !== "Snapshot") throw new Error("no snapshot")
      expect(Buffer.compare(reply.right.response.archive, long.archive)).toBe(0)
      // What is handed over is all of its buffer.
      expect(reply.right.response.archive.buffer.byteLength).toBe(long.archive.length)

      const text = entry.status === "snapshot" ? entry.bytesBase64 : ""
      const broken = { ...entry, bytesBase64: `${text.slice(0, -8)}====${text.slice(-4)}` }
      expect(yield* batch([{ containerId: "a" }], { containers: [broken] })).toEqual([
        Either.left(invalid("batch-base64", "a"))
      ])
    })
  )

  it.effect("of too many values for any batch is refused before it is parsed", () =>
    Effect.gen(function* () {
      const more = (value: string) =>
        JSON.stringify({ containers: [a, b], more: 0 }).replace('"more":0', `"more":${value}`)
      expect(yield* batch(ab, more(`[${"{},".repeat(20_000)}0]`))).toEqual([snapshotOf(r1), snapshotOf(r2)])
      for (const bomb of [more(`[${"{},".repeat(100_000)}0]`), more("[".repeat(200_000))]) {
        expect(yield* Effect.flip(batch(ab, bomb))).toEqual(invalid("batch-shape"))
      }
    })
  )

  it.effect("carries each of the codes in an entry, with the server's word on retrying", () =>
    Effect.gen(function* () {
      for (const code of DeliveryError.DeliveryCode.literals) {
        const error = DeliveryError.fromCode(code, { container: "b", retryable: true })
        const replies = yield* batch(ab, { containers: [a, RegistryApi.errorEntry("b", error)] })
        expect(replies).toEqual([snapshotOf(r1), Either.left(error)])
      }
    })
  )

  const asked: Record<string, Omit<RegistryApi.SnapshotRequest, "containerId">> = {
    held: { ifNoneMatch: r2.etag }
  }

  it.effect.each<readonly [string, unknown, DeliveryError.SnapshotCheck, keyof typeof asked]>([
    ["an entry of another type", { containers: ["a", b] }, "batch-shape", ""],
    ["too few entries", { containers: [a] }, "batch-shape", ""],
    ["too many entries", { containers: [a, b, b] }, "batch-shape", ""],
    ["no list", { containers: { 0: a, 1: b } }, "batch-shape", ""],
    ["no object", [a, b], "batch-shape", ""],
    ["nothing", null, "batch-shape", ""],
    ["another order", { containers: [b, a] }, "batch-shape", ""],
    ["an id twice", { containers: [a, a] }, "batch-shape", ""],
    ["an id that was not asked", { containers: [a, { ...b, containerId: "c" }] }, "batch-shape", ""],
    ["an unknown status", { containers: [a, { ...b, status: "redirect" }] }, "batch-shape", ""],
    ["no status", { containers: [a, { ...b, status: undefined }] }, "batch-shape", ""],
    ["no revision", { containers: [a, { ...b, revision: undefined }] }, "batch-shape", ""],
    ["a blank revision", { containers: [a, { ...b, revision: " " }] }, "batch-shape", ""],
    ["no ETag", { containers: [a, { ...b, etag: undefined }] }, "batch-shape", ""],
    ["a weak ETag", { containers: [a, { ...b, etag: `W/${r2.etag}` }] }, "batch-shape", ""],
    ["another content type", { containers: [a, { ...b, contentType: "text/html" }] }, "batch-shape", ""],
    ["no bytes", { containers: [a, { ...b, bytesBase64: undefined }] }, "batch-shape", ""],
    ["bytes as a list", { containers: [a, { ...b, bytesBase64: [4, 5] }] }, "batch-shape", ""],
    ["base64 without padding", { containers: [a, { ...b, bytesBase64: "BAUGBw" }] }, "batch-base64", ""],
    ["base64 with white space", { containers: [a, { ...b, bytesBase64: "BAUG\nBw==" }] }, "batch-base64", ""],
    ["base64 for URLs", { containers: [a, { ...b, bytesBase64: "__--" }] }, "batch-base64", ""],
    ["base64 with stray bits", { containers: [a, { ...b, bytesBase64: "BAUGBx==" }] }, "batch-base64", ""],
    ["an unknown code", { containers: [a, { ...bRevoked, error: { code: "X", retryable: true } }] }, "batch-shape", ""],
    [
      "unchanged to what was not held",
      { containers: [a, RegistryApi.unchangedEntry("b", "r2", r2.etag)] },
      "unchanged-unasked",
      ""
    ],
    [
      "unchanged with another ETag",
      { containers: [a, RegistryApi.unchangedEntry("b", "r1", r1.etag)] },
      "unchanged-mismatch",
      "held"
    ],
    [
      "unchanged with bytes",
      { containers: [a, { ...RegistryApi.unchangedEntry("b", "r2", r2.etag), bytesBase64: "" }] },
      "batch-shape",
      "held"
    ]
  ])("with %s is INVALID_SNAPSHOT for all of it", ([, body, check, more]) =>
    Effect.gen(function* () {
      const replies = yield* batch([{ containerId: "a" }, { containerId: "b", ...asked[more] }], body)
      expect(replies).toEqual([Either.left(invalid("batch-shape", "a")), Either.left(invalid(check, "b"))])
    })
  )

  it.effect("with another revision than a pinned one is INVALID_SNAPSHOT for that container alone", () =>
    Effect.gen(function* () {
      const pinned = [{ containerId: "a" }, { containerId: "b", revision: "r9", ifNoneMatch: r2.etag }]
      for (const other of [b, RegistryApi.unchangedEntry("b", "r2", r2.etag)]) {
        expect(yield* batch(pinned, { containers: [a, other] })).toEqual([
          snapshotOf(r1),
          Either.left(invalid("pinned-revision", "b"))
        ])
      }
      // What makes a batch malformed is not hidden by it.
      expect(yield* batch(pinned, { containers: [a, { ...b, bytesBase64: "BAUGBw" }] })).toEqual([
        Either.left(invalid("batch-shape", "a")),
        Either.left(invalid("batch-base64", "b"))
      ])
    })
  )

  it.effect.each<readonly [string, unknown]>([
    ["beside a malformed entry", [{ ...a, etag: "x" }, bRevoked]],
    ["in another order", [bRevoked, a]],
    ["beside a second entry of its own", [a, b, bRevoked]],
    ["alone", [bRevoked]],
    [
      "without its retryable",
      [
        { ...a, etag: "x" },
        { ...bRevoked, error: { code: "REVISION_REVOKED" } }
      ]
    ]
  ])("that is malformed still denies what it carries a denial for: %s", ([, containers]) =>
    Effect.gen(function* () {
      expect(yield* batch(ab, { containers })).toEqual([
        Either.left(invalid("batch-shape", "a")),
        Either.left(revoked("b"))
      ])
    })
  )

  it.effect("that is malformed still carries a server's INVALID_CONFIG, which blocks as a denial does", () =>
    Effect.gen(function* () {
      const refused = DeliveryError.fromCode("INVALID_CONFIG", { container: "b" })
      expect(yield* batch(ab, { containers: [RegistryApi.errorEntry("b", refused)] })).toEqual([
        Either.left(invalid("batch-shape", "a")),
        Either.left(refused)
      ])
    })
  )

  it.live("that has far too many entries lets other work run while it is searched for denials", () =>
    Effect.gen(function* () {
      const text = JSON.stringify({ containers: [...new Array<null>(90_000).fill(null), bRevoked] })
      let turns = 0
      const other = yield* Effect.fork(
        Effect.forever(
          Effect.zipRight(
            yieldToEventLoop,
            Effect.sync(() => turns++)
          )
        )
      )
      expect(yield* batch(ab, text)).toEqual([Either.left(invalid("batch-shape", "a")), Either.left(revoked("b"))])
      yield* Fiber.interrupt(other)
      expect(turns).toBeGreaterThan(10)
    })
  )

  it.effect("that is malformed denies nothing for a container that was not asked, nor for what is no denial", () =>
    Effect.gen(function* () {
      const containers = [
        RegistryApi.errorEntry("c", revoked("c")),
        RegistryApi.errorEntry("a", new DeliveryError.NetworkError()),
        null
      ]
      expect(yield* batch(ab, { containers })).toEqual([
        Either.left(invalid("batch-shape", "a")),
        Either.left(invalid("batch-shape", "b"))
      ])
    })
  )

  it.effect("that is no JSON, half of one, or something else is INVALID_SNAPSHOT", () =>
    Effect.gen(function* () {
      for (const text of ["", "<html>", JSON.stringify({ containers: [a, b] }).slice(0, -1)]) {
        expect(yield* Effect.flip(batch(ab, text))).toEqual(invalid("body-json"))
      }
      const html = yield* answered(() => new Response("<html>", { headers: { "content-type": "text/html" } }))
      expect(yield* Effect.flip(Effect.scoped(html.batch(ab)))).toEqual(invalid("content-type"))
    })
  )

  it.effect("takes an archive of at most the bound", () =>
    Effect.gen(function* () {
      const one = [{ containerId: "a" }]
      // The longest base64 of 32 MiB leaves one digit of the last group to padding; without padding it is a byte more.
      const digits = 44_739_244
      const entry = (bytesBase64: string) => ({ containers: [{ ...a, bytesBase64 }] })
      const [full] = yield* batch(one, entry(`${"A".repeat(digits - 1)}=`))
      expect(
        full?.pipe(
          Either.map((reply) => (reply._tag === "Snapshot" ? reply.response.archive.length : 0)),
          Either.getOrThrow
        )
      ).toBe(32 * 1024 * 1024)
      expect(yield* batch(one, entry("A".repeat(digits)))).toEqual([Either.left(invalid("batch-base64", "a"))])
      expect(yield* batch(one, entry("A".repeat(digits + 4)))).toEqual([Either.left(invalid("batch-shape", "a"))])
    })
  )

  it.effect("keeps its rules for whatever a server sends", () =>
    Effect.promise(() => fc.assert(anyBatch, { seed: 20_262, numRuns: 500 }))
  )
})

const requested = [
  { containerId: "a" },
  { containerId: "b", revision: "r2" },
  { containerId: "c", ifNoneMatch: r1.etag }
]
const ids = requested.map((request) => request.containerId)
const codes = fc.constantFrom<unknown>(...DeliveryError.DeliveryCode.literals, "TEAPOT", "__proto__", 7, null)
const mostly = <A>(usual: A, unusual: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 9, arbitrary: fc.constant<unknown>(usual) }, { weight: 1, arbitrary: unusual })

const entryFor = (id: string) => {
  const containerId = mostly(id, fc.constantFrom<unknown>(...ids, "d", 1))
  return fc.oneof(
    fc.record({
      containerId,
      status: fc.constant("snapshot"),
      revision: mostly("r2", fc.constantFrom<unknown>("r1", "", null)),
      etag: mostly(r2.etag, fc.constantFrom<unknown>("x", null)),
      contentType: mostly("application/zip", fc.constant("text/html")),
      bytesBase64: mostly("BAUGBw==", fc.constantFrom<unknown>("BAUGBw", null))
    }),
    fc.record({
      containerId,
      status: fc.constant("unchanged"),
      revision: fc.constant("r1"),
      etag: mostly(r1.etag, fc.constant(r2.etag))
    }),
    fc.record({
      containerId,
      status: fc.constant("error"),
      error: fc.record({ code: codes, retryable: mostly(false, fc.constantFrom<unknown>(true, "no")) })
    }),
    fc.jsonValue()
  )
}

/** The rule for all batches: an answer for each container, all or nothing accepted, and no denial lost. */
const anyBatch = fc.asyncProperty(
  fc.oneof(fc.tuple(...ids.map(entryFor)), fc.array(fc.constantFrom(...ids).chain(entryFor), { maxLength: 4 })),
  async (containers) => {
    const replies = await Effect.runPromise(batch(requested, { containers }))
    expect(replies.length).toBe(requested.length)
    const failures = replies.map((reply) => Option.getOrUndefined(Either.getLeft(reply)))
    for (const [index, id] of ids.entries()) {
      const failure = failures[index]
      if (failure !== undefined) expect(failure.container).toBe(id)
      const named = containers.flatMap((entry) => denialsIn(entry, id))
      if (named.length > 0) expect(named).toContain(failure?._tag)
    }
    // Another revision than the pinned one concerns its own container only.
    if (failures.some(isMalformed)) {
      expect(failures).not.toContain(undefined)
    }
  }
)

const isMalformed = (failure: DeliveryError.DeliveryError | undefined) =>
  failure?._tag === "INVALID_SNAPSHOT" && failure.check !== undefined && failure.check !== "pinned-revision"

const denialsIn = (entry: unknown, id: string): ReadonlyArray<string> => {
  const { containerId, error, status } = Object(entry)
  const denied =
    containerId === id && status === "error" && DeliveryError.Blocking.members.some((one) => one._tag === error?.code)
  return denied ? [error.code] : []
}

describe.each(httpClients)("a batch over %s", (_, http) => {
  const overHttp = <A, E>(
    effect: Effect.Effect<A, E, Loopback.LoopbackRegistry | HttpClient.HttpClient | Scope.Scope>
  ) => Effect.provide(effect, Layer.merge(Loopback.layer, http))

  it.scoped("arrives whole", () =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      yield* registry.enqueue(Loopback.batch(a, bRevoked))
      expect(yield* client.batch(ab)).toEqual({
        _tag: "Batch",
        replies: [snapshotOf(r1), Either.left(revoked("b"))]
      })
    }).pipe(overHttp)
  )

  it.scoped("is cut off past its own bound, and the connection is closed", () =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      const type = { "content-type": "application/json" }
      const declared = yield* Loopback.watched(
        Loopback.head(200, { ...type, "content-length": RegistryApi.maximumBatchBytes(1) + 1 })
      )
      const endless = yield* Loopback.watched(Loopback.endless(200, type, new Uint8Array(4 * 1024 * 1024).fill(32)))
      yield* registry.enqueue(declared.handler, endless.handler)
      for (const answer of [declared, endless]) {
        const error = yield* Effect.flip(Effect.scoped(client.batch([{ containerId: "a" }])))
        expect(error).toEqual(invalid("body-size"))
        yield* answer.closed
      }
    }).pipe(overHttp)
  )

  it.scoped("is denied whole by a 401 and a 403", () =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      yield* registry.enqueue(
        Loopback.sequence(Loopback.head(401), Loopback.stall),
        Loopback.failure(403, new DeliveryError.EntitlementRequired())
      )
      expect(yield* Effect.flip(client.batch(ab))).toEqual(new DeliveryError.AuthenticationFailed())
      const reply = yield* client.batch(ab)
      expect(reply).toMatchObject({ _tag: "Denied", denial: new DeliveryError.AuthorizationFailed() })
      expect(reply._tag === "Denied" && (yield* reply.refined)).toEqual(new DeliveryError.EntitlementRequired())
    }).pipe(overHttp)
  )

  it.scoped("has no 304, and otherwise fails as a single request does", () =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      yield* registry.enqueue(
        Loopback.unchanged("r1", r1.etag),
        Loopback.failure(503, new DeliveryError.DeliveryDisabled({ retryable: true })),
        Loopback.respond(404, {}, "<html>"),
        Loopback.sequence(
          Loopback.head(200, { "content-type": "application/json" }),
          ({ write }) => write("{"),
          ({ reset }) => reset
        )
      )
      const ask = Effect.flip(client.batch([{ containerId: "a", ifNoneMatch: r1.etag }]))
      expect(yield* ask).toEqual(new DeliveryError.UnsupportedServer({ status: 304 }))
      expect(yield* ask).toEqual(new DeliveryError.DeliveryDisabled({ retryable: true }))
      expect(yield* ask).toEqual(new DeliveryError.UnsupportedServer({ status: 404 }))
      expect(yield* ask).toMatchObject({ _tag: "NETWORK_ERROR" })
    }).pipe(overHttp)
  )
})
