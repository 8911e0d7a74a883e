import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Exit, Fiber } from "effect"
import * as fc from "fast-check"
import { sliceBytes } from "#codec"
import * as BoundedJson from "../../src/archive/BoundedJson.js"
import { check } from "../support/Seed.js"
import { turnsDuring } from "../support/Turns.js"

const utf8 = (text: string) => new TextEncoder().encode(text)

/** The value, or the reason why there is none. */
const parse = (text: string | Uint8Array) =>
  Effect.map(
    Effect.either(BoundedJson.parse(typeof text === "string" ? utf8(text) : text)),
    Either.match({ onLeft: ({ reason }): unknown => reason, onRight: (value) => ({ value }) })
  )

const limit = BoundedJson.structureLimit

describe("BoundedJson.parse", () => {
  it("gives what JSON.parse gives, and nothing for what that refuses", () =>
    check([fc.oneof(fc.json(), fc.string({ unit: "binary" }))], async (text) => {
      // What UTF-8 cannot say is U+FFFD in the bytes already.
      const wellFormed = new TextDecoder("utf-8", { ignoreBOM: true }).decode(utf8(text)).replace(/^\ufeff/, "")
      const expected = Either.try((): unknown => JSON.parse(wellFormed))
      expect(await Effect.runPromise(parse(text))).toEqual(
        Either.match(expected, { onLeft: () => "syntax", onRight: (value) => ({ value }) })
      )
    }))

  it.effect("takes a byte order mark at the start for none of the text, and nowhere else", () =>
    Effect.gen(function* () {
      expect(yield* parse('\ufeff"\ufeff"')).toEqual({ value: "\ufeff" })
      expect(yield* parse('\ufeff\ufeff""')).toBe("syntax")
    })
  )

  it.live("keeps characters and escapes whole where slices meet", () =>
    Effect.gen(function* () {
      for (const part of ["\u{10000}", "漢", "é", "\ufeff", '\\"', "\\\\", "\\u00e9"]) {
        // So that every byte of the part is once the first of a slice.
        for (let before = 0; before <= utf8(part).length; before++) {
          const text = `"${"a".repeat(sliceBytes - 1 - before)}${part}[{,:"`
          const expected: unknown = JSON.parse(text)
          const result = yield* parse(text)
          expect(Either.isEither(result)).toBe(false)
          // Deep equality of long texts is slow.
          expect((result as { readonly value: unknown }).value === expected).toBe(true)
        }
      }
    })
  )

  describe("bounds the structure of a text", () => {
    const elements = (count: number) => `[${Array.from({ length: count }, () => "0").join(",")}]`

    it.live.each<readonly [string, string, string]>([
      ["elements", elements(limit), elements(limit + 1)],
      [
        "members",
        `[{"a":0}${',{"a":0}'.repeat(limit / 3 - 1)}]`,
        `[{"a":0}${',{"a":0}'.repeat(Math.ceil(limit / 3))}]`
      ],
      ["lists in lists", "[".repeat(limit) + "]".repeat(limit), "[".repeat(limit + 1) + "]".repeat(limit + 1)],
      [
        "objects in objects",
        `${'{"a":'.repeat(limit / 2)}0${"}".repeat(limit / 2)}`,
        `${'{"a":'.repeat(limit / 2 + 1)}0${"}".repeat(limit / 2 + 1)}`
      ]
    ])("counting %s", ([, within, past]) =>
      Effect.gen(function* () {
        expect(yield* parse(within)).not.toBe("structure")
        expect(yield* parse(within)).not.toBe("syntax")
        expect(yield* parse(past)).toBe("structure")
      })
    )

    it.live("but not of its strings, whatever is escaped in them", () =>
      Effect.gen(function* () {
        const strings = `["${"[{,:".repeat(limit)}","${'\\"[\\\\{'.repeat(limit)}"]`
        expect(yield* parse(strings)).toEqual({ value: JSON.parse(strings) })
        // The backslash is escaped, not the quote: what follows is outside again.
        expect(yield* parse(`["\\\\"${",0".repeat(limit)}]`)).toBe("structure")
      })
    )

    it.live("and the length of its members' names, as written and wherever slices meet", () =>
      Effect.gen(function* () {
        const name = "a".repeat(BoundedJson.nameLimit)
        expect(yield* parse(`{"${name}" : "${name}a"}`)).toEqual({ value: { [name]: `${name}a` } })
        expect(yield* parse(`{"${name}a" : 0}`)).toBe("structure")
        expect(yield* parse(`{"${"\\u0061".repeat(BoundedJson.nameLimit / 6)}":0,"\\"${name}":0}`)).toBe("structure")
        const [before, after] = [name.slice(0, 500), name.slice(500)]
        const padding = " ".repeat(sliceBytes - before.length - 2)
        expect(yield* parse(`{${padding}"${before}${after}":0}`)).toEqual({ value: { [name]: 0 } })
        expect(yield* parse(`{${padding}"${before}${after}a":0}`)).toBe("structure")
      })
    )

    it.live("before it is parsed, or even read to its end", () =>
      Effect.gen(function* () {
        const bomb = utf8(`[${"{},".repeat(10_000_000)}`)
        const turns = yield* turnsDuring(Effect.either(BoundedJson.parse(bomb)))
        expect(turns).toBeLessThan(bomb.length / sliceBytes / 2)
        expect(yield* parse(bomb)).toBe("structure")
      })
    )
  })

  it.live("lets other work run between slices, and only then", () =>
    Effect.gen(function* () {
      // Seven times while it is counted and seven while it is decoded.
      const text = (bytes: number) => utf8(`"${"a".repeat(bytes - 2)}"`)
      expect(yield* turnsDuring(BoundedJson.parse(text(8 * sliceBytes)))).toBeGreaterThanOrEqual(10)
      expect(yield* turnsDuring(BoundedJson.parse(text(sliceBytes)))).toBe(0)
    })
  )

  it.live("can be interrupted between slices", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(BoundedJson.parse(utf8(`"${"a".repeat(8 * sliceBytes)}"`)))
      yield* Effect.yieldNow()
      expect(Exit.isInterrupted(yield* Fiber.interrupt(fiber))).toBe(true)
    })
  )
})
