import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Either, Stream } from "effect"
import * as fc from "fast-check"
import * as Frames from "../../src/runner/Frames.js"
import { check } from "../support/Seed.js"

const encode = (text: string) => new TextEncoder().encode(text)

const splitStream = (maximumBytes: number | undefined, bytes: Stream.Stream<Uint8Array>) =>
  bytes.pipe(
    Frames.split(maximumBytes),
    Stream.map(Either.getOrElse(({ _tag }) => ({ _tag }))),
    Stream.runCollect,
    Effect.map(Chunk.toReadonlyArray),
    Effect.runSync
  )

const split = (maximumBytes: number | undefined, chunks: Iterable<Uint8Array>) =>
  splitStream(maximumBytes, Stream.fromIterable(chunks))

const tooLong = { _tag: "frame_too_long" }
const unreadable = { _tag: "frame_unreadable" }

/** What the splitter has to give, said the plain way: over all bytes at once. */
const expected = (maximumBytes: number, bytes: Uint8Array) => {
  const lines: Array<number[]> = [[]]
  for (const byte of bytes) {
    if (byte === 10) lines.push([])
    else lines.at(-1)?.push(byte)
  }
  if (lines.at(-1)?.length === 0) lines.pop()
  return lines.map((line) => {
    if (line.length > maximumBytes) return tooLong
    if (line.at(-1) === 13) line.pop()
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(line))
    } catch {
      return unreadable
    }
  })
}

const cut = (bytes: Uint8Array, points: ReadonlyArray<number>) => {
  const ends = [...points.map((point) => point % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

describe("lines out of bytes", () => {
  it("a line of exactly 64 KiB passes; one byte more does not, and the line after it does", () => {
    const line = "x".repeat(64 * 1024)
    expect(split(undefined, [encode(`${line}\nafter\n`)])).toEqual([line, "after"])
    expect(split(undefined, [encode(`${line}x\nafter\n`)])).toEqual([tooLong, "after"])
  })

  it("a CR before the LF counts, and is taken off; another stays", () => {
    expect(split(3, [encode("ab\r\nabc\r\na\r\r\n\r\n")])).toEqual(["ab", tooLong, "a\r", ""])
  })

  it("a last line without LF counts, and an empty one is none", () => {
    expect(split(3, [encode("one\ntwo")])).toEqual(["one", "two"])
    expect(split(3, [encode("one\n")])).toEqual(["one"])
    expect(split(3, [encode("\nfour")])).toEqual(["", tooLong])
  })

  it("a line without end is known to be too long as soon as it is, and holds nothing", () => {
    const endless = Stream.make(encode("x".repeat(1000))).pipe(Stream.forever)
    const [first] = Effect.runSync(endless.pipe(Frames.split(4096), Stream.take(1), Stream.runCollect))
    expect(first).toEqual(Either.left(new Frames.FrameTooLong({ maximumBytes: 4096 })))
  })

  it("a line that is no UTF-8 is an error in its place; a byte order mark is a character", () => {
    const lines = [...encode("a\n"), 0xc3, 0x28, 10, 0xed, 0xa0, 0x80, 10, 0xef, 0xbb, 0xbf, 10, ...encode("z")]
    expect(split(16, [Uint8Array.from(lines)])).toEqual(["a", unreadable, unreadable, "\ufeff", "z"])
  })

  it("it does not matter how the bytes arrive", () => {
    const byte = fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom(10, 13) },
      { weight: 3, arbitrary: fc.constantFrom(0x61, 0x7f) },
      { weight: 2, arbitrary: fc.constantFrom(0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: 255 }) }
    )
    return check(
      [fc.array(byte, { maxLength: 60 }), fc.array(fc.nat(60), { maxLength: 12 }), fc.integer({ min: 1, max: 12 })],
      (bytes, points, maximumBytes) => {
        const whole = Uint8Array.from(bytes)
        expect(split(maximumBytes, cut(whole, points))).toEqual(expected(maximumBytes, whole))
      },
      { numRuns: 300 }
    )
  })

  it("what arrives in a buffer that is used again is not changed afterwards", () => {
    const buffer = encode("on")
    const again = Effect.sync(() => {
      buffer.set(encode("e\n"))
      return buffer
    })
    const lines = splitStream(8, Stream.concat(Stream.make(buffer), again))
    expect(lines).toEqual(["one"])
  })
})
