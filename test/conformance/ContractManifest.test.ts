import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import * as ContractFixture from "../../src/conformance/ContractFixture.js"
import * as ContractManifest from "../../src/conformance/ContractManifest.js"
import * as FixtureManifest from "../../src/conformance/FixtureManifest.js"
import * as JsonSchemaSet from "../../src/conformance/JsonSchemaSet.js"
import * as Fixtures from "../support/Fixtures.js"
import * as RunDocuments from "../support/RunDocuments.js"
import { check } from "../support/Seed.js"

const file = (path: string, content: unknown): FixtureManifest.File => ({
  path,
  bytes: new TextEncoder().encode(typeof content === "string" ? content : JSON.stringify(content))
})

/** The published directory, which the tests break. */
const published = Effect.runSync(
  Effect.cached(
    FixtureManifest.readFiles(`${Fixtures.directory}/runner`).pipe(Effect.provide(NodeContext.layer), Effect.orDie)
  )
)

/** Their manifest is right, so that only what is broken is told. */
const listed = (files: ReadonlyArray<FixtureManifest.File>) =>
  Effect.map(ContractManifest.make(files), (manifest) => [
    ...files.filter(({ path }) => path !== ContractManifest.fileName),
    file(ContractManifest.fileName, ContractManifest.format(manifest))
  ])

/** The published schemas and these fixtures. */
const withFixtures = (...fixtures: ReadonlyArray<FixtureManifest.File>) =>
  Effect.flatMap(published, (files) =>
    listed([...files.filter(({ path }) => path.startsWith("schemas/")), ...fixtures])
  )

const violations = (...fixtures: ReadonlyArray<FixtureManifest.File>) =>
  Effect.map(Effect.flatMap(withFixtures(...fixtures), ContractManifest.check), (found) =>
    found.map(({ code, path, problem }) => [code, path, problem])
  )

const replay = "fixtures/replay/run.json"
const rejected = "fixtures/replay/unsupported-required-version.json"
const questions = "fixtures/questions/codex.json"
const input = "fixtures/conformance-minimal-run.json"
const output = "fixtures/conformance-expected-output.json"

const codex = (more: object = {}) => ({
  schema: "paperclip.question_adapter_fixture.v1",
  adapter: "codex",
  nativeRequest: { method: "item/tool/requestUserInput" },
  canonicalQuestionSet: {
    schema: "paperclip.question_set.v1",
    questions: [
      {
        id: "q1",
        prompt: "Where to?",
        required: true,
        answerMode: "single_select",
        options: [{ id: "here", label: "Here" }]
      }
    ]
  },
  canonicalResponse: { schema: "paperclip.question_response.v1", answers: { q1: { selectedOptionIds: ["here"] } } },
  nativeResponse: {},
  ...more
})

const run = (more: object = {}) => ({
  schemaVersion: "paperclip.runner.conformance.fixture.v1",
  run: { runId: "r1", sessionId: "s1", companyId: "c1", issueId: "i1", agentId: "a1" },
  events: [
    { eventId: "e1", runId: "r1", sequence: 1, type: "run.started" },
    { eventId: "e2", runId: "r1", sequence: 2, type: "run.completed" }
  ],
  result: { runId: "r1", status: "succeeded", summary: "Done." },
  ...more
})

const answer = (more: object = {}) => ({
  schemaVersion: "paperclip.runner.conformance.output.v1",
  runIdentity: { runId: "r1", sessionId: "s1" },
  result: { status: "succeeded", summary: "Done." },
  ...more
})

