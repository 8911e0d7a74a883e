import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { NodeContext, NodePath } from "@effect/platform-node"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import { describe, expect, it } from "@effect/vitest"
import { type Client, createClient } from "@libsql/client/sqlite3"
import { Context, Effect, Exit, Fiber, Layer, Scope, TestClock } from "effect"
import { vi } from "vitest"
import * as Database from "../../src/store/Database.js"
import * as InterceptedFileSystem from "../support/InterceptedFileSystem.js"
import * as Processes from "../support/Processes.js"
import * as Stores from "../support/Stores.js"

const layerAt = (directory: string) => Layer.provide(Database.layerLibsql({ directory }), NodeContext.layer)

/** A server: what it owns until its scope ends. */
const serve = (directory: string) => Effect.map(Layer.build(layerAt(directory)), Context.get(SqlClient.SqlClient))

/** A connection of somebody else, who does not ask whom the file belongs to. */
const somebodyElse = (directory: string) =>
  Effect.acquireRelease(
    Effect.sync(() => createClient({ url: `file://${join(directory, "registry.db")}`, concurrency: 1 })),
    (client) => Effect.sync(() => client.close())
  )

const numbersOf = (client: Client) =>
  Effect.promise(async () => {
    const { rows } = await client.execute("SELECT value FROM numbers ORDER BY value")
    return rows.map((row) => Number(row["value"]))
  })

/** A server in a new directory, with an empty table of numbers. */
const withNumbers = Effect.gen(function* () {
  const directory = yield* Stores.emptyDirectory
  const sql = yield* serve(directory)
  yield* sql`CREATE TABLE numbers (value INTEGER PRIMARY KEY)`
  const transaction = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.provideService(Database.transaction(effect), SqlClient.SqlClient, sql)
  return {
    directory,
    sql,
    transaction,
    insert: (value: number): Effect.Effect<unknown, SqlError | Database.StoreUnavailable> =>
      sql`INSERT INTO numbers ${sql.insert({ value })}`,
    somebodyElse: somebodyElse(directory),
    /** What is on disk, seen by a connection that has seen nothing before. */
    onDisk: Effect.scoped(Effect.flatMap(somebodyElse(directory), numbersOf))
  }
})

/** Turns the clock for as long as an effect runs. */
const throughTime = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    while (fiber.unsafePoll() === null) {
      yield* TestClock.adjust("1 second")
      yield* Effect.yieldNow()
    }
    return yield* Fiber.join(fiber)
  })

