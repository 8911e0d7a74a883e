/**
 * `manifest.json`: what a snapshot says of itself. Its schema, and the rules it must keep before a single file is looked
 * at.
 *
 * @module
 */

import { Array, Effect, Either, type ParseResult, Predicate, Schema } from "effect"
import { sliceBytes, yieldToEventLoop } from "#codec"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as BoundedJson from "../archive/BoundedJson.js"
import * as Pace from "../archive/Pace.js"
import * as Utf8 from "../archive/Utf8.js"
import { InvalidSnapshot, type SnapshotCheck, UnsupportedServer } from "./DeliveryError.js"

/** The path of the manifest in the archive. */
export const path = "manifest.json"

/** The path that every skill has at its root. */
export const skillPath = "SKILL.md"

/** What is wrong with a revision that is none; quotes nothing of it. */
export const revisionProblem = "must not be blank, and must be well-formed Unicode"

/**
 * Opaque, but never blank (contract, Words). Lone surrogates could not be sent back as a pin: a query or a JSON body in UTF-8
 * would say another revision.
 */
export const Revision = Schema.String.pipe(
  Schema.filter((revision) => revision.trim() !== "" && !/\p{Surrogate}/u.test(revision), {
    message: () => revisionProblem
  })
)

/** One file of a skill: its path inside the skill, the number of its decoded bytes and their SHA-256. */
export const ManifestFile = Schema.Struct({
  path: Schema.String,
  size: Schema.Number.pipe(Schema.filter((size) => Number.isSafeInteger(size) && size >= 0)),
  sha256: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/))
})
export type ManifestFile = typeof ManifestFile.Type

export const ManifestSkill = Schema.Struct({
  name: Schema.String,
  description: Schema.String,
  files: Schema.Array(ManifestFile)
})
export type ManifestSkill = typeof ManifestSkill.Type

/** The whole manifest. Unknown members are ignored at every level: additions to the contract stay readable. */
export const Manifest = Schema.Struct({
  schemaVersion: Schema.Literal(1),
  revision: Revision,
  skills: Schema.Array(ManifestSkill)
})
export type Manifest = typeof Manifest.Type

/** Where in the archive a file of a skill lies. */
export const memberPath = (skill: ManifestSkill, file: ManifestFile): string => `${skill.name}/${file.path}`

/** The files of a container, and so its skills too: an archive has 1,000 entries, one of them the manifest (contract, Archive). */
const maximumFiles = 999

/** The members of the manifest's object. */
type Json = Readonly<Record<PropertyKey, unknown>>

const decodeShape = Schema.decodeUnknownEither(Manifest)

const invalid = (check: SnapshotCheck, entry: string) =>
  new InvalidSnapshot({ check, entry: ArchivePath.display(entry) })

const startsWithBom = (bytes: Uint8Array) => bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf

const parseObject = Effect.fnUntraced(function* (bytes: Uint8Array) {
  if (startsWithBom(bytes) || !(yield* Utf8.isValid(bytes))) return yield* invalid("manifest-encoding", path)
  const json = yield* Effect.mapError(BoundedJson.parse(bytes), ({ reason }) =>
    invalid(reason === "syntax" ? "manifest-json" : "manifest-shape", path)
  )
  return Predicate.isRecord(json) ? json : yield* invalid("manifest-json", path)
})

/** A newer contract may change anything but this member, so nothing else is looked at before it (contract, Archive). */
const checkVersion = ({ schemaVersion }: Json): Either.Either<void, UnsupportedServer> => {
  if (typeof schemaVersion !== "number" || schemaVersion === 1) return Either.void
  // JSON can say 1e999, which the error's own JSON could not.
  return Either.left(new UnsupportedServer(Number.isFinite(schemaVersion) ? { schemaVersion } : {}))
}

/** Counted before the schema looks at them, which takes longer for each than parsing it did. */
const checkCounts = ({ skills }: Json): Either.Either<void, InvalidSnapshot> => {
  if (!Array.isArray(skills)) return Either.void
  let files = 0
  for (const skill of skills) {
    if (Predicate.hasProperty(skill, "files") && Array.isArray(skill.files)) files += skill.files.length
  }
  return skills.length > maximumFiles || files > maximumFiles
    ? Either.left(invalid("manifest-shape", `${path}: skills`))
    : Either.void
}

