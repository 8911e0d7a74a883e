import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as FixtureFile from "../../src/conformance/FixtureFile.js"
import * as LifecycleSuite from "../../src/conformance/LifecycleSuite.js"
import * as SnapshotSuite from "../../src/conformance/SnapshotSuite.js"

const contract = FixtureFile.contract
const snapshotCase = { name: "one", archiveBase64: "UEs=", revision: "r1", etag: '""', expected: "valid" }
const snapshots = (...cases: ReadonlyArray<unknown>) => ({ contract, cases })
const lifecycleCase = { name: "one", steps: [{ expect: { requests: 0 } }] }
const lifecycle = (...cases: ReadonlyArray<unknown>) => ({ contract, initialTimeMs: 0, cases })
const step = (step: unknown) => lifecycle({ name: "one", steps: [step] })

const problems = (decode: (text: string) => Effect.Effect<unknown, FixtureFile.FixtureError>, file: unknown) =>
  decode(typeof file === "string" ? file : JSON.stringify(file)).pipe(
    Effect.flip,
    Effect.map((error) => error.problems)
  )

describe("FixtureFile", () => {
  it.effect("decodes both files and tolerates unknown members at every level", () =>
    Effect.gen(function* () {
      const extra = { added: { since: "v1.1" } }
      const [archive] = (yield* SnapshotSuite.decode(
        JSON.stringify({ ...snapshots({ ...snapshotCase, ...extra }), ...extra })
      )).cases
      expect(archive).toEqual({
        name: "one",
        archiveBase64: Uint8Array.from([0x50, 0x4b]),
        revision: "r1",
        etag: '""',
        expected: "valid"
      })
      const text = JSON.stringify({
        ...lifecycle({
          ...extra,
          name: "one",
          config: { ...extra, revision: "r1" },
          steps: [
            { ...extra, reply: { snapshot: "a", ...extra }, expect: { requests: 1, ...extra } },
            { reply: { error: "TIMEOUT", retryable: true, message: "late" }, expect: { requests: 2 } }
          ]
        }),
        ...extra
      })
      expect((yield* LifecycleSuite.decode(text)).cases).toEqual([
        {
          name: "one",
          config: { revision: "r1" },
          steps: [
            { reply: { snapshot: "a" }, expect: { requests: 1 } },
            { reply: { error: "TIMEOUT", retryable: true }, expect: { requests: 2 } }
          ]
        }
      ])
    })
  )

  it.effect.each([
    ["", "the file is not JSON"],
    ["{", "the file is not JSON"],
    ["[]", "the file: has another shape"],
    ["null", "the file: has another shape"],
    [snapshots({ ...snapshotCase, etag: "x".repeat(1000).split("") }), 'case "one": etag: has another shape'],
    [{ contract }, "cases: is missing"],
    [{ cases: [] }, "contract: is missing"],
    [{ contract: "another-contract-v1", cases: [] }, 'contract: Expected "copilotkit-learned-skills-v1"'],
    [{ contract, cases: {} }, "cases: "],
    [snapshots(snapshotCase, null), "case 2: "],
    [snapshots({ ...snapshotCase, name: 1 }), "case 1: name: "],
    [snapshots(snapshotCase, { ...snapshotCase, name: "two", etag: 7 }), 'case "two": etag: Expected string, actual 7'],
    [snapshots({ ...snapshotCase, archiveBase64: "UEs" }), 'case "one": archiveBase64: is not base64'],
    [snapshots({ ...snapshotCase, archiveBase64: "UE*=" }), 'case "one": archiveBase64: is not base64'],
    [snapshots({ ...snapshotCase, archiveBase64: 7 }), 'case "one": archiveBase64: '],
    [snapshots({ ...snapshotCase, expected: "INVALID" }), 'case "one": expected: '],
    [snapshots({ ...snapshotCase, revision: undefined }), 'case "one": revision: is missing']
  ] as const)("names the case and the member of a snapshot file at fault: %j", ([file, problem]) =>
    Effect.gen(function* () {
      expect((yield* problems(SnapshotSuite.decode, file))[0]).toContain(problem)
    })
  )

  it.effect.each([
    [{ ...lifecycle(), initialTimeMs: "0" }, "initialTimeMs: "],
    [lifecycle({ ...lifecycleCase, steps: [] }), 'case "one": steps[0]: is missing'],
    [lifecycle({ name: "one" }), 'case "one": steps: is missing'],
    [step({}), 'case "one": steps[0].expect: is missing'],
    [step({ expect: {} }), 'case "one": steps[0].expect.requests: is missing'],
    [step({ expect: { requests: 0, error: "GONE" } }), 'case "one": steps[0].expect.error: '],
    [step({ expect: { requests: 0, lastCheckedAt: "yesterday" } }), 'case "one": steps[0].expect.lastCheckedAt'],
    [step({ advanceMs: "5", expect: { requests: 0 } }), 'case "one": steps[0].advanceMs: '],
    [step({ reply: {}, expect: { requests: 0 } }), 'case "one": steps[0].reply: must be {"snapshot"'],
    [step({ reply: { error: "TIMEOUT" }, expect: { requests: 0 } }), 'case "one": steps[0].reply: must be'],
    [step({ reply: { error: "GONE", retryable: true }, expect: { requests: 0 } }), 'case "one": steps[0].reply: must']
  ] as const)("names the case and the member of a lifecycle file at fault: %j", ([file, problem]) =>
    Effect.gen(function* () {
      expect((yield* problems(LifecycleSuite.decode, file))[0]).toContain(problem)
    })
  )

  it.effect("a word that is none of many is one problem", () =>
    Effect.gen(function* () {
      const [found, ...more] = yield* problems(SnapshotSuite.decode, snapshots({ ...snapshotCase, expected: "FOO" }))
      expect(found).toMatch(/^case "one": expected: expected one of valid, INVALID_CONFIG, .*, got "FOO"$/)
      expect(more).toEqual([])
    })
  )

  it.effect("names every problem, not only the first", () =>
    Effect.gen(function* () {
      const found = yield* problems(
        SnapshotSuite.decode,
        snapshots({ ...snapshotCase, etag: 1 }, { ...snapshotCase, name: "two", revision: 2 })
      )
      expect(found).toEqual([
        'case "one": etag: Expected string, actual 1',
        'case "two": revision: Expected string, actual 2'
      ])
    })
  )

  it.effect("says so of a file that is nested too deeply to describe", () =>
    Effect.gen(function* () {
      const nested = (depth: number) =>
        JSON.stringify(snapshots({ ...snapshotCase, etag: [] })).replace("[]", "[".repeat(depth) + "]".repeat(depth))
      expect((yield* problems(SnapshotSuite.decode, nested(90)))[0]).toContain('case "one": etag: Expected string')
      for (const decode of [SnapshotSuite.decode, LifecycleSuite.decode]) {
        expect(yield* problems(decode, nested(100_000))).toEqual(["the file is nested more than 100 levels deep"])
      }
    })
  )

  it("writes one element a line", () => {
    const text = FixtureFile.format({ contract }, "cases", [{ name: "one" }, { name: "two" }])
    expect(text).toBe(`{"contract":"${contract}","cases":[\n{"name":"one"},\n{"name":"two"}\n]}\n`)
    expect(JSON.parse(FixtureFile.format({}, "files", []))).toEqual({ files: [] })
  })
})
