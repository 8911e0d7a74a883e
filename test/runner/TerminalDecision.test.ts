import { describe, expect, it } from "@effect/vitest"
import { Schema } from "effect"
import * as RunTerminal from "../../src/runner/RunTerminal.js"
import * as TerminalDecision from "../../src/runner/TerminalDecision.js"
import * as Documents from "../support/RunDocuments.js"

const exited = (exitCode: number): TerminalDecision.ProcessExit => ({ exitCode, success: exitCode === 0, signal: null })
const killed: TerminalDecision.ProcessExit = { exitCode: null, success: false, signal: "SIGKILL" }

const ending = (more: Partial<TerminalDecision.Ending>): TerminalDecision.Ending => ({
  intent: undefined,
  processExit: exited(0),
  result: undefined,
  proposal: null,
  ...more
})

const result = (reportedWorkDisposition: "done" | "blocked" | "needs_review" | "yielded") => ({
  ...Documents.result,
  reportedWorkDisposition
})

const decided = (more: Partial<TerminalDecision.Ending>) => {
  const terminal = TerminalDecision.decide(ending(more))
  expect(Schema.is(RunTerminal.RunTerminal)(terminal)).toBe(true)
  const { reconciliation, reportedWorkDisposition, runTerminalState, turnTerminalState } = terminal
  return [turnTerminalState, runTerminalState, reportedWorkDisposition, reconciliation.reason]
}

describe("how a run ended is decided by what happened", () => {
  it("a process that ended well, with a result, is a success", () => {
    expect(decided({ result: result("done") })).toEqual([
      "completed",
      "succeeded",
      "done",
      "successful_process_and_result"
    ])
  })

  it("a process that failed is a failure, whatever it had proposed", () => {
    for (const processExit of [exited(7), killed]) {
      expect(decided({ processExit, result: result("done"), proposal: Documents.terminal })).toEqual([
        "failed",
        "failed",
        "yielded",
        "harness_process_failed"
      ])
    }
  })

  it("a process that ended well without a result is a failure", () => {
    expect(decided({ proposal: Documents.terminal })).toEqual([
      "failed",
      "failed",
      "yielded",
      "semantic_result_missing"
    ])
  })

  it("what was done to the run weighs more than how its process ended", () => {
    const happened = [
      ["interrupted", "interrupted", "cancelled", "turn_interrupted"],
      ["cancelled", "cancelled", "cancelled", "run_cancelled"],
      ["controller_closed", "cancelled", "cancelled", "controller_closed"],
      ["protocol_violation", "failed", "failed", "harness_protocol_violation"]
    ] as const
    for (const [intent, turn, run, reason] of happened) {
      for (const processExit of [exited(0), exited(130), killed]) {
        expect(decided({ intent, processExit, result: result("done") })).toEqual([turn, run, "yielded", reason])
      }
    }
  })

  it("the work is what the result says, else what the proposal says, and never done where the run did not succeed", () => {
    const blocked = { ...Documents.terminal, reportedWorkDisposition: "blocked" }
    expect(decided({ result: result("needs_review"), proposal: blocked })[2]).toBe("needs_review")
    expect(decided({ processExit: exited(1), result: result("needs_review"), proposal: blocked })[2]).toBe(
      "needs_review"
    )
    expect(decided({ processExit: exited(1), result: result("done"), proposal: blocked })[2]).toBe("blocked")
    expect(decided({ processExit: exited(1), proposal: blocked })[2]).toBe("blocked")
    expect(decided({ processExit: exited(1), proposal: { ...blocked, schema: "another" } })[2]).toBe("yielded")
  })

  it("the harness's proposal is kept as it came, and judged", () => {
    const of = (more: Partial<TerminalDecision.Ending>) => {
      const { harnessTerminalProposal, reconciliation } = TerminalDecision.decide(ending(more))
      const { proposalContradicted, proposalValid } = reconciliation
      return { harnessTerminalProposal, proposalValid, proposalContradicted }
    }
    const claimed = { ...Documents.terminal, later: [1] }
    expect(of({ processExit: exited(7), proposal: claimed })).toEqual({
      harnessTerminalProposal: claimed,
      proposalValid: true,
      proposalContradicted: true
    })
    const failed = { ...Documents.terminal, turnTerminalState: "failed", runTerminalState: "failed" }
    expect(of({ result: result("done"), proposal: failed }).proposalContradicted).toBe(true)
    expect(of({ result: result("done"), proposal: Documents.terminal }).proposalContradicted).toBe(false)
    expect(of({ proposal: { schema: "nonsense" } })).toEqual({
      harnessTerminalProposal: { schema: "nonsense" },
      proposalValid: false,
      proposalContradicted: false
    })
    expect(of({})).toEqual({ harnessTerminalProposal: null, proposalValid: false, proposalContradicted: false })
  })

  it("the process's end and whether there was a result are said as they were", () => {
    const { reconciliation } = TerminalDecision.decide(ending({ processExit: killed, result: result("done") }))
    expect(reconciliation).toMatchObject({ authority: "runner", processExit: killed, semanticResultObserved: true })
  })
})
