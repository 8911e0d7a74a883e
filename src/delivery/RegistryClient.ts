import type { Effect, Either, Redacted, Scope } from "effect"
import { Context } from "effect"
import type { Blocking, DeliveryError } from "./DeliveryError.js"
import type { SnapshotResponse } from "./Snapshot.js"

/** What is asked for one container. */
export interface SnapshotRequest {
  readonly containerId: string
  /** The pinned revision. */
  readonly revision?: string
  /** The ETag of the held snapshot. */
  readonly ifNoneMatch?: string
}

/** The registry's answer about one container. */
export type SnapshotReply =
  | { readonly _tag: "Snapshot"; readonly response: SnapshotResponse }
  | { readonly _tag: "Unchanged"; readonly revision: string; readonly etag: string }

/**
 * A denial that was certain when the head of the answer arrived. `refined` reads the body, which may name a more exact
 * denial; it never fails and is cut short by whoever waits for it.
 */
export interface Denied {
  readonly _tag: "Denied"
  readonly denial: Blocking
  readonly refined: Effect.Effect<Blocking>
}

/** One answer per requested container, in the order of the request. */
export interface BatchReply {
  readonly _tag: "Batch"
  readonly replies: ReadonlyArray<Either.Either<SnapshotReply, DeliveryError>>
}

/**
 * The registry as a delivery sees it. Each call makes exactly one request, which lives until the scope closes:
 * interruption and closing release the connection. Nothing here retries, waits or remembers.
 */
export class RegistryClient extends Context.Tag("effect-agent-contracts/delivery/RegistryClient")<
  RegistryClient,
  {
    readonly apiUrl: string
    /** Seals what a persistent cache keeps: derived from the API key, so that only its holder can write a record. */
    readonly sealingKey: Redacted.Redacted<Uint8Array>
    readonly get: (request: SnapshotRequest) => Effect.Effect<SnapshotReply | Denied, DeliveryError, Scope.Scope>
    readonly batch: (
      requests: ReadonlyArray<SnapshotRequest>
    ) => Effect.Effect<BatchReply | Denied, DeliveryError, Scope.Scope>
  }
>() {}
