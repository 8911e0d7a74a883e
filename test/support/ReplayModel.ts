/**
 * The contract's rules of a replay (facts 4), written down as they are read: lists that are searched and copied, and nothing
 * shared. What the reducer is compared with.
 */
import type { Replay, ReplaySnapshot, RunEvent } from "../../src/runner/index.js"

type Snapshot = ReplaySnapshot.ReplaySnapshot
type Payload = Readonly<Record<string, unknown>> | undefined

const stringOr = <Other>(value: unknown, other: Other) => (typeof value === "string" ? value : other)

const asPayload = (value: unknown): Payload =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Payload) : undefined

const requestIn = (payload: Payload) => {
  const told = asPayload(payload?.["request"]) ?? payload
  return {
    requestId: stringOr(told?.["requestId"], ""),
    requestKind: stringOr(told?.["requestKind"], "runtime"),
    type: stringOr(told?.["type"], "runtime"),
    status: stringOr(told?.["status"], "pending"),
    prompt: stringOr(told?.["prompt"], "")
  }
}

const line = (eventType: string, payload: Payload, requests: Snapshot["requests"]): string => {
  const given = (name: string) => stringOr(payload?.[name], undefined)
  const plain = eventType.split(".").join(" ")
  if (eventType === "runtime.phase.changed") {
    return `Phase changed to ${(given("phase") ?? "unknown").split("_").join(" ")}`
  }
  if (eventType === "item.started") return `Started ${given("kind") ?? "item"}`
  if (eventType === "item.completed") return `Completed ${given("kind") ?? "item"}`
  if (eventType === "item.delta") return given("text") ?? "Item updated"
  if (eventType === "item.failed") return given("message") ?? "Item failed"
  if (eventType === "run.result.proposed") return given("summary") ?? "Structured result proposed"
  if (eventType === "run.terminal") return `Run ${given("runTerminalState") ?? "terminal"}`
  if (eventType === "runner.diagnostic" || eventType === "harness.diagnostic") {
    if (given("message")) return given("message") ?? ""
    const [letter = "", ...rest] = (given("code") ?? "").split("_").join(" ")
    return letter === "" ? plain : letter.toUpperCase() + rest.join("")
  }
  if (eventType === "runtime_request.created") {
    const { prompt, type } = requestIn(payload)
    return prompt === "" ? `${type} request` : `${type}: ${prompt}`
  }
  if (/^runtime_request\.(resolved|expired|cancelled)$/.test(eventType)) {
    const known = requests.find(({ requestId }) => requestId === given("requestId"))
    return known
      ? `Resolved ${known.type}: ${known.prompt}`
      : `Resolved runtime request ${given("requestId") ?? ""}`.trim()
  }
  return plain
}

const sessionStates: ReadonlyMap<string, Snapshot["sessionState"]> = new Map([
  ["session.started", "running"],
  ["session.resumed", "running"],
  ["session.closed", "closed"],
  ["session.failed", "failed"]
])

const turnStates: ReadonlyMap<string, Snapshot["turnState"]> = new Map([
  ["turn.started", "running"],
  ["turn.completed", "completed"],
  ["turn.failed", "failed"],
  ["turn.interrupted", "interrupted"],
  ["turn.cancelled", "cancelled"]
])

const itemStates: ReadonlyMap<string, Snapshot["items"][number]["status"]> = new Map([
  ["item.started", "running"],
  ["item.delta", "running"],
  ["item.completed", "completed"],
  ["item.failed", "failed"]
])

