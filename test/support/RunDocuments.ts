/** Documents of the runner protocol, as small as they can be: a test changes what it is about. */

const envelope = {
  schema: "paperclip.prp.event.v1",
  sourceInstanceId: "runner-1",
  sourceKind: "runner",
  runId: "run-1",
  normalizedSessionId: "session-1",
  schemaVersion: 1,
  priority: 1,
  emittedAt: "2026-01-31T12:00:00.000Z"
}

/** An event with a number, and an id made of it. */
export const event = (sourceSeq: number, eventType: string, payload: object = {}, more: object = {}) => ({
  ...envelope,
  sourceEventId: `event-${sourceSeq}`,
  sourceSeq,
  eventType,
  payload,
  ...more
})

export const identity = {
  schema: "paperclip.prp.identity.v1",
  companyId: "company-1",
  issueId: "issue-1",
  runId: "run-1",
  environmentLeaseId: "lease-1",
  runnerInstanceId: "runner-1",
  normalizedSessionId: "session-1",
  driverSessionId: "driver-1"
} as const

export const capabilities = {
  schema: "paperclip.prp.capabilities.v1",
  sessionReusePolicy: "new_per_run",
  driver: { kind: "fake", version: "1.0.0" },
  steer: false,
  interrupt: true,
  resume: false,
  runtimeRequests: true,
  structuredResult: true,
  typedEvents: true
} as const

export const result = {
  schema: "paperclip.run_result.v1",
  reportedWorkDisposition: "done",
  summary: "The page is written.",
  completionClaim: { contractRevision: "r1", objectiveSatisfied: true, criteria: [], remainingWork: [] },
  evidence: [],
  verification: [],
  attentionRequests: [],
  artifacts: []
} as const

export const terminal = {
  schema: "paperclip.prp.terminal.v1",
  turnTerminalState: "completed",
  runTerminalState: "succeeded",
  reportedWorkDisposition: "done"
} as const

export const command = (controllerSeq: number, type: string, payload: object = {}) => ({
  schema: "paperclip.prp.command.v1",
  commandId: `command-${controllerSeq}`,
  controllerSeq,
  type,
  issuedAt: "2026-01-31T12:00:00.000Z",
  payload
})

/** A semantic tool's envelope; an input, or with `phase: "result"` and an outcome a result. */
export const semanticTool = (more: object = {}) => ({
  schema: "paperclip.prp.semantic_tool.v1",
  schemaVersion: 1,
  phase: "input",
  operationId: "task.read",
  callId: "call-1",
  correlation: { runId: "run-1", normalizedSessionId: "session-1", turnId: "turn-1", itemId: "item-1" },
  idempotencyKey: "key-1",
  content: { digest: `sha256:${"a".repeat(64)}`, redactionDisposition: "digest_only", references: [] },
  ...more
})

export const semanticToolResult = (more: object = {}) =>
  semanticTool({
    phase: "result",
    outcome: "succeeded",
    code: "ok",
    retryable: false,
    authorizationBoundary: "grant",
    operationReceiptId: "receipt-1",
    ...more
  })

/** A fixture of a run with these events, or of one that says what came of it at once. */
export const fixture = (more: object = {}) => ({
  schema: "paperclip.prp.fixture.v1",
  fixtureVersion: 1,
  protocolVersion: 1,
  name: "A small run",
  description: "It proposes a result and ends.",
  identity,
  capabilities,
  commands: [command(1, "run.prepare"), command(2, "session.open")],
  events: [event(1, "run.result.proposed", result), event(2, "run.terminal", terminal)],
  result,
  ...more
})
