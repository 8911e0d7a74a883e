/**
 * `lifecycle.v1.json`: what a delivery does with a registry's replies over time, on a virtual clock (contract, Fixture
 * files).
 *
 * @module
 */
import { Clock, DateTime, type Duration, Effect, Layer, Queue, Ref, Schema, TestClock, TestContext } from "effect"
import { DeliveryCode, fromCode, type InvalidConfig } from "../delivery/DeliveryError.js"
import type { DeliveryStatus } from "../delivery/DeliveryStatus.js"
import type { RegistryClient } from "../delivery/RegistryClient.js"
import * as RegistryScript from "../delivery/RegistryScript.js"
import * as SkillDelivery from "../delivery/SkillDelivery.js"
import type { VerifiedSnapshot } from "../delivery/Snapshot.js"
import * as FixtureFile from "./FixtureFile.js"
import * as Outcome from "./Outcome.js"
import * as Report from "./Report.js"
import * as SnapshotSuite from "./SnapshotSuite.js"

/** What the registry answers: with a snapshot case, that a snapshot case is still current, or with an error. */
export const Reply = Schema.Union(
  Schema.Struct({ snapshot: Schema.String }),
  Schema.Struct({ unchanged: Schema.String }),
  Schema.Struct({ error: DeliveryCode, retryable: Schema.Boolean })
).annotations({
  message: () => ({
    message:
      'must be {"snapshot": <snapshot case>}, {"unchanged": <snapshot case>} or {"error": <code>, "retryable": <boolean>}',
    override: true
  })
})
export type Reply = typeof Reply.Type

/** What must be seen when the step's acquire has ended. What is absent is not looked at. */
export const Expectation = Schema.Struct({
  /** Requests so far, in all steps together. */
  requests: Schema.NonNegativeInt,
  /** The revision that the acquire succeeds with; beside an `error`, the revision that the status shows. */
  revision: Schema.optionalWith(Schema.String, { exact: true }),
  /** The acquire fails with it. Absent: the acquire succeeds. */
  error: Schema.optionalWith(FixtureFile.oneOf(DeliveryCode.literals), { exact: true }),
  initialized: Schema.optionalWith(Schema.Boolean, { exact: true }),
  stale: Schema.optionalWith(Schema.Boolean, { exact: true }),
  /** ISO 8601 or milliseconds of the virtual clock; null: never checked. */
  lastCheckedAt: Schema.optionalWith(Schema.Union(Schema.DateTimeUtc, Schema.DateTimeUtcFromNumber, Schema.Null), {
    exact: true
  })
})
export type Expectation = typeof Expectation.Type

/** Advances the clock, queues the reply if there is one, and acquires once. */
export const Step = Schema.Struct({
  advanceMs: Schema.optionalWith(Schema.Int, { exact: true }),
  reply: Schema.optionalWith(Reply, { exact: true }),
  expect: Expectation
})
export type Step = typeof Step.Type

/** Steps on one delivery, which starts with nothing held. `config.revision` pins it. */
export const LifecycleCase = Schema.Struct({
  name: Schema.String,
  config: Schema.optionalWith(Schema.Struct({ revision: Schema.optionalWith(Schema.String, { exact: true }) }), {
    exact: true
  }),
  steps: Schema.NonEmptyArray(Step)
})
export type LifecycleCase = typeof LifecycleCase.Type

/** The whole file. Every case starts at `initialTimeMs`, milliseconds of the virtual clock. */
export const LifecycleSuite = Schema.Struct({
  contract: Schema.Literal(FixtureFile.contract),
  initialTimeMs: Schema.Int,
  cases: Schema.Array(LifecycleCase)
})
export type LifecycleSuite = typeof LifecycleSuite.Type

/** Text of a lifecycle file -> suite. Fails with `FixtureError`, which names the case and the member at fault. */
export const decode = (text: string): Effect.Effect<LifecycleSuite, FixtureFile.FixtureError> =>
  FixtureFile.decode(LifecycleSuite, text)

