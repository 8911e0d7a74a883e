import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import { sliceBytes } from "#codec"
import * as Utf8 from "../../src/archive/Utf8.js"
import { turnsDuring } from "../support/Turns.js"

/** Any length of text, characters of one to four bytes in turn. */
const text = (length: number) => {
  const bytes = new TextEncoder().encode("aé漢\u{10000}".repeat(Math.ceil(length / 10)))
  return bytes.subarray(0, length - (length % 10))
}

describe("isValid", () => {
  it.live.each([0, 10, 4090, 4100, 4110, sliceBytes - 10, sliceBytes, sliceBytes + 10, 3 * sliceBytes + 10])(
    "takes about %d bytes of text",
    (length) =>
      Effect.gen(function* () {
        for (let shift = 0; shift < 4; shift++) {
          const bytes = new Uint8Array(Buffer.concat([Buffer.from("a".repeat(shift)), text(length)]))
          expect(yield* Utf8.isValid(bytes)).toBe(true)
          expect(Utf8.isValidSync(bytes)).toBe(true)
        }
      })
  )

  it.live("finds one wrong byte anywhere", () =>
    Effect.gen(function* () {
      const bytes = text(3 * sliceBytes)
      for (const border of [0, 4096, sliceBytes, 2 * sliceBytes, bytes.length - 4]) {
        for (let at = Math.max(0, border - 4); at < border + 4; at++) {
          const kept = bytes[at] ?? 0
          bytes[at] = 0xff
          expect(yield* Utf8.isValid(bytes)).toBe(false)
          expect(Utf8.isValidSync(bytes)).toBe(false)
          bytes[at] = kept
        }
      }
    })
  )

  it.live("finds continuation bytes without a start, however many", () =>
    Effect.gen(function* () {
      const bytes = new Uint8Array(3 * sliceBytes).fill(0x61)
      bytes.fill(0x80, sliceBytes - 10, sliceBytes + 10)
      expect(yield* Utf8.isValid(bytes)).toBe(false)
    })
  )

  it.live("finds a character that its end cuts off", () =>
    Effect.gen(function* () {
      const bytes = text(3 * sliceBytes)
      for (const missing of [1, 2, 3]) {
        expect(yield* Utf8.isValid(bytes.subarray(0, bytes.length - missing))).toBe(false)
      }
    })
  )

  it.live("lets other work run between slices, and only then", () =>
    Effect.gen(function* () {
      expect(yield* turnsDuring(Utf8.isValid(text(8 * sliceBytes)))).toBeGreaterThanOrEqual(6)
      expect(yield* turnsDuring(Utf8.isValid(text(sliceBytes)))).toBe(0)
    })
  )

  it.live("can be interrupted between slices", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(Utf8.isValid(text(8 * sliceBytes)))
      yield* Effect.yieldNow()
      expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
    })
  )
})
