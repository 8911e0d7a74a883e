/**
 * The embedded database: a libSQL file, and the lock by which one process owns it.
 *
 * @module
 */
import * as Reactivity from "@effect/experimental/Reactivity"
import { FileSystem, Path } from "@effect/platform"
import * as SqlClient from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import * as Statement from "@effect/sql/Statement"
import type { Client } from "@libsql/client/sqlite3"
import { Effect, Layer } from "effect"
import * as DurableFile from "../files/DurableFile.js"
import * as LibsqlConnection from "./LibsqlConnection.js"
import { DatabaseError, DatabaseInUse, importDriver, reasonOf } from "./StoreError.js"

const cannotOpen = (error: unknown) => new DatabaseError({ problem: "open", reason: reasonOf(error) })

/**
 * How long the driver itself waits for a lock, in milliseconds. It holds up the event loop meanwhile; what is longer is
 * waited for outside it.
 */
const driverTimeout = 10

/**
 * The embedded database: the file `<name>.db` (by default `registry.db`) in a directory that is made on the first start, both
 * for this user only (0700, 0600). Fails with `DATABASE_IN_USE` while another process, or another layer of this one, owns it.
 *
 * It is owned through a lock on the file `<name>.lock` beside it. The system gives it back when the process ends,
 * however that happens, so it is never stale. Copies of both files may be taken with SQLite's own tools while this runs;
 * do not read the lock's file from this process, which would give up the lock. One connection, write-ahead log; a statement
 * is on disk when it has succeeded.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { Database } from "effect-agent-contracts/store"
 *
 * export const layer = Layer.provide(Database.layerLibsql({ directory: "/var/lib/registry" }), NodeContext.layer)
 * ```
 */
export const layerLibsql = (options: {
  readonly directory: string
  readonly name?: string
}): Layer.Layer<SqlClient.SqlClient, DatabaseInUse | DatabaseError, FileSystem.FileSystem | Path.Path> =>
  Layer.scoped(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const { directory, name = "registry" } = options
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const open = yield* opener
      const inDirectory = (name: string) => path.join(directory, name)

      yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true, mode: 0o700 }), cannotOpen)

      // The driver would make files that everybody can read. Only where there is none: to close a file that this process
      // has locked would give up the lock.
      const create = (name: string) =>
        Effect.scoped(fs.open(inDirectory(name), { flag: "wx", mode: 0o600 })).pipe(
          Effect.catchIf(DurableFile.isAlreadyThere, () => Effect.void),
          Effect.mapError(cannotOpen),
          Effect.as(inDirectory(name))
        )

      const lock = yield* create(`${name}.lock`)
      // Nothing is ever written to it, so it needs no journal beside it.
      yield* own(open(lock, ["journal_mode = MEMORY"]), directory)

      const file = yield* create(`${name}.db`)
      const connection = LibsqlConnection.make(
        open(file, ["journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"])
      )
      // The driver leaves everything in the log, and a copy of the file alone would be one of an empty database.
      yield* Effect.addFinalizer(() =>
        Effect.ignore(connection.executeRaw("PRAGMA wal_checkpoint(TRUNCATE)", [])).pipe(
          Effect.zipRight(connection.close)
        )
      )
      yield* Effect.mapError(connection.executeRaw("SELECT count(*) FROM sqlite_schema", []), cannotOpen)

      return yield* clientOf(connection)
    })
  ).pipe(Layer.provide(Reactivity.layer))

/**
 * The same file, to read what another process writes: it is neither owned nor made, and nothing can be written to it. A
 * statement that would write fails with the reason `SQLITE_READONLY`. A reader sees what was committed when its statement began,
 * and holds up nobody: the owner writes beside the file, in its log.
 *
 * Fails with `DATABASE_ERROR` where there is no such file.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { Database } from "effect-agent-contracts/store"
 *
 * const file = { directory: "/var/lib/runs", name: "journal" }
 * export const layer = Layer.provide(Database.layerLibsqlReader(file), NodeContext.layer)
 * ```
 */
export const layerLibsqlReader = (options: {
  readonly directory: string
  readonly name?: string
}): Layer.Layer<SqlClient.SqlClient, DatabaseError, FileSystem.FileSystem | Path.Path> =>
  Layer.scoped(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const { directory, name = "registry" } = options
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const open = yield* opener
      const file = path.join(directory, `${name}.db`)
      // The driver would make the file, and the owner find it there.
      yield* Effect.mapError(fs.access(file), cannotOpen)
      const connection = LibsqlConnection.make(open(file, ["query_only = ON"]))
      yield* Effect.addFinalizer(() => connection.close)
      yield* Effect.mapError(connection.executeRaw("SELECT count(*) FROM sqlite_schema", []), cannotOpen)
      return yield* clientOf(connection)
    })
  ).pipe(Layer.provide(Reactivity.layer))

/** Opens files with the driver, each by a client with one connection that is set up by pragmas. */
const opener = Effect.gen(function* () {
  const path = yield* Path.Path
  const { createClient } = yield* importDriver(() => import("@libsql/client/sqlite3"))
  return Effect.fnUntraced(function* (file: string, pragmas: ReadonlyArray<string>) {
    const url = yield* Effect.orDie(path.toFileUrl(file))
    return yield* Effect.tryPromise({
      try: async () => {
        const client = createClient({ url: url.href, concurrency: 1, timeout: driverTimeout })
        try {
          for (const pragma of pragmas) await client.execute(`PRAGMA ${pragma}`)
          return client
        } catch (cause) {
          client.close()
          throw cause
        }
      },
      catch: (cause) => new SqlError({ cause, message: "The file cannot be opened" })
    })
  }, Effect.uninterruptible)
})

/** A client over the one connection, for which its users take turns. */
const clientOf = (connection: LibsqlConnection.LibsqlConnection) =>
  Effect.flatMap(Effect.makeSemaphore(1), (turn) =>
    SqlClient.make({
      acquirer: Effect.uninterruptibleMask((restore) =>
        restore(turn.take(1)).pipe(Effect.zipRight(Effect.addFinalizer(() => turn.release(1))), Effect.as(connection))
      ),
      beginTransaction: LibsqlConnection.begin,
      commit: LibsqlConnection.commit,
      rollback: LibsqlConnection.rollback,
      compiler: Statement.makeCompilerSqlite(),
      spanAttributes: [["db.system.name", "sqlite"]]
    })
  )

/** Holds a write lock on a file of its own: the system gives it back also when this process is killed. */
const own = (open: Effect.Effect<Client, SqlError>, directory: string) =>
  Effect.acquireRelease(
    Effect.flatMap(open, (client) =>
      Effect.tryPromise({
        try: () => client.transaction("write"),
        catch: (cause) => new SqlError({ cause, message: "The lock cannot be taken" })
      }).pipe(
        Effect.map((lock) => ({ client, lock })),
        Effect.onError(() => Effect.sync(() => client.close()))
      )
    ),
    ({ client, lock }) =>
      Effect.sync(() => {
        lock.close()
        client.close()
      })
  ).pipe(
    Effect.mapError((error) =>
      reasonOf(error) === "SQLITE_BUSY" ? new DatabaseInUse({ directory }) : cannotOpen(error)
    )
  )
