import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Redacted } from "effect"
import { vi } from "vitest"
import * as BlobStore from "../../src/store/BlobStore.js"
import * as Database from "../../src/store/Database.js"
import * as Processes from "../support/Processes.js"
import * as Stores from "../support/Stores.js"

/** One of several servers: a pool of connections of its own. */
const serve = (url: Redacted.Redacted) =>
  Effect.map(Layer.build(Database.layerPostgres({ url })), (context) => {
    const sql = Context.get(context, SqlClient.SqlClient)
    return {
      sql,
      transaction: <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.provideService(Database.transaction(effect), SqlClient.SqlClient, sql),
      insert: (value: number) => sql`INSERT INTO numbers ${sql.insert({ value })}`,
      numbers: Effect.map(sql`SELECT value FROM numbers ORDER BY value`, (rows) =>
        rows.map((row) => Number(row["value"]))
      )
    }
  })

/** As another caller, who is not in the transaction of this one. */
const outside = <A, E>(effect: Effect.Effect<A, E>) => Effect.promise(() => Effect.runPromise(effect))

/** Several servers on a new database with an empty table of numbers. */
const servers = Effect.gen(function* () {
  const url = yield* Stores.emptyPostgres
  const first = yield* serve(url)
  yield* first.sql`CREATE TABLE numbers (value BIGINT PRIMARY KEY)`
  return { url, first, second: yield* serve(url) }
})

