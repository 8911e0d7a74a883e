/**
 * What every fixture file is: JSON text with a list of named cases, one case a line, so that a change of one case is a
 * change of one line.
 *
 * @module
 */
import { type Array as Arr, Effect, ParseResult, Predicate, Schema } from "effect"

/** The contract that the fixture files of this package are about (contract, Fixture files). */
export const contract = "copilotkit-learned-skills-v1"

/**
 * The text is not a fixture file. Each problem names the case and the member at fault, as far as there are any.
 */
export class FixtureError extends Schema.TaggedError<FixtureError>()("FixtureError", {
  problems: Schema.NonEmptyArray(Schema.String)
}) {
  override get message(): string {
    return this.problems.join("\n")
  }
}

const parse = Schema.decodeUnknown(Schema.parseJson())

/**
 * JSON text -> value. Members that the schema does not know are ignored, so files of other implementations run unchanged.
 *
 * Fails with `FixtureError` when the text is not JSON or a member is missing or of the wrong kind.
 *
 * @example
 * ```ts
 * import { FixtureFile, SnapshotSuite } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 *
 * const program = FixtureFile.decode(SnapshotSuite.SnapshotSuite, '{"contract":"copilotkit-learned-skills-v1"}')
 *
 * Effect.runPromise(Effect.flip(program)).then((error) => console.log(error.message)) // cases: is missing
 * ```
 */
export const decode = Effect.fn("FixtureFile.decode")(function* <A, I>(schema: Schema.Schema<A, I>, text: string) {
  const json = yield* parse(text).pipe(Effect.mapError(() => new FixtureError({ problems: ["the file is not JSON"] })))
  if (isDeeperThan(json, maximumDepth)) {
    return yield* new FixtureError({ problems: [`the file is nested more than ${maximumDepth} levels deep`] })
  }
  return yield* Schema.decodeUnknown(schema, { errors: "all" })(json).pipe(
    Effect.mapError((error) => {
      const [first, ...rest] = ParseResult.ArrayFormatter.formatErrorSync(error).map((issue) => problem(json, issue))
      return new FixtureError({ problems: [first ?? "the file has another shape", ...rest] })
    })
  )
})

/** One of many words. A wrong one is a single problem that lists them, not a problem for each. */
export const oneOf = <Words extends Arr.NonEmptyReadonlyArray<string>>(words: Words) =>
  Schema.Literal(...words).annotations({
    message: ({ actual }) => ({
      message: `expected one of ${words.join(", ")}, got ${typeof actual === "string" ? JSON.stringify(actual) : typeof actual}`,
      override: true
    })
  })

/** Far more than any fixture needs. Problems are described by recursion over what is wrong, which must end. */
const maximumDepth = 100

const isDeeperThan = (value: unknown, levels: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isDeeperThan(member, levels - 1)))

/** What is expected of a whole case, or what is there instead, can be pages long. */
const maximumDescription = 1000

const describeIssue = ({ _tag, message }: ParseResult.ArrayFormatterIssue): string => {
  if (_tag === "Missing") return "is missing"
  return message.length > maximumDescription ? "has another shape" : message
}

const problem = (json: unknown, issue: ParseResult.ArrayFormatterIssue): string => {
  const [list, index, ...inCase] = issue.path
  const place =
    list === "cases" && typeof index === "number"
      ? [describeCase(json, index), member(inCase)].filter((part) => part !== "").join(": ")
      : member(issue.path)
  return `${place === "" ? "the file" : place}: ${describeIssue(issue)}`
}

const describeCase = (json: unknown, index: number): string => {
  const cases = Predicate.hasProperty(json, "cases") && Array.isArray(json.cases) ? json.cases : []
  const name: unknown = cases[index]?.name
  return typeof name === "string" ? `case ${JSON.stringify(name)}` : `case ${index + 1}`
}

const member = (path: ReadonlyArray<PropertyKey>): string =>
  path
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`))
    .join("")
    .replace(/^\./, "")

/**
 * Value -> JSON text, the members of the file first and then one element of the named list a line. The same value gives
 * the same text always and everywhere.
 */
export const format = (
  head: Readonly<Record<string, unknown>>,
  list: string,
  elements: ReadonlyArray<unknown>
): string => {
  const members = Object.entries(head).map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
  const lines = elements.map((element) => JSON.stringify(element)).join(",\n")
  return `{${[...members, `${JSON.stringify(list)}:[`].join(",")}\n${lines}\n]}\n`
}
