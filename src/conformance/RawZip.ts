/**
 * A ZIP builder that checks nothing: any header field can be given, so that a test or a fixture breaks exactly one rule of
 * the archive. What is not given is what an honest archive would hold. Deterministic; for archives that are meant to be
 * good use `ZipWriter`.
 *
 * @module
 */
import { deflateSync } from "fflate"
import { crc32 } from "../archive/Crc32.js"

/** The fields of a local header, all overridable. Lengths default to those of `name` and `extra`. */
export interface LocalHeader {
  readonly signature: number
  readonly versionNeeded: number
  readonly flags: number
  readonly method: number
  readonly time: number
  readonly date: number
  readonly crc: number
  readonly compressedSize: number
  readonly size: number
  readonly name: string | Uint8Array
  readonly nameLength: number
  readonly extra: Uint8Array
  readonly extraLength: number
}

/** The fields of a central directory header, all overridable. */
export interface CentralHeader extends LocalHeader {
  readonly madeBy: number
  readonly comment: Uint8Array
  readonly commentLength: number
  readonly disk: number
  readonly internalAttributes: number
  readonly externalAttributes: number
  /** Offset of the local header. */
  readonly start: number
}

/** A data descriptor behind the data: with or without signature, sizes of 4 or of 8 bytes, or any bytes at all. */
export type Descriptor = "signed" | "unsigned" | "signed64" | "unsigned64" | Uint8Array

export interface RawEntry {
  /** UTF-8 encoded, or the bytes as they are. */
  readonly name: string | Uint8Array
  /** The decoded bytes; none by default. */
  readonly content?: Uint8Array
  /** 0 stored (default), 8 deflated; any other number is written down over stored data. */
  readonly method?: number
  /** The bytes in place of the encoded content. Sizes follow these bytes and `content`. */
  readonly data?: Uint8Array
  /** In both headers. With a descriptor, bit 3 is set and the local header's sizes and CRC are 0. */
  readonly flags?: number
  readonly descriptor?: Descriptor
  /** Sizes and offset in ZIP64 extra fields, markers in their places. */
  readonly zip64?: boolean
  /** The Unix mode, made by Unix; a regular file or directory by default, 0 for no mode at all. */
  readonly mode?: number
  /** Bytes before the local header that belong to no entry. */
  readonly gap?: Uint8Array
  /** Leaves out local header and data, for a central header that points elsewhere. */
  readonly centralOnly?: boolean
  readonly local?: Partial<LocalHeader>
  readonly central?: Partial<CentralHeader>
}

/** The fields of the end record. */
export interface EndRecord {
  readonly signature: number
  readonly disk: number
  readonly directoryDisk: number
  readonly entriesOnDisk: number
  readonly entries: number
  readonly directorySize: number
  readonly directoryStart: number
  readonly commentLength: number
}

/** The fields of the ZIP64 end record, `recordSize` as its own size field counts. */
export interface Zip64EndRecord extends Omit<EndRecord, "commentLength"> {
  readonly recordSize: number
}

export interface Zip64Locator {
  readonly signature: number
  readonly disk: number
  readonly recordStart: number
  readonly disks: number
}

export interface RawArchive {
  readonly entries: ReadonlyArray<RawEntry>
  /** The order of the central directory, as indices into `entries`; their own order by default. */
  readonly directoryOrder?: ReadonlyArray<number>
  /** Bytes before the first entry. */
  readonly prefix?: Uint8Array
  /** Bytes between the last entry and the central directory, and behind it. */
  readonly beforeDirectory?: Uint8Array
  readonly afterDirectory?: Uint8Array
  readonly comment?: Uint8Array
  /** Bytes after the archive. */
  readonly trailing?: Uint8Array
  readonly end?: Partial<EndRecord>
  /** Writes a ZIP64 end record and its locator. The plain record then holds markers, unless `end` says otherwise. */
  readonly zip64?: { readonly record?: Partial<Zip64EndRecord>; readonly locator?: Partial<Zip64Locator> }
}

