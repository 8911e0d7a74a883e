/**
 * Documents that are made of a JSON Schema alone: valid ones, ones at and across its bounds, and ones changed afterwards. Which
 * implementation of the schema is right is not known here.
 */
import * as fc from "fast-check"

export interface JsonSchema {
  readonly $id?: string
  readonly $ref?: string
  readonly const?: unknown
  readonly enum?: ReadonlyArray<unknown>
  readonly type?: string | ReadonlyArray<string>
  readonly properties?: { readonly [name: string]: JsonSchema }
  readonly required?: ReadonlyArray<string>
  readonly additionalProperties?: boolean | JsonSchema
  readonly propertyNames?: JsonSchema
  readonly items?: JsonSchema
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly allOf?: ReadonlyArray<JsonSchema>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly oneOf?: ReadonlyArray<JsonSchema>
  readonly if?: JsonSchema
  readonly then?: JsonSchema
  readonly not?: JsonSchema
}

/** `edges` also has values at and just across the bounds, of which a document has one or two. */
export type Mode = "valid" | "edges"

const times = (count: number, item: string) => item.repeat(Math.max(0, count))
const points = (text: string) => [...text].length

/** Texts that one pattern or another takes, and ones that few take. */
const words = [
  "a",
  "a1",
  "A1._:-",
  "a.b_c-1",
  "a:b",
  "src/a b/c.ts",
  "..a/b..",
  "https://example.com/a",
  `sha256:${times(64, "0f").slice(0, 64)}`,
  "2026-01-31T12:00:00Z",
  "2026-01-31T12:00:00.123Z"
]
const oddWords = [
  "",
  " ",
  ".a",
  "/a",
  "..",
  "a/../b",
  "a/..",
  "a\n",
  "a\nb",
  "a\u2028b",
  "é",
  "\ud800",
  "\u{1f600}",
  "http:/a",
  "HTTPS://a",
  `sha256:${times(64, "F")}`,
  `sha256:${times(65, "f")}`,
  "2026-01-31T12:00:00+00:00",
  "2026-01-31T12:00:00.1Z",
  "2026-13-99T99:99:99Z",
  "2026-01-31"
]
const numbers = [
  0,
  -0,
  1,
  -1,
  2,
  0.5,
  1.5,
  1e300,
  -1e300,
  2 ** 53 - 1,
  2 ** 53,
  99_999,
  100_000,
  100_001,
  Number.MIN_VALUE
]

/** Not what most schemas ask for. */
const others: ReadonlyArray<unknown> = [
  null,
  true,
  false,
  "",
  "unknown",
  "paperclip.prp.unknown.v1",
  [],
  {},
  [null],
  [[]],
  Number.POSITIVE_INFINITY,
  ...numbers
]

const memberNames = ["extra", "__proto__", "constructor", "toString", "valueOf", "hasOwnProperty", "", "schema", "0"]

/** Long texts cost time, so that few documents have them. */
const rarelyLong = 5000

const dateTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{3})?Z$/

const texts = (
  { format, maxLength = Number.POSITIVE_INFINITY, minLength = 0, pattern }: JsonSchema,
  mode: Mode
): fc.Arbitrary<unknown> => {
  const expression = format === "date-time" ? dateTime : new RegExp(pattern ?? "", "u")
  const isValid = (text: string) => points(text) >= minLength && points(text) <= maxLength && expression.test(text)
  const bounds = [minLength, maxLength].filter(Number.isFinite)
  const atBounds = bounds.flatMap((length) =>
    length > rarelyLong && mode === "valid"
      ? []
      : [times(length, "a"), times(length, "\u{1f600}"), `A${times(length - 1, "-")}`]
  )
  const valid = fc.constantFrom(...[...words, ...oddWords, ...atBounds].filter(isValid))
  const some = pattern === undefined && format === undefined ? fc.string({ unit: "binary" }).filter(isValid) : valid
  if (mode === "valid") return fc.oneof(valid, some)
  const across = bounds
    .flatMap((bound) => [bound - 1, bound + 1])
    .flatMap((length) => [times(length, "a"), times(length, "\u{1f600}")])
  return rarely(fc.oneof(valid, some), fc.constantFrom(...across, ...oddWords))
}

const quantities = ({ maximum, minimum, type }: JsonSchema, mode: Mode): fc.Arbitrary<unknown> => {
  const low = minimum ?? -100
  const isValid = (value: number) =>
    value >= low && value <= (maximum ?? Number.MAX_VALUE) && (type === "number" || Number.isInteger(value))
  const bounds = [minimum, maximum].flatMap((bound) => (bound === undefined ? [] : [bound - 1, bound, bound + 1]))
  const valid = fc.constantFrom(...[...numbers, ...bounds].filter(isValid))
  return mode === "valid" ? valid : rarely(valid, fc.constantFrom(...numbers, ...bounds, Number.POSITIVE_INFINITY))
}

/** Once in a while, something else. */
const rarely = (usual: fc.Arbitrary<unknown>, unusual: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 24, arbitrary: usual }, { weight: 1, arbitrary: unusual })