export interface Options {
  /** What is under test, with the contract's default window and timeout. Default: `SkillDelivery.layer`. */
  readonly delivery?: (options: {
    readonly container: string
    readonly revision?: string
  }) => Layer.Layer<SkillDelivery.SkillDelivery, InvalidConfig, RegistryClient>
  /** A case with a step that takes longer has failed, so that one that never ends does not hang the run. Default: 30 seconds. */
  readonly patience?: Duration.DurationInput
}

/**
 * Runs every case of the suite on a delivery of its own, with a scripted registry and Effect's `TestClock`. `snapshots` is
 * the suite that the replies name their cases of. Never fails: what goes wrong is a failing case of the report, and a case
 * ends at its first wrong step.
 *
 * @example
 * ```ts
 * import { LifecycleSuite, Report, SnapshotSuite } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 * import { readFile } from "node:fs/promises"
 *
 * const fixture = (name: string) =>
 *   Effect.promise(() => readFile(`node_modules/effect-agent-contracts/fixtures/${name}`, "utf8"))
 *
 * const program = Effect.gen(function* () {
 *   const snapshots = yield* SnapshotSuite.decode(yield* fixture("snapshots.v1.json"))
 *   const lifecycle = yield* LifecycleSuite.decode(yield* fixture("lifecycle.v1.json"))
 *   return Report.lines(yield* LifecycleSuite.run(lifecycle, snapshots))
 * })
 *
 * Effect.runPromise(program).then((lines) => console.log(lines.join("\n")))
 * ```
 */
export const run = Effect.fn("LifecycleSuite.run")(function* (
  suite: LifecycleSuite,
  snapshots: SnapshotSuite.SnapshotSuite,
  options: Options = {}
) {
  const { delivery = SkillDelivery.layer, patience = "30 seconds" } = options
  const results = yield* Effect.forEach(
    suite.cases,
    Effect.fnUntraced(function* (self) {
      const reached = yield* Ref.make(0)
      const progress = yield* Queue.sliding<number>(1)
      const reach = (step: number) => Effect.zipRight(Ref.set(reached, step), Queue.offer(progress, step))
      const steps = TestClock.setTime(suite.initialTimeMs).pipe(
        Effect.zipRight(
          runSteps(self, snapshots, reach).pipe(
            Effect.provide(Layer.provideMerge(delivery({ container: "any", ...self.config }), RegistryScript.layer))
          )
        ),
        Effect.provide(TestContext.TestContext)
      )
      const outcome = yield* Outcome.within(steps, patience, Queue.take(progress))
      return result(self, outcome, yield* Ref.get(reached))
    }),
    // The virtual clock waits for real timers at each advance; cases share those waits.
    { concurrency: 8 }
  )
  return Report.make(results)
})

/** One thing that was looked at. */
interface Observation {
  readonly what: string
  readonly expected: string
  readonly got: string
}

/** The wrong observations of the first step that has any; none when every step was as expected. */
const runSteps = Effect.fnUntraced(function* (
  self: LifecycleCase,
  snapshots: SnapshotSuite.SnapshotSuite,
  reach: (step: number) => Effect.Effect<unknown>
) {
  const delivery = yield* SkillDelivery.SkillDelivery
  const registry = yield* RegistryScript.RegistryScript
  for (const [index, step] of self.steps.entries()) {
    yield* reach(index + 1)
    if (step.advanceMs !== undefined) {
      // Not `adjust`, which does not take the clock back (contract, Lifecycle 2).
      yield* TestClock.setTime((yield* Clock.currentTimeMillis) + step.advanceMs)
    }
    const before = yield* registry.requests
    if (step.reply !== undefined) yield* registry.enqueue(yield* scripted(step.reply, snapshots))
    const acquired = yield* Outcome.of(delivery.acquire)
    yield* registry.clear
    const requests = yield* registry.requests
    const status = yield* delivery.status
    const wrong = [
      ...observations(step.expect, acquired, requests.length, status),
      ...unanswered(requests.length - before.length, step.reply)
    ].filter(({ expected, got }) => expected !== got)
    if (wrong.length > 0) return wrong
  }
  return []
})