/**
 * The bytes of the archive described.
 *
 * @example
 * ```ts
 * import * as RawZip from "./RawZip.js"
 *
 * // An archive whose only entry says that it is a symbolic link.
 * const archive = RawZip.build({ entries: [{ name: "link", mode: 0o120777 }] })
 * ```
 */
export const build = (archive: RawArchive): Uint8Array => {
  const parts: Array<ArrayLike<number>> = []
  let at = 0
  const write = (...some: ReadonlyArray<ArrayLike<number>>) => {
    for (const part of some) {
      parts.push(part)
      at += part.length
    }
  }

  write(archive.prefix ?? [])
  const centralHeaders: Array<Uint8Array> = []
  for (const entry of archive.entries) {
    const encoded = encodeEntry(entry)
    if (entry.centralOnly !== true) write(entry.gap ?? [])
    centralHeaders.push(centralHeader(entry, encoded, at))
    if (entry.centralOnly !== true) write(localHeader(entry, encoded), encoded.data, descriptor(entry, encoded))
  }
  const order = archive.directoryOrder ?? centralHeaders.keys()
  const directory = concat(Array.from(order, (index) => centralHeaders[index] ?? []))

  write(archive.beforeDirectory ?? [])
  const end = {
    signature: 0x06054b50,
    disk: 0,
    directoryDisk: 0,
    entriesOnDisk: archive.entries.length,
    entries: archive.entries.length,
    directorySize: directory.length,
    directoryStart: at
  }
  write(directory, archive.afterDirectory ?? [])
  if (archive.zip64 !== undefined) {
    const recordStart = at
    write(zip64EndRecord({ ...end, signature: 0x06064b50, recordSize: 44, ...archive.zip64.record }))
    write(zip64Locator({ signature: 0x07064b50, disk: 0, recordStart, disks: 1, ...archive.zip64.locator }))
  }
  const comment = archive.comment ?? new Uint8Array(0)
  const markers =
    archive.zip64 === undefined
      ? {}
      : { entriesOnDisk: 0xffff, entries: 0xffff, directorySize: 0xffffffff, directoryStart: 0xffffffff }
  write(endRecord({ ...end, commentLength: comment.length, ...markers, ...archive.end }), comment)
  write(archive.trailing ?? [])
  return concat(parts)
}

/** An extra field with its id and length. */
export const extraField = (id: number, contents: Uint8Array): Uint8Array =>
  concat([u16(id), u16(contents.length), contents])

/** A ZIP64 extra field that holds these values, eight bytes each. */
export const zip64Extra = (...values: ReadonlyArray<number>): Uint8Array => extraField(0x0001, concat(values.map(u64)))

