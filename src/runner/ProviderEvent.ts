/**
 * What an agent does, in words of no provider's own: the payloads of plans, tools, research, delegation and the rest.
 *
 * All are closed: what a provider knows besides stays out.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const id = Constraint.stableId(160)
const shortText = Constraint.text({ max: 4000 })
const nullableText = Schema.NullOr(shortText)
const name = Constraint.text({ min: 1, max: 160 })
const nullableName = Schema.NullOr(Constraint.text({ max: 160 }))
const nullableModel = Schema.NullOr(Constraint.text({ max: 240 }))
const path = Schema.NullOr(Constraint.safePath)
const url = Schema.NullOr(Constraint.pattern(/^https?:\/\//u, { max: 8192 }))
const count = Constraint.integer({ min: 0 })
const nullableCount = Schema.NullOr(count)

export const Plan = Constraint.closed({
  schema: Schema.Literal("paperclip.plan.updated.v1"),
  planId: id,
  revision: Constraint.integer({ min: 1 }),
  explanation: Constraint.optional(nullableText),
  steps: Constraint.items(
    Constraint.closed({
      stepId: id,
      body: shortText,
      status: Schema.Literal("pending", "in_progress", "completed", "blocked")
    }),
    { max: 256 }
  ),
  complete: Schema.Boolean,
  syncStatus: Schema.Literal("streaming", "pending", "synchronized", "conflict", "not_applicable"),
  documentRevision: Constraint.optional(Schema.NullOr(Constraint.integer({ min: 1 })))
})

/** `durationMs` in milliseconds; `outputBytes` of all the output, of which `output` may be the beginning. */
export const ToolExecution = Constraint.closed({
  schema: Schema.Literal("paperclip.tool.execution.v1"),
  executionId: id,
  transport: Schema.Literal("process", "mcp", "dynamic", "builtin"),
  operation: Schema.Literal("read", "search", "list", "execute", "edit", "unknown"),
  name: Constraint.optional(nullableText),
  target: Constraint.optional(path),
  namespace: Constraint.optional(nullableModel),
  readOnly: Constraint.optional(Schema.NullOr(Schema.Boolean)),
  status: Schema.Literal("running", "completed", "failed", "cancelled", "interrupted"),
  durationMs: Constraint.optional(nullableCount),
  exitCode: Constraint.optional(Schema.NullOr(Constraint.integer())),
  progress: Constraint.optional(nullableText),
  output: Schema.NullOr(Constraint.text({ max: 65_536 })),
  outputBytes: count,
  outputTruncated: Schema.Boolean,
  outputDigest: Schema.NullOr(Constraint.sha256)
})

export const Research = Constraint.closed({
  schema: Schema.Literal("paperclip.research.v1"),
  researchId: id,
  action: Schema.Literal("search", "open_page", "find_in_page", "other"),
  status: Schema.Literal("running", "completed", "failed", "cancelled"),
  query: Constraint.optional(nullableText),
  url: Constraint.optional(url),
  pattern: Constraint.optional(nullableText),
  sources: Constraint.items(Constraint.closed({ sourceId: id, title: shortText, url, snippet: nullableText }), {
    max: 64
  })
})

const delegationStatus = Schema.Literal("running", "waiting", "completed", "failed", "interrupted", "closed")

export const Delegation = Constraint.closed({
  schema: Schema.Literal("paperclip.delegation.v1"),
  delegationId: id,
  action: Schema.Literal("spawn", "message", "resume", "wait", "close"),
  status: delegationStatus,
  children: Constraint.items(
    Constraint.closed({
      childId: id,
      role: nullableName,
      model: nullableModel,
      status: delegationStatus,
      summary: nullableText,
      activitySummary: nullableText
    }),
    { max: 64 }
  )
})

const model = Constraint.text({ min: 1, max: 240 })

export const ModelRoute = Constraint.closed({
  schema: Schema.Literal("paperclip.model.route_changed.v1"),
  routeId: id,
  provider: name,
  requestedModel: model,
  fromModel: nullableModel,
  effectiveModel: model,
  reason: shortText
})

