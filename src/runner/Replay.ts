/**
 * From the events of a run to what is known of it. Pure and total: the same events give the same snapshot, whatever else is
 * going on, and no payload makes it fail.
 *
 * Events are taken in the order of their arrival, never sorted by number or time. The number that an event has from its source
 * tells whether it is new, late or ahead of others; late ones are named and not applied, and what is missing is recorded.
 *
 * @module
 */
import { Array as Arr, Stream } from "effect"
import * as AppendOnly from "./AppendOnly.js"
import type { Capabilities } from "./Capabilities.js"
import * as EventPayload from "./EventPayload.js"
import type { Identity } from "./Identity.js"
import type { ReplayFixture } from "./ReplayFixture.js"
import type {
  Integrity,
  ReplayedItem,
  ReplayedRequest,
  ReplaySnapshot,
  ReplaySummary,
  SessionState,
  SourceGap,
  TimelineEntry,
  TurnState
} from "./ReplaySnapshot.js"
import { type RunEvent, sourceKey as sourceKeyOf } from "./RunEvent.js"
import type { RunResult } from "./RunResult.js"
import type { RunTerminal } from "./RunTerminal.js"
import * as TimelineSummary from "./TimelineSummary.js"

/** Whose events they are. `fixtureName` is what the snapshot is called by. */
export interface Run {
  readonly fixtureName: string
  readonly identity: Identity
  readonly capabilities: Capabilities
}

/** What a gap is made of; the numbers themselves are only listed in a snapshot. */
type Gap = Pick<SourceGap, "sourceKey" | "expected" | "received">

/** What the events so far come to. A value: whatever is made of it later, it stays as it is. */
export interface State extends Run {
  readonly runPhase: string
  readonly sessionState: SessionState
  readonly turnState: TurnState
  readonly activeTurnId: string | null
  readonly items: AppendOnly.Table<ReplayedItem>
  readonly requests: AppendOnly.Table<ReplayedRequest>
  readonly proposedResult: RunResult | null
  readonly terminal: RunTerminal | null
  readonly timeline: AppendOnly.Sequence<TimelineEntry>
  readonly cursors: AppendOnly.Table<number>
  readonly processed: AppendOnly.Keys
  readonly duplicates: AppendOnly.Keys
  readonly outOfOrder: AppendOnly.Keys
  readonly gaps: AppendOnly.Sequence<Gap>
}

/** Before the first event. */
export const begin = ({ capabilities, fixtureName, identity }: Run): State => ({
  fixtureName,
  identity,
  capabilities,
  runPhase: "queued",
  sessionState: "not_started",
  turnState: "not_started",
  activeTurnId: null,
  items: AppendOnly.emptyTable(),
  requests: AppendOnly.emptyTable(),
  proposedResult: null,
  terminal: null,
  timeline: AppendOnly.emptySequence(),
  cursors: AppendOnly.emptyTable(),
  processed: AppendOnly.emptyKeys(),
  duplicates: AppendOnly.emptyKeys(),
  outOfOrder: AppendOnly.emptyKeys(),
  gaps: AppendOnly.emptySequence()
})

/** A delta adds to the text; another event replaces it if it brings one. */
const upsertItem = ({ items }: State, event: RunEvent, status: ReplayedItem["status"]): Partial<State> => {
  const { eventType, itemId, payload } = event
  if (itemId === undefined) return {}
  const before = AppendOnly.get(items, itemId)
  const textBefore = before?.text ?? ""
  const text = EventPayload.text(payload, "text") ?? ""
  return {
    items: AppendOnly.set(items, itemId, {
      itemId,
      kind: EventPayload.text(payload, "kind") ?? before?.kind ?? "diagnostic",
      status,
      text: eventType === "item.delta" ? textBefore + text : text || textBefore
    })
  }
}

const addRequest = ({ requests }: State, request: ReplayedRequest): Partial<State> =>
  request.requestId === "" || AppendOnly.get(requests, request.requestId) !== undefined
    ? {}
    : { requests: AppendOnly.set(requests, request.requestId, request) }

const settleRequest = ({ requests }: State, payload: unknown, status: string): Partial<State> => {
  const request = AppendOnly.get(requests, EventPayload.text(payload, "requestId") ?? "")
  return request === undefined ? {} : { requests: AppendOnly.set(requests, request.requestId, { ...request, status }) }
}

