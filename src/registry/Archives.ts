/**
 * The archives of a registry: blobs that rows point to. A blob is stored before its row and removed after its last one, so
 * that a crash or a refusal in between leaves an orphan at most, never a row without its archive; orphans are swept at a start and
 * every hour.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Chunk, Duration, Effect, Schedule, type Scope, Stream } from "effect"
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
  /** Removes every archive to which no row points, now, before anything is put, and from time to time within the scope. */
  readonly sweep: Effect.Effect<void, StoreUnavailable, Scope.Scope>
}

/** An archive that was put less long ago may be about to get its row, from any server. */
const settling = Duration.hours(1)

/** Archives that are held against the rows with one statement. */
const sweptAtOnce = 500

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const blobs = yield* BlobStore
  const get: Archives["get"] = (sha256) =>
    Effect.catchTag(blobs.get(sha256), "BLOB_NOT_FOUND", () => new CorruptBlob({ sha256 }))

  const pointedAt = (digests: ReadonlyArray<string>) =>
    Effect.map(
      Database.orUnavailable(sql<{ sha256: string }>`
        SELECT sha256 FROM skill_versions WHERE ${sql.in("sha256", digests)}
        UNION ALL SELECT sha256 FROM revisions WHERE ${sql.in("sha256", digests)}`),
      (rows) => new Set(rows.map(({ sha256 }) => sha256))
    )

  const removeOrphans = (digests: ReadonlyArray<string>, age?: { readonly olderThan: Duration.Duration }) =>
    Effect.flatMap(pointedAt(digests), (wanted) =>
      Effect.forEach(digests, (sha256) => (wanted.has(sha256) ? Effect.void : blobs.remove(sha256, age)), {
        discard: true
      })
    )

  const collect: Archives["collect"] = Effect.fn("Archives.collect")((sha256) =>
    removeOrphans([sha256], { olderThan: settling })
  )

  const sweepOnce = (age?: { readonly olderThan: Duration.Duration }) =>
    blobs.list.pipe(
      Stream.grouped(sweptAtOnce),
      Stream.runForEach((digests) => removeOrphans(Chunk.toReadonlyArray(digests), age)),
      Effect.withSpan("Archives.sweep")
    )

  const sweep: Archives["sweep"] = Effect.gen(function* () {
    yield* sql.onDialectOrElse({
      pg: () => sweepOnce({ olderThan: settling }),
      // One process owns the embedded store, and this one has put nothing yet.
      orElse: () => sweepOnce()
    })
    const later = Effect.ignoreLogged(sweepOnce({ olderThan: settling }))
    yield* Effect.forkScoped(Effect.schedule(later, Schedule.spaced(settling)))
  })

  return { put: blobs.put, get, collect, sweep } satisfies Archives
})
