import { gzipSync } from "node:zlib"
import type { HttpClient } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, Layer, type Scope } from "effect"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"
import { DownloadProgress } from "../../src/delivery/RegistryClient.js"
import { limits } from "../../src/delivery/Snapshot.js"
import { httpClients } from "../support/HttpClients.js"
import * as Loopback from "../support/LoopbackRegistry.js"
import { connect, opaque } from "../support/RegistryConnection.js"

const r1 = opaque(new Uint8Array([1, 2, 3]))
const otherEtag = `"${"b".repeat(64)}"`

/** As long as an archive may be. */
const full = opaque(new Uint8Array(limits.archiveBytes).fill(7).fill(1, -1))

/** Some 60 kB that inflate to twice what is allowed. */
const bomb = gzipSync(new Uint8Array(2 * limits.archiveBytes))

/** A good answer but for these headers; `undefined` leaves one out. */
const altered = (headers: Record<string, string | ReadonlyArray<string> | undefined>): Loopback.Handler => {
  const all = Object.entries({ ...RegistryApi.snapshotHeaders(r1), ...headers })
  const present = all.flatMap(([name, value]) =>
    value === undefined ? [] : [[name, typeof value === "string" ? value : [...value]] as const]
  )
  return Loopback.respond(200, Object.fromEntries(present), r1.archive)
}

const invalid = (check: DeliveryError.SnapshotCheck) => new DeliveryError.InvalidSnapshot({ check, container: "a" })
const unsupported = (status: number) => new DeliveryError.UnsupportedServer({ status, container: "a" })

const envelope = (members: Record<string, unknown>) =>
  JSON.stringify({ error: { code: "REVISION_REVOKED", message: "m", category: "c", retryable: false, ...members } })

/** An envelope of exactly so many bytes. */
const envelopeOf = (bytes: number) => {
  const rest = envelope({ message: "" }).length
  return envelope({ message: "m".repeat(bytes - rest) })
}

const denials = DeliveryError.Denial.members.map((member) => member._tag)
const others = DeliveryError.DeliveryCode.literals.filter((code) => !denials.some((denial) => denial === code))

