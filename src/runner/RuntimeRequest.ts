/**
 * What a run waits for somebody to answer.
 *
 * Version 1 of the protocol has three kinds, one of them with a discriminator that ends in `v2`: it belongs to version 1 all
 * the same (facts 2).
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"
import { QuestionSet } from "./QuestionSet.js"

const id = Constraint.text({ min: 1, max: 160 })
const prompt = Constraint.text({ min: 1, max: 4000 })
const nonEmpty = Constraint.text({ min: 1 })

/** Where a request stands. */
export const RequestStatus = Schema.Literal("pending", "resolved", "expired", "cancelled")
export type RequestStatus = typeof RequestStatus.Type

/** Questions with structured answers. */
const StructuredInput = Constraint.closed({
  schema: Schema.Literal("paperclip.runtime_request.v2"),
  requestKind: Schema.Literal("runtime"),
  requestId: id,
  type: Schema.Literal("input"),
  status: RequestStatus,
  prompt,
  input: QuestionSet,
  origin: Constraint.optional(
    Constraint.closed({
      adapter: id,
      provider: Constraint.optional(id),
      method: Constraint.optional(Constraint.text({ min: 1, max: 500 }))
    })
  ),
  turnId: Constraint.optional(id),
  itemId: Constraint.optional(id)
})

/** A permission, or an input without structure. */
const PlainRequest = Constraint.open({
  schema: Schema.Literal("paperclip.runtime_request.v1"),
  requestKind: Schema.Literal("runtime"),
  requestId: id,
  type: Schema.Literal("permission", "input"),
  status: RequestStatus,
  prompt,
  choices: Constraint.optional(Schema.Array(Constraint.open({ key: nonEmpty, label: nonEmpty })))
})

/** A question to the thread of an issue. */
const InteractionRequest = Constraint.open({
  schema: Schema.Literal("paperclip.interaction_request.v1"),
  requestKind: Schema.Literal("issue_thread"),
  requestId: id,
  kind: Schema.Literal(
    "request_confirmation",
    "request_checkbox_confirmation",
    "request_item_verdicts",
    "ask_user_questions",
    "suggest_tasks"
  ),
  blocking: Schema.Boolean,
  payload: Constraint.JsonObject
})

const Kinds = Schema.Union(StructuredInput, PlainRequest, InteractionRequest)

/** A request, told apart by `schema`. */
export type RuntimeRequest = typeof Kinds.Type
export const RuntimeRequest = Constraint.verbatim<RuntimeRequest>(Kinds, "RuntimeRequest")
