import { Context, Effect, Option, Schema } from "effect"

/** A store could not be read or written; `reason` is safe to show. Reported, never fatal. */
export class SnapshotCacheError extends Schema.TaggedError<SnapshotCacheError>()("SnapshotCacheError", {
  operation: Schema.Literal("load", "save"),
  reason: Schema.String
}) {}

/**
 * Where sealed records outlive a process: bytes by slot. A slot is 64 lower-case hex digits.
 *
 * A reference, not a tag: without a layer nothing outlives the delivery's own memory.
 */
export class SnapshotCache extends Context.Reference<SnapshotCache>()("effect-agent-contracts/delivery/SnapshotCache", {
  defaultValue: (): SnapshotCacheService => ({
    persistent: false,
    load: () => Effect.succeedNone,
    save: () => Effect.void
  })
}) {}

export interface SnapshotCacheService {
  /** False when nothing is kept, so that a delivery need not hold archives for it. */
  readonly persistent: boolean
  readonly load: (slot: string) => Effect.Effect<Option.Option<Uint8Array>, SnapshotCacheError>
  /** Replaces the slot whole or not at all. */
  readonly save: (slot: string, record: Uint8Array) => Effect.Effect<void, SnapshotCacheError>
}
