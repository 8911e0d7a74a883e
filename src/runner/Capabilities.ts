/**
 * What a driver can do, as it was agreed on before the run.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const shortName = Constraint.text({ min: 1, max: 80 })

const EventFamily = Constraint.closed({
  family: Constraint.pattern(/^[a-z][a-z0-9_.-]*$/u, { min: 1, max: 160 }),
  version: Schema.Literal(1),
  availability: Schema.Literal("available", "unsupported", "policy_disabled"),
  detailLevel: Schema.Literal("summary", "structured")
})

const SemanticOperation = Constraint.open({
  operationId: Constraint.stableId(160),
  version: Schema.Literal(1),
  availability: Schema.Literal("available", "denied", "unsupported"),
  redactionDisposition: Schema.Literal("digest_only"),
  requiredClaims: Constraint.optional(Constraint.uniqueItems(Constraint.text({ min: 1, max: 160 }))),
  reasonCode: Constraint.optional(Constraint.stableCode)
})

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.prp.capabilities.v1"),
  sessionReusePolicy: Schema.Literal("new_per_run", "reuse_per_issue", "reuse_per_workspace"),
  driver: Constraint.open({ kind: shortName, version: shortName }),
  steer: Schema.Boolean,
  interrupt: Schema.Boolean,
  resume: Schema.Boolean,
  runtimeRequests: Schema.Boolean,
  structuredResult: Schema.Boolean,
  typedEvents: Schema.Boolean,
  typedEventFamilies: Constraint.optional(Constraint.items(EventFamily, { max: 64 })),
  semanticTools: Constraint.optional(
    Constraint.open({
      schema: Schema.Literal("paperclip.prp.semantic_tools.v1"),
      schemaVersion: Schema.Literal(1),
      operations: Schema.Array(SemanticOperation)
    })
  ),
  unsupported: Constraint.optional(Constraint.uniqueItems(Constraint.text({ min: 1 })))
})

/** What the driver of a run can do. That a tool is named here does not permit its use: that is another contract. */
export type Capabilities = typeof Fields.Type
export const Capabilities = Constraint.verbatim<Capabilities>(Fields, "Capabilities")
