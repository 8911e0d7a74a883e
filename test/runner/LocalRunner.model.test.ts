import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Scope, Stream } from "effect"
import * as fc from "fast-check"
import type { HarnessScript, HarnessStep } from "../../src/runner/HarnessScript.js"
import * as LocalRunner from "../../src/runner/LocalRunner.js"
import type { CommandType, RunCommand } from "../../src/runner/RunCommand.js"
import type { RunEvent } from "../../src/runner/RunEvent.js"
import type { CommandReceipt, RunnerMessage } from "../../src/runner/RunnerStream.js"
import type { DecidedTerminal } from "../../src/runner/TerminalDecision.js"
import * as Hostile from "../support/HostileHarness.js"
import * as Documents from "../support/RunDocuments.js"
import { command, identity } from "../support/RunDriver.js"
import * as Scripted from "../support/ScriptedHarness.js"
import { seed } from "../support/Seed.js"

/** What a controller does, one after the other; `yield` lets others go on that many times. */
type Action =
  | { readonly kind: "yield"; readonly times: number }
  /** Which number and id it has, as far from the right one. */
  | {
      readonly kind: "command"
      readonly type: CommandType
      readonly off: number
      readonly again: boolean
      readonly wait: boolean
    }
  | { readonly kind: "kill" }

/** How the run is left when everything is done: waited for, closed, or its scope or its fiber ended. */
type Leaving = "close" | "scope" | "interrupt"

interface Plan {
  readonly actions: ReadonlyArray<Action>
  readonly leaving: Leaving
  readonly maximumWaiting: number
}

const weighted = (...entries: ReadonlyArray<readonly [number, CommandType]>) =>
  fc.oneof(...entries.map(([weight, type]) => ({ weight, arbitrary: fc.constant(type) })))

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("yield" as const), times: fc.nat(30) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("command" as const),
      type: weighted(
        [2, "session.open"],
        [3, "turn.start"],
        [2, "turn.interrupt"],
        [1, "turn.stop"],
        [1, "run.cancel"],
        [2, "request.resolve"],
        [1, "session.close"],
        [1, "run.prepare"],
        [1, "runner.drain"]
      ),
      off: fc.oneof({ weight: 8, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constantFrom(-1, 1) }),
      again: fc.oneof({ weight: 6, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
      wait: fc.boolean()
    })
  },
  { weight: 1, arbitrary: fc.constant<Action>({ kind: "kill" }) }
)

const opening = (["run.prepare", "session.open", "turn.start"] as const).map(
  (type): Action => ({ kind: "command", type, off: 0, again: false, wait: true })
)

/** Most open a session and a turn first, or nothing much would happen; some do not. */
const plan: fc.Arbitrary<Plan> = fc.record({
  actions: fc
    .tuple(fc.constantFrom(3, 3, 3, 3, 2, 1, 0), fc.array(action, { maxLength: 8 }))
    .map(([opened, actions]) => [...opening.slice(0, opened), ...actions]),
  leaving: fc.constantFrom("close", "scope", "interrupt"),
  maximumWaiting: fc.constantFrom(1, 3, 256)
})

/** The model: what a ledger of commands says, from the contract and not from the code. */
const makeModel = () => {
  const known = new Map<string, string>()
  return {
    next: () => known.size + 1,
    /** The status that the receipt has to have; `undefined` where that depends on the harness. */
    judge: (sent: RunCommand): CommandReceipt["status"] | undefined => {
      const before = known.get(sent.commandId)
      if (before !== undefined) return before === sent.type ? "duplicate" : "rejected"
      if (sent.controllerSeq !== known.size + 1) return "rejected"
      known.set(sent.commandId, sent.type)
      return sent.type === "runner.drain" ? "rejected" : undefined
    }
  }
}

interface Observation {
  readonly messages: ReadonlyArray<RunnerMessage>
  readonly receipts: ReadonlyArray<{
    readonly sent: RunCommand
    readonly expected: CommandReceipt["status"] | undefined
    readonly receipt: CommandReceipt
  }>
}

type Messages = ReadonlyArray<RunnerMessage>

