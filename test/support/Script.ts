import { Deferred, Effect } from "effect"
import type { SnapshotReply } from "../../src/delivery/RegistryClient.js"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import type { SnapshotResponse } from "../../src/delivery/Snapshot.js"
import * as Skills from "./Skills.js"

const revision = (name: string) => Skills.response({ greeting: { files: { "SKILL.md": `of ${name}` } } }, name)

/** Three revisions of one container. */
export const r1 = revision("r1")
export const r2 = revision("r2")
export const r3 = revision("r3")

export const snapshot = RegistryScript.snapshot

/** The answer that this is still the current revision. */
export const unchanged = ({ etag, revision }: SnapshotResponse) => RegistryScript.unchanged(revision, etag)

/** The entry of a batch answer that carries this snapshot. */
export const entry = (response: SnapshotResponse): SnapshotReply => ({ _tag: "Snapshot", response })

/** The entry of a batch answer that says that nothing has changed. */
export const unchangedEntry = ({ etag, revision }: SnapshotResponse): SnapshotReply => ({
  _tag: "Unchanged",
  revision,
  etag
})

/** A reply that waits: a test knows when its request has started and was interrupted, and says when it is answered. */
export const latched = (reply: RegistryScript.ScriptedReply) =>
  Effect.gen(function* () {
    const started = yield* Deferred.make<void>()
    const opened = yield* Deferred.make<void>()
    const interrupted = yield* Deferred.make<void>()
    return {
      started: Deferred.await(started),
      open: Deferred.succeed(opened, undefined),
      interrupted: Deferred.await(interrupted),
      reply: Deferred.succeed(started, undefined).pipe(
        Effect.zipRight(Deferred.await(opened)),
        Effect.zipRight(reply),
        Effect.onInterrupt(() => Deferred.succeed(interrupted, undefined))
      )
    }
  })

/** A delivery over a registry whose replies the test queues. */
export const delivery = (options: SkillDelivery.Options) =>
  Effect.gen(function* () {
    const script = yield* RegistryScript.RegistryScript
    const service = yield* Effect.orDie(SkillDelivery.make(options))
    return {
      ...service,
      enqueue: script.enqueue,
      requests: script.requests,
      requestCount: Effect.map(script.requests, (requests) => requests.length),
      /** Acquires and gives the revision. */
      revision: Effect.map(service.acquire, (acquired) => acquired.revision),
      /** Acquires, which must fail, and gives the code. */
      code: Effect.map(Effect.flip(service.acquire), (error) => error._tag)
    }
  })
