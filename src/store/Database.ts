/**
 * The SQL database of a store: an embedded libSQL file that one process owns, or PostgreSQL for several servers.
 *
 * The same statements run on both. What differs is kept here: the type of bytes (`blobType`), how numbers and bytes come
 * back (`Integer`, `Bytes`), how writers take turns (`transaction`) and how servers that start at once share one migration
 * (`migrate`). Flags are integers, 0 or 1, since libSQL has no booleans.
 *
 * @module
 */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import { DateTime, Duration, Effect, Exit, Layer, Option, Predicate, type Redacted, Schedule, Schema } from "effect"
import * as LibsqlConnection from "./LibsqlConnection.js"
import { DatabaseError, importDriver, reasonOf, StoreUnavailable, unavailable } from "./StoreError.js"

export { layerLibsql, layerLibsqlReader } from "./LibsqlDatabase.js"
export { DatabaseError, DatabaseInUse, StoreUnavailable } from "./StoreError.js"

/** Any number that no other user of the database takes: what starts and migrations queue for. */
const migrationLock = 7_035_263_117_204

/**
 * A PostgreSQL database, which several servers may share. Connections are made as they are needed, ten at most, and again
 * after the database was gone; a statement that gets none within five seconds fails.
 *
 * A connection over which nothing comes for `maximumSilence`, 10 seconds by default, is closed, and what waits for it fails: of
 * one that was lost without a word, as when a machine or a route is gone, the system says so after a quarter of an hour at best.
 * No statement may take longer than that, one of a migration neither.
 *
 * @example
 * ```ts
 * import { Layer, Redacted } from "effect"
 * import { Database } from "effect-agent-contracts/store"
 *
 * export const layer = Database.layerPostgres({ url: Redacted.make("postgres://registry@localhost/registry") })
 * ```
 */
export const layerPostgres = (options: {
  readonly url: Redacted.Redacted
  readonly maximumSilence?: Duration.DurationInput
}): Layer.Layer<SqlClient.SqlClient, DatabaseError> =>
  Layer.scoped(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const PgClient = yield* importDriver(() => import("@effect/sql-pg/PgClient"))
      const { Socket } = yield* importDriver(() => import("node:net"))
      const silence = Duration.toMillis(options.maximumSilence ?? "10 seconds")
      const client = yield* PgClient.make({
        url: options.url,
        applicationName: "effect-agent-contracts",
        connectTimeout: "5 seconds",
        maxConnections: 10,
        // The driver's own bound for a statement leaves the connection to the next one, which waits in its turn.
        stream: () => {
          const socket = new Socket()
          return socket.setTimeout(silence, () =>
            socket.destroy(Object.assign(new Error("The connection is silent"), { code: "ETIMEDOUT" }))
          )
        }
      })
      // Whoever is interrupted while it waits for a connection would never give it back.
      const sql: SqlClient.SqlClient = Object.assign(client, { reserve: Effect.uninterruptible(client.reserve) })
      // Without a column: it is only there to be locked.
      yield* setUp(sql`CREATE TABLE IF NOT EXISTS store_lock ()`).pipe(Effect.provideService(SqlClient.SqlClient, sql))
      return sql
    }).pipe(
      // The code alone: an address that cannot be read is quoted in the error, with its password.
      Effect.mapError((error) =>
        error._tag === "DATABASE_ERROR" ? error : new DatabaseError({ problem: "connect", reason: reasonOf(error) })
      )
    )
  ).pipe(Layer.provide(Reactivity.layer))

interface Commands {
  readonly begin: string
  readonly commit: string
  readonly rollback: string
}

/**
 * Runs an effect between two statements on one connection. Not `SqlClient.withTransaction`, for which a failed COMMIT is a
 * defect, and which takes for committed what PostgreSQL rolled back: its COMMIT after a failed statement succeeds, and
 * only says so in its answer.
 */
const between = <A, E, R>(connection: Connection, depth: number, commands: Commands, effect: Effect.Effect<A, E, R>) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      // Tried twice: the cancelling of an interrupted statement may hit the first one. What then is still open went with
      // its connection.
      const rollback = Effect.ignore(Effect.retry(connection.executeRaw(commands.rollback, []), { times: 1 }))
      const exit = yield* connection
        .executeRaw(commands.begin, [])
        .pipe(
          Effect.zipRight(Effect.provideService(effect, SqlClient.TransactionConnection, [connection, depth] as const)),
          restore,
          Effect.exit
        )
      if (Exit.isFailure(exit)) {
        yield* rollback
        return yield* exit
      }
      const answer = yield* Effect.tapError(connection.executeRaw(commands.commit, []), () => rollback)
      if (Predicate.hasProperty(answer, "command") && answer.command === "ROLLBACK") {
        return yield* new StoreUnavailable({ reason: "rolled-back" })
      }
      return exit.value
    })
  )

