import { describe, expect, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Either, Exit, Fiber, Layer, Scope, Stream, TestClock } from "effect"
import type { Harness } from "../../src/runner/Harness.js"
import type { HarnessStep } from "../../src/runner/HarnessScript.js"
import * as LocalRunner from "../../src/runner/LocalRunner.js"
import type { DecidedTerminal } from "../../src/runner/TerminalDecision.js"
import * as Hostile from "../support/HostileHarness.js"
import * as Documents from "../support/RunDocuments.js"
import { command, identity, observe } from "../support/RunDriver.js"
import * as Scripted from "../support/ScriptedHarness.js"

const runner = <E, R>(harness: Layer.Layer<Harness, E, R>) => Layer.provide(LocalRunner.layer, harness)

const start = (options: Partial<LocalRunner.Options> = {}) =>
  Effect.flatMap(LocalRunner.LocalRunner, ({ start }) => start({ identity, ...options }))

const observed = (options?: Partial<LocalRunner.Options>) =>
  Effect.gen(function* () {
    const run = yield* start(options)
    return { run, ...(yield* observe(run)) }
  })

/** Runs a harness that is told to prepare, to its end. */
const prepared = Effect.gen(function* () {
  // Machines under load are slow.
  const run = yield* observed({ readyWithin: "50 seconds" })
  const receipt = yield* run.send("run.prepare")
  yield* run.ended
  return { ...run, receipt }
})

const reasonOf = (run: { readonly payload: (eventType: "run.terminal") => unknown }) =>
  (run.payload("run.terminal") as DecidedTerminal).reconciliation.reason

const started = ["runtime.phase.changed", "workspace.ready", "harness.starting", "harness.ready"]

const script = (...steps: ReadonlyArray<HarnessStep>) =>
  Scripted.script({ schema: "paperclip.fake_harness.script.v1", name: "test", steps })

