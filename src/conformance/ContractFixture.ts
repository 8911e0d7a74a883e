/**
 * What the fixtures of the runner protocol are for, told by their places in the public layout, and the contract's rules for
 * each (facts 5). The rules between the events of a replay are not among them: those are `ReplayFixture.decode`'s.
 *
 * @module
 */
import { Array as Arr, Effect, Predicate, Schema } from "effect"
import * as CodexQuestions from "../runner/CodexQuestions.js"
import * as JsonPointer from "../runner/JsonPointer.js"
import * as ProtocolDocument from "../runner/ProtocolDocument.js"
import * as ProtocolVersion from "../runner/ProtocolVersion.js"
import * as ContractViolation from "./ContractViolation.js"
import type { File } from "./File.js"
import * as JsonSchemaSet from "./JsonSchemaSet.js"

/** Whether a consumer of version 1 takes the document. */
export const Expectation = Schema.Literal("accept", "reject")
export type Expectation = typeof Expectation.Type

/** What a fixture is for. */
export interface Purpose {
  readonly expectation: Expectation
  /** `canonical` where the contract has no name for it. */
  readonly compatibilityCase: string
}

const unsupportedVersion = "fixtures/replay/unsupported-required-version.json"
export const crossLanguageInput = "fixtures/conformance-minimal-run.json"
export const crossLanguageOutput = "fixtures/conformance-expected-output.json"
const isReplay = (path: string) => /^fixtures\/replay\/[^/]+\.json$/.test(path)
const adapterOf = (path: string) => /^fixtures\/questions\/([^/]+)\.json$/.exec(path)?.[1]

const caseOf = (path: string): string => {
  if (path.startsWith("fixtures/replay/golden/")) return "deterministic-replay-oracle"
  const adapter = adapterOf(path)
  if (adapter !== undefined) return `${adapter}-structured-input`
  switch (path) {
    case unsupportedVersion:
      return "unknown-required-version"
    case "fixtures/replay/unknown-optional-fields.json":
      return "additive-optional-fields"
    case crossLanguageInput:
      return "cross-language-input"
    case crossLanguageOutput:
      return "cross-language-output"
    default:
      return "canonical"
  }
}

/** What the fixture at this path is for. The path is relative to the directory in which `fixtures` is. */
export const purpose = (path: string): Purpose => ({
  expectation: path === unsupportedVersion ? "reject" : "accept",
  compatibilityCase: caseOf(path)
})

type Violations = ReadonlyArray<ContractViolation.ContractViolation>

type Path = ReadonlyArray<PropertyKey>

const { make: violation } = ContractViolation

const at = JsonPointer.get

const elements = (value: unknown, path: Path): ReadonlyArray<unknown> => {
  const found = at(value, path)
  return Array.isArray(found) ? found : []
}

/** A rule for what is at a place, as a violation where it is not so. */
const unless = (
  holds: boolean,
  code: ContractViolation.ContractCode,
  file: string,
  path: Path,
  must: string
): Violations => (holds ? [] : [violation(code, file, `at ${JsonPointer.make(path)}, ${must}`)])

const mustEqual =
  (code: ContractViolation.ContractCode, file: string, document: unknown) =>
  (path: Path, expected: string | number): Violations =>
    unless(at(document, path) === expected, code, file, path, `it must be ${JSON.stringify(expected)}`)

