import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, layer } from "@effect/vitest"
import { Context, Effect, Layer, Predicate } from "effect"
import * as Harness from "../../../src/runner/Harness.js"
import * as LocalRunner from "../../../src/runner/LocalRunner.js"
import * as Replay from "../../../src/runner/Replay.js"
import * as ReplayFixture from "../../../src/runner/ReplayFixture.js"
import type { CommandType } from "../../../src/runner/RunCommand.js"
import type { EventType } from "../../../src/runner/RunEvent.js"
import type { DecidedTerminal, ProcessExit } from "../../../src/runner/TerminalDecision.js"
import * as HarnessProcess from "../../support/HarnessProcess.js"
import { gone } from "../../support/HostileHarness.js"
import * as PublicProtocol from "../../support/PublicProtocol.js"
import * as Documents from "../../support/RunDocuments.js"
import { command, observe } from "../../support/RunDriver.js"

class FakeHarnessProgram extends Context.Tag("test/FakeHarnessProgram")<FakeHarnessProgram, string>() {}
const program = Layer.scoped(FakeHarnessProgram, HarnessProcess.program)

const identity = { ...Documents.identity, runId: "run-1", runnerInstanceId: "runner-1" }

const runner = (args: ReadonlyArray<string>, options: Partial<Harness.Options> = {}) =>
  Layer.unwrapEffect(
    Effect.map(FakeHarnessProgram, (program) =>
      LocalRunner.layer.pipe(
        Layer.provide(Harness.layer({ command: process.execPath, args: [program, ...args], ...options })),
        Layer.provide(NodeContext.layer)
      )
    )
  )

/** Machines under load are slow. */
const readyWithin = "50 seconds"

/** What a controller does when an event of that type has come: sends a command, or leaves. */
type Answers = Partial<Record<EventType, { readonly type: CommandType } | "leave">>

/** Runs a script as its controller would: it waits where order matters, and grants what it is asked for. */
const play = Effect.fnUntraced(function* (answers: Answers = {}) {
  const { start } = yield* LocalRunner.LocalRunner
  const run = yield* start({ identity, emittedAt: "conformance", readyWithin })
  const { ended, events, payload, seen, send, types } = yield* observe(run, ({ eventType, payload }, send) => {
    if (eventType !== "runtime_request.created" || !Predicate.hasProperty(payload, "request")) return undefined
    const requestId = Predicate.hasProperty(payload.request, "requestId") ? payload.request.requestId : undefined
    return send("request.resolve", { requestId, response: { granted: true } })
  })
  yield* send("run.prepare")
  yield* send("session.open")
  yield* seen("runtime.phase.changed", 2)
  yield* send("turn.start", { turnId: "turn-1", text: "Do it" })
  for (const [eventType, answer] of Object.entries(answers) as ReadonlyArray<[EventType, Answers[EventType]]>) {
    yield* seen(eventType)
    if (answer === "leave") yield* run.close
    else if (answer !== undefined) yield* send(answer.type)
  }
  yield* ended
  return { events, payload, types: types() }
}, Effect.scoped)

const outcome = (run: { readonly payload: (eventType: EventType) => unknown }) => {
  const { reconciliation, reportedWorkDisposition, runTerminalState, turnTerminalState } = run.payload(
    "run.terminal"
  ) as DecidedTerminal
  const { processExit } = run.payload("harness.exited") as { readonly processExit: ProcessExit }
  expect(reconciliation.processExit).toEqual(processExit)
  return {
    exit: processExit.exitCode ?? processExit.signal,
    terminal: `${turnTerminalState}/${runTerminalState}/${reportedWorkDisposition}`
  }
}

const opening: ReadonlyArray<EventType> = [
  "runtime.phase.changed",
  "workspace.ready",
  "harness.starting",
  "harness.ready",
  "session.starting",
  "session.started",
  "runtime.phase.changed",
  "turn.submitted",
  "turn.started"
]
const ending: ReadonlyArray<EventType> = ["harness.exited", "run.terminal"]