describe("commands", () => {
  const forever = Scripted.make(({ say }) => Effect.zipRight(say(Scripted.ready), Effect.never))

  it.scoped("the receipt comes after the command's own events", () =>
    Effect.gen(function* () {
      const run = yield* observed()
      yield* run.send("run.prepare")
      yield* run.send("session.open")
      yield* run.send("turn.start", { turnId: "turn-1", text: "Do it" })
      yield* run.run.close
      yield* run.ended
      expect(
        run.messages.map((message) => (message.kind === "event" ? message.event.eventType : message.kind))
      ).toEqual([
        ...started,
        "command_receipt",
        "session.starting",
        "command_receipt",
        "turn.submitted",
        "command_receipt",
        "harness.exited",
        "run.terminal"
      ])
      expect(run.events[3]?.payload).toEqual({ driverKind: "fake", driverVersion: "1.0.0", transport: "stdio_jsonl" })
      expect(run.events[5]).toMatchObject({ turnId: "turn-1", payload: { text: "Do it" } })
    }).pipe(Effect.provide(runner(forever.layer)))
  )

  it.scoped("a known id is a duplicate if its content is the same, members in any order, and else rejected", () =>
    Effect.gen(function* () {
      const { run, types } = yield* observed()
      const prepare = command(1, "run.prepare", { a: 1, b: { c: 2, d: 3 } })
      const again = command(1, "run.prepare", { b: { d: 3, c: 2 }, a: 1 })
      expect((yield* run.send(prepare)).status).toBe("accepted")
      expect(yield* run.send(again)).toEqual({
        commandId: "command-1",
        controllerSeq: 1,
        status: "duplicate",
        detail: null
      })
      expect((yield* run.send({ ...prepare, payload: {} })).status).toBe("rejected")
      expect(types().filter((type) => type === "harness.starting")).toHaveLength(1)
    }).pipe(Effect.provide(runner(forever.layer)))
  )

  it.scoped(
    "a number that is not the next is rejected and stays free; one that is taken counts, whatever becomes of it",
    () =>
      Effect.gen(function* () {
        const { run } = yield* observed()
        const statuses = yield* Effect.forEach(
          [
            command(2, "run.prepare"),
            command(1, "run.prepare"),
            command(1, "session.open", {}, "other"),
            // Unsupported, but taken.
            command(2, "runner.drain"),
            // Prepared already, but taken.
            command(3, "run.prepare"),
            command(4, "session.open")
          ],
          (command) => Effect.map(run.send(command), ({ status }) => status)
        )
        expect(statuses).toEqual(["rejected", "accepted", "rejected", "rejected", "rejected", "accepted"])
      }).pipe(Effect.provide(runner(forever.layer)))
  )

  it.scoped("what is to be passed on before the run is prepared is rejected, and the run goes on", () =>
    Effect.gen(function* () {
      const { run } = yield* observed()
      expect((yield* run.send(command(1, "session.open"))).status).toBe("rejected")
      expect((yield* run.send(command(2, "run.prepare"))).status).toBe("accepted")
    }).pipe(Effect.provide(runner(forever.layer)))
  )

  it.scoped("a line that is no command is answered by a diagnostic, and one with another schema by a receipt", () =>
    Effect.gen(function* () {
      const { messages, run } = yield* observed()
      yield* run.receive(Either.right("{"))
      yield* run.receive(Either.right("[1]"))
      yield* run.receive(Either.right(JSON.stringify({ ...command(1, "run.prepare"), schema: "another" })))
      yield* run.receive(Either.right(JSON.stringify(command(1, "run.prepare"))))
      expect(messages.filter(({ kind }) => kind !== "event")).toMatchObject([
        { kind: "diagnostic", level: "error" },
        { kind: "diagnostic", level: "error" },
        { kind: "command_receipt", status: "rejected" },
        { kind: "command_receipt", status: "accepted", commandId: "command-1", controllerSeq: 1 }
      ])
    }).pipe(Effect.provide(runner(forever.layer)))
  )

  it.scoped("a turn whose id no event could carry is rejected before the harness hears of it", () =>
    Effect.gen(function* () {
      const { send, types } = yield* observed()
      yield* send("run.prepare")
      expect((yield* send("turn.start", { turnId: "x".repeat(161) })).status).toBe("rejected")
      expect((yield* send("turn.start", { turnId: 7, text: 7 })).status).toBe("accepted")
      expect(types().slice(4)).toEqual(["turn.submitted"])
    }).pipe(Effect.provide(runner(forever.layer)))
  )

  it.scoped("after the terminal every command is rejected, and nothing is written", () =>
    Effect.gen(function* () {
      const { messages, run } = yield* prepared
      const count = messages.length
      expect(yield* run.send(command(2, "session.open"))).toMatchObject({ status: "rejected" })
      yield* run.receive(Either.right("{"))
      yield* run.close
      expect(messages).toHaveLength(count)
    }).pipe(Effect.provide(runner(Scripted.saying(0, Scripted.ready).layer)))
  )

  it.effect("a run whose events could not be valid is refused before it starts", () =>
    Effect.gen(function* () {
      const paths = (identity: LocalRunner.Options["identity"]) =>
        Effect.map(Effect.flip(Effect.scoped(start({ identity }))), ({ issues }) => issues.map(({ path }) => path))
      expect(yield* paths({ ...identity, runId: "r".repeat(138) })).toEqual(["/sourceEventId"])
      expect(yield* paths({ ...identity, runnerInstanceId: "" })).toEqual(["/sourceInstanceId"])
      yield* Effect.scoped(start({ identity: { ...identity, runId: "r".repeat(137) } }))
    }).pipe(Effect.provide(runner(forever.layer)))
  )
})