/** The reply as the client gives it. A name that no snapshot case has, or two have, is a defect of the file. */
const scripted = (
  reply: Reply,
  { cases }: SnapshotSuite.SnapshotSuite
): Effect.Effect<RegistryScript.ScriptedReply> => {
  if ("error" in reply) return Effect.succeed(Effect.fail(fromCode(reply.error, { retryable: reply.retryable })))
  const name = "snapshot" in reply ? reply.snapshot : reply.unchanged
  const [found, another] = cases.filter((self) => self.name === name)
  if (found === undefined || another !== undefined) {
    return Effect.dieMessage(
      `${found === undefined ? "no" : "more than one"} snapshot case is named ${JSON.stringify(name)}`
    )
  }
  return Effect.succeed(
    "snapshot" in reply
      ? RegistryScript.snapshot(SnapshotSuite.response(found))
      : RegistryScript.unchanged(found.revision, found.etag)
  )
}

const observations = (
  expect: Expectation,
  acquired: Outcome.Outcome<VerifiedSnapshot>,
  requests: number,
  status: DeliveryStatus
): ReadonlyArray<Observation> => {
  const got = Outcome.match(acquired, {
    Success: ({ value }) => ({ word: "success", revision: value.revision }),
    Failure: ({ error }) => ({ word: error._tag, revision: status.revision }),
    Broken: ({ problem }) => ({ word: problem, revision: status.revision })
  })
  return [
    { what: "acquire", expected: expect.error ?? "success", got: got.word },
    { what: "requests", expected: `${expect.requests}`, got: `${requests}` },
    ...observe("revision", expect.revision, got.revision, quote),
    ...observe("initialized", expect.initialized, status.initialized, String),
    ...observe("stale", expect.stale, status.stale, String),
    ...observe("lastCheckedAt", expect.lastCheckedAt, status.lastCheckedAt, time)
  ]
}

/** Nothing where the step does not say what to expect. */
const observe = <A, B>(
  what: string,
  expected: A | undefined,
  got: B,
  show: (value: A | B) => string
): ReadonlyArray<Observation> => (expected === undefined ? [] : [{ what, expected: show(expected), got: show(got) }])

/** A request without a queued reply fails the case, whatever the delivery made of it. */
const unanswered = (requests: number, reply: Reply | undefined): ReadonlyArray<Observation> => {
  const replies = reply === undefined ? 0 : 1
  return requests <= replies
    ? []
    : [{ what: "requests in this step", expected: `at most ${replies}`, got: `${requests}` }]
}

const quote = (text: string | undefined): string => JSON.stringify(text) ?? "none"

const time = (moment: DateTime.Utc | null | undefined): string =>
  moment === null || moment === undefined ? "never" : DateTime.formatIso(moment)

const result = (
  self: LifecycleCase,
  outcome: Outcome.Outcome<ReadonlyArray<Observation>>,
  step: number
): Report.CaseResult => {
  const failed = (expected: string, got: string) => ({ name: self.name, passed: false, expected, got })
  return Outcome.match(outcome, {
    Success: ({ value: wrong }) => {
      const steps = `${self.steps.length} steps`
      if (wrong.length === 0) return { name: self.name, passed: true, expected: steps, got: steps }
      const line = (side: "expected" | "got") =>
        `step ${step}: ${wrong.map((each) => `${each.what} ${each[side]}`).join(", ")}`
      return failed(line("expected"), line("got"))
    },
    Failure: ({ error }) => failed("a delivery", `${error._tag}: ${error.message}`),
    Broken: ({ problem }) => failed(`step ${step}: an outcome`, `step ${step}: ${problem}`)
  })
}
