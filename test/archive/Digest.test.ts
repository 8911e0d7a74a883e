import { createHash } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import { sliceBytes } from "#codec"
import * as Digest from "../../src/archive/Digest.js"
import { turnsDuring } from "../support/Turns.js"

const reference = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
// Several slices, however many `sliceBytes` one of them takes.
const long = new Uint8Array(16 * sliceBytes + 1).map((_, index) => index % 251)

describe("sha256Hex", () => {
  it.live.each([0, 1, 63, 64, sliceBytes, 2 * sliceBytes, 2 * sliceBytes + 1, 4 * sliceBytes, long.length])(
    "is the digest of %d bytes, in slices or at once",
    (length) =>
      Effect.gen(function* () {
        const bytes = long.subarray(0, length)
        expect(yield* Digest.sha256Hex(bytes)).toBe(reference(bytes))
        expect(Digest.sha256HexSync(bytes)).toBe(reference(bytes))
      })
  )

  it.live("lets other work run between slices, and only then", () =>
    Effect.gen(function* () {
      expect(yield* turnsDuring(Digest.sha256Hex(long))).toBeGreaterThanOrEqual(6)
      expect(yield* turnsDuring(Digest.sha256Hex(long.subarray(0, sliceBytes)))).toBe(0)
    })
  )

  it.live("can be interrupted between slices", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(Digest.sha256Hex(long))
      yield* Effect.yieldNow()
      expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
    })
  )
})

describe("etag", () => {
  it.effect("is the quoted digest", () =>
    Effect.map(Digest.etag(new TextEncoder().encode("abc")), (etag) => {
      expect(etag).toBe('"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"')
    })
  )
})