describe("events", () => {
  let written = 0

  it.scoped("they are numbered without gaps, and carry their priority and the time", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 0, 31, 12, 0, 0, 7))
      const { events } = yield* prepared
      expect(
        events.map(({ eventType, priority, sourceEventId, sourceSeq }) => [
          sourceSeq,
          sourceEventId,
          eventType,
          priority
        ])
      ).toEqual([
        [1, "event_run-1_001", "runtime.phase.changed", 1],
        [2, "event_run-1_002", "workspace.ready", 1],
        [3, "event_run-1_003", "harness.starting", 1],
        [4, "event_run-1_004", "harness.ready", 1],
        [5, "event_run-1_005", "item.delta", 2],
        [6, "event_run-1_006", "run.result.proposed", 0],
        [7, "event_run-1_007", "turn.completed", 0],
        [8, "event_run-1_008", "harness.exited", 0],
        [9, "event_run-1_009", "run.terminal", 0]
      ])
      expect(new Set(events.map(({ emittedAt }) => emittedAt))).toEqual(new Set(["2026-01-31T12:00:00.007Z"]))
      expect(events[4]).toMatchObject({ turnId: "turn-1", itemId: "item-1", normalizedSessionId: "session-1" })
      expect(Object.keys(events[6] ?? {})).not.toContain("itemId")
    }).pipe(
      Effect.provide(
        runner(
          Scripted.saying(
            0,
            Scripted.ready,
            Scripted.event("item.delta", { text: "a" }, "item-1"),
            Scripted.result(Documents.result),
            Scripted.event("turn.completed")
          ).layer
        )
      )
    )
  )

  it.scoped("for comparison they carry the contract's time, which is their number", () =>
    Effect.gen(function* () {
      const { ended, events, send } = yield* observed({ emittedAt: "conformance" })
      yield* send("run.prepare")
      yield* ended
      const at = (seq: number) => events[seq - 1]?.emittedAt
      expect([at(1), at(999), at(1000), at(2047)]).toEqual([
        "2026-08-07T21:00:00.001Z",
        "2026-08-07T21:00:00.999Z",
        "2026-08-07T21:00:01.000Z",
        "2026-08-07T21:00:02.047Z"
      ])
    }).pipe(
      Effect.provide(
        runner(
          Scripted.saying(0, Scripted.ready, ...Array.from({ length: 2100 }, () => Scripted.event("item.delta"))).layer
        )
      )
    )
  )

  it.scoped("a slow reader loses nothing, and no more is read ahead of it than was agreed", () =>
    Effect.gen(function* () {
      const run = yield* start({ maximumWaiting: 8 })
      const sending = yield* Effect.fork(run.send(command(1, "run.prepare")))
      const pull = yield* Stream.toPull(run.events)
      const numbers: Array<number> = []
      yield* Effect.forever(
        Effect.gen(function* () {
          for (const { sourceSeq } of yield* pull) numbers.push(sourceSeq)
          // Whatever can happen before the next is taken, happens.
          yield* Effect.repeatN(Effect.yieldNow(), 100)
          expect(written).toBeLessThanOrEqual(numbers.length + 100)
        })
      ).pipe(Effect.ignore)
      yield* Fiber.join(sending)
      expect(numbers).toEqual(Array.from({ length: 1006 }, (_, index) => index + 1))
    }).pipe(
      Effect.provide(
        runner(
          Scripted.make(({ say }) =>
            Effect.gen(function* () {
              yield* say(Scripted.ready)
              for (written = 0; written < 1000; written++) yield* say(Scripted.event("item.delta"))
              return 0
            })
          ).layer
        )
      )
    )
  )
})

