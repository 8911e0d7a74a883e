import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import * as fc from "fast-check"
import { texts } from "../../scripts/fixtures/runner/replay.js"
import { Replay, ReplayFixture, ReplaySnapshot, RunEvent } from "../../src/runner/index.js"
import * as ReplayModel from "../support/ReplayModel.js"
import * as Documents from "../support/RunDocuments.js"
import { check } from "../support/Seed.js"

type Event = RunEvent.RunEvent

/** A test may give a payload that no schema would let through. */
const event = (sourceSeq: number, eventType: string, payload: unknown = {}, more: object = {}): Event =>
  Documents.event(sourceSeq, eventType, {}, { payload, ...more }) as unknown as Event

const run: Replay.Run = { fixtureName: "A run", identity: Documents.identity, capabilities: Documents.capabilities }

const begun = () => Replay.begin(run)

/** The batches, each an array, one after another. */
const replayed = (...batches: ReadonlyArray<ReadonlyArray<Event>>) =>
  Replay.snapshot(batches.reduce(Replay.reduce, begun()))

type Told = readonly [eventType: string, payload?: unknown, more?: object]

/** Events that are numbered in their order. */
const told = (...events: ReadonlyArray<Told>) =>
  replayed(events.map(([eventType, payload, more], index) => event(index + 1, eventType, payload, more)))

const lines = (...events: ReadonlyArray<Told>) => told(...events).timeline.map(({ summary }) => summary)

const ofItem = { itemId: "item-1" }

describe("a snapshot", () => {
  it("of no events says that nothing has begun, in the order of the golden files", () => {
    const snapshot = replayed()
    expect(JSON.stringify(snapshot)).toBe(
      JSON.stringify({
        schema: "paperclip.prp.session-snapshot.v1",
        fixtureName: "A run",
        identity: Documents.identity,
        capabilities: Documents.capabilities,
        runPhase: "queued",
        sessionState: "not_started",
        turnState: "not_started",
        activeTurnId: null,
        items: [],
        requests: [],
        proposedResult: null,
        terminal: null,
        timeline: [],
        sourceCursors: {},
        processedEventIds: [],
        duplicateEventIds: [],
        outOfOrderEventIds: [],
        gaps: [],
        integrity: "complete"
      })
    )
  })

  it("has items, requests, timeline entries and gaps with their members in the order of the golden files", () => {
    const { gaps, items, requests, timeline } = replayed([
      event(2, "item.started", { kind: "command" }, ofItem),
      event(3, "runtime_request.created", { requestId: "r", prompt: "Go on?" })
    ])
    expect(Object.keys(items[0] ?? {})).toEqual(["itemId", "kind", "status", "text"])
    expect(Object.keys(requests[0] ?? {})).toEqual(["requestId", "requestKind", "type", "status", "prompt"])
    expect(timeline.map((entry) => Object.keys(entry))).toEqual([
      ["position", "sourceEventId", "sourceSeq", "eventType", "emittedAt", "itemId", "summary"],
      ["position", "sourceEventId", "sourceSeq", "eventType", "emittedAt", "summary"]
    ])
    expect(Object.keys(gaps[0] ?? {})).toEqual([
      "sourceKey",
      "expected",
      "received",
      "missingCount",
      "missing",
      "truncated"
    ])
  })

  it("is written with two spaces and a newline, empty arrays as []", () => {
    const text = ReplaySnapshot.encode(Replay.summary(begun()))
    expect(text).toBe(`{
  "runId": "run-1",
  "integrity": "complete",
  "timelineCount": 0,
  "duplicateEventIds": [],
  "gaps": [],
  "turnTerminalState": null,
  "runTerminalState": null
}
`)
  })

  it("keeps identity, capabilities, result and terminal verbatim, and nothing unknown of the rest", () => {
    const unknown = JSON.parse('{"later":{"__proto__":1}}')
    const state = Replay.reduce(
      Replay.begin({
        fixtureName: "A run",
        identity: { ...Documents.identity, ...unknown },
        capabilities: { ...Documents.capabilities, ...unknown }
      }),
      [
        event(1, "item.started", unknown, { ...ofItem, ...unknown }),
        event(2, "run.result.proposed", { ...Documents.result, ...unknown }),
        event(3, "run.terminal", { ...Documents.terminal, ...unknown })
      ]
    )
    const { capabilities, identity, proposedResult, terminal, ...rest } = Replay.snapshot(state)
    for (const kept of [identity, capabilities, proposedResult, terminal]) {
      expect(JSON.stringify(kept)).toContain('"later":{"__proto__":1}')
    }
    expect(JSON.stringify(rest)).not.toContain("later")
  })
})