interface Expected {
  readonly between: ReadonlyArray<EventType>
  readonly total: number
  readonly exit: number | string
  readonly terminal: string
  readonly answers?: Answers
}

/** What the contract derives for each script (facts 6, Expected traces). */
const traces: Readonly<Record<string, Expected>> = {
  "happy-path": {
    between: [
      "item.started",
      "item.delta",
      "item.completed",
      "item.started",
      "item.completed",
      "run.result.proposed",
      "turn.completed",
      "session.closed"
    ],
    total: 19,
    exit: 0,
    terminal: "completed/succeeded/done"
  },
  error: {
    between: ["item.failed", "run.result.proposed", "turn.failed", "session.failed"],
    total: 15,
    exit: 7,
    terminal: "failed/failed/yielded"
  },
  interrupted: {
    between: ["item.started", "turn.interrupted", "item.failed", "run.result.proposed", "session.closed"],
    total: 16,
    exit: 130,
    terminal: "interrupted/cancelled/yielded",
    answers: { "item.started": { type: "turn.interrupt" } }
  },
  "permission-input": {
    between: [
      "runtime_request.created",
      "runtime_request.resolved",
      "runtime_request.created",
      "runtime_request.resolved",
      "item.started",
      "item.completed",
      "run.result.proposed",
      "turn.completed",
      "session.closed"
    ],
    total: 20,
    exit: 0,
    terminal: "completed/succeeded/done"
  },
  "duplicate-terminal": {
    between: ["run.result.proposed", "turn.completed", "session.closed", "harness.diagnostic"],
    total: 15,
    exit: 0,
    terminal: "completed/succeeded/done"
  }
}

describe.skipIf(!PublicProtocol.present)(
  `the public scripts through a runner and a process${PublicProtocol.note}`,
  () => {
    const args = (name: string) => [
      "--script",
      join(PublicProtocol.directory, `fixtures/local-runner/scripts/${name}.json`)
    ]

    layer(program, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
      it.effect.each(Object.entries(traces))(
        "%s gives the contract's trace, which is a valid fixture and comes to the same live and replayed",
        ([name, { answers, between, total, ...end }]) =>
          Effect.gen(function* () {
            const run = yield* play(answers)
            expect(run.types).toEqual([...opening, ...between, ...ending])
            expect(run.types).toHaveLength(total)
            expect(run.events.map(({ sourceSeq }) => sourceSeq)).toEqual(run.types.map((_, index) => index + 1))
            expect(outcome(run)).toEqual(end)

            const fixture = {
              schema: "paperclip.prp.fixture.v1",
              fixtureVersion: 1,
              protocolVersion: 1,
              name,
              description: "A run of a fake harness.",
              identity,
              capabilities: Documents.capabilities,
              commands: [command(1, "run.prepare"), command(2, "session.open"), command(3, "turn.start")],
              events: run.events,
              result: run.payload("run.result.proposed")
            }
            const replayed = Replay.ofFixture(yield* ReplayFixture.decode(JSON.parse(JSON.stringify(fixture))))
            const begun = Replay.begin({ fixtureName: name, identity, capabilities: Documents.capabilities })
            const live = run.events.reduce((state, event) => Replay.reduce(state, [event]), begun)
            expect(Replay.snapshot(live)).toEqual(Replay.snapshot(replayed))
            expect(Replay.snapshot(live).integrity).toBe("complete")
          }).pipe(Effect.provide(runner(args(name))))
      )

      it.effect("the turn that is asked for twice is started once", () =>
        Effect.gen(function* () {
          const { start } = yield* LocalRunner.LocalRunner
          const run = yield* start({ identity, readyWithin })
          const { ended, types } = yield* observe(run)
          const turn = command(3, "turn.start", { turnId: "turn-1" })
          const receipts = yield* Effect.forEach(
            [command(1, "run.prepare"), command(2, "session.open"), turn, turn],
            run.send
          )
          expect(receipts.map(({ status }) => status)).toEqual(["accepted", "accepted", "accepted", "duplicate"])
          yield* ended
          for (const type of ["turn.submitted", "turn.started"]) {
            expect(types().filter((other) => other === type)).toHaveLength(1)
          }
          const at = (type: EventType) => types().indexOf(type)
          expect(
            [at("session.starting"), at("session.started"), at("turn.started")].every(
              (at, n, all) => at > (all[n - 1] ?? 0)
            )
          ).toBe(true)
          expect(at("turn.submitted")).toBeLessThan(at("turn.started"))
        }).pipe(Effect.scoped, Effect.provide(runner(args("happy-path"))))
      )
    })
  }
)

