/**
 * What a persistent cache keeps of one container, as sealed bytes (contract, Lifecycle 15).
 *
 * A record is a header, metadata as JSON and the archive:
 *
 * | bytes | content |
 * |---|---|
 * | 8 | magic, its last byte the format version |
 * | 32 | seal: HMAC-SHA-256 over the key of the record and everything from here up to the archive |
 * | 64 | SHA-256 of the archive, lower-case hex |
 * | 4 | length of the metadata, big-endian |
 * | 4 | length of the archive, big-endian |
 * | … | metadata: revision, etag, check time and denial |
 * | … | archive |
 *
 * The seal covers the archive through its digest, so a record under a wrong key is refused before 32 MiB are hashed.
 *
 * @module
 */

import { Effect, Encoding, Redacted, Schema } from "effect"
import { hmacSha256 } from "#codec"
import * as Digest from "../archive/Digest.js"
import { Blocking } from "./DeliveryError.js"
import { limits } from "./Snapshot.js"

/** Which container, as asked of which registry. */
export interface RecordKey {
  readonly apiUrl: string
  readonly containerId: string
  /** The pin; absent: latest. */
  readonly revision?: string
}

/** What a persistent cache keeps: the last verified snapshot, the confirmed denial, or both. */
export interface SnapshotRecord {
  readonly snapshot?: {
    readonly revision: string
    readonly etag: string
    readonly archive: Uint8Array
    /** Unix time in milliseconds. */
    readonly checkedAt: number
  }
  readonly denial?: Blocking
}

const Metadata = Schema.parseJson(
  Schema.Struct({
    snapshot: Schema.optionalWith(
      Schema.Struct({ revision: Schema.String, etag: Schema.String, checkedAt: Schema.JsonNumber }),
      { exact: true }
    ),
    denial: Schema.optionalWith(Blocking, { exact: true })
  })
)

/**
 * Why there is no record:
 *
 * - `format`: the bytes are torn, cut, extended, or no record of this version;
 * - `seal`: not sealed with this key for this container, or changed afterwards;
 * - `size`: too large to be kept.
 */