describe("a summary", () => {
  it("has how turn and run ended once there is a terminal, and its members in their order", () => {
    const state = Replay.reduce(begun(), [
      event(2, "session.started"),
      event(3, "run.terminal", { ...Documents.terminal, turnTerminalState: "failed" })
    ])
    expect(JSON.stringify(Replay.summary(state))).toBe(
      JSON.stringify({
        runId: "run-1",
        integrity: "gap_detected",
        timelineCount: 2,
        duplicateEventIds: [],
        gaps: Replay.snapshot(state).gaps,
        turnTerminalState: "failed",
        runTerminalState: "succeeded"
      })
    )
  })

  it("has its integrity from out-of-order events too", () => {
    const state = Replay.reduce(begun(), [
      event(1, "session.started"),
      event(1, "turn.started", {}, { sourceEventId: "other" })
    ])
    expect(Replay.summary(state)).toMatchObject({ integrity: "gap_detected", gaps: [], timelineCount: 1 })
  })
})

describe("events that come again, late or ahead", () => {
  const delta = event(1, "item.delta", { text: "once" }, ofItem)

  it("an id that one batch has more than once is listed once, and applied once", () => {
    expect(replayed([delta, delta, delta])).toMatchObject({
      duplicateEventIds: ["event-1"],
      processedEventIds: ["event-1"],
      items: [{ text: "once" }],
      integrity: "complete"
    })
  })

  it("a redelivery in a later batch changes nothing at all, and is not listed", () => {
    const first = replayed([delta])
    expect(replayed([delta], [delta])).toEqual(first)
    expect(replayed([delta], [delta, delta]).duplicateEventIds).toEqual(["event-1"])
  })

  it("an id is known whatever its number and source are then", () => {
    const elsewhere = event(9, "session.failed", {}, { sourceEventId: "event-1", sourceInstanceId: "other" })
    expect(replayed([delta], [elsewhere])).toEqual(replayed([delta]))
  })

  it("duplicate ids are sorted, over batches", () => {
    const b = event(1, "session.started", {}, { sourceEventId: "b" })
    const a = event(2, "turn.started", {}, { sourceEventId: "a" })
    const upper = event(3, "turn.completed", {}, { sourceEventId: "Z" })
    expect(replayed([b, b, a, a], [upper, upper]).duplicateEventIds).toEqual(["Z", "a", "b"])
  })

  it("another event with an old number is out of order: named once, not in the timeline, not processed, not applied", () => {
    const other = event(1, "session.failed", {}, { sourceEventId: "other" })
    expect(replayed([event(1, "session.started"), other, other], [other])).toMatchObject({
      outOfOrderEventIds: ["other"],
      duplicateEventIds: ["other"],
      processedEventIds: ["event-1"],
      sessionState: "running",
      timeline: [{ position: 1 }],
      gaps: [],
      integrity: "gap_detected"
    })
  })

  it("a number that is ahead gives a gap with six members, and the event is applied", () => {
    expect(replayed([event(1, "session.started"), event(4, "session.closed")])).toMatchObject({
      gaps: [
        { sourceKey: "runner:runner-1", expected: 2, received: 4, missingCount: 2, missing: [2, 3], truncated: false }
      ],
      sessionState: "closed",
      sourceCursors: { "runner:runner-1": 4 },
      integrity: "gap_detected"
    })
  })

  it("a source that starts with 3 has a gap from 1", () => {
    expect(replayed([event(3, "session.started")]).gaps).toMatchObject([{ expected: 1, received: 3, missing: [1, 2] }])
  })

  it("of a gap of 256 all numbers are listed, of one more the first 256", () => {
    const gap = (received: number) => replayed([event(received, "session.started")]).gaps[0]
    expect(gap(257)).toMatchObject({ missingCount: 256, truncated: false })
    expect(gap(257)?.missing).toHaveLength(256)
    expect(gap(258)).toMatchObject({ missingCount: 257, truncated: true })
    expect(gap(258)?.missing).toHaveLength(256)
    expect(gap(258)?.missing.at(-1)).toBe(256)
  })

  it("a jump to the last number of all is counted exactly, and nothing can follow it", () => {
    const snapshot = replayed([
      event(1, "session.started"),
      event(Number.MAX_SAFE_INTEGER, "turn.started", {}, { sourceEventId: "last" }),
      event(Number.MAX_SAFE_INTEGER, "turn.failed", {}, { sourceEventId: "after" })
    ])
    expect(snapshot.gaps).toMatchObject([{ expected: 2, missingCount: Number.MAX_SAFE_INTEGER - 2, truncated: true }])
    expect(snapshot.outOfOrderEventIds).toEqual(["after"])
  })

  it("a gap stays when what was missing comes: that is out of order", () => {
    expect(replayed([event(1, "session.started"), event(3, "turn.started"), event(2, "turn.failed")])).toMatchObject({
      gaps: [{ expected: 2, received: 3 }],
      outOfOrderEventIds: ["event-2"],
      turnState: "running"
    })
  })

  it("sources are told apart by kind and instance, each with a cursor of its own", () => {
    const control = { sourceKind: "control_plane" }
    expect(
      replayed([
        event(1, "session.started"),
        event(1, "run.attached", {}, { ...control, sourceEventId: "a" }),
        event(2, "run.detached", {}, { ...control, sourceEventId: "b" }),
        event(1, "runner.connected", {}, { sourceInstanceId: "other", sourceEventId: "c" })
      ])
    ).toMatchObject({
      sourceCursors: { "runner:runner-1": 1, "control_plane:runner-1": 2, "runner:other": 1 },
      integrity: "complete"
    })
  })

  it("events stand in the timeline as they came, not sorted by time", () => {
    const early = { emittedAt: "2020-01-01T00:00:00Z" }
    expect(told(["session.started"], ["turn.started", {}, early]).timeline).toMatchObject([
      { position: 1, eventType: "session.started" },
      { position: 2, eventType: "turn.started", ...early }
    ])
  })

  it("events after the terminal are applied like any other", () => {
    expect(
      told(
        ["run.terminal", Documents.terminal],
        ["runtime.phase.changed", { phase: "cleaning" }],
        ["run.terminal", { ...Documents.terminal, runTerminalState: "failed" }],
        ["runtime.phase.changed", { phase: "gone" }]
      )
    ).toMatchObject({ runPhase: "gone", terminal: { runTerminalState: "failed" }, timeline: { length: 4 } })
  })
})

