import { Effect, Redacted } from "effect"
import * as SnapshotRecord from "../../src/delivery/SnapshotRecord.js"

/** What two processes of one test agree on: one container and its sealing key. */
export const key: SnapshotRecord.RecordKey = { apiUrl: "https://registry.test", containerId: "support" }
export const sealingKey = Redacted.make(new TextEncoder().encode("sealing key that processes share"))
export const slot = SnapshotRecord.slot(key, sealingKey)

/** A sealed record whose archive takes several writes. */
export const sealed = (revision: string, archiveBytes = 1.5 * 1024 * 1024) =>
  SnapshotRecord.seal(
    key,
    { snapshot: { revision, etag: '"e"', checkedAt: 0, archive: new Uint8Array(archiveBytes).fill(revision.length) } },
    sealingKey
  )

/** The revision of a record; fails when it is not whole. */
export const revisionOf = (record: Uint8Array) =>
  Effect.map(SnapshotRecord.open(key, record, sealingKey), ({ snapshot }) => snapshot?.revision)
