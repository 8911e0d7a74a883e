import { createHash, createHmac } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Redacted } from "effect"
import * as FastCheck from "fast-check"
import { yieldToEventLoop } from "#codec"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import * as SnapshotRecord from "../../src/delivery/SnapshotRecord.js"

const seed = 20_261_130

const sealingKey = Redacted.make(Buffer.from("sealing key of the tests, 32 byte"))
const otherSealingKey = Redacted.make(Buffer.from("another key of the tests, 32 byte"))
const key: SnapshotRecord.RecordKey = { apiUrl: "https://registry.test", containerId: "support" }

const record: SnapshotRecord.SnapshotRecord = {
  snapshot: {
    revision: "r1",
    etag: `"${"0".repeat(64)}"`,
    archive: new Uint8Array([80, 75, 3, 4, 0, 255, 128, 10]),
    checkedAt: 1_700_000_000_123
  },
  denial: new DeliveryError.RevisionRevoked({ container: "support" })
}

const sealed = Effect.runSync(SnapshotRecord.seal(key, record, sealingKey))

const openReason = (bytes: Uint8Array, recordKey = key, secret: Redacted.Redacted<Uint8Array> = sealingKey) =>
  SnapshotRecord.open(recordKey, bytes, secret).pipe(
    Effect.as("opened"),
    Effect.catchAll((error) => Effect.succeed(error.reason))
  )

const openReasonSync = (...args: Parameters<typeof openReason>) => Effect.runSync(openReason(...args))

/** The documented layout and seal, written down a second time. */
const sealByHand = (
  metadata: string,
  archive: Uint8Array,
  digest = createHash("sha256").update(archive).digest("hex")
) => {
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32BE(Buffer.byteLength(metadata), 0)
  lengths.writeUInt32BE(archive.length, 4)
  const covered = Buffer.concat([Buffer.from(digest), lengths, Buffer.from(metadata)])
  const label = "effect-agent-contracts/snapshot-record/v1/seal"
  const seal = createHmac("sha256", Redacted.value(sealingKey))
    .update(JSON.stringify([label, key.apiUrl, key.containerId, null]))
    .update(covered)
    .digest()
  return Buffer.concat([Buffer.from("acskill\u0001"), seal, covered, archive])
}

const keyWith = (change: Partial<SnapshotRecord.RecordKey>): SnapshotRecord.RecordKey => ({ ...key, ...change })

const otherKeys: ReadonlyArray<[string, SnapshotRecord.RecordKey]> = [
  ["another API URL", keyWith({ apiUrl: "https://other.test" })],
  ["another container", keyWith({ containerId: "sales" })],
  ["a pin", keyWith({ revision: "r1" })],
  ["a pin that is called latest", keyWith({ revision: "latest" })],
  ["a pin that is called null", keyWith({ revision: "null" })],
  ["a boundary that moved", keyWith({ apiUrl: "https://registry.tes", containerId: "tsupport" })],
  ["a boundary that moved past a quote", keyWith({ apiUrl: 'https://registry.test","support', containerId: "" })]
]

describe("SnapshotRecord.slot", () => {
  it("is the hex HMAC-SHA-256 of the labelled key, 64 lower-case digits", () => {
    const label = "effect-agent-contracts/snapshot-record/v1/slot"
    const expected = createHmac("sha256", Redacted.value(sealingKey))
      .update(JSON.stringify([label, "https://registry.test", "support", null]))
      .digest("hex")
    expect(SnapshotRecord.slot(key, sealingKey)).toBe(expected)
    expect(expected).toMatch(/^[0-9a-f]{64}$/)
  })

  it.each(otherKeys)("differs for %s", (_, other) => {
    expect(SnapshotRecord.slot(other, sealingKey)).not.toBe(SnapshotRecord.slot(key, sealingKey))
  })

  it("differs for another sealing key, so two API keys never share one", () => {
    expect(SnapshotRecord.slot(key, otherSealingKey)).not.toBe(SnapshotRecord.slot(key, sealingKey))
  })

  it(`differs whenever the key differs (seed ${seed})`, () => {
    const part = FastCheck.string({
      unit: FastCheck.constantFrom('"', ",", "[", "]", "\\", "a", "\ud800", "ü", "null")
    })
    const recordKey = FastCheck.record(
      { apiUrl: part, containerId: part, revision: part },
      { requiredKeys: ["apiUrl", "containerId"] }
    )
    const parts = ({ apiUrl, containerId, revision }: SnapshotRecord.RecordKey) => [apiUrl, containerId, revision]
    FastCheck.assert(
      FastCheck.property(recordKey, recordKey, (left, right) => {
        const same = parts(left).every((value, index) => value === parts(right)[index])
        expect(SnapshotRecord.slot(left, sealingKey) === SnapshotRecord.slot(right, sealingKey)).toBe(same)
      }),
      { seed, numRuns: 2_000 }
    )
  })
})