describe("what an event changes", () => {
  it("runtime.phase.changed: the phase, if it is a string", () => {
    expect(told(["runtime.phase.changed", { phase: "x_y" }]).runPhase).toBe("x_y")
    expect(told(["runtime.phase.changed", { phase: "x" }], ["runtime.phase.changed", { phase: 3 }]).runPhase).toBe("x")
  })

  it.each([
    ["session.started", "running"],
    ["session.resumed", "running"],
    ["session.closed", "closed"],
    ["session.failed", "failed"]
  ])("%s: the session is %s", (eventType, state) => {
    expect(told([eventType]).sessionState).toBe(state)
  })

  it.each(["session.starting", "session.resuming", "session.reconciled", "session.updated"])(
    "%s: the session stays as it was",
    (eventType) => {
      expect(told([eventType]).sessionState).toBe("not_started")
    }
  )

  it("turn.started: the turn runs, and is the active one; without an id none is", () => {
    expect(told(["turn.started", {}, { turnId: "t" }])).toMatchObject({ turnState: "running", activeTurnId: "t" })
    expect(told(["turn.started", {}, { turnId: "t" }], ["turn.started"]).activeTurnId).toBeNull()
  })

  it.each(["completed", "failed", "interrupted", "cancelled"])("turn.%s: that state, and no active turn", (state) => {
    expect(told(["turn.started", {}, { turnId: "t" }], [`turn.${state}`, {}, { turnId: "t" }])).toMatchObject({
      turnState: state,
      activeTurnId: null
    })
  })

  it.each(["turn.submitted", "turn.accepted"])("%s: the timeline only", (eventType) => {
    expect(told([eventType, {}, { turnId: "t" }])).toMatchObject({ turnState: "not_started", activeTurnId: null })
  })

  it.each([
    ["item.started", "running"],
    ["item.delta", "running"],
    ["item.completed", "completed"],
    ["item.failed", "failed"]
  ])("%s: a new item of its kind and text, %s; a diagnostic without text if it has none", (eventType, status) => {
    expect(told([eventType, { kind: "command", text: "make" }, ofItem]).items).toEqual([
      { itemId: "item-1", kind: "command", status, text: "make" }
    ])
    expect(told([eventType, { kind: 1, text: null }, ofItem]).items).toEqual([
      { itemId: "item-1", kind: "diagnostic", status, text: "" }
    ])
    expect(told([eventType, { kind: "command" }]).items).toEqual([])
  })

  it("an item that is known: its kind if given, its state, a delta's text added", () => {
    const known = ["item.started", { kind: "message", text: "One" }, ofItem] as const
    expect(told(known, ["item.delta", { text: " two " }, ofItem]).items).toMatchObject([{ text: "One two " }])
    expect(told(known, ["item.completed", { kind: "final" }, ofItem]).items).toEqual([
      { itemId: "item-1", kind: "final", status: "completed", text: "One" }
    ])
    expect(told(known, ["item.completed", {}, ofItem], ["item.delta", {}, ofItem]).items).toEqual([
      { itemId: "item-1", kind: "message", status: "running", text: "One" }
    ])
  })

  it("an item that is known: another event's text replaces its own unless it is empty", () => {
    const known = ["item.delta", { text: "One" }, ofItem] as const
    for (const eventType of ["item.started", "item.completed", "item.failed"]) {
      expect(told(known, [eventType, { text: "Two" }, ofItem]).items).toMatchObject([{ text: "Two" }])
      expect(told(known, [eventType, { text: "" }, ofItem]).items).toMatchObject([{ text: "One" }])
    }
  })

  it("the message of an item that failed is not its text", () => {
    expect(told(["item.failed", { message: "Code 1" }, ofItem]).items).toMatchObject([{ text: "" }])
  })

  it("runtime_request.created: the request, inside the payload or the payload itself, with defaults", () => {
    const request = { requestId: "r", requestKind: "issue_thread", type: "input", status: "resolved", prompt: "Go on?" }
    expect(told(["runtime_request.created", { request, requestId: "outer" }]).requests).toEqual([request])
    expect(told(["runtime_request.created", request]).requests).toEqual([request])
    expect(told(["runtime_request.created", { requestId: "r", request: "no object" }]).requests).toEqual([
      { requestId: "r", requestKind: "runtime", type: "runtime", status: "pending", prompt: "" }
    ])
  })

  it("runtime_request.created: nothing without an id, nothing for an id that is listed", () => {
    expect(told(["runtime_request.created", { prompt: "Go on?" }]).requests).toEqual([])
    expect(told(["runtime_request.created", { requestId: "" }]).requests).toEqual([])
    expect(
      told(
        ["runtime_request.created", { requestId: "r", prompt: "First" }],
        ["runtime_request.created", { requestId: "r", prompt: "Second" }]
      ).requests
    ).toMatchObject([{ prompt: "First" }])
  })

  it.each(["resolved", "expired", "cancelled"])("runtime_request.%s: that word is the request's status", (status) => {
    const { requests } = told(
      ["runtime_request.created", { requestId: "r1" }],
      ["runtime_request.created", { requestId: "r2" }],
      [`runtime_request.${status}`, { requestId: "r2" }],
      [`runtime_request.${status}`, { requestId: "unknown" }],
      [`runtime_request.${status}`, { requestId: 2 }]
    )
    expect(requests.map((request) => request.status)).toEqual(["pending", status])
  })

  it("a request with a v2 discriminator belongs to this version", () => {
    const request = { schema: "paperclip.runtime_request.v2", requestId: "r", type: "input", prompt: "Which one?" }
    expect(told(["runtime_request.created", { request }]).requests).toMatchObject([{ requestId: "r", type: "input" }])
  })

  it("run.result.proposed: the result; the last one stands", () => {
    const other = { ...Documents.result, summary: "Another." }
    expect(told(["run.result.proposed", Documents.result], ["run.result.proposed", other]).proposedResult).toEqual(
      other
    )
  })

  it("run.terminal: the terminal and the phase; turn, session, items and requests stay as they are", () => {
    expect(
      told(
        ["session.started"],
        ["turn.started", {}, { turnId: "t" }],
        ["item.started", {}, ofItem],
        ["runtime_request.created", { requestId: "r" }],
        ["run.terminal", Documents.terminal]
      )
    ).toMatchObject({
      runPhase: "terminal",
      terminal: Documents.terminal,
      sessionState: "running",
      turnState: "running",
      activeTurnId: "t",
      items: [{ status: "running" }],
      requests: [{ status: "pending" }]
    })
  })

  it("events of all other types: the timeline only", () => {
    const projected =
      /^(runtime\.phase\.changed|session\.(started|resumed|closed|failed)|turn\.(started|completed|failed|interrupted|cancelled)|item\..*|runtime_request\..*|run\.result\.proposed|run\.terminal)$/
    const others = RunEvent.EventType.literals.filter((eventType) => !projected.test(eventType))
    const payload = { phase: "x", text: "x", kind: "x", requestId: "x", request: { requestId: "x" } }
    expect(others).toHaveLength(RunEvent.EventType.literals.length - 20)
    for (const eventType of others) {
      const { processedEventIds, sourceCursors, timeline, ...rest } = told([eventType, payload, ofItem])
      expect(timeline).toHaveLength(1)
      expect(rest).toEqual((({ processedEventIds, sourceCursors, timeline, ...untouched }) => untouched)(replayed()))
    }
  })
})