describe("what the harness says", () => {
  it.scoped("the first result and the first terminal count; later ones are noted", () =>
    Effect.gen(function* () {
      const run = yield* prepared
      expect(run.types().slice(4)).toEqual([
        "run.result.proposed",
        "harness.diagnostic",
        "harness.diagnostic",
        "harness.exited",
        "run.terminal"
      ])
      expect(run.events.slice(5, 7).map(({ payload }) => payload)).toEqual([
        { code: "duplicate_semantic_result_ignored" },
        { code: "duplicate_terminal_ignored" }
      ])
      expect(run.payload("run.result.proposed")).toEqual(Documents.result)
      expect(run.payload("run.terminal")).toMatchObject({
        runTerminalState: "succeeded",
        harnessTerminalProposal: Documents.terminal
      })
    }).pipe(
      Effect.provide(
        runner(
          Scripted.saying(
            0,
            Scripted.ready,
            Scripted.terminal(Documents.terminal),
            Scripted.result(Documents.result),
            Scripted.result({ ...Documents.result, reportedWorkDisposition: "needs_review" }),
            Scripted.terminal({ ...Documents.terminal, runTerminalState: "failed" })
          ).layer
        )
      )
    )
  )

  it.scoped("a request becomes an event, without a turn; logs become none, but the end of them is kept", () =>
    Effect.gen(function* () {
      const run = yield* prepared
      const request = run.events[4]
      expect(request).toMatchObject({ eventType: "runtime_request.created", payload: { request: { requestId: "r1" } } })
      expect(Object.keys(request ?? {})).not.toContain("turnId")
      expect(run.payload("harness.exited")).toEqual({
        processExit: { exitCode: 3, success: false, signal: null },
        semanticResultObserved: false,
        logs: { lines: ["stdout: working", 'diagnostic: {"workerPid":7}'], retainedBytes: 42, droppedLines: 0 }
      })
    }).pipe(
      Effect.provide(
        runner(
          Scripted.saying(
            3,
            Scripted.ready,
            { type: "request", payload: { request: { requestId: "r1" } } },
            { type: "log", payload: { stream: "stdout", text: "working" } },
            { type: "diagnostic", payload: { workerPid: 7 } }
          ).layer
        )
      )
    )
  )

  it.scoped("that it is ready again is only remarked on", () =>
    Effect.gen(function* () {
      const { messages } = yield* prepared
      expect(messages.filter(({ kind }) => kind === "diagnostic")).toMatchObject([{ level: "warning" }])
    }).pipe(Effect.provide(runner(Scripted.saying(0, Scripted.ready, Scripted.ready).layer)))
  )

  const violations = {
    "no JSON": "garbage",
    "an empty line": "",
    "another schema": '{"schema":"other","messageSeq":1,"type":"log","payload":{"stream":"stdout","text":""}}',
    "an unknown message": '{"schema":"paperclip.fake_harness.message.v1","messageSeq":1,"type":"sing","payload":{}}',
    "JSON that is nested too deeply": `${"[".repeat(20_000)}${"]".repeat(20_000)}`,
    "an event of an unknown type": Scripted.event("turn.paused"),
    "an event without payload": Scripted.event("item.delta", null),
    "a payload that its type does not allow": Scripted.event("plan.updated", { schema: "no plan" }),
    "a result that is none": Scripted.result({ schema: "paperclip.run_result.v1" }),
    "the runner's own terminal": Scripted.event("run.terminal", Documents.terminal),
    "the runner's own result": Scripted.event("run.result.proposed", Documents.result),
    "the runner's own word of its end": Scripted.event("harness.exited")
  }
  it.scoped.each(Object.entries(violations))(
    "%s breaks the protocol: the harness is ended and the run failed",
    ([, said]) =>
      Effect.gen(function* () {
        const run = yield* prepared
        expect(run.types()).toEqual([...started, "harness.exited", "run.terminal"])
        // What was refused has taken no number.
        expect(run.events.map(({ sourceSeq }) => sourceSeq)).toEqual([1, 2, 3, 4, 5, 6])
        expect(run.payload("run.terminal")).toMatchObject({
          turnTerminalState: "failed",
          runTerminalState: "failed",
          reconciliation: { reason: "harness_protocol_violation" }
        })
        const [line = ""] = (run.payload("harness.exited") as { logs: { lines: ReadonlyArray<string> } }).logs.lines
        expect(line).toMatch(/^stdout: \[.+\]$/)
      }).pipe(
        Effect.provide(
          runner(
            Scripted.saying(0, Scripted.ready, said, Scripted.event("item.delta"), Scripted.result(Documents.result))
              .layer
          )
        )
      )
  )
})

