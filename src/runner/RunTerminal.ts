/**
 * How a run ended: the payload of `run.terminal`.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"
import { StopReason } from "./StopReason.js"

/** How the last turn ended. */
export const TurnTerminalState = Schema.Literal("completed", "failed", "interrupted", "cancelled")
export type TurnTerminalState = typeof TurnTerminalState.Type

/** How the run ended. */
export const RunTerminalState = Schema.Literal("succeeded", "failed", "cancelled")
export type RunTerminalState = typeof RunTerminalState.Type

/** What is said of the work itself, which may be left undone by a run that succeeded. */
export const WorkDisposition = Schema.Literal("done", "blocked", "needs_review", "yielded")
export type WorkDisposition = typeof WorkDisposition.Type

const nonEmpty = Constraint.optional(Constraint.text({ min: 1 }))

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.prp.terminal.v1"),
  turnTerminalState: TurnTerminalState,
  runTerminalState: RunTerminalState,
  reportedWorkDisposition: WorkDisposition,
  workAssessmentId: nonEmpty,
  statusDecisionId: nonEmpty,
  stopReason: Constraint.optional(StopReason)
})

/** The three states need not agree: a turn that completed may end a run that failed. */
export type RunTerminal = typeof Fields.Type
export const RunTerminal = Constraint.verbatim<RunTerminal>(Fields, "RunTerminal")