/** What an event changes beside the timeline (facts 4, Projection). An event after `run.terminal` is like any other. */
const projection = (state: State, event: RunEvent): Partial<State> => {
  switch (event.eventType) {
    case "runtime.phase.changed":
      return { runPhase: EventPayload.text(event.payload, "phase") ?? state.runPhase }
    case "session.started":
    case "session.resumed":
      return { sessionState: "running" }
    case "session.closed":
      return { sessionState: "closed" }
    case "session.failed":
      return { sessionState: "failed" }
    case "turn.started":
      return { turnState: "running", activeTurnId: event.turnId ?? null }
    case "turn.completed":
      return { turnState: "completed", activeTurnId: null }
    case "turn.failed":
      return { turnState: "failed", activeTurnId: null }
    case "turn.interrupted":
      return { turnState: "interrupted", activeTurnId: null }
    case "turn.cancelled":
      return { turnState: "cancelled", activeTurnId: null }
    case "item.started":
    case "item.delta":
      return upsertItem(state, event, "running")
    case "item.completed":
      return upsertItem(state, event, "completed")
    case "item.failed":
      return upsertItem(state, event, "failed")
    case "runtime_request.created":
      return addRequest(state, EventPayload.request(event.payload))
    case "runtime_request.resolved":
      return settleRequest(state, event.payload, "resolved")
    case "runtime_request.expired":
      return settleRequest(state, event.payload, "expired")
    case "runtime_request.cancelled":
      return settleRequest(state, event.payload, "cancelled")
    case "run.result.proposed":
      return { proposedResult: event.payload }
    case "run.terminal":
      return { terminal: event.payload, runPhase: "terminal" }
    default:
      return {}
  }
}

const entry = (state: State, event: RunEvent): TimelineEntry => ({
  position: state.timeline.length + 1,
  sourceEventId: event.sourceEventId,
  sourceSeq: event.sourceSeq,
  eventType: event.eventType,
  emittedAt: event.emittedAt,
  ...(event.itemId !== undefined && { itemId: event.itemId }),
  summary: TimelineSummary.make(event, (requestId) => AppendOnly.get(state.requests, requestId))
})

const apply = (state: State, event: RunEvent): State => {
  const { sourceEventId, sourceSeq } = event
  if (AppendOnly.has(state.processed, sourceEventId)) return state
  const sourceKey = sourceKeyOf(event)
  const expected = (AppendOnly.get(state.cursors, sourceKey) ?? 0) + 1
  if (sourceSeq < expected) return { ...state, outOfOrder: AppendOnly.add(state.outOfOrder, sourceEventId) }
  return {
    ...state,
    ...projection(state, event),
    timeline: AppendOnly.append(state.timeline, entry(state, event)),
    cursors: AppendOnly.set(state.cursors, sourceKey, sourceSeq),
    processed: AppendOnly.add(state.processed, sourceEventId),
    // A cursor only grows, so that no gap can come a second time.
    gaps:
      sourceSeq === expected ? state.gaps : AppendOnly.append(state.gaps, { sourceKey, expected, received: sourceSeq })
  }
}

const addDuplicates = (duplicates: AppendOnly.Keys, batch: ReadonlyArray<RunEvent>): AppendOnly.Keys => {
  const seen = new Set<string>()
  return batch.reduce((found, { sourceEventId }) => {
    if (seen.has(sourceEventId)) return AppendOnly.add(found, sourceEventId)
    seen.add(sourceEventId)
    return found
  }, duplicates)
}

/**
 * Applies events that came together, in their order. How a stream is split into batches makes no difference but for
 * `duplicateEventIds`: an id is listed there if one batch has it more than once, and not if a later batch delivers it again.
 *
 * Takes time in proportion to the events, also one by one. Going on from a state from which there was gone on already copies
 * what it holds, once.
 *
 * @example
 * ```ts
 * import { Replay, type RunEvent } from "effect-agent-contracts/runner"
 *
 * declare const before: Replay.State
 * declare const batch: ReadonlyArray<RunEvent.RunEvent>
 *
 * const after = Replay.reduce(before, batch)
 * const { integrity, items } = Replay.snapshot(after)
 * ```
 */