describe("what the timeline says", () => {
  it("runtime.phase.changed: the phase with blanks, or unknown", () => {
    expect(lines(["runtime.phase.changed", { phase: "a_b_c" }], ["runtime.phase.changed", { phase: {} }])).toEqual([
      "Phase changed to a b c",
      "Phase changed to unknown"
    ])
  })

  it("item.started and item.completed: the kind with its underscores, or item", () => {
    expect(
      lines(["item.started", { kind: "assistant_message" }], ["item.started"], ["item.completed", { kind: "a_b" }])
    ).toEqual(["Started assistant_message", "Started item", "Completed a_b"])
    expect(lines(["item.completed", { kind: null }])).toEqual(["Completed item"])
  })

  it("item.delta: the text exactly, blanks and empty ones too; else that the item was updated", () => {
    expect(
      lines(["item.delta", { text: " two  " }], ["item.delta", { text: "" }], ["item.delta", { text: 2 }])
    ).toEqual([" two  ", "", "Item updated"])
  })

  it("item.failed: the message, or that it failed", () => {
    expect(lines(["item.failed", { message: "Code 1" }], ["item.failed"])).toEqual(["Code 1", "Item failed"])
  })

  it("run.result.proposed: the result's summary, or that there is one", () => {
    expect(lines(["run.result.proposed", Documents.result], ["run.result.proposed", { summary: 1 }])).toEqual([
      "The page is written.",
      "Structured result proposed"
    ])
  })

  it("run.terminal: how the run ended, or terminal", () => {
    expect(lines(["run.terminal", Documents.terminal], ["run.terminal", null])).toEqual([
      "Run succeeded",
      "Run terminal"
    ])
  })

  it.each(["runner.diagnostic", "harness.diagnostic"])(
    "%s: the message; or the code with blanks and a capital; or the type",
    (eventType) => {
      expect(
        lines(
          [eventType, { message: "As said_so", code: "other" }],
          [eventType, { message: "", code: "lease_lost_again" }],
          [eventType, { code: "" }],
          [eventType]
        )
      ).toEqual(["As said_so", "Lease lost again", eventType.replace(".", " "), eventType.replace(".", " ")])
    }
  )

  it("runtime_request.created: type and prompt, or the type alone", () => {
    expect(
      lines(
        ["runtime_request.created", { request: { requestId: "r", type: "input", prompt: "Which one?" } }],
        ["runtime_request.created", { type: "permission", prompt: "" }],
        ["runtime_request.created"]
      )
    ).toEqual(["input: Which one?", "permission request", "runtime request"])
  })

  it.each(["resolved", "expired", "cancelled"])(
    "runtime_request.%s: the request as it was listed before, or its id",
    (status) => {
      expect(
        lines(
          ["runtime_request.created", { requestId: "r", type: "input", prompt: "Which one?" }],
          [`runtime_request.${status}`, { requestId: "r", type: "other", prompt: "other" }],
          [`runtime_request.${status}`, { requestId: "unknown" }],
          [`runtime_request.${status}`]
        ).slice(1)
      ).toEqual(["Resolved input: Which one?", "Resolved runtime request unknown", "Resolved runtime request"])
    }
  )

  it("others: the type with blanks for dots, underscores kept, whatever the payload says", () => {
    expect(lines(["turn.failed", { message: "x" }], ["semantic_tool.input"], ["mcp_app.host_context.changed"])).toEqual(
      ["turn failed", "semantic_tool input", "mcp_app host_context changed"]
    )
  })
})

