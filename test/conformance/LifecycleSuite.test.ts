import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Queue, Record, Stream, TestClock } from "effect"
import * as LifecycleSuite from "../../src/conformance/LifecycleSuite.js"
import * as Report from "../../src/conformance/Report.js"
import type * as SnapshotSuite from "../../src/conformance/SnapshotSuite.js"
import { NetworkError } from "../../src/delivery/DeliveryError.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import * as Fixtures from "../support/Fixtures.js"
import * as Script from "../support/Script.js"
import * as SimpleDelivery from "../support/SimpleDelivery.js"

const contract = "copilotkit-learned-skills-v1"

const snapshotCase = (name: string, { archive, etag, revision }: typeof Script.r1) =>
  ({ name, archiveBase64: archive, revision, etag, expected: "valid" }) as const
const snapshots: SnapshotSuite.SnapshotSuite = {
  contract,
  cases: [snapshotCase("one", Script.r1), snapshotCase("two", Script.r2), snapshotCase("two", Script.r3)]
}

type Step = typeof LifecycleSuite.Step.Encoded

/** Runs one case of these steps; the text goes through the decoder as a file's would. */
const run = (
  steps: ReadonlyArray<Step>,
  rest: { readonly config?: object; readonly options?: LifecycleSuite.Options } = {}
) =>
  Effect.gen(function* () {
    const { config, options } = rest
    const text = JSON.stringify({ contract, initialTimeMs: 1000, cases: [{ name: "case", config, steps }] })
    const { results } = yield* LifecycleSuite.run(yield* LifecycleSuite.decode(text), snapshots, options)
    expect(results).toHaveLength(1)
    return results[0]
  })

type Acquire = SkillDelivery.SkillDelivery["Type"]["acquire"]

/** Never ends, and unlike `Effect.never` keeps no timer for it. */
const waiting: Acquire = Effect.async<never>(() => {})

const stub = (acquire: Acquire, shown: { readonly revision?: string } = {}) => {
  const status = Effect.succeed({ initialized: false, mode: "latest", stale: false, ...shown } as const)
  const service = { acquire, initialize: Effect.asVoid(acquire), status, changes: Stream.fromEffect(status) }
  return () => Layer.succeed(SkillDelivery.SkillDelivery, service)
}

const first: Step = { reply: { snapshot: "one" }, expect: { requests: 1, revision: "r1" } }