describe("preparing", () => {
  it.scoped("a harness that says something before it is ready breaks the protocol", () =>
    Effect.gen(function* () {
      const run = yield* prepared
      expect(run.receipt.status).toBe("rejected")
      expect(run.types()).toEqual([...started.slice(0, 3), "harness.exited", "run.terminal"])
      expect(reasonOf(run)).toBe("harness_protocol_violation")
    }).pipe(Effect.provide(runner(Scripted.saying(0, Scripted.event("item.delta"), Scripted.ready).layer)))
  )

  it.scoped("a harness that leaves before it is ready has failed, or said no result", () =>
    Effect.gen(function* () {
      for (const [code, reason] of [
        [0, "semantic_result_missing"],
        [4, "harness_process_failed"]
      ] as const) {
        const run = yield* Effect.provide(prepared, runner(Scripted.saying(code).layer))
        expect([run.receipt.status, reasonOf(run)]).toEqual(["rejected", reason])
      }
    })
  )

  it.scoped(
    "a harness that is not ready after two seconds breaks the protocol, and what was asked meanwhile is answered",
    () =>
      Effect.gen(function* () {
        const silent = Scripted.make(() => Effect.never)
        const run = yield* Effect.provide(observed(), runner(silent.layer))
        const preparing = yield* Effect.fork(run.send("run.prepare"))
        yield* run.seen("harness.starting")
        const opening = yield* Effect.fork(run.send("session.open"))
        yield* TestClock.adjust("1999 millis")
        expect(run.types()).toEqual(started.slice(0, 3))
        yield* TestClock.adjust("1 millis")
        expect((yield* Fiber.join(preparing)).status).toBe("rejected")
        expect((yield* Fiber.join(opening)).status).toBe("rejected")
        yield* run.ended
        expect(reasonOf(run)).toBe("harness_protocol_violation")
        expect(silent.running()).toBe(0)
      })
  )

  it.scoped("what is asked while the harness gets ready waits for it", () =>
    Effect.gen(function* () {
      const mayStart = yield* Deferred.make<void>()
      const slow = Scripted.make(({ say }) =>
        Effect.all([Deferred.await(mayStart), say(Scripted.ready), Effect.never]).pipe(Effect.as(0))
      )
      const run = yield* Effect.provide(observed(), runner(slow.layer))
      const asked = yield* Effect.fork(
        Effect.all([run.send("run.prepare"), run.send("session.open"), run.send("turn.start")], { concurrency: 3 })
      )
      yield* run.seen("harness.starting")
      yield* Deferred.succeed(mayStart, undefined)
      expect((yield* Fiber.join(asked)).map(({ status }) => status)).toEqual(["accepted", "accepted", "accepted"])
      expect(run.types()).toEqual([...started, "session.starting", "turn.submitted"])
    })
  )

  it.scoped("a harness that cannot be started fails the run", () =>
    Effect.gen(function* () {
      const run = yield* prepared
      expect(run.receipt).toMatchObject({ status: "rejected", detail: "The harness could not be started: NotFound" })
      expect(run.types()).toEqual([...started.slice(0, 3), "run.terminal"])
      expect(run.payload("run.terminal")).toMatchObject({
        runTerminalState: "failed",
        reconciliation: {
          reason: "harness_process_failed",
          processExit: { exitCode: null, success: false, signal: null }
        }
      })
    }).pipe(Effect.provide(runner(Hostile.layer([], { command: "there-is-no-such-program" }))))
  )
})

