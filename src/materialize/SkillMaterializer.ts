/**
 * Skills laid out in a directory: once, or kept equal to what a delivery gives (contract, Materialization).
 *
 * A pass finds what is not as wanted by the content of every file, and touches nothing else. Each skill is written whole
 * beside its place and swapped in by renames, so that whoever reads the directory sees the old skill or the new one, and a
 * process may be killed at any moment. What no materialization has written is left alone.
 *
 * @module
 */
import type { FileSystem, Path } from "@effect/platform"
import { type Duration, Effect, Either, Option, Schedule, Stream } from "effect"
import * as DeliveryError from "../delivery/DeliveryError.js"
import type { DeliveryStatus } from "../delivery/DeliveryStatus.js"
import { SkillDelivery } from "../delivery/SkillDelivery.js"
import type { VerifiedSnapshot } from "../delivery/Snapshot.js"
import * as ConfinedFiles from "./ConfinedFiles.js"
import type { MaterializeError } from "./MaterializeError.js"
import type { MaterializeReport } from "./MaterializeReport.js"
import { fromSnapshot, type MaterialSkill } from "./MaterialSkill.js"
import * as Pass from "./Pass.js"

export { fromArchive, fromSnapshot } from "./MaterialSkill.js"

export interface DirectoryOptions {
  /** The skills directory. Made when it is needed and absent. */
  readonly directory: string
  /**
   * The directory that is trusted: below it no component of `directory` may be a link. By default the parent of
   * `directory`; name a higher one when others can write there, as an agent can in its workspace.
   */
  readonly within?: string
}

/**
 * Makes the directory hold these skills, and no others of those that its marker names.
 *
 * A skill whose files are all in place, with their sizes and digests and nothing beside them, is kept; a pass that finds
 * every skill so writes nothing. Any other is replaced whole. A skill that cannot be laid out is in the report's `failed`, and
 * the rest goes on. Two passes on one directory take turns.
 *
 * Fails with `MATERIALIZE_FAILED` when nothing can be done in the directory: a link is in its place, it cannot be written,
 * or another pass does not end within half a minute. Interrupted, it ends between two steps: what has landed is recorded, and
 * nothing is left half done.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Effect } from "effect"
 * import { Snapshot } from "effect-agent-contracts/delivery"
 * import * as SkillMaterializer from "./SkillMaterializer.js"
 *
 * export const layOut = (snapshot: Snapshot.VerifiedSnapshot) =>
 *   SkillMaterializer.materialize({
 *     directory: ".claude/skills",
 *     skills: SkillMaterializer.fromSnapshot(snapshot)
 *   }).pipe(Effect.provide(NodeContext.layer))
 * ```
 */
export const materialize: (
  options: DirectoryOptions & { readonly skills: ReadonlyArray<MaterialSkill> }
) => Effect.Effect<MaterializeReport, MaterializeError, FileSystem.FileSystem | Path.Path> = Effect.fn(
  "SkillMaterializer.materialize"
)(function* ({ skills, ...options }) {
  return yield* pass(options, skills, "unwanted")
})

/** Removes every skill that the marker names, and says why. */
const clear: (
  options: DirectoryOptions,
  reason: Pass.RemovalReason
) => Effect.Effect<MaterializeReport, MaterializeError, FileSystem.FileSystem | Path.Path> = Effect.fn(
  "SkillMaterializer.clear"
)(function* (options, reason) {
  return yield* pass(options, [], reason)
})

const nothing: MaterializeReport = {
  written: [],
  kept: [],
  skipped: [],
  removed: [],
  restored: [],
  leftovers: [],
  failed: []
}

const pass = Effect.fnUntraced(function* (
  { directory, within }: DirectoryOptions,
  skills: ReadonlyArray<MaterialSkill>,
  reason: Pass.RemovalReason
) {
  const files = yield* ConfinedFiles.open({ directory, within, create: skills.length > 0 })
  const report = Option.isNone(files) ? nothing : yield* Pass.run(files.value, skills, reason)
  yield* Effect.annotateCurrentSpan({
    "skills.written": report.written.length,
    "skills.kept": report.kept.length,
    "skills.removed": report.removed.length,
    "skills.restored": report.restored.length,
    "skills.leftovers": report.leftovers.length,
    "skills.failed": report.failed.length
  })
  return report
})

export interface SyncOptions extends DirectoryOptions {
  /** Leaves the skills in place when the registry denies them. By default they are removed. */
  readonly keepOnDenial?: boolean
}

/** How one pass of a sync ended. */
export type SyncOutcome =
  /** The directory holds the snapshot, but for what the report says failed. */
  | { readonly _tag: "Synced"; readonly revision: string; readonly report: MaterializeReport }
  /** The registry denied the skills; the report says which were removed, and is none when they are kept. */
  | {
      readonly _tag: "Denied"
      readonly error: DeliveryError.Blocking
      readonly report: Option.Option<MaterializeReport>
    }
  /** No snapshot could be had, which says nothing about permission: nothing was changed. */
  | { readonly _tag: "Unavailable"; readonly error: DeliveryError.Transient }

/**
 * Makes the directory equal to the snapshot that the delivery gives now.
 *
 * A denial removes what the marker names, unless `keepOnDenial` is set; a transient failure with nothing held changes
 * nothing, and with a snapshot held the delivery gives that one.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Console, Effect } from "effect"
 * import * as SkillMaterializer from "./SkillMaterializer.js"
 *
 * export const program = SkillMaterializer.syncOnce({ directory: ".claude/skills" }).pipe(
 *   Effect.flatMap((outcome) => Console.log(outcome._tag)),
 *   Effect.provide(NodeContext.layer)
 * )
 * ```
 */
