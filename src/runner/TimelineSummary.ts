/**
 * What a timeline says of an event, in a line. The words are the contract's: they stand in the golden files.
 *
 * @module
 */
import * as EventPayload from "./EventPayload.js"
import type { ReplayedRequest } from "./ReplaySnapshot.js"
import type { RunEvent } from "./RunEvent.js"

const spaced = (words: string): string => words.replaceAll("_", " ")

const byType = (eventType: string): string => eventType.replaceAll(".", " ")

const diagnostic = (payload: unknown): string | undefined => {
  const code = spaced(EventPayload.text(payload, "code") ?? "")
  return EventPayload.text(payload, "message") || code.replace(/^./u, (letter) => letter.toUpperCase()) || undefined
}

const created = ({ prompt, type }: ReplayedRequest): string =>
  prompt === "" ? `${type} request` : `${type}: ${prompt}`

/**
 * The line of an event. A request that is answered is called by its type and prompt, so its line depends on the requests that
 * were listed before the event.
 *
 * @example
 * ```ts
 * import { type RunEvent, TimelineSummary } from "effect-agent-contracts/runner"
 *
 * const event: RunEvent.RunEvent = {
 *   schema: "paperclip.prp.event.v1",
 *   sourceEventId: "e1",
 *   sourceSeq: 1,
 *   sourceInstanceId: "runner-1",
 *   sourceKind: "runner",
 *   runId: "run-1",
 *   eventType: "runtime.phase.changed",
 *   schemaVersion: 1,
 *   priority: 1,
 *   emittedAt: "2026-01-31T12:00:00Z",
 *   payload: { phase: "workspace_preparing" }
 * }
 *
 * console.log(TimelineSummary.make(event, () => undefined)) // Phase changed to workspace preparing
 * ```
 */
export const make = (event: RunEvent, listed: (requestId: string) => ReplayedRequest | undefined): string => {
  const { eventType, payload } = event
  switch (eventType) {
    case "runtime.phase.changed":
      return `Phase changed to ${spaced(EventPayload.text(payload, "phase") ?? "unknown")}`
    case "item.started":
      return `Started ${EventPayload.text(payload, "kind") ?? "item"}`
    case "item.completed":
      return `Completed ${EventPayload.text(payload, "kind") ?? "item"}`
    case "item.delta":
      return EventPayload.text(payload, "text") ?? "Item updated"
    case "item.failed":
      return EventPayload.text(payload, "message") ?? "Item failed"
    case "run.result.proposed":
      return EventPayload.text(payload, "summary") ?? "Structured result proposed"
    case "run.terminal":
      return `Run ${EventPayload.text(payload, "runTerminalState") ?? "terminal"}`
    case "runner.diagnostic":
    case "harness.diagnostic":
      return diagnostic(payload) ?? byType(eventType)
    case "runtime_request.created":
      return created(EventPayload.request(payload))
    case "runtime_request.resolved":
    case "runtime_request.expired":
    case "runtime_request.cancelled": {
      const requestId = EventPayload.text(payload, "requestId") ?? ""
      const request = listed(requestId)
      return request === undefined
        ? `Resolved runtime request ${requestId}`.trim()
        : `Resolved ${request.type}: ${request.prompt}`
    }
    default:
      return byType(eventType)
  }
}
