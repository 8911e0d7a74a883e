import { join } from "node:path"
import * as Reactivity from "@effect/experimental/Reactivity"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import type { SqlClient } from "@effect/sql/SqlClient"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Effect, Layer, Redacted } from "effect"
import { inject } from "vitest"
import * as BlobStore from "../../src/store/BlobStore.js"
import * as Database from "../../src/store/Database.js"
import * as EmbeddedPostgres from "./EmbeddedPostgres.js"

export const layerFilesAt = (directory: string) => Layer.provide(BlobStore.layerFiles({ directory }), NodeContext.layer)

/** What a registry keeps on one machine: one directory for the database and the archives. */
export const layerLibsqlAt = (directory: string) =>
  Layer.merge(Database.layerLibsql({ directory }), BlobStore.layerFiles({ directory: join(directory, "blobs") })).pipe(
    Layer.provide(NodeContext.layer)
  )

/** What each of several servers has: one PostgreSQL for both. */
export const layerPostgresAt = (url: Redacted.Redacted) =>
  Layer.provideMerge(BlobStore.layerSql, Database.layerPostgres({ url }))

const sharedPostgres = Effect.promise(async () => {
  const response = await fetch(inject("postgres"))
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
})

/** The address of a new database, which is dropped with the scope. */
export const emptyPostgres = Effect.gen(function* () {
  const url = yield* sharedPostgres
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`
  const administer = (statement: string) =>
    Effect.scoped(
      Effect.flatMap(PgClient.make({ url: Redacted.make(url), maxConnections: 1 }), (sql) => sql.unsafe(statement))
    ).pipe(Effect.provide(Reactivity.layer), Effect.orDie)
  yield* Effect.acquireRelease(administer(`CREATE DATABASE ${name}`), () =>
    administer(`DROP DATABASE ${name} WITH (FORCE)`)
  )
  return Redacted.make(new URL(name, url).href)
})

/** A PostgreSQL that a test may stop and start. */
export const ownPostgres = Effect.acquireRelease(
  Effect.promise(async () => {
    const cluster = await EmbeddedPostgres.initialise()
    await cluster.start()
    return cluster
  }),
  (cluster) => Effect.promise(() => cluster.remove())
)

export const emptyDirectory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()).pipe(
  Effect.provide(NodeContext.layer),
  Effect.orDie
)

export type Store = Layer.Layer<SqlClient | BlobStore.BlobStore>

/** Whether a blob is there; a damaged one is a failure. */
export const has = ({ get }: BlobStore.BlobStoreService, sha256: string) =>
  get(sha256).pipe(
    Effect.as(true),
    Effect.catchTag("BLOB_NOT_FOUND", () => Effect.succeed(false))
  )

/** Empty whenever it is built, and gone with its scope. */
export const libsql: Store = Layer.unwrapScoped(Effect.map(emptyDirectory, layerLibsqlAt)).pipe(Layer.orDie)

const postgres: Store = Layer.unwrapScoped(Effect.map(emptyPostgres, layerPostgresAt)).pipe(Layer.orDie)

/** Both stores, empty like the first. Tests of what is stored run on each of them. */
export const stores: ReadonlyArray<readonly [name: string, store: Store]> = [
  ["libSQL", libsql],
  ["PostgreSQL", postgres]
]
