import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Scope, type Tracer } from "effect"
import type { HarnessStep } from "../../src/runner/HarnessScript.js"
import * as LocalRunner from "../../src/runner/LocalRunner.js"
import { attributesOf, recorded } from "../support/Recorded.js"
import * as Documents from "../support/RunDocuments.js"
import { command, identity, observe } from "../support/RunDriver.js"
import * as Scripted from "../support/ScriptedHarness.js"

const request = {
  schema: "paperclip.runtime_request.v1",
  requestKind: "runtime",
  requestId: "request-1",
  type: "permission",
  status: "pending",
  prompt: "secret"
}

const item = (event_type: string, item_id: string): HarnessStep => ({
  kind: "event",
  event_type,
  item_id,
  payload: { kind: "command", text: "secret", message: "secret" }
})

const harness = (...steps: ReadonlyArray<HarnessStep>) =>
  Layer.provide(
    LocalRunner.layer,
    Scripted.script({ schema: "paperclip.fake_harness.script.v1", name: "traced", steps }).layer
  )

const start = Effect.flatMap(LocalRunner.LocalRunner, ({ start }) => start({ identity }))

/** A run as far as its first turn. */
const turn = Effect.gen(function* () {
  const run = yield* start
  const observed = yield* observe(run)
  yield* observed.send("run.prepare")
  yield* observed.send("session.open", { text: "secret" })
  yield* observed.seen("session.started")
  yield* observed.send("turn.start", { turnId: "turn-1", text: "secret" })
  return { run, ...observed }
})

const tell = ({ attributes, name, parent, status }: Tracer.Span) => ({
  name,
  id: ["turn.id", "item.id", "request.id", "command.id"].map((key) => attributes.get(key)).find(Boolean),
  parent: Option.match(parent, {
    onNone: () => undefined,
    onSome: (span) => (span._tag === "Span" ? span.name : "other")
  }),
  outcome: attributes.get("outcome"),
  failed: status._tag === "Ended" && Exit.isFailure(status.exit)
})

const ofRun = (spans: ReadonlyArray<Tracer.Span>) => spans.filter(({ name }) => name.startsWith("LocalRunner."))

