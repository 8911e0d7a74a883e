/**
 * How a run ended. The runner decides it, from what happened: what the harness says of it is kept beside, and judged.
 *
 * @module
 */
import { Schema } from "effect"
import type { RunResult } from "./RunResult.js"
import { RunTerminal, type RunTerminalState, type TurnTerminalState, type WorkDisposition } from "./RunTerminal.js"

/** How a process ended: with a code, by a signal, or unknown where both are null. */
export interface ProcessExit {
  readonly exitCode: number | null
  readonly success: boolean
  readonly signal: string | null
}

/** What was done to the run, which weighs more than how its process ended. The last that was done counts (facts 6). */
export type Intent = "interrupted" | "cancelled" | "controller_closed" | "protocol_violation"

export type Reason =
  | "turn_interrupted"
  | "run_cancelled"
  | "controller_closed"
  | "harness_protocol_violation"
  | "successful_process_and_result"
  | "harness_process_failed"
  | "semantic_result_missing"

/** What is known when the harness has ended. */
export interface Ending {
  readonly intent: Intent | undefined
  readonly processExit: ProcessExit
  /** The first that the harness proposed. */
  readonly result: RunResult | undefined
  /** The first terminal that the harness proposed, as it came; `null` if it proposed none. */
  readonly proposal: unknown
}

/** The payload of `run.terminal` as a runner writes it: what it decided, and from what. */
export interface DecidedTerminal extends RunTerminal {
  readonly harnessTerminalProposal: unknown
  readonly reconciliation: {
    readonly authority: "runner"
    readonly reason: Reason
    /** Whether the proposal has the shape of a terminal. */
    readonly proposalValid: boolean
    /** Whether a valid proposal says another end of turn or run. */
    readonly proposalContradicted: boolean
    readonly processExit: ProcessExit
    readonly semanticResultObserved: boolean
  }
}

type Row = readonly [turn: TurnTerminalState, run: RunTerminalState, reason: Reason]

const byIntent: Readonly<Record<Intent, Row>> = {
  interrupted: ["interrupted", "cancelled", "turn_interrupted"],
  cancelled: ["cancelled", "cancelled", "run_cancelled"],
  controller_closed: ["cancelled", "cancelled", "controller_closed"],
  protocol_violation: ["failed", "failed", "harness_protocol_violation"]
}

const rowOf = ({ intent, processExit, result }: Ending): Row => {
  if (intent !== undefined) return byIntent[intent]
  if (!processExit.success) return ["failed", "failed", "harness_process_failed"]
  return result === undefined
    ? ["failed", "failed", "semantic_result_missing"]
    : ["completed", "succeeded", "successful_process_and_result"]
}

const isTerminal = Schema.is(RunTerminal)

/** A run that did not succeed has not done its work, whatever was claimed. */
const dispositionOf = (
  run: RunTerminalState,
  result: RunResult | undefined,
  proposal: RunTerminal | undefined
): WorkDisposition => {
  const claims = [result?.reportedWorkDisposition, proposal?.reportedWorkDisposition]
  return run === "succeeded"
    ? (claims.find((claim) => claim !== undefined) ?? "done")
    : (claims.find((claim) => claim !== undefined && claim !== "done") ?? "yielded")
}

/** The table of the contract (facts 6). Pure. */
export const decide = (ending: Ending): DecidedTerminal => {
  const [turnTerminalState, runTerminalState, reason] = rowOf(ending)
  const proposal = isTerminal(ending.proposal) ? ending.proposal : undefined
  return {
    schema: "paperclip.prp.terminal.v1",
    turnTerminalState,
    runTerminalState,
    reportedWorkDisposition: dispositionOf(runTerminalState, ending.result, proposal),
    harnessTerminalProposal: ending.proposal,
    reconciliation: {
      authority: "runner",
      reason,
      proposalValid: proposal !== undefined,
      proposalContradicted:
        proposal !== undefined &&
        (proposal.turnTerminalState !== turnTerminalState || proposal.runTerminalState !== runTerminalState),
      processExit: ending.processExit,
      semanticResultObserved: ending.result !== undefined
    }
  }
}
