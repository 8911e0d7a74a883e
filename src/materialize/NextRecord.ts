/**
 * Marker and claims as a pass has to write them.
 *
 * Claims first, so that what lands is known as ours; then a marker without what is about to change, so that it never names
 * what is not there; at last the marker of what landed, and the claims that it does not imply.
 *
 * @module
 */
import { Effect, Option } from "effect"
import type { ConfinedFiles } from "./ConfinedFiles.js"
import * as DirectoryRecord from "./DirectoryRecord.js"
import * as Marker from "./Marker.js"
import type { Plan } from "./Plan.js"
import type { Target } from "./Target.js"

/** What the steps of a pass have done so far. */
export interface Done {
  readonly landed: ReadonlyArray<Target>
  readonly removed: ReadonlyArray<DirectoryRecord.Claim>
}

const nothing: Done = { landed: [], removed: [] }

export interface NextRecord {
  readonly versions: ReadonlyMap<string, string>
  readonly claims: ReadonlyArray<DirectoryRecord.Claim>
}

/**
 * The record once this is done. A skill that failed, and one that could not be removed, stay recorded as they were: what
 * lies there is still ours.
 */
export const after = (
  { kept, recorded }: Pick<Plan, "kept" | "recorded">,
  { landed, removed }: Done = nothing
): NextRecord => {
  const present = [...kept.filter(({ isOurs }) => isOurs), ...landed]
  const versions = new Map(present.map(({ skill }) => [skill.skillId, skill.version]))
  const claims = present.map(({ directory, skill }) => ({ skillId: skill.skillId, directory }))
  const taken = new Set(present.map(({ directory }) => directory))
  const gone = new Set(removed.map(({ directory }) => directory))
  for (const { directory, skillId, version, wantedAs } of recorded) {
    if (gone.has(directory) || (wantedAs !== undefined && taken.has(wantedAs))) continue
    if (version !== undefined && !versions.has(skillId)) versions.set(skillId, version)
    claims.push({ skillId, directory })
  }
  return { versions, claims }
}

/** The record while the plan's steps are done: claims of all that there is or will be, and a marker without what changes. */
export const during = (plan: Plan): NextRecord => {
  const intended = plan.changes.map(({ directory, skill }) => ({ skillId: skill.skillId, directory }))
  const all = [...after(plan).claims, ...intended]
  const unique = new Map(all.map((claim) => [JSON.stringify([claim.skillId, claim.directory]), claim]))
  const changing = new Set([...intended, ...plan.unwanted, ...plan.outgrown].map(({ directory }) => directory))
  const untouched = plan.recorded.filter(({ directory, wantedAs }) => !changing.has(wantedAs ?? directory))
  return { versions: after({ ...plan, recorded: untouched }).versions, claims: [...unique.values()] }
}

const markerOf = (versions: ReadonlyMap<string, string>) =>
  Marker.encode([...versions].map(([skillId, version]) => ({ skillId, version })))

const isSame = (file: Option.Option<Uint8Array>, bytes: Uint8Array) =>
  Option.exists(
    file,
    (present) => present.length === bytes.length && present.every((byte, index) => byte === bytes[index])
  )

/** Whether the directory's record says just this. */
export const isWritten = (record: DirectoryRecord.DirectoryRecord, { claims, versions }: NextRecord): boolean =>
  isSame(record.marker, markerOf(versions)) &&
  (DirectoryRecord.areImplied(claims, versions)
    ? Option.isNone(record.claimsFile)
    : isSame(record.claimsFile, DirectoryRecord.encodeClaims(claims)))

/** Before the first step. `isHeld` fails when the directory is another pass's by now. */
export const writeFirst = <E>(
  files: ConfinedFiles,
  isHeld: Effect.Effect<void, E>,
  record: DirectoryRecord.DirectoryRecord,
  { claims, versions }: NextRecord
) =>
  Effect.gen(function* () {
    yield* isHeld
    yield* files.replace(DirectoryRecord.claimsFileName, DirectoryRecord.encodeClaims(claims))
    const marker = markerOf(versions)
    yield* isHeld
    if (!isSame(record.marker, marker)) yield* files.replace(Marker.fileName, marker)
  })

/** After the last step. */
export const writeLast = <E>(files: ConfinedFiles, isHeld: Effect.Effect<void, E>, { claims, versions }: NextRecord) =>
  Effect.gen(function* () {
    yield* isHeld
    yield* files.replace(Marker.fileName, markerOf(versions))
    yield* isHeld
    if (!DirectoryRecord.areImplied(claims, versions)) {
      yield* files.replace(DirectoryRecord.claimsFileName, DirectoryRecord.encodeClaims(claims))
    } else if ((yield* files.kind([DirectoryRecord.claimsFileName])) !== "absent") {
      yield* files.removeFile([DirectoryRecord.claimsFileName])
    }
  })
