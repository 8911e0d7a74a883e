/**
 * What a pass has to do, found by reading alone.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import { Effect, Either, Option } from "effect"
import type { ConfinedFiles, Kind, LinkRefused } from "./ConfinedFiles.js"
import * as DirectoryLock from "./DirectoryLock.js"
import * as DirectoryRecord from "./DirectoryRecord.js"
import type { MaterialSkill } from "./MaterialSkill.js"
import * as SkillFailure from "./SkillFailure.js"
import * as Staging from "./Staging.js"
import * as Target from "./Target.js"
import * as TargetDirectory from "./TargetDirectory.js"

/** A target whose place is as wanted. */
export interface Kept extends Target.Target {
  /** Whether a materialization wrote it. Else it is its user's, who has the same files there. */
  readonly isOurs: boolean
}

/** A recorded directory that is there. */
export interface Recorded extends DirectoryRecord.Claim {
  /** The version that the marker says it has, unless it was seen not to. */
  readonly version: string | undefined
  /** The wanted directory that it is, perhaps in another case. */
  readonly wantedAs: string | undefined
}

export interface Plan {
  readonly record: DirectoryRecord.DirectoryRecord
  readonly recorded: ReadonlyArray<Recorded>
  readonly kept: ReadonlyArray<Kept>
  readonly changes: ReadonlyArray<Staging.Change>
  /** Directories of skills that nobody wants, or that are in place elsewhere. */
  readonly unwanted: ReadonlyArray<DirectoryRecord.Claim>
  /** Directories that a skill which changes leaves, once it has landed elsewhere. */
  readonly outgrown: ReadonlyArray<DirectoryRecord.Claim>
  readonly failures: ReadonlyArray<SkillFailure.SkillFailure>
  /** Whether a crash left something, or another pass is at work. */
  readonly isDisturbed: boolean
}

/** What is at a place. One that cannot be looked at fails its own skill, and no other. */
type Found = Either.Either<Kind, PlatformError>

const look = (files: ConfinedFiles, directory: string): Effect.Effect<Found, LinkRefused> => {
  const unknown = (error: PlatformError) => Effect.succeed<Found>(Either.left(error))
  return files.kind([directory]).pipe(
    Effect.map((kind): Found => Either.right(kind)),
    Effect.catchTags({ SystemError: unknown, BadArgument: unknown })
  )
}

const is = (found: Found, kind: Kind) => Either.isRight(found) && found.right === kind

/** Things by the name of their directory, folded. */
type ByPlace<A> = ReadonlyMap<string, ReadonlyArray<A>>

const byPlace = <A extends { readonly directory: string }>(things: ReadonlyArray<A>): ByPlace<A> => {
  const places = new Map<string, Array<A>>()
  for (const thing of things) {
    const key = TargetDirectory.fold(thing.directory)
    const place = places.get(key)
    if (place === undefined) places.set(key, [thing])
    else place.push(thing)
  }
  return places
}

const at = <A>(places: ByPlace<A>, directory: string): ReadonlyArray<A> =>
  places.get(TargetDirectory.fold(directory)) ?? []

interface FoundClaim extends DirectoryRecord.Claim {
  readonly found: Found
}

/** A skills directory before anything wanted is compared with it. */
interface Present {
  readonly names: ReadonlySet<string>
  readonly record: DirectoryRecord.DirectoryRecord
  /** Recorded directories that are there. */
  readonly claims: ReadonlyArray<FoundClaim>
  readonly claimsByPlace: ByPlace<FoundClaim>
}

const readPresent = Effect.fnUntraced(function* (files: ConfinedFiles) {
  const names = new Set(yield* files.list([]))
  const record = yield* DirectoryRecord.read(files)
  const recorded = yield* Effect.forEach(DirectoryRecord.directories(record), (claim) =>
    Effect.map(look(files, claim.directory), (found) => ({ ...claim, found }))
  )
  const claims = recorded.filter(({ found }) => !is(found, "absent"))
  const present: Present = { names, record, claims, claimsByPlace: byPlace(claims) }
  return present
})

interface Place {
  readonly directory: string
  readonly isAbsent: boolean
}

/**
 * Whether a recorded directory that is there and a wanted one with the same folded name are one entry. They are not when
 * this disk tells the names apart: it has both then, or the wanted one is absent.
 */
const isOneEntry = ({ names }: Present, recorded: string, wanted: Place) =>
  recorded === wanted.directory || !(wanted.isAbsent || (names.has(recorded) && names.has(wanted.directory)))

/**
 * Whether an id that the marker names without a directory, as the reference's does, stands for the wanted one. Not where its
 * own directory is known, or is there under its own name: then the wanted one is its user's.
 */
const standsFor = ({ names, record }: Present, skillId: string, wanted: string) =>
  record.namedIds.has(skillId) &&
  record.claims.every((claim) => claim.skillId !== skillId) &&
  Option.match(DirectoryRecord.impliedDirectory(skillId), {
    onNone: () => true,
    onSome: (implied) => implied === wanted || !names.has(implied)
  })