const ids = ["__proto__", "constructor", "a", "b", "c", "d", "e", "f"]
const anyPayload = fc.oneof(
  fc.constant({}),
  fc.jsonValue(),
  fc.record(
    {
      phase: fc.oneof(fc.constantFrom("one_two", ""), fc.jsonValue()),
      kind: fc.oneof(fc.constantFrom("command", "assistant_message", ""), fc.jsonValue()),
      text: fc.oneof(fc.constantFrom("x ", "", "yz"), fc.jsonValue()),
      message: fc.oneof(fc.constantFrom("said", ""), fc.jsonValue()),
      code: fc.oneof(fc.constantFrom("some_code", "\u{10428}x", ""), fc.jsonValue()),
      summary: fc.oneof(fc.constant("done"), fc.jsonValue()),
      runTerminalState: fc.constantFrom("failed", 7),
      turnTerminalState: fc.constantFrom("failed", null),
      requestId: fc.oneof(fc.constantFrom(...ids, ""), fc.jsonValue()),
      type: fc.oneof(fc.constantFrom("input", "permission"), fc.jsonValue()),
      prompt: fc.oneof(fc.constantFrom("Go on?", ""), fc.jsonValue()),
      request: fc.oneof(
        fc.record({ requestId: fc.constantFrom(...ids), prompt: fc.constantFrom("", "Well?") }),
        fc.jsonValue()
      )
    },
    { requiredKeys: [] }
  )
)

