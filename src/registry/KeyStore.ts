/**
 * The keys that open a registry.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Effect, Option, type Redacted, Schema } from "effect"
import * as Database from "../store/Database.js"
import * as ApiKey from "./ApiKey.js"
import type { Changes } from "./Changes.js"
import { InvalidValue, KeyNotFound } from "./RegistryError.js"
import * as Model from "./RegistryModel.js"

interface KeyOptions {
  readonly name: string
  readonly scope: Model.KeyScope
  readonly containers: ReadonlyArray<string> | null
}

const isTitle = Schema.is(Model.Title)
const isContainerList = Schema.is(Schema.Array(Model.ContainerId))

export const make = Effect.fnUntraced(function* (changes: Changes) {
  const sql = yield* SqlClient.SqlClient

  const findKey = Effect.fnUntraced(function* (keyId: string) {
    const [row] = ApiKey.isId(keyId) ? yield* sql<ApiKey.Row>`SELECT * FROM api_keys WHERE id = ${keyId}` : []
    return row === undefined ? yield* new KeyNotFound({ keyId }) : ApiKey.fromRow(row)
  })

  const check = ({ containers, name, scope }: KeyOptions) => {
    if (!isTitle(name)) return new InvalidValue({ field: "name" })
    // Skills belong to no container: a key that publishes reaches all of them.
    if (containers !== null && scope !== "read") return new InvalidValue({ field: "containers" })
    // Not whether they exist: a key may be issued first.
    return containers === null || isContainerList(containers)
      ? Effect.void
      : new InvalidValue({ field: "container id" })
  }

  const insert = Effect.fnUntraced(function* (
    { digest, id }: ApiKey.NewKey,
    { containers, name, scope }: KeyOptions,
    change: number
  ) {
    const row = {
      id,
      name,
      scope,
      containers: containers === null ? null : ApiKey.encodeContainers(containers),
      digest,
      created_at: yield* Clock.currentTimeMillis,
      revoked_at: null,
      ordinal: change,
      change
    }
    yield* sql`INSERT INTO api_keys ${sql.insert(row)}`
    return ApiKey.fromRow(row)
  })

  const issueKey = Effect.fn("Registry.issueKey")(function* (options: KeyOptions) {
    yield* check(options)
    const made = yield* ApiKey.make
    const apiKey = yield* changes.commit((change) => insert(made, options, change))
    yield* Effect.annotateCurrentSpan({ "registry.key": apiKey.id, "registry.scope": apiKey.scope })
    return { key: made.key, apiKey }
  })

  const issueFirstKey = Effect.fn("Registry.issueFirstKey")(function* <E, R>(
    name: string,
    keep: (key: Redacted.Redacted) => Effect.Effect<void, E, R>
  ) {
    const options: KeyOptions = { name, scope: "admin", containers: null }
    yield* check(options)
    const context = yield* Effect.context<R>()
    const made = yield* ApiKey.make
    const hasKeys = Effect.map(sql`SELECT id FROM api_keys LIMIT 1`, ({ length }) => length > 0)
    // Most starts write nothing, and need not wait for those who do.
    if (yield* Database.orUnavailable(hasKeys)) return Option.none<Model.ApiKey>()
    return yield* changes.commit(
      Effect.fnUntraced(function* (change) {
        if (yield* hasKeys) return Option.none<Model.ApiKey>()
        const apiKey = yield* insert(made, options, change)
        // An effect in a transaction, which may come twice: then it keeps the same key once more, and one that was kept for nothing
        // opens nothing.
        yield* Effect.provide(keep(made.key), context)
        return Option.some(apiKey)
      })
    )
  })

  const listKeys = Effect.map(
    Database.orUnavailable(sql<ApiKey.Row>`SELECT * FROM api_keys ORDER BY ordinal`),
    (rows) => rows.map(ApiKey.fromRow)
  ).pipe(Effect.withSpan("Registry.listKeys"))

  const revokeKey = Effect.fn("Registry.revokeKey")(function* (keyId: string) {
    const now = yield* Clock.currentTimeMillis
    return yield* changes.commit(
      Effect.fnUntraced(function* (change) {
        yield* findKey(keyId)
        yield* sql`
          UPDATE api_keys SET revoked_at = ${now}, change = ${change}
          WHERE id = ${keyId} AND revoked_at IS NULL`
        return yield* findKey(keyId)
      })
    )
  })

  return { issueKey, issueFirstKey, listKeys, revokeKey }
})
