/**
 * A strict ZIP reader: bytes to entries, or the one rule that the archive broke.
 *
 * The central directory is read first and every number in it is checked against the buffer before it is used; only when all
 * headers are good is anything decoded. Every rule is from the contract's Archive section.
 *
 * @module
 */

import { Effect, Either, Schema } from "effect"
import { checkInflate, inflate, inflateSync, sliceBytes, yieldToEventLoop } from "#codec"
import * as ArchivePath from "./ArchivePath.js"
import type { InflateError } from "./Codec.js"
import * as Pace from "./Pace.js"

/** The rule of the archive that was broken. */
export const ZipCheck = Schema.Literal(
  "archive-size",
  "entry-count",
  "decoded-size",
  "end-record",
  "archive-comment",
  "central-directory",
  "zip64",
  "split-archive",
  "encrypted",
  "method",
  "entry-name",
  "entry-path",
  "duplicate-entry",
  "file-and-directory",
  "entry-type",
  "directory-bytes",
  "local-header",
  "data-descriptor",
  "overlap",
  "deflate-stream",
  "entry-size"
)
export type ZipCheck = typeof ZipCheck.Type

/** The archive broke a rule. `entry` is the escaped name of the entry, cut to 200 code points. */
export class ZipError extends Schema.TaggedError<ZipError>()("ZipError", {
  check: ZipCheck,
  entry: Schema.optionalWith(Schema.String, { exact: true })
}) {
  override get message(): string {
    return `The archive is not valid: ${this.check}${this.entry === undefined ? "" : ` at "${this.entry}"`}`
  }
}

/** What an archive may cost. Each bound is enforced before the work it bounds is done. */
export interface ZipLimits {
  readonly archiveBytes: number
  /** The decoded bytes of all entries together. */
  readonly decodedBytes: number
  /** Files and explicit directories together. */
  readonly entries: number
}

export interface ZipEntry {
  /** The name as stored; a directory's ends with `/`. */
  readonly path: string
  readonly isDirectory: boolean
  /** The decoded bytes; empty for a directory. */
  readonly bytes: Uint8Array
}

/**
 * Reads the whole archive strictly: its entries in the order of the central directory, or a `ZipError` that names the first
 * rule found broken.
 *
 * The caller owns `archive` and must not change it while this runs; stored entries may be views into it. Long archives are
 * decoded in slices between which the event loop runs its other work, and where the effect can be interrupted. CRC-32 is
 * not consulted: it is the digests of a manifest that decide.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as ZipReader from "./ZipReader.js"
 * import * as ZipWriter from "./ZipWriter.js"
 *
 * const archive = ZipWriter.write([{ path: "hello.txt", bytes: new TextEncoder().encode("hello") }])
 * const program = ZipReader.read(archive, { archiveBytes: 1024, decodedBytes: 1024, entries: 10 })
 * Effect.runPromise(program).then((entries) => console.log(entries.map((entry) => entry.path))) // ["hello.txt"]
 * ```
 */
export const read = Effect.fnUntraced(function* (archive: Uint8Array, limits: ZipLimits) {
  const { bytes, directory, source } = yield* open(archive, limits)
  const headers = yield* readHeaders(source, directory, "every-rule")
  yield* checkNames(headers)
  yield* checkOverlaps(headers)
  yield* checkDecodedSize(headers, limits)
  return yield* decodeEntries(bytes, headers)
})

/** What an entry is by the type bits of its attributes and, where they say nothing, by the `/` at its name's end. */
export type ZipKind = "file" | "directory" | "link" | "special"

/** An entry whose bytes are not decoded yet, and whose name and type nobody vouches for. */
export interface ZipMember {
  /** The name as stored; not a safe path. Bytes that are not UTF-8 are replaced. */
  readonly path: string
  /** Whether the name is strict UTF-8. */
  readonly isUtf8: boolean
  readonly kind: ZipKind
  /** The declared number of decoded bytes. */
  readonly size: number
  /** The declared CRC-32 of the decoded bytes. */
  readonly crc: number
  readonly method: number
  /** The stored bytes, a view into the archive. */
  readonly data: Uint8Array
}