describe("SnapshotRecord", () => {
  it.effect("gives back the snapshot and the denial that were sealed", () =>
    Effect.gen(function* () {
      expect(yield* SnapshotRecord.open(key, sealed, sealingKey)).toEqual(record)
    })
  )

  it("keeps the documented layout", () => {
    const archive = record.snapshot?.archive ?? new Uint8Array(0)
    const metadata = Buffer.from(sealed).toString("utf8", 112, sealed.length - archive.length)
    expect(JSON.parse(metadata)).toEqual({
      snapshot: { revision: "r1", etag: `"${"0".repeat(64)}"`, checkedAt: 1_700_000_000_123 },
      denial: { _tag: "REVISION_REVOKED", retryable: false, container: "support" }
    })
    expect(sealed).toEqual(new Uint8Array(sealByHand(metadata, archive)))
  })

  it.effect.each([
    new DeliveryError.InvalidConfig({ setting: "request", problem: "the registry refused it as misconfigured" }),
    new DeliveryError.AuthenticationFailed({}),
    new DeliveryError.AuthorizationFailed({}),
    new DeliveryError.EntitlementRequired({ retryable: true }),
    new DeliveryError.DeliveryDisabled({}),
    new DeliveryError.ContainerNotFound({ container: "support" }),
    new DeliveryError.RevisionNotFound({}),
    new DeliveryError.RevisionRevoked({})
  ])("keeps a denial without a snapshot: $_tag", (denial) =>
    Effect.gen(function* () {
      const bytes = yield* SnapshotRecord.seal(key, { denial }, sealingKey)
      const opened = yield* SnapshotRecord.open(key, bytes, sealingKey)
      expect(opened).toStrictEqual({ denial })
      expect(opened.denial?.message).toBe(denial.message)
    })
  )

  it.effect("keeps nothing, which is a record too", () =>
    Effect.gen(function* () {
      const bytes = yield* SnapshotRecord.seal(key, {}, sealingKey)
      expect(yield* SnapshotRecord.open(key, bytes, sealingKey)).toStrictEqual({})
    })
  )

  it(`gives back whatever was sealed (seed ${seed})`, () => {
    const text = FastCheck.string({
      unit: FastCheck.oneof(FastCheck.string({ unit: "binary" }), FastCheck.constant("\udc00"))
    })
    FastCheck.assert(
      FastCheck.property(
        FastCheck.record({ apiUrl: text, containerId: text, revision: text }),
        FastCheck.record({
          revision: text,
          etag: text,
          archive: FastCheck.uint8Array({ maxLength: 200 }),
          checkedAt: FastCheck.integer({ min: -8.64e15, max: 8.64e15 })
        }),
        (recordKey, snapshot) => {
          const opened = SnapshotRecord.seal(recordKey, { snapshot }, sealingKey).pipe(
            Effect.flatMap((bytes) => SnapshotRecord.open(recordKey, bytes, sealingKey)),
            Effect.runSync
          )
          expect(opened).toEqual({ snapshot })
        }
      ),
      { seed, numRuns: 200 }
    )
  })

  it.effect("opens a record that lies inside a larger buffer, and gives a view of it", () =>
    Effect.gen(function* () {
      const larger = new Uint8Array(sealed.length + 20).fill(7)
      larger.set(sealed, 13)
      const { snapshot } = yield* SnapshotRecord.open(key, larger.subarray(13, 13 + sealed.length), sealingKey)
      expect(snapshot?.archive).toEqual(record.snapshot?.archive)
      expect(snapshot?.archive.buffer).toBe(larger.buffer)
    })
  )

  it.effect("seals the archive as it was at the call, and lets other work run meanwhile", () =>
    Effect.gen(function* () {
      const archive = new Uint8Array(8 * 1024 * 1024).fill(1)
      const snapshot = { revision: "r1", etag: "e", checkedAt: 0, archive }
      const fiber = yield* Effect.fork(SnapshotRecord.seal(key, { snapshot }, sealingKey))
      yield* yieldToEventLoop
      expect(fiber.unsafePoll()).toBeNull()
      archive.fill(2)
      const opened = yield* SnapshotRecord.open(key, yield* fiber, sealingKey)
      expect(opened.snapshot?.archive.every((byte) => byte === 1)).toBe(true)
    })
  )
})