describe("a run as a trace", () => {
  it.effect("the run is a span, and its commands, turns, requests and items are spans in it", () =>
    Effect.gen(function* () {
      const { exit, spans } = yield* recorded(
        Effect.gen(function* () {
          const { ended, seen, send } = yield* turn
          yield* seen("runtime_request.created")
          yield* send("request.resolve", { requestId: "request-1", response: "secret" })
          yield* ended
        }).pipe(
          Effect.scoped,
          Effect.provide(
            harness(
              item("item.started", "item-1"),
              item("item.delta", "item-1"),
              item("item.failed", "item-1"),
              { kind: "request", request },
              { kind: "await_resolution", request_id: "request-1" },
              { kind: "result", payload: { ...Documents.result, summary: "secret" } },
              { kind: "event", event_type: "turn.completed", payload: {} }
            )
          )
        )
      )
      expect(exit._tag).toBe("Success")
      const traced = ofRun(spans)
      const run = "LocalRunner.run"
      const child = { parent: run, failed: false }
      expect(traced.map(tell)).toEqual([
        { name: run, id: undefined, parent: undefined, outcome: "succeeded", failed: false },
        ...[1, 2, 3].map((n) => ({ name: "LocalRunner.command", id: `command-${n}`, outcome: "accepted", ...child })),
        { name: "LocalRunner.turn", id: "turn-1", outcome: "completed", ...child },
        { name: "LocalRunner.item", id: "item-1", outcome: "failed", parent: "LocalRunner.turn", failed: true },
        { name: "LocalRunner.request", id: "request-1", outcome: "resolved", ...child },
        { name: "LocalRunner.command", id: "command-4", outcome: "accepted", ...child }
      ])
      expect(new Set(traced.map(({ traceId }) => traceId)).size).toBe(1)
      expect(traced[0] && attributesOf(traced[0])).toEqual({
        "run.id": "run-1",
        "run.events": 18,
        "run.reason": "successful_process_and_result",
        outcome: "succeeded"
      })
    })
  )

  it.effect("what else happens is noted in the run's span, and nothing that was said", () =>
    Effect.gen(function* () {
      const { spans } = yield* recorded(
        Effect.gen(function* () {
          yield* (yield* turn).ended
        }).pipe(Effect.scoped, Effect.provide(harness(item("item.started", "item-1"), { kind: "exit", code: 2 })))
      )
      const noted = spans.flatMap((span) =>
        "events" in span && Array.isArray(span.events) ? span.events.map(([name]) => name) : []
      )
      expect(noted).toEqual([
        "runtime.phase.changed",
        "workspace.ready",
        "harness.starting",
        "harness.ready",
        "session.starting",
        "session.started",
        "runtime.phase.changed",
        "turn.submitted",
        "harness.exited",
        "run.terminal"
      ])
      const written = spans.map((span) => [[...span.attributes], "events" in span ? span.events : []])
      expect(JSON.stringify(written, (_, value) => (typeof value === "bigint" ? Number(value) : value))).not.toContain(
        "secret"
      )
    })
  )

  it.effect("a run that is left half way has ended all its spans", () =>
    Effect.gen(function* () {
      const { spans } = yield* recorded(
        Effect.gen(function* () {
          const { seen } = yield* turn
          yield* seen("runtime_request.created")
        }).pipe(
          Effect.scoped,
          Effect.provide(
            harness(
              item("item.started", "item-1"),
              { kind: "request", request },
              { kind: "await_resolution", request_id: "request-1" }
            )
          )
        )
      )
      const traced = ofRun(spans)
      expect(traced.filter(({ status }) => status._tag !== "Ended")).toEqual([])
      expect(traced.map(tell).map(({ name, outcome }) => [name, outcome])).toEqual([
        ["LocalRunner.run", "cancelled"],
        ...[1, 2, 3].map(() => ["LocalRunner.command", "accepted"]),
        ["LocalRunner.turn", "unfinished"],
        ["LocalRunner.item", "unfinished"],
        ["LocalRunner.request", "unfinished"]
      ])
    })
  )

  it.effect("a command that waits when the run is left has ended its span too", () =>
    Effect.gen(function* () {
      const { spans } = yield* recorded(
        Effect.gen(function* () {
          const scope = yield* Scope.make()
          const run = yield* Scope.extend(start, scope)
          yield* Effect.fork(run.send(command(1, "run.prepare")))
          yield* Effect.repeatN(Effect.yieldNow(), 50)
          yield* Scope.close(scope, Exit.void)
        }).pipe(Effect.provide(Layer.provide(LocalRunner.layer, Scripted.make(() => Effect.never).layer)))
      )
      expect(
        ofRun(spans)
          .map(tell)
          .map(({ name, outcome }) => [name, outcome])
      ).toEqual([
        ["LocalRunner.run", "cancelled"],
        ["LocalRunner.command", "rejected"]
      ])
    })
  )

  it.effect("it belongs to the trace of who started it", () =>
    Effect.gen(function* () {
      const { spans } = yield* recorded(
        start.pipe(Effect.scoped, Effect.provide(harness(item("item.started", "i"))), Effect.withSpan("caller"))
      )
      expect(ofRun(spans).map(tell)).toMatchObject([{ parent: "caller", outcome: "unfinished" }])
    })
  )

  it.effect("a harness that starts items without end holds no more than 256 spans open, and notes as many events", () =>
    Effect.gen(function* () {
      const { spans } = yield* recorded(
        Effect.gen(function* () {
          const run = yield* start
          const { ended, send } = yield* observe(run)
          yield* send("run.prepare")
          yield* ended
        }).pipe(
          Effect.scoped,
          Effect.provide(
            Layer.provide(
              LocalRunner.layer,
              Scripted.saying(
                0,
                Scripted.ready,
                ...Array.from({ length: 300 }, (_, n) => Scripted.event("item.started", {}, `item-${n}`)),
                ...Array.from({ length: 300 }, () => Scripted.event("session.updated"))
              ).layer
            )
          )
        )
      )
      const traced = ofRun(spans)
      expect(traced.filter(({ name }) => name === "LocalRunner.item")).toHaveLength(256)
      const [run] = traced
      expect(run && "events" in run && Array.isArray(run.events) ? run.events.length : 0).toBe(256)
      expect(run?.attributes.get("run.events")).toBe(606)
    })
  )
})