const anything = fc.constantFrom(...others, "text", { a: 1 }, JSON.parse('{"__proto__":{"a":[null]}}'))

/** Every schema of a set, to be walked. `#/...` is made absolute, so that a part needs not know its file. */
const registered = (files: ReadonlyArray<JsonSchema>): ReadonlyMap<string, JsonSchema> => {
  const schemas = new Map<string, JsonSchema>()
  for (const file of files) {
    const { $id = "" } = file
    const absolute = JSON.parse(JSON.stringify(file), (key, value: unknown) =>
      key === "$ref" && typeof value === "string" && value.startsWith("#") ? `${$id}${value}` : value
    )
    schemas.set($id, absolute)
    for (const [name, definition] of Object.entries<JsonSchema>(absolute.$defs ?? {})) {
      schemas.set(`${$id}#/$defs/${name}`, definition)
    }
  }
  return schemas
}

/** Documents of the schemas, by the schemas' ids. */
export const make = (files: ReadonlyArray<JsonSchema>) => {
  const schemas = registered(files)

  const resolve = (schema: JsonSchema): JsonSchema => {
    const { $ref, allOf = [], ...own } = schema
    const found = $ref === undefined ? undefined : schemas.get($ref)
    if ($ref !== undefined && found === undefined) throw new Error(`nothing is at ${$ref}`)
    const always = allOf.filter((part) => part.if === undefined)
    const sometimes = allOf.filter((part) => part.if !== undefined)
    const base: JsonSchema = sometimes.length === 0 ? own : { ...own, allOf: sometimes }
    return [...(found === undefined ? [] : [found]), ...always].reduce<JsonSchema>(
      (merged, part) => both(merged, resolve(part)),
      base
    )
  }

  /** A schema that asks for what both ask for. */
  const both = (left: JsonSchema, right: JsonSchema): JsonSchema => {
    const names = [...Object.keys(left.properties ?? {}), ...Object.keys(right.properties ?? {})]
    const allowed = (schema: JsonSchema, name: string) =>
      schema.additionalProperties !== false || Object.hasOwn(schema.properties ?? {}, name)
    const properties = [...new Set(names)]
      .filter((name) => allowed(left, name) && allowed(right, name))
      .map((name): [string, JsonSchema] => {
        const [first, second] = [left.properties?.[name], right.properties?.[name]]
        return [name, first && second ? { allOf: [first, second] } : (first ?? second ?? {})]
      })
    const isClosed = left.additionalProperties === false || right.additionalProperties === false
    const allOf = [...(left.allOf ?? []), ...(right.allOf ?? [])]
    const values =
      left.enum && right.enum ? left.enum.filter((value) => right.enum?.includes(value)) : (left.enum ?? right.enum)
    return {
      ...left,
      ...right,
      ...(names.length === 0 ? {} : { properties: Object.fromEntries(properties) }),
      ...(left.required || right.required ? { required: [...(left.required ?? []), ...(right.required ?? [])] } : {}),
      ...(isClosed ? { additionalProperties: false } : {}),
      ...(allOf.length === 0 ? {} : { allOf }),
      ...(values === undefined ? {} : { enum: values }),
      ...(left.maxItems === undefined && right.maxItems === undefined
        ? {}
        : { maxItems: Math.min(left.maxItems ?? 1e9, right.maxItems ?? 1e9) })
    }
  }

  /** The schema where a member has a value that rules are about. */
  const where = ({ allOf = [], ...schema }: JsonSchema, name: string, value: unknown): JsonSchema => {
    const holding = allOf.filter((rule) => {
      const { const: only, enum: some = [only] } = rule.if?.properties?.[name] ?? {}
      return some.includes(value)
    })
    const chosen: JsonSchema = { properties: { [name]: { const: value } } }
    return [chosen, ...holding.map((rule) => rule.then ?? {})].reduce<JsonSchema>((merged, part) => {
      const { not, ...rest } = part
      const next = both(merged, rest)
      const forbidden = not?.required ?? []
      const kept = Object.entries(next.properties ?? {}).filter(([member]) => !forbidden.includes(member))
      return { ...next, properties: Object.fromEntries(kept) }
    }, schema)
  }

  const objects = (schema: JsonSchema, mode: Mode): fc.Arbitrary<unknown> => {
    const [rule] = schema.allOf ?? []
    const [about] = Object.keys(rule?.if?.properties ?? {})
    if (about !== undefined) {
      const member = resolve(schema.properties?.[about] ?? {})
      const values = "const" in member ? [member.const] : (member.enum ?? [])
      return fc.constantFrom(...values).chain((value) => objects(where(schema, about, value), mode))
    }
    const { additionalProperties = true, properties = {}, propertyNames, required = [] } = schema
    const known = Object.entries(properties).map(([name, member]) => {
      const present = generate(member, mode).map((value): ReadonlyArray<[string, unknown]> => [[name, value]])
      return required.includes(name)
        ? present
        : fc.boolean().chain((isThere) => (isThere ? present : fc.constant<ReadonlyArray<[string, unknown]>>([])))
    })
    const unknownNames = propertyNames
      ? generate({ type: "string", ...propertyNames }, mode)
      : fc.constantFrom(...memberNames)
    const unknownValues = typeof additionalProperties === "object" ? generate(additionalProperties, mode) : anything
    const more =
      additionalProperties === false
        ? fc.constant([])
        : fc.array(
            fc.tuple(
              unknownNames.filter((name) => !Object.hasOwn(properties, String(name))),
              unknownValues
            ),
            { maxLength: 2 }
          )
    return fc
      .tuple(fc.tuple(...known), more)
      .map(([members, others]) =>
        Object.fromEntries([...members.flat(), ...others.map(([name, value]) => [String(name), value])])
      )
  }

  const arrays = (schema: JsonSchema, mode: Mode): fc.Arbitrary<unknown> => {
    const { items = {}, maxItems = 1e9, minItems = 0, uniqueItems = false } = schema
    const item = generate(items, mode)
    const length = { minLength: minItems, maxLength: Math.min(minItems + 2, maxItems) }
    const valid = uniqueItems
      ? fc.uniqueArray(item, { ...length, selector: (value) => JSON.stringify(value) })
      : fc.array(item, length)
    if (mode === "valid") return valid
    const many = generate(items, "valid").map((value) =>
      Array.from({ length: Math.min(maxItems + 1, 2001) }, () => value)
    )
    const twice = item.map((value) => [value, reversed(value)])
    return rarely(valid, maxItems > 2000 ? fc.oneof(twice, fc.constant([])) : fc.oneof(many, twice, fc.constant([])))
  }

  const generate = (unresolved: JsonSchema, mode: Mode): fc.Arbitrary<unknown> => {
    const schema = resolve(unresolved)
    const alternatives = schema.oneOf ?? schema.anyOf
    if (alternatives !== undefined) return fc.oneof(...alternatives.map((part) => generate(part, mode)))
    if ("const" in schema)
      return mode === "valid" ? fc.constant(schema.const) : rarely(fc.constant(schema.const), anything)
    if (schema.enum !== undefined) {
      const listed = fc.constantFrom(...schema.enum)
      return mode === "valid" ? listed : rarely(listed, anything)
    }
    const { type = [] } = schema
    if (Array.isArray(type)) {
      return type.length === 0 ? anything : fc.oneof(...type.map((one) => generate({ ...schema, type: one }, mode)))
    }
    switch (type) {
      case "object":
        return objects(schema, mode)
      case "array":
        return arrays(schema, mode)
      case "string":
        return texts(schema, mode)
      case "integer":
      case "number":
        return quantities(schema, mode)
      case "boolean":
        return fc.boolean()
      default:
        return fc.constant(null)
    }
  }

  return (id: string, mode: Mode): fc.Arbitrary<unknown> => generate({ $ref: id }, mode)
}

