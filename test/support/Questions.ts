/** Question sets and answers to them, and patterns where none takes long. */
import { Effect, Layer } from "effect"
import * as fc from "fast-check"
import { PatternTest, type QuestionSet } from "../../src/runner/index.js"

/** Tests at once, in this thread: for patterns of the tests' own. */
export const patternsHere = Layer.succeed(PatternTest.PatternTest, {
  test: (pattern, text) => Effect.sync(() => new RegExp(pattern).test(text))
})

/** Names that objects have of their own and ones that pointers escape among them. */
const id = fc.oneof(
  fc.constantFrom("__proto__", "constructor", "toString", "a/b", "a~b", "7"),
  fc.string({ minLength: 1, maxLength: 8 })
)

const text = fc.string({ minLength: 1, maxLength: 20 })

const options = fc.uniqueArray(fc.record({ id, label: text, description: text }, { requiredKeys: ["id", "label"] }), {
  selector: (option) => option.id,
  minLength: 1,
  maxLength: 5
})

const question = fc
  .record({
    id,
    prompt: text,
    header: fc.option(text, { nil: undefined }),
    required: fc.boolean(),
    answerMode: fc.constantFrom("single_select" as const, "multi_select" as const, "text" as const),
    options,
    isCustom: fc.boolean(),
    isShort: fc.boolean()
  })
  .map(
    ({ answerMode, header, id, isCustom, isShort, options, prompt, required }): QuestionSet.Question => ({
      id,
      prompt,
      required,
      answerMode,
      ...(header === undefined ? {} : { header }),
      ...(answerMode === "text" ? {} : { options, ...(isCustom ? { customAnswer: { enabled: true as const } } : {}) }),
      ...(isShort ? { textValidation: { minLength: 1, maxLength: 8 } } : {})
    })
  )

/** Sets that can be asked. */
export const set: fc.Arbitrary<QuestionSet.QuestionSet> = fc
  .uniqueArray(question, { selector: (question) => question.id, minLength: 1, maxLength: 5 })
  .map((questions) => ({ schema: "paperclip.question_set.v1", questions }))

/** Answers to a question, many of which it does not take. */
const answer = (question: QuestionSet.Question) => {
  const ids = (question.options ?? []).map(({ id }) => id)
  const selected = fc.array(fc.constantFrom(...ids, "unknown"), { maxLength: 3 })
  return fc.record(
    {
      selectedOptionIds: fc.oneof(selected, fc.subarray(ids)),
      text: fc.constantFrom("", "  ", "one", " one ", "longer than eight"),
      customText: fc.constantFrom("", "  ", "one", "longer than eight"),
      other: fc.jsonValue()
    },
    { requiredKeys: [] }
  )
}

/** A response to the set, often one that it takes. */
export const responseTo = (set: QuestionSet.QuestionSet) =>
  fc
    .tuple(
      ...set.questions.map((question) =>
        fc.tuple(
          fc.constant(question.id),
          fc.oneof(
            { weight: 6, arbitrary: fitting(question) },
            { weight: 1, arbitrary: answer(question) },
            { weight: 1, arbitrary: fc.constant(undefined) }
          )
        )
      )
    )
    .map((answers) => ({
      schema: "paperclip.question_response.v1",
      answers: Object.fromEntries(answers.filter(([, answer]) => answer !== undefined).reverse())
    }))

/** A set and a response to it. */
export const asked = set.chain((set) => responseTo(set).map((response) => ({ set, response })))

const fitting = (question: QuestionSet.Question): fc.Arbitrary<object> => {
  if (question.answerMode === "text") return fc.constantFrom({ text: "one" }, { text: " two " })
  const ids = (question.options ?? []).map(({ id }) => id)
  const selected =
    question.answerMode === "single_select"
      ? fc.constantFrom(...ids).map((id) => [id])
      : fc.shuffledSubarray(ids, { minLength: 1 })
  const selection = selected.map((selectedOptionIds): object => ({ selectedOptionIds }))
  return question.customAnswer === undefined
    ? selection
    : fc.oneof(selection, fc.constant<object>({ customText: " one " }))
}
