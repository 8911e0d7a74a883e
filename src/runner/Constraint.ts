/**
 * What the protocol's schemas are built of. JSON Schema counts code points where JavaScript counts UTF-16 units, takes every
 * whole number for an integer, and leaves what it checked as it was; these building blocks do the same, so that a Schema here
 * and the JSON Schema of the same name give one verdict.
 *
 * @module
 */
import { Either, Option, ParseResult, Predicate, Schema, SchemaAST } from "effect"
import * as CanonicalJson from "./CanonicalJson.js"

/** An object of JSON whose members nobody has looked at. */
export interface JsonObject {
  readonly [member: string]: unknown
}

export const JsonObject = Schema.declare((value: unknown): value is JsonObject => Predicate.isRecord(value), {
  identifier: "JsonObject",
  description: "an object"
})

/** Any value of JSON, as long as there is one: a member of this kind may be `null`, but not missing. */
export const json: Schema.Schema<unknown> = Schema.declare((value: unknown): value is unknown => value !== undefined, {
  description: "a JSON value"
})

export interface Lengths {
  readonly min?: number
  readonly max?: number
}

const within = (length: number, { max = Number.POSITIVE_INFINITY, min = 0 }: Lengths) => length >= min && length <= max

/** Counts code points; only where the count of units does not already decide it. */
const hasLength = (text: string, lengths: Lengths): boolean => {
  if (text.length < (lengths.min ?? 0) || text.length > 2 * (lengths.max ?? Number.POSITIVE_INFINITY)) return false
  let points = 0
  for (const _ of text) points++
  return within(points, lengths)
}

const range = ({ max, min }: Lengths, unit: string): string => {
  if (max === undefined) return `at least ${min} ${unit}`
  return min === undefined ? `at most ${max} ${unit}` : `${min} to ${max} ${unit}`
}

/** A string of so many code points. */
export const text = (lengths: Lengths): Schema.Schema<string> =>
  Schema.String.pipe(
    Schema.filter((value) => hasLength(value, lengths), {
      description: `a string of ${range(lengths, "characters")}`
    })
  )

/** A string that matches a pattern, and has so many code points. */
export const pattern = (expression: RegExp, lengths: Lengths = {}): Schema.Schema<string> =>
  Schema.String.pipe(
    Schema.filter((value) => hasLength(value, lengths) && expression.test(value), {
      description: `a string that matches ${expression.source}${Predicate.isNullable(lengths.max) ? "" : ` and has ${range(lengths, "characters")}`}`
    })
  )

/** An id that other systems keep: letters, digits, `.`, `_`, `:` and `-`, the first a letter or a digit. */
export const stableId = (max: number): Schema.Schema<string> =>
  pattern(/^[A-Za-z0-9][A-Za-z0-9._:-]*$/u, { min: 1, max })

/** A word of the protocol's vocabulary that may grow: a lower-case letter first. */
export const stableCode: Schema.Schema<string> = pattern(/^[a-z][a-z0-9_.:-]*$/u, { min: 1, max: 160 })

/** Relative, without a `..` segment. Empty is relative. */
export const safePath: Schema.Schema<string> = pattern(/^(?!\/)(?!.*(?:^|\/)\.\.(?:\/|$)).*$/u, { max: 4096 })

/** As `safePath`, of one to 1,024 characters. */
export const workspacePath: Schema.Schema<string> = pattern(/^(?!\/)(?!.*(?:^|\/)\.\.(?:\/|$)).+$/u, {
  min: 1,
  max: 1024
})

export const sha256: Schema.Schema<string> = pattern(/^sha256:[a-f0-9]{64}$/u)

/** `YYYY-MM-DDTHH:MM:SS`, then exactly three digits of a second or none, then `Z`. The calendar is not looked at (facts 1). */
export const dateTime: Schema.Schema<string> = Schema.String.pipe(
  Schema.filter((value) => /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{3})?Z$/.test(value), {
    description: "a time of the form 2026-01-31T12:00:00Z or 2026-01-31T12:00:00.000Z"
  })
)

/** Not `Schema.Int`, which refuses what is above 2^53; JSON Schema knows no such bound. */
export const integer = ({ max = Number.POSITIVE_INFINITY, min = Number.NEGATIVE_INFINITY }: Lengths = {}) => {
  const lower = min === Number.NEGATIVE_INFINITY ? "" : ` of at least ${min}`
  return Schema.Number.pipe(
    Schema.filter((value) => Number.isInteger(value) && value >= min && value <= max, {
      description: `a whole number${lower}${max === Number.POSITIVE_INFINITY ? "" : ` and at most ${max}`}`
    })
  )
}

