/**
 * Archives by the digest of their bytes.
 *
 * Small enough for an object store: put, get, remove, list. A blob never changes and its name proves its content, so
 * writers need no agreement and readers no trust: what `get` gives has been checked (contract, Registry server).
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import * as SqlClient from "@effect/sql/SqlClient"
import { Array, Chunk, Clock, Context, Duration, Effect, Layer, Option, Schema, Stream } from "effect"
import * as Digest from "../archive/Digest.js"
import * as DurableFile from "../files/DurableFile.js"
import * as Database from "./Database.js"
import { DatabaseError, reasonOf, StoreUnavailable, unavailable } from "./StoreError.js"

/** The store has no blob of this digest. */
export class BlobNotFound extends Schema.TaggedError<BlobNotFound>()("BLOB_NOT_FOUND", {
  sha256: Schema.String
}) {
  override get message(): string {
    return "The store has no archive of this digest."
  }
}

/** What is stored under this digest is something else: damaged, cut short or put there by somebody. Never served. */
export class CorruptBlob extends Schema.TaggedError<CorruptBlob>()("CORRUPT_BLOB", {
  sha256: Schema.String
}) {
  override get message(): string {
    return `The stored archive ${this.sha256} is damaged: restore it from a backup, or publish it again.`
  }
}

export interface BlobStoreService {
  /**
   * Keeps the bytes and gives their digest, lower-case hex SHA-256. On disk when it succeeds; on its failure or
   * interruption there is nothing, or all of it. Putting a blob that is there replaces it, so that a damaged one is healed.
   *
   * At most `maxBytes`, and not to be changed meanwhile.
   */
  readonly put: (bytes: Uint8Array) => Effect.Effect<string, StoreUnavailable>
  /** The bytes, checked against the digest. They are the caller's own. */
  readonly get: (sha256: string) => Effect.Effect<Uint8Array, BlobNotFound | CorruptBlob | StoreUnavailable>
  /**
   * Nothing happens when there is none. With `olderThan` only a blob whose last `put` is longer ago goes: whoever sweeps
   * leaves out what another server has just put and not yet written down.
   */
  readonly remove: (
    sha256: string,
    options?: { readonly olderThan: Duration.DurationInput }
  ) => Effect.Effect<void, StoreUnavailable>
  /** Every digest once, in any order. What comes or goes meanwhile may be among them or not. */
  readonly list: Stream.Stream<string, StoreUnavailable>
}

/**
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { BlobStore } from "effect-agent-contracts/store"
 *
 * const copied = Effect.gen(function* () {
 *   const blobs = yield* BlobStore.BlobStore
 *   const sha256 = yield* blobs.put(new TextEncoder().encode("archive"))
 *   return yield* blobs.get(sha256)
 * })
 * ```
 */
export class BlobStore extends Context.Tag("effect-agent-contracts/store/BlobStore")<BlobStore, BlobStoreService>() {}

/** More than any archive has (contract, One skill, one canonical archive: 64 MiB are read from a store). */
export const maxBytes = 64 * 1024 * 1024

/** Between two of these the event loop does its other work, and a call can be interrupted. */
const partBytes = 1024 * 1024

/** Stores differ in where bytes lie; what is common is here: checks, bounds, spans. */
const make = (store: {
  readonly put: (sha256: string, bytes: Uint8Array) => Effect.Effect<void, StoreUnavailable>
  /** The parts as they lie there, or none; an end after `maxBytes` is allowed. */
  readonly get: (sha256: string) => Stream.Stream<Uint8Array, BlobNotFound | CorruptBlob | StoreUnavailable>
  readonly remove: (
    sha256: string,
    olderThan: Option.Option<Duration.Duration>
  ) => Effect.Effect<void, StoreUnavailable>
  readonly list: Stream.Stream<string, StoreUnavailable>
}): BlobStoreService => ({
  put: Effect.fn("BlobStore.put")(function* (bytes) {
    if (bytes.length > maxBytes) return yield* Effect.dieMessage("A blob has at most 64 MiB")
    const sha256 = yield* Digest.sha256Hex(bytes)
    yield* Effect.annotateCurrentSpan({ sha256, bytes: bytes.length })
    yield* store.put(sha256, bytes)
    return sha256
  }),
  get: Effect.fn("BlobStore.get")(function* (sha256) {
    yield* Effect.annotateCurrentSpan({ sha256 })
    if (!isDigest(sha256)) return yield* new BlobNotFound({ sha256 })
    // Counted as it is read: no stored length is trusted to size a buffer (contract, the same section).
    const parts: globalThis.Array<Uint8Array> = []
    let length = 0
    yield* Stream.runForEach(store.get(sha256), (part) => {
      parts.push(part)
      length += part.length
      return length > maxBytes ? new CorruptBlob({ sha256 }) : Effect.void
    })
    const bytes = new Uint8Array(length)
    let offset = 0
    for (const part of parts) {
      bytes.set(part, offset)
      offset += part.length
    }
    if ((yield* Digest.sha256Hex(bytes)) !== sha256) return yield* new CorruptBlob({ sha256 })
    return bytes
  }),
  remove: Effect.fn("BlobStore.remove")(function* (sha256, options) {
    yield* Effect.annotateCurrentSpan({ sha256 })
    if (!isDigest(sha256)) return
    yield* store.remove(
      sha256,
      Option.map(Option.fromNullable(options), ({ olderThan }) => Duration.decode(olderThan))
    )
  }),
  list: store.list
})

