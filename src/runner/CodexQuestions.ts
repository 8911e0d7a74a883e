/**
 * Questions as Codex asks them, and as every other part of the protocol does.
 *
 * @module
 */
import { Array as Arr, Effect, Option, Predicate, Schema } from "effect"
import * as Constraint from "./Constraint.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import { at, Issues, type ProtocolIssue, summary } from "./ProtocolIssue.js"
import { InvalidQuestionResponse } from "./QuestionAnswers.js"
import type { Answer, QuestionResponse } from "./QuestionResponse.js"
import type { Question, QuestionSet } from "./QuestionSet.js"

/** What Codex calls a request for answers. */
export const method = "item/tool/requestUserInput"

/** A request of Codex's that cannot be put as a question set: a text that is too long is never cut, an id never changed. */
export class InvalidCodexQuestion extends Schema.TaggedError<InvalidCodexQuestion>()("invalid_codex_question", {
  issues: Issues
}) {
  override get message(): string {
    return summary("Not a request that can be put as questions", this.issues)
  }
}

type Transform = (value: unknown) => unknown

const each =
  (transform: Transform): Transform =>
  (value) =>
    Array.isArray(value) ? value.map(transform) : value

/** Without the members that are null, which is how Codex writes what is not there; the named ones changed as said. */
const dense =
  (members: Readonly<Record<string, Transform>> = {}): Transform =>
  (value) =>
    Predicate.isRecord(value)
      ? Object.fromEntries(
          Object.entries(value)
            .filter(([, member]) => member !== null)
            .map(([name, member]) => [name, Object.hasOwn(members, name) ? members[name]?.(member) : member])
        )
      : value

const denseRequest = dense({ params: dense({ questions: each(dense({ options: each(dense()) })) }) })

const { optional } = Constraint
const flag = optional(Schema.Boolean)

/** A string whose canonical id, if there is one in it, is not too long. */
const nativeId = (canonical: (id: string) => string) =>
  optional(
    Schema.String.pipe(
      Schema.filter((id) => Array.from(canonical(id)).length <= 160, {
        description: "a string of at most 160 characters"
      })
    )
  )

const NativeOption = Constraint.open({
  id: nativeId((id) => id),
  label: Constraint.text({ min: 1, max: 1000 }),
  description: optional(Constraint.text({ max: 4000 }))
})

const NativeQuestion = Constraint.open({
  id: nativeId((id) => id.trim()),
  header: optional(Constraint.text({ max: 1000 })),
  question: Constraint.text({ min: 1, max: 4000 }),
  required: flag,
  options: optional(Constraint.items(NativeOption, { max: 128 })),
  multiSelect: flag,
  multiple: flag,
  isOther: flag,
  allowOther: flag
})

/** What is read of a request; whatever else is in it is left alone. */
const NativeRequest = Constraint.open({
  method: Schema.Literal(method),
  params: Constraint.open({
    title: optional(Constraint.text({ max: 1000 })),
    description: optional(Constraint.text({ max: 4000 })),
    submitLabel: optional(Constraint.text({ max: 200 })),
    questions: Constraint.items(NativeQuestion, { min: 1, max: 64 })
  })
})

type NativeQuestion = typeof NativeQuestion.Type
type NativeOption = typeof NativeOption.Type

const isGiven = (id: string | undefined): id is string => id !== undefined && id.trim() !== ""

/**
 * An id for each, the same ones whenever the same is asked: the native one, else the prefix with the lowest number that no other
 * has. Native ids are taken first, so that none of them meets one that was made.
 */
const idsFor = (native: ReadonlyArray<string | undefined>, prefix: string): ReadonlyArray<string> => {
  const taken = new Set(native)
  let number = 0
  return native.map((id) => {
    if (id !== undefined) return id
    do number++
    while (taken.has(`${prefix}-${number}`))
    return `${prefix}-${number}`
  })
}

const repeated = (
  ids: ReadonlyArray<string | undefined>,
  path: ReadonlyArray<PropertyKey>
): ReadonlyArray<ProtocolIssue> =>
  ids.flatMap((id, index) =>
    id === undefined || ids.indexOf(id) === index
      ? []
      : [at([...path, index, "id"], "it must differ from the ids before it")]
  )

/** An option, and what Codex is told when it is selected: its own id, and its label where it has none. */
interface Choice {
  readonly id: string
  readonly native: NativeOption
  readonly nativeValue: string
}

interface Asked {
  readonly id: string
  /** The key of its answer: the native id as Codex wrote it. */
  readonly nativeId: string
  readonly native: NativeQuestion
  readonly choices: ReadonlyArray<Choice>
}

const choicesOf = (options: ReadonlyArray<NativeOption>): ReadonlyArray<Choice> => {
  const ids = idsFor(
    options.map(({ id }) => (isGiven(id) ? id : undefined)),
    "option"
  )
  return Arr.zipWith(options, ids, (native, id) => ({
    id,
    native,
    nativeValue: isGiven(native.id) ? native.id : native.label
  }))
}

