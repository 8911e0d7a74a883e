/**
 * The value that an agent sees, and the verification that makes one of a registry's answer.
 *
 * @module
 */

import { Effect, Option } from "effect"
import { sliceBytes, yieldToEventLoop } from "#codec"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import * as Pace from "../archive/Pace.js"
import * as Utf8 from "../archive/Utf8.js"
import * as ZipReader from "../archive/ZipReader.js"
import { InvalidSnapshot, type SnapshotCheck, type UnsupportedServer } from "./DeliveryError.js"
import * as Manifest from "./Manifest.js"

/** One file of a verified skill. Its bytes cannot be changed from outside. */
export interface SkillFile {
  readonly path: string
  /** In bytes. */
  readonly size: number
  /** Lower-case hex. */
  readonly sha256: string
  /** Whether the bytes are strict UTF-8. */
  readonly isText: boolean
  /** The text, every character kept, decoded at each read; none for a binary file. */
  readonly text: Option.Option<string>
  /** A fresh copy of the bytes. */
  readonly bytes: Uint8Array
}

export interface Skill {
  readonly name: string
  readonly description: string
  /** In UTF-8 byte order of their paths. */
  readonly files: ReadonlyArray<SkillFile>
}

/** The immutable value that an agent sees. */
export interface VerifiedSnapshot {
  readonly revision: string
  readonly etag: string
  /** In UTF-8 byte order of their names; combined: by container in the order given, then name. */
  readonly skills: ReadonlyArray<Skill>
}

/** What a registry answered: one revision's archive with its metadata. */
export interface SnapshotResponse {
  readonly revision: string
  readonly etag: string
  readonly contentType: string
  readonly archive: Uint8Array
}

/** Bounds of the contract (Archive): bytes of the archive, decoded bytes of all entries, and entries, directories included. */
export const limits = {
  archiveBytes: 32 * 1024 * 1024,
  decodedBytes: 32 * 1024 * 1024,
  entries: 1000
} as const satisfies ZipReader.ZipLimits

/** What a file costs beside its bytes, in bytes hashed: a thousand empty files are work too. */
const fileCost = 4 * 1024

// A leading BOM is part of the text (contract, Archive).
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true })

/** Bytes in a private field, accessors on a frozen prototype: nothing that holds the file can change what it gives. */
class VerifiedFile implements SkillFile {
  static {
    Object.freeze(VerifiedFile.prototype)
  }

  readonly path: string
  readonly size: number
  readonly sha256: string
  readonly isText: boolean
  readonly #bytes: Uint8Array

  constructor(path: string, sha256: string, isText: boolean, bytes: Uint8Array) {
    this.path = path
    this.size = bytes.length
    this.sha256 = sha256
    this.isText = isText
    this.#bytes = bytes
    Object.freeze(this)
  }

