import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { deflateRawSync } from "node:zlib"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Exit, Fiber } from "effect"
import * as fc from "fast-check"
import { sliceBytes, yieldToEventLoop } from "#codec"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as ZipReader from "../../src/archive/ZipReader.js"
import * as ZipWriter from "../../src/archive/ZipWriter.js"
import { run } from "../support/Program.js"
import { check, seed } from "../support/Seed.js"
import { turnsDuring } from "../support/Turns.js"

const limits: ZipReader.ZipLimits = { archiveBytes: 1 << 20, decodedBytes: 1 << 20, entries: 100 }

/** For archives whose size is the point. */
const large: ZipReader.ZipLimits = { archiveBytes: 32 << 20, decodedBytes: 32 << 20, entries: 1000 }

const utf8 = (text: string) => new TextEncoder().encode(text)
const content = utf8("Say hello. ".repeat(20))
const deflatedContent = RawZip.build({ entries: [{ name: "a", content, method: 8 }] })

/** The check that the archive breaks, or `valid`. */
const verdict = (archive: Uint8Array, within: ZipReader.ZipLimits = limits) =>
  Effect.map(Effect.either(ZipReader.read(archive, within)), (result) =>
    Either.match(result, { onLeft: (error): string => error.check, onRight: () => "valid" })
  )

const names = (archive: Uint8Array) =>
  Effect.map(ZipReader.read(archive, limits), (entries) => entries.map((entry) => entry.path))

const one = (entry: Partial<RawZip.RawEntry>): RawZip.RawArchive => ({ entries: [{ name: "a", content, ...entry }] })
const named = (...paths: ReadonlyArray<string>): RawZip.RawArchive => ({ entries: paths.map((name) => ({ name })) })
const bytes = (...values: ReadonlyArray<number>) => Uint8Array.from(values)

const endSignature = bytes(0x50, 0x4b, 0x05, 0x06)
const emptyEndRecord = RawZip.build({ entries: [] })
const deflateData = (text: Uint8Array) => {
  const built = RawZip.build({ entries: [{ name: "", content: text, method: 8 }] })
  return built.slice(30, 30 + new DataView(built.buffer).getUint32(18, true))
}
const deflated = deflateData(content)

/** `size + size / 8 + 64 KiB`, as whole stored blocks of nothing and the stream itself make it up. */
const longestDeflate = content.length + Math.floor(content.length / 8) + 64 * 1024

/** The stream of `content`, led by stored blocks of nothing until it is `length` bytes long, give or take a block. */
const padded = (length: number) =>
  RawZip.concat([...new Array(Math.floor((length - deflated.length) / 5)).fill(bytes(0, 0, 0, 0xff, 0xff)), deflated])

/** The central directory of an archive without a comment. */
const directoryOf = (archive: RawZip.RawArchive) => {
  const built = RawZip.build(archive)
  return built.slice(new DataView(built.buffer).getUint32(built.length - 6, true), built.length - 22)
}

/** A CRC, which nobody reads, and two sizes. */
const descriptorOf = (...sizes: readonly [compressed: number, decoded: number]) =>
  RawZip.concat([bytes(1, 2, 3, 4), ...sizes.map((size) => bytes(size, 0, 0, 0))])
const wideDescriptorOf = (...sizes: readonly [compressed: number, decoded: number]) =>
  RawZip.concat([bytes(1, 2, 3, 4), ...sizes.map((size) => bytes(size, 0, 0, 0, 0, 0, 0, 0))])

/** Of 64 MiB of zeros as much of a deflate stream as is taken for a few bytes. */
const bomb = () => deflateRawSync(new Uint8Array(64 << 20)).subarray(0, 64 * 1024)

/** What each archive is, the archive, and the verdict. */
type Case = readonly [description: string, archive: RawZip.RawArchive, verdict: ZipReader.ZipCheck | "valid"]

