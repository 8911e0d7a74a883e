/**
 * One pass over a skills directory: what is to be done, found by reading alone, and the steps that do it.
 *
 * The order of the steps is what makes a crash harmless. Claims first, so that what lands is known as ours; then a marker
 * without what is about to change, so that it never names what is not there; then each skill, staged whole and swapped in
 * by renames; at last the marker of what landed. Whatever a crash leaves, the next pass restores first.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import { Effect, Either, Option } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import { type ConfinedFiles, type LinkRefused, temporaryPrefix } from "./ConfinedFiles.js"
import * as DirectoryLock from "./DirectoryLock.js"
import * as DirectoryRecord from "./DirectoryRecord.js"
import * as Marker from "./Marker.js"
import { MaterializeError, platformReason } from "./MaterializeError.js"
import type {
  FailedSkill,
  FailureReason,
  KeptSkill,
  MaterializeReport,
  RemovedSkill,
  WrittenSkill
} from "./MaterializeReport.js"
import type { MaterialFile, MaterialSkill } from "./MaterialSkill.js"
import * as SkillTree from "./SkillTree.js"
import * as TargetDirectory from "./TargetDirectory.js"

/** Why skills that are not wanted are removed. */
export type RemovalReason = RemovedSkill["reason"]

/** A skill and the place that it is to have. */
interface Target {
  readonly skill: MaterialSkill
  readonly directory: string
  readonly tree: SkillTree.SkillTree
}

/** A target whose place is not as wanted. */
interface Change extends Target {
  /** Whether something of ours is there, to be replaced. */
  readonly occupied: boolean
}

interface Cause {
  readonly reason: FailureReason
  readonly detail?: string
}

interface Failure extends Cause {
  readonly skill: MaterialSkill
  readonly directory?: string
}

/** What reading the directory found. */
interface Plan {
  readonly record: DirectoryRecord.DirectoryRecord
  readonly kept: ReadonlyArray<Target>
  readonly changes: ReadonlyArray<Change>
  readonly unwanted: ReadonlyArray<DirectoryRecord.Claim>
  readonly failures: ReadonlyArray<Failure>
  /** Whether a crash left something, or another pass is at work. */
  readonly leftovers: boolean
}

/** What the steps have done so far. */
interface Progress {
  readonly landed: Array<Target>
  readonly removed: Array<DirectoryRecord.Claim>
  readonly failures: Array<FailedSkill>
}

/** A failure of the file system below; anything else has a name of its own. */
type FileError = PlatformError | LinkRefused

const stagingPrefix = `${TargetDirectory.reservedPrefix}.staging-`

const isLeftover = (name: string) => name.startsWith(stagingPrefix) || name.startsWith(temporaryPrefix)

const { fold } = TargetDirectory

const failedSkill = (failure: Failure): FailedSkill => ({
  skillId: ArchivePath.display(failure.skill.skillId),
  ...(failure.directory === undefined ? {} : { directory: ArchivePath.display(failure.directory) }),
  reason: failure.reason,
  ...(failure.detail === undefined ? {} : { detail: failure.detail })
})

const fileFailure = (error: FileError): Cause =>
  error._tag === "LinkRefused" ? { reason: "link" } : { reason: "io", detail: platformReason(error) }

const inDirectory = (error: FileError | MaterializeError): MaterializeError =>
  error._tag === "MATERIALIZE_FAILED"
    ? error
    : error._tag === "LinkRefused"
      ? new MaterializeError({ path: ArchivePath.display(error.path), reason: "link" })
      : new MaterializeError({ path: "", reason: platformReason(error) })

/** The place of every wanted skill. Those that would share one fail together: neither is a better choice. */
const resolve = (skills: ReadonlyArray<MaterialSkill>) => {
  const located = skills.map((skill) => ({
    skill,
    directory: TargetDirectory.targetDirectory(skill.name, skill.skillId)
  }))
  const ids = count(skills.map(({ skillId }) => skillId))
  const places = count(located.flatMap(({ directory }) => Option.toArray(Option.map(directory, fold))))
  return located.map(({ directory: place, skill }): Either.Either<Target, Failure> => {
    if (Option.isNone(place)) return Either.left({ skill, reason: "name-unusable" })
    const directory = place.value
    if ((ids.get(skill.skillId) ?? 0) > 1 || (places.get(fold(directory)) ?? 0) > 1) {
      return Either.left({ skill, directory, reason: "name-conflict" })
    }
    return Either.mapBoth(SkillTree.fromFiles(skill), {
      onLeft: (problem) => ({ skill, directory, ...problem }),
      onRight: (tree) => ({ skill, directory, tree })
    })
  })
}

const count = (keys: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}

