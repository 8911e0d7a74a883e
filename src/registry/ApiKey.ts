/**
 * The keys of a registry: how one is made, and how one that is shown is held against what is kept of it.
 *
 * A key is `ask_<id>_<secret>`: the id finds the record, so that no secret is ever looked up, and of the secret only a
 * digest is kept. The secret has 256 random bits, so a plain SHA-256 cannot be searched.
 *
 * @module
 */
import { Effect, Encoding, Redacted, Schema } from "effect"
import * as Digest from "../archive/Digest.js"
import * as Database from "../store/Database.js"
import * as Model from "./RegistryModel.js"

/** A new key. `digest` is what is kept of it. */
export interface NewKey {
  readonly id: string
  readonly key: Redacted.Redacted
  readonly digest: string
}

const idBytes = 9
const secretBytes = 32

const pattern = /^ask_([0-9a-f]{18})_[A-Za-z0-9_-]{43}$/

/** The row of a key. */
export interface Row {
  readonly id: string
  readonly name: string
  readonly scope: string
  readonly containers: string | null
  readonly digest: string
  readonly created_at: Database.Integer
  readonly revoked_at: Database.Integer | null
}

const Containers = Schema.parseJson(Model.ApiKey.fields.containers)

const decodeContainers = Schema.decodeSync(Containers)

/** The column `containers` of a row. */
export const encodeContainers = Schema.encodeSync(Containers)

const decodeScope = Schema.decodeUnknownSync(Model.KeyScope)

export const fromRow = (row: Row): Model.ApiKey => ({
  id: row.id,
  name: row.name,
  scope: decodeScope(row.scope),
  containers: decodeContainers(row.containers ?? "null"),
  createdAt: Database.toDateTime(row.created_at),
  revokedAt: row.revoked_at === null ? null : Database.toDateTime(row.revoked_at)
})

/** Whether `id` can be that of a key. */
export const isId = (id: string): boolean => /^[0-9a-f]{18}$/.test(id)

const encoder = new TextEncoder()

const digestOf = (key: string) => Digest.sha256HexSync(encoder.encode(key))

export const make: Effect.Effect<NewKey> = Effect.sync(() => {
  const id = Encoding.encodeHex(crypto.getRandomValues(new Uint8Array(idBytes)))
  const secret = Encoding.encodeBase64Url(crypto.getRandomValues(new Uint8Array(secretBytes)))
  const key = `ask_${id}_${secret}`
  return { id, key: Redacted.make(key), digest: digestOf(key) }
})

/** Against which a key without a record is compared, so that it takes as long as any other. */
const noDigest = "0".repeat(64)

/**
 * The record of a key that was shown, by the id in it; undefined when there is none, or its digest is another.
 *
 * The comparison takes the same time wherever the digests differ, and as long for an unknown id as for a known one.
 */
export const find = <A extends { readonly digest: string }>(
  records: ReadonlyMap<string, A>,
  key: Redacted.Redacted
): A | undefined => {
  const shown = Redacted.value(key)
  const id = pattern.exec(shown)?.[1]
  const record = id === undefined ? undefined : records.get(id)
  const isEqual = areEqual(digestOf(shown), record?.digest ?? noDigest)
  return isEqual ? record : undefined
}

/** Every character is looked at, whatever the ones before it were. */
const areEqual = (left: string, right: string): boolean => {
  let difference = left.length ^ right.length
  for (let index = 0; index < left.length; index++) difference |= left.charCodeAt(index) ^ right.charCodeAt(index)
  return difference === 0
}