const cases: Readonly<Record<string, ReadonlyArray<Case>>> = {
  "end record": [
    ["an empty archive", { entries: [] }, "valid"],
    ["a comment", { ...one({}), comment: utf8("hello") }, "valid"],
    ["the longest comment", { ...one({}), comment: new Uint8Array(0xffff) }, "valid"],
    ["a stored archive inside the last entry", one({ content: deflatedContent }), "valid"],
    ["a prefix before the first entry", { ...one({}), prefix: utf8("#!/bin/sh\n") }, "valid"],
    ["a comment that ends like a signature starts", { ...one({}), comment: utf8("hello P") }, "valid"],
    ["no end record", { ...one({}), end: { signature: 0x06054b51 } }, "end-record"],
    ["bytes after the end record", { ...one({}), trailing: bytes(0) }, "end-record"],
    ["bytes after the comment", { ...one({}), comment: utf8("hello"), trailing: utf8("!") }, "end-record"],
    ["a comment shorter than it says", { ...one({}), comment: utf8("hello"), end: { commentLength: 6 } }, "end-record"],
    ["a whole end record in the comment", { ...one({}), comment: emptyEndRecord }, "archive-comment"],
    [
      "a signature in the comment",
      { ...one({}), comment: RawZip.concat([endSignature, new Uint8Array(40)]) },
      "archive-comment"
    ],
    ["a signature at the comment's end", { ...one({}), comment: endSignature }, "archive-comment"],
    [
      "an end record inside the comment that does not reach the end",
      { ...one({}), comment: RawZip.concat([emptyEndRecord, bytes(1)]) },
      "archive-comment"
    ],
    ["a directory that runs into the end record", { ...one({}), end: { directorySize: 48 } }, "end-record"],
    ["a directory past the end", { ...one({}), end: { directoryStart: 0xfffffff0 } }, "end-record"]
  ],
  "split archives": [
    ["another disk", { ...one({}), end: { disk: 1 } }, "split-archive"],
    ["a directory on another disk", { ...one({}), end: { directoryDisk: 1 } }, "split-archive"],
    ["fewer entries on this disk", { ...named("a", "b"), end: { entriesOnDisk: 1 } }, "split-archive"],
    ["an entry on another disk", one({ central: { disk: 1 } }), "split-archive"],
    ["a ZIP64 locator of several disks", { ...one({}), zip64: { locator: { disks: 2 } } }, "split-archive"],
    ["a ZIP64 end record on another disk", { ...one({}), zip64: { locator: { disk: 1 } } }, "split-archive"],
    [
      "another disk in the ZIP64 end record",
      { ...one({}), zip64: { record: { disk: 1 } }, end: { disk: 0xffff } },
      "split-archive"
    ]
  ],
  "central directory": [
    [
      "a header cut off by its end",
      { ...one({}), afterDirectory: utf8("PK\u0001\u0002"), end: { entries: 2, entriesOnDisk: 2, directorySize: 51 } },
      "central-directory"
    ],
    ["a gap behind it", { ...one({}), afterDirectory: bytes(0, 0) }, "central-directory"],
    ["a gap before the ZIP64 end record", { ...one({}), zip64: {}, afterDirectory: bytes(0, 0) }, "central-directory"],
    ["another directory behind it", { ...one({}), afterDirectory: directoryOf(one({})) }, "central-directory"],
    ["a comment on an entry", one({ central: { comment: utf8("hello") } }), "valid"],
    ["another signature", one({ central: { signature: 0x02014b51 } }), "central-directory"],
    ["fewer headers than counted", { ...one({}), end: { entries: 2, entriesOnDisk: 2 } }, "central-directory"],
    ["more headers than counted", { ...named("a", "b"), end: { entries: 1, entriesOnDisk: 1 } }, "central-directory"],
    ["a size too small", { ...one({}), end: { directorySize: 46 } }, "central-directory"],
    ["a start that is not its own", { ...one({}), end: { directoryStart: 1 } }, "central-directory"],
    ["a name that runs out of it", one({ central: { nameLength: 2 } }), "central-directory"],
    ["an extra field that runs out of it", one({ central: { extraLength: 1 } }), "central-directory"],
    ["a comment that runs out of it", one({ central: { commentLength: 1 } }), "central-directory"]
  ],
  ZIP64: [
    ["an end record with every field widened", { ...one({}), zip64: {} }, "valid"],
    [
      "an end record that repeats the plain one",
      { ...one({}), zip64: {}, end: { entriesOnDisk: 1, entries: 1, directorySize: 47 } },
      "valid"
    ],
    ["sizes and offset of an entry", one({ zip64: true }), "valid"],
    ["sizes in the descriptor", one({ zip64: true, descriptor: "signed64" }), "valid"],
    [
      "only the size, in the central directory",
      one({ central: { size: 0xffffffff, extra: RawZip.zip64Extra(content.length) } }),
      "valid"
    ],
    [
      "fields repeated that are not widened",
      one({ central: { extra: RawZip.zip64Extra(content.length, content.length, 0) } }),
      "valid"
    ],
    ["a marker without a locator", { ...one({}), end: { directoryStart: 0xffffffff } }, "zip64"],
    ["an entry count without a locator", { ...one({}), end: { entries: 0xffff, entriesOnDisk: 0xffff } }, "zip64"],
    ["a directory size without a locator", { ...one({}), end: { directorySize: 0xffffffff } }, "zip64"],
    ["another disk in the plain record", { ...one({}), zip64: {}, end: { disk: 1 } }, "zip64"],
    ["another directory disk in the plain record", { ...one({}), zip64: {}, end: { directoryDisk: 1 } }, "zip64"],
    ["another count on this disk in the plain record", { ...one({}), zip64: {}, end: { entriesOnDisk: 2 } }, "zip64"],
    ["another count in the plain record", { ...one({}), zip64: {}, end: { entries: 2 } }, "zip64"],
    ["another size in the plain record", { ...one({}), zip64: {}, end: { directorySize: 46 } }, "zip64"],
    ["another start in the plain record", { ...one({}), zip64: {}, end: { directoryStart: 1 } }, "zip64"],
    ["another signature of the end record", { ...one({}), zip64: { record: { signature: 0x06064b51 } } }, "zip64"],
    ["an end record that ends before the locator", { ...one({}), zip64: { record: { recordSize: 43 } } }, "zip64"],
    ["an end record past the locator", { ...one({}), zip64: { locator: { recordStart: 1 << 20 } } }, "zip64"],
    [
      "an end record far past the end",
      { ...one({}), zip64: { locator: { recordStart: Number.MAX_SAFE_INTEGER } } },
      "zip64"
    ],
    [
      "a directory start far past the end",
      { ...one({}), zip64: { record: { directoryStart: Number.MAX_SAFE_INTEGER } } },
      "end-record"
    ],
    ["a size marker without the field", one({ central: { size: 0xffffffff } }), "zip64"],
    ["a local size marker without the field", one({ local: { size: 0xffffffff } }), "zip64"],
    [
      "an offset marker with sizes only in the field",
      one({ central: { start: 0xffffffff, extra: RawZip.zip64Extra(content.length, content.length) } }),
      "zip64"
    ],
    [
      "a field that runs into the data",
      one({
        content: RawZip.zip64Extra(16, 16).slice(4),
        local: { size: 0xffffffff, compressedSize: 0xffffffff, extra: bytes(1, 0, 16, 0) }
      }),
      "zip64"
    ],
    ["a field too short", one({ zip64: true, central: { extra: RawZip.zip64Extra(content.length) } }), "zip64"],
    [
      "a field too long",
      one({ zip64: true, central: { extra: RawZip.zip64Extra(content.length, content.length, 0, 0) } }),
      "zip64"
    ],
    [
      "two fields",
      one({
        zip64: true,
        central: {
          extra: RawZip.concat([
            RawZip.zip64Extra(content.length, content.length, 0),
            RawZip.zip64Extra(content.length, content.length, 0)
          ])
        }
      }),
      "zip64"
    ],
    [
      "a field that contradicts the header",
      one({ central: { extra: RawZip.zip64Extra(content.length + 1, content.length) } }),
      "zip64"
    ],
    [
      "an offset past the end",
      one({ zip64: true, central: { extra: RawZip.zip64Extra(content.length, content.length, 2 ** 40) } }),
      "overlap"
    ]
  ],
  methods: [
    ["stored", one({}), "valid"],
    ["deflated", one({ method: 8 }), "valid"],
    ["deflate64", one({ method: 9 }), "method"],
    ["zstd", one({ method: 93 }), "method"],
    ["encrypted", one({ flags: 0x0001 }), "encrypted"],
    ["strongly encrypted", one({ flags: 0x0040 }), "encrypted"],
    ["with masked headers", one({ flags: 0x2000 }), "encrypted"]
  ],
  names: [
    ["a component of dots and letters", named("..a/.b/c.."), "valid"],
    ["a colon behind the first two characters", named("ab:c"), "valid"],
    ["non-ASCII without the flag", named("grüße"), "valid"],
    ["the flag on an ASCII name", one({ flags: 0x0800 }), "valid"],
    [
      "a Unicode path extra field with another name",
      one({ central: { extra: RawZip.extraField(0x7075, utf8("\u0001xxxxb")) } }),
      "valid"
    ],
    ["two forms of the same character", named("\u00e9", "e\u0301"), "valid"],
    ["two cases of the same letter", named("a", "A"), "valid"],
    ["an empty name", named(""), "entry-path"],
    ["a name that is one slash", named("/"), "entry-path"],
    ["an absolute path", named("/a"), "entry-path"],
    ["an empty component", named("a//b"), "entry-path"],
    ["a directory with two slashes", named("a//"), "entry-path"],
    ["a dot", named("./a"), "entry-path"],
    ["a parent", named("a/../b"), "entry-path"],
    ["a parent as directory", named("../"), "entry-path"],
    ["a backslash", named("a\\b"), "entry-path"],
    ["a drive", named("c:a"), "entry-path"],
    ["a drive as directory", named("C:/"), "entry-path"],
    ["a zero byte", named("a\u0000b"), "entry-path"],
    ["a control character of Latin-1", named("a\u0085b"), "entry-path"],
    ["a delete character", named("a\u007fb"), "entry-path"],
    ["bytes that are not UTF-8", one({ name: bytes(0x61, 0xff) }), "entry-name"],
    ["an overlong slash", one({ name: bytes(0x61, 0xc0, 0xaf, 0x62) }), "entry-name"],
    ["an encoded surrogate", one({ name: bytes(0xed, 0xa0, 0x80) }), "entry-name"],
    [
      "Latin-1 with another name in an extra field",
      one({ name: bytes(0xe9), central: { extra: RawZip.extraField(0x7075, utf8("\u0001xxxxb")) } }),
      "entry-name"
    ],
    ["a file named like another with a letter more", named("ab", "a"), "valid"],
    ["the same name twice", named("a", "b", "a"), "duplicate-entry"],
    ["the same directory twice", named("a/", "a/"), "duplicate-entry"],
    ["a file beside a directory", named("a", "a/"), "file-and-directory"],
    ["a directory beside a file", named("a/", "a"), "file-and-directory"],
    ["a file beside files below it", named("a", "a/b"), "valid"]
  ],
  types: [
    ["a regular file", one({ mode: 0o100600 }), "valid"],
    ["no type bits", one({ mode: 0 }), "valid"],
    ["permissions without type bits", one({ mode: 0o644 }), "valid"],
    ["a directory", { entries: [{ name: "a/", mode: 0o040755 }] }, "valid"],
    ["a directory without type bits", { entries: [{ name: "a/", mode: 0 }] }, "valid"],
    ["a symbolic link", one({ mode: 0o120777 }), "entry-type"],
    ["a symbolic link made by FAT", one({ mode: 0o120777, central: { madeBy: 20 } }), "entry-type"],
    ["a device", one({ mode: 0o020644 }), "entry-type"],
    ["a pipe", one({ mode: 0o010644 }), "entry-type"],
    ["a socket", one({ mode: 0o140644 }), "entry-type"],
    ["a directory's bits on a file", one({ mode: 0o040755 }), "entry-type"],
    ["a file's bits on a directory", { entries: [{ name: "a/", mode: 0o100644 }] }, "entry-type"],
    ["a deflated directory without bytes", { entries: [{ name: "a/", method: 8 }] }, "valid"],
    ["a directory with bytes", { entries: [{ name: "a/", content }] }, "directory-bytes"],
    ["a directory with deflated bytes", { entries: [{ name: "a/", content, method: 8 }] }, "directory-bytes"],
    ["a directory with bytes that it does not declare", { entries: [{ name: "a/", data: content }] }, "directory-bytes"]
  ],
  "local headers": [
    [
      "another time, version, CRC and extra field",
      one({ local: { time: 1, versionNeeded: 10, crc: 1, extra: RawZip.extraField(0x5455, bytes(0)) } }),
      "valid"
    ],
    ["a wrong CRC in both", one({ local: { crc: 1 }, central: { crc: 1 } }), "valid"],
    ["another signature", one({ local: { signature: 0x04034b51 } }), "local-header"],
    ["other flags", one({ local: { flags: 0x0800 } }), "local-header"],
    ["another method", one({ local: { method: 8 } }), "local-header"],
    ["another name", one({ local: { name: "b" } }), "local-header"],
    ["a longer name", one({ local: { name: "ab" } }), "local-header"],
    ["another size", one({ local: { size: content.length - 1 } }), "local-header"],
    ["another compressed size", one({ local: { compressedSize: content.length - 1 } }), "local-header"],
    [
      "another size in its ZIP64 field",
      one({ zip64: true, local: { extra: RawZip.zip64Extra(content.length + 1, content.length) } }),
      "local-header"
    ]
  ],
  "data descriptors": [
    ["with signature", one({ method: 8, descriptor: "signed" }), "valid"],
    ["without signature", one({ method: 8, descriptor: "unsigned" }), "valid"],
    ["with signature, 8-byte sizes", one({ method: 8, descriptor: "signed64" }), "valid"],
    ["without signature, 8-byte sizes", one({ method: 8, descriptor: "unsigned64" }), "valid"],
    ["behind stored data", one({ descriptor: "signed" }), "valid"],
    [
      "behind each of two entries",
      {
        entries: [
          { name: "a", content, method: 8, descriptor: "unsigned" },
          { name: "b", content, descriptor: "signed" }
        ]
      },
      "valid"
    ],
    [
      "with a wrong CRC",
      one({ descriptor: RawZip.concat([bytes(1, 2, 3, 4, content.length, 0, 0, 0, content.length, 0, 0, 0)]) }),
      "valid"
    ],
    ["missing", one({ descriptor: new Uint8Array(0) }), "data-descriptor"],
    ["with other sizes", one({ descriptor: new Uint8Array(16) }), "data-descriptor"],
    ["with another compressed size", one({ descriptor: descriptorOf(1, content.length) }), "data-descriptor"],
    ["with another size", one({ descriptor: descriptorOf(content.length, 1) }), "data-descriptor"],
    [
      "with another compressed size of 8 bytes",
      one({ descriptor: wideDescriptorOf(1, content.length) }),
      "data-descriptor"
    ],
    ["with another size of 8 bytes", one({ descriptor: wideDescriptorOf(content.length, 1) }), "data-descriptor"],
    [
      "with another signature",
      one({ descriptor: RawZip.concat([utf8("PK\u0007\u0009"), descriptorOf(content.length, content.length)]) }),
      "data-descriptor"
    ],
    [
      "cut off by the directory",
      one({ descriptor: bytes(1, 2, 3, 4, content.length, 0, 0, 0, content.length, 0, 0) }),
      "data-descriptor"
    ]
  ],
  overlaps: [
    [
      "a gap between entries",
      {
        entries: [
          { name: "a", content },
          { name: "b", content, gap: bytes(1, 2, 3) }
        ]
      },
      "valid"
    ],
    ["a gap before the directory", { ...one({}), beforeDirectory: bytes(1, 2, 3) }, "valid"],
    ["a directory in another order", { ...named("a", "b"), directoryOrder: [1, 0] }, "valid"],
    [
      "two names for one local header",
      {
        entries: [
          { name: "a", content },
          { name: "a", content, centralOnly: true, central: { start: 0, name: "b" } }
        ]
      },
      "local-header"
    ],
    [
      "data that holds the next entry",
      {
        entries: [
          { name: "a", data: RawZip.build(named("b")), content: RawZip.build(named("b")) },
          { name: "b", centralOnly: true, central: { start: 31 } }
        ]
      },
      "overlap"
    ],
    ["a local header behind the directory", one({ central: { start: 1000 } }), "overlap"],
    ["a local header that runs into the directory", { entries: [{ name: "a", central: { start: 25 } }] }, "overlap"],
    [
      "data that runs into the directory",
      one({ local: { size: 300, compressedSize: 300 }, central: { size: 300, compressedSize: 300 } }),
      "overlap"
    ],
    [
      "data that runs far past the end",
      one({ method: 8, local: { compressedSize: 0xfffffffe }, central: { compressedSize: 0xfffffffe } }),
      "overlap"
    ]
  ],
  data: [
    ["an empty deflate stream", one({ content: new Uint8Array(0), method: 8 }), "valid"],
    [
      "no deflate stream at all",
      one({ content: new Uint8Array(0), data: new Uint8Array(0), method: 8 }),
      "deflate-stream"
    ],
    ["a deflate stream that ends early", one({ method: 8, data: deflated.slice(0, -1) }), "deflate-stream"],
    ["a byte behind a deflate stream", one({ method: 8, data: RawZip.concat([deflated, bytes(0)]) }), "deflate-stream"],
    ["two deflate streams", one({ method: 8, data: RawZip.concat([deflated, deflated]) }), "deflate-stream"],
    ["bytes that are no deflate stream", one({ method: 8, data: bytes(0xff, 0xff, 0xff) }), "deflate-stream"],
    ["a deflate stream of fewer bytes", one({ method: 8, data: deflateData(content.slice(1)) }), "entry-size"],
    [
      "a deflate stream of more bytes",
      one({ method: 8, data: deflateData(RawZip.concat([content, bytes(0)])) }),
      "entry-size"
    ],
    ["the longest deflate stream", one({ method: 8, data: padded(longestDeflate) }), "valid"],
    ["a deflate stream padded beyond need", one({ method: 8, data: padded(longestDeflate + 5) }), "deflate-stream"],
    ["stored data of another size", one({ local: { size: 5 }, central: { size: 5 } }), "entry-size"]
  ]
}

