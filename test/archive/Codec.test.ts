import { createHash, createHmac } from "node:crypto"
import { deflateRawSync, InflateRaw, constants as zlib } from "node:zlib"
import { describe, expect, expectTypeOf, it, vi } from "@effect/vitest"
import { Deferred, Effect, Either, Fiber } from "effect"
import * as fc from "fast-check"
import * as codec from "#codec"
import type { Codec } from "../../src/archive/Codec.js"
import * as node from "../../src/archive/codec.node.js"
import * as portable from "../../src/archive/codec.portable.js"
import { check } from "../support/Seed.js"

const bytes = (...values: ReadonlyArray<number>) => Uint8Array.from(values)
const utf8 = (text: string) => new TextEncoder().encode(text)
const concat = (...parts: ReadonlyArray<Uint8Array>) => new Uint8Array(Buffer.concat(parts))
const repeated = (byte: number, length: number) => new Uint8Array(length).fill(byte)

it("both codecs export exactly what the interface says", () => {
  expectTypeOf<keyof typeof node>().toEqualTypeOf<keyof Codec>()
  expectTypeOf<keyof typeof portable>().toEqualTypeOf<keyof Codec>()
  expectTypeOf(node).toExtend<Codec>()
  expectTypeOf(portable).toExtend<Codec>()
  expect(Object.keys(portable).sort()).toEqual(Object.keys(node).sort())
})

describe("SHA-256", () => {
  it("gives the digests of FIPS 180-4", () => {
    expect(codec.sha256Hex(utf8("abc"))).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    expect(codec.sha256Hex(bytes())).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
  })

  it("gives the same in parts", () =>
    check([fc.array(fc.uint8Array({ maxLength: 200 }))], (parts) => {
      const sha256 = codec.makeSha256()
      for (const part of parts) sha256.update(part)
      expect(Buffer.from(sha256.digest()).toString("hex")).toBe(codec.sha256Hex(concat(...parts)))
      expect(codec.sha256Hex(concat(...parts))).toBe(
        createHash("sha256")
          .update(concat(...parts))
          .digest("hex")
      )
    }))

  it("keys HMACs, with keys longer than a block too", () =>
    check([fc.uint8Array({ maxLength: 200 }), fc.uint8Array({ maxLength: 200 })], (key, message) => {
      expect(codec.hmacSha256(key, message)).toEqual(new Uint8Array(createHmac("sha256", key).update(message).digest()))
    }))
})

describe("isUtf8", () => {
  it.each([
    ["nothing", bytes()],
    ["a leading byte order mark", utf8("\uFEFFa")],
    ["the first and last of every length", utf8("\u0000\u007F\u0080\u07FF\u0800\uD7FF\uE000\uFFFF\u{10000}\u{10FFFF}")]
  ])("takes %s", (_, text) => {
    expect(codec.isUtf8(text)).toBe(true)
  })

  it.each([
    ["a continuation byte alone", bytes(0x80)],
    ["an overlong slash", bytes(0xc0, 0xaf)],
    ["an overlong form of two bytes", bytes(0xc1, 0xbf)],
    ["an overlong form of three bytes", bytes(0xe0, 0x9f, 0xbf)],
    ["an overlong form of four bytes", bytes(0xf0, 0x8f, 0xbf, 0xbf)],
    ["a surrogate", bytes(0xed, 0xa0, 0x80)],
    ["a code point above U+10FFFF", bytes(0xf4, 0x90, 0x80, 0x80)],
    ["a lead byte above F4", bytes(0xf5, 0x80, 0x80, 0x80)],
    ["a character cut off", utf8("é").subarray(0, 1)],
    ["a character cut off after three of four bytes", utf8("\u{1F600}").subarray(0, 3)],
    ["a character broken in its last byte", bytes(0xe2, 0x82, 0x41)]
  ])("refuses %s", (_, text) => {
    expect(codec.isUtf8(text)).toBe(false)
  })

  it("agrees with the other codec on any bytes", () =>
    check([mostlyUtf8], (text) => {
      expect(portable.isUtf8(text)).toBe(node.isUtf8(text))
    }))

  const mostlyUtf8 = fc
    .tuple(fc.string({ unit: "binary" }), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 2 }))
    .map(([text, changes]) => {
      const encoded = utf8(text)
      for (const [at, byte] of changes) if (encoded.length > 0) encoded[at % encoded.length] = byte
      return encoded
    })
})

