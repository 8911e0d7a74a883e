import type { Effect, Redacted } from "effect"
import { Schema } from "effect"
import type { Blocking } from "./DeliveryError.js"

/** Which container, as asked of which registry. */
export interface RecordKey {
  readonly apiUrl: string
  readonly containerId: string
  /** Absent: latest. */
  readonly revision?: string
}

/** What a persistent cache keeps of a container (contract, Lifecycle 15). */
export interface SnapshotRecord {
  readonly snapshot?: {
    readonly revision: string
    readonly etag: string
    readonly archive: Uint8Array
    readonly checkedAt: number
  }
  readonly denial?: Blocking
}

/** The record is torn, of another format, or not sealed with this key for this slot. */
export class SnapshotRecordError extends Schema.TaggedError<SnapshotRecordError>()("SnapshotRecordError", {
  reason: Schema.Literal("format", "seal")
}) {}

/** The cache slot: keyed, so that two API keys never share one. 64 lower-case hex digits. */
export declare const slot: (key: RecordKey, sealingKey: Redacted.Redacted<Uint8Array>) => string
export declare const seal: (
  key: RecordKey,
  record: SnapshotRecord,
  sealingKey: Redacted.Redacted<Uint8Array>
) => Effect.Effect<Uint8Array>
/** The inverse of `seal`. The archive is not yet verified. */
export declare const open: (
  key: RecordKey,
  bytes: Uint8Array,
  sealingKey: Redacted.Redacted<Uint8Array>
) => Effect.Effect<SnapshotRecord, SnapshotRecordError>