describe.each(Object.entries(cases))("%s", (_, table) => {
  it.effect.each(table)("%s", ([, archive, expected]) =>
    Effect.map(verdict(RawZip.build(archive)), (got) => expect(got).toBe(expected))
  )
})

describe("names too long to be hashed", () => {
  const long = "a".repeat(20_000)

  it.live("are told apart, in turns between which other work runs", () =>
    Effect.gen(function* () {
      const archive = RawZip.build(named(...Array.from({ length: 300 }, (_, index) => `${long}${index + 100}`)))
      expect(yield* turnsDuring(ZipReader.read(archive, large))).toBeGreaterThanOrEqual(
        300 * (long.length / sliceBytes) - 2
      )
    })
  )

  it.effect("are still refused twice, and beside a directory of the same name", () =>
    Effect.gen(function* () {
      expect(yield* verdict(RawZip.build(named(long, long)))).toBe("duplicate-entry")
      expect(yield* verdict(RawZip.build(named(long, `${long}/`)))).toBe("file-and-directory")
    })
  )
})

it.live("small entries padded with blocks of nothing leave the event loop free as often as they cost", () =>
  Effect.gen(function* () {
    const entries = (data: Uint8Array) =>
      RawZip.build({
        entries: Array.from({ length: 50 }, (_, index) => ({ name: `${index}`, content, method: 8, data }))
      })
    expect(yield* turnsDuring(ZipReader.read(entries(deflated), large))).toBe(0)
    // Each of them costs a slice or more.
    expect(yield* turnsDuring(ZipReader.read(entries(padded(longestDeflate)), large))).toBeGreaterThanOrEqual(49)
  })
)