/** Reads the directory and changes nothing. */
const inspect = Effect.fnUntraced(function* (files: ConfinedFiles, skills: ReadonlyArray<MaterialSkill>) {
  const names = yield* files.list([])
  const record = yield* DirectoryRecord.read(files)
  const recorded = DirectoryRecord.directories(record)
  const owned = new Set(recorded.map(({ directory }) => fold(directory)))
  const wantedPlaces = new Set<string>()
  const kept: Array<Target> = []
  const changes: Array<Change> = []
  const failures: Array<Failure> = []

  for (const resolved of resolve(skills)) {
    const { directory, skill } = Either.merge(resolved)
    if (directory !== undefined) wantedPlaces.add(fold(directory))
    if (Either.isLeft(resolved)) {
      failures.push(resolved.left)
      continue
    }
    const target = resolved.right
    const kind = yield* files.kind([target.directory])
    if (kind === "link") failures.push({ ...target, reason: "link" })
    else if (kind === "absent") changes.push({ ...target, occupied: false })
    else if (
      kind === "directory" &&
      // What cannot be read is not proved.
      (yield* Effect.orElseSucceed(files.matches([target.directory], target.tree), () => false))
    ) {
      kept.push(target)
    } else if (owned.has(fold(target.directory)) || record.namedIds.has(skill.skillId)) {
      changes.push({ ...target, occupied: true })
    } else failures.push({ ...target, reason: "occupied" })
  }

  const unwanted: Array<DirectoryRecord.Claim> = []
  const seen = new Set(wantedPlaces)
  for (const claim of recorded) {
    if (seen.has(fold(claim.directory))) continue
    seen.add(fold(claim.directory))
    if ((yield* files.kind([claim.directory])) !== "absent") unwanted.push(claim)
  }
  const plan: Plan = { record, kept, changes, unwanted, failures, leftovers: names.some(isLeftover) }
  return plan
})

/**
 * Marker and claims as they are to be once these skills have landed. A skill that failed, and one that could not be
 * removed, stay recorded as they were: what lies there is still ours.
 */
const recordAfter = ({ kept, record, ...plan }: Plan, { landed, removed }: Progress) => {
  const present = [...kept, ...landed]
  const versions = new Map(present.map(({ skill }) => [skill.skillId, skill.version]))
  const claims: Array<DirectoryRecord.Claim> = present.map(({ directory, skill }) => ({
    skillId: skill.skillId,
    directory
  }))
  const settled = new Set([...claims, ...removed].map(({ directory }) => fold(directory)))
  const standing = new Set(
    [...plan.failures.flatMap(({ directory }) => directory ?? []), ...plan.unwanted.map(({ directory }) => directory)]
      .concat(plan.changes.filter(({ occupied }) => occupied).map(({ directory }) => directory))
      .map(fold)
  )
  for (const claim of DirectoryRecord.directories(record)) {
    const place = fold(claim.directory)
    if (settled.has(place) || !standing.has(place)) continue
    const version = record.versions.get(claim.skillId)
    if (version !== undefined && !versions.has(claim.skillId)) versions.set(claim.skillId, version)
    claims.push(claim)
  }
  return { versions, claims }
}

const markerOf = (versions: ReadonlyMap<string, string>) =>
  Marker.encode([...versions].map(([skillId, version]) => ({ skillId, version })))

const isSame = (file: Option.Option<Uint8Array>, bytes: Uint8Array) =>
  Option.exists(
    file,
    (present) => present.length === bytes.length && present.every((byte, index) => byte === bytes[index])
  )

const nothingDone: Progress = { landed: [], removed: [], failures: [] }

/** Whether the skills and the record are as wanted already, as far as they can be: then not a byte of them is written. */
const isSettled = (plan: Plan) => {
  const { claims, versions } = recordAfter(plan, nothingDone)
  const areImplied = DirectoryRecord.areImplied(claims, versions)
  return (
    plan.changes.length === 0 &&
    plan.unwanted.length === 0 &&
    isSame(plan.record.marker, markerOf(versions)) &&
    (areImplied
      ? Option.isNone(plan.record.claimsFile)
      : isSame(plan.record.claimsFile, DirectoryRecord.encodeClaims(claims)))
  )
}

/** Puts the old tree of a swap back where its place is empty. Says whether it did. */
const putBack = Effect.fnUntraced(function* (files: ConfinedFiles, staging: string, directory: string) {
  const old = [staging, "old", directory]
  if (!TargetDirectory.isUsable(directory) || (yield* files.kind(old)) !== "directory") return false
  if ((yield* files.kind([directory])) !== "absent") return false
  yield* files.rename(old, [directory])
  return true
})

