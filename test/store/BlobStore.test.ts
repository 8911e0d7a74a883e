import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { type PlatformError, SystemError } from "@effect/platform/Error"
import { NodeContext } from "@effect/platform-node"
import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Clock, Context, DateTime, Deferred, Effect, Fiber, Layer, Redacted, Stream, TestClock } from "effect"
import * as Digest from "../../src/archive/Digest.js"
import * as BlobStore from "../../src/store/BlobStore.js"
import * as Database from "../../src/store/Database.js"
import * as InterceptedFileSystem from "../support/InterceptedFileSystem.js"
import * as Processes from "../support/Processes.js"
import * as Stores from "../support/Stores.js"

/** Longer than the parts in which stores keep and read bytes, and nowhere the same as a part before. */
const bytes = Uint8Array.from({ length: 2_500_000 }, (_, index) => (index * index) % 251)
const sha256 = Digest.sha256HexSync(bytes)
const absent = "0".repeat(64)

/** Not the bytes, should it succeed: reports of failed tests would be full of them. */
const refusal = <A, E>(effect: Effect.Effect<A, E>) => Effect.flip(Effect.asVoid(effect))

/** What a test does to a stored blob behind the store's back. */
class Tamper extends Context.Tag("Tamper")<
  Tamper,
  {
    /** Puts other bytes in the place of its first ones. */
    readonly overwrite: Effect.Effect<unknown, unknown>
    readonly cut: Effect.Effect<unknown, unknown>
    /** Moves its last put into the past. */
    readonly age: (milliseconds: number) => Effect.Effect<unknown, unknown>
  }
>() {}

const files = Layer.unwrapScoped(
  Effect.map(Stores.emptyDirectory, (directory) => {
    const file = join(directory, sha256)
    const tamper = Layer.effect(
      Tamper,
      Effect.map(FileSystem.FileSystem, (fs) => ({
        overwrite: Effect.scoped(
          Effect.flatMap(fs.open(file, { flag: "r+" }), (handle) => handle.writeAll(new Uint8Array(10)))
        ),
        cut: fs.truncate(file, 1_000_000),
        age: (milliseconds: number) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            const then = new Date(now - milliseconds)
            return fs.utimes(file, then, then)
          })
      }))
    )
    return Layer.merge(BlobStore.layerFiles({ directory }), tamper)
  })
).pipe(Layer.provide(NodeContext.layer))

const rows = (database: Layer.Layer<SqlClient.SqlClient, Database.DatabaseError | Database.DatabaseInUse>) =>
  Layer.effect(
    Tamper,
    Effect.map(SqlClient.SqlClient, (sql) => ({
      overwrite: sql`UPDATE store_blob_part SET bytes = ${new Uint8Array(10)} WHERE part = 0`,
      cut: sql`DELETE FROM store_blob_part WHERE part = 2`,
      age: (milliseconds: number) => sql`UPDATE store_blob SET put_at = put_at - ${milliseconds}`
    }))
  ).pipe(Layer.provideMerge(BlobStore.layerSql), Layer.provide(database))

const libsqlRows = Layer.unwrapScoped(
  Effect.map(Stores.emptyDirectory, (directory) =>
    rows(Layer.provide(Database.layerLibsql({ directory }), NodeContext.layer))
  )
)

const postgresRows = Layer.unwrapScoped(
  Effect.map(Stores.emptyPostgres, (url) => rows(Database.layerPostgres({ url })))
)

