/**
 * Which question sets can be asked, and which answers they take (facts 7).
 *
 * Answers are keyed by the ids of questions, and choices are named by the ids of options; a label is never an id.
 *
 * @module
 */
import { Array as Arr, Effect, Predicate, Schema } from "effect"
import { PatternTest, type PatternUndecided } from "./PatternTest.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import { at, Issues, type ProtocolIssue, summary, unless } from "./ProtocolIssue.js"
import type { Answer, QuestionResponse } from "./QuestionResponse.js"
import { type Option, type Question, QuestionSet, type TextValidation } from "./QuestionSet.js"

/**
 * A question set, or a response to one, breaks a rule: where, as a JSON pointer into the document that was given, and what must be
 * there. What was answered is in neither. Its code is the contract's, for both.
 */
export class InvalidQuestionResponse extends Schema.TaggedError<InvalidQuestionResponse>()(
  "invalid_question_response",
  { issues: Issues }
) {
  override get message(): string {
    return summary("Not what the questions allow", this.issues)
  }
}

type Path = ReadonlyArray<PropertyKey>

const invalid = (issues: Arr.NonEmptyReadonlyArray<ProtocolIssue>) => new InvalidQuestionResponse({ issues })

const failIfAny = (issues: ReadonlyArray<ProtocolIssue>): Effect.Effect<void, InvalidQuestionResponse> =>
  Arr.isNonEmptyReadonlyArray(issues) ? invalid(issues) : Effect.void

// ---------------------------------------------------------------------------------------------------------------------
// Question sets
// ---------------------------------------------------------------------------------------------------------------------

type Transform = (value: unknown) => unknown

/** Keeps the members that are named, changed as said; leaves what is no object for the schema to refuse. */
const only =
  <A>(members: { readonly [Name in keyof Required<A>]: Transform }): Transform =>
  (value) =>
    Predicate.isRecord(value)
      ? Object.fromEntries(
          Object.entries<Transform>(members).flatMap(([name, transform]) =>
            Object.hasOwn(value, name) ? [[name, transform(value[name])]] : []
          )
        )
      : value

const each =
  (transform: Transform): Transform =>
  (value) =>
    Array.isArray(value) ? value.map(transform) : value

const asItIs: Transform = (value) => value

const onlyKnown = only<QuestionSet>({
  schema: asItIs,
  title: asItIs,
  description: asItIs,
  submitLabel: asItIs,
  questions: each(
    only<Question>({
      id: asItIs,
      header: asItIs,
      prompt: asItIs,
      helpText: asItIs,
      required: asItIs,
      answerMode: asItIs,
      options: each(only<Option>({ id: asItIs, label: asItIs, description: asItIs })),
      customAnswer: only<NonNullable<Question["customAnswer"]>>({
        enabled: asItIs,
        label: asItIs,
        placeholder: asItIs
      }),
      textValidation: only<TextValidation>({
        minLength: asItIs,
        maxLength: asItIs,
        pattern: asItIs,
        inputType: asItIs,
        minimum: asItIs,
        maximum: asItIs
      })
    })
  )
})

const repeatedIds = (
  holders: ReadonlyArray<{ readonly id: string }>,
  path: Path,
  message: string
): ReadonlyArray<ProtocolIssue> => {
  const seen = new Set<string>()
  return holders.flatMap(({ id }, index) => {
    const issues = unless(!seen.has(id), [...path, index, "id"], message)
    seen.add(id)
    return issues
  })
}

/** The constructor only reads, and a pattern has 1,000 characters at most: what may never end is the test, not this. */
const isPattern = (pattern: string): boolean => {
  try {
    return new RegExp(pattern) instanceof RegExp
  } catch {
    return false
  }
}

const validationIssues = (
  { maxLength, maximum, minLength, minimum, pattern }: TextValidation,
  path: Path
): ReadonlyArray<ProtocolIssue> => [
  ...unless(
    minLength === undefined || maxLength === undefined || minLength <= maxLength,
    path,
    "minLength must not be greater than maxLength"
  ),
  ...unless(
    minimum === undefined || maximum === undefined || minimum <= maximum,
    path,
    "minimum must not be greater than maximum"
  ),
  ...unless(
    pattern === undefined || isPattern(pattern),
    [...path, "pattern"],
    "it must be a regular expression of JavaScript"
  )
]

/**
 * A value to a question set that can be asked: its shape, ids that name one question of the set and one option of the question, a
 * lower bound that is not above the upper one, a pattern that compiles.
 *
 * Members that the set's schema does not name are DROPPED, where the schema itself refuses them: the contract has the parser more
 * lenient than the schema. So what comes back is a copy, which does satisfy the schema. Fails with every issue there is.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { QuestionAnswers } from "effect-agent-contracts/runner"
 *
 * const set = QuestionAnswers.parseSet({
 *   schema: "paperclip.question_set.v1",
 *   questions: [{ id: "branch", prompt: "Which branch?", required: true, answerMode: "text", color: "red" }]
 * })
 *
 * Effect.runPromise(set).then(({ questions }) => console.log(questions))
 * // [{ id: "branch", prompt: "Which branch?", required: true, answerMode: "text" }]
 * ```
 */