describe("Database.layerPostgres", () => {
  it.scopedLive("servers that start at once make the tables once", () =>
    Effect.gen(function* () {
      const url = yield* Stores.emptyPostgres
      const start = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* Database.migrate([
          { id: 1, name: "numbers", up: sql`CREATE TABLE numbers (value BIGINT)` },
          { id: 2, name: "one", up: sql`INSERT INTO numbers VALUES (1)` }
        ])
      }).pipe(Effect.provide(Stores.layerPostgresAt(url)))
      yield* Effect.replicateEffect(start, 6, { concurrency: "unbounded" })
      expect(yield* (yield* serve(url)).numbers).toEqual([1])
    })
  )

  it.scopedLive("servers that write one row at once lose no write", () =>
    Effect.gen(function* () {
      const { first, second } = yield* servers
      yield* first.insert(0)
      const increments = Effect.forEach(
        [first, second],
        ({ sql, transaction, numbers }) =>
          Effect.replicateEffect(
            transaction(Effect.flatMap(numbers, ([before = 0]) => sql`UPDATE numbers SET value = ${before + 1}`)),
            25,
            { concurrency: "unbounded" }
          ),
        { concurrency: "unbounded" }
      )
      yield* increments
      expect(yield* first.numbers).toEqual([50])
    })
  )

  it.scopedLive("a transaction sees what was committed while it waited for its turn, without a second run", () =>
    Effect.gen(function* () {
      const { first, second } = yield* servers
      yield* first.insert(0)
      const begun = yield* Deferred.make<void>()
      const finish = yield* Deferred.make<void>()
      let runs = 0
      const holding = yield* first
        .transaction(
          first.sql`UPDATE numbers SET value = 1`.pipe(
            Effect.zipRight(Deferred.succeed(begun, undefined)),
            Effect.zipRight(Deferred.await(finish))
          )
        )
        .pipe(Effect.fork)
      yield* Deferred.await(begun)
      const waiting = yield* second
        .transaction(
          Effect.suspend(() => {
            runs++
            return Effect.flatMap(
              second.numbers,
              ([before = 0]) => second.sql`UPDATE numbers SET value = ${before + 1}`
            )
          })
        )
        .pipe(Effect.fork)
      yield* Effect.repeat(first.sql`SELECT 1 FROM pg_locks WHERE NOT granted`, { until: (rows) => rows.length > 0 })
      yield* Deferred.succeed(finish, undefined)
      yield* Fiber.join(holding)
      yield* Fiber.join(waiting)
      expect(runs).toBe(1)
      expect(yield* first.numbers).toEqual([2])
    })
  )

  it.scopedLive("a transaction that conflicts with a statement that took no turn runs again, and not for ever", () =>
    Effect.gen(function* () {
      const { first, second } = yield* servers
      yield* first.insert(0)
      let runs = 0
      const increment = (conflicts: number) =>
        Effect.gen(function* () {
          const [before = 0] = yield* first.numbers
          runs++
          if (runs <= conflicts) yield* outside(second.sql`UPDATE numbers SET value = value + 10`)
          yield* first.sql`UPDATE numbers SET value = ${before + 1}`
        })
      yield* first.transaction(increment(2))
      expect(runs).toBe(3)
      expect(yield* first.numbers).toEqual([21])

      runs = 0
      const failure = yield* Effect.flip(first.transaction(increment(Number.POSITIVE_INFINITY)))
      expect(failure).toEqual(new Database.StoreUnavailable({ reason: "40001" }))
      expect(runs).toBe(11)
    })
  )

  it.scopedLive("a transaction whose statement an operator cancels runs once more, and not ten times", () =>
    Effect.gen(function* () {
      const { first, second } = yield* servers
      let runs = 0
      const sleeping = yield* first
        .transaction(
          Effect.zipRight(
            Effect.sync(() => runs++),
            first.sql`SELECT pg_sleep(60), 'cancel me'`
          )
        )
        .pipe(Effect.flip, Effect.fork)
      const cancelled = new Set<string>()
      yield* second.sql<{ cancelled: boolean; started: string }>`
        SELECT pg_cancel_backend(pid) AS cancelled, query_start::text AS started FROM pg_stat_activity
        WHERE state = 'active' AND query LIKE '%cancel me%' AND pid <> pg_backend_pid()`.pipe(
        Effect.tap((rows) => {
          for (const { started } of rows) cancelled.add(started)
          return Effect.void
        }),
        Effect.repeat({ until: () => cancelled.size === 2 })
      )
      expect(yield* Fiber.join(sleeping)).toEqual(new Database.StoreUnavailable({ reason: "57014" }))
      expect(runs).toBe(2)
    })
  )

  it.scopedLive("a server that stops within a transaction loses it, and who waits for its turn gets it", () =>
    Effect.gen(function* () {
      const { first, second } = yield* servers
      const begun = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const stopped = yield* first
        .transaction(
          first
            .insert(1)
            .pipe(
              Effect.zipRight(Deferred.succeed(begun, undefined)),
              Effect.zipRight(Deferred.await(goOn)),
              Effect.zipRight(first.insert(2))
            )
        )
        .pipe(Effect.flip, Effect.fork)
      yield* Deferred.await(begun)
      yield* second.transaction(second.insert(3))
      yield* Deferred.succeed(goOn, undefined)
      expect(yield* Fiber.join(stopped)).toMatchObject({ _tag: "STORE_UNAVAILABLE" })
      expect(yield* second.numbers).toEqual([3])
    })
  )

  it.scopedLive("a transaction that recovers from a failed statement fails: PostgreSQL has undone it", () =>
    Effect.gen(function* () {
      const { first } = yield* servers
      yield* first.insert(1)
      const failure = yield* Effect.flip(
        first.transaction(Effect.zipRight(first.insert(2), Effect.ignore(first.insert(1))))
      )
      expect(failure).toEqual(new Database.StoreUnavailable({ reason: "rolled-back" }))
      expect(yield* first.numbers).toEqual([1])
    })
  )

  it.scopedLive("callers that are interrupted at any moment leave every connection fit for the next one", () =>
    Effect.gen(function* () {
      const { first } = yield* servers
      for (let turns = 0; turns < 60; turns++) {
        const fiber = yield* Effect.fork(first.transaction(Effect.zipRight(first.insert(turns), first.sql`SELECT 1`)))
        for (let turn = 0; turn < turns; turn++) {
          yield* Effect.yieldNow()
          if (turn % 4 === 0) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        }
        yield* Fiber.interrupt(fiber)
      }
      // While connections are made, and while others wait for one.
      const many = yield* Effect.replicateEffect(Effect.fork(first.transaction(first.sql`SELECT 1`)), 15)
      yield* Effect.yieldNow()
      yield* Fiber.interruptAll(many)

      // More than the pool has connections: each is asked.
      yield* Effect.replicateEffect(first.transaction(first.sql`SELECT 1`), 20, { concurrency: "unbounded" })
      yield* first.transaction(first.insert(1_000))
      expect(yield* first.numbers).toContain(1_000)
    })
  )

  it.scopedLive("says why it cannot start, without the address and its password", () =>
    Effect.gen(function* () {
      const failureOf = (url: string) =>
        Effect.flip(Effect.scoped(Layer.build(Database.layerPostgres({ url: Redacted.make(url) }))))
      const refused = yield* failureOf("postgres://user:secret@127.0.0.1:1/registry")
      expect(refused).toEqual(new Database.DatabaseError({ problem: "connect", reason: "ECONNREFUSED" }))
      expect(refused.message).not.toMatch(/secret|127/)

      const { url } = yield* servers
      const wrong = new URL(Redacted.value(url))
      wrong.password = "secret"
      expect(yield* failureOf(wrong.href)).toEqual(new Database.DatabaseError({ problem: "connect", reason: "28P01" }))

      for (const address of ["postgres://user:secret@[/registry", "no address: secret"]) {
        const failure = yield* failureOf(address)
        expect(failure).toMatchObject({ _tag: "DATABASE_ERROR", problem: "connect" })
        expect(JSON.stringify(failure) + failure.message).not.toContain("secret")
      }
    })
  )

  it.scopedLive("says that the driver is missing where it is not installed", () =>
    Effect.gen(function* () {
      vi.doMock("@effect/sql-pg/PgClient", () => {
        throw new Error("Cannot find package")
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => vi.doUnmock("@effect/sql-pg/PgClient")))
      const failure = yield* Effect.flip(serve(Redacted.make("postgres://127.0.0.1:1/registry")))
      expect(failure).toEqual(new Database.DatabaseError({ problem: "driver" }))
    })
  )
})

