/**
 * What happened in a run: the events of PRP version 1.
 *
 * @module
 */
import { Array as Arr, Effect, Schema } from "effect"
import * as Constraint from "./Constraint.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import { type SchemaValidation, UnsupportedRequiredVersion } from "./ProtocolError.js"
import * as ProtocolVersion from "./ProtocolVersion.js"
import * as ProviderEvent from "./ProviderEvent.js"
import { RunResult } from "./RunResult.js"
import { RunTerminal } from "./RunTerminal.js"
import { SemanticToolInput, SemanticToolResult } from "./SemanticTool.js"
import { WorkspaceDiff } from "./WorkspaceDiff.js"
import { WorkspaceFileReference } from "./WorkspaceFileReference.js"

/** The closed vocabulary: an event of another type is refused, and with it the fixture that it stands in. */
export const EventType = Schema.Literal(
  "runner.connected",
  "runner.reconnected",
  "runner.reconciled",
  "runner.disconnected",
  "runner.draining",
  "runner.suspending",
  "runner.suspended",
  "runner.stopped",
  "runner.diagnostic",
  "runtime.phase.changed",
  "sandbox.metric",
  "workspace.ready",
  "workspace.change.updated",
  "workspace.diff.recorded",
  "workspace.file.referenced",
  "harness.starting",
  "harness.ready",
  "harness.exited",
  "harness.diagnostic",
  "plan.updated",
  "tool.execution.started",
  "tool.execution.progressed",
  "tool.execution.completed",
  "research.started",
  "research.progressed",
  "research.completed",
  "delegation.started",
  "delegation.updated",
  "delegation.completed",
  "model.route.changed",
  "model.verification.updated",
  "context.compacted",
  "artifact.viewed",
  "artifact.generated",
  "review.mode.changed",
  "hook.started",
  "hook.completed",
  "memory.citation.referenced",
  "safety.review.started",
  "safety.review.completed",
  "terminal.input.sent",
  "wait.started",
  "wait.completed",
  "provider.notice.recorded",
  "session.starting",
  "session.started",
  "session.resuming",
  "session.resumed",
  "session.reconciled",
  "session.updated",
  "session.closed",
  "session.failed",
  "turn.submitted",
  "turn.accepted",
  "turn.started",
  "turn.completed",
  "turn.failed",
  "turn.interrupted",
  "turn.cancelled",
  "item.started",
  "item.delta",
  "item.completed",
  "item.failed",
  "usage.reported",
  "semantic_tool.input",
  "semantic_tool.result",
  "semantic_tool.reconciled",
  "mcp_app.discovered",
  "mcp_app.resource.resolved",
  "mcp_app.initializing",
  "mcp_app.ready",
  "mcp_app.tool_input",
  "mcp_app.tool_result",
  "mcp_app.action.requested",
  "mcp_app.action.resolved",
  "mcp_app.host_context.changed",
  "mcp_app.failed",
  "mcp_app.teardown",
  "runtime_request.created",
  "runtime_request.resolved",
  "runtime_request.expired",
  "runtime_request.cancelled",
  "interaction.request.proposed",
  "interaction.request.materialized",
  "interaction.request.rejected",
  "interaction.response.progressed",
  "interaction.response.resolved",
  "interaction.response.delivered",
  "run.attached",
  "run.detached",
  "run.result.proposed",
  "run.result.accepted",
  "run.result.rejected",
  "attention.request.proposed",
  "attention.request.routed",
  "attention.request.resolved",
  "attention.request.expired",
  "attention.request.superseded",
  "work.assessment.recorded",
  "issue.status.decision.recorded",
  "issue.status.decision.applied",
  "issue.status.decision.rejected",
  "issue.status.decision.superseded",
  "run.terminal"
)
export type EventType = typeof EventType.Type

const AnyPayload = Constraint.open({
  channel: Constraint.optional(Schema.Literal("progress", "final", "summary", "detail", "unknown")),
  providerPhase: Constraint.optional(Schema.String),
  providerMethod: Constraint.optional(Schema.String)
})

/** What every payload may say of where it comes from. A payload that is closed has no room for it. */
export type AnyPayload = typeof AnyPayload.Type & Constraint.JsonObject

const CompleteDiff = Constraint.allOf<WorkspaceDiff & { readonly complete: true }>([
  WorkspaceDiff,
  Constraint.open({ complete: Schema.Literal(true) })
])

const toolInput = Constraint.open({ semantic_tool: Constraint.optional(SemanticToolInput) })
const toolResult = Constraint.open({ semantic_tool: Constraint.optional(SemanticToolResult) })

