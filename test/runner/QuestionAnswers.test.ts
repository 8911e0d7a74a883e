import { readFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Layer } from "effect"
import * as fc from "fast-check"
import {
  PatternTest,
  PatternWorker,
  ProtocolDocument,
  QuestionAnswers,
  QuestionResponse,
  QuestionSet
} from "../../src/runner/index.js"
import * as Questions from "../support/Questions.js"
import { check } from "../support/Seed.js"

interface Case {
  readonly name: string
  readonly set: unknown
  readonly response?: unknown
  readonly expected: {
    readonly response?: unknown
    readonly refused?: string
    readonly code?: string
    readonly path?: string
  }
}

const { cases }: { readonly cases: ReadonlyArray<Case> } = JSON.parse(
  readFileSync("fixtures/runner/questions/answers.v1.json", "utf8")
)

/** What comes of a set and a response, as the fixture file writes it. */
const outcome = Effect.fnUntraced(function* (set: unknown, response: unknown) {
  const refusal = (refused: string) => (error: QuestionAnswers.InvalidQuestionResponse) => ({
    refused,
    code: error._tag,
    path: error.issues[0].path
  })
  return yield* QuestionAnswers.parseSet(set).pipe(
    Effect.mapError(refusal("set")),
    Effect.flatMap((parsed) => Effect.mapError(QuestionAnswers.checkResponse(parsed, response), refusal("response"))),
    Effect.map((response) => ({ response })),
    Effect.merge
  )
})

const text = { id: "q", prompt: "What?", required: true, answerMode: "text" }
const setOf = (...questions: ReadonlyArray<unknown>) => ({ schema: "paperclip.question_set.v1", questions })
const responseOf = (answers: unknown) => ({ schema: "paperclip.question_response.v1", answers })

const noPatterns = Layer.succeed(PatternTest.PatternTest, {
  test: () => Effect.dieMessage("no pattern is to be tested")
})

describe("each rule about question sets and answers, at its edge and beyond (answers.v1.json)", () => {
  for (const { expected, name, response, set } of cases) {
    // The order of the answers is a rule, so the texts are compared; one case waits its second for a pattern.
    it.live(name, () =>
      Effect.map(outcome(set, response), (found) => expect(JSON.stringify(found)).toBe(JSON.stringify(expected))).pipe(
        Effect.provide(PatternWorker.layer)
      )
    )
  }
})

describe("a question set", () => {
  it("property: one that can be asked is parsed to itself; what is not known in it is dropped, wherever it is", () =>
    check([Questions.set, fc.jsonValue()], (set, value) => {
      const extra = { unknown: value, ["__proto__x"]: value }
      const more = {
        ...set,
        ...extra,
        questions: set.questions.map(({ customAnswer, options, textValidation, ...question }) => ({
          ...question,
          ...extra,
          ...(options && { options: options.map((option) => ({ ...option, ...extra })) }),
          ...(customAnswer && { customAnswer: { ...customAnswer, ...extra } }),
          ...(textValidation && { textValidation: { ...textValidation, ...extra } })
        }))
      }
      expect(Effect.runSync(QuestionAnswers.parseSet(set))).toEqual(set)
      expect(Effect.runSync(QuestionAnswers.parseSet(more))).toEqual(set)
      expect(Either.isLeft(Effect.runSync(Effect.either(ProtocolDocument.decode(QuestionSet.QuestionSet)(more))))).toBe(
        true
      )
    }))

  it("every member that the schema knows is kept", () => {
    const full = {
      ...setOf(
        {
          ...text,
          header: "h",
          helpText: "t",
          textValidation: { minLength: 1, maxLength: 2, pattern: "x", inputType: "number", minimum: 1, maximum: 2 }
        },
        {
          ...text,
          id: "r",
          answerMode: "multi_select",
          options: [{ id: "a", label: "A", description: "d" }],
          customAnswer: { enabled: true, label: "l", placeholder: "p" }
        }
      ),
      title: "t",
      description: "d",
      submitLabel: "s"
    }
    expect(Effect.runSync(QuestionAnswers.parseSet(full))).toEqual(full)
  })

  it("property: any value is a set that satisfies its schema, or is refused", () =>
    check(
      [fc.oneof(fc.jsonValue(), mutated(Questions.set))],
      (value) => {
        const parsed = Effect.runSync(Effect.either(QuestionAnswers.parseSet(value)))
        if (Either.isRight(parsed)) Effect.runSync(ProtocolDocument.decode(QuestionSet.QuestionSet)(parsed.right))
        else expect(parsed.left._tag).toBe("invalid_question_response")
      },
      { numRuns: 500 }
    ))

  it("every issue is reported, with its place", () => {
    const option = { id: "a", label: "A" }
    const set = setOf(
      { ...text, textValidation: { minLength: 2, maxLength: 1, minimum: 2, maximum: 1, pattern: "[" } },
      { ...text, answerMode: "single_select", options: [option, option] }
    )
    expect(Effect.runSync(Effect.flip(QuestionAnswers.parseSet(set))).issues.map(({ path }) => path)).toEqual([
      "/questions/1/id",
      "/questions/0/textValidation",
      "/questions/0/textValidation",
      "/questions/0/textValidation/pattern",
      "/questions/1/options/1/id"
    ])
  })
})