/** What an archive holds. */
export interface ZipMembers {
  /** In the order of the central directory. */
  readonly members: ReadonlyArray<ZipMember>
  /**
   * Whether the members are all there is and other readers see the same ones: nothing lies between them or in comments, their
   * local headers say what the central directory says, and nothing gives them another name, type or owner's rights. Readers
   * differ in which of these they believe.
   */
  readonly isUnambiguous: boolean
}

/**
 * Reads what an archive holds without judging names and types: for callers that report all that is wrong with them, or leave
 * out what they do not take. Everything else is held to the rules of {@link read}, decoded sizes aside, which are the
 * caller's to sum up before it decodes.
 *
 * `archive` must not change while this runs and while its members are in use.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as ZipReader from "./ZipReader.js"
 * import * as ZipWriter from "./ZipWriter.js"
 *
 * const archive = ZipWriter.write([{ path: "hello.txt", bytes: new TextEncoder().encode("hello") }])
 * const program = ZipReader.readMembers(archive, { archiveBytes: 1024, entries: 10 })
 * Effect.runPromise(program).then(({ members }) => console.log(members.map((member) => member.kind))) // ["file"]
 * ```
 */
export const readMembers = Effect.fnUntraced(function* (
  archive: Uint8Array,
  limits: Pick<ZipLimits, "archiveBytes" | "entries">
) {
  const { bytes, directory, source } = yield* open(archive, limits)
  const headers = yield* readHeaders(source, directory, "structure")
  yield* checkOverlaps(headers)
  const read: ZipMembers = {
    members: headers.map(
      ({ crc, dataEnd, dataStart, isUtf8, kind, method, path, size }): ZipMember => ({
        path,
        isUtf8,
        kind,
        size,
        crc,
        method,
        data: bytes.subarray(dataStart, dataEnd)
      })
    ),
    isUnambiguous: hasNoGaps(source, headers, directory) && headers.every((header) => isPlain(source, header))
  }
  return read
})

/**
 * Decodes members one after another and hands each to `take`, with its bytes or what is wrong with them. A failure of `take`
 * ends it. Never more than a member's declared size is produced, and nothing of a size that its data cannot decode to.
 *
 * The bytes of stored members are views into the archive.
 */
export const decodeEach = <M extends ZipMember, E, R>(
  members: ReadonlyArray<M>,
  take: (member: M, decoded: Either.Either<Uint8Array, ZipError>) => Effect.Effect<void, E, R>
) => eachMember(members, inflate, take)

/**
 * Whether every member decodes to what it declares: the failure is of the first that does not. What is decoded is dropped, so
 * that this takes little memory however much it is.
 */
export const checkEach = (members: ReadonlyArray<ZipMember>): Effect.Effect<void, ZipError> =>
  eachMember(members, checkInflate, (_, decoded) => Either.map(decoded, () => undefined))

const eachMember = Effect.fnUntraced(function* <M extends ZipMember, A, E, R>(
  members: ReadonlyArray<M>,
  inflateLong: (source: Uint8Array, size: number) => Effect.Effect<A, InflateError>,
  take: (member: M, decoded: Either.Either<A | Uint8Array, ZipError>) => Effect.Effect<void, E, R>
) {
  let work = 0
  for (const member of members) {
    const { data, method, path, size } = member
    const cost = memberCost + decodingCost(data.length, size)
    work += cost
    if (work > sliceBytes) {
      work = cost
      yield* yieldToEventLoop
    }
    if (method === stored) {
      yield* take(member, Either.right(data))
      continue
    }
    // A size that no stream of this length decodes to: the buffer for it is not even asked for.
    if (size > data.length * mostPerDeflatedByte) {
      yield* take(member, Either.left(broken("entry-size", path)))
      continue
    }
    const inflated: Either.Either<A | Uint8Array, InflateError> =
      work <= sliceBytes ? inflateSync(data, size) : yield* Effect.either(inflateLong(data, size))
    yield* take(
      member,
      Either.mapLeft(inflated, (error) => inflateFailure(error, path))
    )
  }
})