const libsqlCommands: Commands = {
  begin: LibsqlConnection.begin,
  commit: LibsqlConnection.commit,
  rollback: LibsqlConnection.rollback
}

/** What the database itself bounds, so that a server that hangs or is gone does not hold up the others. */
const idleBound = "SET LOCAL idle_in_transaction_session_timeout = '3s'"

// Whoever waits for a lock outlives one that holds it and has stopped.
const bounds = ["SET LOCAL statement_timeout = '8s'", "SET LOCAL lock_timeout = '5s'", idleBound]

/** On PostgreSQL a transaction begins with these statements; on libSQL with the wait for its one connection. */
const postgresCommands = (...first: ReadonlyArray<string>): Commands => ({
  begin: first.join("; "),
  commit: "COMMIT",
  rollback: "ROLLBACK"
})

const savepoint = (depth: number): Commands => ({
  begin: `SAVEPOINT store_${depth}`,
  commit: `RELEASE SAVEPOINT store_${depth}`,
  rollback: `ROLLBACK TO SAVEPOINT store_${depth}`
})

const onOneConnection = <A, E, R>(onPostgres: Commands, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const outer = yield* Effect.serviceOption(SqlClient.TransactionConnection)
    if (Option.isSome(outer)) {
      const [connection, depth] = outer.value
      return yield* between(connection, depth + 1, savepoint(depth + 1), effect)
    }
    const commands = sql.onDialectOrElse({ pg: () => onPostgres, orElse: () => libsqlCommands })
    return yield* Effect.scoped(Effect.flatMap(sql.reserve, (connection) => between(connection, 0, commands, effect)))
  })

/** For what makes tables: one server at a time, however many start at once. */
export const setUp = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  onOneConnection(
    postgresCommands(
      // Each statement sees what was there when it began, so the lock comes before the first look.
      "BEGIN ISOLATION LEVEL READ COMMITTED",
      idleBound,
      `SELECT pg_advisory_xact_lock(${migrationLock})`
    ),
    effect
  )

/** Every failure of a statement as `STORE_UNAVAILABLE`; other failures pass. For statements outside a `transaction`. */
export const orUnavailable = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, SqlError> | StoreUnavailable, R> =>
  Effect.mapError(effect, (error) => (error instanceof SqlError ? unavailable(error) : (error as Exclude<E, SqlError>)))

/**
 * All of the effect's statements or none of them, without a turn: for writes that disturb nobody, as those of bytes under
 * their digest. Inside another transaction it is a part of that one that can fail by itself.
 */
export const atomically = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  orUnavailable(onOneConnection(postgresCommands("BEGIN ISOLATION LEVEL READ COMMITTED", ...bounds), effect))

/**
 * What a transaction meets when another one was quicker. 23505 (unique) is how PostgreSQL may say so to two transactions
 * that both found a row absent.
 */
const conflicts: ReadonlySet<string> = new Set(["40001", "40P01", "23505"])

/** A statement was cancelled: by its timeout, by an operator, or late, by the interruption of the connection's last user. */
const cancelled = "57014"

const isUnavailable = (error: unknown, isReason: (reason: string) => boolean) =>
  error instanceof StoreUnavailable && isReason(error.reason)

const afterConflict = Schedule.exponential("5 millis").pipe(
  Schedule.union(Schedule.spaced("200 millis")),
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(10))
)

/**
 * Runs an effect as one serializable transaction: all of its statements or none, as if nobody else wrote at the time.
 * When it succeeds its writes are on disk; on its failure or interruption they are undone.
 *
 * Writers take turns on both databases, so that they queue in place of failing each other: on libSQL for the one
 * connection (other statements wait too: nothing slow belongs in here), on PostgreSQL for a lock, for at most five seconds.
 * Where PostgreSQL still finds a conflict the effect runs again, up to ten times, and once after a statement was cancelled; so
 * it must have no effects of its own, or none that harms when it comes twice.
 * Inside another transaction it is a part of that one that can fail by itself. To recover from a
 * failed statement, put it in a `transaction` of its own: otherwise PostgreSQL undoes all that came before it, and the
 * transaction fails in the end.
 *
 * Every `SqlError` becomes `STORE_UNAVAILABLE`; when that happens at COMMIT over a broken connection, nobody knows whether
 * the writes are there.
 *
 * @example
 * ```ts
 * import { SqlClient } from "@effect/sql"
 * import { Effect } from "effect"
 * import { Database } from "effect-agent-contracts/store"
 *
 * const increment = Database.transaction(
 *   Effect.gen(function* () {
 *     const sql = yield* SqlClient.SqlClient
 *     yield* sql`UPDATE counter SET value = value + 1`
 *   })
 * )
 * ```
 */
export const transaction = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<
  A,
  Exclude<E, SqlError> | StoreUnavailable,
  Exclude<R, SqlClient.TransactionConnection> | SqlClient.SqlClient