describe("the end", () => {
  const talking = script(
    { kind: "result", payload: Documents.result },
    { kind: "await_interrupt" },
    { kind: "exit", code: 130 }
  )

  const talkative = Scripted.make(({ say }) =>
    Effect.zipRight(say(Scripted.ready), Effect.forever(say(Scripted.event("item.delta"))))
  )

  const turn = Effect.gen(function* () {
    const run = yield* observed()
    yield* run.send("run.prepare")
    yield* run.send("session.open")
    yield* run.seen("session.started")
    yield* run.send("turn.start", { turnId: "turn-1" })
    yield* run.seen("run.result.proposed")
    return run
  })

  it.scoped("an interrupted turn cancels the run, whatever the process says", () =>
    Effect.gen(function* () {
      const run = yield* turn
      yield* run.send("turn.interrupt", { reason: "enough" })
      yield* run.ended
      expect(run.payload("turn.interrupted")).toEqual({ reason: "enough" })
      expect(run.payload("run.terminal")).toMatchObject({
        turnTerminalState: "interrupted",
        runTerminalState: "cancelled",
        reportedWorkDisposition: "yielded",
        reconciliation: { reason: "turn_interrupted", processExit: { exitCode: 130 } }
      })
    }).pipe(Effect.provide(runner(talking.layer)))
  )

  it.scoped("the last thing that was done to the run counts", () =>
    Effect.gen(function* () {
      const run = yield* turn
      yield* run.send("run.cancel")
      yield* run.send("turn.interrupt")
      yield* run.ended
      expect(reasonOf(run)).toBe("turn_interrupted")
    }).pipe(Effect.provide(runner(talking.layer)))
  )

  it.scoped("a controller that leaves ends the harness and cancels the run", () =>
    Effect.gen(function* () {
      const run = yield* turn
      yield* run.run.close
      yield* run.ended
      expect(run.payload("run.terminal")).toMatchObject({
        turnTerminalState: "cancelled",
        runTerminalState: "cancelled",
        reconciliation: { reason: "controller_closed", processExit: { signal: "SIGTERM" } }
      })
      expect(talking.running()).toBe(0)
    }).pipe(Effect.provide(runner(talking.layer)))
  )

  it.effect(
    "leaving the scope is the controller leaving: its reader gets the end, also when it had stopped reading",
    () =>
      Effect.gen(function* () {
        for (const maximumWaiting of [256, 6]) {
          const scope = yield* Scope.make()
          const run = yield* Scope.extend(start({ maximumWaiting }), scope)
          yield* Effect.fork(run.send(command(1, "run.prepare")))
          // As far as it comes without a reader.
          yield* Effect.repeatN(Effect.yieldNow(), 200)
          yield* Scope.close(scope, Exit.void)
          expect(talkative.running()).toBe(0)
          const events = Chunk.toReadonlyArray(yield* Stream.runCollect(run.events))
          expect(events.map(({ sourceSeq }) => sourceSeq)).toEqual(events.map((_, index) => index + 1))
          expect(events.slice(-2).map(({ eventType }) => eventType)).toEqual(["harness.exited", "run.terminal"])
          // What had room, what was being written, and the end: the harness is not heard any more.
          if (maximumWaiting === 6) expect(events.length).toBeLessThanOrEqual(6 + 1 + 2)
          expect(events.at(-1)?.payload).toMatchObject({ reconciliation: { reason: "controller_closed" } })
        }
      }).pipe(Effect.provide(runner(talkative.layer)))
  )

  it.scoped(
    "a harness that is cut off in the middle of a line because the controller left has not broken the protocol",
    () =>
      Effect.gen(function* () {
        const cutOff = Scripted.make(({ say, write }) =>
          Effect.onInterrupt(Effect.zipRight(say(Scripted.ready), Effect.never), () => write('{"schema":"paper'))
        )
        const run = yield* Effect.provide(observed(), runner(cutOff.layer))
        yield* run.send("run.prepare")
        yield* run.run.close
        yield* run.ended
        expect(reasonOf(run)).toBe("controller_closed")
      })
  )

  it.scoped("what it said on standard error is waited for", () =>
    Effect.gen(function* () {
      const run = yield* prepared
      expect(run.payload("harness.exited")).toMatchObject({ logs: { lines: ["stderr: too bad"] } })
    }).pipe(
      Effect.provide(
        runner(
          Scripted.make(({ complain, say }) => Effect.as(Effect.zipRight(say(Scripted.ready), complain("too bad")), 1))
            .layer
        )
      )
    )
  )

  it.scoped("a controller that leaves before it has prepared a run has had none", () =>
    Effect.gen(function* () {
      const { ended, messages, run } = yield* observed()
      yield* run.close
      yield* ended
      expect(messages).toMatchObject([{ kind: "diagnostic", level: "error" }])
    }).pipe(Effect.provide(runner(talking.layer)))
  )

  it.scoped("a harness that has closed its output may go on for five seconds, and is ended then", () =>
    Effect.gen(function* () {
      const mute = Scripted.make(({ mute, say }) =>
        Effect.all([say(Scripted.ready), mute, Effect.never]).pipe(Effect.as(0))
      )
      const run = yield* Effect.provide(observed(), runner(mute.layer))
      yield* run.send("run.prepare")
      yield* TestClock.adjust("4999 millis")
      expect(run.types()).toEqual(started)
      yield* TestClock.adjust("1 millis")
      yield* run.ended
      expect(reasonOf(run)).toBe("harness_process_failed")
      expect(mute.running()).toBe(0)
    })
  )
})

