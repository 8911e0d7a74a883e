/**
 * What a provider was used for, in all and since the last receipt.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const count = Constraint.integer({ min: 0 })
const optionalName = Constraint.optional(Schema.NullOr(Constraint.text({ max: 240 })))

const Measurement = Constraint.closed({
  inputTokens: count,
  outputTokens: count,
  cacheReadTokens: count,
  cacheWriteTokens: count,
  activeSeconds: Constraint.number({ min: 0 }),
  requests: count,
  requestCountSource: Constraint.optional(
    Schema.Literal("provider_reported", "token_bearing_turn_minimum", "unavailable")
  ),
  requestCountExact: Constraint.optional(Schema.Boolean),
  providerCostUsd: Constraint.number({ min: 0 }),
  providerCostStatus: Constraint.optional(Schema.Literal("reported", "unpriced")),
  providerCostUnavailableReason: optionalName
})

const Fields = Constraint.closed({
  provider: Constraint.text({ min: 1, max: 80 }),
  model: Schema.NullOr(Constraint.text({ max: 240 })),
  providerSessionId: optionalName,
  providerTurnId: optionalName,
  providerRequestId: optionalName,
  providerRequestIdUnavailableReason: optionalName,
  cumulative: Measurement,
  runDelta: Measurement
})

/** Tokens, requests, seconds and US dollars. The event `usage.reported` is not held to this schema (facts 2). */
export type Usage = typeof Fields.Type
export const Usage = Constraint.verbatim<Usage>(Fields, "Usage")