const inflateFailure = ({ reason }: InflateError, path: string) =>
  broken(reason === "stream" ? "deflate-stream" : "entry-size", path)

/** What a member costs beside its bytes, in bytes decoded: ten thousand empty members are work too. */
const memberCost = 4 * 1024

/** A match of 258 bytes costs two bits at least. */
const mostPerDeflatedByte = 1032

function* open(archive: Uint8Array, limits: Pick<ZipLimits, "archiveBytes" | "entries">) {
  if (archive.length > limits.archiveBytes) return yield* broken("archive-size")
  // A plain view, whatever subclass came in: `slice` of a Buffer would not copy.
  const bytes = new Uint8Array(archive.buffer, archive.byteOffset, archive.byteLength)
  const source: Source = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) }
  const directory = yield* readEndRecord(source)
  if (directory.entries > limits.entries) return yield* broken("entry-count")
  return { bytes, source, directory }
}

/** Whether names and types are held to the rules too, or only what the reader itself relies on. */
type Strictness = "every-rule" | "structure"

/** The archive, and the same bytes as numbers. */
interface Source {
  readonly bytes: Uint8Array
  readonly view: DataView
}

/** Where the central directory is and how many entries it lists. */
interface Directory {
  readonly start: number
  readonly end: number
  readonly entries: number
}

/** What the central directory says of an entry, agreed to by its local header. */
interface Header {
  readonly path: string
  readonly isUtf8: boolean
  readonly kind: ZipKind
  readonly isDirectory: boolean
  readonly method: number
  readonly size: number
  readonly crc: number
  /** Of the central header. */
  readonly central: number
  /** Of the local header. */
  readonly start: number
  readonly dataStart: number
  readonly dataEnd: number
  /** Of the data descriptor where there is one, else of the data. */
  readonly end: number
}

const broken = (check: ZipCheck, path?: string) =>
  path === undefined ? new ZipError({ check }) : new ZipError({ check, entry: ArchivePath.display(path) })

// ---------------------------------------------------------------------------------------------------------------------
// End records
// ---------------------------------------------------------------------------------------------------------------------

const endRecordSignature = 0x06054b50
const endRecordLength = 22
const maxCommentLength = 0xffff
const zip64LocatorSignature = 0x07064b50
const zip64LocatorLength = 20
const zip64EndRecordSignature = 0x06064b50
const zip64EndRecordLength = 56
/** The bytes of a ZIP64 end record that its own size field does not count. */
const zip64EndRecordLead = 12

/** Values that mean "see the ZIP64 record". */
const marker16 = 0xffff
const marker32 = 0xffffffff

function* readEndRecord(source: Source) {
  const { view } = source
  const start = yield* findEndRecord(source)
  const record = {
    disk: view.getUint16(start + 4, true),
    directoryDisk: view.getUint16(start + 6, true),
    entriesOnDisk: view.getUint16(start + 8, true),
    entries: view.getUint16(start + 10, true),
    directorySize: view.getUint32(start + 12, true),
    directoryStart: view.getUint32(start + 16, true)
  }
  const locator = start - zip64LocatorLength
  const hasLocator = locator >= 0 && view.getUint32(locator, true) === zip64LocatorSignature
  const needsZip64 =
    record.entries === marker16 || record.directorySize === marker32 || record.directoryStart === marker32
  if (needsZip64 && !hasLocator) return yield* broken("zip64")
  const { end, ...fields } = hasLocator ? yield* readZip64EndRecord(view, locator, record) : { end: start, ...record }

  if (fields.disk !== 0 || fields.directoryDisk !== 0 || fields.entriesOnDisk !== fields.entries) {
    return yield* broken("split-archive")
  }
  const directoryEnd = fields.directoryStart + fields.directorySize
  if (directoryEnd > end) return yield* broken("end-record")
  // Gaps are valid between entries and before the first, not here: readers that look for the directory backwards from the
  // end record would find what lies in between.
  if (directoryEnd < end) return yield* broken("central-directory")
  const directory: Directory = { start: fields.directoryStart, end: directoryEnd, entries: fields.entries }
  return directory
}