describe("over real processes that misbehave", () => {
  const ending = (...steps: ReadonlyArray<string>) =>
    Effect.map(Effect.provide(prepared, runner(Hostile.layer(steps))), (run) => ({
      reason: reasonOf(run),
      types: run.types(),
      exited: run.payload("harness.exited") as {
        readonly processExit: unknown
        readonly logs: {
          readonly lines: ReadonlyArray<string>
          readonly droppedLines: number
          readonly retainedBytes: number
        }
      }
    }))

  it.scopedLive("a frame of exactly 64 KiB is one; one byte more breaks the protocol", () =>
    Effect.gen(function* () {
      const fits = yield* ending("ready", "long:65536", "result")
      expect(fits.reason).toBe("successful_process_and_result")
      expect(fits.exited.logs).toMatchObject({ retainedBytes: 16_384 })
      const over = yield* ending("ready", "long:65537", "result")
      expect(over.types.slice(4)).toEqual(["harness.exited", "run.terminal"])
      expect(over.reason).toBe("harness_protocol_violation")
    })
  )

  it.scopedLive("a line without end, bytes that are no UTF-8 and a last line that is cut off break the protocol", () =>
    Effect.gen(function* () {
      for (const step of ["endless", `bytes:${Buffer.from([0xff, 10]).toString("base64")}`, 'part:{"schema"']) {
        expect((yield* ending("ready", step)).reason).toBe("harness_protocol_violation")
      }
    })
  )

  it.scopedLive("lines may end in CRLF", () =>
    Effect.gen(function* () {
      const { exited, reason } = yield* ending("ready", "crlf", "result")
      expect([reason, exited.logs.lines]).toEqual(["successful_process_and_result", ["stdout: crlf"]])
    })
  )

  it.scopedLive("a flood on standard error is bounded, and kept to its end", () =>
    Effect.gen(function* () {
      const { exited, reason } = yield* ending("ready", "result", "stderr:20000")
      expect(reason).toBe("successful_process_and_result")
      expect([exited.logs.lines.length, exited.logs.lines.at(-1), exited.logs.droppedLines]).toEqual([
        32,
        "stderr: complaint 20000",
        20_000 - 32
      ])
    })
  )

  it.scopedLive("one that is killed is a failure, with its signal", () =>
    Effect.gen(function* () {
      const { exited, reason } = yield* ending("ready", "result", "kill")
      expect([reason, exited.processExit]).toEqual([
        "harness_process_failed",
        { exitCode: null, success: false, signal: "SIGKILL" }
      ])
    })
  )

  it.scopedLive("one that closes its output first, and then leaves, has succeeded", () =>
    Effect.gen(function* () {
      expect((yield* ending("ready", "result", "close-stdout", "stderr:3")).reason).toBe(
        "successful_process_and_result"
      )
    })
  )

  it.scopedLive("5,000 events come out in order, none missing", () =>
    Effect.gen(function* () {
      const { types } = yield* ending("ready", "events:5000", "result")
      expect(types).toHaveLength(5007)
    })
  )

  it.live("interrupting who runs it leaves no process, though it ignores TERM and has a worker", () =>
    Effect.gen(function* () {
      const told: Array<number> = []
      const seen = yield* Deferred.make<void>()
      const running = yield* Effect.gen(function* () {
        const run = yield* start({ readyWithin: "50 seconds" })
        yield* Effect.fork(run.send(command(1, "run.prepare")))
        yield* Stream.runForEach(run.events, ({ payload }) => {
          const { pid } = payload as { readonly pid?: unknown }
          if (typeof pid !== "number") return Effect.void
          told.push(pid)
          return told.length === 2 ? Deferred.succeed(seen, undefined) : Effect.void
        })
      }).pipe(
        Effect.scoped,
        Effect.provide(runner(Hostile.layer(["ignore-term", "ready", "pid:event", "worker:event", "stay"]))),
        Effect.fork
      )
      yield* Deferred.await(seen)
      yield* Fiber.interrupt(running)
      expect(told).toHaveLength(2)
      yield* Effect.forEach(told, Hostile.gone)
    })
  )
})

