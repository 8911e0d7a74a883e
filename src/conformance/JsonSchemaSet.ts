/**
 * The JSON Schemas of a directory as one set that documents are checked against.
 *
 * They are compiled by Ajv, an optional peer of this package, with the settings of the contract's own checks (facts 1). A
 * schema is trusted: its patterns are run as they are.
 *
 * @module
 */
import { Array as Arr, Effect, Either, Option, Predicate, Schema } from "effect"
import * as CanonicalJson from "../runner/CanonicalJson.js"
import * as ProtocolDocument from "../runner/ProtocolDocument.js"
import * as ProtocolError from "../runner/ProtocolError.js"
import * as ContractViolation from "./ContractViolation.js"
import type { File } from "./File.js"

/** The draft that every schema has to be written in. */
export const dialect = "https://json-schema.org/draft/2020-12/schema"

const prefix = "https://paperclip.dev/schemas/prp/v1/"

/** The id of the schema with this name: that of `identity` ends in `/identity.schema.json`. */
export const idOf = (name: string): string => `${prefix}${name}.schema.json`

/** The package that compiles JSON Schemas is not installed. */
export class JsonSchemaUnavailable extends Schema.TaggedError<JsonSchemaUnavailable>()("JsonSchemaUnavailable", {}) {
  override get message(): string {
    return 'JSON Schemas are checked by the package "ajv", which is not installed: npm install ajv@8'
  }
}

/** Schemas that refer to nothing outside the set. */
export interface JsonSchemaSet {
  /** The `$id` of every schema. */
  readonly ids: ReadonlyArray<string>
  /**
   * Checks a value against the schema with this id. Fails with `schema_validation`, every issue of it, or, where no schema
   * has the id, with `ContractError`.
   */
  readonly validate: (
    id: string,
    value: unknown
  ) => Effect.Effect<void, ProtocolError.SchemaValidation | ContractViolation.ContractError>
}

interface SchemaFile {
  readonly path: string
  readonly id: string
  readonly schema: Readonly<Record<string, unknown>>
}

const { make: violation } = ContractViolation

const parse = ({ bytes, path }: File): Effect.Effect<SchemaFile, ReadonlyArray<ContractViolation.ContractViolation>> =>
  ProtocolDocument.parse(bytes).pipe(
    Effect.mapError((error) => [violation("invalid_json", path, error.message)]),
    Effect.flatMap((value) => {
      const schema = Predicate.isRecord(value) ? value : {}
      const { $id: id, $schema, title } = schema
      const hasId = typeof id === "string" && id.startsWith(prefix)
      const violations = [
        ...($schema === dialect ? [] : [violation("unsupported_schema_dialect", path, `$schema must be ${dialect}`)]),
        ...(hasId ? [] : [violation("invalid_schema_id", path, `$id must start with ${prefix}`)]),
        ...(typeof title === "string" && title.trim() !== ""
          ? []
          : [violation("missing_schema_title", path, "title must say what the schema is of")])
      ]
      return violations.length > 0 || !hasId ? Effect.fail(violations) : Effect.succeed({ path, id, schema })
    })
  )

const duplicates = (files: ReadonlyArray<SchemaFile>) =>
  files.flatMap(({ id, path }, index) => {
    const first = files.findIndex((other) => other.id === id)
    return first === index ? [] : [violation("duplicate_schema_id", path, `$id is that of ${files[first]?.path} too`)]
  })

const references = (schema: unknown): ReadonlyArray<string> => {
  if (Array.isArray(schema)) return schema.flatMap(references)
  if (!Predicate.isRecord(schema)) return []
  return Object.entries(schema).flatMap(([keyword, value]) =>
    keyword === "$ref" && typeof value === "string" ? [value] : references(value)
  )
}

const decodePointer = Option.liftThrowable((fragment: string) =>
  decodeURIComponent(fragment)
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"))
)

/** Whether a fragment, which must be a JSON pointer, leads to something in the schema. */
const leadsSomewhere = (schema: unknown, fragment: string): boolean => {
  if (fragment === "") return true
  if (!fragment.startsWith("/")) return false
  return Option.match(decodePointer(fragment), {
    onNone: () => false,
    onSome: (steps) => {
      let value = schema
      for (const step of steps) {
        if (!Predicate.isObject(value) || !Object.hasOwn(value, step)) return false
        value = Reflect.get(value, step)
      }
      return true
    }
  })
}

