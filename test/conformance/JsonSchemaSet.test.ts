import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { vi } from "vitest"
import * as FixtureManifest from "../../src/conformance/FixtureManifest.js"
import * as JsonSchemaSet from "../../src/conformance/JsonSchemaSet.js"
import * as Fixtures from "../support/Fixtures.js"

const file = (path: string, content: unknown) => ({
  path,
  bytes: new TextEncoder().encode(typeof content === "string" ? content : JSON.stringify(content))
})

const schema = (name: string, more: object = {}) => ({
  $schema: JsonSchemaSet.dialect,
  $id: JsonSchemaSet.idOf(name),
  title: "A schema",
  ...more
})

const word = file("schemas/word.schema.json", schema("word", { $defs: { short: { type: "string", maxLength: 2 } } }))

/** What is wrong with a set, as the code and the file. */
const wrong = (...files: ReadonlyArray<FixtureManifest.File>) =>
  JsonSchemaSet.make(files).pipe(
    Effect.flip,
    Effect.map((error) =>
      error._tag === "ContractError" ? error.violations.map(({ code, path }) => [code, path]) : error._tag
    )
  )

const a = "schemas/a.schema.json"

describe("JsonSchemaSet", () => {
  for (const [code, what, content] of [
    ["invalid_json", "text that is no JSON", "{"],
    [
      "unsupported_schema_dialect",
      "another draft",
      { ...schema("a"), $schema: "http://json-schema.org/draft-07/schema#" }
    ],
    ["unsupported_schema_dialect", "no draft", { $id: JsonSchemaSet.idOf("a"), title: "A schema" }],
    ["invalid_schema_id", "an id of somebody else", { ...schema("a"), $id: "https://example.com/a.schema.json" }],
    ["invalid_schema_id", "an id that is no text", { ...schema("a"), $id: 1 }],
    ["missing_schema_title", "a blank title", { ...schema("a"), title: " " }],
    ["unresolved_schema_reference", "a schema that is not there", schema("a", { $ref: JsonSchemaSet.idOf("nowhere") })],
    ["unresolved_schema_reference", "a relative reference", schema("a", { items: { $ref: "word.schema.json" } })],
    [
      "unresolved_schema_fragment",
      "a definition that the other file does not have",
      schema("a", { $ref: `${JsonSchemaSet.idOf("word")}#/$defs/long` })
    ],
    [
      "unresolved_schema_fragment",
      "an inherited member",
      schema("a", { $defs: {}, not: { $ref: "#/$defs/toString" } })
    ],
    ["unresolved_schema_fragment", "a fragment that is no UTF-8", schema("a", { not: { $ref: "#/%" } })],
    ["unresolved_schema_fragment", "a fragment that is no pointer", schema("a", { not: { $ref: "#short" } })],
    ["missing_schema_validator", "a type that there is not", schema("a", { type: "text" })],
    ["missing_schema_validator", "a keyword that there is not", schema("a", { patern: "a" })],
    ["missing_schema_validator", "a pattern that is none", schema("a", { type: "string", pattern: "(" })]
  ] as const) {
    it.effect(`refuses ${what} as ${code}`, () =>
      Effect.gen(function* () {
        expect(yield* wrong(word, file(a, content))).toEqual([[code, a]])
      })
    )
  }

  it.effect("names every file at fault at once, and what must be in it", () =>
    Effect.gen(function* () {
      const files = [word, file(a, schema("word")), file("schemas/b.schema.json", {})]
      const error = yield* Effect.flip(JsonSchemaSet.make(files))
      expect(error.message.split("\n")).toEqual([
        "unsupported_schema_dialect: schemas/b.schema.json: $schema must be https://json-schema.org/draft/2020-12/schema",
        "invalid_schema_id: schemas/b.schema.json: $id must start with https://paperclip.dev/schemas/prp/v1/",
        "missing_schema_title: schemas/b.schema.json: title must say what the schema is of",
        "duplicate_schema_id: schemas/a.schema.json: $id is that of schemas/word.schema.json too"
      ])
    })
  )

  it.effect("says where a value is not what the schema asks for, and nothing of the value", () =>
    Effect.gen(function* () {
      const set = yield* JsonSchemaSet.make([
        word,
        file(a, schema("a", { items: { $ref: `${JsonSchemaSet.idOf("word")}#/$defs/short` }, type: "array" }))
      ])
      expect(set.ids).toEqual([JsonSchemaSet.idOf("word"), JsonSchemaSet.idOf("a")])
      yield* set.validate(JsonSchemaSet.idOf("a"), ["ab", "\u{1F600}\u{1F600}"])
      const error = yield* Effect.flip(set.validate(JsonSchemaSet.idOf("a"), ["secret", "a", 7]))
      expect(error).toMatchObject({
        _tag: "schema_validation",
        issues: [
          { path: "/0", message: "must NOT have more than 2 characters" },
          { path: "/2", message: "must be string" }
        ]
      })
      expect(error.message).not.toContain("secret")
      expect(yield* Effect.flip(set.validate(JsonSchemaSet.idOf("a"), {}))).toMatchObject({ issues: [{ path: "/" }] })
      const unknown = yield* Effect.flip(set.validate(JsonSchemaSet.idOf("b"), []))
      expect(unknown.message).toBe(
        "missing_schema_validator: https://paperclip.dev/schemas/prp/v1/b.schema.json: no schema file has this $id"
      )
    })
  )

  it.effect("takes times as the contract has them: no offset, three digits of a second or none, any calendar", () =>
    Effect.gen(function* () {
      const set = yield* JsonSchemaSet.make([file(a, schema("a", { type: "string", format: "date-time" }))])
      const takes = (time: string) => Effect.isSuccess(set.validate(JsonSchemaSet.idOf("a"), time))
      for (const time of ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z", "2026-99-99T99:99:99Z"]) {
        expect(yield* takes(time)).toBe(true)
      }
      for (const time of [
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T12:00:00.00Z",
        "2026-01-31t12:00:00z",
        "2026-01-31T12:00:00Z\n",
        "2026-01-31"
      ]) {
        expect(yield* takes(time)).toBe(false)
      }
    })
  )

  it.effect("tells equal items whatever their members are called", () =>
    Effect.gen(function* () {
      const set = yield* JsonSchemaSet.make([file(a, schema("a", { type: "array", uniqueItems: true }))])
      const takes = (items: string) => Effect.isSuccess(set.validate(JsonSchemaSet.idOf("a"), JSON.parse(items)))
      for (const name of ["valueOf", "toString", "constructor", "__proto__"]) {
        const item = (value: string) => `{"a":1,"${name}":${value}}`
        expect(yield* takes(`[${item("{}")},${item("[]")}]`)).toBe(true)
        expect(yield* takes(`[${item("{}")},{"${name}":{},"a":1}]`)).toBe(false)
      }
      expect(yield* takes('[1,"1",true,null,"null"]')).toBe(true)
    })
  )

  it.effect("says what to install where Ajv is not", () =>
    Effect.gen(function* () {
      // Imported anew, as where nobody has imported it yet.
      vi.resetModules()
      vi.doMock("ajv/dist/2020.js", () => {
        throw new Error("Cannot find package 'ajv'")
      })
      const error = yield* Effect.flip(JsonSchemaSet.make([word]))
      expect([error._tag, error.message]).toEqual([
        "JsonSchemaUnavailable",
        'JSON Schemas are checked by the package "ajv", which is not installed: npm install ajv@8'
      ])
    }).pipe(
      Effect.ensuring(
        Effect.sync(() => {
          vi.doUnmock("ajv/dist/2020.js")
          vi.resetModules()
        })
      )
    )
  )

  it.effect("the published schemas compile, and are those of the contract", () =>
    Effect.gen(function* () {
      const files = yield* FixtureManifest.readFiles(`${Fixtures.directory}/runner/schemas`)
      const { ids } = yield* JsonSchemaSet.make(files)
      const names = files.map(({ path }) => path.replace(".schema.json", ""))
      expect(ids).toEqual(names.map(JsonSchemaSet.idOf))
      expect(names.sort()).toEqual([
        "capabilities",
        "command",
        "conformance-fixture",
        "conformance-output",
        "event",
        "fixture",
        "identity",
        "provider-descriptor",
        "provider-event",
        "question-adapter-fixture",
        "question-response",
        "question-set",
        "request",
        "result",
        "semantic-tool",
        "stop-reason",
        "terminal",
        "usage",
        "workspace-diff",
        "workspace-file-reference"
      ])
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