describe("decodeBase64", () => {
  it("takes what an encoder writes", () =>
    check([fc.uint8Array({ maxLength: 100 })], (content) => {
      expect(codec.decodeBase64(Buffer.from(content).toString("base64"))).toEqual(content)
    }))

  it.each([
    ["no padding", "YQ"],
    ["too much padding", "YWJj===="],
    ["padding alone", "===="],
    ["padding inside", "YQ==YQ=="],
    ["unused bits before two paddings", "YR=="],
    ["unused bits before one padding", "YWK="],
    ["white space", "YW Jj"],
    ["a line end", "YWJj\n"],
    ["the URL alphabet", "-_-_"],
    ["a character outside ASCII", "YWJ\u0101"],
    ["a character that looks like ASCII in its low byte", "YWJ\u016a"]
  ])("refuses %s", (_, text) => {
    expect(codec.decodeBase64(text)).toBeUndefined()
  })
})

describe("inflate", () => {
  const content = utf8("Say hello, say hello again, and again say hello. ".repeat(20))
  const encodings = {
    stored: deflateRawSync(content, { level: 0 }),
    fixed: deflateRawSync(content, { strategy: zlib.Z_FIXED }),
    dynamic: deflateRawSync(content, { level: 9 }),
    huffman: deflateRawSync(content, { strategy: zlib.Z_HUFFMAN_ONLY }),
    runs: deflateRawSync(content, { strategy: zlib.Z_RLE })
  }

  const reason = (result: Either.Either<unknown, { readonly reason: string }>) =>
    Either.match(result, { onLeft: (error) => error.reason, onRight: () => "good" })

  /** The ways to inflate, which must agree, and the one that gives the verdict alone. */
  const inflate = (source: Uint8Array, size: number) =>
    Effect.gen(function* () {
      const atOnce = codec.inflateSync(source, size)
      const inSteps = yield* Effect.either(codec.inflate(source, size))
      const dropped = yield* Effect.either(codec.checkInflate(source, size))
      expect([reason(inSteps), reason(dropped)]).toEqual([reason(atOnce), reason(atOnce)])
      if (Either.isRight(atOnce)) expect(inSteps).toEqual(atOnce)
      return inSteps
    })

  it.live.each(Object.entries(encodings))("gives the content of %s blocks", ([, source]) =>
    Effect.map(inflate(source, content.length), (result) => expect(result).toEqual(Either.right(content)))
  )

  it.live("gives bytes of their own, which no other buffer's owner can reach", () =>
    Effect.gen(function* () {
      for (const size of [0, 1, 63, content.length, 4095, 4096, 8191, 8192]) {
        const source = deflateRawSync(new Uint8Array(size))
        const results = [Either.getOrThrow(codec.inflateSync(source, size)), yield* codec.inflate(source, size)]
        // Node's small buffers are parts of one that they share.
        const shared = Buffer.allocUnsafe(1).buffer
        for (const result of results) expect(result.buffer === shared).toBe(false)
      }
    })
  )

  it.live.each(Object.entries(encodings))("refuses %s blocks cut off anywhere", ([, source]) =>
    Effect.gen(function* () {
      for (let length = 0; length < source.length; length++) {
        expect(reason(yield* inflate(source.subarray(0, length), content.length))).toBe("stream")
      }
    })
  )

  it.live.each(Object.entries(encodings))("refuses %s blocks with a byte behind their end", ([, source]) =>
    Effect.gen(function* () {
      for (const byte of [0, 3, 0xff]) {
        expect(reason(yield* inflate(concat(source, bytes(byte)), content.length))).toBe("stream")
      }
      expect(reason(yield* inflate(concat(source, source), content.length))).toBe("stream")
    })
  )

  it.live.each(Object.entries(encodings))("refuses %s blocks of another size", ([, source]) =>
    Effect.gen(function* () {
      for (const size of [0, 1, content.length - 1, content.length + 1, content.length * 2]) {
        expect(reason(yield* inflate(source, size))).toBe("size")
      }
    })
  )

  it.live("takes an empty stream, but not nothing", () =>
    Effect.gen(function* () {
      expect(yield* inflate(deflateRawSync(bytes()), 0)).toEqual(Either.right(bytes()))
      expect(reason(yield* inflate(bytes(), 0))).toBe("stream")
    })
  )

  it.live.each<readonly [string, Uint8Array]>([
    ["a block of the reserved type", bytes(0x07)],
    ["a stored block whose lengths disagree", bytes(0x01, 0x01, 0x00, 0xff, 0xff, 0x61)],
    ["a distance before the start", bytes(0x03, 0x02, 0x00)],
    ["more literal codes than there are", bytes(0xfd, 0xff, 0xff)]
  ])("refuses %s", ([, source]) => Effect.map(inflate(source, 1), (result) => expect(reason(result)).toBe("stream")))

  it.live("never gives views that a caller's slice would share", () =>
    Effect.gen(function* () {
      const result = yield* codec.inflate(encodings.dynamic, content.length)
      result.slice().fill(0)
      expect(result).toEqual(content)
      expect(Object.getPrototypeOf(result)).toBe(Uint8Array.prototype)
    })
  )

  it("gives zlib's verdict on any mutated stream", { timeout: 60_000 }, () =>
    check(
      [
        fc.constantFrom(...Object.values(encodings)),
        fc.array(fc.tuple(fc.nat(), fc.nat(7)), { minLength: 1, maxLength: 3 })
      ],
      (source, flips) => {
        const mutated = new Uint8Array(source)
        for (const [at, bit] of flips) mutated[at % mutated.length] = (mutated[at % mutated.length] ?? 0) ^ (1 << bit)
        const expected = node.inflateSync(mutated, content.length)
        const got = portable.inflateSync(mutated, content.length)
        expect(Either.isRight(got)).toBe(Either.isRight(expected))
        if (Either.isRight(expected)) expect(got).toEqual(expected)
        const dropped = Effect.runSync(Effect.either(portable.checkInflate(mutated, content.length)))
        expect(reason(dropped)).toBe(reason(got))
      },
      { numRuns: 2_000 }
    )
  )

  it.live("gives its verdict in a window that slides, on streams longer than that", () =>
    Effect.gen(function* () {
      const random = Uint8Array.from({ length: 70_000 }, (_, index) => Math.imul(index, 2_654_435_761) >>> 13)
      // Matches from as far back as can be, and stored blocks and codes by turns.
      const long = concat(...Array.from({ length: 20 }, (_, index) => random.subarray(index, 32_768 + index * 1000)))
      const flushed = deflateRawSync(long, { finishFlush: zlib.Z_SYNC_FLUSH })
      const sources = [
        deflateRawSync(long),
        deflateRawSync(long, { level: 0 }),
        deflateRawSync(repeated(0, 2_000_000)),
        concat(flushed, deflateRawSync(long, { level: 0, finishFlush: zlib.Z_SYNC_FLUSH }), deflateRawSync(long))
      ]
      const sizes = [long.length, long.length, 2_000_000, 3 * long.length]
      for (const [index, source] of sources.entries()) {
        const size = sizes[index] ?? 0
        const verdicts = [size, size - 1, size + 1, 100, 2 * size].map((declared) =>
          Effect.map(Effect.either(codec.checkInflate(source, declared)), reason)
        )
        expect(yield* Effect.all(verdicts)).toEqual(["good", "size", "size", "size", "size"])
        expect(reason(yield* Effect.either(codec.checkInflate(source.subarray(0, -1), size)))).toBe("stream")
      }
    })
  )

  it("gives zlib's verdict on any bytes that start a dynamic block", () =>
    check(
      [fc.uint8Array({ minLength: 1, maxLength: 80 })],
      (tail) => {
        const source = concat(bytes(0x05 | ((tail[0] ?? 0) & 0xf8)), tail)
        expect(Either.isRight(portable.inflateSync(source, 10))).toBe(Either.isRight(node.inflateSync(source, 10)))
      },
      { numRuns: 2_000 }
    ))

  it.live("stops at the declared size, however much there is", () =>
    Effect.gen(function* () {
      const bomb = deflateRawSync(repeated(0, 32 * 1024 * 1024))
      const before = process.memoryUsage()
      expect(reason(yield* inflate(bomb, 10))).toBe("size")
      const after = process.memoryUsage()
      expect(after.arrayBuffers + after.external - before.arrayBuffers - before.external).toBeLessThan(4 * 1024 * 1024)
    })
  )

  it.live("lets other work run while a long stream inflates", () =>
    Effect.gen(function* () {
      const long = concat(...Array.from({ length: 20 }, () => repeated(7, 100_000)))
      let turns = 0
      const other = yield* Effect.fork(
        Effect.forever(
          Effect.zipRight(
            macrotask,
            Effect.sync(() => turns++)
          )
        )
      )
      const result = yield* codec.inflate(deflateRawSync(long), long.length)
      // Deep equality of large arrays takes minutes.
      expect(Buffer.compare(result, long)).toBe(0)
      yield* Fiber.interrupt(other)
      // How many depends on the codec: on Node the whole stream is one job of the thread pool.
      expect(turns).toBeGreaterThan(0)
    })
  )

  it.live("is interrupted on the way", () =>
    Effect.gen(function* () {
      const long = repeated(7, 32_000_000)
      const source = deflateRawSync(long)
      const started = yield* Deferred.make<void>()
      const fiber = yield* Effect.fork(
        Effect.zipRight(Deferred.succeed(started, undefined), codec.inflate(source, long.length))
      )
      yield* Deferred.await(started)
      const exit = yield* Fiber.interrupt(fiber)
      expect(exit._tag).toBe("Failure")
    })
  )

  it.live("gives the thread pool of Node a long stream in slices, no more of them once it is interrupted", () =>
    Effect.gen(function* () {
      const source = deflateRawSync(repeated(7, 16 * 1024 * 1024), { level: 0 })
      const jobs = vi.spyOn(InflateRaw.prototype, "_transform")
      const fiber = yield* Effect.fork(node.inflate(source, 16 * 1024 * 1024))
      yield* macrotask
      yield* Fiber.interrupt(fiber)
      yield* macrotask
      const given = jobs.mock.calls.map(([slice]) => slice.length)
      jobs.mockRestore()
      expect(given.length).toBeGreaterThan(0)
      expect(given.reduce((sum, length) => sum + length, 0)).toBeLessThan(source.length)
    })
  )
})

/** One turn of the event loop, by other means than the codec's. */
const macrotask = Effect.async<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

it.live("yieldToEventLoop lets timers and I/O run", () =>
  Effect.gen(function* () {
    let ran = false
    setImmediate(() => {
      ran = true
    })
    while (!ran) yield* codec.yieldToEventLoop
    expect(ran).toBe(true)
  })
)

it.live("yieldToEventLoop is interruptible", () =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(Effect.forever(codec.yieldToEventLoop))
    yield* macrotask
    const exit = yield* Fiber.interrupt(fiber)
    expect(exit._tag).toBe("Failure")
  })
)