describe("Database.layerLibsql", () => {
  it.scopedLive("makes directory and file on the first start, for this user only, and finds them on the next", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = join(yield* Stores.emptyDirectory, "data", "100% #1?")
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sql = yield* serve(directory)
          yield* sql`CREATE TABLE numbers (value INTEGER)`
          yield* sql`INSERT INTO numbers VALUES (1)`
        })
      )
      expect((yield* fs.stat(directory)).mode & 0o777).toBe(0o700)
      for (const name of yield* fs.readDirectory(directory)) {
        expect((yield* fs.stat(join(directory, name))).mode & 0o077, name).toBe(0)
      }
      const sql = yield* serve(directory)
      expect(yield* sql`SELECT value FROM numbers`).toEqual([{ value: 1 }])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("keeps a write-ahead log and syncs it at every commit", () =>
    Effect.gen(function* () {
      const { sql } = yield* withNumbers
      expect(yield* sql`PRAGMA journal_mode`).toEqual([{ journal_mode: "wal" }])
      expect(yield* sql`PRAGMA synchronous`).toEqual([{ synchronous: 2 }])
      expect(yield* sql`PRAGMA foreign_keys`).toEqual([{ foreign_keys: 1 }])
    })
  )

  it.scopedLive("a second server in the same directory is told that it is in use, until the first one ends", () =>
    Effect.gen(function* () {
      const directory = yield* Stores.emptyDirectory
      const first = yield* Scope.make()
      yield* Scope.extend(serve(directory), first)
      // Asking must not take anything away from the owner either.
      for (let attempt = 0; attempt < 3; attempt++) {
        const failure = yield* Effect.flip(Effect.scoped(serve(directory)))
        expect(failure).toEqual(new Database.DatabaseInUse({ directory }))
        expect(failure.message).toContain("is in use by another process. Stop that process, choose another directory")
      }
      yield* Scope.close(first, Exit.void)
      yield* serve(directory)
    })
  )

  it.scopedLive(
    "a second process is told so too, and a process that was killed holds nothing",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("StoreProcess", "external")
        const directory = yield* Stores.emptyDirectory
        const process = yield* Processes.start(program, "libsql", directory, "hold")
        yield* Processes.said(process, "ready")
        expect(yield* Effect.flip(Effect.scoped(serve(directory)))).toEqual(new Database.DatabaseInUse({ directory }))
        process.kill("SIGKILL")
        yield* Processes.ending(process)
        yield* serve(directory)
      }),
    120_000
  )

  it.scopedLive(
    "says why it cannot start: a read-only directory, a file that is no database, a directory in its place",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const readOnly = (operation: string) => {
          const around: InterceptedFileSystem.Around = (current, effect) =>
            current === operation
              ? Effect.fail(
                  new SystemError({
                    module: "FileSystem",
                    method: operation,
                    reason: "Unknown",
                    cause: Object.assign(new Error("/secret/path"), { code: "EROFS" })
                  })
                )
              : effect
          return Effect.gen(function* () {
            const directory = yield* Stores.emptyDirectory
            const layer = Database.layerLibsql({ directory }).pipe(
              Layer.provide([
                Layer.succeed(FileSystem.FileSystem, InterceptedFileSystem.intercept(fs, around)),
                NodePath.layer
              ])
            )
            return yield* Effect.flip(Effect.scoped(Layer.build(layer)))
          })
        }
        const erofs = new Database.DatabaseError({ problem: "open", reason: "EROFS" })
        expect(yield* readOnly("makeDirectory")).toEqual(erofs)
        expect(yield* readOnly("open")).toEqual(erofs)

        const garbage = yield* Stores.emptyDirectory
        yield* fs.writeFileString(join(garbage, "registry.db"), "secret".repeat(1_000))
        const noDatabase = yield* Effect.flip(Effect.scoped(serve(garbage)))
        expect(noDatabase).toEqual(new Database.DatabaseError({ problem: "open", reason: "SQLITE_NOTADB" }))

        const occupied = yield* Stores.emptyDirectory
        yield* fs.makeDirectory(join(occupied, "registry.db"))
        expect(yield* Effect.flip(Effect.scoped(serve(occupied)))).toMatchObject({ problem: "open" })
        // A start that fails gives the directory back.
        yield* fs.remove(join(occupied, "registry.db"), { recursive: true })
        yield* serve(occupied)
      }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("says that the driver is missing where it is not installed", () =>
    Effect.gen(function* () {
      vi.doMock("@libsql/client/sqlite3", () => {
        throw new Error("Cannot find module '@libsql/linux-x64-gnu'")
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => vi.doUnmock("@libsql/client/sqlite3")))
      const failure = yield* Effect.flip(Effect.scoped(serve(yield* Stores.emptyDirectory)))
      expect(failure).toEqual(new Database.DatabaseError({ problem: "driver" }))
      expect(failure.message).toBe(
        "The database cannot be used: the database driver is not installed for this machine; " +
          "install @libsql/client, or @effect/sql-pg for PostgreSQL."
      )
    })
  )
})