/** Members in another order; the same value. */
const reversed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, reversed(member)])
  )
}

type Change = (value: unknown, other: unknown) => unknown

const ofObject =
  (change: (entries: Array<[string, unknown]>, other: unknown) => Array<[string, unknown]>): Change =>
  (value, other) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(change(Object.entries(value), other))
      : other

const changes: ReadonlyArray<Change> = [
  (_, other) => other,
  (value) => [value],
  (value) => (typeof value === "string" ? `${value}\u{1f600}` : value),
  (value) => (typeof value === "string" ? value.slice(1) : value),
  (value) => (typeof value === "number" ? value + 0.5 : value),
  (value) => (typeof value === "number" ? -value : value),
  (value) => (typeof value === "number" ? `${value}` : value),
  (value) => (Array.isArray(value) ? [] : value),
  (value) => (Array.isArray(value) ? [...value, ...value] : value),
  (value, other) => (Array.isArray(value) ? [...value, other] : value),
  ofObject(([, ...rest]) => rest),
  ofObject((entries) => entries.slice(0, -1)),
  ofObject(([first, ...rest]) => (first === undefined ? rest : [...rest, [`${first[0]}x`, first[1]]])),
  ofObject((entries, other) => [...entries, ["added", other]]),
  ofObject((entries, other) => [...entries, ["__proto__", other]]),
  ofObject((entries) => entries.reverse())
]

/** As it was, but for the part at a place among all of them. */
const changedAt = (document: unknown, place: number, change: Change, other: unknown): unknown => {
  const size = (value: unknown): number =>
    1 +
    (typeof value === "object" && value !== null ? Object.values(value).reduce((sum, part) => sum + size(part), 0) : 0)
  let left = place % size(document)
  const walk = (value: unknown): unknown => {
    if (left-- === 0) return change(value, other)
    if (Array.isArray(value)) return value.map(walk)
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, walk(member)]))
  }
  return walk(document)
}

/** Documents with one to three changes: a member gone, renamed or new, another type, another length, another value. */
export const changed = (documents: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc
    .tuple(
      documents,
      fc.array(fc.tuple(fc.nat(), fc.constantFrom(...changes), anything), { minLength: 1, maxLength: 3 })
    )
    .map(([document, all]) =>
      all.reduce<unknown>((value, [place, change, other]) => changedAt(value, place, change, other), document)
    )