export const parseSet = Effect.fn("QuestionAnswers.parseSet")(function* (value: unknown) {
  const set = yield* Effect.mapError(ProtocolDocument.decode(QuestionSet)(onlyKnown(value)), ({ issues }) =>
    invalid(issues)
  )
  yield* failIfAny([
    ...repeatedIds(set.questions, ["questions"], "it must be the id of one question only"),
    ...set.questions.flatMap(({ options = [], textValidation = {} }, index) => [
      ...repeatedIds(options, ["questions", index, "options"], "it must be the id of one option of the question only"),
      ...validationIssues(textValidation, ["questions", index, "textValidation"])
    ])
  ])
  return set
})

// ---------------------------------------------------------------------------------------------------------------------
// Responses
// ---------------------------------------------------------------------------------------------------------------------

/** What is wrong with an answer, but for its pattern; or the answer as it is to be passed on, unless it says nothing. */
interface Checked {
  readonly issues: ReadonlyArray<ProtocolIssue>
  readonly answer?: Answer
}

const refused = (issues: ReadonlyArray<ProtocolIssue>): Checked => ({ issues })

const unanswered = ({ required }: Question, path: Path): Checked => ({
  issues: unless(!required, path, "the question must be answered")
})

const isBlank = (text: string): boolean => text.trim() === ""

const hasOnly = (value: Record<string, unknown>, members: ReadonlyArray<string>): boolean =>
  Object.keys(value).every((name) => members.includes(name))

/** In characters, as every length in the schemas. */
const longestText = 100_000
const mustBeText = `it must be a string of at most ${longestText} characters`

const isTooLong = (text: string): boolean =>
  text.length > longestText && (text.length > 2 * longestText || Array.from(text).length > longestText)

/** What an answer's text is held to, but for the pattern. Lengths are those of JavaScript, in UTF-16 units (facts 7). */
const textIssues = (
  text: string,
  { inputType = "text", maxLength, maximum, minLength, minimum }: TextValidation = {},
  path: Path
): ReadonlyArray<ProtocolIssue> => {
  const value = Number(text)
  return [
    ...unless(minLength === undefined || text.length >= minLength, path, `it must have at least ${minLength} units`),
    ...unless(maxLength === undefined || text.length <= maxLength, path, `it must have at most ${maxLength} units`),
    ...(inputType === "text"
      ? []
      : [
          ...unless(
            inputType === "integer" ? Number.isInteger(value) : Number.isFinite(value),
            path,
            inputType === "integer" ? "it must be a whole number" : "it must be a number"
          ),
          ...unless(minimum === undefined || !(value < minimum), path, `it must be at least ${minimum}`),
          ...unless(maximum === undefined || !(value > maximum), path, `it must be at most ${maximum}`)
        ])
  ]
}

const checkText = (question: Question, text: unknown, path: Path): Checked => {
  const textPath = [...path, "text"]
  if (text === undefined) return unanswered(question, path)
  if (typeof text !== "string" || isTooLong(text)) return refused([at(textPath, mustBeText)])
  if (isBlank(text)) return unanswered(question, path)
  return { issues: textIssues(text, question.textValidation, textPath), answer: { text } }
}

const selectionIssues = (
  { answerMode, options = [] }: Question,
  selected: unknown,
  path: Path
): ReadonlyArray<ProtocolIssue> => {
  if (!Array.isArray(selected)) return [at(path, "it must be an array")]
  // Some are then unknown or repeated; which ones is not for a report of any length.
  if (selected.length > options.length) return [at(path, "it must not name more options than there are")]
  const ids = new Set<unknown>(options.map(({ id }) => id))
  return [
    ...selected.flatMap((id, index) => unless(ids.has(id), [...path, index], "it must be the id of an option")),
    ...unless(new Set(selected).size === selected.length, path, "it must name an option once only"),
    ...unless(answerMode === "multi_select" || selected.length <= 1, path, "it must name one option at most")
  ]
}

const checkSelect = (
  question: Question,
  { customText = "", selectedOptionIds = [] }: { readonly [Member in keyof Answer]: unknown },
  path: Path
): Checked => {
  const textPath = [...path, "customText"]
  const issues = selectionIssues(question, selectedOptionIds, [...path, "selectedOptionIds"])
  if (typeof customText !== "string" || isTooLong(customText)) return refused([...issues, at(textPath, mustBeText)])
  if (issues.length > 0) return refused(issues)
  const selected = selectedOptionIds as ReadonlyArray<string>
  const hasText = !isBlank(customText)
  if (selected.length === 0 && !hasText) return unanswered(question, path)
  if (question.answerMode === "single_select" && selected.length > 0 && hasText) {
    return refused([at(path, "it must be either an option or a text of one's own")])
  }
  return {
    issues: hasText ? textIssues(customText, question.textValidation, textPath) : [],
    answer: {
      ...(selected.length > 0 ? { selectedOptionIds: selected } : {}),
      ...(hasText ? { customText } : {})
    }
  }
}