const projectedTypes = RunEvent.EventType.literals.filter((eventType) =>
  /^(runtime\.|session\.|turn\.|item\.|runtime_request\.|run\.|runner\.diag)/.test(eventType)
)

const anyEvent: fc.Arbitrary<Event> = fc
  .record({
    eventType: fc.oneof(fc.constantFrom(...projectedTypes), fc.constantFrom(...RunEvent.EventType.literals)),
    payload: anyPayload,
    sourceEventId: fc.oneof(fc.constantFrom(...ids), fc.uuid()),
    sourceSeq: fc.oneof(
      fc.nat(60).map((number) => number + 1),
      fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })
    ),
    source: fc.constantFrom(
      { sourceKind: "runner", sourceInstanceId: "__proto__" },
      { sourceKind: "runner", sourceInstanceId: "1" },
      { sourceKind: "control_plane", sourceInstanceId: "1" }
    ),
    about: fc.record({ turnId: fc.constantFrom(...ids), itemId: fc.constantFrom(...ids) }, { requiredKeys: [] })
  })
  .map(({ about, eventType, payload, source, sourceEventId, sourceSeq }) =>
    event(sourceSeq, eventType, payload, { sourceEventId, ...source, ...about })
  )

/** Mostly in their order, with redeliveries, gaps, late events and other orders among them. */
const anyEvents: fc.Arbitrary<ReadonlyArray<Event>> = fc
  .array(fc.tuple(anyEvent, fc.constantFrom("next", "next", "next", "as it is", "again", "gap")), { maxLength: 60 })
  .map((steps) => {
    const events: Array<Event> = []
    const last = new Map<string, number>()
    for (const [made, how] of steps) {
      const source = `${made.sourceKind}:${made.sourceInstanceId}`
      const before = last.get(source) ?? 0
      const earlier = events[made.sourceSeq % Math.max(events.length, 1)]
      if (how === "again" && earlier !== undefined) {
        events.push(earlier)
        continue
      }
      const sourceSeq = how === "as it is" ? made.sourceSeq : before + (how === "gap" ? 3 : 1)
      if (sourceSeq > Number.MAX_SAFE_INTEGER) continue
      last.set(source, Math.max(sourceSeq, before))
      events.push({ ...made, sourceSeq })
    }
    return events
  })

const anyBatches = fc.tuple(anyEvents, fc.array(fc.nat(60), { maxLength: 8 })).map(([events, cuts]) => {
  const places = [...new Set([0, ...cuts.filter((cut) => cut < events.length)])].sort((left, right) => left - right)
  return places.map((place, index) => events.slice(place, places[index + 1]))
})