/** The bytes of all parts, one after another. */
export const concat = (parts: ReadonlyArray<ArrayLike<number>>): Uint8Array => {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

interface Encoded {
  readonly name: Uint8Array
  readonly method: number
  readonly flags: number
  readonly data: Uint8Array
  readonly size: number
  readonly crc: number
}

const encodeEntry = (entry: RawEntry): Encoded => {
  const content = entry.content ?? new Uint8Array(0)
  const method = entry.method ?? 0
  return {
    name: toBytes(entry.name),
    method,
    flags: (entry.flags ?? 0) | (entry.descriptor === undefined ? 0 : 0x0008),
    // Level and memory fixed, so that a fixture has the same bytes on every runtime.
    data: entry.data ?? (method === 8 ? deflateSync(content, { level: 6, mem: 4 }) : content),
    size: content.length,
    crc: crc32(content)
  }
}

const toBytes = (name: string | Uint8Array): Uint8Array =>
  typeof name === "string" ? new TextEncoder().encode(name) : name

const marker = 0xffffffff

const localHeader = (entry: RawEntry, encoded: Encoded): Uint8Array => {
  const inDescriptor = entry.descriptor !== undefined
  const zip64 = entry.zip64 === true
  const compressedSize = inDescriptor ? 0 : encoded.data.length
  const size = inDescriptor ? 0 : encoded.size
  const header = {
    signature: 0x04034b50,
    versionNeeded: zip64 ? 45 : 20,
    flags: encoded.flags,
    method: encoded.method,
    time: 0,
    date: 0x0021,
    crc: inDescriptor ? 0 : encoded.crc,
    compressedSize: zip64 ? marker : compressedSize,
    size: zip64 ? marker : size,
    name: encoded.name,
    extra: zip64 ? zip64Extra(size, compressedSize) : new Uint8Array(0),
    ...entry.local
  }
  return concat([u32(header.signature), sharedFields(header), toBytes(header.name), header.extra])
}

const centralHeader = (entry: RawEntry, encoded: Encoded, start: number): Uint8Array => {
  const zip64 = entry.zip64 === true
  const isDirectory = encoded.name.at(-1) === 0x2f
  const mode = entry.mode ?? (isDirectory ? 0o040755 : 0o100644)
  const header = {
    signature: 0x02014b50,
    madeBy: (3 << 8) | 20,
    versionNeeded: zip64 ? 45 : 20,
    flags: encoded.flags,
    method: encoded.method,
    time: 0,
    date: 0x0021,
    crc: encoded.crc,
    compressedSize: zip64 ? marker : encoded.data.length,
    size: zip64 ? marker : encoded.size,
    name: encoded.name,
    extra: zip64 ? zip64Extra(encoded.size, encoded.data.length, start) : new Uint8Array(0),
    comment: new Uint8Array(0),
    disk: 0,
    internalAttributes: 0,
    externalAttributes: (mode << 16) >>> 0,
    start: zip64 ? marker : start,
    ...entry.central
  }
  return concat([
    u32(header.signature),
    u16(header.madeBy),
    sharedFields(header),
    u16(header.commentLength ?? header.comment.length),
    u16(header.disk),
    u16(header.internalAttributes),
    u32(header.externalAttributes),
    u32(header.start),
    toBytes(header.name),
    header.extra,
    header.comment
  ])
}

type OptionalLengths = "nameLength" | "extraLength"

/** From "version needed" to the length of the extra fields: the same in local and central headers. */
const sharedFields = (
  header: Omit<LocalHeader, OptionalLengths> & Partial<Pick<LocalHeader, OptionalLengths>>
): Uint8Array =>
  concat([
    u16(header.versionNeeded),
    u16(header.flags),
    u16(header.method),
    u16(header.time),
    u16(header.date),
    u32(header.crc),
    u32(header.compressedSize),
    u32(header.size),
    u16(header.nameLength ?? toBytes(header.name).length),
    u16(header.extraLength ?? header.extra.length)
  ])

const descriptor = (entry: RawEntry, { crc, data, size }: Encoded): Uint8Array => {
  const kind = entry.descriptor
  if (kind === undefined) return new Uint8Array(0)
  if (typeof kind !== "string") return kind
  const width = kind.endsWith("64") ? u64 : u32
  const signature = kind.startsWith("signed") ? u32(0x08074b50) : []
  return concat([signature, u32(crc), width(data.length), width(size)])
}

const endRecord = (record: EndRecord): Uint8Array =>
  concat([
    u32(record.signature),
    u16(record.disk),
    u16(record.directoryDisk),
    u16(record.entriesOnDisk),
    u16(record.entries),
    u32(record.directorySize),
    u32(record.directoryStart),
    u16(record.commentLength)
  ])

const zip64EndRecord = (record: Zip64EndRecord): Uint8Array =>
  concat([
    u32(record.signature),
    u64(record.recordSize),
    u16(45),
    u16(45),
    u32(record.disk),
    u32(record.directoryDisk),
    u64(record.entriesOnDisk),
    u64(record.entries),
    u64(record.directorySize),
    u64(record.directoryStart)
  ])

const zip64Locator = (locator: Zip64Locator): Uint8Array =>
  concat([u32(locator.signature), u32(locator.disk), u64(locator.recordStart), u32(locator.disks)])

const u16 = (value: number): ReadonlyArray<number> => [value & 0xff, (value >>> 8) & 0xff]

const u32 = (value: number): ReadonlyArray<number> => [...u16(value), ...u16(value >>> 16)]

/** For safe integers. */
const u64 = (value: number): ReadonlyArray<number> => [...u32(value), ...u32(Math.floor(value / 0x1_0000_0000))]
