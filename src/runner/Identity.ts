/**
 * Whose run it is: the ids that every part of a run refers to.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const stableId = Constraint.stableId(160)

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.prp.identity.v1"),
  companyId: stableId,
  issueId: stableId,
  runId: stableId,
  environmentLeaseId: stableId,
  runnerInstanceId: stableId,
  normalizedSessionId: stableId,
  driverSessionId: stableId,
  providerSessionId: Constraint.optional(stableId)
})

/** The ids of a run, a session and what they run on. Open: members that nobody knows yet are kept. */
export type Identity = typeof Fields.Type
export const Identity = Constraint.verbatim<Identity>(Fields, "Identity")
