/**
 * Where the members of an upload come from: loose files, an archive, a directory. What they are is known before any of their
 * bytes is read, so that bounds hold and problems are found first.
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import { Effect, Either, Option } from "effect"
import { yieldToEventLoop } from "#codec"
import { crc32 } from "../archive/Crc32.js"
import * as Pace from "../archive/Pace.js"
import * as ZipReader from "../archive/ZipReader.js"
import { checkMeanings } from "../delivery/DeliveryError.js"
import * as DurableFile from "../files/DurableFile.js"
import * as SkillPackage from "./SkillPackage.js"
import { limits, type UploadedFile } from "./Upload.js"
import type { Member } from "./UploadPath.js"
import { problem, problemAt, type UploadProblem } from "./UploadProblem.js"

/** The members of an upload, and how to get at their bytes. */
export interface UploadSource<M extends Member, E, R> {
  readonly members: ReadonlyArray<M>
  /** Whether these are all members; not where there are more than the bound, which need not be listed. */
  readonly isWhole: boolean
  /** The archive that they came in. */
  readonly archive: SourceArchive | undefined
  /** The bytes of each of these files, or what is wrong with it. */
  readonly read: (
    files: ReadonlyArray<M>
  ) => Effect.Effect<ReadonlyArray<Either.Either<Uint8Array, UploadProblem>>, E, R>
}

export interface SourceArchive {
  readonly bytes: Uint8Array
  /** Whether other readers of archives see these members too, so that it can be kept as it is. */
  readonly isUnambiguous: boolean
}

/** The problem of an upload whose members are too many. */
export const tooManyMembers = problem("member-count", `the upload has more than ${limits.members} members`)

interface LooseMember extends Member {
  readonly bytes: Uint8Array
}

/** Files as they were uploaded. */
export const fromFiles = (files: ReadonlyArray<UploadedFile>): UploadSource<LooseMember, never, never> => ({
  members: files.map(({ bytes, path }) => ({ path, isUtf8: true, kind: "file", size: bytes.length, bytes })),
  isWhole: true,
  archive: undefined,
  read: (members) => Effect.succeed(members.map(({ bytes }) => Either.right(bytes)))
})

interface PackedMember extends Member {
  readonly entry: ZipReader.ZipMember
}

/** The members of an archive; the problem that keeps them from being listed where there is one. */
export const fromZip: (archive: Uint8Array) => Effect.Effect<UploadSource<PackedMember, never, never>, UploadProblem> =
  Effect.fnUntraced(function* (archive) {
    if (!SkillPackage.isZip(archive)) {
      return yield* Effect.fail(problem("archive-format", "the upload does not start as a ZIP archive does"))
    }
    const read = yield* ZipReader.readMembers(archive, {
      archiveBytes: limits.archiveBytes,
      entries: limits.members
    }).pipe(Effect.mapError(unreadable))
    const members = read.members.map(
      (entry): PackedMember => ({
        path: entry.kind === "directory" && entry.path.endsWith("/") ? entry.path.slice(0, -1) : entry.path,
        isUtf8: entry.isUtf8,
        kind: entry.kind === "special" ? "special-file" : entry.kind,
        size: entry.size,
        entry
      })
    )
    return {
      members,
      isWhole: true,
      archive: {
        // A plain view, whatever subclass came in.
        bytes: new Uint8Array(archive.buffer, archive.byteOffset, archive.byteLength),
        isUnambiguous: read.isUnambiguous
      },
      read: (files) => decode(files.map(({ entry }) => entry))
    }
  })

const unreadable = ({ check, entry }: ZipReader.ZipError): UploadProblem => {
  if (check === "entry-count") return tooManyMembers
  if (check === "archive-size") {
    return problem("archive-size", `the archive is longer than ${limits.archiveBytes} bytes`)
  }
  const message = `the ZIP archive cannot be read: ${checkMeanings[check]}`
  // The entry's name is escaped already.
  return entry === undefined ? problem("archive-format", message) : { rule: "archive-format", file: entry, message }
}