/** Carries a plan out and gives everything that was seen of the run, whose reader outlives it. */
const carryOut = ({ actions, leaving, maximumWaiting }: Plan, kill: (messages: Messages) => Effect.Effect<void>) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { start } = yield* LocalRunner.LocalRunner
    const run = yield* Scope.extend(start({ identity, maximumWaiting, readyWithin: "50 seconds" }), scope)
    const messages: Array<RunnerMessage> = []
    const reading = yield* Effect.fork(
      Stream.runForEach(run.messages, (message) => Effect.sync(() => messages.push(message)))
    )
    const model = makeModel()
    const receipts: Array<Observation["receipts"][number]> = []
    const sent: Array<RunCommand> = []
    const sending: Array<Fiber.Fiber<unknown>> = []

    const act = Effect.fnUntraced(function* (action: Action) {
      if (action.kind === "yield") return yield* Effect.repeatN(Effect.yieldNow(), action.times)
      if (action.kind === "kill") return yield* kill(messages)
      const repeated = action.again ? sent.at(-1) : undefined
      const next =
        repeated ?? command(model.next() + action.off, action.type, { requestId: "request-1", turnId: "turn-1" })
      const expected = model.judge(next)
      sent.push(next)
      const fiber = yield* run.send(next).pipe(
        Effect.tap((receipt) => Effect.sync(() => receipts.push({ sent: next, expected, receipt }))),
        Effect.forkIn(scope)
      )
      sending.push(fiber)
      // The next one is given after this one has been, but not always after it has been answered.
      yield* action.wait ? Fiber.await(fiber) : Effect.repeatN(Effect.yieldNow(), 10)
    })

    const controlling = Effect.forEach(actions, act, { discard: true })
    if (leaving === "interrupt") {
      const controller = yield* Effect.fork(Effect.ensuring(controlling, Scope.close(scope, Exit.void)))
      yield* Effect.repeatN(Effect.yieldNow(), actions.length * 20)
      yield* Fiber.interrupt(controller)
    } else {
      yield* controlling
      if (leaving === "close") yield* Effect.zipRight(run.close, Fiber.await(reading))
      yield* Scope.close(scope, Exit.void)
    }
    yield* Fiber.await(reading)
    yield* Fiber.awaitAll(sending)
    return { messages, receipts } satisfies Observation
  })

const events = (messages: Messages): ReadonlyArray<RunEvent> =>
  messages.flatMap((message) => (message.kind === "event" ? [message.event] : []))

/** The processes that a harness has told of: its own first. */
const pidsOf = (messages: Messages): ReadonlyArray<number> =>
  events(messages).flatMap(({ payload }) => {
    const { pid } = payload as { readonly pid?: unknown }
    return typeof pid === "number" ? [pid] : []
  })

/** What holds for every run, however it went. */
const verify = (observation: Observation) => {
  const told = events(observation.messages)
  const types = told.map(({ eventType }) => eventType)
  const times = (type: string) => types.filter((other) => other === type).length

  // Numbers without gaps, and every event and its id once.
  expect(told.map(({ sourceSeq }) => sourceSeq)).toEqual(told.map((_, index) => index + 1))
  expect(new Set(told.map(({ sourceEventId }) => sourceEventId)).size).toBe(told.length)

  // Exactly one terminal for a run that was prepared, as the last thing that is said at all; none for another.
  const prepared = times("harness.starting")
  expect(prepared).toBeLessThanOrEqual(1)
  expect(times("run.terminal")).toBe(prepared)
  expect(times("harness.exited")).toBe(prepared)
  if (prepared === 1) {
    expect(types.slice(-2)).toEqual(["harness.exited", "run.terminal"])
    expect(observation.messages.at(-1)).toMatchObject({ kind: "event", event: { eventType: "run.terminal" } })
  }
  for (const once of ["harness.ready", "run.result.proposed"]) expect(times(once)).toBeLessThanOrEqual(1)

  // Each receipt as the model has it, unless the run had ended before.
  for (const { expected, receipt, sent } of observation.receipts) {
    expect(receipt).toMatchObject({ commandId: sent.commandId, controllerSeq: sent.controllerSeq })
    if (expected !== undefined && receipt.detail !== "the run has ended") expect(receipt.status).toBe(expected)
  }
  const accepted = (type: string) =>
    observation.receipts.filter(({ receipt, sent }) => sent.type === type && receipt.status === "accepted").length
  expect(times("session.starting")).toBeGreaterThanOrEqual(accepted("session.open"))
  expect(times("turn.submitted")).toBeGreaterThanOrEqual(accepted("turn.start"))
  return { told, types, accepted }
}

const terminalOf = (told: ReadonlyArray<RunEvent>) => {
  const last = told.at(-1)
  return last?.eventType === "run.terminal" ? Option.some(last.payload as DecidedTerminal) : Option.none()
}

/** What a run may have ended as, whose harness broke the protocol or may not have. */
const verifyTerminal = (
  { reconciliation, runTerminalState }: DecidedTerminal,
  { accepted, types }: ReturnType<typeof verify>,
  breaks: boolean
) => {
  const { processExit, reason, semanticResultObserved } = reconciliation
  expect(semanticResultObserved).toBe(types.includes("run.result.proposed"))
  const byProcess = semanticResultObserved ? "successful_process_and_result" : "semantic_result_missing"
  expect([
    "controller_closed",
    ...(accepted("turn.interrupt") + accepted("turn.stop") > 0 ? ["turn_interrupted"] : []),
    ...(accepted("run.cancel") > 0 ? ["run_cancelled"] : []),
    ...(breaks ? ["harness_protocol_violation"] : []),
    processExit.success ? byProcess : "harness_process_failed"
  ]).toContain(reason)
  expect(runTerminalState === "succeeded").toBe(reason === "successful_process_and_result")
}

