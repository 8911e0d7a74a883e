/**
 * The smallest run that implementations in different languages can agree on: what goes in, and what has to come out.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const id = Constraint.text({ min: 1, max: 160 })
const summary = Constraint.text({ min: 1 })
const status = Schema.Literal("succeeded", "failed", "cancelled")

const InputFields = Constraint.open({
  schemaVersion: Schema.Literal("paperclip.runner.conformance.fixture.v1"),
  run: Constraint.open({ runId: id, sessionId: id, companyId: id, issueId: id, agentId: id }),
  events: Constraint.items(
    Constraint.open({
      eventId: id,
      runId: id,
      sequence: Constraint.integer({ min: 1 }),
      type: Schema.Literal("run.started", "run.completed")
    }),
    { min: 1 }
  ),
  result: Constraint.open({ runId: id, status, summary })
})

/** A run of few events, numbered from 1. Told apart by `schemaVersion`, not by `schema`. */
export type CrossLanguageInput = typeof InputFields.Type
export const CrossLanguageInput = Constraint.verbatim<CrossLanguageInput>(InputFields, "CrossLanguageInput")

const OutputFields = Constraint.open({
  schemaVersion: Schema.Literal("paperclip.runner.conformance.output.v1"),
  runIdentity: Constraint.open({ runId: id, sessionId: id }),
  result: Constraint.open({ status, summary })
})

/** What every implementation writes of that run: one line of compact JSON. */
export type CrossLanguageOutput = typeof OutputFields.Type
export const CrossLanguageOutput = Constraint.verbatim<CrossLanguageOutput>(OutputFields, "CrossLanguageOutput")

/**
 * What has to come out of an input, as the line that an implementation writes.
 *
 * @example
 * ```ts
 * import { CrossLanguageRun } from "effect-agent-contracts/runner"
 *
 * const run = { runId: "r1", sessionId: "s1", companyId: "c1", issueId: "i1", agentId: "a1" }
 * const line = CrossLanguageRun.answer({
 *   schemaVersion: "paperclip.runner.conformance.fixture.v1",
 *   run,
 *   events: [{ eventId: "e1", runId: "r1", sequence: 1, type: "run.started" }],
 *   result: { runId: "r1", status: "succeeded", summary: "Done." }
 * })
 *
 * console.log(JSON.parse(line).runIdentity.sessionId) // s1
 * ```
 */
export const answer = ({ result, run }: CrossLanguageInput): string => {
  const output: CrossLanguageOutput = {
    schemaVersion: "paperclip.runner.conformance.output.v1",
    runIdentity: { runId: run.runId, sessionId: run.sessionId },
    result: { status: result.status, summary: result.summary }
  }
  return `${JSON.stringify(output)}\n`
}
