import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import * as fc from "fast-check"
import * as ArchivePath from "../../src/archive/ArchivePath.js"
import { crc32 } from "../../src/archive/Crc32.js"
import * as Digest from "../../src/archive/Digest.js"
import * as ZipReader from "../../src/archive/ZipReader.js"
import * as ZipWriter from "../../src/archive/ZipWriter.js"
import { check } from "../support/Seed.js"

const limits: ZipReader.ZipLimits = { archiveBytes: 1 << 20, decodedBytes: 1 << 20, entries: 100 }
const utf8 = (text: string) => new TextEncoder().encode(text)

const sample: ReadonlyArray<ZipWriter.ZipFile> = [
  { path: "docs/grüße.md", bytes: utf8("Guten Tag. ".repeat(50)) },
  { path: "10", bytes: utf8("ten") },
  { path: "9", bytes: new Uint8Array(0) },
  { path: "__proto__", bytes: utf8("just a name") },
  { path: "\u{10000}", bytes: utf8("after U+E000") },
  { path: "\ue000", bytes: utf8("before U+10000") }
]

describe("write", () => {
  it.effect("is read back, in UTF-8 byte order of the paths", () =>
    Effect.gen(function* () {
      const entries = yield* ZipReader.read(ZipWriter.write(sample), limits)
      expect(entries.map((entry) => entry.path)).toEqual([
        "10",
        "9",
        "__proto__",
        "docs/grüße.md",
        "\ue000",
        "\u{10000}"
      ])
      for (const file of sample) {
        expect(entries.find((entry) => entry.path === file.path)).toEqual({ ...file, isDirectory: false })
      }
    })
  )

  const path = fc
    .array(
      fc.string({
        unit: fc.oneof(
          fc.constantFrom("a", "b", ".", "\ue000", "\u{10000}"),
          fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 })
        ),
        minLength: 1,
        maxLength: 5
      }),
      { minLength: 1, maxLength: 3 }
    )
    .map((components) => components.join("/"))
    .filter(ArchivePath.isSafe)
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 100 }),
    fc.tuple(fc.nat(255), fc.nat(2000)).map(([byte, length]) => new Uint8Array(length).fill(byte))
  )
  const files = fc.uniqueArray(fc.record({ path, bytes }), { maxLength: 8, selector: (file) => file.path })

  it("is read back for any files", { timeout: 60_000 }, () =>
    check([files], async (some) => {
      const entries = await Effect.runPromise(ZipReader.read(ZipWriter.write(some), limits))
      const sorted = some.toSorted((left, right) => Buffer.compare(Buffer.from(left.path), Buffer.from(right.path)))
      expect(entries).toEqual(sorted.map((file) => ({ ...file, isDirectory: false })))
    })
  )

  it("gives the same bytes for any order of the files", { timeout: 60_000 }, () =>
    check(
      [files.chain((some) => fc.tuple(fc.constant(some), fc.shuffledSubarray(some, { minLength: some.length })))],
      ([some, shuffled]) => {
        expect(ZipWriter.write(shuffled)).toEqual(ZipWriter.write(some))
      }
    )
  )

  // Fixtures and their digests hang on this: another value is a breaking change.
  it("gives bytes that are fixed for good", () => {
    expect(Digest.sha256HexSync(ZipWriter.write(sample))).toBe(
      "62739904abfb1fe4259ce94b90a99202b157d16d49e6943f56d3fae36a26c98a"
    )
  })

  const large: ReadonlyArray<ZipWriter.ZipFile> = [
    { path: "text", bytes: utf8("Guten Tag. ".repeat(100_000)) },
    {
      path: "noise",
      bytes: Uint8Array.from({ length: 600_000 }, (_, index) => Math.imul(index, index * 31 + 7) >>> 13)
    }
  ]

  it.effect("gives bytes that are fixed for good of files that are deflated in chunks, packed in turns too", () =>
    Effect.gen(function* () {
      const archive = ZipWriter.write(large)
      expect(Digest.sha256HexSync(archive)).toBe("81e8b316cfd1f9e32daed94007118776d7708abd485c3ce00a7d10714447068d")
      expect(Digest.sha256HexSync(yield* ZipWriter.pack(large))).toBe(
        "81e8b316cfd1f9e32daed94007118776d7708abd485c3ce00a7d10714447068d"
      )
      expect(Digest.sha256HexSync(yield* ZipWriter.pack(sample))).toBe(Digest.sha256HexSync(ZipWriter.write(sample)))
      const entries = yield* ZipReader.read(archive, { ...limits, archiveBytes: 1 << 21, decodedBytes: 1 << 21 })
      expect(entries.map(({ bytes }) => Digest.sha256HexSync(bytes))).toEqual(
        large.toReversed().map(({ bytes }) => Digest.sha256HexSync(bytes))
      )
      // Others read it by its CRC-32.
      const { members } = yield* ZipReader.readMembers(archive, { archiveBytes: 1 << 21, entries: 2 })
      expect(members[0]?.crc).toBe(crc32(large[1]?.bytes ?? new Uint8Array(0)))
    })
  )

  it.effect("lets other work run while it packs, and can be interrupted", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(ZipWriter.pack(large))
      yield* Effect.yieldNow()
      expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
    })
  )

  it.each(["../a", "/a", "a\\b", "a//b", "", "a/", "\ud800"])("refuses the unsafe path %j", (unsafe) => {
    expect(() => ZipWriter.write([{ path: unsafe, bytes: new Uint8Array(0) }])).toThrow("ZipWriter: unsafe path")
  })

  it("refuses two files with one path", () => {
    const file = { path: "a", bytes: new Uint8Array(0) }
    expect(() => ZipWriter.write([file, { path: "b", bytes: new Uint8Array(0) }, file])).toThrow(
      'ZipWriter: two files with the path "a"'
    )
  })

  it("refuses more files than a plain end record counts", () => {
    const many = Array.from({ length: 0xffff }, (_, index) => ({ path: `${index}`, bytes: new Uint8Array(0) }))
    expect(() => ZipWriter.write(many)).toThrow("ZipWriter: the archive would need ZIP64")
  })
})
