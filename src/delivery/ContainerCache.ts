/**
 * One container's record in the `SnapshotCache`: restored at most once, verified again, saved whole and in order. Whatever
 * is wrong with the store means empty, is reported and is never fatal (contract, Lifecycle 15).
 *
 * @module
 */
import { Cause, Deferred, type Duration, Effect, Exit, Fiber, FiberId, Metric, Option, type Redacted } from "effect"
import type { ContainerState, Restored } from "./ContainerState.js"
import * as Detached from "./Detached.js"
import * as Snapshot from "./Snapshot.js"
import { failures, SnapshotCache } from "./SnapshotCache.js"
import * as SnapshotRecord from "./SnapshotRecord.js"

/** A failure has a reason that is safe to show; anything else is the store's own doing. */
const reasonOf = (cause: Cause.Cause<{ readonly reason: string }>): string =>
  Option.match(Cause.failureOption(cause), {
    onNone: () => (Cause.isInterruptedOnly(cause) ? "interrupted" : "defect"),
    onSome: ({ reason }) => reason
  })

export interface ContainerCache {
  /** False when nothing outlives the process. */
  readonly persistent: boolean
  /** What the store holds; nothing when it is empty, broken, tampered with or not done within the limit. */
  readonly restore: (limit: Duration.Duration) => Effect.Effect<Restored>
  /** Whether the store is without what was last to be written, because that write failed. */
  readonly isBehind: () => boolean
  /**
   * Queues a write of the state as it will be when the write begins; the inner effect waits for that write. A call while
   * another write waits for its turn shares that one, and no write is undone by interrupting whoever waits for it.
   */
  readonly save: (state: () => ContainerState) => Effect.Effect<Effect.Effect<void>>
  /** Done when no write is running or waiting for its turn. */
  readonly idle: Effect.Effect<void>
}

/**
 * @param options.timeout bounds a save
 */
export const make = Effect.fnUntraced(function* (options: {
  readonly key: SnapshotRecord.RecordKey
  readonly sealingKey: Redacted.Redacted<Uint8Array>
  readonly timeout: Duration.Duration
}): Effect.fn.Return<ContainerCache> {
  const { key, sealingKey, timeout } = options
  const cache = yield* SnapshotCache
  if (!cache.persistent) {
    return {
      persistent: false,
      restore: () => Effect.succeed({}),
      isBehind: () => false,
      save: () => Effect.succeed(Effect.void),
      idle: Effect.void
    }
  }

  const slot = SnapshotRecord.slot(key, sealingKey)
  const turn = Effect.unsafeMakeSemaphore(1)

  const report = (operation: "load" | "save", reason: string) =>
    Effect.logWarning("The skill cache could not be used; going on without it").pipe(
      Effect.annotateLogs({ container: key.containerId, operation, reason }),
      Effect.zipRight(
        Metric.update(Metric.tagged(Metric.tagged(failures, "operation", operation), "reason", reason), 1)
      )
    )

  const load = Effect.gen(function* () {
    const bytes = yield* cache.load(slot)
    if (Option.isNone(bytes)) return {}
    const { denial, snapshot } = yield* SnapshotRecord.open(key, bytes.value, sealingKey)
    const restored = denial === undefined ? {} : { denial }
    if (snapshot === undefined) return restored
    // The seal proves who wrote the archive, not that it is a snapshot by the rules of this version.
    const held = yield* Snapshot.verifyArchive(snapshot.archive, snapshot).pipe(
      Effect.tapError((error) => report("load", error._tag)),
      Effect.option
    )
    return Option.match(held, {
      onNone: () => restored,
      onSome: (held): Restored => ({
        ...restored,
        snapshot: { held, archive: snapshot.archive, checkedAt: snapshot.checkedAt }
      })
    })
  })

  const restore = (limit: Duration.Duration) =>
    Effect.flatMap(Effect.timeoutOption(Detached.exit(load), limit), (ended): Effect.Effect<Restored> => {
      if (Option.isNone(ended)) return Effect.as(report("load", "timeout"), {})
      return Exit.isSuccess(ended.value)
        ? Effect.succeed(ended.value.value)
        : Effect.as(report("load", reasonOf(ended.value.cause)), {})
    })

  const record = ({ archive, checkedAt, denial, held }: ContainerState): SnapshotRecord.SnapshotRecord => ({
    ...(held === undefined || archive === undefined || checkedAt === undefined
      ? {}
      : { snapshot: { revision: held.revision, etag: held.etag, archive, checkedAt } }),
    ...(denial === undefined ? {} : { denial })
  })

  let isBehind = false
  const write = Effect.fnUntraced(function* (state: () => ContainerState) {
    const fiber = yield* Effect.forkDaemon(
      Effect.flatMap(
        Effect.suspend(() => SnapshotRecord.seal(key, record(state()), sealingKey)),
        (sealed) => cache.save(slot, sealed)
      )
    )
    const ended = yield* Effect.timeoutOption(Fiber.await(fiber), timeout)
    isBehind = Option.isNone(ended) || Exit.isFailure(ended.value)
    if (Option.isNone(ended)) {
      yield* report("save", "timeout")
      // To its real end, also where the store is deaf: a later write must not be overtaken by this one.
      yield* Fiber.interrupt(fiber)
    } else if (Exit.isFailure(ended.value)) {
      yield* report("save", reasonOf(ended.value.cause))
    }
  })

  let queued: Deferred.Deferred<void> | undefined
  const save = (state: () => ContainerState) =>
    Effect.gen(function* () {
      if (queued !== undefined) return Deferred.await(queued)
      const done = Deferred.unsafeMake<void>(FiberId.none)
      queued = done
      const begin = Effect.sync(() => {
        queued = undefined
      })
      yield* Effect.zipRight(begin, write(state)).pipe(
        turn.withPermits(1),
        Effect.interruptible,
        Effect.ensuring(Deferred.succeed(done, undefined)),
        Effect.forkDaemon
      )
      return Deferred.await(done)
    }).pipe(Effect.uninterruptible)

  return { persistent: true, restore, isBehind: () => isBehind, save, idle: turn.withPermits(1)(Effect.void) }
})