/** Removes a staging directory, and first puts back what has to be: else nothing of it is removed. */
const clear = Effect.fnUntraced(function* (files: ConfinedFiles, staging: string) {
  const restored: Array<string> = []
  if ((yield* files.kind([staging, "old"])) === "directory") {
    for (const directory of yield* files.list([staging, "old"])) {
      if (yield* putBack(files, staging, directory)) restored.push(directory)
    }
  }
  // What cannot be removed now the next pass tries again.
  yield* Effect.ignore(files.removeTree([staging]))
  return restored
})

/** Clears what a crash left. */
const recover = Effect.fnUntraced(function* (files: ConfinedFiles) {
  const restored: Array<string> = []
  for (const name of (yield* files.list([])).filter(isLeftover)) {
    yield* Effect.ignore(
      Effect.gen(function* () {
        if ((yield* files.kind([name])) !== "directory") return yield* files.removeFile([name])
        // Under another name nobody who might still be at work in it can swap a half removed tree in.
        const staging = `${stagingPrefix}${crypto.randomUUID()}`
        yield* files.rename([name], [staging])
        restored.push(...(yield* clear(files, staging)))
      })
    )
  }
  return restored
})

/** Writes a skill's whole tree below the staging directory, each file held to its metadata. */
const stage = (files: ConfinedFiles, at: ReadonlyArray<string>, tree: SkillTree.SkillTree) =>
  Effect.gen(function* () {
    yield* files.makeDirectory(at, 0o755)
    const open: Array<readonly [ReadonlyArray<string>, SkillTree.SkillTree]> = [[at, tree]]
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [directory, nodes] = next
      for (const [name, node] of nodes) {
        const entry = [...directory, name]
        if (SkillTree.isFile(node)) {
          const wrong = yield* writeFile(files, entry, node)
          if (wrong) return Option.some(node.path)
        } else {
          yield* files.makeDirectory(entry, 0o755)
          open.push([entry, node])
        }
      }
    }
    return Option.none<string>()
  })

/** True when the file's bytes are not what its metadata say; then nothing is written. */
const writeFile = Effect.fnUntraced(function* (files: ConfinedFiles, at: ReadonlyArray<string>, file: MaterialFile) {
  const { bytes } = file
  if (bytes.length !== file.size || (yield* Digest.sha256Hex(bytes)) !== file.sha256) return true
  // No execute bits: a skill's metadata have none, so none are invented.
  yield* files.write(at, bytes, 0o644)
  return false
})

/** Puts a staged tree in its place by renames: the old tree is there, or the new one. */
const swap = Effect.fnUntraced(function* (files: ConfinedFiles, staging: string, { directory, occupied }: Change) {
  const kind = yield* files.kind([directory])
  if (kind === "link") return Option.some<FailureReason>("link")
  // It was not there when the directory was read, so it is somebody else's.
  if (kind !== "absent" && !occupied) return Option.some<FailureReason>("occupied")
  if (kind !== "absent") yield* files.rename([directory], [staging, "old", directory])
  yield* files.rename([staging, "new", directory], [directory])
  return Option.none<FailureReason>()
})

const write = (files: ConfinedFiles, staging: string, change: Change, progress: Progress) =>
  Effect.gen(function* () {
    const staged = [staging, "new", change.directory]
    const wrong = yield* stage(files, staged, change.tree)
    if (Option.isSome(wrong)) {
      return Option.some<Cause>({ reason: "content", detail: ArchivePath.display(wrong.value) })
    }
    const refused = yield* swap(files, staging, change).pipe(
      Effect.onError(() => Effect.ignore(putBack(files, staging, change.directory))),
      // With the swap, for an interruption may come right after it.
      Effect.tap((refused) => Option.isNone(refused) && progress.landed.push(change)),
      Effect.uninterruptible
    )
    return Option.map(refused, (reason): Cause => ({ reason }))
  }).pipe(
    Effect.catchAll((error) => Effect.succeed(Option.some(fileFailure(error)))),
    Effect.tap((failure) =>
      // A full disk needs the space for the next one.
      Option.isNone(failure) ? Effect.void : Effect.ignore(files.removeTree([staging, "new", change.directory]))
    )
  )

/** Moved away in one step, so that never a part of a skill is there; removed with the staging directory. */
const remove = Effect.fnUntraced(
  function* (files: ConfinedFiles, staging: string, { directory }: DirectoryRecord.Claim) {
    if ((yield* files.kind([directory])) === "link") return Option.some<Cause>({ reason: "link" })
    yield* files.rename([directory], [staging, "removed", directory])
    return Option.none<Cause>()
  },
  Effect.catchAll((error: FileError) => Effect.succeed(Option.some(fileFailure(error))))
)

