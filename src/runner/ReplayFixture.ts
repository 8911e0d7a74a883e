/**
 * A whole run as one document, to be replayed: who, what could be done, what was asked for, what happened, what came of it.
 *
 * @module
 */
import { Array as Arr, Effect, Predicate, Schema } from "effect"
import * as CanonicalJson from "./CanonicalJson.js"
import { Capabilities } from "./Capabilities.js"
import * as Constraint from "./Constraint.js"
import { Identity } from "./Identity.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import { BindingMismatch, type ProtocolError, UnsupportedRequiredVersion } from "./ProtocolError.js"
import { at, type ProtocolIssue, unless } from "./ProtocolIssue.js"
import * as ProtocolVersion from "./ProtocolVersion.js"
import { RunCommand } from "./RunCommand.js"
import { RunEvent } from "./RunEvent.js"
import { RunResult } from "./RunResult.js"
import { RuntimeRequest } from "./RuntimeRequest.js"
import type { SemanticTool } from "./SemanticTool.js"

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.prp.fixture.v1"),
  fixtureVersion: Schema.Literal(1),
  protocolVersion: Schema.Literal(1),
  name: Constraint.text({ min: 1, max: 120 }),
  description: Constraint.text({ min: 1, max: 1000 }),
  identity: Identity,
  capabilities: Capabilities,
  commands: Schema.Array(RunCommand),
  events: Constraint.items(RunEvent, { min: 1 }),
  requests: Constraint.optional(Schema.Array(RuntimeRequest)),
  result: RunResult
})

/** The document. Its events are in the order of their arrival, which need not be that of their numbers. */
export type ReplayFixture = typeof Fields.Type
export const ReplayFixture = Constraint.verbatim<ReplayFixture>(Fields, "ReplayFixture")

const versionPaths = (value: unknown): ReadonlyArray<ReadonlyArray<PropertyKey>> => {
  const events = Predicate.hasProperty(value, "events") && Array.isArray(value.events) ? value.events : []
  return [
    ["fixtureVersion"],
    ["protocolVersion"],
    ...events.flatMap((_, index) => [
      ["events", index, "schemaVersion"],
      ["events", index, "payload", "semantic_tool", "schemaVersion"],
      ["events", index, "payload", "stopReason", "schemaVersion"]
    ]),
    ["capabilities", "semanticTools", "schemaVersion"]
  ]
}

interface Delivery {
  readonly event: RunEvent
  readonly index: number
}

/** The first delivery of every id. */
const firstDeliveries = (events: ReadonlyArray<RunEvent>): ReadonlyMap<string, Delivery> => {
  const first = new Map<string, Delivery>()
  events.forEach((event, index) => {
    if (!first.has(event.sourceEventId)) first.set(event.sourceEventId, { event, index })
  })
  return first
}

const semanticTool = ({ eventType, payload }: RunEvent): SemanticTool | undefined => {
  switch (eventType) {
    case "semantic_tool.input":
    case "mcp_app.tool_input":
    case "semantic_tool.result":
    case "mcp_app.tool_result":
      return payload.semantic_tool
    default:
      return undefined
  }
}

const semanticToolIssues = (deliveries: Iterable<Delivery>): ReadonlyArray<ProtocolIssue> => {
  const calls = new Map<string, Array<{ readonly tool: SemanticTool; readonly index: number }>>()
  const correlations: Array<ProtocolIssue> = []
  for (const { event, index } of deliveries) {
    const tool = semanticTool(event)
    if (tool === undefined) continue
    calls.set(tool.callId, [...(calls.get(tool.callId) ?? []), { tool, index }])
    for (const id of ["runId", "normalizedSessionId", "turnId", "itemId"] as const) {
      correlations.push(
        ...unless(
          tool.correlation[id] === event[id],
          ["events", index, "payload", "semantic_tool", "correlation", id],
          `it must be the event's ${id}`
        )
      )
    }
  }
  const pairs = [...calls.values()].flatMap((call) => {
    const [first, second] = call
    const index = first?.index ?? 0
    const path = ["events", index, "payload", "semantic_tool", "callId"]
    const phases = call.map(({ tool }) => tool.phase).sort()
    if (phases.join() !== "input,result" || first === undefined || second === undefined) {
      return [at(path, "a call must have exactly one input and one result")]
    }
    return (["operationId", "idempotencyKey"] as const).flatMap((id) =>
      unless(
        first.tool[id] === second.tool[id],
        ["events", second.index, "payload", "semantic_tool", id],
        `input and result of a call must have one ${id}`
      )
    )
  })
  return [...correlations, ...pairs]
}

