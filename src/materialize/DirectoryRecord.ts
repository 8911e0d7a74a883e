/**
 * What a skills directory says of itself: the marker, and beside it the claims.
 *
 * The marker names versions by id, in the reference's form, which has no place for directories. So the directories that an
 * id does not give by itself, and those that a pass is about to write, are claimed in a second file: it is written before
 * the first tree is swapped, and gone again when the marker says everything. It lets the pass after a crash tell its own
 * directories from those of others.
 *
 * @module
 */
import { Effect, Option, Schema } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as BoundedJson from "../archive/BoundedJson.js"
import type { ConfinedFiles } from "./ConfinedFiles.js"
import * as Marker from "./Marker.js"
import { MaterializeError } from "./MaterializeError.js"
import * as MaterialSkill from "./MaterialSkill.js"
import * as TargetDirectory from "./TargetDirectory.js"

/** A directory that this module wrote, or is about to write, for a skill. */
export interface Claim {
  readonly skillId: string
  readonly directory: string
}

export interface DirectoryRecord {
  /** Versions by id, of a marker of the current generation. */
  readonly versions: ReadonlyMap<string, string>
  readonly claims: ReadonlyArray<Claim>
  /** The ids that a marker of whatever generation names. */
  readonly namedIds: ReadonlySet<string>
  /** Whether there is a file in the marker's place that is none of any generation: what it named nobody knows. */
  readonly isLost: boolean
  /** The two files as they are. */
  readonly marker: Option.Option<Uint8Array>
  readonly claimsFile: Option.Option<Uint8Array>
}

export const claimsFileName = `${TargetDirectory.reservedPrefix}.claims`

/** Far more than the marker of all skills that a delivery can have. */
const maximumBytes = 16 * 1024 * 1024

const Claims = Schema.Struct({
  v: Schema.Literal(1),
  claims: Schema.Array(
    Schema.Struct({
      skillId: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("skill_id")),
      directory: Schema.String.pipe(Schema.filter(TargetDirectory.isUsable))
    })
  )
})

export const encodeClaims = (claims: Iterable<Claim>): Uint8Array => {
  const sorted = [...claims].sort(
    (left, right) =>
      ArchivePath.compare(left.skillId, right.skillId) || ArchivePath.compare(left.directory, right.directory)
  )
  return new TextEncoder().encode(JSON.stringify(Schema.encodeSync(Claims)({ v: 1, claims: sorted })))
}

const decodeClaims = (bytes: Uint8Array) =>
  Effect.map(Effect.option(BoundedJson.parse(bytes)), (json) =>
    Option.match(Option.flatMap(json, Schema.decodeUnknownOption(Claims)), {
      onNone: (): ReadonlyArray<Claim> => [],
      onSome: ({ claims }) => claims
    })
  )

/** A link in the place of one of the two is refused. */
const readFile = Effect.fnUntraced(function* (files: ConfinedFiles, name: string) {
  switch (yield* files.kind([name])) {
    case "absent":
      return Option.none<Uint8Array>()
    case "file":
      return yield* files.read([name], maximumBytes)
    case "link":
      return yield* new MaterializeError({ path: name, reason: "link" })
    default:
      return yield* new MaterializeError({ path: name, reason: "type" })
  }
})

export const read = Effect.fnUntraced(function* (files: ConfinedFiles) {
  const marker = yield* readFile(files, Marker.fileName)
  const claimsFile = yield* readFile(files, claimsFileName)
  const bytes = Option.getOrElse(marker, () => new Uint8Array(0))
  const entries = Option.getOrElse(yield* Marker.parse(bytes), (): ReadonlyArray<Marker.MarkerEntry> => [])
  const namedIds = yield* Marker.namedIds(bytes)
  const record: DirectoryRecord = {
    versions: new Map(entries.map(({ skillId, version }) => [skillId, version])),
    claims: yield* decodeClaims(Option.getOrElse(claimsFile, () => new Uint8Array(0))),
    namedIds: Option.getOrElse(namedIds, () => new Set<string>()),
    isLost: Option.isSome(marker) && Option.isNone(namedIds),
    marker,
    claimsFile
  }
  return record
})

/** The directory that a delivered skill's id gives by itself. */
export const impliedDirectory = (skillId: string): Option.Option<string> =>
  TargetDirectory.targetDirectory(MaterialSkill.bareName(skillId), skillId)

/** Every directory that the record names, with its skill: claimed, else the one that the marker's id implies. */
export const directories = ({ claims, versions }: DirectoryRecord): ReadonlyArray<Claim> => {
  const claimed = new Set(claims.map((claim) => claim.skillId))
  const implied = [...versions.keys()].flatMap((skillId) =>
    claimed.has(skillId)
      ? []
      : Option.match(impliedDirectory(skillId), { onNone: () => [], onSome: (directory) => [{ skillId, directory }] })
  )
  return [...claims, ...implied]
}

/** Whether the marker says all that these claims say. */
export const areImplied = (claims: Iterable<Claim>, versions: ReadonlyMap<string, string>): boolean =>
  [...claims].every(
    ({ directory, skillId }) => versions.has(skillId) && Option.contains(impliedDirectory(skillId), directory)
  )