describe("scripts of our own through a runner and a process", () => {
  const withScript = (steps: ReadonlyArray<object>, options?: Partial<Harness.Options>) =>
    Layer.unwrapScoped(
      Effect.gen(function* () {
        const directory = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "runner-script-"))),
          (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
        )
        const path = join(directory, "script.json")
        writeFileSync(path, JSON.stringify({ schema: "paperclip.fake_harness.script.v1", name: "own", steps }))
        return runner(["--script", path], options)
      })
    )

  const lingering = [
    { kind: "event", event_type: "item.started", item_id: "item-1", payload: { kind: "command" } },
    { kind: "spawn_worker" },
    { kind: "await_interrupt" },
    { kind: "exit", code: 130 }
  ]

  /** The worker that the log's end tells of. */
  const workerOf = (run: { readonly payload: (eventType: EventType) => unknown }): number => {
    const { logs } = run.payload("harness.exited") as { readonly logs: { readonly lines: ReadonlyArray<string> } }
    return Number(/"workerPid":(\d+)/.exec(logs.lines.join("\n"))?.[1])
  }

  layer(program, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("a harness that leaves after an interruption leaves no worker", () =>
      Effect.gen(function* () {
        const run = yield* play({ "item.started": { type: "turn.interrupt" } })
        expect(run.types).toEqual([...opening, "item.started", "turn.interrupted", ...ending])
        expect(outcome(run)).toEqual({ exit: 130, terminal: "interrupted/cancelled/yielded" })
        yield* gone(workerOf(run))
      }).pipe(Effect.provide(withScript(lingering)))
    )

    it.effect("a controller that leaves leaves neither harness nor worker", () =>
      Effect.gen(function* () {
        const run = yield* play({ "item.started": "leave" })
        expect(run.types).toEqual([...opening, "item.started", ...ending])
        expect(outcome(run)).toEqual({ exit: "SIGTERM", terminal: "cancelled/cancelled/yielded" })
        yield* gone(workerOf(run))
      }).pipe(Effect.provide(withScript(lingering)))
    )

    it.effect("a frame over the bound of 512 bytes ends the run, after what fitted", () =>
      Effect.gen(function* () {
        const run = yield* play()
        expect(run.types).toEqual([...opening, ...ending])
        expect(outcome(run)).toMatchObject({ terminal: "failed/failed/yielded" })
        expect(run.payload("harness.exited")).toMatchObject({
          logs: { lines: ["stdout: [A line is longer than 512 bytes]"] }
        })
        expect(run.payload("run.terminal")).toMatchObject({ reconciliation: { reason: "harness_protocol_violation" } })
      }).pipe(
        Effect.provide(
          withScript(
            [
              { kind: "log", stream: "stdout", text: "x".repeat(600) },
              { kind: "delay", milliseconds: 9999 }
            ],
            {
              maximumLineBytes: 512
            }
          )
        )
      )
    )

    it.effect("a proposal that the process belies is kept, and contradicted", () =>
      Effect.gen(function* () {
        const run = yield* play()
        expect(outcome(run)).toEqual({ exit: 7, terminal: "failed/failed/yielded" })
        expect(run.payload("run.terminal")).toMatchObject({
          harnessTerminalProposal: Documents.terminal,
          reconciliation: { proposalValid: true, proposalContradicted: true, reason: "harness_process_failed" }
        })
      }).pipe(
        Effect.provide(
          withScript([
            { kind: "result", payload: Documents.result },
            { kind: "terminal", payload: Documents.terminal },
            { kind: "exit", code: 7 }
          ])
        )
      )
    )
  })
})