describe("SnapshotRecord.open refuses", () => {
  it("a record in which any one byte is another", () => {
    for (let index = 0; index < sealed.length; index++) {
      for (const bits of [0x01, 0x20, 0x80, 0xff]) {
        const changed = sealed.slice()
        changed[index] = (changed[index] ?? 0) ^ bits
        expect(openReasonSync(changed), `byte ${index} xor ${bits}`).toMatch(/^(format|seal)$/)
      }
    }
  })

  it("a record cut at any length, or with anything behind it", () => {
    for (let length = 0; length < sealed.length; length++) {
      expect(openReasonSync(sealed.subarray(0, length)), `cut to ${length}`).toBe("format")
    }
    expect(openReasonSync(Buffer.concat([sealed, Buffer.alloc(1)]))).toBe("format")
    expect(openReasonSync(Buffer.concat([sealed, sealed]))).toBe("format")
  })

  it(`any change, cut or extension of any record (seed ${seed})`, () => {
    const mutation = FastCheck.oneof(
      FastCheck.record({
        _tag: FastCheck.constant("Change" as const),
        at: FastCheck.nat(),
        bits: FastCheck.integer({ min: 1, max: 255 })
      }),
      FastCheck.record({ _tag: FastCheck.constant("Cut" as const), at: FastCheck.nat() }),
      FastCheck.record({
        _tag: FastCheck.constant("Insert" as const),
        at: FastCheck.nat(),
        bytes: FastCheck.uint8Array({ minLength: 1, maxLength: 40 })
      })
    )
    FastCheck.assert(
      FastCheck.property(
        FastCheck.string(),
        FastCheck.uint8Array({ maxLength: 300 }),
        mutation,
        (revision, archive, change) => {
          const snapshot = { revision, etag: '"e"', checkedAt: 1, archive }
          const bytes = Buffer.from(Effect.runSync(SnapshotRecord.seal(key, { snapshot }, sealingKey)))
          const at = change.at % bytes.length
          const mutated = Buffer.concat([
            bytes.subarray(0, at),
            change._tag === "Change"
              ? Buffer.from([(bytes[at] ?? 0) ^ change.bits])
              : change._tag === "Insert"
                ? change.bytes
                : Buffer.alloc(0),
            change._tag === "Cut" ? Buffer.alloc(0) : bytes.subarray(change._tag === "Change" ? at + 1 : at)
          ])
          expect(openReasonSync(mutated)).toMatch(/^(format|seal)$/)
        }
      ),
      { seed, numRuns: 2_000 }
    )
  })

  it.effect.each(otherKeys)("a genuine record of %s", ([_, other]) =>
    Effect.gen(function* () {
      expect(yield* openReason(sealed, other)).toBe("seal")
      const foreign = yield* SnapshotRecord.seal(other, record, sealingKey)
      expect(yield* openReason(foreign)).toBe("seal")
    })
  )

  it("a record sealed with another key", () => {
    expect(openReasonSync(sealed, key, otherSealingKey)).toBe("seal")
  })

  it("another archive under a genuine seal, also when the digest was changed with it", () => {
    const archive = record.snapshot?.archive ?? new Uint8Array(0)
    const other = Buffer.from(archive).fill(9)
    const swapped = Buffer.concat([sealed.subarray(0, -archive.length), other])
    expect(openReasonSync(swapped)).toBe("seal")
    swapped.write(createHash("sha256").update(other).digest("hex"), 40)
    expect(openReasonSync(swapped)).toBe("seal")
    // Sealed by a holder of the key who got the digest wrong.
    expect(openReasonSync(sealByHand("{}", other, createHash("sha256").update(archive).digest("hex")))).toBe("seal")
  })

  it("metadata that a holder of the key did not write in this format", () => {
    expect(openReasonSync(sealByHand("{}", Buffer.alloc(0)))).toBe("opened")
    for (const metadata of [
      "",
      "null",
      "[]",
      "{",
      '{"snapshot":{"revision":"r1"}}',
      '{"denial":{"_tag":"TIMEOUT","retryable":true}}'
    ]) {
      expect(openReasonSync(sealByHand(metadata, Buffer.alloc(0))), metadata).toBe("format")
    }
  })

  it("what is no record at all", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.alloc(112),
      Buffer.alloc(4096, 0xff),
      Buffer.from("PK\u0003\u0004".repeat(50))
    ]) {
      expect(openReasonSync(bytes)).toBe("format")
    }
  })

  it("lengths that lie, without allocating what they claim", () => {
    for (const [metadataLength, archiveLength] of [
      [0xffff_ffff, 0],
      [0, 0xffff_ffff],
      [0xffff_ffff, 0xffff_ffff]
    ] as const) {
      const lying = Buffer.from(sealed)
      lying.writeUInt32BE(metadataLength, 104)
      lying.writeUInt32BE(archiveLength, 108)
      expect(openReasonSync(lying)).toBe("format")
    }
  })

  it("metadata above 64 KiB, though its length is right", () => {
    const metadata = (length: number) => "{}".padEnd(length)
    expect(openReasonSync(sealByHand(metadata(65_536), Buffer.alloc(0)))).toBe("opened")
    expect(openReasonSync(sealByHand(metadata(65_537), Buffer.alloc(0)))).toBe("format")
  })
})

