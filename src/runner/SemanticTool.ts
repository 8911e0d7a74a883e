/**
 * A call of a semantic tool, or its result, without what was said: digests and references only.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const stableId = Constraint.stableId(240)

const referenceKinds = [
  "task",
  "document_revision",
  "interaction",
  "approval",
  "decision",
  "artifact",
  "work_product",
  "wake",
  "monitor",
  "audit",
  "operation"
] as const

const referenceTo = <Kinds extends readonly [string, ...ReadonlyArray<string>]>(kinds: Kinds) =>
  Constraint.open({ kind: Schema.Literal(...kinds), id: stableId })

const references = Constraint.uniqueItems(referenceTo(referenceKinds))

const ImmutableTarget = Constraint.open({
  kind: Schema.Literal("document_revision", "interaction", "approval", "decision"),
  id: stableId,
  immutable: Schema.Literal(true),
  revisionId: Constraint.optional(stableId),
  decisionId: Constraint.optional(stableId)
})

const common = {
  schema: Schema.Literal("paperclip.prp.semantic_tool.v1"),
  schemaVersion: Schema.Literal(1),
  operationId: stableId,
  callId: stableId,
  correlation: Constraint.open({
    runId: stableId,
    normalizedSessionId: stableId,
    turnId: stableId,
    itemId: stableId,
    requestId: Constraint.optional(stableId)
  }),
  idempotencyKey: Schema.NullOr(Constraint.text({ min: 1, max: 240 })),
  content: Constraint.open({
    digest: Constraint.sha256,
    redactionDisposition: Schema.Literal("digest_only", "allowlisted_references", "redacted"),
    references
  }),
  auditReceiptId: Constraint.optional(stableId),
  currentRevision: Constraint.optional(Schema.Union(Constraint.integer({ min: 0 }), stableId)),
  duplicateOfReceiptId: Constraint.optional(stableId),
  artifactRefs: Constraint.optional(Constraint.uniqueItems(referenceTo(["artifact", "work_product"]))),
  targets: Constraint.optional(Constraint.uniqueItems(ImmutableTarget)),
  causalRefs: Constraint.optional(references)
}

const outcome = Schema.Literal("succeeded", "denied", "conflict", "duplicate", "unavailable", "failed")
const boundary = Schema.Literal("company", "actor", "active_task", "grant", "governed_action", "lock", "revision")

const Input = Constraint.open({
  phase: Schema.Literal("input"),
  ...common,
  outcome: Constraint.optional(outcome),
  code: Constraint.optional(Constraint.stableCode),
  retryable: Constraint.optional(Schema.Boolean),
  authorizationBoundary: Constraint.optional(boundary),
  operationReceiptId: Constraint.optional(stableId)
})

const Result = Constraint.open({
  phase: Schema.Literal("result"),
  ...common,
  outcome,
  code: Constraint.stableCode,
  retryable: Schema.Boolean,
  authorizationBoundary: boundary,
  operationReceiptId: stableId
})

/** A call: `content` is what went in. */
export type SemanticToolInput = typeof Input.Type
export const SemanticToolInput = Constraint.verbatim<SemanticToolInput>(Input, "SemanticToolInput")

/** What came of a call: `content` is what came out, `code` and `retryable` say what to make of it. */
export type SemanticToolResult = typeof Result.Type
export const SemanticToolResult = Constraint.verbatim<SemanticToolResult>(Result, "SemanticToolResult")

const Phases = Schema.Union(Input, Result)

/** Either, told apart by `phase`. */
export type SemanticTool = typeof Phases.Type
export const SemanticTool = Constraint.verbatim<SemanticTool>(Phases, "SemanticTool")