/** `skills[3].files[0].size`; made of the schema's own member names, so it is safe to show. */
const location = (steps: ReadonlyArray<PropertyKey>) =>
  steps.reduce<string>(
    (at, step) => (typeof step === "number" ? `${at}[${step}]` : at === "" ? String(step) : `${at}.${String(step)}`),
    ""
  )

/**
 * Where the first thing is that has the wrong shape. The formatters of `ParseResult` would print that thing too, by
 * recursion: a value that is nested deeply enough, which few bytes can be, would overflow the stack.
 */
const firstPath = (issue: ParseResult.ParseIssue): ReadonlyArray<PropertyKey> => {
  switch (issue._tag) {
    case "Pointer":
      return [...Array.ensure(issue.path), ...firstPath(issue.issue)]
    case "Composite":
      return Array.ensure(issue.issues).slice(0, 1).flatMap(firstPath)
    case "Refinement":
    case "Transformation":
      return firstPath(issue.issue)
    default:
      return []
  }
}

const checkShape = (json: Json): Either.Either<Manifest, InvalidSnapshot> =>
  Either.mapLeft(decodeShape(json), (error) => {
    const at = location(firstPath(error.issue))
    return new InvalidSnapshot({ check: "manifest-shape", entry: at === "" ? path : `${path}: ${at}` })
  })

/** No entry can have a longer name: ZIP gives its length, in bytes, in 16 bits. */
const maximumName = 0xffff

/** Checked between two turns of the event loop, in UTF-16 units: each takes several times as long as hashing a byte. */
const sliceUnits = sliceBytes / 4

/** Names and paths are safe and in strictly ascending order, so none is there twice (contract, Archive). */
const checkNames = Effect.fnUntraced(function* (manifest: Manifest) {
  const pace = Pace.make(sliceUnits)
  let previousName: string | undefined
  for (const skill of manifest.skills) {
    if (skill.name.length > maximumName || !ArchivePath.isSafeComponent(skill.name)) {
      return yield* invalid("skill-name", skill.name)
    }
    if (previousName !== undefined && ArchivePath.compare(previousName, skill.name) >= 0) {
      return yield* invalid("skill-order", skill.name)
    }
    previousName = skill.name
    if (pace(skill.name.length)) yield* yieldToEventLoop
    let previousPath: string | undefined
    for (const file of skill.files) {
      if (file.path.length > maximumName || !ArchivePath.isSafe(file.path)) {
        return yield* invalid("file-path", memberPath(skill, file))
      }
      if (previousPath !== undefined && ArchivePath.compare(previousPath, file.path) >= 0) {
        return yield* invalid("file-order", memberPath(skill, file))
      }
      previousPath = file.path
      if (pace(file.path.length)) yield* yieldToEventLoop
    }
  }
})

/**
 * Decodes the bytes of `manifest.json` and holds them against every rule that needs no other file: encoding, JSON, schema
 * version, shape, revision, names, paths and their order (contract, Archive). A text of more values than any manifest needs
 * is refused before it is parsed, with `manifest-shape`.
 *
 * Without an expected `revision` the manifest's own is taken. `bytes` must not change while this runs.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Manifest } from "effect-agent-contracts/delivery"
 *
 * const bytes = new TextEncoder().encode(`{"schemaVersion":1,"revision":"r1","skills":[]}`)
 * const program = Effect.map(Manifest.decode(bytes, { revision: "r1" }), (manifest) => manifest.skills.length)
 * Effect.runPromise(program).then(console.log) // 0
 * ```
 */
export const decode: (
  bytes: Uint8Array,
  expected?: { readonly revision?: string | undefined }
) => Effect.Effect<Manifest, InvalidSnapshot | UnsupportedServer> = Effect.fnUntraced(function* (bytes, expected = {}) {
  const json = yield* parseObject(bytes)
  yield* checkVersion(json)
  yield* checkCounts(json)
  const manifest = yield* checkShape(json)
  if (expected.revision !== undefined && manifest.revision !== expected.revision) {
    return yield* invalid("manifest-revision", path)
  }
  yield* checkNames(manifest)
  return manifest
})