describe("every check", () => {
  it("has a case that breaks it", () => {
    const bounds = ["archive-size", "entry-count", "decoded-size"]
    const broken = Object.values(cases).flatMap((table) => table.map(([, , expected]) => expected))
    expect(ZipReader.ZipCheck.literals.filter((literal) => !broken.includes(literal))).toEqual(bounds)
  })
})

describe("read", () => {
  it.effect("gives entries in the order of the directory, with names as stored", () =>
    Effect.gen(function* () {
      const archive = RawZip.build({ ...named("b", "\uFEFFa", "d/", "d/\u{10000}"), directoryOrder: [3, 0, 2, 1] })
      expect(yield* names(archive)).toEqual(["d/\u{10000}", "b", "d/", "\uFEFFa"])
    })
  )

  it.effect("names the entry, escaped and cut, and tells nothing else", () =>
    Effect.gen(function* () {
      const name = `\u001b[31m"\u202e${"x".repeat(300)}`
      const error = yield* Effect.flip(ZipReader.read(RawZip.build(named(name)), limits))
      expect(error.check).toBe("entry-path")
      expect(error.entry).toBe(`\\u{1b}[31m\\u{22}\\u{202e}${"x".repeat(200 - 6 - 4 - 6 - 8)}`)
      expect(error.message).toBe(`The archive is not valid: entry-path at "${error.entry}"`)
    })
  )

  it.effect("gives plain arrays of their own, whatever the archive is", () =>
    Effect.gen(function* () {
      const archive = Buffer.from(
        RawZip.build({
          entries: [
            { name: "a", content },
            { name: "b", content, method: 8 }
          ]
        })
      )
      for (const entry of yield* ZipReader.read(archive, limits)) {
        const before = entry.bytes.slice()
        entry.bytes.slice().fill(0)
        expect(entry.bytes).toEqual(before)
        expect(Object.getPrototypeOf(entry.bytes)).toBe(Uint8Array.prototype)
      }
    })
  )

  it.effect("keeps bytes once: views into an archive that is mostly stored, copies out of one that is not", () =>
    Effect.gen(function* () {
      const random = Uint8Array.from({ length: 1000 }, (_, index) => (index * 7919) % 251)
      const mostly = RawZip.build({
        entries: [
          { name: "a", content: random },
          { name: "b", content, method: 8 }
        ]
      })
      const barely = RawZip.build({
        entries: [
          { name: "a", content },
          { name: "b", data: new Uint8Array(0), gap: new Uint8Array(2000) }
        ]
      })
      const buffersOf = (archive: Uint8Array) =>
        Effect.map(ZipReader.read(archive, limits), (entries) =>
          entries.map((entry) => entry.bytes.buffer === archive.buffer)
        )
      expect(yield* buffersOf(mostly)).toEqual([true, false])
      expect(yield* buffersOf(barely)).toEqual([false, false])
    })
  )

  it.effect("reads an archive inside a larger buffer", () =>
    Effect.gen(function* () {
      const archive = RawZip.build(one({ method: 8 }))
      const larger = RawZip.concat([bytes(9, 9, 9), archive, bytes(9)])
      const [entry] = yield* ZipReader.read(larger.subarray(3, 3 + archive.length), limits)
      expect(entry?.bytes).toEqual(content)
    })
  )
})