describe("SnapshotRecord bounds", () => {
  const limit = 32 * 1024 * 1024
  const sealOf = (length: number, revision = "r1") =>
    SnapshotRecord.seal(
      key,
      { snapshot: { revision, etag: "e", checkedAt: 0, archive: new Uint8Array(length) } },
      sealingKey
    )

  it.effect("an archive of 32 MiB is kept, one of a byte more refused", () =>
    Effect.gen(function* () {
      const bytes = yield* sealOf(limit)
      expect(bytes.length).toBeLessThanOrEqual(SnapshotRecord.maxBytes)
      expect((yield* SnapshotRecord.open(key, bytes, sealingKey)).snapshot?.archive.length).toBe(limit)
      expect(yield* Effect.either(sealOf(limit + 1))).toEqual(
        Either.left(new SnapshotRecord.SnapshotRecordError({ reason: "size" }))
      )
    })
  )

  it.effect("a record is not opened when its archive is larger than 32 MiB, though all else is right", () =>
    Effect.gen(function* () {
      expect(yield* openReason(sealByHand("{}", Buffer.alloc(limit + 1)))).toBe("format")
    })
  )

  it.effect("a revision that would not be read again is refused", () =>
    Effect.gen(function* () {
      expect((yield* sealOf(0, "r".repeat(60_000))).length).toBeGreaterThan(60_000)
      expect(yield* Effect.flip(sealOf(0, "r".repeat(70_000)))).toMatchObject({ reason: "size" })
    })
  )
})

describe("SnapshotRecord secrecy", () => {
  it.effect("no key is in a record, in a slot or in an error", () =>
    Effect.gen(function* () {
      const secret = Redacted.value(sealingKey)
      const bytes = Buffer.from(sealed)
      for (const encoding of ["utf8", "hex", "base64"] as const) {
        const text = Buffer.from(secret).toString(encoding)
        expect(bytes.includes(text)).toBe(false)
        expect(SnapshotRecord.slot(key, sealingKey)).not.toContain(text)
        const error = yield* Effect.flip(SnapshotRecord.open(key, sealed.subarray(1), sealingKey))
        expect(`${error} ${JSON.stringify(error)} ${error.stack}`).not.toContain(text)
      }
    })
  )
})