/** Names and versions that a consumer has to know before it looks at anything else. One that is missing is not known either. */
const versions = (file: string, document: unknown): Violations => {
  const schema = mustEqual("unsupported_required_schema", file, document)
  const version = mustEqual("unsupported_required_version", file, document)
  const lists = ["commands", "events"]
  const notLists = lists.filter((name) => !Array.isArray(at(document, [name])))
  if (notLists.length > 0)
    return notLists.flatMap((name) => unless(false, "invalid_fixture", file, [name], "it must be an array"))
  return [
    ...version(["protocolVersion"], ProtocolVersion.supported),
    ...version(["fixtureVersion"], ProtocolVersion.supported),
    ...elements(document, ["events"]).flatMap((_, index) =>
      version(["events", index, "schemaVersion"], ProtocolVersion.supported)
    ),
    ...schema(["schema"], "paperclip.prp.fixture.v1"),
    ...schema(["identity", "schema"], "paperclip.prp.identity.v1"),
    ...schema(["capabilities", "schema"], "paperclip.prp.capabilities.v1"),
    ...elements(document, ["commands"]).flatMap((_, index) =>
      schema(["commands", index, "schema"], "paperclip.prp.command.v1")
    ),
    ...elements(document, ["events"]).flatMap((_, index) =>
      schema(["events", index, "schema"], "paperclip.prp.event.v1")
    ),
    ...schema(["result", "schema"], "paperclip.run_result.v1")
  ]
}

/** As many of the errors are told, as the contract's own checks tell. */
const toldErrors = 8

const validation = (
  schemas: JsonSchemaSet.JsonSchemaSet,
  schema: string,
  { document, path }: Parsed,
  expectation: Expectation
): Effect.Effect<Violations> =>
  schemas.validate(JsonSchemaSet.idOf(schema), document).pipe(
    Effect.as(
      expectation === "accept"
        ? []
        : [violation("schema_validation_failed", path, "it must be rejected: the schema takes it")]
    ),
    Effect.catchTags({
      schema_validation: ({ issues }) => {
        const told = issues.slice(0, toldErrors).map(({ message, path }) => `at ${path}, ${message}`)
        return Effect.succeed(
          expectation === "reject"
            ? []
            : [violation("schema_validation_failed", path, `it must be accepted: ${told.join("; ")}`)]
        )
      },
      ContractError: ({ violations }) =>
        Effect.succeed<Violations>(
          violations.map(({ code, path: id, problem }) => violation(code, path, `${id}: ${problem}`))
        )
    })
  )

/** The fixture that has to be rejected is rejected for a version, whatever else is wrong with it. */
const rejection = (file: string, found: Violations): Violations =>
  found.some(({ code }) => code === "unsupported_required_version")
    ? []
    : [violation("invalid_fixture", file, "it must ask for a version that is not supported")]

/** The questions of Codex, the one provider of version 1: the rules that its schema does not have. */
const codexQuestions = (file: string, document: unknown): Violations => {
  const code = "invalid_codex_question_fixture"
  const equal = mustEqual(code, file, document)
  const questionsAt = ["canonicalQuestionSet", "questions"]
  const questions = elements(document, questionsAt)
  const ids = questions.map((question) => at(question, ["id"]))
  const answersAt = ["canonicalResponse", "answers"]
  const answers = at(document, answersAt)
  const optionsOf = (id: string) =>
    elements(questions[ids.indexOf(id)], ["options"]).map((option) => at(option, ["id"]))
  return [
    ...mustEqual("unsupported_provider", file, document)(["adapter"], "codex"),
    ...equal(["schema"], "paperclip.question_adapter_fixture.v1"),
    ...equal(["canonicalQuestionSet", "schema"], "paperclip.question_set.v1"),
    ...equal(["canonicalResponse", "schema"], "paperclip.question_response.v1"),
    ...equal(["nativeRequest", "method"], CodexQuestions.method),
    ...unless(questions.length > 0, code, file, questionsAt, "there must be a question"),
    ...ids.flatMap((id, index) =>
      unless(
        typeof id === "string" && id !== "" && ids.indexOf(id) === index,
        code,
        file,
        [...questionsAt, index, "id"],
        "it must be a string that is not empty, and no other question's"
      )
    ),
    ...unless(Predicate.isRecord(answers), code, file, answersAt, "it must be an object"),
    ...Object.keys(Predicate.isRecord(answers) ? answers : {}).flatMap((id) => [
      ...unless(ids.includes(id), code, file, [...answersAt, id], "the answer must be to one of the questions"),
      ...elements(answers, [id, "selectedOptionIds"]).flatMap((option, index) =>
        unless(
          optionsOf(id).includes(option),
          code,
          file,
          [...answersAt, id, "selectedOptionIds", index],
          "it must be an option of the question"
        )
      )
    ])
  ]
}