/** What the parts of a fixture have to do with one another (facts 3, stage 3). */
const bindingIssues = ({ commands, events, identity, result }: ReplayFixture): ReadonlyArray<ProtocolIssue> => {
  const first = firstDeliveries(events)
  const distinct = [...first.values()]
  const results = distinct.filter(({ event }) => event.eventType === "run.result.proposed")
  const terminals = distinct.filter(({ event }) => event.eventType === "run.terminal")
  const [proposed] = results
  return [
    ...events.flatMap((event, index) => [
      ...unless(event.runId === identity.runId, ["events", index, "runId"], "it must be the run of the identity"),
      ...unless(
        event.normalizedSessionId === undefined || event.normalizedSessionId === identity.normalizedSessionId,
        ["events", index, "normalizedSessionId"],
        "it must be the session of the identity"
      ),
      ...unless(
        CanonicalJson.equals(first.get(event.sourceEventId)?.event, event),
        ["events", index, "sourceEventId"],
        "an event that is delivered again must be the same as before"
      )
    ]),
    ...commands.flatMap(({ controllerSeq }, index) =>
      unless(
        controllerSeq === index + 1,
        ["commands", index, "controllerSeq"],
        "the commands must be numbered 1, 2, 3, in their order"
      )
    ),
    ...unless(results.length === 1, ["events"], "there must be exactly one run.result.proposed"),
    ...unless(
      proposed === undefined || results.length > 1 || CanonicalJson.equals(proposed.event.payload, result),
      ["result"],
      "it must be the result that was proposed"
    ),
    ...unless(terminals.length === 1, ["events"], "there must be exactly one run.terminal"),
    ...semanticToolIssues(distinct)
  ]
}

/**
 * Checks a parsed fixture, in the contract's stages: versions, then the schema, then what binds its parts together. Fails with
 * the first stage that has issues, and with all of them. What comes back is the document that was given, members included that
 * nobody knows yet.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { ReplayFixture } from "effect-agent-contracts/runner"
 *
 * const program = ReplayFixture.decode({ fixtureVersion: 1, protocolVersion: 2 }).pipe(Effect.flip)
 *
 * Effect.runPromise(program).then(({ _tag, issues }) => console.log(_tag, issues[0]?.path)) // unsupported_required_version /protocolVersion
 * ```
 */
export const decode = Effect.fn("ReplayFixture.decode")(function* (value: unknown) {
  const versions = ProtocolVersion.mismatches(value, versionPaths(value))
  if (Arr.isNonEmptyReadonlyArray(versions)) return yield* new UnsupportedRequiredVersion({ issues: versions })
  const fixture = yield* ProtocolDocument.decode(ReplayFixture)(value)
  const bindings = bindingIssues(fixture)
  if (Arr.isNonEmptyReadonlyArray(bindings)) return yield* new BindingMismatch({ issues: bindings })
  return fixture
})

/** As `decode`, from the text or the bytes of a file; what is no JSON is `invalid_json`. */
export const parse = (document: string | Uint8Array): Effect.Effect<ReplayFixture, ProtocolError> =>
  Effect.flatMap(ProtocolDocument.parse(document), decode)