describe.each([
  ["files", files],
  ["rows of libSQL", libsqlRows],
  ["rows of PostgreSQL", postgresRows]
] as const)("BlobStore in %s", (_, store) => {
  const test = (behaviour: string, program: Effect.Effect<void, unknown, BlobStore.BlobStore | Tamper>) =>
    it.effect(behaviour, () => Effect.provide(program, store))

  test(
    "gives back what was put, by its digest, as bytes of the caller's own",
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      for (const blob of [bytes, new Uint8Array(0), Uint8Array.of(0), bytes.subarray(0, 1024 * 1024)]) {
        const digest = yield* blobs.put(blob)
        expect(digest).toBe(Digest.sha256HexSync(blob))
        const read = yield* blobs.get(digest)
        expect(Buffer.compare(read, blob)).toBe(0)
        read.fill(1)
        expect(Buffer.compare(yield* blobs.get(digest), blob)).toBe(0)
        expect(yield* Stores.has(blobs, digest)).toBe(true)
      }
    })
  )

  test(
    "says BLOB_NOT_FOUND for a digest that it has not, and for what is no digest",
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      yield* blobs.put(bytes)
      for (const digest of [absent, "", "..", `../${sha256}`, sha256.toUpperCase(), `${sha256}\n`]) {
        expect(yield* refusal(blobs.get(digest))).toEqual(new BlobStore.BlobNotFound({ sha256: digest }))
        expect(yield* Stores.has(blobs, digest)).toBe(false)
        yield* blobs.remove(digest)
      }
      expect(yield* Stores.has(blobs, sha256)).toBe(true)
    })
  )

  test(
    "lists every digest once, and after remove no more",
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      const listed = Effect.map(Stream.runCollect(blobs.list), (digests) => Chunk.toReadonlyArray(digests).toSorted())
      expect(yield* listed).toEqual([])
      const put = yield* Effect.forEach([1, 2, 3, 2], (byte) => blobs.put(Uint8Array.of(byte)))
      expect(yield* listed).toEqual([...new Set(put)].sort())
      yield* Effect.forEach(put, (digest) => blobs.remove(digest))
      expect(yield* listed).toEqual([])
    })
  )

  test(
    "takes the same blob from many at once",
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      const digests = yield* Effect.replicateEffect(blobs.put(bytes), 6, { concurrency: "unbounded" })
      expect(new Set(digests)).toEqual(new Set([sha256]))
      expect(Buffer.compare(yield* blobs.get(sha256), bytes)).toBe(0)
    })
  )

  test(
    "says CORRUPT_BLOB for a blob that was overwritten or cut short, and another put heals it",
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      const tamper = yield* Tamper
      for (const damage of [tamper.overwrite, tamper.cut]) {
        yield* blobs.put(bytes)
        yield* damage
        expect(yield* refusal(blobs.get(sha256))).toEqual(new BlobStore.CorruptBlob({ sha256 }))
      }
      yield* blobs.put(bytes)
      expect(Buffer.compare(yield* blobs.get(sha256), bytes)).toBe(0)
    })
  )

  it.live("remove leaves a blob that was put lately, and put again counts", () =>
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      const tamper = yield* Tamper
      const removeOld = blobs.remove(sha256, { olderThan: "1 hour" })
      yield* blobs.put(bytes)
      yield* removeOld
      expect(yield* Stores.has(blobs, sha256)).toBe(true)

      yield* tamper.age(2 * 60 * 60_000)
      yield* blobs.put(bytes)
      yield* removeOld
      expect(yield* Stores.has(blobs, sha256)).toBe(true)

      yield* tamper.age(2 * 60 * 60_000)
      yield* removeOld
      expect(yield* Stores.has(blobs, sha256)).toBe(false)
    }).pipe(Effect.provide(store))
  )

  test(
    "refuses more than any archive has as a mistake of the program",
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      const exit = yield* Effect.exit(blobs.put(new Uint8Array(BlobStore.maxBytes + 1)))
      expect(String(exit)).toContain("A blob has at most 64 MiB")
    })
  )
})

describe.each(Stores.stores)("BlobStore.layerSql on %s", (_, store) => {
  it.effect("what was just put stays, however late the clock of the server is that put it", () =>
    Effect.gen(function* () {
      const blobs = yield* BlobStore.BlobStore
      for (const time of [0, Date.now() - 2 * 60 * 60_000, Date.now() + 2 * 60 * 60_000]) {
        yield* TestClock.setTime(time)
        yield* blobs.put(bytes)
        yield* TestClock.setTime(Date.now())
        yield* blobs.remove(sha256, { olderThan: "1 hour" })
        expect(yield* Stores.has(blobs, sha256)).toBe(true)
      }
    }).pipe(Effect.provide(Layer.provideMerge(BlobStore.layerSql, store)))
  )

  it.effect("a put that fails half way leaves nothing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const blobs = yield* BlobStore.BlobStore
      yield* sql.onDialectOrElse({
        pg: () => sql`ALTER TABLE store_blob_part ADD CONSTRAINT full_disk CHECK (part < 2)`,
        orElse: () => sql`
          CREATE TRIGGER full_disk BEFORE INSERT ON store_blob_part WHEN NEW.part = 2
          BEGIN SELECT RAISE(ABORT, 'full'); END`
      })
      expect(yield* Effect.flip(blobs.put(bytes))).toBeInstanceOf(Database.StoreUnavailable)
      expect(yield* Stores.has(blobs, sha256)).toBe(false)
      expect(yield* sql`SELECT part FROM store_blob_part`).toEqual([])
    }).pipe(Effect.provide(Layer.provideMerge(BlobStore.layerSql, store)))
  )
})