/** JSON has no infinity, but `1e400` is read as one. */
export const number = ({ min = Number.NEGATIVE_INFINITY }: Pick<Lengths, "min"> = {}) =>
  Schema.Number.pipe(
    Schema.filter((value) => Number.isFinite(value) && value >= min, {
      description: min === Number.NEGATIVE_INFINITY ? "a number" : `a number of at least ${min}`
    })
  )

export const optional = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { exact: true })

/** An array of so many items. */
export const items = <A, I>(
  item: Schema.Schema<A, I>,
  lengths: Lengths
): Schema.Schema<ReadonlyArray<A>, ReadonlyArray<I>> =>
  Schema.Array(item).pipe(
    Schema.filter((values) => within(values.length, lengths), {
      description: `an array of ${range(lengths, "items")}`
    })
  )

/** Of values as they came: what a schema makes of them lacks the members that it does not know. */
const distinct = Schema.declare(
  (values: unknown): values is ReadonlyArray<unknown> =>
    Array.isArray(values) && new Set(values.map(CanonicalJson.stringify)).size === values.length,
  { description: "an array whose items all differ" }
)

/** An array whose items all differ, members of objects in any order. */
export const uniqueItems = <A, I>(item: Schema.Schema<A, I>): Schema.Schema<ReadonlyArray<A>> =>
  allOf<ReadonlyArray<A>>([Schema.Array(item), distinct], { description: "an array" })

/** An object with these members and any others. */
export const open = <Fields extends Schema.Struct.Fields>(fields: Fields): Schema.Struct<Fields> =>
  Schema.Struct(fields).annotations({ parseOptions: { onExcessProperty: "ignore" } })

/** An object with these members and no others. */
export const closed = <Fields extends Schema.Struct.Fields>(fields: Fields): Schema.Struct<Fields> =>
  Schema.Struct(fields).annotations({ parseOptions: { onExcessProperty: "error" } })

/**
 * Checks, and gives the value itself. What Schema builds would lack the members that it does not know, which a consumer keeps
 * (facts 3), and would turn a member called `__proto__` into a prototype.
 */
export const verbatim = <A>(schema: Schema.Schema.AnyNoContext, identifier: string): Schema.Schema<A> =>
  allOf<A>([schema], { identifier })

/** All of the schemas hold for the value, which is given as it is. */
export const allOf = <A>(
  schemas: ReadonlyArray<Schema.Schema.AnyNoContext>,
  annotations: Schema.Annotations.Schema<A> = {}
): Schema.Schema<A> => {
  const checks = schemas.map((schema) => ParseResult.validateEither(schema))
  const check = () => (value: unknown, options: SchemaAST.ParseOptions, ast: SchemaAST.Declaration) => {
    const [first, ...rest] = checks.flatMap((validate) => Option.toArray(Either.getLeft(validate(value, options))))
    if (first === undefined) return ParseResult.succeed(value as A)
    return ParseResult.fail(rest.length === 0 ? first : new ParseResult.Composite(ast, value, [first, ...rest]))
  }
  return Schema.declare([], { decode: check, encode: check }, annotations)
}

/** More are not for a message. */
const listedMembers = 20

/** How a schema calls what it takes, for messages. */
export const describe = (ast: SchemaAST.AST): string => {
  const described = SchemaAST.getDescriptionAnnotation(ast)
  switch (ast._tag) {
    case "Literal":
      return JSON.stringify(ast.literal)
    case "Union": {
      const members = [...new Set(ast.types.map(describe))]
      if (members.length > listedMembers) return `one of the ${members.length} that the schema lists`
      return members.length === 1 ? `${members[0]}` : `one of ${members.join(", ")}`
    }
    case "TypeLiteral":
      return "an object"
    case "TupleType":
      return "an array"
    case "StringKeyword":
      return "a string"
    case "BooleanKeyword":
      return "true or false"
    case "NumberKeyword":
      return "a number"
    case "Refinement":
      return Option.getOrElse(described, () => describe(ast.from))
    default:
      return Option.getOrElse(described, () => "an object")
  }
}
