/**
 * A canonical ZIP writer: the same files always give the same bytes, whatever their order, the time, the time zone, the
 * runtime and its zlib.
 *
 * @module
 */
import { Effect } from "effect"
import { Deflate, deflateSync } from "fflate"
import { yieldToEventLoop } from "#codec"
import * as ArchivePath from "./ArchivePath.js"
import { crc32 } from "./Crc32.js"
import * as Pace from "./Pace.js"

export interface ZipFile {
  /** A relative path; see `ArchivePath.isRelative`. */
  readonly path: string
  readonly bytes: Uint8Array
}

/**
 * The canonical archive of `files`: in UTF-8 byte order of their paths, deflated where that makes them smaller and stored
 * where not, dated 1980-01-01, regular files of mode 0644, without extra fields, directories, descriptors and comments.
 *
 * Throws when a path is unsafe or given twice, or when the archive would need ZIP64: callers hold validated paths and
 * bounded sizes, so that is a defect of theirs.
 *
 * @example
 * ```ts
 * import * as ZipWriter from "./ZipWriter.js"
 *
 * const archive = ZipWriter.write([{ path: "hello.txt", bytes: new TextEncoder().encode("hello") }])
 * ```
 */
export const write = (files: ReadonlyArray<ZipFile>): Uint8Array =>
  assemble(
    sortByPath(files).map((file) => {
      const steps = makeEntry(file)
      for (;;) {
        const step = steps.next()
        if (step.done) return step.value
      }
    })
  )

/**
 * The same archive, packed in slices between which the event loop runs its other work and where the effect can be
 * interrupted. The bytes of the files must not change while this runs.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as ZipWriter from "./ZipWriter.js"
 *
 * const program = ZipWriter.pack([{ path: "hello.txt", bytes: new TextEncoder().encode("hello") }])
 * Effect.runPromise(program).then((archive) => console.log(archive.length)) // 135
 * ```
 */
export const pack = Effect.fnUntraced(function* (files: ReadonlyArray<ZipFile>) {
  const entries: Array<Entry> = []
  const pace = Pace.make(packedSliceBytes)
  for (const file of sortByPath(files)) {
    const steps = makeEntry(file)
    let step = steps.next()
    for (; !step.done; step = steps.next()) if (pace(step.value)) yield* yieldToEventLoop
    entries.push(step.value)
    if (pace(fileCost)) yield* yieldToEventLoop
  }
  return assemble(entries)
})

/** Bytes deflated between two turns of the event loop: some ten milliseconds of work. */
const packedSliceBytes = 256 * 1024

/** What a file costs beside its bytes, in bytes deflated: a thousand empty files are work too. */
const fileCost = 4 * 1024

const sortByPath = (files: ReadonlyArray<ZipFile>): ReadonlyArray<ZipFile> =>
  files.toSorted((left, right) => ArchivePath.compare(left.path, right.path))

const assemble = (entries: ReadonlyArray<Entry>): Uint8Array => {
  checkPaths(entries)

  const localSize = sum(entries, (entry) => localLength + entry.name.length + entry.data.length)
  const directorySize = sum(entries, (entry) => centralLength + entry.name.length)
  if (entries.length >= 0xffff || localSize + directorySize >= 0xffffffff) {
    throw new Error("ZipWriter: the archive would need ZIP64")
  }

  const archive = new Uint8Array(localSize + directorySize + endRecordLength)
  const view = new DataView(archive.buffer)
  let at = 0
  const starts = entries.map((entry) => {
    const start = at
    view.setUint32(at, 0x04034b50, true)
    writeShared(view, at + 4, entry)
    archive.set(entry.name, at + localLength)
    archive.set(entry.data, at + localLength + entry.name.length)
    at += localLength + entry.name.length + entry.data.length
    return start
  })
  for (const [index, entry] of entries.entries()) {
    view.setUint32(at, 0x02014b50, true)
    view.setUint16(at + 4, madeBy, true)
    writeShared(view, at + 6, entry)
    view.setUint32(at + 38, regularFile, true)
    view.setUint32(at + 42, starts[index] ?? 0, true)
    archive.set(entry.name, at + centralLength)
    at += centralLength + entry.name.length
  }
  view.setUint32(at, 0x06054b50, true)
  view.setUint16(at + 8, entries.length, true)
  view.setUint16(at + 10, entries.length, true)
  view.setUint32(at + 12, directorySize, true)
  view.setUint32(at + 16, localSize, true)
  return archive
}

