import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, TestClock } from "effect"
import * as Report from "../../src/conformance/Report.js"
import * as SnapshotSuite from "../../src/conformance/SnapshotSuite.js"
import { InvalidSnapshot, NetworkError, SnapshotCheck, UnsupportedServer } from "../../src/delivery/DeliveryError.js"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import * as Fixtures from "../support/Fixtures.js"

/** Rules of what lies around an archive, which a snapshot case cannot say; and the bound that needs 32 MiB of archive. */
const elsewhere: ReadonlyArray<SnapshotCheck> = [
  "archive-size",
  "content-type",
  "etag-header",
  "revision-header",
  "pinned-revision",
  "unchanged-unasked",
  "unchanged-mismatch",
  "body-size",
  "body-json",
  "batch-shape",
  "batch-base64"
]

const expecting = (expected: SnapshotSuite.SnapshotCase["expected"], check?: SnapshotCheck) =>
  Effect.map(Fixtures.snapshots, ({ cases: [first], contract }): SnapshotSuite.SnapshotSuite => {
    if (first === undefined) throw new Error("no cases")
    return { contract, cases: [{ ...first, expected, ...(check === undefined ? {} : { check }) }] }
  })

const outcome = (suite: SnapshotSuite.SnapshotSuite, options?: SnapshotSuite.Options) =>
  Effect.map(SnapshotSuite.run(suite, options), ({ results: [result] }) => result)