describe("LifecycleSuite", () => {
  it.live("SkillDelivery passes every case of fixtures/lifecycle.v1.json", () =>
    Effect.gen(function* () {
      const suite = yield* Fixtures.lifecycle
      const report = yield* LifecycleSuite.run(suite, yield* Fixtures.snapshots)
      expect(Report.lines(report)).toEqual([`${suite.cases.length} passed, 0 failed`])
      expect(suite.cases.length).toBeGreaterThanOrEqual(30)
      expect(new Set(suite.cases.map(({ name }) => name)).size).toBe(suite.cases.length)
    })
  )

  it.live("a second implementation passes every case too", () =>
    Effect.gen(function* () {
      const suite = yield* Fixtures.lifecycle
      const report = yield* LifecycleSuite.run(suite, yield* Fixtures.snapshots, { delivery: SimpleDelivery.layer() })
      expect(Report.lines(report)).toEqual([`${suite.cases.length} passed, 0 failed`])
    })
  )

  it.live.each(Record.toEntries(SimpleDelivery.flaws))("a case notices when %s", ([flaw, heading]) =>
    Effect.gen(function* () {
      const { cases, ...rest } = yield* Fixtures.lifecycle
      const suite = { ...rest, cases: cases.filter(({ name }) => name.startsWith(heading)) }
      const report = yield* LifecycleSuite.run(suite, yield* Fixtures.snapshots, {
        delivery: SimpleDelivery.layer(flaw)
      })
      expect(report.failed).toBeGreaterThan(0)
    })
  )

  it.live("starts at the file's time and advances by each step, backwards too", () =>
    Effect.gen(function* () {
      expect(
        yield* run([
          { ...first, expect: { requests: 1, lastCheckedAt: 1000 } },
          { advanceMs: 4999, expect: { requests: 1, lastCheckedAt: "1970-01-01T00:00:01.000Z" } },
          // The clock went back behind the check: expired (contract, Lifecycle 2).
          { advanceMs: -5000, reply: { unchanged: "one" }, expect: { requests: 2, lastCheckedAt: 999 } }
        ])
      ).toEqual({ name: "case", passed: true, expected: "3 steps", got: "3 steps" })
    })
  )

  it.live.each<[member: string, expect: Partial<Step["expect"]>, expected: string, got: string]>([
    ["requests", { requests: 2 }, "requests 2", "requests 1"],
    ["revision", { revision: "r2" }, 'revision "r2"', 'revision "r1"'],
    ["error", { error: "TIMEOUT" }, "acquire TIMEOUT", "acquire success"],
    ["initialized", { initialized: false }, "initialized false", "initialized true"],
    ["stale", { stale: true }, "stale true", "stale false"],
    [
      "lastCheckedAt",
      { lastCheckedAt: 0 },
      "lastCheckedAt 1970-01-01T00:00:00.000Z",
      "lastCheckedAt 1970-01-01T00:00:01.000Z"
    ],
    ["lastCheckedAt null", { lastCheckedAt: null }, "lastCheckedAt never", "lastCheckedAt 1970-01-01T00:00:01.000Z"]
  ])("fails on a wrong %s and says so", ([, wrong, expected, got]) =>
    Effect.gen(function* () {
      expect(yield* run([{ ...first, expect: { requests: 1, ...wrong } }])).toEqual({
        name: "case",
        passed: false,
        expected: `step 1: ${expected}`,
        got: `step 1: ${got}`
      })
    })
  )

  it.live("says everything that is wrong in the first wrong step, and ends there", () =>
    Effect.gen(function* () {
      expect(yield* run([first, { expect: { requests: 2, stale: true } }, { expect: { requests: 9 } }])).toMatchObject({
        expected: "step 2: requests 2, stale true",
        got: "step 2: requests 1, stale false"
      })
    })
  )

  it.live("fails on an error where success is expected, with the code that came", () =>
    Effect.gen(function* () {
      expect(
        yield* run([
          { reply: { error: "REVISION_REVOKED", retryable: false }, expect: { requests: 1, revision: "r1" } }
        ])
      ).toMatchObject({
        expected: 'step 1: acquire success, revision "r1"',
        got: "step 1: acquire REVISION_REVOKED, revision none"
      })
    })
  )

  it.live("compares the revision beside an error with that of the status", () =>
    Effect.gen(function* () {
      const delivery = stub(new NetworkError(), { revision: "r7" })
      const failing = (revision: string): Step => ({ expect: { requests: 0, error: "NETWORK_ERROR", revision } })
      expect(yield* run([failing("r7")], { options: { delivery } })).toMatchObject({ passed: true })
      expect(yield* run([failing("r8")], { options: { delivery } })).toMatchObject({ got: 'step 1: revision "r7"' })
    })
  )

  it.live("a request with no queued reply fails the case", () =>
    Effect.gen(function* () {
      const result = yield* run([{ expect: { requests: 1, error: "NETWORK_ERROR" } }])
      expect(result).toMatchObject({ passed: false })
      expect(result?.got).toContain("no reply queued")
    })
  )

  it.live("a request with no queued reply fails the case even when the delivery hides it", () =>
    Effect.gen(function* () {
      const delivery: LifecycleSuite.Options["delivery"] = (options) =>
        Layer.effect(
          SkillDelivery.SkillDelivery,
          Effect.map(SkillDelivery.SkillDelivery, (service) => ({
            ...service,
            acquire: Effect.catchAllDefect(service.acquire, () =>
              Effect.succeed({ revision: "r1", etag: "", skills: [] })
            )
          }))
        ).pipe(Layer.provide(SkillDelivery.layer(options)))
      expect(yield* run([{ expect: { requests: 1, revision: "r1" } }], { options: { delivery } })).toMatchObject({
        passed: false,
        expected: "step 1: requests in this step at most 0",
        got: "step 1: requests in this step 1"
      })
    })
  )

  it.live("an unused reply is dropped at the end of its step", () =>
    Effect.gen(function* () {
      expect(
        yield* run([
          first,
          { reply: { error: "REVISION_REVOKED", retryable: false }, expect: { requests: 1, revision: "r1" } },
          { advanceMs: 5000, reply: { unchanged: "one" }, expect: { requests: 2, revision: "r1" } }
        ])
      ).toMatchObject({ passed: true })
    })
  )

  it.live("hands a reply's own retryable on", () =>
    Effect.gen(function* () {
      const seen: Array<boolean | undefined> = []
      const delivery: LifecycleSuite.Options["delivery"] = (options) =>
        Layer.effect(
          SkillDelivery.SkillDelivery,
          Effect.map(SkillDelivery.SkillDelivery, (service) => ({
            ...service,
            acquire: Effect.tapError(service.acquire, (error) => Effect.sync(() => seen.push(error.retryable)))
          }))
        ).pipe(Layer.provide(SkillDelivery.layer(options)))
      for (const retryable of [true, false]) {
        yield* run([{ reply: { error: "TIMEOUT", retryable }, expect: { requests: 1, error: "TIMEOUT" } }], {
          options: { delivery }
        })
      }
      expect(seen).toEqual([true, false])
    })
  )

  it.live.each<[snapshot: string, problem: string]>([
    ["three", 'no snapshot case is named "three"'],
    ["two", 'more than one snapshot case is named "two"']
  ])("a reply that names the snapshot %s fails the case", ([snapshot, problem]) =>
    Effect.gen(function* () {
      const result = yield* run([first, { reply: { snapshot }, expect: { requests: 2 } }])
      expect(result).toMatchObject({ passed: false, expected: "step 2: an outcome" })
      expect(result?.got).toContain(problem)
    })
  )

  it.live("a configuration that is refused fails the case", () =>
    Effect.gen(function* () {
      const result = yield* run([first], { config: { revision: " " } })
      expect(result).toMatchObject({ passed: false, expected: "a delivery" })
      expect(result?.got).toContain("INVALID_CONFIG: ")
    })
  )

  it.effect.each<[what: string, acquire: Acquire]>([
    ["waits for ever", waiting],
    ["cannot be interrupted either", Effect.uninterruptible(waiting)],
    ["waits for a clock that nobody moves", Effect.zipRight(Effect.sleep("5 seconds"), new NetworkError())]
  ])("an acquire that %s fails the case and not the run", ([, acquire]) =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const delivery = stub(Effect.zipRight(Deferred.succeed(started, undefined), acquire))
      const running = yield* Effect.fork(run([first], { options: { delivery } }))
      yield* Deferred.await(started)
      // The run's own clock; the case has another one.
      yield* TestClock.adjust("30 seconds")
      expect(yield* Fiber.join(running)).toEqual({
        name: "case",
        passed: false,
        expected: "step 1: an outcome",
        got: "step 1: no outcome within 30s"
      })
    })
  )

  it.effect("patience is for each step: a case of many steps may take longer", () =>
    Effect.gen(function* () {
      const started = yield* Queue.unbounded<void>()
      const go = yield* Queue.unbounded<void>()
      const slow = Queue.offer(started, undefined).pipe(
        Effect.zipRight(Queue.take(go)),
        Effect.as({ revision: "r1", etag: "", skills: [] })
      )
      const step: Step = { expect: { requests: 0 } }
      const running = yield* Effect.fork(run([step, step, step], { options: { delivery: stub(slow) } }))
      for (let count = 0; count < 3; count++) {
        yield* Queue.take(started)
        yield* TestClock.adjust("20 seconds")
        yield* Queue.offer(go, undefined)
      }
      expect(yield* Fiber.join(running)).toMatchObject({ passed: true, got: "3 steps" })
    })
  )

  it.effect("patience can be chosen", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const delivery = stub(Effect.zipRight(Deferred.succeed(started, undefined), waiting))
      const running = yield* Effect.fork(run([first], { options: { delivery, patience: "2 millis" } }))
      yield* Deferred.await(started)
      yield* TestClock.adjust("2 millis")
      expect(yield* Fiber.join(running)).toMatchObject({ got: "step 1: no outcome within 2ms" })
    })
  )
})