const localLength = 30
const centralLength = 46
const endRecordLength = 22

const versionNeeded = 20
/** Version 2.0 on Unix, which is what makes the mode below count. */
const madeBy = (3 << 8) | 20
/** A regular file of mode 0644, in the upper half of the external attributes. */
const regularFile = (0o100644 << 16) >>> 0
/** 1980-01-01, the first date that ZIP knows; the time next to it is midnight. */
const date = 0x0021
const utf8Flag = 0x0800
const stored = 0
const deflated = 8

/** Level and memory fixed: fflate's own choice of memory depends on the size through a logarithm. */
const deflateOptions = { level: 6, mem: 4 } as const

interface Entry {
  readonly path: string
  readonly name: Uint8Array
  readonly flags: number
  readonly method: number
  readonly data: Uint8Array
  readonly size: number
  readonly crc: number
}

const encoder = new TextEncoder()

/** Yields the number of bytes that a step took. */
function* makeEntry({ bytes, path }: ZipFile): Generator<number, Entry> {
  const name = encoder.encode(path)
  let crc = 0
  const chunks: Array<Uint8Array> = []
  const deflate = bytes.length > chunkBytes ? new Deflate(deflateOptions, (chunk) => chunks.push(chunk)) : undefined
  for (let start = 0; start < bytes.length; start += chunkBytes) {
    const chunk = bytes.subarray(start, start + chunkBytes)
    crc = crc32(chunk, crc)
    if (deflate === undefined) chunks.push(deflateSync(chunk, deflateOptions))
    else deflate.push(chunk, start + chunkBytes >= bytes.length)
    yield chunk.length
  }
  const compressed = concat(chunks)
  const isSmaller = compressed.length < bytes.length
  return {
    path,
    name,
    flags: name.length === path.length ? 0 : utf8Flag,
    method: isSmaller ? deflated : stored,
    data: isSmaller ? compressed : bytes,
    size: bytes.length,
    crc
  }
}

/** Longer files are deflated in chunks of this size. Part of the canonical form: other chunks give other bytes. */
const chunkBytes = 256 * 1024

const concat = (chunks: ReadonlyArray<Uint8Array>): Uint8Array => {
  const bytes = new Uint8Array(chunks.reduce((total, chunk) => total + chunk.length, 0))
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}

const checkPaths = (sorted: ReadonlyArray<Entry>): void => {
  let previous: string | undefined
  for (const { name, path } of sorted) {
    if (!ArchivePath.isRelative(path) || name.length > 0xffff) {
      throw new Error(`ZipWriter: unsafe path "${ArchivePath.display(path)}"`)
    }
    if (path === previous) throw new Error(`ZipWriter: two files with the path "${ArchivePath.display(path)}"`)
    previous = path
  }
}

/** The 26 bytes that local and central headers share. */
const writeShared = (view: DataView, at: number, entry: Entry): void => {
  view.setUint16(at, versionNeeded, true)
  view.setUint16(at + 2, entry.flags, true)
  view.setUint16(at + 4, entry.method, true)
  view.setUint16(at + 8, date, true)
  view.setUint32(at + 10, entry.crc, true)
  view.setUint32(at + 14, entry.data.length, true)
  view.setUint32(at + 18, entry.size, true)
  view.setUint16(at + 22, entry.name.length, true)
}

const sum = (entries: ReadonlyArray<Entry>, of: (entry: Entry) => number): number =>
  entries.reduce((total, entry) => total + of(entry), 0)
