/**
 * A run as one trace: a span for the run, under it one for each command, turn, request and item, an item under its turn, and
 * what else happens as events of the run's span. Ids, counts and outcomes, never what was said.
 *
 * @module
 */
import { Clock, Effect, Exit, type Tracer } from "effect"
import * as EventPayload from "./EventPayload.js"
import type { RunCommand } from "./RunCommand.js"
import type { EventType, RunEvent } from "./RunEvent.js"
import type { CommandReceipt } from "./RunnerStream.js"
import type { DecidedTerminal } from "./TerminalDecision.js"

/** So many spans are open at once, and so many events are noted on the run's: a harness can make as many as it likes. */
const maximum = 256

export interface RunTrace {
  /** Takes note of an event that was written. */
  readonly event: (event: RunEvent) => Effect.Effect<void>
  /** A command that is looked at, until the receipt is given. Its type is said if it is one of the protocol's. */
  readonly command: (
    command: Pick<RunCommand, "commandId"> & Partial<Pick<RunCommand, "type">>
  ) => Effect.Effect<(receipt: CommandReceipt) => Effect.Effect<void>>
  /** Ends the run's span, and all that are open with it. Without a terminal the run has come to none. */
  readonly end: (terminal: DecidedTerminal | undefined) => Effect.Effect<void>
}

/** Which events open and close a span, and by which id. */
type Kind = "turn" | "item" | "request"

const opening: Partial<Record<EventType, Kind>> = {
  "turn.started": "turn",
  "item.started": "item",
  "runtime_request.created": "request"
}

const closing: Partial<Record<EventType, Kind>> = {
  "turn.completed": "turn",
  "turn.failed": "turn",
  "turn.interrupted": "turn",
  "turn.cancelled": "turn",
  "item.completed": "item",
  "item.failed": "item",
  "runtime_request.resolved": "request",
  "runtime_request.expired": "request",
  "runtime_request.cancelled": "request"
}

const idOf = (kind: Kind, event: RunEvent): string | undefined => {
  const id =
    kind === "turn" ? event.turnId : kind === "item" ? event.itemId : EventPayload.request(event.payload).requestId
  return id === undefined || id === "" ? undefined : id.slice(0, 160)
}

/** The last word of the type: `completed`, `failed`, `resolved`. */
const outcomeOf = (eventType: EventType): string => eventType.slice(eventType.lastIndexOf(".") + 1)

const exitOf = (outcome: string): Exit.Exit<void, string> =>
  outcome === "failed" || outcome === "expired" ? Exit.fail(outcome) : Exit.void

/** A trace of one run. Its span is a child of the caller's, if there is one. */
export const make = Effect.fnUntraced(function* (runId: string): Effect.fn.Return<RunTrace> {
  const run = yield* Effect.makeSpan("LocalRunner.run", { attributes: { "run.id": runId } })
  const open = new Map<string, Tracer.Span>()
  let events = 0
  let noted = 0

  const child = (name: string, attributes: Record<string, unknown>, parent = run) =>
    Effect.makeSpan(name, { parent, attributes: { "run.id": runId, ...attributes } })

  const close = (span: Tracer.Span, outcome: string) =>
    Effect.map(Clock.currentTimeNanos, (now) => {
      span.attribute("outcome", outcome)
      span.end(now, exitOf(outcome))
    })

  const begin = Effect.fnUntraced(function* (kind: Kind, id: string, turn: Tracer.Span | undefined) {
    const key = `${kind} ${id}`
    if (open.size >= maximum || open.has(key)) return
    open.set(key, yield* child(`LocalRunner.${kind}`, { [`${kind}.id`]: id }, turn))
  })

  const finish = Effect.fnUntraced(function* (kind: Kind, id: string, outcome: string) {
    const key = `${kind} ${id}`
    const span = open.get(key)
    if (span === undefined) return
    open.delete(key)
    yield* close(span, outcome)
  })

  const note = (eventType: EventType) =>
    Effect.map(Clock.currentTimeNanos, (now) => {
      noted++
      run.event(eventType, now)
    })

  return {
    event: Effect.fnUntraced(function* (event) {
      events++
      const { eventType } = event
      const opens = opening[eventType]
      const kind = opens ?? closing[eventType]
      const id = kind && idOf(kind, event)
      if (kind !== undefined && id !== undefined) {
        yield* opens === undefined
          ? finish(kind, id, outcomeOf(eventType))
          : begin(kind, id, open.get(`turn ${event.turnId}`))
      } else if (eventType !== "item.delta" && noted < maximum) yield* note(eventType)
    }),

    command: Effect.fnUntraced(function* ({ commandId, type }) {
      const span = yield* child("LocalRunner.command", {
        "command.id": commandId,
        ...(type === undefined ? {} : { "command.type": type })
      })
      return ({ status }) => close(span, status)
    }),

    end: Effect.fnUntraced(function* (terminal) {
      yield* Effect.forEach(open.values(), (span) => close(span, "unfinished"), { discard: true })
      open.clear()
      run.attribute("run.events", events)
      if (terminal !== undefined) run.attribute("run.reason", terminal.reconciliation.reason)
      yield* close(run, terminal?.runTerminalState ?? "unfinished")
    })
  }
})