export const syncOnce = (
  options: SyncOptions
): Effect.Effect<SyncOutcome, MaterializeError, SkillDelivery | FileSystem.FileSystem | Path.Path> =>
  layOutNext(
    options,
    Effect.flatMap(SkillDelivery, (delivery) => delivery.acquire)
  )

const layOutNext = Effect.fn("SkillMaterializer.syncOnce")(function* <R>(
  { keepOnDenial = false, ...options }: SyncOptions,
  acquire: Effect.Effect<VerifiedSnapshot, DeliveryError.DeliveryError, R>
): Effect.fn.Return<SyncOutcome, MaterializeError, R | FileSystem.FileSystem | Path.Path> {
  const acquired = yield* Effect.either(acquire)
  if (acquired._tag === "Right") {
    const { revision } = acquired.right
    const report = yield* materialize({ ...options, skills: fromSnapshot(acquired.right) })
    return { _tag: "Synced", revision, report }
  }
  const error = acquired.left
  if (!DeliveryError.isBlocking(error)) return { _tag: "Unavailable", error }
  const report = keepOnDenial ? Option.none() : Option.some(yield* clear(options, error._tag))
  return { _tag: "Denied", error, report }
})

export interface ContinuousOptions<E, R> extends SyncOptions {
  /** How often the delivery is asked and the directory proved. Default: 5 seconds, the delivery's freshness window. */
  readonly every?: Duration.DurationInput
  /** Told of every pass. It ends the sync by failing. */
  readonly onOutcome?: (outcome: Either.Either<SyncOutcome, MaterializeError>) => Effect.Effect<void, E, R>
}

/**
 * Keeps the directory equal to what the delivery gives, until it is interrupted.
 *
 * It asks when it starts, then every `every`, and at once when somebody else's acquire brought another revision or a
 * denial. Every pass proves the directory anew, so what others change in it is put
 * right too. What a pass came to is logged when it is something new, and the next one tries again: a sync outlives a full
 * disk.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Effect } from "effect"
 * import * as SkillMaterializer from "./SkillMaterializer.js"
 *
 * // Runs beside the agent, for as long as its scope.
 * export const program = SkillMaterializer.sync({ directory: ".claude/skills", keepOnDenial: true }).pipe(
 *   Effect.forkScoped,
 *   Effect.provide(NodeContext.layer)
 * )
 * ```
 */
export const sync = Effect.fnUntraced(function* <E = never, R = never>({
  every = "5 seconds",
  onOutcome = () => Effect.void,
  ...options
}: ContinuousOptions<E, R>): Effect.fn.Return<never, E, R | SkillDelivery | FileSystem.FileSystem | Path.Path> {
  const delivery = yield* SkillDelivery
  /** What the last pass acquired. What comes while it is at work is news. */
  let known: string | undefined
  let isTime = false
  let logged: string | undefined
  // What goes on for hours is said once.
  const log = (outcome: Either.Either<SyncOutcome, MaterializeError>) => {
    const message = summary(outcome)
    if (message === logged) return Effect.void
    logged = message
    return isGood(outcome) ? Effect.logInfo(message) : Effect.logWarning(message)
  }
  const learn = Effect.map(delivery.status, (status) => {
    known = given(status)
  })
  const passOnce = Effect.gen(function* () {
    isTime = false
    const outcome = yield* Effect.either(layOutNext(options, Effect.ensuring(delivery.acquire, learn)))
    yield* log(outcome)
    yield* onOutcome(outcome)
  })
  // The pass's own acquire changes the status too; only what it has not laid out yet is news.
  const passWhenDue = Effect.flatMap(delivery.status, (status) =>
    isTime || given(status) !== known ? passOnce : Effect.void
  )

  const ticks = Stream.tap(Stream.fromSchedule(Schedule.spaced(every)), () =>
    Effect.sync(() => {
      isTime = true
    })
  )
  // Only wakes up: what has come meanwhile is one pass, whichever of the two said so last.
  const due = Stream.merge(ticks, delivery.changes).pipe(Stream.buffer({ capacity: 1, strategy: "sliding" }))
  yield* Stream.runForEach(due, () => passWhenDue)
  return yield* Effect.never
})

const blockingCodes: ReadonlySet<string> = new Set(DeliveryError.Blocking.members.map((member) => member._tag))

/** What a status says of the snapshot that an acquire would give: revisions and denials, not times or trouble. */
const given = ({ containers = [], lastError, revision }: DeliveryStatus): string =>
  JSON.stringify([
    revision,
    lastError !== undefined && blockingCodes.has(lastError.code) ? lastError.code : undefined,
    containers.map((container) => container.revision)
  ])

/** Counts and codes only: a report has names that others chose. */
const summary = (outcome: Either.Either<SyncOutcome, MaterializeError>): string => {
  if (Either.isLeft(outcome)) return outcome.left.message
  switch (outcome.right._tag) {
    case "Synced": {
      const { failed, removed, written } = outcome.right.report
      return `Skills directory: ${written.length} written, ${removed.length} removed, ${failed.length} failed`
    }
    case "Denied":
      return `Skills directory: denied with ${outcome.right.error._tag}`
    case "Unavailable":
      return `Skills directory: left as it is, since ${outcome.right.error._tag}`
  }
}

const isGood = (outcome: Either.Either<SyncOutcome, MaterializeError>) =>
  Either.isRight(outcome) && outcome.right._tag === "Synced" && outcome.right.report.failed.length === 0
