/**
 * What a replay comes to: everything that is known of a run, and the few facts by which two replays of it are compared.
 *
 * The members stand in the order of the golden files, whose bytes are part of the contract.
 *
 * @module
 */
import type { Capabilities } from "./Capabilities.js"
import type { Identity } from "./Identity.js"
import type { EventType } from "./RunEvent.js"
import type { RunResult } from "./RunResult.js"
import type { RunTerminal, RunTerminalState, TurnTerminalState } from "./RunTerminal.js"

/** Where the session of a run stands. */
export type SessionState = "not_started" | "running" | "closed" | "failed"

/** Where the last turn stands. */
export type TurnState = "not_started" | "running" | TurnTerminalState

/** A message, a command or another thing that a turn has made, and its text as far as it has come. */
export interface ReplayedItem {
  readonly itemId: string
  readonly kind: string
  readonly status: "running" | "completed" | "failed"
  readonly text: string
}

/** What somebody was asked. `status` is what the last event said of it: `pending`, `resolved`, `expired`, `cancelled`. */
export interface ReplayedRequest {
  readonly requestId: string
  readonly requestKind: string
  readonly type: string
  readonly status: string
  readonly prompt: string
}

/** An event that was applied, at its position from 1. */
export interface TimelineEntry {
  readonly position: number
  readonly sourceEventId: string
  readonly sourceSeq: number
  readonly eventType: EventType
  readonly emittedAt: string
  readonly itemId?: string
  readonly summary: string
}

/** Numbers of a source that had not come when a later one did. It stays, also when they come after all. */
export interface SourceGap {
  /** `<sourceKind>:<sourceInstanceId>` */
  readonly sourceKey: string
  /** The first number that is missing. */
  readonly expected: number
  /** The number that came instead. */
  readonly received: number
  readonly missingCount: number
  /** The first 256 of them. */
  readonly missing: ReadonlyArray<number>
  /** Whether there are more. */
  readonly truncated: boolean
}

/** Whether every event of every source has come, each in its turn. */
export type Integrity = "complete" | "gap_detected"

/** Everything that is known of a run. */
export interface ReplaySnapshot {
  readonly schema: "paperclip.prp.session-snapshot.v1"
  readonly fixtureName: string
  readonly identity: Identity
  readonly capabilities: Capabilities
  readonly runPhase: string
  readonly sessionState: SessionState
  readonly turnState: TurnState
  readonly activeTurnId: string | null
  readonly items: ReadonlyArray<ReplayedItem>
  readonly requests: ReadonlyArray<ReplayedRequest>
  readonly proposedResult: RunResult | null
  readonly terminal: RunTerminal | null
  readonly timeline: ReadonlyArray<TimelineEntry>
  /** The last number that was applied, by source. */
  readonly sourceCursors: { readonly [sourceKey: string]: number }
  readonly processedEventIds: ReadonlyArray<string>
  /** Ids that came more than once in one batch, in code unit order. */
  readonly duplicateEventIds: ReadonlyArray<string>
  readonly outOfOrderEventIds: ReadonlyArray<string>
  readonly gaps: ReadonlyArray<SourceGap>
  readonly integrity: Integrity
}

/** By what two replays of a run are compared. */
export interface ReplaySummary {
  readonly runId: string
  readonly integrity: Integrity
  readonly timelineCount: number
  readonly duplicateEventIds: ReadonlyArray<string>
  readonly gaps: ReadonlyArray<SourceGap>
  readonly turnTerminalState: TurnTerminalState | null
  readonly runTerminalState: RunTerminalState | null
}

/** The text of a golden file: two spaces of indentation, and a newline at the end. */
export const encode = (document: ReplaySnapshot | ReplaySummary): string => `${JSON.stringify(document, null, 2)}\n`
