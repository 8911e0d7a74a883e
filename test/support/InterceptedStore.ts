import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Statement from "@effect/sql/Statement"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Effect, Layer, Stream } from "effect"
import { BlobStore } from "../../src/store/BlobStore.js"
import { StoreUnavailable } from "../../src/store/StoreError.js"

/** What a test does before a statement or an operation on blobs: nothing, fail it (true), or wait. */
export type Before = (call: string) => Effect.Effect<boolean>

/** A database that is not there. */
const gone = new SqlError({ cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }), message: "gone" })

const interceptConnection = (connection: Connection, before: Before): Connection => {
  const guard = (sql: string) => Effect.flatMap(before(sql), (fails) => (fails ? gone : Effect.void))
  return {
    execute: (sql, ...rest) => Effect.zipRight(guard(sql), connection.execute(sql, ...rest)),
    executeRaw: (sql, ...rest) => Effect.zipRight(guard(sql), connection.executeRaw(sql, ...rest)),
    executeStream: (sql, ...rest) => Stream.unwrap(Effect.as(guard(sql), connection.executeStream(sql, ...rest))),
    executeValues: (sql, ...rest) => Effect.zipRight(guard(sql), connection.executeValues(sql, ...rest)),
    executeUnprepared: (sql, ...rest) => Effect.zipRight(guard(sql), connection.executeUnprepared(sql, ...rest))
  }
}

/** The database as it is, but for what is done before each statement, those of transactions included. */
export const layerSql = (before: Before) =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return yield* SqlClient.make({
        acquirer: Effect.map(sql.reserve, (connection) => interceptConnection(connection, before)),
        compiler: sql.onDialectOrElse({
          pg: () => PgClient.makeCompiler(),
          orElse: () => Statement.makeCompilerSqlite()
        }),
        spanAttributes: []
      })
    })
  ).pipe(Layer.provide(Reactivity.layer))

const layerBlobs = (before: Before) =>
  Layer.effect(
    BlobStore,
    Effect.map(BlobStore, (blobs) => {
      const guard = (call: string) =>
        Effect.flatMap(before(call), (fails) => (fails ? new StoreUnavailable({ reason: "ENOSPC" }) : Effect.void))
      return {
        put: (bytes) => Effect.zipRight(guard("put"), blobs.put(bytes)),
        get: (sha256) => Effect.zipRight(guard("get"), blobs.get(sha256)),
        remove: (sha256, options) => Effect.zipRight(guard("remove"), blobs.remove(sha256, options)),
        list: Stream.unwrap(Effect.as(guard("list"), blobs.list))
      }
    })
  )

/** Database and blobs. */
export const layer = (before: Before) => Layer.merge(layerSql(before), layerBlobs(before))
