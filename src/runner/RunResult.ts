/**
 * What an agent says of its work: the payload of `run.result.proposed`.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"
import { WorkDisposition } from "./RunTerminal.js"

const nonEmpty = Constraint.text({ min: 1 })

/** Why a check gave no verdict. */
export const NotRunReason = Schema.Literal(
  "environment_unavailable",
  "tool_unavailable",
  "dependency_missing",
  "permission_denied",
  "credential_missing",
  "policy_restricted",
  "external_service_unavailable",
  "budget_exhausted",
  "other"
)
export type NotRunReason = typeof NotRunReason.Type

/** Who is to act on an attention request. */
export const OwnerClass = Schema.Literal("human", "agent", "external_system")
export type OwnerClass = typeof OwnerClass.Type

const CompletionClaim = Constraint.open({
  contractRevision: nonEmpty,
  objectiveSatisfied: Schema.Boolean,
  criteria: Schema.Array(
    Constraint.open({
      criterionId: nonEmpty,
      status: Schema.Literal("satisfied", "not_satisfied", "unknown"),
      evidenceRefs: Schema.Array(Schema.String),
      explanation: Constraint.optional(Schema.String)
    })
  ),
  remainingWork: Schema.Array(Constraint.open({ description: nonEmpty, blocksCompletion: Schema.Boolean }))
})

const Verification = Constraint.open({
  commandOrCheck: nonEmpty,
  status: Schema.Literal("passed", "failed", "not_run"),
  reasonCode: Constraint.optional(NotRunReason),
  detail: Constraint.optional(Schema.String),
  artifactRef: Constraint.optional(Schema.String)
})

const AttentionRequest = Constraint.open({
  kind: Constraint.optional(nonEmpty),
  summary: Constraint.optional(nonEmpty),
  ownerClass: Constraint.optional(OwnerClass),
  targetAgentId: Constraint.optional(nonEmpty)
})

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.run_result.v1"),
  reportedWorkDisposition: WorkDisposition,
  summary: Constraint.text({ min: 1, max: 12_000 }),
  completionClaim: CompletionClaim,
  evidence: Schema.Array(Constraint.JsonObject),
  verification: Schema.Array(Verification),
  attentionRequests: Schema.Array(AttentionRequest),
  artifacts: Schema.Array(
    Constraint.open({ kind: nonEmpty, ref: nonEmpty, title: Constraint.optional(Schema.String) })
  ),
  blocker: Constraint.optional(
    Constraint.open({
      reasonCode: nonEmpty,
      owner: Constraint.JsonObject,
      unblockAction: nonEmpty,
      scope: Schema.Literal("current_track", "task_wide")
    })
  ),
  continuation: Constraint.optional(
    Constraint.open({
      kind: Schema.Literal("same_agent", "retry", "delegated_issue", "response_wake", "monitor"),
      summary: nonEmpty,
      idempotencyKey: nonEmpty
    })
  )
})

/** Who is blocked says by what, who yields says how it goes on. Both may stand with other dispositions too. */
const explained = Schema.filter<typeof Fields>((result) => [
  ...(result.reportedWorkDisposition === "blocked" && result.blocker === undefined
    ? [{ path: [], message: 'a result that is blocked must have a member "blocker"' }]
    : []),
  ...(result.reportedWorkDisposition === "yielded" && result.continuation === undefined
    ? [{ path: [], message: 'a result that yielded must have a member "continuation"' }]
    : [])
])

/** A structured result. It is a claim: what the run came to is for the runner to say. */
export type RunResult = typeof Fields.Type
export const RunResult = Constraint.verbatim<RunResult>(Fields.pipe(explained), "RunResult")
