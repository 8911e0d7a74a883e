/**
 * Questions that an agent puts to whoever it works for.
 *
 * This is the shape. The rules between the parts, unique ids among them, are those of `QuestionAnswers`.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const id = Constraint.text({ min: 1, max: 160 })
const label = Constraint.optional(Constraint.text({ max: 1000 }))
const length = Constraint.optional(Constraint.integer({ min: 0, max: 100_000 }))
const bound = Constraint.optional(Constraint.number())

export const Option = Constraint.closed({
  id,
  label: Constraint.text({ min: 1, max: 1000 }),
  description: Constraint.optional(Constraint.text({ max: 4000 }))
})
/** A choice. Its id is what an answer names; its label is only shown. */
export type Option = typeof Option.Type

export const TextValidation = Constraint.closed({
  minLength: length,
  maxLength: length,
  pattern: Constraint.optional(Constraint.text({ max: 1000 })),
  inputType: Constraint.optional(Schema.Literal("text", "number", "integer")),
  minimum: bound,
  maximum: bound
})
/** What a text must be; lengths in UTF-16 units. */
export type TextValidation = typeof TextValidation.Type

const CustomAnswer = Constraint.closed({ enabled: Schema.Literal(true), label, placeholder: label })

const QuestionFields = Constraint.closed({
  id,
  header: label,
  prompt: Constraint.text({ min: 1, max: 4000 }),
  helpText: Constraint.optional(Constraint.text({ max: 4000 })),
  required: Schema.Boolean,
  answerMode: Schema.Literal("single_select", "multi_select", "text"),
  options: Constraint.optional(Constraint.items(Option, { max: 128 })),
  customAnswer: Constraint.optional(CustomAnswer),
  textValidation: Constraint.optional(TextValidation)
})
/** One question. One that is answered by selection has options; one that is answered by a text has none. */
export type Question = typeof QuestionFields.Type

export const Question = QuestionFields.pipe(
  Schema.filter(({ answerMode, customAnswer, options = [] }) => {
    if (answerMode !== "text") {
      return options.length > 0 || { path: [], message: "a question that is answered by selection must have options" }
    }
    return (
      (options.length === 0 && customAnswer === undefined) || {
        path: [],
        message: "a question that is answered by a text must have neither options nor a custom answer"
      }
    )
  })
)

const Fields = Constraint.closed({
  schema: Schema.Literal("paperclip.question_set.v1"),
  title: label,
  description: Constraint.optional(Constraint.text({ max: 4000 })),
  submitLabel: Constraint.optional(Constraint.text({ max: 200 })),
  questions: Constraint.items(Question, { min: 1, max: 64 })
})

/** 1 to 64 questions; their order matters. */
export type QuestionSet = typeof Fields.Type
export const QuestionSet = Constraint.verbatim<QuestionSet>(Fields, "QuestionSet")