const text = (state: Replay.State) => ReplaySnapshot.encode(Replay.snapshot(state))

describe("whatever the events are", () => {
  it("the snapshot is the one that the contract's rules give, step by step", () =>
    check(
      [anyBatches],
      (batches) => {
        let state = begun()
        let model = ReplayModel.begin(run)
        for (const batch of batches) {
          state = Replay.reduce(state, batch)
          model = ReplayModel.reduce(model, batch)
          expect(text(state)).toBe(ReplaySnapshot.encode(model))
        }
      },
      { numRuns: 400 }
    ))

  it("how they are split into batches makes no difference but for duplicateEventIds", () =>
    check([anyBatches], (batches) => {
      const whole = Replay.snapshot(Replay.reduce(begun(), batches.flat()))
      for (const split of [batches, batches.flat().map((single) => [single])]) {
        const { duplicateEventIds, ...rest } = replayed(...split)
        expect({ ...rest, duplicateEventIds: whole.duplicateEventIds }).toEqual(whole)
        const seen = split.flatMap((batch) => {
          const inBatch = batch.map(({ sourceEventId }) => sourceEventId)
          return inBatch.filter((id, index) => inBatch.indexOf(id) !== index)
        })
        expect(duplicateEventIds).toEqual([...new Set(seen)].sort())
      }
    }))

  it("a state gives the same snapshot after others were made of it, and branches do not disturb each other", () =>
    check([anyBatches, anyBatches, anyBatches], (trunk, left, right) => {
      const trail = [begun()]
      for (const batch of trunk) trail.push(Replay.reduce(trail.at(-1) ?? begun(), batch))
      const texts = trail.map(text)
      for (const [index, fork] of trail.entries()) {
        // Step by step in turns, so that each grows from what the other has grown from too.
        let [one, other] = [fork, fork]
        for (let at = 0; at < Math.max(left.length, right.length); at++) {
          one = Replay.reduce(one, left[at] ?? [])
          other = Replay.reduce(other, right[at] ?? [])
        }
        const before = trunk.slice(0, index)
        expect(text(one)).toBe(ReplaySnapshot.encode(replayed(...before, ...left)))
        expect(text(other)).toBe(ReplaySnapshot.encode(replayed(...before, ...right)))
      }
      expect(trail.map(text)).toEqual(texts)
    }))

  it("cursors only grow, and there is integrity exactly without gaps and events out of order", () =>
    check([anyEvents], (events) => {
      let before = begun()
      for (const one of events) {
        const after = Replay.reduce(before, [one])
        const [old, now] = [Replay.snapshot(before), Replay.snapshot(after)]
        for (const [source, cursor] of Object.entries(old.sourceCursors)) {
          expect(now.sourceCursors[source]).toBeGreaterThanOrEqual(cursor)
        }
        expect(now.integrity === "complete").toBe(now.gaps.length + now.outOfOrderEventIds.length === 0)
        before = after
      }
    }))

  it("a snapshot that was taken is not changed by what comes later", () =>
    check([anyBatches], (batches) => {
      let state = begun()
      const taken = batches.map((batch) => {
        state = Replay.reduce(state, batch)
        const snapshot = Replay.snapshot(state)
        return { snapshot, text: ReplaySnapshot.encode(snapshot) }
      })
      expect(taken.map(({ snapshot }) => ReplaySnapshot.encode(snapshot))).toEqual(taken.map((one) => one.text))
    }))
})

describe("ids that are members of every object", () => {
  const each = ["__proto__", "constructor", "toString", "hasOwnProperty"]

  it("are ids like any other, of events, items, requests and sources", () => {
    const snapshot = replayed(
      each.flatMap((id, index) => [
        event(2 * index + 1, "item.delta", { text: id }, { sourceEventId: id, itemId: id }),
        event(2 * index + 2, "runtime_request.created", { requestId: id }),
        event(1, "session.started", {}, { sourceInstanceId: id, sourceEventId: `of ${id}` })
      ])
    )
    expect(snapshot.items.map(({ itemId, text }) => [itemId, text])).toEqual(each.map((id) => [id, id]))
    expect(snapshot.requests.map(({ requestId }) => requestId)).toEqual(each)
    expect(snapshot.processedEventIds).toEqual(expect.arrayContaining(each))
    expect(Object.keys(snapshot.sourceCursors)).toEqual(["runner:runner-1", ...each.map((id) => `runner:${id}`)])
    expect(snapshot.integrity).toBe("complete")
  })
})