type Inspected =
  | { readonly _tag: "Kept"; readonly kept: Kept }
  | { readonly _tag: "Change"; readonly change: Staging.Change }
  | { readonly _tag: "Failed"; readonly failure: SkillFailure.SkillFailure }

const inspectTarget = Effect.fnUntraced(function* (files: ConfinedFiles, present: Present, target: Target.Target) {
  const { directory, skill } = target
  const found = yield* look(files, directory)
  const place: Place = { directory, isAbsent: is(found, "absent") }
  const as = (state: Inspected) => ({ place: Option.some(place), state })
  const failed = (cause: SkillFailure.Cause) =>
    as({ _tag: "Failed", failure: { skillId: skill.skillId, directory, ...cause } })

  if (Either.isLeft(found)) return failed(SkillFailure.ofFile(found.left))
  if (found.right === "link") return failed({ reason: "link" })
  if (found.right === "absent") return as({ _tag: "Change", change: { ...target, occupied: false } })
  const isRecorded =
    at(present.claimsByPlace, directory).some((claim) => isOneEntry(present, claim.directory, place)) ||
    standsFor(present, skill.skillId, directory)
  const isProved =
    found.right === "directory" &&
    // What cannot be read is not proved.
    (yield* Effect.orElseSucceed(files.matches([directory], target.tree), () => false))
  // Whoever lost the marker had skills of ours, and these are they: a denial has to find them.
  if (isProved) return as({ _tag: "Kept", kept: { ...target, isOurs: isRecorded || present.record.isLost } })
  return isRecorded ? as({ _tag: "Change", change: { ...target, occupied: true } }) : failed({ reason: "occupied" })
})

/** Skills that are looked at at once; of each, several files are. */
const skillsAtOnce = 4

/** Reads the directory and changes nothing. */
export const inspect = Effect.fnUntraced(function* (files: ConfinedFiles, skills: ReadonlyArray<MaterialSkill>) {
  const present = yield* readPresent(files)
  const inspected = yield* Effect.forEach(
    Target.resolve(skills),
    Either.match({
      onLeft: (failure) =>
        Effect.succeed({
          place: Option.map(Option.fromNullable(failure.directory), (directory) => ({ directory, isAbsent: false })),
          state: { _tag: "Failed", failure } satisfies Inspected as Inspected
        }),
      onRight: (target) => inspectTarget(files, present, target)
    }),
    { concurrency: skillsAtOnce }
  )
  const places = byPlace(inspected.flatMap(({ place }) => Option.toArray(place)))
  const states = inspected.map(({ state }) => state)
  const kept = states.flatMap((state) => (state._tag === "Kept" ? [state.kept] : []))
  const changes = states.flatMap((state) => (state._tag === "Change" ? [state.change] : []))
  const failures = states.flatMap((state) => (state._tag === "Failed" ? [state.failure] : []))

  // A place that was looked at and is not as wanted does not have the wanted version, whatever the marker says.
  const disproved = new Map(changes.map(({ directory, skill }) => [directory, skill]))
  const recorded = present.claims.map(({ directory, found, skillId }) => {
    const wantedAs = at(places, directory).find((place) => isOneEntry(present, directory, place))?.directory
    const version = present.record.versions.get(skillId)
    const wanted = wantedAs === undefined ? undefined : disproved.get(wantedAs)
    const isThere = is(found, "directory") && !(wanted?.skillId === skillId && wanted.version === version)
    return { skillId, directory, found, wantedAs, version: isThere ? version : undefined }
  })

  const unwanted: Array<DirectoryRecord.Claim> = []
  const outgrown: Array<DirectoryRecord.Claim> = []
  const changing = new Set(changes.map(({ skill }) => skill.skillId))
  const inPlace = new Set(kept.map(({ skill }) => skill.skillId))
  const failing = new Set(skills.map(({ skillId }) => skillId).filter((id) => !changing.has(id) && !inPlace.has(id)))
  const leaving = recorded.filter(({ wantedAs }) => wantedAs === undefined)
  const seen = new Set(leaving.flatMap(({ directory, skillId }) => (failing.has(skillId) ? [directory] : [])))
  // One directory may be claimed for several skills, and goes when the last of them lets it go.
  for (const { directory, found, skillId } of [
    ...leaving.filter(({ skillId }) => changing.has(skillId)),
    ...leaving.filter(({ skillId }) => !changing.has(skillId))
  ]) {
    if (seen.has(directory)) continue
    seen.add(directory)
    if (Either.isLeft(found)) failures.push({ skillId, directory, ...SkillFailure.ofFile(found.left) })
    else if (found.right === "link") failures.push({ skillId, directory, reason: "link" })
    else (changing.has(skillId) ? outgrown : unwanted).push({ skillId, directory })
  }

  const isDisturbed = present.names.has(DirectoryLock.fileName) || [...present.names].some(Staging.isLeftover)
  const plan: Plan = { record: present.record, recorded, kept, changes, unwanted, outgrown, failures, isDisturbed }
  return plan
})