describe("as a filter of lines", () => {
  const lines = (...commands: ReadonlyArray<unknown>) =>
    Stream.fromIterable(commands).pipe(
      Stream.map((command) => `${typeof command === "string" ? command : JSON.stringify(command)}\n`),
      Stream.encodeText
    )

  const serve = (input: Stream.Stream<Uint8Array, unknown>) =>
    input.pipe(
      LocalRunner.serve({ identity, maximumLineBytes: 1024 }),
      Stream.runCollect,
      Effect.map((lines) => Chunk.toReadonlyArray(lines).map((line) => JSON.parse(line)))
    )

  it.effect(
    "each line is an envelope with one message; bad lines are remarked on, and the end of the input ends the run",
    () =>
      Effect.gen(function* () {
        const input = lines("{", "x".repeat(2000), command(1, "run.prepare"), command(1, "run.prepare"))
        const said = yield* serve(input)
        expect(new Set(said.map(({ schema }) => schema))).toEqual(new Set(["paperclip.runner.stream.v1"]))
        expect(said.map(({ message }) => message.status ?? message.event?.eventType ?? message.level)).toEqual([
          "error",
          "error",
          ...started,
          "accepted",
          "duplicate",
          "harness.exited",
          "run.terminal"
        ])
        expect(said.at(-1).message.event.payload.reconciliation.reason).toBe("controller_closed")
      }).pipe(
        Effect.provide(runner(Scripted.make(({ say }) => Effect.zipRight(say(Scripted.ready), Effect.never)).layer))
      )
  )

  it.effect(
    "it ends with the run, though more could be said to it; input that fails is a controller that has left",
    () =>
      Effect.gen(function* () {
        const ended = yield* serve(Stream.concat(lines(command(1, "run.prepare")), Stream.never))
        expect(ended.at(-1).message.event.eventType).toBe("run.terminal")
        const failed = yield* serve(Stream.concat(lines("{"), Stream.fail("broken")))
        expect(failed.map(({ message }) => message.kind)).toEqual(["diagnostic", "diagnostic"])
      }).pipe(Effect.provide(runner(Scripted.saying(0, Scripted.ready).layer)))
  )
})