describe("every run has one end, and its events no gap", () => {
  // Not a valid event, a result that is none, and the runner's own terminal.
  const breaking: ReadonlyArray<HarnessStep> = [
    { kind: "event", event_type: "turn.paused", payload: {} },
    { kind: "result", payload: {} },
    { kind: "event", event_type: "run.terminal", payload: Documents.terminal }
  ]

  const step: fc.Arbitrary<HarnessStep> = fc.oneof(
    {
      weight: 4,
      arbitrary: fc
        .constantFrom(...(["item.started", "item.delta", "turn.completed"] as const))
        .map((event_type): HarnessStep => ({ kind: "event", event_type, item_id: "item", payload: { text: "x" } }))
    },
    { weight: 2, arbitrary: fc.constant<HarnessStep>({ kind: "result", payload: Documents.result }) },
    { weight: 2, arbitrary: fc.constant<HarnessStep>({ kind: "terminal", payload: Documents.terminal }) },
    { weight: 1, arbitrary: fc.constant<HarnessStep>({ kind: "delay", milliseconds: 1 }) },
    { weight: 1, arbitrary: fc.constant<HarnessStep>({ kind: "log", stream: "stdout", text: "working" }) },
    { weight: 1, arbitrary: fc.constant<HarnessStep>({ kind: "await_interrupt" }) },
    { weight: 1, arbitrary: fc.constant<HarnessStep>({ kind: "await_resolution", request_id: "request-1" }) },
    { weight: 1, arbitrary: fc.constant<HarnessStep>({ kind: "request", request: { requestId: "request-1" } }) },
    { weight: 1, arbitrary: fc.constant<HarnessStep>({ kind: "spawn_worker" }) },
    { weight: 1, arbitrary: fc.constantFrom(0, 0, 0, 7).map((code): HarnessStep => ({ kind: "exit", code })) },
    { weight: 1, arbitrary: fc.constantFrom(...breaking) }
  )

  const script: fc.Arbitrary<HarnessScript> = fc
    .array(step, { minLength: 1, maxLength: 12 })
    .map((steps) => ({ schema: "paperclip.fake_harness.script.v1", name: "random", steps }))

  it("over harnesses in memory", () =>
    fc.assert(
      fc.asyncProperty(script, plan, (script, plan) =>
        Effect.gen(function* () {
          const harness = Scripted.script(script)
          const observation = yield* Effect.provide(
            carryOut(plan, () => harness.kill),
            Layer.provide(LocalRunner.layer, harness.layer)
          )
          const verified = verify(observation)
          const breaks = script.steps.some((step) => breaking.includes(step))
          Option.map(terminalOf(verified.told), (terminal) => verifyTerminal(terminal, verified, breaks))
          expect(harness.running()).toBe(0)
        }).pipe(Effect.runPromise)
      ),
      { seed, numRuns: 150 }
    ))

  it("over processes, of which none is left", () => {
    const steps = fc.record({
      ignoring: fc.boolean(),
      worker: fc.boolean(),
      body: fc.array(
        fc.constantFrom("events:3", "result", "stderr:40", "read", "long:70000", "text:garbage", "close-stdout"),
        { maxLength: 4 }
      ),
      ending: fc.constantFrom("stay", "exit:0", "exit:3", "kill")
    })
    return fc.assert(
      fc.asyncProperty(steps, plan, ({ body, ending, ignoring, worker }, plan) =>
        Effect.gen(function* () {
          const layer = Hostile.layer([
            ...(ignoring ? ["ignore-term"] : []),
            "ready",
            "pid:event",
            ...(worker ? ["worker:event"] : []),
            ...body,
            ending
          ])
          const kill = (messages: Messages) =>
            Effect.sync(() => {
              const [pid] = pidsOf(messages)
              if (pid !== undefined && Hostile.isRunning(pid)) process.kill(pid, "SIGKILL")
            })
          const observation = yield* Effect.provide(carryOut(plan, kill), Layer.provide(LocalRunner.layer, layer))
          const verified = verify(observation)
          Option.map(terminalOf(verified.told), (terminal) => verifyTerminal(terminal, verified, true))
          yield* Effect.forEach(pidsOf(observation.messages), Hostile.gone)
        }).pipe(Effect.runPromise)
      ),
      { seed, numRuns: 12 }
    )
  })
})