export class SnapshotRecordError extends Schema.TaggedError<SnapshotRecordError>()("SnapshotRecordError", {
  reason: Schema.Literal("format", "seal", "size")
}) {
  override get message(): string {
    return `The cache record cannot be used: ${this.reason}.`
  }
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const magic = encoder.encode("acskill\u0001")
const sealAt = 8
const digestAt = 40
const metadataLengthAt = 104
const archiveLengthAt = 108
const headerLength = 112

/** A revision, an ETag, a time and a denial take a few hundred bytes; more than this is not read, parsed or hashed at once. */
const maxMetadataLength = 64 * 1024

/** The largest record, in bytes. A store need not read or keep anything larger. */
export const maxBytes = headerLength + maxMetadataLength + limits.archiveBytes

/**
 * HMAC-SHA-256 for one purpose over the record's key and `rest`. A JSON array shows its own end and keeps its members
 * apart, so no two inputs meet in the same bytes; `null`, which no pin equals, stands for `latest`.
 */
const authenticate = (
  purpose: "slot" | "seal",
  { apiUrl, containerId, revision }: RecordKey,
  sealingKey: Redacted.Redacted<Uint8Array>,
  rest: Uint8Array
): Uint8Array => {
  const label = `effect-agent-contracts/snapshot-record/v1/${purpose}`
  const key = encoder.encode(JSON.stringify([label, apiUrl, containerId, revision ?? null]))
  const message = new Uint8Array(key.length + rest.length)
  message.set(key)
  message.set(rest, key.length)
  return hmacSha256(Redacted.value(sealingKey), message)
}

/** Takes the same time wherever the difference is, so that a seal cannot be guessed byte by byte. */
const equalInConstantTime = (left: Uint8Array, right: Uint8Array): boolean => {
  if (left.length !== right.length) return false
  let difference = 0
  left.forEach((byte, index) => {
    difference |= byte ^ (right[index] ?? 0)
  })
  return difference === 0
}

/**
 * The cache slot of a container: 64 lower-case hex digits.
 *
 * It is keyed, so it tells nothing about the container and two API keys never share one: a new key starts with an empty
 * cache.
 */
export const slot = (key: RecordKey, sealingKey: Redacted.Redacted<Uint8Array>): string =>
  Encoding.encodeHex(authenticate("slot", key, sealingKey, new Uint8Array(0)))

/**
 * The record as bytes that only a holder of the sealing key can write. The archive is copied first, then digested in
 * slices that yield to the event loop.
 *
 * Fails with `size` when the archive is larger than 32 MiB or the metadata larger than 64 KiB.
 *
 * @example
 * ```ts
 * import { Effect, Redacted } from "effect"
 * import * as DeliveryError from "./DeliveryError.js"
 * import * as SnapshotRecord from "./SnapshotRecord.js"
 *
 * const key = { apiUrl: "https://registry.example", containerId: "support" }
 * const sealingKey = Redacted.make(new TextEncoder().encode("derived from the API key"))
 *
 * const program = SnapshotRecord.seal(key, { denial: new DeliveryError.RevisionRevoked({}) }, sealingKey).pipe(
 *   Effect.flatMap((bytes) => SnapshotRecord.open(key, bytes, sealingKey))
 * )
 * ```
 */
export const seal = Effect.fn("SnapshotRecord.seal")(function* (
  key: RecordKey,
  { denial, snapshot }: SnapshotRecord,
  sealingKey: Redacted.Redacted<Uint8Array>
): Effect.fn.Return<Uint8Array, SnapshotRecordError> {
  const archive = snapshot?.archive ?? new Uint8Array(0)
  const json = yield* Effect.orDie(
    Schema.encode(Metadata)({
      ...(snapshot === undefined ? {} : { snapshot }),
      ...(denial === undefined ? {} : { denial })
    })
  )
  const metadata = encoder.encode(json)
  if (metadata.length > maxMetadataLength || archive.length > limits.archiveBytes)
    return yield* new SnapshotRecordError({ reason: "size" })

  const archiveAt = headerLength + metadata.length
  const record = new Uint8Array(archiveAt + archive.length)
  record.set(magic)
  const view = new DataView(record.buffer)
  view.setUint32(metadataLengthAt, metadata.length)
  view.setUint32(archiveLengthAt, archive.length)
  record.set(metadata, headerLength)
  record.set(archive, archiveAt)
  encoder.encodeInto(yield* Digest.sha256Hex(record.subarray(archiveAt)), record.subarray(digestAt, metadataLengthAt))
  record.set(authenticate("seal", key, sealingKey, record.subarray(digestAt, archiveAt)), sealAt)
  return record
})

/**
 * The inverse of `seal`. The archive of the result is a view of `bytes`: as sealed, not yet verified as a snapshot.
 */
export const open = Effect.fn("SnapshotRecord.open")(function* (
  key: RecordKey,
  bytes: Uint8Array,
  sealingKey: Redacted.Redacted<Uint8Array>
): Effect.fn.Return<SnapshotRecord, SnapshotRecordError> {
  if (bytes.length < headerLength || magic.some((byte, index) => bytes[index] !== byte))
    return yield* new SnapshotRecordError({ reason: "format" })
  const view = new DataView(bytes.buffer, bytes.byteOffset, headerLength)
  const metadataLength = view.getUint32(metadataLengthAt)
  const archiveLength = view.getUint32(archiveLengthAt)
  const archiveAt = headerLength + metadataLength
  if (
    metadataLength > maxMetadataLength ||
    archiveLength > limits.archiveBytes ||
    bytes.length !== archiveAt + archiveLength
  ) {
    return yield* new SnapshotRecordError({ reason: "format" })
  }

  const sealed = bytes.subarray(digestAt, archiveAt)
  const isGenuine = equalInConstantTime(authenticate("seal", key, sealingKey, sealed), bytes.subarray(sealAt, digestAt))
  if (!isGenuine) return yield* new SnapshotRecordError({ reason: "seal" })
  // Nothing is parsed before it is known to be genuine.
  const { denial, snapshot } = yield* Schema.decode(Metadata)(
    decoder.decode(bytes.subarray(headerLength, archiveAt))
  ).pipe(Effect.mapError(() => new SnapshotRecordError({ reason: "format" })))
  const archive = bytes.subarray(archiveAt)
  const digest = decoder.decode(bytes.subarray(digestAt, metadataLengthAt))
  if (digest !== (yield* Digest.sha256Hex(archive))) return yield* new SnapshotRecordError({ reason: "seal" })
  return {
    ...(snapshot === undefined ? {} : { snapshot: { ...snapshot, archive } }),
    ...(denial === undefined ? {} : { denial })
  }
})