export const reduce = (state: State, batch: ReadonlyArray<RunEvent>): State => {
  const duplicates = addDuplicates(state.duplicates, batch)
  return batch.reduce(apply, duplicates === state.duplicates ? state : { ...state, duplicates })
}

/** What the whole run of a fixture comes to. Its events are one batch. */
export const ofFixture = ({ capabilities, events, identity, name }: ReplayFixture): State =>
  reduce(begin({ fixtureName: name, identity, capabilities }), events)

/** So many missing numbers are listed of a gap (facts 4). */
const listedNumbers = 256

const sourceGap = ({ expected, received, sourceKey }: Gap): SourceGap => {
  const missingCount = received - expected
  return {
    sourceKey,
    expected,
    received,
    missingCount,
    missing: Array.from({ length: Math.min(missingCount, listedNumbers) }, (_, index) => expected + index),
    truncated: missingCount > listedNumbers
  }
}

const integrity = ({ gaps, outOfOrder }: State): Integrity =>
  gaps.length > 0 || outOfOrder.inOrder.length > 0 ? "gap_detected" : "complete"

const duplicateEventIds = ({ duplicates }: State) => AppendOnly.toArray(duplicates.inOrder).sort()

const sourceCursors = ({ cursors }: State) => Arr.zip(AppendOnly.keysOf(cursors), AppendOnly.valuesOf(cursors))

const sourceGaps = ({ gaps }: State) => AppendOnly.toArray(gaps).map(sourceGap)

/** Everything that is known. Takes time in proportion to the events so far. */
export const snapshot = (state: State): ReplaySnapshot => ({
  schema: "paperclip.prp.session-snapshot.v1",
  fixtureName: state.fixtureName,
  identity: state.identity,
  capabilities: state.capabilities,
  runPhase: state.runPhase,
  sessionState: state.sessionState,
  turnState: state.turnState,
  activeTurnId: state.activeTurnId,
  items: AppendOnly.valuesOf(state.items),
  requests: AppendOnly.valuesOf(state.requests),
  proposedResult: state.proposedResult,
  terminal: state.terminal,
  timeline: AppendOnly.toArray(state.timeline),
  sourceCursors: Object.fromEntries(sourceCursors(state)),
  processedEventIds: AppendOnly.toArray(state.processed.inOrder),
  duplicateEventIds: duplicateEventIds(state),
  outOfOrderEventIds: AppendOnly.toArray(state.outOfOrder.inOrder),
  gaps: sourceGaps(state),
  integrity: integrity(state)
})

/** By what this replay is compared with another of the same run. Both terminal states are `null` before `run.terminal`. */
export const summary = (state: State): ReplaySummary => ({
  runId: state.identity.runId,
  integrity: integrity(state),
  timelineCount: state.timeline.length,
  duplicateEventIds: duplicateEventIds(state),
  gaps: sourceGaps(state),
  turnTerminalState: state.terminal?.turnTerminalState ?? null,
  runTerminalState: state.terminal?.runTerminalState ?? null
})

/**
 * A snapshot after each batch. Who needs only the last one folds with `reduce` and asks for it at the end: each snapshot takes
 * time in proportion to all events before it.
 *
 * @example
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { Replay, type RunEvent } from "effect-agent-contracts/runner"
 *
 * declare const run: Replay.Run
 * declare const batches: Stream.Stream<ReadonlyArray<RunEvent.RunEvent>>
 *
 * const watched = batches.pipe(
 *   Replay.snapshots(Replay.begin(run)),
 *   Stream.runForEach(({ runPhase, timeline }) => Effect.log(`${runPhase}, ${timeline.length} events`))
 * )
 * const last = batches.pipe(Stream.runFold(Replay.begin(run), Replay.reduce), Effect.map(Replay.snapshot))
 * ```
 */
export const snapshots =
  (initial: State) =>
  <E, R>(batches: Stream.Stream<ReadonlyArray<RunEvent>, E, R>): Stream.Stream<ReplaySnapshot, E, R> =>
    // One by one: a chunk of batches would have all its snapshots made, and held, before the first is taken.
    Stream.rechunk(batches, 1).pipe(
      Stream.mapAccum(initial, (state, batch) => {
        const next = reduce(state, batch)
        return [next, snapshot(next)]
      })
    )
