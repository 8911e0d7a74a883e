import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Schema } from "effect"
import * as fc from "fast-check"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"

const etag = `"${"a".repeat(64)}"`

/** Fixed, so that a failure is found again; fast-check prints it together with the smallest counterexample. */
const property = { seed: 20_261, numRuns: 1_000 }

const containerId = fc.string({ unit: "binary", minLength: 1 }).filter(Schema.is(RegistryApi.ContainerId))
const revision = fc.string({ unit: "binary", minLength: 1 }).filter(Schema.is(RegistryApi.Revision))

const invalidSelection = (...requests: ReadonlyArray<RegistryApi.SnapshotRequest>) =>
  Effect.map(Effect.flip(RegistryApi.validateSelection(requests)), ({ problem, setting }) => ({ problem, setting }))

describe("RegistryApi", () => {
  it("puts an id into one path segment and a pin into the query, so that a server reads back what was asked", () => {
    fc.assert(
      fc.property(containerId, fc.option(revision, { nil: undefined }), (id, pin) => {
        const request = pin === undefined ? { containerId: id } : { containerId: id, revision: pin }
        const url = new URL(`http://127.0.0.1/prefix${RegistryApi.snapshotPath(request)}`)
        const route = `/prefix${RegistryApi.snapshotRoute}`.split("/")
        const segments = url.pathname.split("/")
        expect(segments.length).toBe(route.length)
        for (const [index, segment] of route.entries()) {
          expect(decodeURIComponent(segments[index] ?? "")).toBe(segment === ":containerId" ? id : segment)
        }
        expect([...url.searchParams]).toEqual(pin === undefined ? [] : [["revision", pin]])
        expect(url.hash).toBe("")
      }),
      property
    )
  })

  it.each([
    ["blank", " \t"],
    ["empty", ""],
    ["dot", "."],
    ["parent", ".."],
    ["line break", "a\nb"],
    ["NUL", "a\u0000"],
    ["C1 control", "a\u0085b"],
    ["lone high surrogate", "a\ud800"],
    ["lone low surrogate", "\udc00a"]
  ])("does not take an id that is %s", (_, id) => {
    expect(Schema.is(RegistryApi.ContainerId)(id)).toBe(false)
    expect(Effect.runSync(invalidSelection({ containerId: id })).setting).toBe("container")
  })

  it.each(["...", "a/b", "a%2Fb", "..%2f", "team skills", "\ufeff\u{10000}", "é"])("takes the id %j", (id) => {
    expect(Schema.is(RegistryApi.ContainerId)(id)).toBe(true)
  })

  it.effect("names the setting at fault and quotes nothing that was given", () =>
    Effect.gen(function* () {
      const secret = "\u0000secret"
      for (const requests of [
        [{ containerId: secret }],
        [{ containerId: "a", revision: " " }],
        [{ containerId: "a", revision: `${secret}\ud800` }],
        [{ containerId: "a", ifNoneMatch: secret }]
      ]) {
        const error = yield* Effect.flip(RegistryApi.validateSelection(requests))
        expect(JSON.stringify(error) + error.message).not.toContain("secret")
      }
      expect((yield* invalidSelection({ containerId: "a", revision: "" })).setting).toBe("revision")
      expect((yield* invalidSelection({ containerId: "a", ifNoneMatch: "W/x" })).setting).toBe("ifNoneMatch")
      expect((yield* invalidSelection()).setting).toBe("containers")
      expect((yield* invalidSelection({ containerId: "a" }, { containerId: "a" })).setting).toBe("containers")
    })
  )

  it.effect("takes 50 containers, and not 51", () =>
    Effect.gen(function* () {
      const containers = Array.from({ length: 51 }, (_, index) => ({ containerId: `c${index}` }))
      expect((yield* RegistryApi.validateSelection(containers.slice(1))).length).toBe(50)
      expect((yield* invalidSelection(...containers)).setting).toBe("containers")
    })
  )

  it("bounds a batch by its containers, and all batches by one length", () => {
    expect(RegistryApi.maximumBatchBytes(1)).toBe(44_739_244 + 65_536)
    expect(RegistryApi.maximumBatchBytes(8)).toBe(8 * 44_739_244 + 65_536)
    expect(RegistryApi.maximumBatchBytes(50)).toBe(402_653_184)
  })

  it("reads what a server writes: envelopes, and every kind of batch entry", () => {
    const revoked = new DeliveryError.RevisionRevoked({ retryable: true })
    expect(Schema.decodeUnknownSync(RegistryApi.ErrorEnvelope)(RegistryApi.errorEnvelope(revoked))).toEqual({
      error: { code: "REVISION_REVOKED", message: revoked.message, category: "denial", retryable: true }
    })
    expect(RegistryApi.errorEnvelope(new DeliveryError.UnsupportedServer()).error.category).toBe("transient")

    const archive = new Uint8Array([0, 1, 254, 255])
    const containers = [
      RegistryApi.snapshotEntry("a", { revision: "r1", etag, archive }),
      RegistryApi.unchangedEntry("b", "r2", etag),
      RegistryApi.errorEntry("c", revoked)
    ]
    expect(Schema.decodeUnknownSync(RegistryApi.BatchResponse)(JSON.parse(JSON.stringify({ containers })))).toEqual({
      containers: [
        {
          containerId: "a",
          status: "snapshot",
          revision: "r1",
          etag,
          contentType: "application/zip",
          bytesBase64: "AAH+/w=="
        },
        { containerId: "b", status: "unchanged", revision: "r2", etag },
        { containerId: "c", status: "error", error: { code: "REVISION_REVOKED", retryable: true } }
      ]
    })
  })

  it.each(["code", "message", "category", "retryable"])("does not take an envelope without %s", (member) => {
    const { error } = RegistryApi.errorEnvelope(new DeliveryError.ContainerNotFound())
    const { [member]: _, ...rest } = error as Record<string, unknown>
    const decode = Schema.decodeUnknownEither(RegistryApi.ErrorEnvelope)
    expect(Either.isLeft(decode({ error: rest }))).toBe(true)
    expect(Either.isLeft(decode({ error: { ...error, [member]: null } }))).toBe(true)
    expect(Either.isRight(decode({ error: { ...error, more: 1 } }))).toBe(true)
  })
})