const unresolved = (files: ReadonlyArray<SchemaFile>) => {
  const schemas = new Map(files.map(({ id, schema }) => [id, schema]))
  return files.flatMap(({ id, path, schema }) =>
    references(schema).flatMap((reference) => {
      const [target = "", fragment = ""] = reference.split("#", 2)
      const found = schemas.get(target === "" ? id : target)
      if (found === undefined) {
        return [violation("unresolved_schema_reference", path, `no schema of the set has the id ${target}`)]
      }
      return leadsSomewhere(found, fragment)
        ? []
        : [violation("unresolved_schema_fragment", path, `${reference} leads to nothing`)]
    })
  )
}

/** The contract's own: no offset, and three digits of a second or none. The calendar is not looked at. */
const dateTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{3})?Z$/

const makeAjv = Effect.tryPromise({
  try: () => import("./Ajv.js"),
  catch: () => new JsonSchemaUnavailable()
}).pipe(
  Effect.map(({ Ajv2020 }) => {
    const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false, logger: false })
    ajv.addFormat("date-time", dateTime)
    // Ajv's own calls what members named `valueOf` and `toString` hold, and takes equal items with one named `constructor`
    // for different.
    ajv.removeKeyword("uniqueItems")
    return ajv.addKeyword({
      keyword: "uniqueItems",
      type: "array",
      schemaType: "boolean",
      error: { message: "must not have an item twice" },
      validate: (unique: boolean, items: ReadonlyArray<unknown>) =>
        !unique || new Set(items.map(CanonicalJson.stringify)).size === items.length
    })
  })
)

const failOnAny = (violations: ReadonlyArray<ContractViolation.ContractViolation>) =>
  Arr.isNonEmptyReadonlyArray(violations)
    ? Effect.fail(new ContractViolation.ContractError({ violations }))
    : Effect.void

/**
 * Checks the schema files (dialect, id, title, references) and compiles them. Fails with `ContractError`, which names each
 * file that is at fault and what must be in it, or with `JsonSchemaUnavailable`.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { FixtureManifest, JsonSchemaSet } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function* () {
 *   const files = yield* FixtureManifest.readFiles("node_modules/effect-agent-contracts/fixtures/runner/schemas")
 *   const schemas = yield* JsonSchemaSet.make(files)
 *   return yield* Effect.flip(schemas.validate(JsonSchemaSet.idOf("terminal"), { schema: "paperclip.prp.terminal.v1" }))
 * })
 *
 * Effect.runPromise(program.pipe(Effect.provide(NodeContext.layer))).then((error) => console.log(error._tag)) // schema_validation
 * ```
 */
export const make = Effect.fn("JsonSchemaSet.make")(function* (files: ReadonlyArray<File>) {
  const parsed = yield* Effect.forEach(files, (file) => Effect.either(parse(file)))
  const schemas = Arr.getRights(parsed)
  yield* failOnAny([...Arr.getLefts(parsed).flat(), ...duplicates(schemas), ...unresolved(schemas)])

  const ajv = yield* makeAjv
  const attempt = <A>(path: string, use: () => A) =>
    Either.try({
      try: use,
      catch: (cause) =>
        violation("missing_schema_validator", path, Predicate.isError(cause) ? cause.message : "it does not compile")
    })
  // All are there before the first is compiled, since they refer to one another.
  yield* failOnAny(Arr.getLefts(schemas.map(({ path, schema }) => attempt(path, () => ajv.addSchema(schema)))))
  const compiled = schemas.map(({ id, path }) => attempt(path, () => [id, ajv.getSchema(id)] as const))
  yield* failOnAny(Arr.getLefts(compiled))
  const validators = new Map(Arr.getRights(compiled))

  const validate: JsonSchemaSet["validate"] = (id, value) =>
    Effect.gen(function* () {
      const validator = validators.get(id)
      if (validator === undefined) {
        const violations = [violation("missing_schema_validator", id, "no schema file has this $id")] as const
        return yield* new ContractViolation.ContractError({ violations })
      }
      if (validator(value) === true) return
      const issues = (validator.errors ?? []).map(({ instancePath, message = "must be another value" }) => ({
        path: instancePath === "" ? "/" : instancePath,
        message
      }))
      if (!Arr.isNonEmptyReadonlyArray(issues)) return yield* Effect.dieMessage("Ajv refused a value without an error")
      return yield* new ProtocolError.SchemaValidation({ issues })
    })
  const set: JsonSchemaSet = { ids: schemas.map(({ id }) => id), validate }
  return set
})