describe("Database.layerLibsqlReader", () => {
  const read = (directory: string, name?: string) =>
    Effect.map(
      Layer.build(
        Layer.provide(
          Database.layerLibsqlReader({ directory, ...(name === undefined ? {} : { name }) }),
          NodeContext.layer
        )
      ),
      Context.get(SqlClient.SqlClient)
    )

  it.scopedLive("sees what the owner has committed, and nothing of a transaction that is not over", () =>
    Effect.gen(function* () {
      const { directory, insert, transaction } = yield* withNumbers
      const reader = yield* read(directory)
      const seen = Effect.map(reader`SELECT value FROM numbers ORDER BY value`, (rows) =>
        rows.map(({ value }) => value)
      )
      // As another caller, who is not in the transaction of this one.
      const outside = Effect.promise(() => Effect.runPromise(seen))
      yield* insert(1)
      expect(yield* seen).toEqual([1])
      yield* transaction(
        Effect.zipRight(
          insert(2),
          Effect.map(outside, (now) => expect(now).toEqual([1]))
        )
      )
      expect(yield* seen).toEqual([1, 2])
    })
  )

  it.scopedLive("writes nothing: a statement and a transaction are refused, and the owner goes on", () =>
    Effect.gen(function* () {
      const { directory, insert, onDisk } = yield* withNumbers
      const reader = yield* read(directory)
      const readOnly = new Database.StoreUnavailable({ reason: "SQLITE_READONLY" })
      const write = reader`INSERT INTO numbers VALUES (9)`
      const inTransaction = Effect.provideService(Database.transaction(write), SqlClient.SqlClient, reader)
      for (const attempt of [
        Database.orUnavailable(write),
        Database.orUnavailable(reader`DROP TABLE numbers`),
        inTransaction
      ]) {
        expect(yield* Effect.flip(attempt)).toEqual(readOnly)
        yield* reader`SELECT 1`
      }
      yield* insert(1)
      expect(yield* onDisk).toEqual([1])
    })
  )

  it.scopedLive("does not keep the owner from owning the file, nor from leaving it whole", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* Stores.emptyDirectory
      const owner = yield* Scope.make()
      const sql = yield* Scope.extend(serve(directory), owner)
      yield* sql`CREATE TABLE numbers (value INTEGER)`
      yield* sql`INSERT INTO numbers VALUES (1)`
      const reader = yield* read(directory)
      expect(yield* reader`SELECT value FROM numbers`).toEqual([{ value: 1 }])
      yield* Scope.close(owner, Exit.void)
      expect((yield* fs.stat(join(directory, "registry.db-wal"))).size).toBe(FileSystem.Size(0))
      expect(yield* reader`SELECT value FROM numbers`).toEqual([{ value: 1 }])
      const next = yield* serve(directory)
      yield* next`INSERT INTO numbers VALUES (2)`
      expect(yield* reader`SELECT value FROM numbers`).toEqual([{ value: 1 }, { value: 2 }])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("makes no file where there is none", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* Stores.emptyDirectory
      expect(yield* Effect.flip(read(directory))).toMatchObject({ _tag: "DATABASE_ERROR", problem: "open" })
      expect(yield* fs.readDirectory(directory)).toEqual([])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("databases of other names lie beside each other, each with an owner of its own", () =>
    Effect.gen(function* () {
      const directory = yield* Stores.emptyDirectory
      yield* serve(directory)
      const journal = Layer.provide(Database.layerLibsql({ directory, name: "journal" }), NodeContext.layer)
      const sql = Context.get(yield* Layer.build(journal), SqlClient.SqlClient)
      yield* sql`CREATE TABLE notes (value INTEGER)`
      expect(yield* Effect.flip(Effect.scoped(Layer.build(Layer.fresh(journal))))).toEqual(
        new Database.DatabaseInUse({ directory })
      )
      expect(yield* (yield* read(directory, "journal"))`SELECT * FROM notes`).toEqual([])
      expect(yield* Effect.exit((yield* read(directory))`SELECT * FROM notes`)).toSatisfy(Exit.isFailure)
    })
  )
})

describe("A libSQL database that somebody else has locked", () => {
  it.scopedLive("writes wait for the lock, outside a transaction and inside, and are on disk when they succeed", () =>
    Effect.gen(function* () {
      const { insert, transaction, somebodyElse, onDisk } = yield* withNumbers
      const other = yield* somebodyElse
      for (const [index, write] of [insert, (value: number) => transaction(insert(value))].entries()) {
        const lock = yield* Effect.promise(() => other.transaction("write"))
        yield* Effect.promise(() => lock.execute(`INSERT INTO numbers VALUES (${index + 10})`))
        const fiber = yield* Effect.fork(write(index))
        for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow()
        expect(fiber.unsafePoll()).toBeNull()
        yield* Effect.promise(() => lock.commit())
        yield* Fiber.join(fiber)
        yield* write(index + 20)
      }
      expect(yield* onDisk).toEqual([0, 1, 10, 11, 20, 21])
    })
  )

  it.scoped("writes give up after a while, and what succeeds afterwards is on disk", () =>
    Effect.gen(function* () {
      const { insert, transaction, somebodyElse, onDisk } = yield* withNumbers
      const other = yield* somebodyElse
      const lock = yield* Effect.promise(() => other.transaction("write"))
      const unavailable = new Database.StoreUnavailable({ reason: "SQLITE_BUSY" })
      expect(yield* Effect.flip(throughTime(Database.orUnavailable(insert(1))))).toEqual(unavailable)
      expect(yield* Effect.flip(throughTime(transaction(insert(2))))).toEqual(unavailable)
      expect(yield* Effect.flip(throughTime(Database.orUnavailable(insert(3))))).toEqual(unavailable)
      yield* Effect.promise(() => lock.commit())
      yield* insert(4)
      yield* transaction(insert(5))
      expect(yield* onDisk).toEqual([4, 5])
    })
  )

  it.scopedLive("a writer that is interrupted while it waits gives its turn up", () =>
    Effect.gen(function* () {
      const { insert, transaction, somebodyElse, onDisk } = yield* withNumbers
      const other = yield* somebodyElse
      const lock = yield* Effect.promise(() => other.transaction("write"))
      for (const write of [insert(1), transaction(insert(2))]) {
        const fiber = yield* Effect.fork(write)
        for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow()
        yield* Fiber.interrupt(fiber)
      }
      yield* Effect.promise(() => lock.commit())
      yield* transaction(insert(3))
      expect(yield* onDisk).toEqual([3])
    })
  )

  it.scopedLive(
    "while another process writes all the time, every write that succeeds is on disk and the others are not",
    () =>
      Effect.gen(function* () {
        const { directory, insert, transaction, onDisk } = yield* withNumbers
        const program = yield* Processes.bundled("StoreProcess", "external")
        const process = yield* Processes.start(program, "libsql", directory, "race")
        const acknowledged: Array<number> = []
        for (let value = 1_000; value < 1_000_000 && process.exitCode === null; value++) {
          const write = value % 2 === 0 ? insert(value) : transaction(insert(value))
          if (Exit.isSuccess(yield* Effect.exit(write))) acknowledged.push(value)
          // The driver gives the event loop no turn, in which the end of the process could be noticed.
          yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        }
        expect(yield* Processes.ending(process)).toBe(0)
        const theirs = Array.from({ length: 300 }, (_, index) => index + 1)
        expect(yield* onDisk).toEqual([...theirs, ...acknowledged])
        expect(acknowledged.length).toBeGreaterThan(10)
      }),
    120_000
  )
})

describe("A libSQL database whose disk is full", () => {
  /** The database's own bound on its size gives the error of a full disk. */
  const fill = (sql: SqlClient.SqlClient) => sql`PRAGMA max_page_count = 20`

  it.scopedLive("refuses writes, has kept what it took, and takes more when there is room", () =>
    Effect.gen(function* () {
      const { sql, insert, transaction, onDisk } = yield* withNumbers
      yield* sql`CREATE TABLE ballast (bytes BLOB)`
      yield* insert(1)
      yield* fill(sql)
      const large = sql`INSERT INTO ballast VALUES (zeroblob(1000000))`
      const full = new Database.StoreUnavailable({ reason: "SQLITE_FULL" })
      expect(yield* Effect.flip(Database.orUnavailable(large))).toEqual(full)
      yield* fill(sql)
      expect(yield* Effect.flip(transaction(Effect.zipRight(insert(2), large)))).toEqual(full)
      expect(yield* onDisk).toEqual([1])
      // The connection that met it is gone, and its bound with it.
      yield* transaction(Effect.zipRight(insert(3), large))
      expect(yield* onDisk).toEqual([1, 3])
    })
  )

  it.scopedLive("a transaction that goes on after its connection was lost writes nothing and fails", () =>
    Effect.gen(function* () {
      const { sql, insert, transaction, onDisk } = yield* withNumbers
      yield* sql`CREATE TABLE ballast (bytes BLOB)`
      yield* fill(sql)
      const large = sql`INSERT INTO ballast VALUES (zeroblob(1000000))`
      const goesOn = insert(1).pipe(
        Effect.zipRight(Effect.ignore(large)),
        Effect.zipRight(Effect.ignore(insert(2))),
        Effect.zipRight(Effect.ignore(transaction(insert(3))))
      )
      expect(yield* Effect.flip(transaction(goesOn))).toBeInstanceOf(Database.StoreUnavailable)
      expect(yield* onDisk).toEqual([])
      yield* transaction(insert(4))
      expect(yield* onDisk).toEqual([4])
    })
  )
})

describe("A process on libSQL that is killed", () => {
  it.scopedLive(
    "at any statement of a transaction: all of its writes are there or none",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("StoreProcess", "external")
        const outcomes = new Set<string>()
        for (let killAt = 1; ; killAt++) {
          const directory = yield* Stores.emptyDirectory
          yield* Effect.scoped(Effect.flatMap(serve(directory), (sql) => sql`CREATE TABLE numbers (value INTEGER)`))
          const process = yield* Processes.start(program, "libsql", directory, "insert", killAt)
          const ending = yield* Processes.ending(process)
          const sql = yield* serve(directory)
          outcomes.add(JSON.stringify(yield* sql`SELECT value FROM numbers`))
          if (ending === 0) break
          expect(ending).toBe("SIGKILL")
        }
        expect(outcomes).toEqual(new Set(["[]", JSON.stringify([{ value: 1 }, { value: 2 }, { value: 3 }])]))
      }),
    120_000
  )
})