describe("many of everything", () => {
  it("items beyond one, two and three levels of the table keep their places and texts", () => {
    const size = 33_000
    const events = Array.from({ length: size }, (_, index) =>
      event(index + 1, "item.started", { text: `${index}` }, { itemId: `item-${index}` })
    )
    const first = Replay.reduce(begun(), events)
    const changed = Replay.reduce(
      first,
      [0, 31, 32, 1023, 1024, 32_767, 32_768].map((index, step) =>
        event(size + step + 1, "item.delta", { text: "!" }, { itemId: `item-${index}` })
      )
    )
    expect(Replay.snapshot(first).items.every(({ text }, index) => text === `${index}`)).toBe(true)
    const texts = Replay.snapshot(changed).items.map(({ text }) => text)
    expect(texts).toHaveLength(size)
    expect(texts.filter((text) => text.endsWith("!"))).toEqual([
      "0!",
      "31!",
      "32!",
      "1023!",
      "1024!",
      "32767!",
      "32768!"
    ])
  })
})

describe("a stream of batches", () => {
  const batches = [[event(1, "session.started")], [event(2, "turn.started"), event(3, "turn.completed")], []]

  it.effect("gives a snapshot after each", () =>
    Effect.gen(function* () {
      const taken = yield* Stream.fromIterable(batches).pipe(Replay.snapshots(begun()), Stream.runCollect)
      expect(Chunk.toReadonlyArray(taken)).toEqual([
        replayed(...batches.slice(0, 1)),
        replayed(...batches.slice(0, 2)),
        replayed(...batches)
      ])
    })
  )

  it.effect("makes a snapshot only when it is asked for, though the batches came together", () =>
    Effect.gen(function* () {
      let reached = false
      const later = {
        ...event(2, "turn.started"),
        get sourceEventId() {
          reached = true
          return "event-2"
        }
      }
      const together = Stream.fromChunk(Chunk.make([event(1, "session.started")], [later]))
      const first = yield* together.pipe(Replay.snapshots(begun()), Stream.runHead)
      expect(first).toMatchObject({ value: { sessionState: "running" } })
      expect(reached).toBe(false)
    })
  )

  it.effect("fails as its batches do", () =>
    Effect.gen(function* () {
      const failing = Stream.concat(Stream.fromIterable(batches), Stream.fail("lost"))
      expect(yield* failing.pipe(Replay.snapshots(begun()), Stream.runDrain, Effect.flip)).toBe("lost")
    })
  )
})

describe("the repository's own replay fixtures", () => {
  const files = [...texts].filter(([path]) => !path.includes("/golden/"))

  it("have the names that the contract gives", () => {
    expect(files.map(([path]) => path.replace(/^.*\/|\.json$/g, ""))).toEqual(
      expect.arrayContaining([
        "happy-path",
        "failed-run",
        "interrupted-run",
        "duplicate-event",
        "source-gap",
        "unknown-optional-fields",
        "unsupported-required-version"
      ])
    )
  })

  it.effect.each(files)(
    "%s is accepted, and its goldens are what the rules give; or it needs another version",
    ([path, file]) =>
      Effect.gen(function* () {
        const golden = (kind: string) =>
          texts.get(path.replace("replay/", "replay/golden/").replace(".json", `.${kind}.json`))
        if (path.endsWith("unsupported-required-version.json")) {
          expect(yield* Effect.flip(ReplayFixture.parse(file))).toMatchObject({
            _tag: "unsupported_required_version",
            issues: [{ path: "/protocolVersion" }]
          })
          expect(golden("snapshot")).toBeUndefined()
          return
        }
        const fixture = yield* ReplayFixture.parse(file)
        const { capabilities, events, identity, name } = fixture
        const model = ReplayModel.reduce(ReplayModel.begin({ fixtureName: name, identity, capabilities }), events)
        expect(golden("snapshot")).toBe(ReplaySnapshot.encode(model))
        const state = Replay.ofFixture(fixture)
        expect(ReplaySnapshot.encode(Replay.snapshot(state))).toBe(golden("snapshot"))
        expect(ReplaySnapshot.encode(Replay.summary(state))).toBe(golden("summary"))
      })
  )
})
