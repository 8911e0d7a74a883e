/**
 * What a provider asks and is answered, beside the canonical question set and response that stand for it.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"
import { QuestionResponse } from "./QuestionResponse.js"
import { QuestionSet } from "./QuestionSet.js"

const Fields = Constraint.closed({
  schema: Schema.Literal("paperclip.question_adapter_fixture.v1"),
  adapter: Constraint.text({ min: 1, max: 160 }),
  nativeRequest: Constraint.json,
  canonicalQuestionSet: QuestionSet,
  canonicalResponse: QuestionResponse,
  nativeResponse: Constraint.json
})

/** A case for an adapter of questions. The native parts are the provider's own and may be anything. */
export type QuestionAdapterFixture = typeof Fields.Type
export const QuestionAdapterFixture = Constraint.verbatim<QuestionAdapterFixture>(Fields, "QuestionAdapterFixture")