/** Which payload is bound to which type; those of the other types may be any object (facts 2). */
const boundPayloads = {
  "run.result.proposed": RunResult,
  "run.terminal": RunTerminal,
  "plan.updated": ProviderEvent.Plan,
  "tool.execution.started": ProviderEvent.ToolExecution,
  "tool.execution.progressed": ProviderEvent.ToolExecution,
  "tool.execution.completed": ProviderEvent.ToolExecution,
  "research.started": ProviderEvent.Research,
  "research.progressed": ProviderEvent.Research,
  "research.completed": ProviderEvent.Research,
  "delegation.started": ProviderEvent.Delegation,
  "delegation.updated": ProviderEvent.Delegation,
  "delegation.completed": ProviderEvent.Delegation,
  "model.route.changed": ProviderEvent.ModelRoute,
  "model.verification.updated": ProviderEvent.ModelVerification,
  "context.compacted": ProviderEvent.ContextCompacted,
  "artifact.viewed": ProviderEvent.ArtifactViewed,
  "artifact.generated": ProviderEvent.ArtifactGenerated,
  "review.mode.changed": ProviderEvent.ReviewMode,
  "hook.started": ProviderEvent.Hook,
  "hook.completed": ProviderEvent.Hook,
  "memory.citation.referenced": ProviderEvent.MemoryCitation,
  "safety.review.started": ProviderEvent.SafetyReview,
  "safety.review.completed": ProviderEvent.SafetyReview,
  "terminal.input.sent": ProviderEvent.TerminalInput,
  "wait.started": ProviderEvent.Wait,
  "wait.completed": ProviderEvent.Wait,
  "provider.notice.recorded": ProviderEvent.ProviderNotice,
  "workspace.file.referenced": WorkspaceFileReference,
  "workspace.change.updated": WorkspaceDiff,
  "workspace.diff.recorded": CompleteDiff,
  "semantic_tool.input": toolInput,
  "mcp_app.tool_input": toolInput,
  "semantic_tool.result": toolResult,
  "mcp_app.tool_result": toolResult
} as const satisfies Partial<Record<EventType, Schema.Schema.AnyNoContext>>

type BoundPayloads = typeof boundPayloads

/** The payload of an event of this type. */
export type EventPayload<Type extends EventType> = Type extends keyof BoundPayloads
  ? Schema.Schema.Type<BoundPayloads[Type]>
  : AnyPayload

const id = Constraint.text({ min: 1, max: 160 })

const envelope = {
  schema: Schema.Literal("paperclip.prp.event.v1"),
  sourceEventId: id,
  sourceSeq: Constraint.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  sourceInstanceId: id,
  sourceKind: Schema.Literal("runner", "control_plane"),
  runId: id,
  normalizedSessionId: Constraint.optional(id),
  turnId: Constraint.optional(id),
  itemId: Constraint.optional(id),
  schemaVersion: Schema.Literal(1),
  priority: Schema.Literal(0, 1, 2),
  emittedAt: Constraint.dateTime,
  observedAt: Constraint.optional(Constraint.dateTime),
  debug: Constraint.optional(Constraint.JsonObject)
}

/** What every event has: where it comes from, its place there, and what it is about. */
export interface EventEnvelope extends Schema.Struct.Type<typeof envelope> {}

/** An event of one type. */
export interface EventOf<Type extends EventType> extends EventEnvelope {
  readonly eventType: Type
  readonly payload: EventPayload<Type>
}

/**
 * An event, told apart by `eventType`. `sourceSeq` counts the events of one source, `<sourceKind>:<sourceInstanceId>`, from 1;
 * `sourceEventId` makes a redelivery recognisable; times are UTC.
 */
export type RunEvent = { readonly [Type in EventType]: EventOf<Type> }[EventType]

/** Which source an event is of: each counts its events by itself. */
export const sourceKey = ({ sourceInstanceId, sourceKind }: EventEnvelope): string =>
  `${sourceKind}:${sourceInstanceId}`

const isBound = (type: EventType): type is keyof BoundPayloads => Object.hasOwn(boundPayloads, type)

const payloadOf = (type: EventType): Schema.Schema.AnyNoContext =>
  isBound(type) ? Constraint.allOf([AnyPayload, boundPayloads[type]]) : AnyPayload

// The type comes first: it is what a union of this size is told apart by.
const Events = Schema.Union(
  ...EventType.literals.map((type) =>
    Constraint.open({ eventType: Schema.Literal(type), ...envelope, payload: payloadOf(type) })
  )
)

export const RunEvent = Constraint.verbatim<RunEvent>(Events, "RunEvent")

/**
 * Checks one event. Fails closed: first on a `schemaVersion` that is a number other than 1, then on anything else that the
 * schema does not allow. The event that comes back is the one that was given, unknown members included.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { ProtocolDocument, RunEvent } from "effect-agent-contracts/runner"
 *
 * const line = '{"schema":"paperclip.prp.event.v1","schemaVersion":2}'
 * const program = ProtocolDocument.parse(line).pipe(Effect.flatMap(RunEvent.decode), Effect.flip)
 *
 * Effect.runPromise(program).then(({ _tag, issues }) => console.log(_tag, issues[0]?.path)) // unsupported_required_version /schemaVersion
 * ```
 */
export const decode = (value: unknown): Effect.Effect<RunEvent, UnsupportedRequiredVersion | SchemaValidation> => {
  const issues = ProtocolVersion.mismatches(value, [["schemaVersion"]])
  return Arr.isNonEmptyReadonlyArray(issues)
    ? Effect.fail(new UnsupportedRequiredVersion({ issues }))
    : ProtocolDocument.decode(RunEvent)(value)
}
