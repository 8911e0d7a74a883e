import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schema } from "effect"
import * as Database from "../../src/store/Database.js"
import * as Stores from "../support/Stores.js"

const createNumbers = (sql: SqlClient.SqlClient): Database.Migration => ({
  id: 1,
  name: "numbers",
  up: sql`CREATE TABLE numbers (value BIGINT PRIMARY KEY)`
})

/** A database with an empty table of numbers. */
const withNumbers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* Database.migrate([createNumbers(sql)])
  return {
    sql,
    insert: (value: number) => sql`INSERT INTO numbers ${sql.insert({ value })}`,
    numbers: Effect.map(sql`SELECT value FROM numbers ORDER BY value`, (rows) =>
      rows.map((row) => Number(row["value"]))
    )
  }
})

class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}

describe.each(Stores.stores)("Database on %s", (_, store) => {
  const test = <E>(behaviour: string, program: Effect.Effect<void, E, SqlClient.SqlClient>) =>
    it.effect(behaviour, () => Effect.provide(program, store))

  describe("transaction", () => {
    test(
      "keeps all of its writes when it succeeds, and gives what the effect gave",
      Effect.gen(function* () {
        const { insert, numbers } = yield* withNumbers
        const given = yield* Database.transaction(insert(1).pipe(Effect.zipRight(insert(2)), Effect.as("given")))
        expect(given).toBe("given")
        expect(yield* numbers).toEqual([1, 2])
      })
    )

    test(
      "undoes its writes when the effect fails, dies or is interrupted, and ends as the effect did",
      Effect.gen(function* () {
        const { insert, numbers } = yield* withNumbers
        expect(yield* Effect.flip(Database.transaction(Effect.zipRight(insert(1), new Refused())))).toEqual(
          new Refused()
        )
        const died = yield* Effect.exit(Database.transaction(Effect.zipRight(insert(1), Effect.die("defect"))))
        expect(died).toEqual(Exit.die("defect"))

        const written = yield* Deferred.make<void>()
        const fiber = yield* insert(1).pipe(
          Effect.zipRight(Deferred.succeed(written, undefined)),
          Effect.zipRight(Effect.never),
          Database.transaction,
          Effect.fork
        )
        yield* Deferred.await(written)
        yield* Fiber.interrupt(fiber)

        yield* Database.transaction(insert(2))
        expect(yield* numbers).toEqual([2])
      })
    )

    test(
      "undoes a part of itself alone when that part is a transaction and the effect recovers from its failure",
      Effect.gen(function* () {
        const { insert, numbers } = yield* withNumbers
        yield* Effect.gen(function* () {
          yield* insert(1)
          yield* Effect.ignore(Database.transaction(Effect.zipRight(insert(2), insert(1))))
          yield* Database.transaction(insert(3))
        }).pipe(Database.transaction)
        expect(yield* numbers).toEqual([1, 3])
      })
    )

    test(
      "says STORE_UNAVAILABLE with the code of the database, and nothing of the statement or the value",
      Effect.gen(function* () {
        const { insert } = yield* withNumbers
        yield* insert(271828)
        const failure = yield* Effect.flip(Database.orUnavailable(insert(271828)))
        expect(failure).toBeInstanceOf(Database.StoreUnavailable)
        expect(failure.message).toMatch(/^The store is not available: (SQLITE_CONSTRAINT|23505)\.$/)
        expect(JSON.stringify(failure)).not.toMatch(/271828|INSERT/)
        const inTransaction = yield* Effect.flip(Database.atomically(insert(271828)))
        expect(inTransaction).toEqual(failure)
      })
    )

    test(
      "lets many read and write one row at once without losing one of them",
      Effect.gen(function* () {
        const { sql, insert, numbers } = yield* withNumbers
        yield* insert(0)
        const increment = Effect.gen(function* () {
          const [before = 0] = yield* numbers
          yield* Effect.yieldNow()
          yield* sql`UPDATE numbers SET value = ${before + 1}`
        })
        yield* Effect.replicateEffect(Database.transaction(increment), 30, { concurrency: "unbounded", discard: true })
        expect(yield* numbers).toEqual([30])
      })
    )

    test(
      "gives its place up when it is interrupted while it waits for its turn",
      Effect.gen(function* () {
        const { insert, numbers } = yield* withNumbers
        const begun = yield* Deferred.make<void>()
        const finish = yield* Deferred.make<void>()
        const first = yield* Deferred.succeed(begun, undefined).pipe(
          Effect.zipRight(insert(1)),
          Effect.zipRight(Deferred.await(finish)),
          Database.transaction,
          Effect.fork
        )
        yield* Deferred.await(begun)
        const waiting = yield* Effect.fork(Database.transaction(insert(2)))
        for (let turn = 0; turn < 50; turn++) yield* Effect.yieldNow()
        yield* Fiber.interrupt(waiting)
        yield* Deferred.succeed(finish, undefined)
        yield* Fiber.join(first)
        yield* Database.transaction(insert(3))
        expect(yield* numbers).toEqual([1, 3])
      })
    )
  })

  describe("migrate", () => {
    test(
      "runs what has not run, in the order of the ids, and nothing twice",
      Effect.gen(function* () {
        const { sql, numbers, insert } = yield* withNumbers
        yield* insert(7)
        const addNote: Database.Migration = {
          id: 2,
          name: "note",
          up: sql`ALTER TABLE numbers ADD COLUMN note TEXT NOT NULL DEFAULT 'none'`
        }
        const renameNote: Database.Migration = {
          id: 3,
          name: "remark",
          up: sql`ALTER TABLE numbers RENAME COLUMN note TO remark`
        }
        yield* Database.migrate([renameNote, addNote, createNumbers(sql)])
        yield* Database.migrate([createNumbers(sql), addNote, renameNote])
        expect(yield* sql`SELECT remark FROM numbers`).toEqual([{ remark: "none" }])
        expect(yield* numbers).toEqual([7])
      })
    )

    test(
      "leaves nothing behind when one of several fails",
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const broken: Database.Migration = { id: 2, name: "broken", up: sql`CREATE TABLE numbers (value TEXT)` }
        const failure = yield* Effect.flip(Database.migrate([createNumbers(sql), broken]))
        expect(failure).toMatchObject({ _tag: "DATABASE_ERROR", problem: "migrate" })
        expect(yield* Effect.exit(sql`SELECT value FROM numbers`)).toSatisfy(Exit.isFailure)
        yield* withNumbers
      })
    )

    test(
      "refuses a database of which a newer program has changed the tables",
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const next: Database.Migration = { id: 2, name: "next", up: sql`CREATE TABLE next (value BIGINT)` }
        yield* Database.migrate([createNumbers(sql), next])
        const failure = yield* Effect.flip(Database.migrate([createNumbers(sql)]))
        expect(failure).toMatchObject({ _tag: "DATABASE_ERROR", problem: "newer" })
        expect(failure.message).toContain("newer version")
      })
    )

    test(
      "keeps what has run of each program that shares the database in a table of its own",
      Effect.gen(function* () {
        const { insert, numbers, sql } = yield* withNumbers
        const other: Database.Migration = { id: 1, name: "other", up: sql`CREATE TABLE other (value BIGINT)` }
        yield* insert(1)
        yield* Database.migrate([other], "other_migration")
        yield* Database.migrate([other], "other_migration")
        yield* Database.migrate([createNumbers(sql)])
        expect(yield* sql`SELECT * FROM other`).toEqual([])
        expect(yield* numbers).toEqual([1])
      })
    )

    test(
      "runs each one once when several ask at the same time",
      Effect.gen(function* () {
        yield* Effect.replicateEffect(withNumbers, 8, { concurrency: "unbounded" })
      })
    )
  })

  test(
    "gives integers and bytes of a row in a form that is read alike",
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const blobType = yield* Database.blobType
      yield* sql`CREATE TABLE pieces (size BIGINT NOT NULL, bytes ${blobType} NOT NULL, text TEXT NOT NULL)`
      const row = {
        size: Number.MAX_SAFE_INTEGER,
        bytes: Uint8Array.from({ length: 256 }, (_, byte) => byte),
        text: "naïve \u{1F600} \u0000".slice(0, -1)
      }
      yield* sql`INSERT INTO pieces ${sql.insert(row)}`
      const [read] = yield* sql<{ size: Database.Integer; count: Database.Integer; bytes: unknown; text: string }>`
        SELECT size, bytes, text, (SELECT count(*) FROM pieces) AS count FROM pieces`
      expect([read?.size, read?.count].map(Number)).toEqual([row.size, 1])
      expect(read?.text).toBe(row.text)
      expect(new Uint8Array(yield* Schema.decodeUnknown(Database.Bytes)(read?.bytes))).toEqual(row.bytes)
    })
  )
})