/**
 * The end record is the one whose comment reaches exactly to the end of the archive. Where the comment holds a signature
 * of its own, readers disagree about which record is the real one, so that is refused.
 */
function* findEndRecord({ bytes, view }: Source) {
  let found: number | undefined
  let at = Math.max(0, bytes.length - endRecordLength - maxCommentLength)
  for (;;) {
    at = bytes.indexOf(0x50, at)
    if (at === -1 || at + 4 > bytes.length) break
    if (view.getUint32(at, true) === endRecordSignature) {
      if (found !== undefined) return yield* broken("archive-comment")
      if (endRecordReach(view, at) === bytes.length) found = at
    }
    at++
  }
  return found ?? (yield* broken("end-record"))
}

/** Where the comment of an end record at `start` would end; nowhere when the record itself would not fit. */
const endRecordReach = (view: DataView, start: number): number =>
  start + endRecordLength > view.byteLength ? -1 : start + endRecordLength + view.getUint16(start + 20, true)

interface EndRecord {
  readonly disk: number
  readonly directoryDisk: number
  readonly entriesOnDisk: number
  readonly entries: number
  readonly directorySize: number
  readonly directoryStart: number
}

/** The ZIP64 end record, which must lie directly before its locator and agree with the plain record. */
function* readZip64EndRecord(view: DataView, locator: number, record: EndRecord) {
  if (view.getUint32(locator + 4, true) !== 0 || view.getUint32(locator + 16, true) !== 1) {
    return yield* broken("split-archive")
  }
  const start = uint64(view, locator + 8)
  if (start + zip64EndRecordLength > locator || view.getUint32(start, true) !== zip64EndRecordSignature) {
    return yield* broken("zip64")
  }
  if (start + zip64EndRecordLead + uint64(view, start + 4) !== locator) return yield* broken("zip64")
  const wide = {
    end: start,
    disk: view.getUint32(start + 16, true),
    directoryDisk: view.getUint32(start + 20, true),
    entriesOnDisk: uint64(view, start + 24),
    entries: uint64(view, start + 32),
    directorySize: uint64(view, start + 40),
    directoryStart: uint64(view, start + 48)
  }
  const agree =
    agrees(record.disk, marker16, wide.disk) &&
    agrees(record.directoryDisk, marker16, wide.directoryDisk) &&
    agrees(record.entriesOnDisk, marker16, wide.entriesOnDisk) &&
    agrees(record.entries, marker16, wide.entries) &&
    agrees(record.directorySize, marker32, wide.directorySize) &&
    agrees(record.directoryStart, marker32, wide.directoryStart)
  return agree ? wide : yield* broken("zip64")
}

const agrees = (narrow: number, marker: number, wide: number): boolean => narrow === marker || narrow === wide

/** Rounded where it is above 2^53, which is still far past the end of any buffer. */
const uint64 = (view: DataView, at: number): number =>
  view.getUint32(at + 4, true) * 0x1_0000_0000 + view.getUint32(at, true)

// ---------------------------------------------------------------------------------------------------------------------
// Headers
// ---------------------------------------------------------------------------------------------------------------------

const centralSignature = 0x02014b50
const centralLength = 46
const localSignature = 0x04034b50
const localLength = 30

/** Encryption, strong encryption, and masked local headers, which go with an encrypted central directory. */
const encryptionFlags = 0x0001 | 0x0040 | 0x2000
const descriptorFlag = 0x0008
const utf8Flag = 0x0800
const stored = 0
const deflated = 8

const typeMask = 0xf000
const directoryType = 0x4000
const regularType = 0x8000
const linkType = 0xa000

/** `ignoreBOM` keeps a leading BOM: names are kept exactly. */
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const lossyUtf8 = new TextDecoder("utf-8", { ignoreBOM: true })