describe("ContractManifest", () => {
  it.effect("lists schemas and fixtures in the public layout: order, cases and what is to be rejected", () =>
    Effect.gen(function* () {
      const manifest = yield* ContractManifest.make([
        file("fixtures/replay/happy-path.json", "a"),
        file("fixtures/replay/golden/happy-path.summary.json", "a"),
        file("fixtures/replay/failed-run.json", "a"),
        file("fixtures/replay/Zero.json", "a"),
        file(rejected, "a"),
        file("fixtures/replay/unknown-optional-fields.json", "a"),
        file(questions, "a"),
        file("fixtures/local-runner/scripts/happy-path.json", "a"),
        file(input, "a"),
        file(output, "a"),
        file("fixtures/README.md", "a"),
        file("schemas/b.schema.json", { $id: "b" }),
        file("schemas/b-v2.schema.json", { $id: "b2" }),
        file("manifest.json", "{}"),
        file("other.json", "{}")
      ])
      expect(manifest.schemas.map(({ id, path }) => [path, id])).toEqual([
        ["schemas/b-v2.schema.json", "b2"],
        ["schemas/b.schema.json", "b"]
      ])
      expect(manifest.fixtures.map((entry) => [entry.path, entry.expectation, entry.compatibilityCase])).toEqual([
        [output, "accept", "cross-language-output"],
        [input, "accept", "cross-language-input"],
        ["fixtures/local-runner/scripts/happy-path.json", "accept", "canonical"],
        [questions, "accept", "codex-structured-input"],
        ["fixtures/replay/Zero.json", "accept", "canonical"],
        ["fixtures/replay/failed-run.json", "accept", "canonical"],
        ["fixtures/replay/golden/happy-path.summary.json", "accept", "deterministic-replay-oracle"],
        ["fixtures/replay/happy-path.json", "accept", "canonical"],
        ["fixtures/replay/unknown-optional-fields.json", "accept", "additive-optional-fields"],
        [rejected, "reject", "unknown-required-version"]
      ])
      // printf a | sha256sum
      expect(manifest.fixtures[0]?.sha256).toBe("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")
      const text = ContractManifest.format(manifest)
      expect(text).toMatch(/^{\n {2}"schema": "paperclip\.prp\.contract_manifest\.v1",\n {2}"protocolVersion": 1,\n/)
      expect(text.endsWith("\n}\n")).toBe(true)
      expect(yield* ContractManifest.decode(text)).toEqual(manifest)
    })
  )

  it.effect("refuses the manifest of a later version", () =>
    Effect.gen(function* () {
      const text = ContractManifest.format(yield* ContractManifest.make([]))
      const later = text.replace('"protocolVersion": 1', '"protocolVersion": 2')
      expect((yield* Effect.flip(ContractManifest.decode(later))).message).toContain("protocolVersion: ")
    })
  )

  it.effect("names a schema file without an id", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(ContractManifest.make([file("schemas/a.json", "{"), file("schemas/b.json", {})]))
      expect(error.violations.map(({ code, path }) => [code, path])).toEqual([
        ["invalid_json", "schemas/a.json"],
        ["invalid_schema_id", "schemas/b.json"]
      ])
    })
  )

  it.effect("finds nothing wrong with the published directory", () =>
    Effect.gen(function* () {
      expect(yield* ContractManifest.check(yield* published)).toEqual([])
    })
  )

  it.effect("finds a changed byte, a missing manifest and a file that is not listed", () =>
    Effect.gen(function* () {
      const files = yield* published
      const drift = [{ code: "manifest_drift", path: "manifest.json" }]
      const changed = files.map(({ bytes, path }) =>
        path === output ? { path, bytes: new Uint8Array([...bytes, 10]) } : { path, bytes }
      )
      for (const broken of [
        changed,
        files.filter(({ path }) => path !== "manifest.json"),
        [...files, file("fixtures/local-runner/scripts/new.json", "{}")]
      ]) {
        expect(yield* ContractManifest.check(broken)).toMatchObject(drift)
      }
    })
  )

  it.effect("reports what is wrong with the schemas, once, and then looks at no fixture", () =>
    Effect.gen(function* () {
      const broken = (yield* published).map((found) =>
        found.path === "schemas/identity.schema.json" ? file(found.path, "{") : found
      )
      const found = yield* ContractManifest.check([...broken, file(replay, "{")])
      expect(found.map(({ code, path }) => [code, path])).toEqual([
        ["invalid_json", "schemas/identity.schema.json"],
        ["unresolved_schema_reference", "schemas/fixture.schema.json"]
      ])
    })
  )

  it.effect("takes fixtures that are as they have to be, and looks at no golden and no script", () =>
    Effect.gen(function* () {
      const found = yield* violations(
        file(replay, RunDocuments.fixture()),
        file(rejected, RunDocuments.fixture({ protocolVersion: 2 })),
        file(questions, codex()),
        file(input, run()),
        file(output, answer()),
        file("fixtures/replay/golden/run.snapshot.json", "{"),
        file("fixtures/local-runner/scripts/run.json", "{")
      )
      expect(found).toEqual([])
    })
  )

  const replayed = (code: string, more: object, at: string) => [code, RunDocuments.fixture(more), at] as const

  for (const [code, document, problem] of [
    ["invalid_fixture", [], "at /commands, it must be an array"],
    replayed("unsupported_required_version", { protocolVersion: 2 }, "at /protocolVersion, it must be 1"),
    replayed("unsupported_required_version", { fixtureVersion: "1" }, "at /fixtureVersion, it must be 1"),
    replayed(
      "unsupported_required_version",
      { events: [RunDocuments.event(1, "turn.started", {}, { schemaVersion: 2 })] },
      "at /events/0/schemaVersion, it must be 1"
    ),
    replayed("unsupported_required_schema", { schema: "x" }, 'at /schema, it must be "paperclip.prp.fixture.v1"'),
    replayed(
      "unsupported_required_schema",
      { identity: { ...RunDocuments.identity, schema: "x" } },
      'at /identity/schema, it must be "paperclip.prp.identity.v1"'
    ),
    replayed(
      "unsupported_required_schema",
      { capabilities: { ...RunDocuments.capabilities, schema: "x" } },
      'at /capabilities/schema, it must be "paperclip.prp.capabilities.v1"'
    ),
    replayed(
      "unsupported_required_schema",
      { commands: [{ ...RunDocuments.command(1, "run.prepare"), schema: "x" }] },
      'at /commands/0/schema, it must be "paperclip.prp.command.v1"'
    ),
    replayed(
      "unsupported_required_schema",
      { events: [RunDocuments.event(1, "turn.started", {}, { schema: "x" })] },
      'at /events/0/schema, it must be "paperclip.prp.event.v1"'
    ),
    replayed(
      "unsupported_required_schema",
      { result: { ...RunDocuments.result, schema: "x" } },
      'at /result/schema, it must be "paperclip.run_result.v1"'
    )
  ] as const) {
    it.effect(`refuses a replay fixture as ${code} where, ${problem}; and the schema refuses it too`, () =>
      Effect.gen(function* () {
        const found = yield* violations(file(replay, document))
        expect(found).toContainEqual([code, replay, problem])
        expect(found.at(-1)?.[0]).toBe("schema_validation_failed")
        expect(found.at(-1)?.[2]).toMatch(/^it must be accepted: at \//)
      })
    )
  }

  it.effect("tells at most eight errors of a fixture, and nothing of what it holds", () =>
    Effect.gen(function* () {
      const events = Array.from({ length: 12 }, (_, index) => RunDocuments.event(index + 1, "secret.event"))
      const [found, ...more] = yield* violations(file(replay, RunDocuments.fixture({ events })))
      expect(more).toEqual([])
      expect(String(found?.[2]).split("; ")).toHaveLength(8)
      expect(String(found?.[2])).not.toContain("secret")
    })
  )

  it.effect("the fixture that has to be rejected is rejected for its version, and by the schema", () =>
    Effect.gen(function* () {
      expect(yield* violations(file(rejected, RunDocuments.fixture()))).toEqual([
        ["invalid_fixture", rejected, "it must ask for a version that is not supported"],
        ["schema_validation_failed", rejected, "it must be rejected: the schema takes it"]
      ])
      expect(yield* violations(file(rejected, RunDocuments.fixture({ schema: "x" })))).toEqual([
        ["invalid_fixture", rejected, "it must ask for a version that is not supported"]
      ])
    })
  )

  const set = codex().canonicalQuestionSet
  const [question] = set.questions
  const response = (answers: object) => ({ canonicalResponse: { schema: "paperclip.question_response.v1", answers } })

  for (const [code, more, at] of [
    ["unsupported_provider", { adapter: "acpx" }, "/adapter"],
    ["invalid_codex_question_fixture", { schema: "x" }, "/schema"],
    [
      "invalid_codex_question_fixture",
      { canonicalQuestionSet: { ...set, schema: "x" } },
      "/canonicalQuestionSet/schema"
    ],
    ["invalid_codex_question_fixture", { canonicalResponse: { answers: {} } }, "/canonicalResponse/schema"],
    ["invalid_codex_question_fixture", response([]), "/canonicalResponse/answers"],
    ["invalid_codex_question_fixture", { nativeRequest: { method: "item/other" } }, "/nativeRequest/method"],
    [
      "invalid_codex_question_fixture",
      { canonicalQuestionSet: { ...set, questions: [] }, ...response({}) },
      "/canonicalQuestionSet/questions"
    ],
    [
      "invalid_codex_question_fixture",
      { canonicalQuestionSet: { ...set, questions: [question, question] } },
      "/canonicalQuestionSet/questions/1/id"
    ],
    [
      "invalid_codex_question_fixture",
      { canonicalQuestionSet: { ...set, questions: [{ ...question, id: "" }] }, ...response({}) },
      "/canonicalQuestionSet/questions/0/id"
    ],
    ["invalid_codex_question_fixture", response({ q2: {} }), "/canonicalResponse/answers/q2"],
    ["invalid_codex_question_fixture", response({ constructor: {} }), "/canonicalResponse/answers/constructor"],
    [
      "invalid_codex_question_fixture",
      response({ q1: { selectedOptionIds: ["here", "there"] } }),
      "/canonicalResponse/answers/q1/selectedOptionIds/1"
    ]
  ] as const) {
    it.effect(`refuses a question fixture as ${code} at ${at}`, () =>
      Effect.gen(function* () {
        const found = yield* violations(file(questions, codex(more)))
        const ofRules = found.filter(([found]) => found !== "schema_validation_failed")
        expect(ofRules).toMatchObject([[code, questions, expect.stringContaining(`at ${at}, `)]])
      })
    )
  }

  it("property: any question fixture is taken or refused, never with a defect", async () => {
    const files = await Effect.runPromise(published)
    const schemas = await Effect.runPromise(JsonSchemaSet.make(files.filter(({ path }) => path.startsWith("schemas/"))))
    await check([fc.jsonValue(), fc.jsonValue(), fc.jsonValue()], async (value, part, other) => {
      const canonicalQuestionSet = { schema: "paperclip.question_set.v1", questions: [part, other] }
      const canonicalResponse = { schema: "paperclip.question_response.v1", answers: part }
      const fixtures = [value, codex({ canonicalQuestionSet }), codex({ canonicalResponse })]
      for (const fixture of fixtures)
        await Effect.runPromise(ContractFixture.check(schemas, [file(questions, fixture)]))
    })
  })

  for (const [code, changed, at] of [
    ["unsupported_required_schema", [run({ schemaVersion: "x" }), answer()], "/schemaVersion"],
    ["unsupported_required_schema", [run(), answer({ schemaVersion: "x" })], "/schemaVersion"],
    [
      "conformance_identity_mismatch",
      [run(), answer({ runIdentity: { runId: "r2", sessionId: "s1" } })],
      "/runIdentity/runId"
    ],
    ["conformance_identity_mismatch", [run(), answer({ runIdentity: { runId: "r1" } })], "/runIdentity/sessionId"],
    [
      "invalid_conformance_event",
      [run({ events: [{ eventId: "e1", runId: "r2", sequence: 1, type: "run.started" }] }), answer()],
      "/events/0/runId"
    ],
    [
      "invalid_conformance_event",
      [run({ events: [{ eventId: "e1", runId: "r1", sequence: 2, type: "run.started" }] }), answer()],
      "/events/0/sequence"
    ],
    ["conformance_result_mismatch", [run({ result: { ...run().result, runId: "r2" } }), answer()], "/result/runId"],
    [
      "conformance_result_mismatch",
      [run(), answer({ result: { status: "failed", summary: "Done." } })],
      "/result/status"
    ],
    [
      "conformance_result_mismatch",
      [run(), answer({ result: { status: "succeeded", summary: "No." } })],
      "/result/summary"
    ]
  ] as const) {
    it.effect(`refuses a cross-language run as ${code} at ${at}`, () =>
      Effect.gen(function* () {
        const found = yield* violations(file(input, changed[0]), file(output, changed[1]))
        const ofRules = found.filter(([found]) => found !== "schema_validation_failed")
        expect(ofRules).toMatchObject([[code, expect.any(String), expect.stringContaining(`at ${at}, `)]])
      })
    )
  }

  it.effect("an output that names no session fails its schema", () =>
    Effect.gen(function* () {
      expect(yield* violations(file(output, answer({ runIdentity: { runId: "r1" } })))).toEqual([
        [
          "schema_validation_failed",
          output,
          "it must be accepted: at /runIdentity, must have required property 'sessionId'"
        ]
      ])
    })
  )

  it.effect("names a fixture that is no JSON, and one whose schema is not there", () =>
    Effect.gen(function* () {
      expect(yield* violations(file(replay, "{"))).toMatchObject([["invalid_json", replay, expect.any(String)]])
      expect(yield* ContractManifest.check(yield* listed([file(replay, RunDocuments.fixture())]))).toMatchObject([
        {
          code: "missing_schema_validator",
          path: replay,
          problem: "https://paperclip.dev/schemas/prp/v1/fixture.schema.json: no schema file has this $id"
        }
      ])
    })
  )
})
