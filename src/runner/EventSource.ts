/**
 * The events of one runner in one run: each with its number, its priority and its time.
 *
 * @module
 */
import { DateTime, Effect } from "effect"
import type { Identity } from "./Identity.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import type { SchemaValidation } from "./ProtocolError.js"
import { RunEvent } from "./RunEvent.js"

/** Whose run it is, and when its events are said to have happened. */
export interface Options {
  /** The ids of events are made of `runId`: one of more than 137 characters leaves them no room. */
  readonly identity: Pick<Identity, "runId" | "runnerInstanceId"> & Partial<Pick<Identity, "normalizedSessionId">>
  /** By default the time; or, for runs that are compared, the time that the contract gives to a number (facts 6). */
  readonly emittedAt?: "clock" | "conformance"
}

/** What an event is about, besides the run. */
export interface References {
  readonly turnId?: string
  readonly itemId?: string
}

export interface EventSource {
  /** The next event. One that the schema refuses takes no number, so that the next leaves no gap. */
  readonly next: (
    eventType: string,
    payload: unknown,
    references?: References
  ) => Effect.Effect<RunEvent, SchemaValidation>
}

const first: ReadonlySet<string> = new Set([
  "run.result.proposed",
  "run.terminal",
  "turn.completed",
  "turn.failed",
  "turn.interrupted",
  "harness.exited"
])

const last: ReadonlySet<string> = new Set(["item.delta", "harness.diagnostic", "runner.diagnostic"])

const priorityOf = (eventType: string) => (first.has(eventType) ? 0 : last.has(eventType) ? 2 : 1)

const digits = (value: number, count: number) => String(value).padStart(count, "0")

const conformanceTime = (seq: number) =>
  `2026-08-07T21:00:${digits(Math.floor(seq / 1000) % 60, 2)}.${digits(seq % 1000, 3)}Z`

const decode = ProtocolDocument.decode(RunEvent)

/** Fails where events of this identity would not be valid. */
export const make = Effect.fnUntraced(function* ({
  emittedAt = "clock",
  identity: { normalizedSessionId, runId, runnerInstanceId }
}: Options): Effect.fn.Return<EventSource, SchemaValidation> {
  const envelope = (sourceSeq: number, time: string) => ({
    schema: "paperclip.prp.event.v1",
    sourceEventId: `event_${runId}_${digits(sourceSeq, 3)}`,
    sourceSeq,
    sourceInstanceId: runnerInstanceId,
    sourceKind: "runner",
    runId,
    ...(normalizedSessionId === undefined ? {} : { normalizedSessionId }),
    schemaVersion: 1,
    emittedAt: time
  })

  // The last event that could be made has the longest id.
  const longest = envelope(Number.MAX_SAFE_INTEGER, conformanceTime(0))
  yield* decode({ ...longest, eventType: "workspace.ready", priority: 1, payload: {} })

  let made = 0
  return {
    next: Effect.fnUntraced(function* (eventType, payload, references = {}) {
      const sourceSeq = made + 1
      const time = emittedAt === "conformance" ? conformanceTime(sourceSeq) : DateTime.formatIso(yield* DateTime.now)
      const event = yield* decode({
        ...envelope(sourceSeq, time),
        ...references,
        eventType,
        priority: priorityOf(eventType),
        payload
      })
      made = sourceSeq
      return event
    })
  }
})