function* readHeaders(source: Source, directory: Directory, strictness: Strictness) {
  const headers: Array<Header> = []
  let at = directory.start
  let work = 0
  for (let index = 0; index < directory.entries; index++) {
    const { header, next } = yield* readHeader(source, directory, at, strictness)
    headers.push(header)
    // Names and extra fields can make up the whole archive.
    work += next - at
    if (work >= sliceBytes) {
      work = 0
      yield* yieldToEventLoop
    }
    at = next
  }
  if (at !== directory.end) return yield* broken("central-directory")
  return headers
}

function* readHeader(source: Source, directory: Directory, at: number, strictness: Strictness) {
  const { bytes, view } = source
  if (at + centralLength > directory.end || view.getUint32(at, true) !== centralSignature) {
    return yield* broken("central-directory")
  }
  const flags = view.getUint16(at + 8, true)
  const method = view.getUint16(at + 10, true)
  const nameStart = at + centralLength
  const nameEnd = nameStart + view.getUint16(at + 28, true)
  const extraEnd = nameEnd + view.getUint16(at + 30, true)
  const next = extraEnd + view.getUint16(at + 32, true)
  if (next > directory.end) return yield* broken("central-directory")

  const name = bytes.subarray(nameStart, nameEnd)
  const { isUtf8, path } = decodeName(name)
  const isStrict = strictness === "every-rule"
  if (isStrict && !isUtf8) return yield* broken("entry-name", path)
  if ((flags & encryptionFlags) !== 0) return yield* broken("encrypted", path)
  if (method !== stored && method !== deflated) return yield* broken("method", path)
  // The type bits count whatever system the entry says it was made on: extractors honour them without asking.
  const type = view.getUint16(at + 40, true) & typeMask
  const kind = kindOf(type, path)
  if (isStrict) yield* checkPathAndType(path, type)
  const isDirectory = kind === "directory"

  const fields = widen(view, nameEnd, extraEnd, {
    size: view.getUint32(at + 24, true),
    compressedSize: view.getUint32(at + 20, true),
    start: view.getUint32(at + 42, true),
    disk: view.getUint16(at + 34, true)
  })
  if (fields === undefined) return yield* broken("zip64", path)
  const { size, compressedSize, start } = fields
  if (fields.disk !== 0) return yield* broken("split-archive", path)
  if (isDirectory && (size !== 0 || (method === stored && compressedSize !== 0))) {
    return yield* broken("directory-bytes", path)
  }
  if (method === stored && compressedSize !== size) return yield* broken("entry-size", path)

  // The local header.
  if (start + localLength > directory.start) return yield* broken("overlap", path)
  if (
    view.getUint32(start, true) !== localSignature ||
    view.getUint16(start + 6, true) !== flags ||
    view.getUint16(start + 8, true) !== method
  ) {
    return yield* broken("local-header", path)
  }
  const localNameEnd = start + localLength + view.getUint16(start + 26, true)
  const dataStart = localNameEnd + view.getUint16(start + 28, true)
  const dataEnd = dataStart + compressedSize
  if (dataEnd > directory.start) return yield* broken("overlap", path)
  if (compressedSize > longestDeflate(size)) return yield* broken("deflate-stream", path)
  if (!sameBytes(name, bytes.subarray(start + localLength, localNameEnd))) return yield* broken("local-header", path)

  let end = dataEnd
  if ((flags & descriptorFlag) !== 0) {
    const descriptorEnd = findDescriptorEnd(view, dataEnd, directory.start, compressedSize, size)
    if (descriptorEnd === undefined) return yield* broken("data-descriptor", path)
    end = descriptorEnd
  } else {
    const local = widen(view, localNameEnd, dataStart, {
      size: view.getUint32(start + 22, true),
      compressedSize: view.getUint32(start + 18, true),
      start,
      disk: 0
    })
    if (local === undefined) return yield* broken("zip64", path)
    if (local.size !== size || local.compressedSize !== compressedSize) return yield* broken("local-header", path)
  }
  const crc = view.getUint32(at + 16, true)
  const header: Header = {
    path,
    isUtf8,
    kind,
    isDirectory,
    method,
    size,
    crc,
    central: at,
    start,
    dataStart,
    dataEnd,
    end
  }
  return { header, next }
}