describe("bounds", () => {
  const archive = RawZip.build({
    entries: [{ name: "a/" }, { name: "a/b", content, method: 8 }, { name: "c", content }]
  })
  const exact = { archiveBytes: archive.length, decodedBytes: content.length * 2, entries: 3 }

  it.effect("hold at the limit and break one past it", () =>
    Effect.gen(function* () {
      expect(yield* verdict(archive, exact)).toBe("valid")
      expect(yield* verdict(archive, { ...exact, archiveBytes: exact.archiveBytes - 1 })).toBe("archive-size")
      expect(yield* verdict(archive, { ...exact, decodedBytes: exact.decodedBytes - 1 })).toBe("decoded-size")
      expect(yield* verdict(archive, { ...exact, entries: exact.entries - 1 })).toBe("entry-count")
    })
  )

  const contract = { archiveBytes: 32 << 20, decodedBytes: 32 << 20, entries: 1000 }

  it.live("of the contract: 1,000 entries, directories included", () =>
    Effect.gen(function* () {
      const paths = Array.from({ length: 1001 }, (_, index) => (index % 2 === 0 ? `d${index}/` : `f${index}`))
      expect(yield* verdict(RawZip.build(named(...paths.slice(1))), contract)).toBe("valid")
      expect(yield* verdict(RawZip.build(named(...paths)), contract)).toBe("entry-count")
    })
  )

  it.live("of the contract: 32 MiB of archive", () =>
    Effect.gen(function* () {
      const overhead = RawZip.build({ entries: [{ name: "a" }] }).length
      const build = (size: number) =>
        RawZip.build({ entries: [{ name: "a" }], prefix: new Uint8Array(size - overhead) })
      expect(yield* verdict(build(32 << 20), contract)).toBe("valid")
      expect(yield* verdict(build((32 << 20) + 1), contract)).toBe("archive-size")
    })
  )

  it.live("of the contract: 32 MiB decoded", () =>
    Effect.gen(function* () {
      const half = { content: new Uint8Array(16 << 20), method: 8 }
      const build = (rest: number) =>
        RawZip.build({
          entries: [
            { name: "a", ...half },
            { name: "b", ...half },
            { name: "c", content: new Uint8Array(rest) }
          ]
        })
      expect(yield* verdict(build(0), contract)).toBe("valid")
      expect(yield* verdict(build(1), contract)).toBe("decoded-size")
    })
  )

  // Measured by the kernel's high-water mark, in a process of its own.
  it.scopedLive.skipIf(process.platform !== "linux")("cost what is declared, not what is there", () =>
    Effect.gen(function* () {
      const directory = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "zip-reader-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const file = join(directory, "bomb.zip")
      const entry = { name: "a", content: new Uint8Array(10), data: bomb(), method: 8 }
      writeFileSync(file, RawZip.build({ entries: [entry] }))
      const { stdout } = yield* run("test/support/ZipReaderProcess.ts", { ARCHIVE: file })
      const { peak, verdict } = JSON.parse(stdout) as { readonly peak: number; readonly verdict: string }
      expect(verdict).toBe("entry-size")
      // Inflated chunk by chunk and thrown away, the bomb costs 20 MiB; kept, more than 64.
      expect(peak).toBeLessThan(10 << 20)
    })
  )

  it.effect("that the headers lie about are refused before anything is decoded", () =>
    Effect.gen(function* () {
      const lying = one({ method: 8, data: bytes(0xff), local: { size: 0x7fffffff }, central: { size: 0x7fffffff } })
      expect(yield* verdict(RawZip.build(lying))).toBe("decoded-size")
    })
  )
})