describe("A PostgreSQL database that goes away and comes back", () => {
  it.scopedLive(
    "what was taken is there, what was under way fails, and the same server goes on",
    () =>
      Effect.gen(function* () {
        const cluster = yield* Stores.ownPostgres
        const url = Redacted.make(cluster.url("postgres"))
        const { sql, transaction, insert, numbers } = yield* serve(url)
        const blobs = yield* Effect.map(Layer.build(Stores.layerPostgresAt(url)), Context.get(BlobStore.BlobStore))
        yield* sql`CREATE TABLE numbers (value BIGINT PRIMARY KEY)`
        yield* transaction(insert(1))
        const sha256 = yield* blobs.put(Uint8Array.of(1, 2, 3))

        const written = yield* Deferred.make<void>()
        const finish = yield* Deferred.make<void>()
        const underWay = yield* transaction(
          insert(2).pipe(Effect.zipRight(Deferred.succeed(written, undefined)), Effect.zipRight(Deferred.await(finish)))
        ).pipe(Effect.flip, Effect.fork)
        yield* Deferred.await(written)
        yield* Effect.promise(() => cluster.stop())
        yield* Deferred.succeed(finish, undefined)
        expect(yield* Fiber.join(underWay)).toBeInstanceOf(Database.StoreUnavailable)

        const unavailable = new Database.StoreUnavailable({ reason: "ECONNREFUSED" })
        expect(yield* Effect.flip(transaction(insert(3)))).toEqual(unavailable)
        expect(yield* Effect.flip(Database.orUnavailable(numbers))).toEqual(unavailable)
        expect(yield* Effect.flip(blobs.put(Uint8Array.of(4)))).toEqual(unavailable)
        expect(yield* Effect.flip(blobs.get(sha256))).toEqual(unavailable)

        yield* Effect.promise(() => cluster.start())
        yield* transaction(insert(4))
        expect(yield* numbers).toEqual([1, 4])
        expect(yield* blobs.get(sha256)).toEqual(Uint8Array.of(1, 2, 3))
        yield* Effect.replicateEffect(transaction(sql`SELECT 1`), 20, { concurrency: "unbounded" })
      }),
    120_000
  )
})

describe("A process on PostgreSQL that is killed", () => {
  it.scopedLive(
    "at any statement of a transaction: all of its writes are there or none, and others get their turn",
    () =>
      Effect.gen(function* () {
        const { url, first } = yield* servers
        const program = yield* Processes.bundled("StoreProcess", "external")
        const outcomes = new Set<string>()
        for (let killAt = 1; ; killAt++) {
          const process = yield* Processes.start(program, "postgres", Redacted.value(url), "insert", killAt)
          const ending = yield* Processes.ending(process)
          // In turn after what is left of the dead one, so that nothing of it comes later.
          const numbers = yield* first.transaction(Effect.zipLeft(first.numbers, first.sql`DELETE FROM numbers`))
          outcomes.add(numbers.join())
          if (ending === 0) break
          expect(ending).toBe("SIGKILL")
        }
        expect([...outcomes].toSorted().filter((outcome) => outcome !== "")).toEqual(["1,2,3"])
        expect(outcomes.has("")).toBe(true)
      }),
    120_000
  )
})