/** It becomes a file name, so nothing else may. */
const isDigest = (sha256: string) => /^[0-9a-f]{64}$/.test(sha256)

/** A file that a crash left half written is not touched while it may still be a put under way. */
const leftoverAge = Duration.minutes(10)

/**
 * Blobs as files of a directory, named by digest; for one process. Both are for this user only (0700, 0600).
 *
 * A blob is written beside its place, synced and renamed, and the directory is synced, so that after a crash or a full disk
 * it is there, whole, or not at all. What a crash left half written is removed at a later start.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { BlobStore } from "effect-agent-contracts/store"
 *
 * export const layer = Layer.provide(BlobStore.layerFiles({ directory: "/var/lib/registry/blobs" }), NodeContext.layer)
 * ```
 */
export const layerFiles = (options: {
  readonly directory: string
}): Layer.Layer<BlobStore, DatabaseError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    BlobStore,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { directory } = options
      const fileOf = (sha256: string) => path.join(directory, sha256)
      // Between looking at a file's age and removing it no put may come.
      const turn = yield* Effect.makeSemaphore(1)

      /** Whether the last write of a file is longer ago. A file that is gone is not. */
      const isOlder = (file: string, age: Duration.Duration) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const { mtime } = yield* fs.stat(file)
          return Option.exists(mtime, (mtime) => now - mtime.getTime() > Duration.toMillis(age))
        })

      const removeLeftovers = Effect.gen(function* () {
        const names = yield* fs.readDirectory(directory)
        yield* Effect.forEach(
          names.filter((name) => /^[0-9a-f]{64}\.[0-9a-f-]{36}\.tmp$/.test(name)),
          (name) =>
            Effect.whenEffect(fs.remove(path.join(directory, name)), isOlder(path.join(directory, name), leftoverAge)),
          { discard: true }
        )
      })

      yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 }).pipe(
        // The directory's own entry has to survive a power failure too.
        Effect.zipRight(DurableFile.syncDirectory(fs, path.dirname(path.resolve(directory)))),
        Effect.zipRight(removeLeftovers),
        Effect.mapError((error) => new DatabaseError({ problem: "open", reason: reasonOf(error) }))
      )

      const read = (sha256: string) =>
        Stream.unwrapScoped(
          Effect.gen(function* () {
            const file = fileOf(sha256)
            // Opening a pipe would wait for a writer, and a device has no end.
            if ((yield* fs.stat(file)).type !== "File") return yield* new CorruptBlob({ sha256 })
            const handle = yield* fs.open(file)
            return Stream.repeatEffectOption(
              Effect.mapError(handle.readAlloc(partBytes), Option.some).pipe(
                Effect.uninterruptible,
                Effect.flatMap(Effect.mapError(() => Option.none()))
              )
            )
          })
        )

      return make({
        put: (sha256, bytes) => {
          const temporary = path.join(directory, `${sha256}.${crypto.randomUUID()}.tmp`)
          return DurableFile.write(fs, temporary, bytes, { mode: 0o600 }).pipe(
            Effect.zipRight(Effect.uninterruptible(turn.withPermits(1)(fs.rename(temporary, fileOf(sha256))))),
            Effect.onError(() => Effect.ignore(fs.remove(temporary, { force: true }))),
            Effect.zipRight(DurableFile.syncDirectory(fs, directory)),
            withSafeErrors
          )
        },
        get: (sha256) =>
          Stream.mapError(read(sha256), (error) => {
            if (error._tag === "CORRUPT_BLOB") return error
            return DurableFile.isNotFound(error) ? new BlobNotFound({ sha256 }) : unavailable(error)
          }),
        remove: (sha256, olderThan) =>
          Effect.gen(function* () {
            const file = fileOf(sha256)
            if (Option.isSome(olderThan) && !(yield* isOlder(file, olderThan.value))) return
            yield* fs.remove(file)
            yield* DurableFile.syncDirectory(fs, directory)
          }).pipe(
            turn.withPermits(1),
            Effect.catchIf(DurableFile.isNotFound, () => Effect.void),
            withSafeErrors
          ),
        list: Stream.fromIterableEffect(withSafeErrors(fs.readDirectory(directory))).pipe(Stream.filter(isDigest))
      })
    })
  )

/** A file that cannot be closed is a defect on this platform, and trouble with the disk for a store. */
const withSafeErrors = <A>(effect: Effect.Effect<A, PlatformError>) =>
  effect.pipe(
    Effect.mapError(unavailable),
    Effect.catchAllDefect(() => new StoreUnavailable({ reason: "unknown" }))
  )