describe("long archives", () => {
  const long = RawZip.build({
    entries: Array.from({ length: 8 }, (_, index) => ({
      name: `${index}`,
      content: new Uint8Array(2 << 20),
      method: 8
    }))
  })
  const wide = { archiveBytes: 32 << 20, decodedBytes: 32 << 20, entries: 100 }

  /** Headers alone can fill an archive. */
  const headers = RawZip.build({
    entries: Array.from({ length: 100 }, (_, index) => ({
      name: `${index}`,
      central: { extra: RawZip.extraField(0x7777, new Uint8Array(60_000)) }
    }))
  })

  it.live.each([
    ["entries", long],
    ["headers", headers]
  ] as const)("let other work run while their %s are read", ([, archive]) =>
    Effect.gen(function* () {
      let turns = 0
      const other = yield* Effect.fork(
        Effect.forever(
          Effect.zipRight(
            yieldToEventLoop,
            Effect.sync(() => turns++)
          )
        )
      )
      expect(yield* verdict(archive, wide)).toBe("valid")
      yield* Fiber.interrupt(other)
      expect(turns).toBeGreaterThan(3)
    })
  )

  it.live("can be interrupted on the way", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(ZipReader.read(long, wide))
      yield* yieldToEventLoop
      expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
    })
  )
})

