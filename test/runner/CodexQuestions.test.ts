import { readFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as fc from "fast-check"
import { CodexQuestions, QuestionAnswers, type QuestionResponse } from "../../src/runner/index.js"
import * as Questions from "../support/Questions.js"
import { check } from "../support/Seed.js"

const ours = () => JSON.parse(readFileSync("fixtures/runner/fixtures/questions/codex.json", "utf8"))

const requestOf = (...questions: ReadonlyArray<unknown>) => ({
  method: "item/tool/requestUserInput",
  params: { questions }
})

const toCanonical = (request: unknown) => Effect.runSync(CodexQuestions.toCanonical(request))

const issues = (request: unknown) => {
  const error = Effect.runSync(Effect.flip(CodexQuestions.toCanonical(request)))
  return [error._tag, error.issues.map(({ path }) => path)]
}

const responseOf = (answers: QuestionResponse.QuestionResponse["answers"]): QuestionResponse.QuestionResponse => ({
  schema: "paperclip.question_response.v1",
  answers
})

const asked = { question: "Which?", options: [{ label: "One" }, { label: "Two" }] }

const id = fc.option(
  fc.oneof(
    fc.constantFrom(
      "__proto__",
      "constructor",
      "question-1",
      "question-2",
      "option-1",
      "option-2",
      " question-1 ",
      "",
      "  "
    ),
    fc.string({ maxLength: 6 })
  )
)
const flag = fc.option(fc.boolean())
const text = fc.string({ minLength: 1, maxLength: 12 })
const option = fc.record({ id, label: text, description: fc.option(fc.string()) }, { requiredKeys: ["label"] })
const question = fc.record(
  {
    id,
    header: fc.option(fc.string()),
    question: text,
    required: flag,
    options: fc.option(fc.array(option, { maxLength: 4 })),
    multiSelect: flag,
    multiple: flag,
    isOther: flag,
    allowOther: flag
  },
  { requiredKeys: ["question"] }
)
/** Codex's requests, in some of which an id comes twice. */
const request = fc.array(question, { minLength: 1, maxLength: 4 }).map((questions) => requestOf(...questions))

describe("from Codex", () => {
  it("our fixture, both ways", () => {
    const fixture = ours()
    expect(toCanonical(fixture.nativeRequest)).toEqual(fixture.canonicalQuestionSet)
    const native = Effect.runSync(CodexQuestions.toNative(fixture.nativeRequest, fixture.canonicalResponse))
    expect(native).toEqual(fixture.nativeResponse)
  })

  it("property: whatever comes out can be asked, and the same request always gives the same", () =>
    check(
      [request],
      (request) => {
        const first = Effect.runSync(Effect.either(CodexQuestions.toCanonical(request)))
        const again = Effect.runSync(Effect.either(CodexQuestions.toCanonical(structuredClone(request))))
        expect(again).toEqual(first)
        if (Either.isRight(first)) expect(Effect.runSync(QuestionAnswers.parseSet(first.right))).toEqual(first.right)
      },
      { numRuns: 500 }
    ))

  it("property: native ids are kept, and a question without one takes none of theirs", () =>
    check([request], (request) => {
      const canonical = Effect.runSync(Effect.either(CodexQuestions.toCanonical(request)))
      const native = request.params.questions as ReadonlyArray<{ readonly id?: string | null }>
      const ids = native.map(({ id }) => id?.trim() || undefined)
      if (Either.isLeft(canonical)) return
      canonical.right.questions.forEach(({ id }, index) => {
        expect(id).toEqual(ids[index] ?? expect.stringMatching(/^question-\d+$/))
      })
    }))

  it("property: any value is a request, or is refused with a typed error", () =>
    check(
      [
        fc.oneof(
          fc.jsonValue(),
          fc.jsonValue().map((value) => requestOf(value))
        )
      ],
      (value) => {
        const canonical = Effect.runSync(Effect.either(CodexQuestions.toCanonical(value)))
        if (Either.isLeft(canonical)) expect(canonical.left._tag).toBe("invalid_codex_question")
      }
    ))

  it("a question without an id gets the lowest number that is free, whichever questions stand around it", () => {
    const ids = toCanonical(
      requestOf(asked, { ...asked, id: "question-1" }, { ...asked, id: " name " }, { ...asked, id: "  " })
    )
    expect(ids.questions.map(({ id }) => id)).toEqual(["question-2", "question-1", "name", "question-3"])
  })

  it("an option's id is the native one as it is, else made like a question's", () => {
    const options = [{ label: "One" }, { id: " x ", label: "Two" }, { id: "option-1", label: "Two" }]
    expect(toCanonical(requestOf({ ...asked, options })).questions[0]?.options?.map(({ id }) => id)).toEqual([
      "option-2",
      " x ",
      "option-1"
    ])
  })

  it("two native ids that are equal are refused", () => {
    const options = [
      { id: "a", label: "One" },
      { id: "a", label: "Two" }
    ]
    expect(issues(requestOf({ ...asked, id: "a" }, { ...asked, id: " a", options }))).toEqual([
      "invalid_codex_question",
      ["/params/questions/1/id", "/params/questions/1/options/1/id"]
    ])
  })

  it("a text that is too long is refused, never cut", () => {
    const long = requestOf(
      { question: "x".repeat(4001) },
      { ...asked, header: "x".repeat(1001) },
      { ...asked, options: [{ label: "x".repeat(1001), description: "x".repeat(4001) }] },
      { ...asked, id: "x".repeat(161) }
    )
    expect(issues(long)).toEqual([
      "invalid_codex_question",
      [
        "/params/questions/0/question",
        "/params/questions/1/header",
        "/params/questions/2/options/0/label",
        "/params/questions/2/options/0/description",
        "/params/questions/3/id"
      ]
    ])
  })

  it("a request by another name, or without a question, is none", () => {
    expect(issues({ ...requestOf(asked), method: "item/commandExecution/requestApproval" })).toEqual([
      "invalid_codex_question",
      ["/method"]
    ])
    expect(issues(requestOf())).toEqual(["invalid_codex_question", ["/params/questions"]])
  })

  it("only what says so is required; many may be selected, and a text given, only where Codex says so", () => {
    const { questions } = toCanonical(
      requestOf(
        asked,
        { ...asked, required: true, multiSelect: true, isOther: true },
        { ...asked, required: null, multiple: true, allowOther: true },
        { question: "What?", isOther: true, multiple: true, options: [] }
      )
    )
    const customAnswer = { enabled: true, label: "Other", placeholder: "Enter another answer" }
    expect(questions.map(({ answerMode, customAnswer, required }) => [answerMode, required, customAnswer])).toEqual([
      ["single_select", false, undefined],
      ["multi_select", true, customAnswer],
      ["multi_select", false, customAnswer],
      ["text", false, undefined]
    ])
  })

  it("the set has Codex's title and button where it has some", () => {
    expect(toCanonical(requestOf(asked))).toMatchObject({
      title: "Codex needs your input",
      submitLabel: "Submit answers"
    })
    const named = { title: "A title", description: "More", submitLabel: "Go" }
    const { method, params } = requestOf(asked)
    expect(toCanonical({ method, params: { ...params, ...named } })).toMatchObject(named)
  })
})

describe("to Codex", () => {
  it("property: every answer that the set takes reaches Codex's question, and names what was selected", () => {
    let answered = 0
    return check(
      [request.chain((request) => answersTo(request).map((response) => ({ request, response })))],
      ({ request, response }) => {
        if (response === undefined) return
        const set = toCanonical(request)
        const checked = Effect.runSync(
          Effect.either(Effect.provide(QuestionAnswers.checkResponse(set, response), Questions.patternsHere))
        )
        if (Either.isLeft(checked)) return
        answered++
        const { answers } = Effect.runSync(CodexQuestions.toNative(request, checked.right))
        // As Codex reads it: a question by its id, an option by its id or else its label.
        const native = request.params.questions as ReadonlyArray<{
          readonly id?: string | null
          readonly options?: ReadonlyArray<{ readonly id?: string | null; readonly label: string }> | null
        }>
        expect(Object.keys(answers).length).toBe(Object.keys(checked.right.answers).length)
        for (const [index, { id, options = [] }] of set.questions.entries()) {
          const answer = Object.hasOwn(checked.right.answers, id) ? checked.right.answers[id] : undefined
          const key = native[index]?.id?.trim() ? String(native[index]?.id) : id
          expect(Object.hasOwn(answers, key)).toBe(answer !== undefined)
          const values = (answer?.selectedOptionIds ?? []).map((selected) => {
            const option = native[index]?.options?.[options.findIndex(({ id }) => id === selected)]
            return option?.id?.trim() ? option.id : option?.label
          })
          const text = answer?.text ?? answer?.customText
          if (answer !== undefined)
            expect(answers[key]?.answers).toEqual([...values, ...(text === undefined ? [] : [text])])
        }
      },
      { numRuns: 500 }
    ).then(() => expect(answered).toBeGreaterThan(100))
  })

  it("an option goes by its id or else its label; the text comes last, as it is; who gave no answer is not there", () => {
    const options = [{ id: "one", label: "One" }, { label: "Two" }]
    const request = requestOf(
      { ...asked, id: " pick ", options, multiple: true, isOther: true },
      { question: "What?", id: "__proto__" },
      { question: "What else?", id: "else" }
    )
    const answers = JSON.parse(
      '{"pick":{"selectedOptionIds":["option-1","one"],"customText":" three "},"__proto__":{"text":"x"}}'
    )
    expect(JSON.stringify(Effect.runSync(CodexQuestions.toNative(request, responseOf(answers))))).toBe(
      '{"answers":{" pick ":{"answers":["Two","one"," three "]},"__proto__":{"answers":["x"]}}}'
    )
  })

  it("a response to other questions is refused", () => {
    const refused = (answers: QuestionResponse.QuestionResponse["answers"]) => {
      const error = Effect.runSync(
        Effect.flip(CodexQuestions.toNative(requestOf({ ...asked, id: "q" }), responseOf(answers)))
      )
      return [error._tag, error.issues.map(({ path }) => path)]
    }
    expect(refused({ other: { text: "x" } })).toEqual(["invalid_question_response", ["/answers"]])
    expect(refused({ q: { selectedOptionIds: ["option-1", "One"] } })).toEqual([
      "invalid_question_response",
      ["/answers/q/selectedOptionIds/1"]
    ])
  })
})

/** Answers that the request's questions may take; none where the request cannot be put. */
function answersTo(request: unknown): fc.Arbitrary<unknown> {
  const set = Effect.runSync(Effect.either(CodexQuestions.toCanonical(request)))
  return Either.isLeft(set) ? fc.constant(undefined) : Questions.responseTo(set.right)
}