/** Input and output of the run that implementations in different languages agree on. */
const pair = (input: Parsed, output: Parsed): Violations => {
  const run = (name: string) => at(input.document, ["run", name])
  const same = (code: ContractViolation.ContractCode, file: Parsed, path: Path, expected: unknown, whose: string) =>
    unless(at(file.document, path) === expected, code, file.path, path, `it must be ${whose}`)
  const result = (name: string) => at(input.document, ["result", name])
  return [
    ...mustEqual(
      "unsupported_required_schema",
      input.path,
      input.document
    )(["schemaVersion"], "paperclip.runner.conformance.fixture.v1"),
    ...mustEqual(
      "unsupported_required_schema",
      output.path,
      output.document
    )(["schemaVersion"], "paperclip.runner.conformance.output.v1"),
    ...["runId", "sessionId"].flatMap((name) =>
      same("conformance_identity_mismatch", output, ["runIdentity", name], run(name), "that of the input's run")
    ),
    ...elements(input.document, ["events"]).flatMap((_, index) => [
      ...same("invalid_conformance_event", input, ["events", index, "runId"], run("runId"), "that of the run"),
      ...same("invalid_conformance_event", input, ["events", index, "sequence"], index + 1, `${index + 1}`)
    ]),
    ...same("conformance_result_mismatch", input, ["result", "runId"], run("runId"), "that of the run"),
    ...["status", "summary"].flatMap((name) =>
      same("conformance_result_mismatch", output, ["result", name], result(name), "that of the input")
    )
  ]
}

interface Parsed {
  readonly path: string
  readonly document: unknown
}

const parse = ({ bytes, path }: File) =>
  ProtocolDocument.parse(bytes).pipe(
    Effect.map((document): Parsed => ({ path, document })),
    Effect.mapError((error) => violation("invalid_json", path, error.message))
  )

/** Which schema the fixture declares, where there is one for its kind. Goldens and scripts have none (facts 5). */
const schemaOf = (path: string): string | undefined => {
  if (isReplay(path)) return "fixture"
  if (adapterOf(path) !== undefined) return "question-adapter-fixture"
  if (path === crossLanguageInput) return "conformance-fixture"
  return path === crossLanguageOutput ? "conformance-output" : undefined
}

/**
 * Checks the fixtures among the files against their schemas and the contract's rules; an empty result means that all of them
 * are as they have to be. Goldens and scripts are not looked at: no schema is declared for them.
 */
export const check = Effect.fn("ContractFixture.check")(function* (
  schemas: JsonSchemaSet.JsonSchemaSet,
  files: ReadonlyArray<File>
) {
  const parsed = yield* Effect.forEach(
    files.filter(({ path }) => schemaOf(path) !== undefined),
    (file) => Effect.either(parse(file))
  )
  const fixtures = Arr.getRights(parsed)
  const single = yield* Effect.forEach(fixtures, (fixture) => {
    const { document, path } = fixture
    const { expectation } = purpose(path)
    const found = isReplay(path) ? versions(path, document) : []
    const questions = adapterOf(path) === undefined ? [] : codexQuestions(path, document)
    return Effect.map(validation(schemas, schemaOf(path) ?? "", fixture, expectation), (invalid) => [
      ...(expectation === "reject" ? rejection(path, found) : found),
      ...questions,
      ...invalid
    ])
  })
  const input = fixtures.find(({ path }) => path === crossLanguageInput)
  const output = fixtures.find(({ path }) => path === crossLanguageOutput)
  return [
    ...Arr.getLefts(parsed),
    ...single.flat(),
    ...(input === undefined || output === undefined ? [] : pair(input, output))
  ]
})
