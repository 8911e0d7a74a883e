/**
 * Why a limit ended a run: the receipt of a budget or cost decision.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const stableId = Constraint.stableId(240)
const amount = Constraint.integer({ min: 0 })

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.prp.stop_reason.v1"),
  schemaVersion: Schema.Literal(1),
  receiptId: stableId,
  kind: Schema.Literal("budget", "cost"),
  code: Constraint.stableCode,
  retryable: Schema.Boolean,
  decisionId: stableId,
  limitClass: Schema.Literal("company_monthly", "actor_monthly", "project_monthly", "run_cost", "provider_quota"),
  aggregate: Constraint.open({
    unit: Schema.Literal("cents", "usd_micros", "tokens"),
    observed: amount,
    limit: amount,
    window: Schema.Literal("run", "monthly_utc", "provider_window")
  }),
  relatedReceiptIds: Constraint.optional(Constraint.uniqueItems(stableId))
})

/** The receipt; `observed` and `limit` are in `unit`. */
export type StopReason = typeof Fields.Type
export const StopReason = Constraint.verbatim<StopReason>(Fields, "StopReason")
