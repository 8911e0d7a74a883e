/**
 * The provider behind a driver. Version 1 knows one: Codex, as a process on this machine.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const name = Schema.NullOr(Constraint.text({ max: 240 }))

const Fields = Constraint.open({
  provider: Schema.Literal("codex"),
  driver: Schema.Literal("codex_app_server"),
  model: name,
  executionKind: Schema.Literal("local_process"),
  providerVersion: Constraint.text({ min: 1, max: 120 }),
  providerSessionId: Constraint.optional(name),
  processId: Constraint.optional(Schema.NullOr(Constraint.integer({ min: 1 })))
})

/** Which program answers, and in which version. */
export type ProviderDescriptor = typeof Fields.Type
export const ProviderDescriptor = Constraint.verbatim<ProviderDescriptor>(Fields, "ProviderDescriptor")
