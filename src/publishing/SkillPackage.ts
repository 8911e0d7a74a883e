/**
 * Stored skill archives: their digest, their key in a store, reading them back and extracting them.
 *
 * @module
 */
import { Effect, Either, Schema, Stream } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import * as ZipReader from "../archive/ZipReader.js"
import { limits } from "./Upload.js"
import * as UploadPath from "./UploadPath.js"

/** The header of a download that carries the archive's digest (contract, Digests, keys, headers). */
export const digestHeader = "x-skill-archive-sha256"

/** Whether `bytes` begin with a ZIP local header. */
export const isZip = (bytes: Uint8Array): boolean =>
  bytes[0] === 0x50 && bytes[1] === 0x4b && bytes[2] === 0x03 && bytes[3] === 0x04

/** The digest that is recorded of an archive: lower-case hex SHA-256 of the stored bytes. */
export const digest: (archive: Uint8Array) => Effect.Effect<string> = Digest.sha256Hex

/** The key of a version's archive in an object store. */
export const blobKey = (skillId: string, version: string): string => `skills/${skillId}/${version}.zip`

/** The stored object is longer than an archive may be. */
export class ArchiveTooLarge extends Schema.TaggedError<ArchiveTooLarge>()("ARCHIVE_TOO_LARGE", {
  /** In bytes. */
  limit: Schema.Number
}) {
  override get message(): string {
    return `The archive is longer than ${this.limit} bytes.`
  }
}

/** The bytes are not those whose digest was recorded. */
export class DigestMismatch extends Schema.TaggedError<DigestMismatch>()("DIGEST_MISMATCH", {
  /** The digest of the bytes that were read, lower-case hex. */
  actual: Schema.String
}) {
  override get message(): string {
    return `The archive does not match its recorded digest: its SHA-256 is ${this.actual}.`
  }
}

/** The archive broke a rule of the extraction. `entry` is the member's escaped name. */
export class InvalidArchive extends Schema.TaggedError<InvalidArchive>()("INVALID_ARCHIVE", {
  check: ZipReader.ZipCheck,
  entry: Schema.optionalWith(Schema.String, { exact: true })
}) {
  override get message(): string {
    return `The archive cannot be extracted: ${this.check}${this.entry === undefined ? "" : ` at "${this.entry}"`}.`
  }
}

/** An archive as it was read. */
export interface ReadArchive {
  readonly bytes: Uint8Array
  /** Whether a digest was recorded, which then was that of the bytes. */
  readonly verified: boolean
}

/**
 * Reads an archive from a store and holds it against the digest that was recorded of it, which is compared
 * case-insensitively. An empty digest means that none was recorded: then the bytes come as not `verified`, for the caller to
 * say so.
 *
 * No more than the bound is ever held, and nothing is sized by what the store says of its length (contract, Digests, keys,
 * headers). Past the bound the stream is closed and `ARCHIVE_TOO_LARGE` is the error; other bytes than those recorded are
 * `DIGEST_MISMATCH`.
 *
 * @example
 * ```ts
 * import { Effect, Stream } from "effect"
 * import * as SkillPackage from "./SkillPackage.js"
 *
 * const program = SkillPackage.readArchive(Stream.make(Uint8Array.of(1, 2), Uint8Array.of(3)), "").pipe(
 *   Effect.map(({ bytes, verified }) => [bytes.length, verified])
 * )
 * Effect.runPromise(program).then(console.log) // [3, false]
 * ```
 */
export const readArchive: <E, R>(
  stream: Stream.Stream<Uint8Array, E, R>,
  expectedSha256: string
) => Effect.Effect<ReadArchive, E | ArchiveTooLarge | DigestMismatch, R> = Effect.fn("SkillPackage.readArchive")(
  function* (stream, expectedSha256) {
    // One buffer that grows with what has come: a list of chunks could be sixty million of one byte each.
    let buffer = new Uint8Array(firstBuffer)
    let length = 0
    yield* Stream.runForEach(stream, (chunk) =>
      Effect.suspend(() => {
        const end = length + chunk.length
        if (end > limits.archiveBytes) return new ArchiveTooLarge({ limit: limits.archiveBytes })
        if (end > buffer.length) {
          const grown = new Uint8Array(Math.min(Math.max(2 * buffer.length, end), limits.archiveBytes))
          grown.set(buffer.subarray(0, length))
          buffer = grown
        }
        buffer.set(chunk, length)
        length = end
        return Effect.void
      })
    )
    yield* Effect.annotateCurrentSpan("archive.bytes", length)
    // No copy, which would be as much again: past its first length the buffer is no more than twice as long as they are.
    const bytes = buffer.subarray(0, length)
    if (expectedSha256 === "") return { bytes, verified: false }
    const actual = yield* digest(bytes)
    if (actual !== expectedSha256.toLowerCase()) return yield* new DigestMismatch({ actual })
    return { bytes, verified: true }
  }
)

const firstBuffer = 64 * 1024