describe("SnapshotSuite", () => {
  it.live("Snapshot.verify passes every case of fixtures/snapshots.v1.json", () =>
    Effect.gen(function* () {
      const suite = yield* Fixtures.snapshots
      const report = yield* SnapshotSuite.run(suite)
      expect(Report.lines(report)).toEqual([`${suite.cases.length} passed, 0 failed`])
      expect(suite.cases.length).toBeGreaterThanOrEqual(90)
    })
  )

  it.effect("every rule of the archive and its manifest is broken by a case that names it", () =>
    Effect.gen(function* () {
      const { cases } = yield* Fixtures.snapshots
      const named = new Set(cases.flatMap(({ check }) => check ?? []))
      expect(SnapshotCheck.literals.filter((check) => !named.has(check) && !elsewhere.includes(check))).toEqual([])
    })
  )

  it.effect("each case has a name of its own, under a heading", () =>
    Effect.gen(function* () {
      const { cases } = yield* Fixtures.snapshots
      const names = cases.map(({ name }) => name)
      expect(new Set(names).size).toBe(names.length)
      expect(names.filter((name) => !/^[^:]+: \S/.test(name))).toEqual([])
    })
  )

  it.live("a verifier that accepts everything fails exactly the invalid cases", () =>
    Effect.gen(function* () {
      const suite = yield* Fixtures.snapshots
      const { results } = yield* SnapshotSuite.run(suite, { verify: () => Effect.void })
      expect(results.map(({ passed }) => passed)).toEqual(suite.cases.map(({ expected }) => expected === "valid"))
    })
  )

  it.live("a verifier that refuses everything passes no case whose rule is named, and no valid one", () =>
    Effect.gen(function* () {
      const suite = yield* Fixtures.snapshots
      const { results } = yield* SnapshotSuite.run(suite, { verify: () => new InvalidSnapshot({}) })
      expect(results.map(({ passed }) => passed)).toEqual(
        suite.cases.map(({ check, expected }) => expected === "INVALID_SNAPSHOT" && check === undefined)
      )
    })
  )

  // Each takes one thing for granted that the contract does not.
  it.live.each<[what: string, cases: string, verify: SnapshotSuite.Options["verify"]]>([
    ["the revision of the response", "revision", ({ archive, etag }) => Snapshot.verifyArchive(archive, { etag })],
    ["the etag", "etag", ({ archive, revision }) => Snapshot.verifyArchive(archive, { revision })],
    [
      "letter case in an etag",
      "etag",
      (response) => Snapshot.verify({ ...response, etag: response.etag.toLowerCase() })
    ],
    [
      "that an etag may be weak",
      "etag",
      (response) => Snapshot.verify({ ...response, etag: response.etag.slice(-66) })
    ],
    [
      "spaces around a revision",
      "revision",
      (response) => Snapshot.verify({ ...response, revision: response.revision.trim() })
    ],
    [
      "that revisions are normalized",
      "revision",
      (response) => Snapshot.verify({ ...response, revision: response.revision.normalize("NFC") })
    ],
    [
      "that any schema version will do",
      "schema version",
      (response) => Effect.catchTag(Snapshot.verify(response), "UNSUPPORTED_SERVER", () => Effect.void)
    ]
  ])("a verifier that takes %s for granted fails a case", ([, heading, verify = Snapshot.verify]) =>
    Effect.gen(function* () {
      const { cases, contract } = yield* Fixtures.snapshots
      const suite = { contract, cases: cases.filter(({ name }) => name.startsWith(`${heading}:`)) }
      expect((yield* SnapshotSuite.run(suite)).failed).toBe(0)
      expect((yield* SnapshotSuite.run(suite, { verify })).failed).toBeGreaterThan(0)
    })
  )

  it.live("says what was expected and what came", () =>
    Effect.gen(function* () {
      expect(yield* outcome(yield* expecting("UNSUPPORTED_SERVER"))).toMatchObject({
        passed: false,
        expected: "UNSUPPORTED_SERVER",
        got: "valid"
      })
      const verify = () => new InvalidSnapshot({ check: "overlap" })
      expect(yield* outcome(yield* expecting("valid"), { verify })).toMatchObject({
        passed: false,
        expected: "valid",
        got: "INVALID_SNAPSHOT (overlap)"
      })
      expect(yield* outcome(yield* expecting("INVALID_SNAPSHOT", "zip64"), { verify })).toMatchObject({
        passed: false,
        expected: "INVALID_SNAPSHOT (zip64)",
        got: "INVALID_SNAPSHOT (overlap)"
      })
    })
  )

  it.live("looks at the rule only where the case names one", () =>
    Effect.gen(function* () {
      const verify = () => new InvalidSnapshot({ check: "overlap" })
      expect((yield* outcome(yield* expecting("INVALID_SNAPSHOT"), { verify }))?.passed).toBe(true)
      expect((yield* outcome(yield* expecting("INVALID_SNAPSHOT", "overlap"), { verify }))?.passed).toBe(true)
      const other = () => new UnsupportedServer({})
      expect((yield* outcome(yield* expecting("UNSUPPORTED_SERVER"), { verify: other }))?.passed).toBe(true)
      const network = () => new NetworkError({})
      expect((yield* outcome(yield* expecting("UNSUPPORTED_SERVER"), { verify: network }))?.got).toBe("NETWORK_ERROR")
    })
  )

  it.live("a verifier that dies or is interrupted fails the case and not the run", () =>
    Effect.gen(function* () {
      const suite = yield* expecting("valid")
      expect(yield* outcome(suite, { verify: () => Effect.dieMessage("a bug") })).toMatchObject({
        passed: false,
        got: "died: a bug"
      })
      expect(yield* outcome(suite, { verify: () => Effect.interrupt })).toMatchObject({
        passed: false,
        got: "interrupted"
      })
    })
  )

  it.effect("a verifier that never ends fails the case and not the run", () =>
    Effect.gen(function* () {
      const suite = yield* expecting("valid")
      const started = yield* Deferred.make<void>()
      const waiting = Effect.uninterruptible(Effect.async<never>(() => {}))
      const verify = () => Effect.zipRight(Deferred.succeed(started, undefined), waiting)
      const running = yield* Effect.fork(outcome(suite, { verify }))
      yield* Deferred.await(started)
      yield* TestClock.adjust("30 seconds")
      expect(yield* Fiber.join(running)).toMatchObject({ passed: false, got: "no outcome within 30s" })
    })
  )
})