describe("a response", () => {
  it("property: what comes back satisfies the schema, checks to itself, and holds what was answered", () => {
    let accepted = 0
    return check(
      [Questions.asked],
      ({ response, set }) => {
        const checked = Effect.runSync(
          Effect.either(Effect.provide(QuestionAnswers.checkResponse(set, response), noPatterns))
        )
        if (Either.isLeft(checked)) return
        accepted++
        const { answers } = Effect.runSync(ProtocolDocument.decode(QuestionResponse.QuestionResponse)(checked.right))
        expect(Effect.runSync(Effect.provide(QuestionAnswers.checkResponse(set, checked.right), noPatterns))).toEqual(
          checked.right
        )
        const given: Record<string, object> = response.answers as never
        for (const [id, answer] of Object.entries(answers)) expect(given[id]).toMatchObject(answer)
        for (const { id, required } of set.questions) if (required) expect(Object.hasOwn(answers, id)).toBe(true)
      },
      { numRuns: 300 }
    ).then(() => expect(accepted).toBeGreaterThan(100))
  })

  it("property: any value is answered, never with a defect, and a refusal says nothing of the value", () =>
    check(
      [Questions.set, fc.oneof(fc.jsonValue(), mutated(Questions.asked.map(({ response }) => response)))],
      (set, value) => {
        const secret = "zebra-7431"
        const marked = JSON.parse(JSON.stringify(value), (_, member) =>
          typeof member === "string" ? `${member}${secret}` : member
        )
        for (const response of [value, marked]) {
          const checked = Effect.runSync(
            Effect.either(Effect.provide(QuestionAnswers.checkResponse(set, response), noPatterns))
          )
          if (Either.isLeft(checked)) expect(JSON.stringify([checked.left.message, checked.left])).not.toContain(secret)
        }
      },
      { numRuns: 500 }
    ))

  it("every issue is reported, one that is not known beside those of the questions", () => {
    const set = Effect.runSync(
      QuestionAnswers.parseSet(setOf(text, { ...text, id: "r", textValidation: { maxLength: 1, inputType: "number" } }))
    )
    const response = responseOf({ other: {}, r: { text: "xy" } })
    const { issues, message } = Effect.runSync(
      Effect.flip(Effect.provide(QuestionAnswers.checkResponse(set, response), noPatterns))
    )
    expect(issues.map(({ path }) => path)).toEqual(["/answers", "/answers/q", "/answers/r/text", "/answers/r/text"])
    expect(message).toBe(
      "Not what the questions allow: at /answers, it must answer only questions of the set, and 3 more"
    )
  })

  it("hundreds of thousands of mistakes are one refusal", () => {
    const question = { ...text, answerMode: "single_select", options: [{ id: "a", label: "A" }] }
    const set = Effect.runSync(QuestionAnswers.parseSet(setOf({ ...question, customAnswer: { enabled: true } })))
    const answers = { q: { selectedOptionIds: Array.from({ length: 300_000 }, String), customText: 1 } }
    const refusal = Effect.flip(Effect.provide(QuestionAnswers.checkResponse(set, responseOf(answers)), noPatterns))
    expect(Effect.runSync(refusal).issues.map(({ path }) => path)).toEqual([
      "/answers/q/selectedOptionIds",
      "/answers/q/customText"
    ])
  })

  it("a text has 100,000 characters at most, as the schema says, however many units they take", () => {
    const set = Effect.runSync(QuestionAnswers.parseSet(setOf(text)))
    const outcomes = [
      "x".repeat(100_000),
      "\u{1f600}".repeat(100_000),
      "x".repeat(100_001),
      "\u{1f600}".repeat(100_001)
    ].map((text) =>
      Either.isRight(
        Effect.runSync(
          Effect.either(Effect.provide(QuestionAnswers.checkResponse(set, responseOf({ q: { text } })), noPatterns))
        )
      )
    )
    expect(outcomes).toEqual([true, true, false, false])
  })

  it.live("a pattern that takes for ever is a refusal at the answer's place, and says why", () =>
    Effect.gen(function* () {
      const set = yield* QuestionAnswers.parseSet(setOf({ ...text, textValidation: { pattern: "(a+)+$" } }))
      const response = responseOf({ q: { text: `${"a".repeat(99_999)}!` } })
      const { issues } = yield* Effect.flip(QuestionAnswers.checkResponse(set, response))
      expect(issues).toEqual([
        {
          path: "/answers/q/text",
          message: "the question's pattern takes too long to test, so it counts as not matched"
        }
      ])
    }).pipe(Effect.provide(PatternWorker.layer))
  )

  it.effect("patterns are tested only when all else is as it must be, and none after one that does not match", () =>
    Effect.gen(function* () {
      const tested: Array<string> = []
      const patterns = Layer.succeed(PatternTest.PatternTest, {
        test: (pattern) => Effect.sync(() => tested.push(pattern) !== 2)
      })
      const questions = ["1", "2", "3"].map((pattern) => ({ ...text, id: `q${pattern}`, textValidation: { pattern } }))
      const set = yield* QuestionAnswers.parseSet(setOf(...questions))
      const answers = { q1: { text: "x" }, q2: { text: "x" } }
      yield* Effect.flip(Effect.provide(QuestionAnswers.checkResponse(set, responseOf(answers)), patterns))
      expect(tested).toEqual([])
      const all = responseOf({ ...answers, q3: { text: "x" } })
      const { issues } = yield* Effect.flip(Effect.provide(QuestionAnswers.checkResponse(set, all), patterns))
      expect([tested, issues.map(({ path }) => path)]).toEqual([["1", "2"], ["/answers/q2/text"]])
    })
  )
})

/** The same with some value in the place of some member, or without it. */
function mutated(documents: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc
    .tuple(documents, fc.nat(), fc.option(fc.jsonValue({ maxDepth: 1 }), { nil: undefined }))
    .map(([document, place, value]) => {
      let index = 0
      const text = JSON.stringify(document)
      const members = text.split(/[,:]/).length
      return JSON.parse(text, (_, member) => (index++ === place % members ? value : member)) ?? null
    })
}