/**
 * The longest deflate stream taken for `size` bytes. The worst honest encoder writes each byte as a literal of the fixed
 * code, of 9 bits at most; stored blocks cost 5 bytes in 65,535. The slack is room for the blocks' heads and for some
 * thousand flushes, of 5 bytes each. What is longer is padded with blocks of nothing, each of which costs the building of
 * its code: 32 MiB of them take seconds.
 */
const longestDeflate = (size: number): number => size + size / 8 + 64 * 1024

const decodeName = (name: Uint8Array): Pick<Header, "isUtf8" | "path"> => {
  try {
    return { path: strictUtf8.decode(name), isUtf8: true }
  } catch {
    return { path: lossyUtf8.decode(name), isUtf8: false }
  }
}

const kindOf = (type: number, path: string): ZipKind => {
  if (type === linkType) return "link"
  if (type === directoryType) return "directory"
  if (type !== 0 && type !== regularType) return "special"
  return path.endsWith("/") ? "directory" : "file"
}

function* checkPathAndType(path: string, type: number) {
  const isDirectory = path.endsWith("/")
  if (!ArchivePath.isSafe(isDirectory ? path.slice(0, -1) : path)) return yield* broken("entry-path", path)
  if (type !== 0 && type !== (isDirectory ? directoryType : regularType)) return yield* broken("entry-type", path)
}

const sameBytes = (left: Uint8Array, right: Uint8Array): boolean =>
  left.length === right.length && left.every((byte, index) => byte === right[index])

const zip64ExtraId = 0x0001

/** The header fields that a ZIP64 extra field can widen, in the order in which it holds them. */
const zip64Fields = [
  { name: "size", width: 8, marker: marker32 },
  { name: "compressedSize", width: 8, marker: marker32 },
  { name: "start", width: 8, marker: marker32 },
  { name: "disk", width: 4, marker: marker16 }
] as const

type Zip64Fields = Readonly<Record<(typeof zip64Fields)[number]["name"], number>>

/**
 * `narrow` with those fields widened that hold their marker. The ZIP64 extra field must hold exactly these or, as some
 * tools write it, all fields from the first on, repeating those that are no markers. `undefined` when it does neither.
 * Other extra fields change nothing.
 */
const widen = (view: DataView, extraStart: number, extraEnd: number, narrow: Zip64Fields): Zip64Fields | undefined => {
  const marked = zip64Fields.filter((field) => narrow[field.name] === field.marker)
  if (marked.length === 0 && extraStart === extraEnd) return narrow
  const [record, ...more] = findExtraFields(view, extraStart, extraEnd, zip64ExtraId)
  if (record === undefined) return marked.length === 0 ? narrow : undefined
  if (more.length > 0) return undefined

  const layouts = [marked, zip64Fields.slice(0, 2), zip64Fields.slice(0, 3), zip64Fields]
  const held = layouts.find((fields) => widthOf(fields) === record.end - record.start)
  if (held === undefined || !marked.every((field) => held.includes(field))) return undefined
  const wide: Record<keyof Zip64Fields, number> = { ...narrow }
  let at = record.start
  for (const { name, width, marker } of held) {
    const value = width === 8 ? uint64(view, at) : view.getUint32(at, true)
    if (!agrees(narrow[name], marker, value)) return undefined
    wide[name] = value
    at += width
  }
  return wide
}

const widthOf = (fields: ReadonlyArray<{ readonly width: number }>): number =>
  fields.reduce((sum, field) => sum + field.width, 0)

interface Range {
  readonly start: number
  readonly end: number
}

