import { Effect, Redacted } from "effect"
import * as RegistryClient from "../../src/delivery/RegistryClient.js"
import type { SnapshotResponse } from "../../src/delivery/Snapshot.js"
import { LoopbackRegistry } from "./LoopbackRegistry.js"
import { etagOf } from "./Skills.js"

/** A key as providers make them, with every kind of character that a header may carry. */
export const apiKey = "sk_live.~!+/=:Zz09-loopback"

/** A client of the loopback registry. */
export const connect = Effect.gen(function* () {
  const registry = yield* LoopbackRegistry
  const client = yield* RegistryClient.make({ apiUrl: registry.url, apiKey: Redacted.make(apiKey) })
  return { registry, client }
})

/** An answer whose archive is no archive: the client does not look into it. */
export const opaque = (archive: Uint8Array, revision = "r1"): SnapshotResponse => ({
  revision,
  etag: etagOf(archive),
  contentType: "application/zip",
  archive
})
