/**
 * `manifest.json`: what a snapshot says of itself. Its schema, and the rules it must keep before a single file is looked
 * at.
 *
 * @module
 */

import { Either, ParseResult, Predicate, Schema } from "effect"
import { isUtf8 } from "#codec"
import * as ArchivePath from "../archive/ArchivePath.js"
import { InvalidSnapshot, type SnapshotCheck, UnsupportedServer } from "./DeliveryError.js"

/** The path of the manifest in the archive. */
export const path = "manifest.json"

/** The path that every skill has at its root. */
export const skillPath = "SKILL.md"

/** Opaque, but never blank (contract, Words). */
export const Revision = Schema.String.pipe(
  Schema.filter((revision) => revision.trim() !== "", { identifier: "Revision" })
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

const decodeShape = Schema.decodeUnknownEither(Manifest)
const utf8 = new TextDecoder()

const invalid = (check: SnapshotCheck, entry: string) =>
  Either.left(new InvalidSnapshot({ check, entry: ArchivePath.display(entry) }))

const startsWithBom = (bytes: Uint8Array) => bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf

const parseObject = (bytes: Uint8Array): Either.Either<{ readonly schemaVersion?: unknown }, InvalidSnapshot> => {
  if (startsWithBom(bytes) || !isUtf8(bytes)) return invalid("manifest-encoding", path)
  return Either.try({
    // The parser's own message quotes the text, so it is dropped.
    try: (): unknown => JSON.parse(utf8.decode(bytes)),
    catch: () => new InvalidSnapshot({ check: "manifest-json", entry: path })
  }).pipe(Either.filterOrLeft(Predicate.isRecord, () => new InvalidSnapshot({ check: "manifest-json", entry: path })))
}

/** A newer contract may change anything but this member, so nothing else is looked at before it (contract, Archive). */
const checkVersion = ({
  schemaVersion
}: {
  readonly schemaVersion?: unknown
}): Either.Either<void, UnsupportedServer> => {
  if (typeof schemaVersion !== "number" || schemaVersion === 1) return Either.void
  // JSON can say 1e999, which the error's own JSON could not.
  return Either.left(new UnsupportedServer(Number.isFinite(schemaVersion) ? { schemaVersion } : {}))
}

/** `skills[3].files[0].size`; made of the schema's own member names, so it is safe to show. */
const location = (steps: ReadonlyArray<PropertyKey>) =>
  steps.reduce<string>(
    (at, step) => (typeof step === "number" ? `${at}[${step}]` : at === "" ? String(step) : `${at}.${String(step)}`),
    ""
  )

const checkShape = (json: unknown): Either.Either<Manifest, InvalidSnapshot> =>
  Either.mapLeft(decodeShape(json), (error) => {
    const at = location(ParseResult.ArrayFormatter.formatErrorSync(error)[0]?.path ?? [])
    return new InvalidSnapshot({ check: "manifest-shape", entry: at === "" ? path : `${path}: ${at}` })
  })

/** Names and paths are safe and in strictly ascending order, so none is there twice (contract, Archive). */
const checkNames = (manifest: Manifest): Either.Either<void, InvalidSnapshot> => {
  let previousName: string | undefined
  for (const skill of manifest.skills) {
    if (!ArchivePath.isSafeComponent(skill.name)) return invalid("skill-name", skill.name)
    if (previousName !== undefined && ArchivePath.compare(previousName, skill.name) >= 0) {
      return invalid("skill-order", skill.name)
    }
    previousName = skill.name
    let previousPath: string | undefined
    for (const file of skill.files) {
      if (!ArchivePath.isSafe(file.path)) return invalid("file-path", memberPath(skill, file))
      if (previousPath !== undefined && ArchivePath.compare(previousPath, file.path) >= 0) {
        return invalid("file-order", memberPath(skill, file))
      }
      previousPath = file.path
    }
  }
  return Either.void
}

/**
 * Decodes the bytes of `manifest.json` and holds them against every rule that needs no other file: encoding, JSON, schema
 * version, shape, revision, names, paths and their order (contract, Archive).
 *
 * Without an expected `revision` the manifest's own is taken.
 *
 * @example
 * ```ts
 * import { Either } from "effect"
 * import { Manifest } from "effect-agent-contracts/delivery"
 *
 * const bytes = new TextEncoder().encode(`{"schemaVersion":1,"revision":"r1","skills":[]}`)
 * console.log(Either.isRight(Manifest.decode(bytes, { revision: "r1" }))) // true
 * ```
 */
export const decode = (
  bytes: Uint8Array,
  expected: { readonly revision?: string | undefined } = {}
): Either.Either<Manifest, InvalidSnapshot | UnsupportedServer> =>
  Either.gen(function* () {
    const json = yield* parseObject(bytes)
    yield* checkVersion(json)
    const manifest = yield* checkShape(json)
    if (expected.revision !== undefined && manifest.revision !== expected.revision) {
      return yield* invalid("manifest-revision", path)
    }
    yield* checkNames(manifest)
    return manifest
  })