const checkAnswer = (question: Question, answer: unknown): Checked => {
  const path = ["answers", question.id]
  if (answer === undefined) return unanswered(question, path)
  if (!Predicate.isRecord(answer)) return refused([at(path, "it must be an object")])
  if (question.answerMode === "text") {
    return hasOnly(answer, ["text"])
      ? checkText(question, answer["text"], path)
      : refused([at(path, 'it must have no member but "text"')])
  }
  const members = ["selectedOptionIds", ...(question.customAnswer === undefined ? [] : ["customText"])]
  return hasOnly(answer, members)
    ? checkSelect(question, answer, path)
    : refused([at(path, `it must have no member but ${members.map((name) => `"${name}"`).join(" and ")}`)])
}

const answersOf = Effect.fnUntraced(function* (response: unknown) {
  if (!Predicate.isRecord(response)) return yield* invalid([at([], "it must be an object")])
  const { answers, schema, ...others } = response
  yield* failIfAny([
    ...unless(Object.keys(others).length === 0, [], 'it must have no member but "schema" and "answers"'),
    ...unless(schema === "paperclip.question_response.v1", ["schema"], 'it must be "paperclip.question_response.v1"'),
    ...unless(Predicate.isRecord(answers), ["answers"], "it must be an object")
  ])
  return answers as Readonly<Record<string, unknown>>
})

const undecided: Readonly<Record<PatternUndecided["reason"], string>> = {
  time: "the question's pattern takes too long to test",
  memory: "the question's pattern takes too much memory to test",
  thread: "the question's pattern could not be tested"
}

const patternOf = ({ answerMode, id, textValidation }: Question, answer: Answer) => {
  const member = answerMode === "text" ? "text" : "customText"
  return { pattern: textValidation?.pattern, text: answer[member], path: ["answers", id, member] }
}

const checkPattern = Effect.fnUntraced(function* (question: Question, answer: Answer) {
  const { path, pattern, text } = patternOf(question, answer)
  if (pattern === undefined || text === undefined) return
  const patterns = yield* PatternTest
  const refuse = (message: string) => invalid([at(path, message)])
  const matches = yield* Effect.catchTags(patterns.test(pattern, text), {
    invalid_pattern: () => refuse("the question's pattern is not a regular expression"),
    pattern_undecided: ({ reason }) => refuse(`${undecided[reason]}, so it counts as not matched`)
  })
  if (!matches) return yield* refuse("it must match the question's pattern")
})

/**
 * Checks a response to a set that `parseSet` gave, and normalises it: answers in the order of their questions (but for ids that
 * are whole numbers, which JavaScript puts first in any object), without those that say nothing. A text is blank when only white
 * space is in it; texts are not trimmed.
 *
 * Fails with every issue there is; patterns are tested only if there is none, one after another, and the first that does not match,
 * or about which `PatternTest` gives no verdict, is the one issue.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { PatternWorker, QuestionAnswers } from "effect-agent-contracts/runner"
 *
 * const program = Effect.gen(function* () {
 *   const set = yield* QuestionAnswers.parseSet({
 *     schema: "paperclip.question_set.v1",
 *     questions: [
 *       {
 *         id: "release",
 *         prompt: "Which release?",
 *         required: true,
 *         answerMode: "text",
 *         textValidation: { pattern: "^v\\d+$" }
 *       }
 *     ]
 *   })
 *   return yield* QuestionAnswers.checkResponse(set, {
 *     schema: "paperclip.question_response.v1",
 *     answers: { release: { text: "twelve" } }
 *   })
 * })
 *
 * Effect.runPromise(Effect.flip(Effect.provide(program, PatternWorker.layer))).then((error) => console.log(error.message))
 * // Not what the questions allow: at /answers/release/text, it must match the question's pattern
 * ```
 */
export const checkResponse = Effect.fn("QuestionAnswers.checkResponse")(function* (
  { questions }: QuestionSet,
  response: unknown
) {
  yield* Effect.annotateCurrentSpan({ questions: questions.length })
  const answers = yield* answersOf(response)
  const checked = questions.map((question) => ({
    question,
    ...checkAnswer(question, Object.hasOwn(answers, question.id) ? answers[question.id] : undefined)
  }))
  const ids = questions.map(({ id }) => id)
  yield* failIfAny([
    ...unless(hasOnly(answers, ids), ["answers"], "it must answer only questions of the set"),
    ...checked.flatMap(({ issues }) => issues)
  ])
  const given = checked.flatMap(({ answer, question }) => (answer === undefined ? [] : [{ answer, question }]))
  yield* Effect.forEach(given, ({ answer, question }) => checkPattern(question, answer), { discard: true })
  const normalised: QuestionResponse = {
    schema: "paperclip.question_response.v1",
    answers: Object.fromEntries(given.map(({ answer, question }) => [question.id, answer]))
  }
  return normalised
})
