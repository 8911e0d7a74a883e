/**
 * How the store fails.
 *
 * A message says what an operator can do and carries a code: no statement, no value, no text of the database. A database
 * quotes values in its own messages, so those stay behind.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import type { SqlError } from "@effect/sql/SqlError"
import { Effect, Predicate, Schema } from "effect"

/**
 * The store could not do what it was asked. Worth trying again; a server answers 503 (contract, Registry server).
 *
 * `reason` is the code of the database (`40001`, `SQLITE_BUSY`) or of the system (`ECONNREFUSED`, `ENOSPC`); where there
 * is none, `rolled-back` (PostgreSQL undid the transaction) or `unknown`.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("STORE_UNAVAILABLE", {
  reason: Schema.String
}) {
  override get message(): string {
    return `The store is not available: ${this.reason}.`
  }
}

/** Another process owns the data directory (contract, Registry server: one process owns the libSQL file). */
export class DatabaseInUse extends Schema.TaggedError<DatabaseInUse>()("DATABASE_IN_USE", {
  directory: Schema.String
}) {
  override get message(): string {
    return (
      `The data directory ${JSON.stringify(this.directory)} is in use by another process. ` +
      "Stop that process, choose another directory, or use PostgreSQL to run several servers."
    )
  }
}

/** What a start can stumble over, with what to do about it. */
const databaseProblems = {
  driver:
    "the database driver is not installed for this machine; install @libsql/client, or @effect/sql-pg for PostgreSQL",
  open: "the data directory or the file in it cannot be used",
  connect: "the PostgreSQL database cannot be reached or does not let this user in; check its URL",
  migrate: "its tables could not be created or changed",
  lost: "it is empty, but there are archives; restore the database with all its files, or move the archives away to start anew",
  newer: "its tables were made by a newer version of this program; start that version"
} as const

/** The database cannot be used from the start. `reason` is a code as in `StoreUnavailable`. */
export class DatabaseError extends Schema.TaggedError<DatabaseError>()("DATABASE_ERROR", {
  problem: Schema.Literal("driver", "open", "connect", "migrate", "lost", "newer"),
  reason: Schema.optionalWith(Schema.String, { exact: true })
}) {
  override get message(): string {
    return `The database cannot be used: ${databaseProblems[this.problem]}${this.reason === undefined ? "" : ` (${this.reason})`}.`
  }
}

/** The first code down the chain of causes: drivers wrap the error of the database, and that the one of the system. */
const codeOf = (error: unknown): string | undefined => {
  for (let cause = error, depth = 0; depth < 5; depth++) {
    if (
      Predicate.hasProperty(cause, "code") &&
      typeof cause.code === "string" &&
      /^[A-Z0-9_]{1,40}$/.test(cause.code)
    ) {
      return cause.code
    }
    if (!Predicate.hasProperty(cause, "cause")) return undefined
    cause = cause.cause
  }
  return undefined
}

/** The code to show of a failure of a database or a file system. */
export const reasonOf = (error: unknown): string => codeOf(error) ?? "unknown"

/** A failed statement or file operation as the store's own failure. */
export const unavailable = (error: SqlError | PlatformError): StoreUnavailable =>
  new StoreUnavailable({ reason: reasonOf(error) })

/** Loads a driver when it is used, so that nobody needs the one of the other database. */
export const importDriver = <A>(load: () => Promise<A>): Effect.Effect<A, DatabaseError> =>
  Effect.tryPromise({ try: load, catch: () => new DatabaseError({ problem: "driver" }) })