/** One file of an extracted archive. */
export interface ExtractedFile {
  readonly path: string
  readonly bytes: Uint8Array
}

/** A member that was not taken. */
export interface SkippedMember {
  /** Escaped, to be shown. */
  readonly path: string
  readonly reason: "link" | "special-file"
}

export interface Extracted {
  readonly files: ReadonlyArray<ExtractedFile>
  readonly skipped: ReadonlyArray<SkippedMember>
}

/** What an extraction may cost. */
export interface ExtractLimits {
  /** Members of the archive, directories and skipped ones included. */
  readonly members: number
  /** Decoded bytes of all files together. */
  readonly bytes: number
}

/** The bounds of the contract. */
export const extractLimits: ExtractLimits = { members: limits.members, bytes: limits.extractBytes }

/**
 * The files of a stored archive, without the top-level directory where all members share one and at least one lies in it;
 * flat archives and those with several roots come as they are (contract, Extraction).
 *
 * One hostile name refuses the whole archive: a path that could leave the directory it is joined to, on any system, one that
 * is there twice, or a file with the path of a directory. Below the directory that is stripped a file may be called `a:b`, as
 * in an upload: join paths, and never resolve them, where that could be a drive. Links, FIFOs and devices are never taken: they are listed in
 * `skipped`. The bound holds on the bytes that are produced: declared sizes are only ever a reason to refuse sooner. An
 * archive of more than an upload may have is decoded twice, the first time for its verdict alone: refusing one takes little
 * memory, whatever it decodes to.
 *
 * The files of stored members are views into `archive`.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as SkillPackage from "./SkillPackage.js"
 *
 * const paths = (archive: Uint8Array) =>
 *   SkillPackage.extract(archive).pipe(
 *     Effect.map(({ files }) => files.map((file) => file.path)),
 *     Effect.catchTag("INVALID_ARCHIVE", (error) => Effect.succeed([`refused: ${error.check}`]))
 *   )
 * ```
 */
export const extract: (archive: Uint8Array, limits?: ExtractLimits) => Effect.Effect<Extracted, InvalidArchive> =
  Effect.fn("SkillPackage.extract")(function* (archive, { bytes, members } = extractLimits) {
    const read = yield* Effect.mapError(
      ZipReader.readMembers(archive, { archiveBytes: limits.archiveBytes, entries: members }),
      fromZipError
    )
    const located = read.members.map((member): Located => ({ ...member, path: withoutSlash(member.path) }))
    const root = sharedRoot(located)
    const stripped = located.map((member): Located => ({ ...member, path: member.path.slice(root.length) }))
    for (const member of located) yield* checkName(member)
    for (const { member, type } of UploadPath.conflicts(located)) {
      return yield* invalid(type === "duplicate" ? "duplicate-entry" : type, member.path)
    }

    const wanted = stripped.filter(({ kind }) => kind === "file")
    let declared = 0
    for (const { path, size } of wanted) {
      declared += size
      if (declared > bytes) return yield* invalid("decoded-size", path)
    }
    if (declared > limits.totalBytes) {
      yield* Effect.mapError(ZipReader.checkEach(wanted), fromZipError)
    }
    const files: Array<ExtractedFile> = []
    // No member gives more than it declares, so that what is produced is within the bound too.
    yield* ZipReader.decodeEach(wanted, ({ path }, decoded) =>
      Either.match(decoded, {
        onLeft: ({ check }) => invalid(check, path),
        onRight: (content) => Effect.sync(() => void files.push({ path, bytes: content }))
      })
    )
    const skipped = stripped.flatMap(({ kind, path }): ReadonlyArray<SkippedMember> => {
      if (kind === "file" || kind === "directory") return []
      return [{ path: ArchivePath.display(path), reason: kind === "link" ? "link" : "special-file" }]
    })
    yield* Effect.annotateCurrentSpan({ "archive.files": files.length, "archive.skipped": skipped.length })
    return { files, skipped }
  })

type Located = ZipReader.ZipMember

const fromZipError = ({ check, entry }: ZipReader.ZipError) =>
  new InvalidArchive(entry === undefined ? { check } : { check, entry })

const invalid = (check: ZipReader.ZipCheck, path: string) =>
  new InvalidArchive({ check, entry: ArchivePath.display(path) })

const withoutSlash = (path: string) => (path.endsWith("/") ? path.slice(0, -1) : path)

/** The one top-level directory with its `/`, or nothing. */
const sharedRoot = (members: ReadonlyArray<Located>): string => {
  const root = `${members[0]?.path.split("/", 1)[0]}/`
  const isShared = members.every(({ path }) => `${path}/`.startsWith(root))
  return isShared && members.some(({ path }) => path.includes("/")) ? root : ""
}

const checkName = ({ isUtf8, path }: Located): Either.Either<void, InvalidArchive> => {
  if (!isUtf8) return Either.left(invalid("entry-name", path))
  return ArchivePath.isRelative(path) && !ArchivePath.hasDrive(path)
    ? Either.void
    : Either.left(invalid("entry-path", path))
}