const decode = Effect.fnUntraced(function* (entries: ReadonlyArray<ZipReader.ZipMember>) {
  const contents: Array<Either.Either<Uint8Array, UploadProblem>> = []
  yield* ZipReader.decodeEach(entries, ({ crc, path }, decoded) =>
    Effect.gen(function* () {
      if (Either.isLeft(decoded)) {
        contents.push(Either.left(problemAt("archive-entry", path, checkMeanings[decoded.left.check])))
      } else if ((yield* sumUp(decoded.right)) === crc) {
        contents.push(Either.right(decoded.right))
      } else {
        // Other readers refuse it, so it must not be stored.
        contents.push(Either.left(problemAt("archive-entry", path, "the file is damaged: its CRC-32 does not match")))
      }
    })
  )
  return contents
})

/** The CRC-32, in slices between which the event loop runs its other work. */
const sumUp = Effect.fnUntraced(function* (bytes: Uint8Array) {
  const pace = Pace.make()
  let crc = 0
  for (let start = 0; start < bytes.length; start += summedBytes) {
    crc = crc32(bytes.subarray(start, start + summedBytes), crc)
    if (pace(summedBytes)) yield* yieldToEventLoop
  }
  return crc
})

const summedBytes = 256 * 1024

interface StoredMember extends Member {
  readonly location: string
}

/** How many files of a directory are read at a time. */
const readers = 8

/** What is below a directory, whose own name leads all paths. Links are listed, never followed. */
export const fromDirectory: (
  directory: string
) => Effect.Effect<UploadSource<StoredMember, PlatformError, never>, PlatformError, FileSystem.FileSystem | Path.Path> =
  Effect.fnUntraced(function* (directory) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = path.resolve(directory)
    const members: Array<StoredMember> = []
    const pending = [{ location: root, path: path.basename(root) }]
    for (let next = pending.pop(); next !== undefined && members.length <= limits.members; next = pending.pop()) {
      const names = (yield* fs.readDirectory(next.location)).toSorted()
      for (const name of names.slice(0, limits.members + 1 - members.length)) {
        const member = yield* look(fs, path.join(next.location, name), `${next.path}/${name}`)
        members.push(member)
        if (member.kind === "directory") pending.push(member)
      }
    }
    return {
      members,
      isWhole: members.length <= limits.members,
      archive: undefined,
      read: (files) => Effect.forEach(files, (file) => readStored(fs, file), { concurrency: readers })
    }
  })

/** No more is read than was summed, and a byte that shows that there is more. */
const readStored = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, { location, path, size }: StoredMember) {
  const bytes = new Uint8Array(size + 1)
  const read = yield* Effect.scoped(
    Effect.gen(function* () {
      const file = yield* fs.open(location, { flag: "r" })
      let length = 0
      while (length <= size) {
        const more = Number(yield* file.read(bytes.subarray(length)))
        if (more === 0) break
        length += more
      }
      return length
    })
  ).pipe(
    Effect.map(Option.some),
    Effect.catchIf(
      (error) => error._tag === "SystemError" && error.reason === "PermissionDenied",
      () => Effect.succeedNone
    )
  )
  if (Option.isNone(read)) return Either.left(problemAt("file-unreadable", path, "you may not read the file"))
  return read.value === size
    ? Either.right(bytes.subarray(0, size))
    : Either.left(problemAt("file-unreadable", path, "the file changed while it was read: try again"))
})

/** What is at a location. Between this and the reading of it, another process can put a link there, which is then followed. */
const look = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, location: string, path: string) {
  // There is no `lstat`; only a link can be read as one.
  const isLink = yield* Effect.match(fs.readLink(location), { onFailure: () => false, onSuccess: () => true })
  if (isLink) return { location, path, isUtf8: true, kind: "link", size: 0 } satisfies StoredMember
  return yield* fs.stat(location).pipe(
    Effect.map(({ size, type }): StoredMember => {
      const kind = type === "File" ? "file" : type === "Directory" ? "directory" : "special-file"
      return { location, path, isUtf8: true, kind, size: Number(size) }
    }),
    // Bytes of a name that are no UTF-8 come as replacement characters, and the file is not found by these.
    Effect.catchIf(
      (error) => DurableFile.isNotFound(error) && path.includes("\ufffd"),
      () => Effect.succeed<StoredMember>({ location, path, isUtf8: false, kind: "file", size: 0 })
    )
  )
})