  get text(): Option.Option<string> {
    return this.isText ? Option.some(utf8.decode(this.#bytes)) : Option.none()
  }

  get bytes(): Uint8Array {
    return new Uint8Array(this.#bytes)
  }
}

const makeSkill = (name: string, description: string, files: ReadonlyArray<SkillFile>): Skill =>
  Object.freeze({ name, description, files: Object.freeze(files) })

const makeSnapshot = (revision: string, etag: string, skills: ReadonlyArray<Skill>): VerifiedSnapshot =>
  Object.freeze({ revision, etag, skills: Object.freeze(skills) })

const invalid = (check: SnapshotCheck, entry?: string) =>
  new InvalidSnapshot(entry === undefined ? { check } : { check, entry: ArchivePath.display(entry) })

const fromZipError = ({ check, entry }: ZipReader.ZipError) =>
  new InvalidSnapshot(entry === undefined ? { check } : { check, entry })

/** @internal */
export const mediaType = (contentType: string) => contentType.split(";", 1)[0]?.trim().toLowerCase()

const isEtag = (etag: string) => Digest.etagPattern.test(etag)

type Located = ReadonlyArray<{
  readonly skill: Manifest.ManifestSkill
  readonly files: ReadonlyArray<{
    readonly path: string
    readonly expected: Manifest.ManifestFile
    readonly bytes: Uint8Array
  }>
}>

/** The regular files of the archive are the manifest and what it lists, no more and no less (contract, Archive). */
const locate = Effect.fnUntraced(function* (
  manifest: Manifest.Manifest,
  members: ReadonlyMap<string, ZipReader.ZipEntry>
): Effect.fn.Return<Located, InvalidSnapshot> {
  const unlisted = new Map(members)
  unlisted.delete(Manifest.path)
  const located = []
  const pace = Pace.make()
  for (const skill of manifest.skills) {
    const files = []
    for (const expected of skill.files) {
      const path = Manifest.memberPath(skill, expected)
      const key = ArchivePath.key(path)
      const member = members.get(key)
      if (member === undefined) return yield* invalid("file-missing", path)
      unlisted.delete(key)
      files.push({ path, expected, bytes: member.bytes })
      // Names can be long.
      if (pace(path.length)) yield* yieldToEventLoop
    }
    located.push({ skill, files })
  }
  for (const { path } of unlisted.values()) return yield* invalid("file-unlisted", path)
  return located
})

/** Nobody else holds `archive`. */
const verifyOwned = Effect.fnUntraced(function* (
  archive: Uint8Array,
  expected: { readonly revision?: string | undefined; readonly etag?: string | undefined }
) {
  const etag = yield* Digest.etag(archive)
  if (expected.etag !== undefined && expected.etag !== etag) return yield* invalid("etag-mismatch")

  const entries = yield* Effect.mapError(ZipReader.read(archive, limits), fromZipError)
  const members = new Map<string, ZipReader.ZipEntry>()
  const pace = Pace.make()
  for (const entry of entries) {
    if (!entry.isDirectory) members.set(ArchivePath.key(entry.path), entry)
    if (pace(entry.path.length)) yield* yieldToEventLoop
  }

  const manifestBytes = members.get(Manifest.path)?.bytes
  if (manifestBytes === undefined) return yield* invalid("manifest-missing")
  const manifest = yield* Manifest.decode(manifestBytes, expected)
  const located = yield* locate(manifest, members)

  const skills: Array<Skill> = []
  for (const { skill, files } of located) {
    const verified: Array<SkillFile> = []
    let entryPoint: SkillFile | undefined
    for (const { bytes, expected, path } of files) {
      if (bytes.length !== expected.size) return yield* invalid("file-size", path)
      // Most files are small: done at once they need no effect each.
      const isSmall = bytes.length <= sliceBytes
      const sha256 = isSmall ? Digest.sha256HexSync(bytes) : yield* Digest.sha256Hex(bytes)
      if (sha256 !== expected.sha256) return yield* invalid("file-digest", path)
      const isText = isSmall ? Utf8.isValidSync(bytes) : yield* Utf8.isValid(bytes)
      const file = new VerifiedFile(expected.path, sha256, isText, bytes)
      if (file.path === Manifest.skillPath) entryPoint = file
      verified.push(file)

      if (pace(fileCost + bytes.length)) yield* yieldToEventLoop
    }
    const skillPath = `${skill.name}/${Manifest.skillPath}`
    if (entryPoint === undefined) return yield* invalid("skill-md-missing", skillPath)
    if (!entryPoint.isText) return yield* invalid("skill-md-encoding", skillPath)
    skills.push(makeSkill(skill.name, skill.description, verified))
  }

  yield* Effect.annotateCurrentSpan({
    "snapshot.entries": entries.length,
    "snapshot.skills": skills.length
  })
  return makeSnapshot(manifest.revision, etag, skills)
})

/**
 * Verifies a registry's answer whole and gives the immutable value made of it (contract, Archive).
 *
 * The answer's buffer is copied before the first rule is checked that reads it, so whatever its owner does to it later
 * changes nothing. With `transfer` it is taken over instead, which spares the copy: its owner is left with an empty
 * array. Long work is done in slices between which the event loop runs its other work and an interruption takes
 * effect; nothing remains of an interrupted verification. The snapshot keeps each file's bytes once and decodes text when it
 * is read.
 *
 * Fails with `INVALID_SNAPSHOT`, which names the rule that was broken and the entry at which it was, or with
 * `UNSUPPORTED_SERVER` when the manifest has another schema version.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Snapshot } from "effect-agent-contracts/delivery"
 *
 * const names = (response: Snapshot.SnapshotResponse) =>
 *   Snapshot.verify(response).pipe(
 *     Effect.map((snapshot) => snapshot.skills.map((skill) => skill.name)),
 *     Effect.catchTag("INVALID_SNAPSHOT", (error) => Effect.succeed([`refused: ${error.check}`]))
 *   )
 * ```
 */
export const verify = (
  response: SnapshotResponse,
  options?: { readonly transfer?: boolean }
): Effect.Effect<VerifiedSnapshot, InvalidSnapshot | UnsupportedServer> =>
  Effect.map(verifyKeeping(response, options), ({ snapshot }) => snapshot)

/**
 * The same for a cache, which keeps the archive: the very bytes that were verified, and that the snapshot may be views into,
 * so whoever has them must neither change them nor hand them on.
 *
 * @internal
 */
export const verifyKeeping: (
  response: SnapshotResponse,
  options?: { readonly transfer?: boolean }
) => Effect.Effect<
  { readonly snapshot: VerifiedSnapshot; readonly archive: Uint8Array },
  InvalidSnapshot | UnsupportedServer
> = Effect.fn("Snapshot.verify")(function* (response, { transfer = false } = {}) {
  const { archive, contentType, etag, revision } = response
  yield* Effect.annotateCurrentSpan("snapshot.archive_bytes", archive.length)
  if (archive.length > limits.archiveBytes) return yield* invalid("archive-size")
  if (mediaType(contentType) !== "application/zip") return yield* invalid("content-type")
  if (!isEtag(etag)) return yield* invalid("etag-format")
  const owned = transfer ? takeOver(archive) : new Uint8Array(archive)
  return { snapshot: yield* verifyOwned(owned, { revision, etag }), archive: owned }
})

/**
 * The same bytes with no other owner. A part of a larger buffer has to be copied: the rest of it may be anybody's, as with
 * the pool of Node's small buffers.
 */
const takeOver = (archive: Uint8Array): Uint8Array =>
  archive.buffer instanceof ArrayBuffer && archive.buffer.byteLength === archive.byteLength
    ? new Uint8Array(structuredClone(archive.buffer, { transfer: [archive.buffer] }))
    : new Uint8Array(archive)

/**
 * The same for an archive at hand, a file say: what is not expected is taken from the archive itself.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Snapshot } from "effect-agent-contracts/delivery"
 *
 * const revisionOf = (archive: Uint8Array) =>
 *   Effect.map(Snapshot.verifyArchive(archive), (snapshot) => snapshot.revision)
 * ```
 */
export const verifyArchive: (
  archive: Uint8Array,
  expected?: { readonly revision?: string; readonly etag?: string }
) => Effect.Effect<VerifiedSnapshot, InvalidSnapshot | UnsupportedServer> = Effect.fn("Snapshot.verifyArchive")(
  function* (archive, { etag, revision } = {}) {
    yield* Effect.annotateCurrentSpan("snapshot.archive_bytes", archive.length)
    if (archive.length > limits.archiveBytes) return yield* invalid("archive-size")
    if (etag !== undefined && !isEtag(etag)) return yield* invalid("etag-format")
    return yield* verifyOwned(new Uint8Array(archive), { revision, etag })
  }
)

/** One container's part of a list. */
export interface SnapshotPart {
  readonly containerId: string
  readonly snapshot: VerifiedSnapshot
}

/**
 * The combined snapshot of a list of containers, in the order given (contract, Lifecycle 12): every skill is named
 * `<percent-encoded container id>/<name>`, and the identity is the digest of the parts' identities.
 *
 * @example
 * ```ts
 * import { Snapshot } from "effect-agent-contracts/delivery"
 *
 * const snapshot: Snapshot.VerifiedSnapshot = { revision: "r1", etag: `"${"0".repeat(64)}"`, skills: [] }
 * console.log(Snapshot.combine([{ containerId: "team/a", snapshot }]).revision.startsWith("multi:")) // true
 * ```
 */
export const combine = (parts: ReadonlyArray<SnapshotPart>): VerifiedSnapshot => {
  const identity = parts.map(({ containerId, snapshot }) => [containerId, snapshot.revision, snapshot.etag])
  const digest = Digest.sha256HexSync(new TextEncoder().encode(JSON.stringify(identity)))
  const skills = parts.flatMap(({ containerId, snapshot }) =>
    snapshot.skills.map(({ description, files, name }) =>
      makeSkill(`${encodeURIComponent(containerId)}/${name}`, description, files)
    )
  )
  return makeSnapshot(`multi:${digest}`, `"${digest}"`, skills)
}