export const ModelVerification = Constraint.closed({
  schema: Schema.Literal("paperclip.model.verification.v1"),
  verificationId: id,
  status: Schema.Literal("running", "completed", "failed"),
  classes: Constraint.items(Constraint.text({ max: 160 }), { max: 32 }),
  buffering: Schema.Boolean,
  summary: nullableText
})

export const ContextCompacted = Constraint.closed({
  schema: Schema.Literal("paperclip.context.compacted.v1"),
  compactionId: id,
  reason: Schema.Literal("context_window", "manual", "provider", "unknown"),
  preTokens: nullableCount,
  postTokens: nullableCount,
  sameSession: Schema.Boolean
})

export const ArtifactViewed = Constraint.closed({
  schema: Schema.Literal("paperclip.artifact.viewed.v1"),
  artifactId: id,
  reference: path,
  mediaType: nullableName,
  title: nullableText
})

export const ArtifactGenerated = Constraint.closed({
  schema: Schema.Literal("paperclip.artifact.generated.v1"),
  artifactId: id,
  status: Schema.Literal("running", "completed", "failed"),
  reference: path,
  mediaType: nullableName,
  registered: Schema.Boolean,
  transparentBackground: Constraint.optional(Schema.NullOr(Schema.Boolean)),
  failure: nullableText
})

export const ReviewMode = Constraint.closed({
  schema: Schema.Literal("paperclip.review.mode_changed.v1"),
  reviewId: id,
  state: Schema.Literal("entered", "exited"),
  scope: nullableText
})

export const Hook = Constraint.closed({
  schema: Schema.Literal("paperclip.hook.v1"),
  hookId: id,
  event: name,
  scope: name,
  status: Schema.Literal("running", "completed", "failed", "cancelled"),
  blocking: Schema.Boolean,
  durationMs: nullableCount,
  summary: nullableText
})

export const MemoryCitation = Constraint.closed({
  schema: Schema.Literal("paperclip.memory.citation.v1"),
  citationId: id,
  messageItemId: id,
  label: shortText,
  available: Schema.Boolean,
  reference: Schema.NullOr(Constraint.text({ max: 4096 }))
})

export const SafetyReview = Constraint.closed({
  schema: Schema.Literal("paperclip.safety.review.v1"),
  reviewId: id,
  targetExecutionId: Schema.NullOr(id),
  status: Schema.Literal("running", "completed", "failed"),
  decision: Schema.Literal("pending", "allowed", "denied", "user_required", "unknown"),
  summary: nullableText
})

export const TerminalInput = Constraint.closed({
  schema: Schema.Literal("paperclip.terminal.input_sent.v1"),
  executionId: id,
  origin: Schema.Literal("agent", "user", "system"),
  inputClass: Schema.Literal("text", "control", "eof"),
  byteCount: count
})

export const Wait = Constraint.closed({
  schema: Schema.Literal("paperclip.wait.v1"),
  waitId: id,
  reason: Schema.Literal("timer", "provider", "rate_limit", "unknown"),
  status: Schema.Literal("running", "completed", "interrupted", "cancelled"),
  plannedDurationMs: nullableCount,
  elapsedDurationMs: nullableCount
})

export const ProviderNotice = Constraint.closed({
  schema: Schema.Literal("paperclip.provider.notice.v1"),
  noticeId: id,
  severity: Schema.Literal("info", "warning", "error"),
  category: name,
  scope: Schema.Literal("turn", "session", "environment", "account"),
  recoverable: Schema.Boolean,
  userActionable: Schema.Boolean,
  summary: shortText
})

const Payloads = Schema.Union(
  Plan,
  ToolExecution,
  Research,
  Delegation,
  ModelRoute,
  ModelVerification,
  ContextCompacted,
  ArtifactViewed,
  ArtifactGenerated,
  ReviewMode,
  Hook,
  MemoryCitation,
  SafetyReview,
  TerminalInput,
  Wait,
  ProviderNotice
)

/** Any of them, told apart by `schema`. */
export type ProviderEvent = typeof Payloads.Type
export const ProviderEvent = Constraint.verbatim<ProviderEvent>(Payloads, "ProviderEvent")
