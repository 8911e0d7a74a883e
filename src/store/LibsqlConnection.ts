/**
 * One connection to a libSQL file, as `@effect/sql` wants it.
 *
 * Not `@effect/sql-libsql`: there a transaction that meets SQLITE_BUSY at BEGIN keeps its permit and the client hangs, and
 * a connection goes on after it. The driver leaves a statement that met SQLITE_BUSY unfinished, and as long as one is,
 * later writes report success without being committed. So here a connection that met it is closed and never used again.
 *
 * @module
 */
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import type { Client, InArgs, ResultSet, Transaction } from "@libsql/client/sqlite3"
import { Effect, Predicate, Schedule, Stream } from "effect"

/** The words by which `SqlClient` speaks of a transaction; the driver has calls of its own for them. */
export const begin = "BEGIN IMMEDIATE"
export const commit = "COMMIT"
export const rollback = "ROLLBACK"

/** After these the statement is at fault and the connection is as good as before. */
const harmless: ReadonlySet<unknown> = new Set([
  "SQLITE_ERROR",
  "SQLITE_CONSTRAINT",
  "SQLITE_MISMATCH",
  "SQLITE_RANGE",
  "SQLITE_TOOBIG"
])

const codeOf = (cause: unknown) => (Predicate.hasProperty(cause, "code") ? cause.code : undefined)

const isBusy = ({ cause }: SqlError) => codeOf(cause) === "SQLITE_BUSY" || codeOf(cause) === "SQLITE_LOCKED"

/**
 * Another process that writes (a restore, a shell) is waited for: about five seconds in all, here and not in the driver,
 * which would hold up the event loop meanwhile.
 */
const whileBusy = Schedule.exponential("10 millis").pipe(
  Schedule.union(Schedule.spaced("250 millis")),
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(25)),
  Schedule.whileInput(isBusy)
)

export interface LibsqlConnection extends Connection {
  readonly close: Effect.Effect<void>
}

/** @param open gives a client that has one connection, set up as it has to be */
export const make = (open: Effect.Effect<Client, SqlError>): LibsqlConnection => {
  let client: Client | undefined
  /** `lost` from the failure of its connection to its end: what follows in it must not run outside it. */
  let transaction: Transaction | "lost" | undefined

  const close = Effect.sync(() => {
    if (transaction !== undefined && transaction !== "lost") {
      // Closing the client alone leaves its lock on the file until the garbage is collected.
      try {
        transaction.close()
      } catch {
        // Closed with the client.
      }
      transaction = "lost"
    }
    client?.close()
    client = undefined
  })

  const opened = Effect.suspend(() =>
    client === undefined
      ? Effect.tap(open, (fresh) => {
          client = fresh
        })
      : Effect.succeed(client)
  )

  /** Not interruptible, since the driver is not: whatever it did is known afterwards. */
  const attempt = <A>(call: () => Promise<A>) =>
    Effect.tryPromise({ try: call, catch: (cause) => new SqlError({ cause, message: "Statement failed" }) }).pipe(
      Effect.tapError(({ cause }) => (harmless.has(codeOf(cause)) ? Effect.void : close)),
      Effect.uninterruptible
    )

  /** Nothing has happened when a statement of its own is told to wait, so it is made again, on a fresh connection. */
  const outside = <A>(call: (client: Client) => Promise<A>) =>
    Effect.retry(Effect.uninterruptible(Effect.flatMap(opened, (client) => attempt(() => call(client)))), whileBusy)

  const inside = <A>(call: (transaction: Transaction) => Promise<A>) =>
    Effect.suspend(() => {
      const current = transaction
      return current === undefined || current === "lost"
        ? Effect.fail(new SqlError({ message: "The transaction is over" }))
        : attempt(() => call(current))
    })

  /** Over in any case: a transaction that could not be ended went with its connection. */
  const end = (call: (transaction: Transaction) => Promise<void>) =>
    Effect.ensuring(
      inside(call),
      Effect.sync(() => {
        transaction = undefined
      })
    )

  const transactionCalls: Readonly<Record<string, Effect.Effect<void, SqlError>>> = {
    [begin]: outside(async (client) => {
      transaction = await client.transaction("write")
    }),
    [commit]: end((transaction) => transaction.commit()),
    [rollback]: end((transaction) => transaction.rollback())
  }

  const run = (sql: string, args: ReadonlyArray<unknown>): Effect.Effect<Pick<ResultSet, "rows">, SqlError> => {
    const call = transactionCalls[sql]
    if (call !== undefined) return Effect.as(call, { rows: [] })
    // What the driver cannot bind it refuses by throwing.
    const statement = { sql, args: args as InArgs }
    return Effect.suspend(() =>
      transaction === undefined
        ? outside((client) => client.execute(statement))
        : inside((transaction) => transaction.execute(statement))
    )
  }

  const execute: Connection["execute"] = (sql, args, transformRows) =>
    Effect.map(run(sql, args), ({ rows }) => (transformRows === undefined ? rows : transformRows(rows)))

  return {
    close,
    execute,
    executeUnprepared: execute,
    executeRaw: run,
    executeValues: (sql, args) => Effect.map(run(sql, args), ({ rows }) => rows.map((row) => Array.from(row))),
    executeStream: (sql, args, transformRows) => Stream.fromIterableEffect(execute(sql, args, transformRows))
  }
}
