/**
 * One pass over a skills directory: a plan, the steps that do it in an order that makes a crash harmless, and the report.
 *
 * @module
 */
import { Effect, Option } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as DurableFile from "../files/DurableFile.js"
import type { ConfinedFiles } from "./ConfinedFiles.js"
import * as DirectoryLock from "./DirectoryLock.js"
import * as DirectoryRecord from "./DirectoryRecord.js"
import * as Marker from "./Marker.js"
import { MaterializeError, ofPlatform } from "./MaterializeError.js"
import type { KeptSkill, MaterializeReport, RemovedSkill, WrittenSkill } from "./MaterializeReport.js"
import type { MaterialSkill } from "./MaterialSkill.js"
import * as NextRecord from "./NextRecord.js"
import * as Plan from "./Plan.js"
import * as SkillFailure from "./SkillFailure.js"
import * as Staging from "./Staging.js"
import type { Target } from "./Target.js"

/** Why skills that are not wanted are removed. */
export type RemovalReason = RemovedSkill["reason"]

/** What the pass has done so far. */
interface Progress extends NextRecord.Done, Staging.Cleared {
  readonly landed: Array<Target>
  readonly removed: Array<DirectoryRecord.Claim>
  readonly failures: Array<SkillFailure.SkillFailure>
}

const begin = (): Progress => ({ landed: [], removed: [], restored: [], leftovers: [], failures: [] })

type IsHeld = Effect.Effect.Success<ReturnType<typeof DirectoryLock.hold>>

const directoriesOf = (claims: ReadonlyArray<DirectoryRecord.Claim>): ReadonlySet<string> =>
  new Set(claims.map(({ directory }) => directory))

/** Whether the skills and the record are as wanted already, as far as they can be: then not a byte of them is written. */
const isSettled = (plan: Plan.Plan) =>
  plan.changes.length + plan.unwanted.length + plan.outgrown.length === 0 &&
  NextRecord.isWritten(plan.record, NextRecord.after(plan))

/**
 * Does what the plan says. Interrupted, it ends between two steps and records what has landed until then. When the lock is
 * another pass's by then it writes nothing more: what is recorded now is the other one's.
 */
const apply = (
  files: ConfinedFiles,
  plan: Plan.Plan,
  { isHeld, progress }: { readonly isHeld: IsHeld; readonly progress: Progress }
) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const during = NextRecord.during(plan)
      yield* NextRecord.writeFirst(files, isHeld, plan.record, during)

      const staging = Staging.randomName()
      const remove = Effect.fnUntraced(function* (claim: DirectoryRecord.Claim) {
        yield* restore(isHeld)
        const failure = yield* Staging.remove(files, staging, claim.directory)
        if (Option.isNone(failure)) progress.removed.push(claim)
        else progress.failures.push({ ...claim, ...failure.value })
      })
      const steps = Effect.gen(function* () {
        yield* Staging.make(files, staging)
        yield* Effect.forEach(plan.unwanted, remove, { discard: true })
        for (const change of plan.changes) {
          const { directory, skill } = change
          const landed = Effect.sync(() => progress.landed.push(change))
          const failure = yield* restore(Staging.write(files, staging, change, { isHeld, landed }))
          if (Option.isSome(failure)) {
            progress.failures.push({ skillId: skill.skillId, directory, ...failure.value })
            // It keeps what it has elsewhere.
            continue
          }
          const outgrown = plan.outgrown.filter(({ skillId }) => skillId === skill.skillId)
          yield* Effect.forEach(outgrown, remove, { discard: true })
        }
      })
      const exit = yield* Effect.exit(steps)
      yield* isHeld
      yield* Effect.ignore(Staging.restore(files, staging, directoriesOf(during.claims), progress))
      yield* NextRecord.writeLast(files, isHeld, NextRecord.after(plan, progress))
      yield* Staging.clear(files, staging, progress)
      yield* exit
    })
  )

const report = (
  skills: ReadonlyArray<MaterialSkill>,
  plan: Plan.Plan,
  { failures, landed, leftovers, removed, restored }: Progress,
  reason: RemovalReason
): MaterializeReport => ({
  written: landed.map(
    ({ directory, skill }): WrittenSkill => ({
      skillId: skill.skillId,
      directory,
      version: skill.version,
      files: skill.files.length,
      bytes: skill.files.reduce((sum, { size }) => sum + size, 0)
    })
  ),
  kept: plan.kept.map(
    ({ directory, skill }): KeptSkill => ({ skillId: skill.skillId, directory, version: skill.version })
  ),
  skipped: skills.flatMap(({ skillId, skipped = [] }) => skipped.map((member) => ({ skillId, ...member }))),
  removed: removed.map(({ directory, skillId }) => ({ skillId, directory, reason })),
  restored,
  leftovers,
  failed: [...plan.failures, ...failures].map(SkillFailure.toReport)
})

const inDirectory = (error: SkillFailure.FileError | MaterializeError): MaterializeError => {
  switch (error._tag) {
    case "MATERIALIZE_FAILED":
      return error
    case "LinkRefused":
      return new MaterializeError({ path: ArchivePath.display(error.path), reason: "link" })
    default:
      return ofPlatform(error)
  }
}

/** Failures that no look at the directory can change. */
const isForeseen = ({ reason }: SkillFailure.SkillFailure) => !["io", "link", "occupied"].includes(reason)

/**
 * The plan, when it needs nothing done. It is read without the lock, so whatever could not be read, or is not as it should
 * be, may be another pass's work: that is to be looked at again with it.
 */
const settled = Effect.fnUntraced(
  function* (files: ConfinedFiles, skills: ReadonlyArray<MaterialSkill>) {
    const plan = yield* Plan.inspect(files, skills)
    const isFree = (yield* files.kind([DirectoryLock.fileName])) === "absent"
    return isFree && !plan.isDisturbed && isSettled(plan) && plan.failures.every(isForeseen)
      ? Option.some(plan)
      : Option.none()
  },
  Effect.orElseSucceed(() => Option.none<Plan.Plan>())
)

/** One pass: makes the directory hold these skills and no others of ours. */
export const run = (
  files: ConfinedFiles,
  skills: ReadonlyArray<MaterialSkill>,
  reason: RemovalReason
): Effect.Effect<MaterializeReport, MaterializeError> =>
  Effect.gen(function* () {
    // Most passes find nothing to do, and then need neither the lock nor a directory that can be written.
    const first = yield* settled(files, skills)
    if (Option.isSome(first)) return report(skills, first.value, begin(), reason)

    return yield* Effect.scoped(
      Effect.gen(function* () {
        const isHeld = yield* DirectoryLock.hold(files)
        const progress = begin()
        const recorded = DirectoryRecord.directories(yield* DirectoryRecord.read(files))
        yield* Staging.recover(files, directoriesOf(recorded), progress)
        const plan = yield* Plan.inspect(files, skills)
        // Nobody may take it for done that nothing was found to remove.
        if (plan.record.isLost && reason !== "unwanted") {
          return yield* new MaterializeError({ path: Marker.fileName, reason: "type" })
        }
        if (!isSettled(plan)) yield* apply(files, plan, { isHeld, progress })
        return report(skills, plan, progress, reason)
      })
    ).pipe(DurableFile.withClosing)
  }).pipe(Effect.mapError(inDirectory))