describe.each(httpClients)("RegistryReply over %s", (clientName, http) => {
  const overHttp = <A, E>(
    effect: Effect.Effect<A, E, Loopback.LoopbackRegistry | HttpClient.HttpClient | Scope.Scope>
  ) => Effect.provide(effect, Layer.merge(Loopback.layer, http))

  const ask = (handler: Loopback.Handler, more: Omit<RegistryApi.SnapshotRequest, "containerId"> = {}) =>
    Effect.gen(function* () {
      const { client, registry } = yield* connect
      yield* registry.enqueue(handler)
      return yield* client.get({ containerId: "a", ...more })
    })

  it.scoped("an upgrade that nobody asked for is refused, and the connection is closed", () =>
    Effect.gen(function* () {
      const upgrade = yield* Loopback.watched(({ raw }) =>
        raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
      )
      const error = yield* Effect.flip(ask(upgrade.handler))
      expect(error._tag).toBe(clientName === "node:http" ? "UNSUPPORTED_SERVER" : "NETWORK_ERROR")
      yield* upgrade.closed
    }).pipe(overHttp)
  )

  it.scoped("gives what was said in its head as ready, and the whole archive", () =>
    Effect.gen(function* () {
      expect(yield* ask(altered({ "content-type": "Application/ZIP; charset=binary" }))).toEqual({
        _tag: "Snapshot",
        response: r1,
        transfer: true
      })
      const empty = opaque(new Uint8Array())
      expect(yield* ask(Loopback.snapshot(empty))).toEqual({ _tag: "Snapshot", response: empty, transfer: true })
    }).pipe(overHttp)
  )

  it.scoped.each<readonly [string, Loopback.Handler, DeliveryError.DeliveryError]>([
    ["HTML", altered({ "content-type": "text/html" }), invalid("content-type")],
    ["no content type", altered({ "content-type": undefined }), invalid("content-type")],
    ["another archive's content type", altered({ "content-type": "application/zip-x" }), invalid("content-type")],
    ["no ETag", altered({ etag: undefined }), invalid("etag-header")],
    ["a weak ETag", altered({ etag: `W/${r1.etag}` }), invalid("etag-header")],
    ["an ETag without quotes", altered({ etag: "a".repeat(64) }), invalid("etag-header")],
    ["an ETag in capitals", altered({ etag: r1.etag.toUpperCase() }), invalid("etag-header")],
    ["no revision", altered({ "x-copilotkit-skills-revision": undefined }), invalid("revision-header")],
    ["a blank revision", altered({ "x-copilotkit-skills-revision": "  " }), invalid("revision-header")]
  ])("a 200 with %s is not a snapshot", ([, handler, expected]) =>
    Effect.gen(function* () {
      expect(yield* Effect.flip(ask(handler))).toEqual(expected)
    }).pipe(overHttp)
  )

  it.scoped("a 200 of another revision than the pinned one is not a snapshot", () =>
    Effect.gen(function* () {
      expect(yield* Effect.flip(ask(Loopback.snapshot(r1), { revision: "r2" }))).toEqual(invalid("pinned-revision"))
    }).pipe(overHttp)
  )

  it.scoped.each<readonly [string, Loopback.Handler, Omit<RegistryApi.SnapshotRequest, "containerId">, string]>([
    ["that nobody asked for", Loopback.unchanged("r1", r1.etag), {}, "unchanged-unasked"],
    ["of another ETag", Loopback.unchanged("r1", otherEtag), { ifNoneMatch: r1.etag }, "unchanged-mismatch"],
    ["without an ETag", Loopback.respond(304), { ifNoneMatch: r1.etag }, "etag-header"],
    ["without a revision", Loopback.respond(304, { etag: r1.etag }), { ifNoneMatch: r1.etag }, "revision-header"],
    [
      "of another revision than the pinned one",
      Loopback.unchanged("r1", r1.etag),
      { ifNoneMatch: r1.etag, revision: "r2" },
      "pinned-revision"
    ]
  ])("a 304 %s is not valid", ([, handler, request, check]) =>
    Effect.gen(function* () {
      expect(yield* Effect.flip(ask(handler, request))).toMatchObject({ _tag: "INVALID_SNAPSHOT", check })
    }).pipe(overHttp)
  )

  describe("a body", () => {
    it.scoped("of exactly the bound is taken whole, with a declared length and without", () =>
      Effect.gen(function* () {
        for (const handler of [
          Loopback.snapshot(full),
          Loopback.respond(200, RegistryApi.snapshotHeaders(full), full.archive)
        ]) {
          const reply = yield* Effect.scoped(ask(handler))
          expect(reply._tag === "Snapshot" && Buffer.compare(reply.response.archive, full.archive)).toBe(0)
        }
      }).pipe(overHttp)
    )

    it.scoped("one byte past the bound is cut off, and the connection is closed", () =>
      Effect.gen(function* () {
        const past = yield* Loopback.watched(
          Loopback.sequence(Loopback.head(200, RegistryApi.snapshotHeaders(r1)), ({ write }) =>
            write(new Uint8Array(limits.archiveBytes + 1))
          )
        )
        expect(yield* Effect.flip(Effect.scoped(ask(past.handler)))).toEqual(invalid("body-size"))
        yield* past.closed
      }).pipe(overHttp)
    )

    it.scoped("that never ends is cut off, and the connection is closed", () =>
      Effect.gen(function* () {
        const megabyte = new Uint8Array(1024 * 1024)
        const endless = yield* Loopback.watched(Loopback.endless(200, RegistryApi.snapshotHeaders(r1), megabyte))
        expect(yield* Effect.flip(Effect.scoped(ask(endless.handler)))).toEqual(invalid("body-size"))
        yield* endless.closed
      }).pipe(overHttp)
    )

    it.scoped("that declares more than the bound is not read at all", () =>
      Effect.gen(function* () {
        const declared = { ...RegistryApi.snapshotHeaders(r1), "content-length": limits.archiveBytes + 1 }
        // Nothing follows the head: who reads waits for ever.
        const long = yield* Loopback.watched(Loopback.head(200, declared))
        expect(yield* Effect.flip(Effect.scoped(ask(long.handler)))).toEqual(invalid("body-size"))
        yield* long.closed
      }).pipe(overHttp)
    )

    it.scoped("that declares much and sends little makes nobody set memory aside for it", () =>
      Effect.gen(function* () {
        const { client, registry } = yield* connect
        const liars = 40
        const declared = { ...RegistryApi.snapshotHeaders(r1), "content-length": limits.archiveBytes }
        const arrived = yield* Effect.makeSemaphore(liars)
        yield* arrived.take(liars)
        const before = process.memoryUsage().arrayBuffers
        const calls: Array<Fiber.RuntimeFiber<unknown, unknown>> = []
        for (let liar = 0; liar < liars; liar++) {
          yield* registry.enqueue(
            Loopback.sequence(Loopback.head(200, declared), ({ write }) => write("x"), Loopback.stall)
          )
          calls.push(
            yield* client
              .get({ containerId: "a" })
              .pipe(
                Effect.provideService(DownloadProgress, { onBytes: () => arrived.release(1) }),
                Effect.scoped,
                Effect.fork
              )
          )
        }
        yield* arrived.take(liars)
        expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(liars * 1024 * 1024)
        yield* Fiber.interruptAll(calls)
      }).pipe(overHttp)
    )

    it.scoped("longer than it declares is cut at its declared length", () =>
      Effect.gen(function* () {
        const lie = `HTTP/1.1 200 OK\r\ncontent-type: application/zip\r\netag: ${r1.etag}\r\nx-copilotkit-skills-revision: r1\r\ncontent-length: 3\r\n\r\nabcdef`
        const reply = yield* ask(({ raw }) => raw(lie))
        expect(reply._tag === "Snapshot" && Buffer.from(reply.response.archive).toString()).toBe("abc")
      }).pipe(overHttp)
    )

    it.scoped("compressed against what was asked is bounded by what it inflates to", () =>
      Effect.gen(function* () {
        const handler = Loopback.respond(
          200,
          { ...RegistryApi.snapshotHeaders(r1), "content-encoding": "gzip", "content-length": bomb.length },
          bomb
        )
        const reply = yield* Effect.either(ask(handler))
        // fetch inflates by itself; the others hand on the bytes that came, which are no archive of that ETag.
        if (clientName === "fetch") expect(reply).toMatchObject({ left: invalid("body-size") })
        else expect(reply).toMatchObject({ right: { response: { archive: { length: bomb.length } } } })
      }).pipe(overHttp)
    )

    it.scoped("compressed against what was asked is taken as what comes of it, whatever length is declared", () =>
      Effect.gen(function* () {
        const archive = new Uint8Array(100_000).fill(9)
        const zipped = gzipSync(archive)
        const handler = Loopback.respond(
          200,
          { ...RegistryApi.snapshotHeaders(r1), "content-encoding": "gzip", "content-length": zipped.length },
          zipped
        )
        const reply = yield* ask(handler)
        const expected = clientName === "fetch" ? archive : new Uint8Array(zipped)
        expect(reply._tag === "Snapshot" && Buffer.compare(reply.response.archive, expected)).toBe(0)
      }).pipe(overHttp)
    )
  })

  describe("a 401", () => {
    it.scoped("is AUTHENTICATION_FAILED at once, whatever the body says or however it stalls", () =>
      Effect.gen(function* () {
        const expected = new DeliveryError.AuthenticationFailed({ container: "a" })
        const says = Loopback.respond(401, {}, envelope({ code: "REVISION_REVOKED", retryable: true }))
        expect(yield* Effect.flip(ask(says))).toEqual(expected)
        expect(yield* Effect.flip(ask(Loopback.sequence(Loopback.head(401), Loopback.stall)))).toEqual(expected)
      }).pipe(overHttp)
    )
  })

  describe("a 403", () => {
    const refine = (handler: Loopback.Handler) =>
      Effect.flatMap(ask(handler), (reply) =>
        reply._tag === "Denied" ? reply.refined : Effect.dieMessage(`a ${reply._tag}`)
      )
    const denial = new DeliveryError.AuthorizationFailed({ container: "a" })

    it.scoped("is a denial from its head on, before any of its body has come", () =>
      Effect.gen(function* () {
        const reply = yield* ask(Loopback.sequence(Loopback.head(403), Loopback.stall))
        expect(reply).toMatchObject({ _tag: "Denied", denial })
      }).pipe(overHttp)
    )

    it.scoped("becomes the denial that its body names", () =>
      Effect.gen(function* () {
        for (const code of denials) {
          const refined = yield* refine(Loopback.respond(403, {}, envelope({ code, retryable: true })))
          expect(refined).toMatchObject({ _tag: code, retryable: true, container: "a" })
        }
      }).pipe(overHttp)
    )

    it.scoped("stays what it is when its body names no denial, is malformed, is too long or breaks", () =>
      Effect.gen(function* () {
        for (const handler of [
          ...others.map((code) => Loopback.respond(403, {}, envelope({ code }))),
          Loopback.respond(403),
          Loopback.respond(403, {}, "<html>"),
          Loopback.respond(403, {}, envelope({ retryable: "no" })),
          Loopback.respond(403, {}, envelope({ category: undefined })),
          Loopback.respond(403, {}, envelopeOf(64 * 1024 + 1)),
          Loopback.endless(403, {}, new Uint8Array(64 * 1024)),
          Loopback.sequence(
            Loopback.head(403),
            ({ write }) => write("{"),
            ({ reset }) => reset
          )
        ]) {
          expect(yield* Effect.scoped(refine(handler))).toEqual(denial)
        }
      }).pipe(overHttp)
    )

    it.scoped("lets its stalling body be given up", () =>
      Effect.gen(function* () {
        const stalled = yield* Loopback.watched(Loopback.head(403))
        const reading = yield* Effect.fork(Effect.scoped(refine(stalled.handler)))
        yield* stalled.reached
        yield* Fiber.interrupt(reading)
        yield* stalled.closed
      }).pipe(overHttp)
    )
  })

  describe("any other status", () => {
    it.scoped("is the code of a well-formed envelope, and whether it may be retried is the server's word", () =>
      Effect.gen(function* () {
        for (const code of DeliveryError.DeliveryCode.literals) {
          for (const [status, retryable] of [
            [404, true],
            [503, false]
          ] as const) {
            const error = yield* Effect.flip(ask(Loopback.respond(status, {}, envelope({ code, retryable }))))
            expect(error).toMatchObject({ _tag: code, retryable, container: "a" })
          }
        }
      }).pipe(overHttp)
    )

    it.scoped("is read to 64 KiB, and no further", () =>
      Effect.gen(function* () {
        const revoked = new DeliveryError.RevisionRevoked({ container: "a" })
        const sized = (bytes: number) => Loopback.respond(410, { "content-length": bytes }, envelopeOf(bytes))
        expect(yield* Effect.flip(ask(sized(64 * 1024)))).toEqual(revoked)
        expect(yield* Effect.flip(ask(sized(64 * 1024 + 1)))).toEqual(unsupported(410))
        expect(yield* Effect.flip(ask(Loopback.respond(410, {}, envelopeOf(64 * 1024))))).toEqual(revoked)
        expect(yield* Effect.flip(ask(Loopback.respond(410, {}, envelopeOf(64 * 1024 + 1))))).toEqual(unsupported(410))

        const endless = yield* Loopback.watched(Loopback.endless(410, {}, new Uint8Array(64 * 1024)))
        expect(yield* Effect.flip(Effect.scoped(ask(endless.handler)))).toEqual(unsupported(410))
        yield* endless.closed
      }).pipe(overHttp)
    )

    it.scoped.each<readonly [string, number, string]>([
      ["no body", 404, ""],
      ["no content", 204, ""],
      ["HTML", 502, "<html><body>Bad gateway</body></html>"],
      ["an archive under another status", 206, "PK"],
      ["half an envelope", 500, envelope({}).slice(0, -1)],
      ["no retryable", 500, envelope({ retryable: undefined })],
      ["a number for a message", 500, envelope({ message: 1 })],
      ["no category", 500, envelope({ category: null })],
      ["an unknown code", 500, envelope({ code: "TEAPOT" })],
      ["a code of an object's own", 500, envelope({ code: "constructor" })],
      ["a list", 500, "[]"],
      ["null", 500, "null"]
    ])("is UNSUPPORTED_SERVER with %s", ([, status, body]) =>
      Effect.gen(function* () {
        expect(yield* Effect.flip(ask(Loopback.respond(status, {}, body)))).toEqual(unsupported(status))
      }).pipe(overHttp)
    )
  })
})
