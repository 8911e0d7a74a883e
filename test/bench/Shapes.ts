import { createHash } from "node:crypto"
import { deflateRawSync, inflateRawSync } from "node:zlib"
import { Array as Arr } from "effect"
import { crc32 } from "../../src/archive/Crc32.js"
import type { SnapshotResponse } from "../../src/delivery/Snapshot.js"

/** An archive entry as it lies in the archive. */
export interface StoredEntry {
  readonly deflated: boolean
  readonly data: Uint8Array
}

/** One measured snapshot: the answer to verify, and its entries for the floor. */
export interface Shape {
  readonly name: string
  readonly response: SnapshotResponse
  readonly entries: ReadonlyArray<StoredEntry>
  readonly files: number
  readonly decodedBytes: number
}

interface Source {
  readonly path: string
  readonly bytes: Uint8Array
}

const kibibyte = 1024
const mebibyte = 1024 * kibibyte

/** The same numbers in every run. */
const makeRandom = (seed: number) => {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

const random = makeRandom(20_260_101)

const letters = "etaoinshrdlucmfwygpbvk"
const vocabulary = Arr.makeBy(3000, () =>
  Arr.makeBy(2 + Math.floor(random() * 8), () => letters[Math.floor(letters.length * random() ** 2)]).join("")
)

/** Prose-like text, common words more often than rare ones: deflates to between a third and a half. */
const text = (size: number): Uint8Array => {
  const words: Array<string> = []
  for (let length = 0; length < size; ) {
    const word = vocabulary[Math.floor(vocabulary.length * random() ** 3)] ?? ""
    words.push(word, random() < 0.1 ? "\n" : " ")
    length += word.length + 1
  }
  return Buffer.from(words.join("").slice(0, size))
}

const binary = (size: number): Uint8Array => {
  const words = new Int32Array(size / 4)
  for (let index = 0; index < words.length; index++) words[index] = random() * 2 ** 32
  return new Uint8Array(words.buffer)
}

/** `count` files of `size` bytes, twenty to a skill. */
const skillFiles = (count: number, size: number): ReadonlyArray<Source> =>
  Arr.makeBy(count, (index) => {
    const skill = `skill-${String(Math.floor(index / 20)).padStart(3, "0")}`
    const name = index % 20 === 0 ? "SKILL.md" : `docs/page-${String(index % 20).padStart(3, "0")}.md`
    return { path: `${skill}/${name}`, bytes: text(size) }
  })

const sha256Hex = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

const manifestOf = (sources: ReadonlyArray<Source>): Source => {
  const skills = Object.entries(Arr.groupBy(sources, ({ path }) => path.slice(0, path.indexOf("/"))))
  const manifest = {
    schemaVersion: 1,
    revision: "r1",
    skills: skills.map(([name, files]) => ({
      name,
      description: `What ${name} is good for, and when to use it.`,
      files: files.map(({ bytes, path }) => ({
        path: path.slice(name.length + 1),
        size: bytes.length,
        sha256: sha256Hex(bytes)
      }))
    }))
  }
  return { path: "manifest.json", bytes: Buffer.from(JSON.stringify(manifest)) }
}

/** An archive as common tools write one, with the compression that Node's zlib gives by default. */
const zip = (sources: ReadonlyArray<Source>, deflated: boolean) => {
  const locals: Array<Uint8Array> = []
  const centrals: Array<Uint8Array> = []
  const entries: Array<StoredEntry> = []
  let offset = 0
  for (const { bytes, path } of sources) {
    const name = Buffer.from(path)
    const data = deflated ? deflateRawSync(bytes) : bytes
    // From "version needed" to "extra field length", which both headers have in common.
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(deflated ? 8 : 0, 4)
    common.writeUInt16LE(0x21, 8)
    common.writeUInt32LE(crc32(bytes), 10)
    common.writeUInt32LE(data.length, 14)
    common.writeUInt32LE(bytes.length, 18)
    common.writeUInt16LE(name.length, 22)
    const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, name, data])
    const placement = Buffer.alloc(14)
    placement.writeUInt32LE(offset, 10)
    centrals.push(Buffer.concat([Buffer.from("PK\x01\x02"), Buffer.from([20, 0]), common, placement, name]))
    locals.push(local)
    entries.push({ deflated, data: new Uint8Array(data) })
    offset += local.length
  }
  const directory = Buffer.concat(centrals)
  const end = Buffer.alloc(22)
  end.write("PK\x05\x06")
  end.writeUInt16LE(sources.length, 8)
  end.writeUInt16LE(sources.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return { archive: new Uint8Array(Buffer.concat([...locals, directory, end])), entries }
}

const makeShape = (name: string, files: ReadonlyArray<Source>, deflated = true): Shape => {
  const manifest = manifestOf(files)
  const { archive, entries } = zip([manifest, ...files], deflated)
  return {
    name,
    response: { revision: "r1", etag: `"${sha256Hex(archive)}"`, contentType: "application/zip", archive },
    entries,
    files: files.length,
    decodedBytes: files.reduce((total, { bytes }) => total + bytes.length, manifest.bytes.length)
  }
}

/** Built on use: the large ones take memory that a measurement of another must not see. */
export const shapes = {
  tiny: () =>
    makeShape("tiny", [
      { path: "greeting/SKILL.md", bytes: text(60) },
      { path: "greeting/docs/note.md", bytes: text(40) }
    ]),
  typical: () => makeShape("typical", skillFiles(60, 5 * kibibyte)),
  many: () => makeShape("many", skillFiles(995, 1650)),
  "large text": () => makeShape("large text", skillFiles(60, 512 * kibibyte - 400)),
  "large binary, stored": () =>
    makeShape(
      "large binary, stored",
      [
        { path: "model/SKILL.md", bytes: text(2 * kibibyte) },
        { path: "model/weights.bin", bytes: binary(30 * mebibyte) }
      ],
      false
    ),
  "large single file": () =>
    makeShape("large single file", [
      { path: "book/SKILL.md", bytes: text(2 * kibibyte) },
      { path: "book/book.txt", bytes: text(30 * mebibyte) }
    ])
} as const satisfies Record<string, () => Shape>

export type ShapeName = keyof typeof shapes

/**
 * The floor: what any verification must at least do, with Node's own functions, one after another: SHA-256 of the archive,
 * and for each entry inflating and SHA-256.
 */
export const floor = ({ entries, response }: Shape): ReadonlyArray<string> => [
  sha256Hex(response.archive),
  ...entries.map(({ data, deflated }) => sha256Hex(deflated ? inflateRawSync(data) : data))
]
