import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Option } from "effect"
import * as fc from "fast-check"
import { sliceBytes } from "#codec"
import * as Base64 from "../../src/archive/Base64.js"
import { check } from "../support/Seed.js"
import { turnsDuring } from "../support/Turns.js"

const content = (length: number) => new Uint8Array(length).map((_, index) => index % 251)
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64")

/** Slices are of whole groups of three bytes, so a little shorter than `sliceBytes`. */
const lengths = [-4, -3, -2, -1, 0, 1, 2, 3].flatMap((more) => [sliceBytes + more, 3 * sliceBytes + more])

describe("Base64", () => {
  it("writes canonical text and reads it back", () =>
    check([fc.uint8Array({ maxLength: 100 })], async (bytes) => {
      expect(await Effect.runPromise(Base64.encode(bytes))).toBe(base64(bytes))
      expect(await Effect.runPromise(Base64.decode(base64(bytes)))).toEqual(Option.some(bytes))
    }))

  it.live.each(lengths)("does so in slices, for %d bytes", (length) =>
    Effect.gen(function* () {
      const bytes = content(length)
      // Deep equality of long values is slow.
      expect((yield* Base64.encode(bytes)) === base64(bytes)).toBe(true)
      const decoded = Option.getOrThrow(yield* Base64.decode(base64(bytes)))
      expect(Buffer.compare(decoded, bytes)).toBe(0)
    })
  )

  it.live("gives bytes in a buffer of their length, which can be handed over", () =>
    Effect.gen(function* () {
      for (const length of [1, 2, 3, 3 * sliceBytes + 1]) {
        const { buffer } = Option.getOrThrow(yield* Base64.decode(base64(content(length))))
        expect(buffer.byteLength).toBe(length)
      }
    })
  )

  it.live("refuses text that is not canonical anywhere, padding inside too", () =>
    Effect.gen(function* () {
      const text = base64(content(3 * sliceBytes))
      const slice = Math.floor(sliceBytes / 3) * 4
      for (const at of [4, slice - 4, slice, 2 * slice - 4, text.length - 8]) {
        for (const group of ["YQ==", "YWI=", "YW\nj", "YW_j", "YWJ"]) {
          expect(yield* Base64.decode(text.slice(0, at) + group + text.slice(at + 4))).toEqual(Option.none())
        }
      }
      for (const end of ["=", "==", "====", "YR==", "YWK=", "Y"]) {
        expect(yield* Base64.decode(text + end)).toEqual(Option.none())
      }
    })
  )

  it.live("lets other work run between slices, and only then", () =>
    Effect.gen(function* () {
      const bytes = content(8 * sliceBytes)
      expect(yield* turnsDuring(Base64.encode(bytes))).toBeGreaterThanOrEqual(6)
      expect(yield* turnsDuring(Base64.decode(base64(bytes)))).toBeGreaterThanOrEqual(6)
      expect(yield* turnsDuring(Base64.decode(base64(content(sliceBytes / 2))))).toBe(0)
    })
  )

  it.live("can be interrupted between slices", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(Base64.decode(base64(content(8 * sliceBytes))))
      yield* Effect.yieldNow()
      expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
    })
  )
})