const decodeParts = Schema.decodeUnknown(Schema.Array(Schema.Struct({ bytes: Database.Bytes })))

/** Digests that are listed with one statement. */
const listed = 1_000

/**
 * Blobs in the database, for several servers on one PostgreSQL. In parts of 1 MiB, since the driver handles a row at once
 * and stops the event loop meanwhile. On libSQL it works too, but files are quicker there.
 *
 * @example
 * ```ts
 * import { Layer, Redacted } from "effect"
 * import { BlobStore, Database } from "effect-agent-contracts/store"
 *
 * export const layer = Layer.provideMerge(
 *   BlobStore.layerSql,
 *   Database.layerPostgres({ url: Redacted.make("postgres://registry@localhost/registry") })
 * )
 * ```
 */
export const layerSql: Layer.Layer<BlobStore, DatabaseError, SqlClient.SqlClient> = Layer.effect(
  BlobStore,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const blobType = yield* Database.blobType
    // The database's clock, since those of the servers differ: one that is late must not have put its blobs long ago.
    const now = sql.onDialectOrElse({
      pg: () => sql.literal("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"),
      orElse: () => sql.literal("CAST(unixepoch('subsec') * 1000 AS INTEGER)")
    })
    yield* Database.setUp(
      Effect.gen(function* () {
        yield* sql`
          CREATE TABLE IF NOT EXISTS store_blob (
            sha256 TEXT PRIMARY KEY,
            put_at BIGINT NOT NULL
          )`
        yield* sql`
          CREATE TABLE IF NOT EXISTS store_blob_part (
            sha256 TEXT NOT NULL REFERENCES store_blob (sha256) ON DELETE CASCADE,
            part INTEGER NOT NULL,
            bytes ${blobType} NOT NULL,
            PRIMARY KEY (sha256, part)
          )`
      })
    ).pipe(Effect.mapError((error) => new DatabaseError({ problem: "migrate", reason: reasonOf(error) })))

    const part = (sha256: string, number: number) =>
      Effect.flatMap(
        sql`SELECT bytes FROM store_blob_part WHERE sha256 = ${sha256} AND part = ${number}`,
        // The column has this type, or the tables are not ours.
        (rows) => Effect.orDie(decodeParts(rows))
      )

    const write = (sha256: string, bytes: Uint8Array) =>
      Effect.gen(function* () {
        // The row first: it holds back whoever puts or removes the same blob.
        yield* sql`
          INSERT INTO store_blob (sha256, put_at) VALUES (${sha256}, ${now})
          ON CONFLICT (sha256) DO UPDATE SET put_at = excluded.put_at`
        yield* sql`DELETE FROM store_blob_part WHERE sha256 = ${sha256}`
        for (let start = 0, part = 0; start < bytes.length; start += partBytes, part++) {
          yield* sql`
            INSERT INTO store_blob_part (sha256, part, bytes)
            VALUES (${sha256}, ${part}, ${bytes.subarray(start, start + partBytes)})`
        }
      })

    const parts = (sha256: string) =>
      Stream.paginateChunkEffect(0, (number) =>
        Effect.gen(function* () {
          const [row] = yield* part(sha256, number)
          if (row === undefined && number === 0) yield* requireBlob(sha256)
          // A part that is not full is the last one: most blobs take one statement.
          const isLast = row === undefined || row.bytes.length < partBytes
          return [
            Chunk.fromIterable(row === undefined ? [] : [row.bytes]),
            isLast ? Option.none() : Option.some(number + 1)
          ] as const
        })
      )

    /** An empty blob has no parts. */
    const requireBlob = (sha256: string) =>
      Effect.filterOrFail(
        sql`SELECT 1 FROM store_blob WHERE sha256 = ${sha256}`,
        (rows) => rows.length > 0,
        () => new BlobNotFound({ sha256 })
      )

    const page = (after: string) =>
      Effect.map(
        sql<{ sha256: string }>`SELECT sha256 FROM store_blob WHERE sha256 > ${after} ORDER BY sha256 LIMIT ${listed}`,
        (rows) => {
          const digests = rows.map(({ sha256 }) => sha256)
          return [Chunk.unsafeFromArray(digests), Array.get(digests, listed - 1)] as const
        }
      )

    return make({
      put: (sha256, bytes) =>
        Effect.provideService(Database.atomically(write(sha256, bytes)), SqlClient.SqlClient, sql),
      get: (sha256) =>
        Stream.mapError(parts(sha256), (error) => (error._tag === "SqlError" ? unavailable(error) : error)),
      remove: (sha256, olderThan) =>
        Option.match(olderThan, {
          onNone: () => sql`DELETE FROM store_blob WHERE sha256 = ${sha256}`,
          onSome: (age) =>
            sql`DELETE FROM store_blob WHERE sha256 = ${sha256} AND put_at < ${now} - ${Duration.toMillis(age)}`
        }).pipe(Effect.asVoid, Database.orUnavailable),
      list: Stream.mapError(Stream.paginateChunkEffect("", page), unavailable)
    })
  })
)