/** The contents of the extra fields with this id; a field that runs past the end, and what follows it, is none. */
const findExtraFields = (view: DataView, start: number, end: number, id: number): ReadonlyArray<Range> => {
  const found: Array<Range> = []
  let at = start
  while (at + 4 <= end) {
    const fieldStart = at + 4
    const fieldEnd = fieldStart + view.getUint16(at + 2, true)
    if (fieldEnd > end) break
    if (view.getUint16(at, true) === id) found.push({ start: fieldStart, end: fieldEnd })
    at = fieldEnd
  }
  return found
}

/** Of extra fields that say nothing of name, type and content: ZIP64, times, and numbers of users and groups. */
const plainExtraIds = new Set([zip64ExtraId, 0x000a, 0x5455, 0x5855, 0x7855, 0x7875])

/** How hard the encoder tried, a data descriptor, and names in UTF-8. */
const plainFlags = 0x0006 | descriptorFlag | utf8Flag

/** To run as the owner or group of a file, and the sticky bit, in the upper half of the attributes. */
const specialModes = 0o7000

/** The attribute by which an entry made on DOS is a directory, whatever its name. */
const dosDirectory = 0x10

/** Whether every reader sees the entry as this one does. */
const isPlain = ({ bytes, view }: Source, header: Header): boolean => {
  const { central, crc, dataEnd, dataStart, end, isDirectory, method, path, size, start } = header
  const flags = view.getUint16(central + 8, true)
  const nameEnd = central + centralLength + view.getUint16(central + 28, true)
  const extraEnd = nameEnd + view.getUint16(central + 30, true)
  const commentEnd = extraEnd + view.getUint16(central + 32, true)
  const localNameEnd = start + localLength + view.getUint16(start + 26, true)
  if (commentEnd !== extraEnd || (view.getUint16(central + 40, true) & specialModes) !== 0) return false
  if (!isPlainExtra(view, nameEnd, extraEnd) || !isPlainExtra(view, localNameEnd, dataStart)) return false
  if ((flags & ~plainFlags) !== 0) return false
  // Without the flag most readers take a name for one of an old code page.
  const isAscii = bytes.subarray(central + centralLength, nameEnd).every((byte) => byte < 0x80)
  if (!isAscii && (flags & utf8Flag) === 0) return false
  if (isDirectory && (!path.endsWith("/") || dataEnd !== dataStart)) return false
  if (!isDirectory && (view.getUint8(central + 38) & dosDirectory) !== 0) return false
  const localCrc = view.getUint32(start + 14, true)
  if ((flags & descriptorFlag) === 0) return localCrc === crc
  // Who reads on from a local header finds the end of a deflate stream in it, and that of stored data nowhere.
  if (method === stored) return false
  const isSigned = (end - dataEnd) % 8 === 0
  return (
    saysNothingElse(localCrc, crc) &&
    saysNothingElse(view.getUint32(start + 18, true), dataEnd - dataStart) &&
    saysNothingElse(view.getUint32(start + 22, true), size) &&
    view.getUint32(dataEnd + (isSigned ? 4 : 0), true) === crc
  )
}

/** Before a data descriptor some tools say what they know already. */
const saysNothingElse = (early: number, actual: number): boolean => early === 0 || early === actual

const isPlainExtra = (view: DataView, start: number, end: number): boolean => {
  let at = start
  while (at + 4 <= end) {
    if (!plainExtraIds.has(view.getUint16(at, true))) return false
    at += 4 + view.getUint16(at + 2, true)
  }
  return at === end
}

const descriptorSignature = 0x08074b50

/**
 * Where the data descriptor at `start` ends: one with or without signature, with sizes of 4 or 8 bytes, whose sizes are
 * those of the central directory. Its CRC is not consulted.
 */
const findDescriptorEnd = (
  view: DataView,
  start: number,
  limit: number,
  compressedSize: number,
  size: number
): number | undefined => {
  for (const isSigned of [true, false]) {
    const sizes = start + (isSigned ? 8 : 4)
    if (sizes + 8 > limit || (isSigned && view.getUint32(start, true) !== descriptorSignature)) continue
    if (view.getUint32(sizes, true) === compressedSize && view.getUint32(sizes + 4, true) === size) return sizes + 8
    if (sizes + 16 > limit) continue
    if (uint64(view, sizes) === compressedSize && uint64(view, sizes + 8) === size) return sizes + 16
  }
  return undefined
}