describe(`hostile archives (seed ${seed})`, () => {
  const originals = [
    RawZip.build({
      entries: [{ name: "manifest.json", content, method: 8 }, { name: "d/" }, { name: "d/é", content }]
    }),
    RawZip.build({
      entries: [{ name: "a", content, method: 8, descriptor: "signed" }],
      comment: utf8("hello"),
      zip64: {}
    }),
    RawZip.build({
      entries: [
        { name: "a", content, zip64: true },
        { name: "b", content, method: 8, zip64: true, descriptor: "signed64" }
      ],
      zip64: {}
    }),
    ZipWriter.write([
      { path: "x", bytes: content },
      { path: "y/z", bytes: new Uint8Array(0) }
    ])
  ]

  /** Whatever the bytes, the reader gives a verdict: a defect or an interruption would fail this. */
  const settles = async (archive: Uint8Array) => {
    const exit = await Effect.runPromiseExit(Effect.either(ZipReader.read(archive, large)))
    expect(Exit.isSuccess(exit)).toBe(true)
    if (Exit.isSuccess(exit) && Either.isRight(exit.value)) {
      const total = exit.value.right.reduce((sum, entry) => sum + entry.bytes.length, 0)
      expect(total).toBeLessThanOrEqual(limits.decodedBytes)
    }
  }

  it("of any bytes get a verdict", () => check([fc.uint8Array({ maxLength: 300 })], settles, { numRuns: 500 }))

  it("with bytes changed get a verdict", { timeout: 60_000 }, () =>
    check(
      [fc.constantFrom(...originals), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 })],
      (original, changes) => {
        const archive = original.slice()
        for (const [at, byte] of changes) archive[at % archive.length] = byte
        return settles(archive)
      },
      { numRuns: 3000 }
    )
  )

  it("cut, repeated or with parts moved get a verdict", { timeout: 60_000 }, () =>
    check(
      [fc.constantFrom(...originals), fc.nat(), fc.nat(), fc.nat()],
      (original, from, to, at) => {
        const part = original.slice(from % original.length, to % original.length)
        const split = at % original.length
        return settles(RawZip.concat([original.slice(0, split), part, original.slice(split)]))
      },
      { numRuns: 1000 }
    )
  )

  it("with any 32-bit field set to a special value get a verdict", { timeout: 60_000 }, () =>
    check(
      [fc.constantFrom(...originals), fc.nat(), fc.constantFrom(0, 1, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff)],
      (original, at, value) => {
        const archive = original.slice()
        new DataView(archive.buffer).setUint32(at % (archive.length - 4), value, true)
        return settles(archive)
      },
      { numRuns: 2000 }
    )
  )
})