/** Reads a request. Both ways begin here, so that nothing has to be kept between a question and its answer. */
const read = Effect.fnUntraced(function* (request: unknown) {
  const { params } = yield* Effect.mapError(
    ProtocolDocument.decode(NativeRequest)(denseRequest(request)),
    ({ issues }) => new InvalidCodexQuestion({ issues })
  )
  const nativeIds = params.questions.map(({ id }) => (isGiven(id) ? id.trim() : undefined))
  const issues = [
    ...repeated(nativeIds, ["params", "questions"]),
    ...params.questions.flatMap(({ options }, index) =>
      repeated(
        (options ?? []).map(({ id }) => (isGiven(id) ? id : undefined)),
        ["params", "questions", index, "options"]
      )
    )
  ]
  if (Arr.isNonEmptyReadonlyArray(issues)) return yield* new InvalidCodexQuestion({ issues })
  const asked = Arr.zipWith(
    params.questions,
    idsFor(nativeIds, "question"),
    (native, id): Asked => ({
      id,
      nativeId: isGiven(native.id) ? native.id : id,
      native,
      choices: choicesOf(native.options ?? [])
    })
  )
  return { params, asked }
})

const present = <Name extends string>(name: Name, text: string | undefined) =>
  text === undefined ? {} : ({ [name]: text } as { readonly [N in Name]: string })

const canonicalQuestion = ({ choices, id, native }: Asked): Question => {
  const common = {
    id,
    ...present("header", native.header),
    prompt: native.question,
    required: native.required === true
  }
  if (choices.length === 0) return { ...common, answerMode: "text" }
  const isMultiple = native.multiSelect === true || native.multiple === true
  const allowsOther = native.isOther === true || native.allowOther === true
  return {
    ...common,
    answerMode: isMultiple ? "multi_select" : "single_select",
    options: choices.map(({ id, native: { description, label } }) => ({
      id,
      label,
      ...present("description", description)
    })),
    ...(allowsOther ? { customAnswer: { enabled: true, label: "Other", placeholder: "Enter another answer" } } : {})
  }
}

/**
 * Codex's request as a question set. The same request always gives the same ids, and every set that comes back is one that
 * `QuestionAnswers.parseSet` takes. Fails with every issue there is; paths are JSON pointers into the request.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { CodexQuestions } from "effect-agent-contracts/runner"
 *
 * const request = {
 *   method: "item/tool/requestUserInput",
 *   params: { questions: [{ question: "Where to?", options: [{ label: "Staging" }, { label: "Production" }] }] }
 * }
 *
 * const program = Effect.gen(function* () {
 *   const { questions } = yield* CodexQuestions.toCanonical(request)
 *   console.log(questions.map(({ id, options }) => [id, options?.map((option) => option.id)]))
 *   // [["question-1", ["option-1", "option-2"]]]
 *   const answers = { "question-1": { selectedOptionIds: ["option-2"] } }
 *   return yield* CodexQuestions.toNative(request, { schema: "paperclip.question_response.v1", answers })
 * })
 *
 * Effect.runPromise(program).then((native) => console.log(JSON.stringify(native)))
 * // {"answers":{"question-1":{"answers":["Production"]}}}
 * ```
 */
export const toCanonical = Effect.fn("CodexQuestions.toCanonical")(function* (request: unknown) {
  const { asked, params } = yield* read(request)
  yield* Effect.annotateCurrentSpan({ questions: asked.length })
  const set: QuestionSet = {
    schema: "paperclip.question_set.v1",
    title: params.title ?? "Codex needs your input",
    ...present("description", params.description),
    submitLabel: params.submitLabel ?? "Submit answers",
    questions: asked.map(canonicalQuestion)
  }
  return set
})

/** What Codex is answered: for each question that has an answer, the values of the options and the text, in this order. */
export interface NativeResponse {
  readonly answers: { readonly [questionId: string]: { readonly answers: ReadonlyArray<string> } }
}

const unknownTo = (path: ReadonlyArray<PropertyKey>, message: string) =>
  new InvalidQuestionResponse({ issues: [at(path, message)] })

const nativeValues = Effect.fnUntraced(function* ({ choices, id }: Asked, answer: Answer) {
  const values = new Map(choices.map((choice) => [choice.id, choice.nativeValue]))
  const selected = yield* Effect.forEach(answer.selectedOptionIds ?? [], (optionId, index) =>
    Effect.mapError(Option.fromNullable(values.get(optionId)), () =>
      unknownTo(["answers", id, "selectedOptionIds", index], "it must be the id of an option")
    )
  )
  return [...selected, ...Option.toArray(Option.fromNullable(answer.text ?? answer.customText))]
})

/**
 * A response that `QuestionAnswers.checkResponse` gave, as Codex reads it. An option goes by its native id, or by its label where
 * Codex gave it none; a question by its native id as Codex wrote it. The request is the one that was asked.
 *
 * Fails with `invalid_codex_question` when the request is none, and with `invalid_question_response` when the response names a
 * question or an option that it lacks.
 */
export const toNative = Effect.fn("CodexQuestions.toNative")(function* (
  request: unknown,
  { answers }: QuestionResponse
) {
  const { asked } = yield* read(request)
  const ids = new Set(asked.map(({ id }) => id))
  const given = new Map(Object.entries(answers))
  if (![...given.keys()].every((id) => ids.has(id))) {
    return yield* unknownTo(["answers"], "it must answer only questions of the set")
  }
  const entries = yield* Effect.forEach(asked, (question) =>
    Effect.map(
      nativeValues(question, given.get(question.id) ?? {}),
      (values) => [question.nativeId, { answers: values }] as const
    )
  )
  const native: NativeResponse = {
    answers: Object.fromEntries(entries.filter(([, { answers }]) => answers.length > 0))
  }
  return native
})
