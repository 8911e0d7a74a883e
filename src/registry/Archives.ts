/**
 * The archives of a registry: blobs that rows point to. A blob is stored before its row and removed after its last one, so
 * that a crash in between leaves an orphan at most, never a row without its archive; orphans are swept at the next start.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Duration, Effect, Stream } from "effect"
import { BlobStore, CorruptBlob } from "../store/BlobStore.js"
import * as Database from "../store/Database.js"
import type { StoreUnavailable } from "../store/StoreError.js"

export interface Archives {
  /** Stores an archive and gives its digest, lower-case hex SHA-256. The row has to follow at once. */
  readonly put: (archive: Uint8Array) => Effect.Effect<string, StoreUnavailable>
  /** An archive to which a row points, its digest proved. */
  readonly get: (sha256: string) => Effect.Effect<Uint8Array, CorruptBlob | StoreUnavailable>
  /** Removes an archive to which no row points any longer. */
  readonly collect: (sha256: string) => Effect.Effect<void, StoreUnavailable>
  /** Removes every archive to which no row points. For the start, before anything is put. */
  readonly sweep: Effect.Effect<void, StoreUnavailable>
}

/** An archive that was put less long ago may be about to get its row, from any server. */
const settling = Duration.hours(1)

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const blobs = yield* BlobStore
  // Of the age of a file and its removal, nothing may come in between.
  const turn = yield* Effect.makeSemaphore(1)

  const get: Archives["get"] = (sha256) =>
    Effect.catchTag(blobs.get(sha256), "BLOB_NOT_FOUND", () => new CorruptBlob({ sha256 }))

  const collect: Archives["collect"] = Effect.fn("Archives.collect")(function* (sha256) {
    const rows = yield* Database.orUnavailable(sql`
      SELECT sha256 FROM skill_versions WHERE sha256 = ${sha256}
      UNION ALL SELECT sha256 FROM revisions WHERE sha256 = ${sha256}
      LIMIT 1`)
    if (rows.length === 0) yield* turn.withPermits(1)(blobs.remove(sha256, { olderThan: settling }))
  })

  const sweep: Archives["sweep"] = Effect.gen(function* () {
    const stored = yield* Stream.runCollect(blobs.list)
    const rows = yield* Database.orUnavailable(sql<{ sha256: string }>`
      SELECT sha256 FROM skill_versions UNION SELECT sha256 FROM revisions`)
    const pointedAt = new Set(rows.map(({ sha256 }) => sha256))
    const age = sql.onDialectOrElse({
      pg: () => ({ olderThan: settling }),
      // One process owns the embedded store, and this one has put nothing yet.
      orElse: () => undefined
    })
    yield* Effect.forEach(stored, (sha256) => (pointedAt.has(sha256) ? Effect.void : blobs.remove(sha256, age)), {
      discard: true
    })
  }).pipe(Effect.withSpan("Archives.sweep"))

  return { put: (archive) => turn.withPermits(1)(blobs.put(archive)), get, collect, sweep } satisfies Archives
})
