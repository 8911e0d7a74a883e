/**
 * Another process on a store: `files`, `libsql` or `postgres`, where it lies, what it does, and optionally the number of
 * the file-system or database call during which it kills itself. What more there is are a container and ids of skills.
 *
 * `hold` says `ready` and goes on. `put` puts 2,500,000 sevens. `insert` inserts 1, 2 and 3 into `numbers` in one
 * transaction. `race` inserts 1 to 300 into `numbers`, each for itself and over a connection that owns nothing. `publish` is a
 * registry that publishes the first versions of the skills in the container, one by one, each over the latest revision.
 */
import { join } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { Console, Effect, Layer, Redacted } from "effect"
import { layer as layerRegistry, Registry } from "../../src/registry/Registry.js"
import * as BlobStore from "../../src/store/BlobStore.js"
import * as Database from "../../src/store/Database.js"
import * as InterceptedFileSystem from "./InterceptedFileSystem.js"
import { killAt } from "./KillAt.js"

const [kind = "", place = "", action = "", at = "0", containerId = "", ...skillIds] = process.argv.slice(2)

/** Nothing is counted before the action itself: what it needs to start is not of it. */
let counted = killAt(0)

const count = <A, E, R>(call: Effect.Effect<A, E, R>) => Effect.suspend(() => counted(call))

const platform = Layer.merge(NodeFileSystem.layer, NodePath.layer)

const files = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (fs) => InterceptedFileSystem.intercept(fs, (_, call) => count(call)))
).pipe(Layer.provideMerge(platform))

const interceptedConnection = (connection: Connection): Connection => ({
  execute: (...args) => count(connection.execute(...args)),
  executeRaw: (...args) => count(connection.executeRaw(...args)),
  executeUnprepared: (...args) => count(connection.executeUnprepared(...args)),
  executeValues: (...args) => count(connection.executeValues(...args)),
  executeStream: (...args) => connection.executeStream(...args)
})

const database = Layer.effect(
  SqlClient.SqlClient,
  Effect.map(SqlClient.SqlClient, (sql) =>
    Object.assign(sql, { reserve: Effect.map(sql.reserve, interceptedConnection) })
  )
).pipe(
  Layer.provide(
    kind === "postgres"
      ? Database.layerPostgres({ url: Redacted.make(place) })
      : Layer.provide(Database.layerLibsql({ directory: place }), platform)
  )
)

const blobs =
  kind === "files"
    ? Layer.provide(BlobStore.layerFiles({ directory: place }), files)
    : Layer.provide(BlobStore.layerSql, database)

const registry = Layer.provide(
  layerRegistry,
  Layer.merge(
    database,
    kind === "postgres" ? blobs : Layer.provide(BlobStore.layerFiles({ directory: join(place, "blobs") }), files)
  )
)

const counting = Effect.sync(() => {
  counted = killAt(Number(at))
})

const actions: Record<string, Effect.Effect<unknown, unknown>> = {
  hold: Console.log("ready").pipe(Effect.zipRight(Effect.never), Effect.provide(database)),
  put: Effect.gen(function* () {
    const blobs = yield* BlobStore.BlobStore
    yield* counting
    yield* blobs.put(new Uint8Array(2_500_000).fill(7))
  }).pipe(Effect.provide(blobs)),
  insert: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* counting
    yield* Database.transaction(Effect.forEach([1, 2, 3], (value) => sql`INSERT INTO numbers ${sql.insert({ value })}`))
  }).pipe(Effect.provide(database)),
  publish: Effect.gen(function* () {
    const { getContainer, publish } = yield* Registry
    yield* counting
    for (const skillId of skillIds) {
      yield* Effect.gen(function* () {
        const { latest } = yield* getContainer(containerId)
        const skills = [...(latest?.skills ?? []), { skillId, version: "1" }]
        yield* publish({ containerId, base: latest?.revision ?? null, skills })
      }).pipe(Effect.retry({ while: ({ _tag }) => _tag === "BASE_MISMATCH" }))
    }
  }).pipe(Effect.provide(registry)),
  race: Effect.promise(async () => {
    const { createClient } = await import("@libsql/client/sqlite3")
    const client = createClient({ url: `file://${join(place, "registry.db")}`, concurrency: 1, timeout: 60_000 })
    for (let value = 1; value <= 300; value++) await client.execute(`INSERT INTO numbers VALUES (${value})`)
  })
}

Effect.runPromise(actions[action] ?? Effect.dieMessage(action)).then(
  () => process.exit(0),
  (error) => {
    console.error(String(error))
    process.exit(1)
  }
)