// ---------------------------------------------------------------------------------------------------------------------
// The entries together
// ---------------------------------------------------------------------------------------------------------------------

function* checkNames(headers: ReadonlyArray<Header>) {
  // Strictly decoded names are equal exactly when their bytes are.
  const keys = new Set<string>()
  const pace = Pace.make()
  for (const { path } of headers) {
    const key = ArchivePath.key(path)
    if (keys.has(key)) return yield* broken("duplicate-entry", path)
    keys.add(key)
    if (pace(path.length)) yield* yieldToEventLoop
  }
  for (const { isDirectory, path } of headers) {
    if (!isDirectory) continue
    if (keys.has(ArchivePath.key(path.slice(0, -1)))) return yield* broken("file-and-directory", path)
    if (pace(path.length)) yield* yieldToEventLoop
  }
}

/** In the order of their local headers, each entry ends before the next one starts; `readHeader` saw to the last one. */
function* checkOverlaps(headers: ReadonlyArray<Header>) {
  let previousEnd = 0
  for (const { end, path, start } of headers.toSorted((left, right) => left.start - right.start)) {
    if (start < previousEnd) return yield* broken("overlap", path)
    previousEnd = end
  }
}

/** All bytes before the central directory are entries, and none are a comment. A reader that takes entries one after another would find others there. */
const hasNoGaps = ({ view }: Source, headers: ReadonlyArray<Header>, directory: Directory): boolean => {
  let length = 0
  for (const { end, start } of headers) length += end - start
  // The last of an end record without a comment: its length.
  return length === directory.start && view.getUint16(view.byteLength - 2, true) === 0
}

function* checkDecodedSize(headers: ReadonlyArray<Header>, limits: ZipLimits) {
  let total = 0
  for (const { path, size } of headers) {
    total += size
    if (total > limits.decodedBytes) return yield* broken("decoded-size", path)
  }
}

function* decodeEntries(bytes: Uint8Array, headers: ReadonlyArray<Header>) {
  const storedAsViews = isMostlyStored(bytes, headers)
  const entries: Array<ZipEntry> = []
  let work = 0
  // Small entries are decoded at once, without an effect for each, until a slice's worth of work is done.
  for (const { dataEnd, dataStart, isDirectory, method, path, size } of headers) {
    const data = bytes.subarray(dataStart, dataEnd)
    const cost = decodingCost(data.length, size)
    work += cost
    if (work > sliceBytes) {
      work = cost
      yield* yieldToEventLoop
    }
    if (method === stored) {
      entries.push({ path, isDirectory, bytes: storedAsViews ? data : data.slice() })
      continue
    }
    const inflated = work <= sliceBytes ? inflateSync(data, size) : yield* Effect.either(inflate(data, size))
    if (Either.isLeft(inflated)) {
      return yield* inflateFailure(inflated.left, path)
    }
    entries.push({ path, isDirectory, bytes: inflated.right })
  }
  return entries
}

/**
 * In bytes. A stream that is longer than what it decodes to is padded with blocks of nothing, and a byte of those costs many
 * times what a byte of content does.
 */
const decodingCost = (compressed: number, size: number): number =>
  compressed + size + 16 * Math.max(0, compressed - size)

/**
 * Whether stored entries should be views into the archive. A view keeps the whole archive alive and a copy is memory of its
 * own, so that who keeps the entries keeps their bytes about once: views where stored bytes are most of the archive, copies
 * where the archive can then go.
 */
const isMostlyStored = (bytes: Uint8Array, headers: ReadonlyArray<Header>): boolean => {
  let total = 0
  for (const { method, size } of headers) if (method === stored) total += size
  return total * 2 > bytes.length
}
