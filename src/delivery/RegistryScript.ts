/**
 * A registry whose answers a test writes down beforehand: the layer to put in place of `RegistryClient.layer` where no
 * HTTP is wanted. Each request takes the next queued reply, and every request is recorded, so a test can assert that
 * nothing was asked twice (contract, Lifecycle 3).
 *
 * @module
 */
import { Context, Effect, type Either, Layer, Redacted, Ref, type Scope } from "effect"
import type { Blocking, DeliveryError } from "./DeliveryError.js"
import {
  type BatchReply,
  type Denied,
  RegistryClient,
  type SnapshotReply,
  type SnapshotRequest
} from "./RegistryClient.js"
import type { SnapshotResponse } from "./Snapshot.js"

/**
 * How one request is answered. It runs when the request arrives and in the request's scope, so it can wait on a latch,
 * fail, never end, or observe that the request is released.
 */
export type ScriptedReply = Effect.Effect<SnapshotReply | Denied | BatchReply, DeliveryError, Scope.Scope>

/** A request as it arrived. */
export type ScriptedRequest =
  | { readonly _tag: "Get"; readonly request: SnapshotRequest }
  | { readonly _tag: "Batch"; readonly requests: ReadonlyArray<SnapshotRequest> }

/**
 * The script behind `layer`.
 *
 * A request without a queued reply is a defect, and so is a batch reply to a single request or the reverse: a wrong test,
 * not a failure of delivery.
 *
 * @example
 * ```ts
 * import { RegistryClient, RegistryScript } from "effect-agent-contracts/delivery"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function* () {
 *   const script = yield* RegistryScript.RegistryScript
 *   yield* script.enqueue(RegistryScript.unchanged("r1", `"${"0".repeat(64)}"`))
 *   const client = yield* RegistryClient.RegistryClient
 *   return yield* client.get({ containerId: "team-skills" })
 * })
 *
 * Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(RegistryScript.layer))).then(console.log)
 * ```
 */
export class RegistryScript extends Context.Tag("effect-agent-contracts/delivery/RegistryScript")<
  RegistryScript,
  {
    /** Queues replies behind those that still wait. */
    readonly enqueue: (...replies: ReadonlyArray<ScriptedReply>) => Effect.Effect<void>
    /** Drops the replies that no request has taken; succeeds with how many there were. */
    readonly clear: Effect.Effect<number>
    /** Every request so far, in the order of arrival. */
    readonly requests: Effect.Effect<ReadonlyArray<ScriptedRequest>>
  }
>() {}

/** Answers with one revision's archive. */
export const snapshot = (response: SnapshotResponse): ScriptedReply => Effect.succeed({ _tag: "Snapshot", response })

/** Answers that the held snapshot is the current one. */
export const unchanged = (revision: string, etag: string): ScriptedReply =>
  Effect.succeed({ _tag: "Unchanged", revision, etag })

/**
 * Answers with a denial that is certain at once; `refined` is what its body says, by default nothing more.
 *
 * @example
 * ```ts
 * import { DeliveryError, RegistryScript } from "effect-agent-contracts/delivery"
 *
 * export const revoked = RegistryScript.denied(new DeliveryError.RevisionRevoked({}))
 * ```
 */
export const denied = (denial: Blocking, refined: Effect.Effect<Blocking> = Effect.succeed(denial)): ScriptedReply =>
  Effect.succeed({ _tag: "Denied", denial, refined })

/**
 * Answers a request for several containers, in their order.
 *
 * @example
 * ```ts
 * import { Effect, Either } from "effect"
 * import { DeliveryError, RegistryScript, SkillArchive } from "effect-agent-contracts/delivery"
 *
 * export const half = Effect.map(SkillArchive.pack("r1", []), (response) =>
 *   RegistryScript.batch(
 *     Either.right({ _tag: "Snapshot", response }),
 *     Either.left(new DeliveryError.ContainerNotFound({}))
 *   )
 * )
 * ```
 */
export const batch = (...replies: ReadonlyArray<Either.Either<SnapshotReply, DeliveryError>>): ScriptedReply =>
  Effect.succeed({ _tag: "Batch", replies })

/** A `RegistryClient` that answers from the script and sends nothing. */
export const layer: Layer.Layer<RegistryScript | RegistryClient> = Layer.effectContext(
  Effect.gen(function* () {
    const queue = yield* Ref.make<ReadonlyArray<ScriptedReply>>([])
    const requests = yield* Ref.make<ReadonlyArray<ScriptedRequest>>([])

    const answer = (request: ScriptedRequest) =>
      Ref.update(requests, (all) => [...all, request]).pipe(
        Effect.zipRight(Ref.modify(queue, ([next, ...rest]) => [next, rest])),
        Effect.flatMap(
          (reply) => reply ?? Effect.dieMessage(`RegistryScript: no reply queued for ${describe(request)}`)
        )
      )
    const misfit = (request: ScriptedRequest, reply: { readonly _tag: string }) =>
      Effect.dieMessage(`RegistryScript: the reply queued for ${describe(request)} is a ${reply._tag}`)

    const client = RegistryClient.of({
      apiUrl: "https://registry.example",
      sealingKey: Redacted.make(new Uint8Array(32).fill(1)),
      get: (request) => {
        const asked: ScriptedRequest = { _tag: "Get", request }
        return Effect.flatMap(answer(asked), (reply) =>
          reply._tag === "Batch" ? misfit(asked, reply) : Effect.succeed(reply)
        )
      },
      batch: (batched) => {
        const asked: ScriptedRequest = { _tag: "Batch", requests: batched }
        return Effect.flatMap(answer(asked), (reply) =>
          reply._tag === "Batch" || reply._tag === "Denied" ? Effect.succeed(reply) : misfit(asked, reply)
        )
      }
    })
    const script = RegistryScript.of({
      enqueue: (...replies) => Ref.update(queue, (waiting) => [...waiting, ...replies]),
      clear: Ref.modify(queue, (waiting) => [waiting.length, []]),
      requests: Ref.get(requests)
    })
    return Context.make(RegistryClient, client).pipe(Context.add(RegistryScript, script))
  })
)

const describe = (request: ScriptedRequest): string =>
  request._tag === "Get"
    ? `a get of ${JSON.stringify(request.request.containerId)}`
    : `a batch of ${JSON.stringify(request.requests.map((one) => one.containerId))}`
