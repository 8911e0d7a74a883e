import { describe, expect, it } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import * as fc from "fast-check"
import {
  Capabilities,
  ProtocolDocument,
  QuestionResponse,
  QuestionSet,
  RunResult,
  RuntimeRequest,
  SemanticTool,
  Usage
} from "../../src/runner/index.js"
import * as Documents from "../support/RunDocuments.js"
import { check } from "../support/Seed.js"

const issues = <A>(schema: Schema.Schema<A>, value: unknown) =>
  Effect.runSync(
    Effect.match(ProtocolDocument.decode(schema)(value), {
      onFailure: (error) => error.issues.map(({ message, path }) => `${path}: ${message}`),
      onSuccess: () => []
    })
  )

const response = (answers: object) => ({ schema: "paperclip.question_response.v1", answers })
const question = { id: "q1", prompt: "Which?", required: true, answerMode: "single_select" }
const set = (...questions: ReadonlyArray<object>) => ({ schema: "paperclip.question_set.v1", questions })

describe("an issue", () => {
  it("has a pointer that is escaped", () => {
    expect(issues(QuestionResponse.QuestionResponse, response({ "a/b~c": { text: 1 } }))).toEqual([
      "/answers/a~1b~0c/text: it must be a string of at most 100000 characters"
    ])
  })

  it("of a missing member, and of one too many, is the object's", () => {
    expect(issues(QuestionResponse.QuestionResponse, { answers: { q1: { other: 1 } } })).toEqual([
      '/: the member "schema" is missing',
      '/answers/q1: the member "other" is not one of the object\'s'
    ])
  })

  it("says what must be there: words, numbers, texts, one of several", () => {
    const { capabilities } = Documents
    expect(
      issues(Capabilities.Capabilities, { ...capabilities, steer: 1, sessionReusePolicy: "x", driver: [] })
    ).toEqual([
      '/sessionReusePolicy: it must be one of "new_per_run", "reuse_per_issue", "reuse_per_workspace"',
      "/driver: it must be an object",
      "/steer: it must be true or false"
    ])
    expect(issues(SemanticTool.SemanticTool, Documents.semanticTool({ currentRevision: -1 }))).toEqual([
      "/currentRevision: it must be one of a whole number of at least 0, a string that matches ^[A-Za-z0-9][A-Za-z0-9._:-]*$ and has 1 to 240 characters"
    ])
  })

  it("of a request is that of the kind it says it is", () => {
    const request = { schema: "paperclip.runtime_request.v1", requestKind: "runtime", type: "input", status: "pending" }
    expect(issues(RuntimeRequest.RuntimeRequest, { ...request, requestId: "r1" })).toEqual([
      '/: the member "prompt" is missing'
    ])
    expect(issues(RuntimeRequest.RuntimeRequest, { ...request, schema: "paperclip.runtime_request.v3" })[0]).toMatch(
      "/schema: it must be one of"
    )
  })
})

describe("a schema", () => {
  it("lets a question have options or a text, and never both", () => {
    const option = { id: "o1", label: "One" }
    const verdicts = [
      set({ ...question, options: [option] }),
      set(question),
      set({ ...question, options: [] }),
      set({ ...question, answerMode: "text" }),
      set({ ...question, answerMode: "text", options: [] }),
      set({ ...question, answerMode: "text", options: [option] }),
      set({ ...question, answerMode: "text", customAnswer: { enabled: true } }),
      set()
    ].map((value) => issues(QuestionSet.QuestionSet, value).length === 0)
    expect(verdicts).toEqual([true, false, false, true, true, false, false, false])
  })

  it("asks who is blocked for the blocker, and who yields for how it goes on", () => {
    const result = (reportedWorkDisposition: string, more: object = {}) =>
      issues(RunResult.RunResult, { ...Documents.result, reportedWorkDisposition, ...more })
    const blocker = { reasonCode: "x", owner: {}, unblockAction: "y", scope: "task_wide" }
    const continuation = { kind: "retry", summary: "x", idempotencyKey: "k" }
    expect(result("blocked")).toEqual(['/: a result that is blocked must have a member "blocker"'])
    expect(result("yielded")).toEqual(['/: a result that yielded must have a member "continuation"'])
    expect([result("blocked", { blocker }), result("yielded", { continuation }), result("done", { blocker })]).toEqual([
      [],
      [],
      []
    ])
  })

  it("takes whole numbers of any size, and no others", () => {
    const measurement = {
      inputTokens: 2 ** 70,
      outputTokens: 0,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      activeSeconds: 0.5,
      requests: 1,
      providerCostUsd: 0
    }
    const usage = { provider: "p", model: null, cumulative: measurement, runDelta: measurement }
    expect(issues(Usage.Usage, usage)).toEqual([])
    expect(
      issues(Usage.Usage, { ...usage, runDelta: { ...measurement, requests: 1.5, activeSeconds: JSON.parse("1e400") } })
    ).toEqual([
      "/runDelta/activeSeconds: it must be a number of at least 0",
      "/runDelta/requests: it must be a whole number of at least 0"
    ])
  })

  it("finds what is there twice, members of objects in any order", () => {
    const reference = { kind: "task", id: "t1", more: { a: 1, b: 2 } }
    const again = { more: { b: 2, a: 1 }, id: "t1", kind: "task" }
    const { content } = Documents.semanticTool()
    const tool = (...references: ReadonlyArray<object>) =>
      issues(SemanticTool.SemanticTool, Documents.semanticTool({ content: { ...content, references } }))
    expect(tool(reference, again)).toEqual(["/content/references: it must be an array whose items all differ"])
    expect(tool(reference, { ...again, more: { a: 1, b: 3 } })).toEqual([])
  })
})

describe("a document", () => {
  it("comes out of the parser as JSON has it, whatever it holds", () =>
    check([fc.jsonValue({ noUnicodeString: false }), fc.boolean()], (value, asBytes) => {
      const text = JSON.stringify(value)
      const parsed = Effect.runSync(ProtocolDocument.parse(asBytes ? new TextEncoder().encode(text) : text))
      expect(JSON.stringify(parsed)).toBe(text)
    }))

  it("may be nested 256 deep, and no deeper", () => {
    const nested = (depth: number) => `${"[".repeat(depth)}1${"]".repeat(depth)}`
    const parses = (text: string) => Effect.runSync(Effect.isSuccess(ProtocolDocument.parse(text)))
    expect([256, 257].map((depth) => parses(nested(depth)))).toEqual([true, false])
  })
})