type Around = InterceptedFileSystem.Around

/** The store in a directory, over a file system that a test gets at. */
const filesAround = (directory: string, around: Around) =>
  BlobStore.layerFiles({ directory }).pipe(
    Layer.provide(
      Layer.effect(
        FileSystem.FileSystem,
        Effect.map(FileSystem.FileSystem, (fs) => InterceptedFileSystem.intercept(fs, around))
      )
    ),
    Layer.provide(NodeContext.layer)
  )

const systemError = (code: string, method: string): PlatformError =>
  new SystemError({
    module: "FileSystem",
    method,
    reason: "Unknown",
    pathOrDescriptor: "/secret/path",
    cause: Object.assign(new Error(`${code}: /secret/path`), { code })
  })

describe("BlobStore.layerFiles", () => {
  const inDirectory = <A, E>(program: (directory: string, fs: FileSystem.FileSystem) => Effect.Effect<A, E>) =>
    Effect.gen(function* () {
      return yield* program(yield* Stores.emptyDirectory, yield* FileSystem.FileSystem)
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

  it.live("keeps directory and files for this user only", () =>
    inDirectory((parent, fs) =>
      Effect.gen(function* () {
        const directory = join(parent, "data", "blobs")
        const blobs = yield* Effect.provide(BlobStore.BlobStore, Stores.layerFilesAt(directory))
        yield* blobs.put(bytes)
        expect((yield* fs.stat(directory)).mode & 0o777).toBe(0o700)
        expect((yield* fs.stat(join(directory, sha256))).mode & 0o777).toBe(0o600)
        expect(yield* fs.readDirectory(directory)).toEqual([sha256])
      })
    )
  )

  it.live(
    "a disk that is full, read-only or failing at any operation of a put: a typed failure, and nothing is left",
    () =>
      inDirectory((directory, fs) =>
        Effect.gen(function* () {
          const failures: Array<string> = []
          for (const code of ["ENOSPC", "EROFS", "EIO"]) {
            let operations = 0
            let failAt = Number.NaN
            const around: Around = (operation, effect) =>
              Effect.suspend(() => (++operations === failAt ? Effect.fail(systemError(code, operation)) : effect))
            const blobs = yield* Effect.provide(BlobStore.BlobStore, filesAround(directory, around))
            for (failAt = 1; ; failAt++) {
              operations = 0
              const put = yield* Effect.either(blobs.put(bytes))
              if (operations < failAt) {
                expect(put._tag).toBe("Right")
                break
              }
              expect(put).toMatchObject({ left: { _tag: "STORE_UNAVAILABLE" } })
              failures.push(String(put))
              const names = yield* fs.readDirectory(directory)
              expect(names.filter((name) => name !== sha256)).toEqual([])
              // Whole or not there, whatever failed.
              if (names.length > 0) expect(Buffer.compare(yield* blobs.get(sha256), bytes)).toBe(0)
              yield* blobs.remove(sha256)
            }
            expect(failAt).toBeGreaterThan(8)
          }
          expect(failures.join()).toMatch(/ENOSPC/)
          expect(failures.join()).not.toMatch(/secret/)
        })
      )
  )

  it.live("says why it cannot start in a directory that cannot be written to", () =>
    inDirectory((directory) =>
      Effect.gen(function* () {
        const around: Around = (operation, effect) =>
          operation === "makeDirectory" ? Effect.fail(systemError("EROFS", operation)) : effect
        const failure = yield* Effect.flip(Effect.provide(BlobStore.BlobStore, filesAround(directory, around)))
        expect(failure).toEqual(new Database.DatabaseError({ problem: "open", reason: "EROFS" }))
        expect(failure.message).toBe(
          "The database cannot be used: the data directory or the file in it cannot be used (EROFS)."
        )
      })
    )
  )

  it.live("an interrupted put leaves nothing", () =>
    inDirectory((directory, fs) =>
      Effect.gen(function* () {
        const reached = yield* Deferred.make<void>()
        const around: Around = (operation, effect) =>
          operation === "file.writeAll" ? Effect.zipLeft(effect, Deferred.succeed(reached, undefined)) : effect
        const blobs = yield* Effect.provide(BlobStore.BlobStore, filesAround(directory, around))
        const fiber = yield* Effect.fork(blobs.put(bytes))
        yield* Deferred.await(reached)
        expect(yield* fs.readDirectory(directory)).toHaveLength(1)
        yield* Fiber.interrupt(fiber)
        expect(yield* fs.readDirectory(directory)).toEqual([])
      })
    )
  )

  it.live("counts what it reads: a file that is longer than any archive is corrupt and not read to its end", () =>
    inDirectory((directory, fs) =>
      Effect.gen(function* () {
        let reads = 0
        const around: Around = (operation, effect) => {
          if (operation === "file.readAlloc") reads++
          return effect
        }
        const blobs = yield* Effect.provide(BlobStore.BlobStore, filesAround(directory, around))
        yield* fs.writeFile(join(directory, absent), new Uint8Array(0))
        // Sparse: it takes no room.
        yield* fs.truncate(join(directory, absent), 1024 ** 4)
        expect(yield* refusal(blobs.get(absent))).toEqual(new BlobStore.CorruptBlob({ sha256: absent }))
        expect(reads).toBeLessThan(100)
      })
    )
  )

  it.live("what lies under a digest and is no file is corrupt, and is not opened", () =>
    inDirectory((directory, fs) =>
      Effect.gen(function* () {
        const blobs = yield* Effect.provide(BlobStore.BlobStore, Stores.layerFilesAt(directory))
        yield* fs.makeDirectory(join(directory, absent))
        expect(yield* refusal(blobs.get(absent))).toEqual(new BlobStore.CorruptBlob({ sha256: absent }))
      })
    )
  )
})

describe("BlobStore and a process that is killed", () => {
  const sevens = new Uint8Array(2_500_000).fill(7)
  const sevensDigest = Digest.sha256HexSync(sevens)

  it.scopedLive(
    "at any file operation of a put: the blob is there, whole, or not at all, and later the rest is swept",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const program = yield* Processes.bundled("StoreProcess", "external")
        const directory = yield* Stores.emptyDirectory
        const outcomes = new Set<boolean>()
        let leftovers = 0
        for (let killAt = 1; ; killAt++) {
          const process = yield* Processes.start(program, "files", directory, "put", killAt)
          const ending = yield* Processes.ending(process)
          const names = yield* fs.readDirectory(directory)
          const halfAnHourAgo = DateTime.toDate(DateTime.subtract(yield* DateTime.now, { minutes: 30 }))
          for (const name of names.filter((name) => name.endsWith(".tmp"))) {
            leftovers++
            yield* fs.utimes(join(directory, name), halfAnHourAgo, halfAnHourAgo)
          }
          // A start after the crash.
          const blobs = yield* Effect.provide(BlobStore.BlobStore, Stores.layerFilesAt(directory))
          const isThere = yield* Stores.has(blobs, sevensDigest)
          outcomes.add(isThere)
          if (isThere) expect(Buffer.compare(yield* blobs.get(sevensDigest), sevens)).toBe(0)
          yield* blobs.remove(sevensDigest)
          expect(yield* fs.readDirectory(directory)).toEqual([])
          if (ending === 0) break
          expect(ending).toBe("SIGKILL")
          expect(killAt).toBeLessThan(40)
        }
        expect(outcomes).toEqual(new Set([false, true]))
        expect(leftovers).toBeGreaterThan(0)
      }).pipe(Effect.provide(NodeContext.layer)),
    180_000
  )

  it.scopedLive(
    "at any statement of a put in PostgreSQL: the blob is there, whole, or not at all",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("StoreProcess", "external")
        const url = yield* Stores.emptyPostgres
        const blobs = yield* Effect.map(Layer.build(Stores.layerPostgresAt(url)), Context.get(BlobStore.BlobStore))
        const outcomes = new Set<boolean>()
        for (let killAt = 1; ; killAt++) {
          const process = yield* Processes.start(program, "postgres", Redacted.value(url), "put", killAt)
          const ending = yield* Processes.ending(process)
          const isThere = yield* Stores.has(blobs, sevensDigest)
          outcomes.add(isThere)
          if (isThere) expect(Buffer.compare(yield* blobs.get(sevensDigest), sevens)).toBe(0)
          // Its connection may still be about to notice that the process is gone.
          yield* blobs.remove(sevensDigest)
          if (ending === 0) break
          expect(ending).toBe("SIGKILL")
          expect(killAt).toBeLessThan(40)
        }
        expect(outcomes.has(true)).toBe(true)
      }),
    180_000
  )
})