const writeMarker = (
  files: ConfinedFiles,
  present: Option.Option<Uint8Array>,
  versions: ReadonlyMap<string, string>
) => {
  const bytes = markerOf(versions)
  return isSame(present, bytes) ? Effect.void : files.replace(Marker.fileName, bytes)
}

/** Records what landed, then clears the staging directory. */
const finish = Effect.fnUntraced(function* (files: ConfinedFiles, staging: string, plan: Plan, progress: Progress) {
  const { claims, versions } = recordAfter(plan, progress)
  yield* files.replace(Marker.fileName, markerOf(versions))
  if (!DirectoryRecord.areImplied(claims, versions)) {
    yield* files.replace(DirectoryRecord.claimsFileName, DirectoryRecord.encodeClaims(claims))
  } else if ((yield* files.kind([DirectoryRecord.claimsFileName])) !== "absent") {
    yield* files.removeFile([DirectoryRecord.claimsFileName])
  }
  yield* Effect.ignore(clear(files, staging))
})

/** Does what the plan says. Interrupted, it ends between two steps and records what has landed until then. */
const apply = (files: ConfinedFiles, plan: Plan, progress: Progress) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const intended = plan.changes.map(({ directory, skill }) => ({ skillId: skill.skillId, directory }))
      const standing = recordAfter(plan, nothingDone)
      const all = [...standing.claims, ...intended]
      const unique = new Map(all.map((claim) => [JSON.stringify([claim.skillId, claim.directory]), claim]))
      yield* files.replace(DirectoryRecord.claimsFileName, DirectoryRecord.encodeClaims(unique.values()))

      const changing = new Set([...intended, ...plan.unwanted].map(({ directory }) => fold(directory)))
      const untouched = new Map(
        standing.claims
          .filter(({ directory }) => !changing.has(fold(directory)))
          .flatMap(({ skillId }) => {
            const version = standing.versions.get(skillId)
            return version === undefined ? [] : [[skillId, version] as const]
          })
      )
      yield* writeMarker(files, plan.record.marker, untouched)

      const staging = `${stagingPrefix}${crypto.randomUUID()}`
      const steps = Effect.gen(function* () {
        yield* files.makeDirectory([staging], 0o700)
        for (const part of ["new", "old", "removed"]) yield* files.makeDirectory([staging, part], 0o700)
        // Removals first: on a disk that takes no notice of case a new name may be an old one's.
        for (const claim of plan.unwanted) {
          yield* restore(Effect.void)
          const failure = yield* remove(files, staging, claim)
          if (Option.isNone(failure)) progress.removed.push(claim)
          else progress.failures.push(failedRemoval(claim, failure.value))
        }
        for (const change of plan.changes) {
          const failure = yield* restore(write(files, staging, change, progress))
          if (Option.isSome(failure)) progress.failures.push(failedSkill({ ...change, ...failure.value }))
        }
      })
      const exit = yield* Effect.exit(steps)
      yield* finish(files, staging, plan, progress)
      yield* exit
    })
  )

const failedRemoval = ({ directory, skillId }: DirectoryRecord.Claim, failure: Cause): FailedSkill => ({
  skillId: ArchivePath.display(skillId),
  directory: ArchivePath.display(directory),
  ...failure
})

const report = (
  skills: ReadonlyArray<MaterialSkill>,
  plan: Plan,
  progress: Progress,
  { reason, restored }: { readonly reason: RemovalReason; readonly restored: ReadonlyArray<string> }
): MaterializeReport => ({
  written: progress.landed.map(
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
  removed: progress.removed.map(({ directory, skillId }) => ({ skillId, directory, reason })),
  restored,
  failed: [...plan.failures.map(failedSkill), ...progress.failures]
})

/** One pass: makes the directory hold these skills and no others of ours. */
export const run = (
  files: ConfinedFiles,
  skills: ReadonlyArray<MaterialSkill>,
  reason: RemovalReason
): Effect.Effect<MaterializeReport, MaterializeError> =>
  Effect.gen(function* () {
    // Most passes find nothing to do, and then need neither the lock nor a directory that can be written.
    const first = yield* inspect(files, skills)
    if (!first.leftovers && isSettled(first)) return report(skills, first, nothingDone, { reason, restored: [] })

    return yield* Effect.scoped(
      Effect.gen(function* () {
        yield* DirectoryLock.hold(files)
        const restored = yield* recover(files)
        const plan = yield* inspect(files, skills)
        const progress: Progress = { landed: [], removed: [], failures: [] }
        if (!isSettled(plan)) yield* apply(files, plan, progress)
        return report(skills, plan, progress, { reason, restored })
      })
    )
  }).pipe(Effect.mapError(inDirectory))