const changes = (
  before: Snapshot,
  { eventType, itemId, payload: given, turnId }: RunEvent.RunEvent
): Partial<Snapshot> => {
  const payload = asPayload(given)
  const sessionState = sessionStates.get(eventType)
  const turnState = turnStates.get(eventType)
  const itemState = itemStates.get(eventType)
  if (eventType === "runtime.phase.changed") return { runPhase: stringOr(payload?.["phase"], before.runPhase) }
  if (sessionState !== undefined) return { sessionState }
  if (turnState !== undefined) {
    return { turnState, activeTurnId: turnState === "running" ? (turnId ?? null) : null }
  }
  if (itemState !== undefined && itemId !== undefined) {
    const known = before.items.find((item) => item.itemId === itemId)
    const old = known ?? { itemId, kind: "diagnostic", status: itemState, text: "" }
    const text = stringOr(payload?.["text"], "")
    const item = {
      ...old,
      kind: stringOr(payload?.["kind"], old.kind),
      status: itemState,
      text: eventType === "item.delta" ? old.text + text : text === "" ? old.text : text
    }
    return known === undefined
      ? { items: [...before.items, item] }
      : { items: before.items.map((other) => (other === known ? item : other)) }
  }
  if (eventType === "runtime_request.created") {
    const request = requestIn(payload)
    const isNew = before.requests.every(({ requestId }) => requestId !== request.requestId)
    return request.requestId !== "" && isNew ? { requests: [...before.requests, request] } : {}
  }
  const settled = /^runtime_request\.(resolved|expired|cancelled)$/.exec(eventType)?.[1]
  if (settled !== undefined) {
    return {
      requests: before.requests.map((request) =>
        request.requestId === payload?.["requestId"] ? { ...request, status: settled } : request
      )
    }
  }
  if (eventType === "run.result.proposed") return { proposedResult: given as Snapshot["proposedResult"] }
  if (eventType === "run.terminal") return { terminal: given as Snapshot["terminal"], runPhase: "terminal" }
  return {}
}

const step = (before: Snapshot, event: RunEvent.RunEvent): Snapshot => {
  if (before.processedEventIds.includes(event.sourceEventId)) return before
  const sourceKey = `${event.sourceKind}:${event.sourceInstanceId}`
  const cursor = before.sourceCursors[sourceKey] ?? 0
  if (event.sourceSeq <= cursor) {
    const outOfOrderEventIds = [...new Set([...before.outOfOrderEventIds, event.sourceEventId])]
    return { ...before, outOfOrderEventIds, integrity: "gap_detected" }
  }
  const missing = []
  for (let number = cursor + 1; number < event.sourceSeq && missing.length < 256; number++) missing.push(number)
  const missingCount = event.sourceSeq - cursor - 1
  const gap = {
    sourceKey,
    expected: cursor + 1,
    received: event.sourceSeq,
    missingCount,
    missing,
    truncated: missingCount > missing.length
  }
  const entry = {
    position: before.timeline.length + 1,
    sourceEventId: event.sourceEventId,
    sourceSeq: event.sourceSeq,
    eventType: event.eventType,
    emittedAt: event.emittedAt,
    ...(event.itemId === undefined ? {} : { itemId: event.itemId }),
    summary: line(event.eventType, asPayload(event.payload), before.requests)
  }
  return {
    ...before,
    ...changes(before, event),
    timeline: [...before.timeline, entry],
    sourceCursors: { ...before.sourceCursors, [sourceKey]: event.sourceSeq },
    processedEventIds: [...before.processedEventIds, event.sourceEventId],
    gaps: missingCount === 0 ? before.gaps : [...before.gaps, gap],
    integrity: missingCount === 0 ? before.integrity : "gap_detected"
  }
}

export const begin = (run: Replay.Run): Snapshot => ({
  schema: "paperclip.prp.session-snapshot.v1",
  fixtureName: run.fixtureName,
  identity: run.identity,
  capabilities: run.capabilities,
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

/** What a batch makes of a snapshot. */
export const reduce = (before: Snapshot, batch: ReadonlyArray<RunEvent.RunEvent>): Snapshot => {
  const ids = batch.map(({ sourceEventId }) => sourceEventId)
  const repeated = ids.filter((id, index) => ids.indexOf(id) !== index)
  const duplicateEventIds = [...new Set([...before.duplicateEventIds, ...repeated])].sort()
  return batch.reduce(step, { ...before, duplicateEventIds })
}
