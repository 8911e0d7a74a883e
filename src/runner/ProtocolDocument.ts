/**
 * From bytes to a checked document: parsed within bounds, checked against a schema, and given as it was.
 *
 * @module
 */
import { Array as Arr, Effect, ParseResult, Predicate, type Schema, type SchemaAST } from "effect"
import { describe } from "./Constraint.js"
import { InvalidJson, SchemaValidation } from "./ProtocolError.js"
import { at, type ProtocolIssue } from "./ProtocolIssue.js"

/** How deeply a document may be nested: far above what the schemas name, far below what recursion bears. */
export const maximumDepth = 256

const invalid = (message: string) => new InvalidJson({ issues: [at([], message)] })

/** Level by level, since a value of any depth can come out of the parser. */
const isTooDeep = (value: unknown): boolean => {
  let level: ReadonlyArray<unknown> = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= maximumDepth) return true
    level = level.flatMap((parent) =>
      (Predicate.isObject(parent) ? Object.values(parent) : []).filter((child) => typeof child === "object")
    )
  }
  return false
}

/**
 * Text, or UTF-8 bytes, to the value that it stands for. Fails with `invalid_json` on what is no JSON, no UTF-8, or nested
 * more than 256 deep. A byte order mark is no JSON.
 */
export const parse = (document: string | Uint8Array): Effect.Effect<unknown, InvalidJson> =>
  Effect.try({
    try: () =>
      typeof document === "string"
        ? document
        : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(document),
    catch: () => invalid("the bytes must be UTF-8")
  }).pipe(
    Effect.flatMap((text) =>
      Effect.try({ try: (): unknown => JSON.parse(text), catch: () => invalid("the text must be JSON") })
    ),
    Effect.filterOrFail(
      (value) => !isTooDeep(value),
      () => invalid(`the document must be nested at most ${maximumDepth} deep`)
    )
  )

/** A member's name where a message needs it: as a JSON string, cut. */
const named = (key: PropertyKey) => JSON.stringify(String(key).slice(0, 80))

/** The issues of a parse, as a flat list. A missing or unknown member is an issue of the object (facts 3). */
const flatten = (issue: ParseResult.ParseIssue, path: ReadonlyArray<PropertyKey>): ReadonlyArray<ProtocolIssue> => {
  const here = (message: string): ReadonlyArray<ProtocolIssue> => [at(path, message)]
  switch (issue._tag) {
    case "Pointer": {
      const steps: ReadonlyArray<PropertyKey> = Arr.ensure(issue.path)
      const member = steps.at(-1) ?? ""
      if (issue.issue._tag === "Missing") return here(`the member ${named(member)} is missing`)
      if (issue.issue._tag === "Unexpected") return here(`the member ${named(member)} is not one of the object's`)
      return flatten(issue.issue, [...path, ...steps])
    }
    case "Composite": {
      const issues = Arr.ensure(issue.issues)
      // Of a union whose member cannot be told by a discriminator, what each member misses says little.
      if (issue.ast._tag === "Union" && issues.length > 1) return here(`it must be ${describe(issue.ast)}`)
      return issues.flatMap((inner) => flatten(inner, path))
    }
    case "Refinement":
      return issue.issue._tag === "Type"
        ? here(issue.issue.message ?? `it must be ${describe(issue.ast)}`)
        : flatten(issue.issue, path)
    case "Transformation":
      return flatten(issue.issue, path)
    case "Type":
      return here(issue.message ?? `it must be ${describe(issue.ast)}`)
    case "Missing":
    case "Unexpected":
    case "Forbidden":
      return here("it must not be here")
  }
}

const options: SchemaAST.ParseOptions = { errors: "all", onExcessProperty: "ignore" }

/**
 * Checks a parsed value against a schema. Every issue is reported; the value that comes back is the one that was given.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { ProtocolDocument, Usage } from "effect-agent-contracts/runner"
 *
 * const program = ProtocolDocument.parse('{"provider":"codex","model":7}').pipe(
 *   Effect.flatMap(ProtocolDocument.decode(Usage.Usage)),
 *   Effect.flip
 * )
 *
 * Effect.runPromise(program).then((error) => console.log(error._tag, error.issues.length)) // schema_validation 3
 * ```
 */
export const decode = <A>(schema: Schema.Schema<A>) => {
  const validate = ParseResult.validateEither(schema, options)
  return (value: unknown): Effect.Effect<A, SchemaValidation> => {
    const result = validate(value)
    if (result._tag === "Right") return Effect.succeed(result.right)
    const issues = flatten(result.left, [])
    return Effect.fail(
      new SchemaValidation({
        issues: Arr.isNonEmptyReadonlyArray(issues) ? issues : [at([], `it must be ${describe(schema.ast)}`)]
      })
    )
  }
}
