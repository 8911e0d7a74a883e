import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import * as fc from "fast-check"
import * as Marker from "../../src/materialize/Marker.js"
import { check } from "../support/Seed.js"

const bytes = (text: string) => new TextEncoder().encode(text)
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

const entry = fc.record({ skillId: fc.fullUnicodeString(), version: fc.fullUnicodeString() })
const sets = fc.uniqueArray(entry, { selector: ({ skillId }) => skillId, maxLength: 20 })

describe("Marker.encode", () => {
  it("is the current generation and the entries sorted by the bytes of their ids", () => {
    assert.strictEqual(
      text(
        Marker.encode([
          { skillId: "\u{1f600}", version: "2" },
          { skillId: "\uff01", version: "1" },
          { skillId: "b", version: "10" },
          { skillId: "B", version: "9" }
        ])
      ),
      '{"v":2,"skills":[{"skill_id":"B","version":"9"},{"skill_id":"b","version":"10"},{"skill_id":"\uff01","version":"1"},{"skill_id":"\u{1f600}","version":"2"}]}'
    )
    assert.strictEqual(text(Marker.encode([])), '{"v":2,"skills":[]}')
  })

  it("gives equal bytes for equal sets, in any order, and parse gives the set back", () =>
    check([sets, fc.infiniteStream(fc.nat())], async (entries, order) => {
      const shuffled = entries
        .map((one) => [order.next().value, one] as const)
        .sort(([left], [right]) => Number(left) - Number(right))
        .map(([, one]) => one)
      const encoded = Marker.encode(entries)
      assert.deepStrictEqual(Marker.encode(shuffled), encoded)
      const parsed = Option.getOrThrow(await Effect.runPromise(Marker.parse(encoded)))
      assert.deepStrictEqual(
        new Set(parsed.map((one) => JSON.stringify(one))),
        new Set(entries.map((one) => JSON.stringify(one)))
      )
    }))
})

describe("Marker.parse", () => {
  const refused: Readonly<Record<string, string>> = {
    "the bare array of the first generation": '[{"skill_id":"a","version":"1"}]',
    "an older generation": '{"v":1,"skills":[]}',
    "a newer generation": '{"v":3,"skills":[]}',
    "a generation in a string": '{"v":"2","skills":[]}',
    "no generation": '{"skills":[]}',
    "no skills": '{"v":2}',
    "skills that are none": '{"v":2,"skills":{}}',
    "an entry without a version": '{"v":2,"skills":[{"skill_id":"a"}]}',
    "an entry without an id": '{"v":2,"skills":[{"version":"1"}]}',
    "a version that is a number": '{"v":2,"skills":[{"skill_id":"a","version":1}]}',
    "a byte order mark": '\ufeff{"v":2,"skills":[]}',
    "something behind it": '{"v":2,"skills":[]}]',
    "no JSON": "materialized",
    nothing: "",
    null: "null"
  }
  for (const [name, marker] of Object.entries(refused)) {
    it.effect(`does not accept ${name}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* Marker.parse(bytes(marker)), Option.none())
      })
    )
  }

  it.effect("does not accept what is not UTF-8", () =>
    Effect.gen(function* () {
      const marker = new Uint8Array([...bytes('{"v":2,"skills":[],"x":"'), 0xff, ...bytes('"}')])
      assert.deepStrictEqual(yield* Marker.parse(marker), Option.none())
    })
  )

  it.effect("accepts members that it does not know", () =>
    Effect.gen(function* () {
      const marker = '{"v":2,"skills":[{"skill_id":"a","version":"1","at":5}],"by":"other"}'
      assert.deepStrictEqual(yield* Marker.parse(bytes(marker)), Option.some([{ skillId: "a", version: "1" }]))
    })
  )

  it("never throws, whatever the bytes", () =>
    check([fc.oneof(fc.uint8Array(), fc.json().map(bytes))], async (marker) => {
      await Effect.runPromise(Marker.parse(marker))
      await Effect.runPromise(Marker.namedIds(marker))
    }))
})

describe("Marker.matches", () => {
  const wanted = [
    { skillId: "skill_01", version: "3", directory: "pdf" },
    { skillId: "skill_02", version: "1", directory: "csv" }
  ]
  const onDisk = ["pdf/SKILL.md", "csv/SKILL.md", "decoy/SKILL.md"]

  const matches = (marker: Uint8Array, there: ReadonlyArray<string> = onDisk) =>
    Effect.gen(function* () {
      const probed: Array<string> = []
      const result = yield* Marker.matches({
        marker,
        wanted,
        read: (path) => {
          probed.push(path)
          return there.includes(path) ? Effect.succeed("text") : Effect.fail("absent")
        }
      })
      return { result, probed }
    })

  it.effect("says yes when the marker names exactly the wanted versions and each has its SKILL.md", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* matches(Marker.encode(wanted)), {
        result: true,
        probed: ["pdf/SKILL.md", "csv/SKILL.md"]
      })
    })
  )

  it.effect("says no when a SKILL.md is gone, so that a deleted tree comes back", () =>
    Effect.gen(function* () {
      assert.isFalse((yield* matches(Marker.encode(wanted), ["pdf/SKILL.md"])).result)
    })
  )

  const markers: Readonly<Record<string, string>> = {
    "names another version":
      '{"v":2,"skills":[{"skill_id":"skill_01","version":"2"},{"skill_id":"skill_02","version":"1"}]}',
    "lacks a skill": '{"v":2,"skills":[{"skill_id":"skill_01","version":"3"}]}',
    "names one more":
      '{"v":2,"skills":[{"skill_id":"skill_01","version":"3"},{"skill_id":"skill_02","version":"1"},{"skill_id":"x","version":"1"}]}',
    "names one twice in place of another":
      '{"v":2,"skills":[{"skill_id":"skill_01","version":"3"},{"skill_id":"skill_01","version":"3"}]}',
    "has an entry of empty values in place of one":
      '{"v":2,"skills":[{"skill_id":"skill_01","version":"3"},{"skill_id":"","version":""}]}',
    "is of the first generation": '[{"skill_id":"skill_01","version":"3"},{"skill_id":"skill_02","version":"1"}]'
  }
  for (const [name, marker] of Object.entries(markers)) {
    it.effect(`says no when the marker ${name}, and looks at no file for it`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* matches(bytes(marker)), { result: false, probed: [] })
      })
    )
  }

  it.effect("looks where trusted metadata say, never where the marker does", () =>
    Effect.gen(function* () {
      const marker = bytes(
        '{"v":2,"skills":[{"skill_id":"skill_01","version":"3","directory":"decoy"},{"skill_id":"skill_02","version":"1","dir":"decoy"}]}'
      )
      assert.deepStrictEqual(yield* matches(marker, ["decoy/SKILL.md"]), { result: false, probed: ["pdf/SKILL.md"] })
    })
  )
})
