/**
 * Answers to a question set. This is the shape; which answer a question takes is for `QuestionAnswers` to say.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const id = Constraint.text({ min: 1, max: 160 })
const text = Constraint.optional(Constraint.text({ max: 100_000 }))

export const Answer = Constraint.closed({
  selectedOptionIds: Constraint.optional(Constraint.uniqueItems(id)),
  text,
  customText: text
})
/** An answer: options by their ids, a text, or a text of the answerer's own beside the options. */
export type Answer = typeof Answer.Type

const Fields = Constraint.closed({
  schema: Schema.Literal("paperclip.question_response.v1"),
  answers: Schema.Record({ key: id, value: Answer })
})

/** The answers by the ids of their questions. */
export type QuestionResponse = typeof Fields.Type
export const QuestionResponse = Constraint.verbatim<QuestionResponse>(Fields, "QuestionResponse")