> =>
  Effect.gen(function* () {
    const outer = yield* Effect.serviceOption(SqlClient.TransactionConnection)
    const once = orUnavailable(
      onOneConnection(
        postgresCommands(
          "BEGIN ISOLATION LEVEL SERIALIZABLE",
          ...bounds,
          // Takes no snapshot, so that the transaction sees everything that was committed while it waited.
          "LOCK TABLE store_lock IN EXCLUSIVE MODE"
        ),
        effect
      )
    )
    // A part of a transaction cannot see more than the whole one, so only the whole one can be run again.
    if (Option.isSome(outer)) return yield* once
    return yield* once.pipe(
      // The last user's cancelling comes once; what an operator or a timeout ends is not begun for ever.
      Effect.retry({ times: 1, while: (error) => isUnavailable(error, (reason) => reason === cancelled) }),
      Effect.retry({
        schedule: afterConflict,
        while: (error) => isUnavailable(error, (reason) => conflicts.has(reason))
      })
    )
  })

/** One step from one version of the tables to the next. Once released it never changes. */
export interface Migration {
  /** Rising; what has run is known by it. */
  readonly id: number
  readonly name: string
  readonly up: Effect.Effect<unknown, SqlError | DatabaseError, SqlClient.SqlClient>
}

/**
 * Brings the tables to the newest version: runs the migrations that have not run, in order, all or none. What has run is kept in
 * the table `ledger`, `store_migration` by default: programs that share a database have one each. Servers may start
 * at once: the first one migrates and the others wait for it. Fails with problem `newer` when one has run that is not in
 * the list, so that an older program does not write to tables it does not know. That is why it is not the `Migrator` of
 * `@effect/sql`, with which an older program goes on, and a failed migration is a defect.
 *
 * @example
 * ```ts
 * import { SqlClient } from "@effect/sql"
 * import { Effect } from "effect"
 * import { Database } from "effect-agent-contracts/store"
 *
 * const migrated = Database.migrate([
 *   {
 *     id: 1,
 *     name: "notes",
 *     up: Effect.flatMap(SqlClient.SqlClient, (sql) => sql`CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)`)
 *   }
 * ])
 * ```
 */
export const migrate: (
  migrations: ReadonlyArray<Migration>,
  ledger?: string
) => Effect.Effect<void, DatabaseError, SqlClient.SqlClient> = Effect.fn("Database.migrate")(
  function* (migrations, ledger = "store_migration") {
    const sql = yield* SqlClient.SqlClient
    const table = sql(ledger)
    yield* sql`CREATE TABLE IF NOT EXISTS ${table} (id INTEGER PRIMARY KEY, name TEXT NOT NULL)`
    const applied = yield* sql<Pick<Migration, "id" | "name">>`SELECT id, name FROM ${table}`
    const isKnown = (old: Pick<Migration, "id" | "name">) =>
      migrations.some(({ id, name }) => id === old.id && name === old.name)
    if (!applied.every(isKnown)) return yield* new DatabaseError({ problem: "newer" })

    const pending = migrations
      .filter(({ id }) => !applied.some((old) => old.id === id))
      .sort((left, right) => left.id - right.id)
    for (const { id, name, up } of pending) {
      yield* up
      yield* sql`INSERT INTO ${table} ${sql.insert({ id, name })}`
    }
    yield* Effect.annotateCurrentSpan({ pending: pending.length })
  },
  setUp,
  Effect.mapError((error) => {
    if (error._tag === "DATABASE_ERROR") return error
    return new DatabaseError({
      problem: "migrate",
      reason: error._tag === "STORE_UNAVAILABLE" ? error.reason : reasonOf(error)
    })
  })
)

/** The type of a column of bytes, for a `CREATE TABLE`. */
export const blobType: Effect.Effect<Statement.Fragment, never, SqlClient.SqlClient> = Effect.map(
  SqlClient.SqlClient,
  (sql) => sql.onDialectOrElse({ pg: () => sql.literal("BYTEA"), orElse: () => sql.literal("BLOB") })
)

/** An integer in a row: libSQL gives a BIGINT or a count as a number, PostgreSQL as text. `Number` reads both. */
export type Integer = number | string

/** A time as rows have it: milliseconds since the epoch. */
export const toDateTime = (millis: Integer): DateTime.Utc => DateTime.unsafeMake(Number(millis))

/** Bytes in a row: libSQL gives an `ArrayBuffer`, PostgreSQL a `Buffer`. */
export const Bytes = Schema.transform(
  Schema.Union(Schema.Uint8ArrayFromSelf, Schema.instanceOf(ArrayBuffer)),
  Schema.Uint8ArrayFromSelf,
  {
    strict: true,
    decode: (bytes) => (bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes),
    encode: (bytes) => bytes
  }
)
