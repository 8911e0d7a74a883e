/**
 * What running a fixture file showed: per case what was expected and what came, and the totals.
 *
 * @module
 */
import { Schema } from "effect"
import { unicodeEscape } from "../archive/UnicodeEscape.js"

/** One case. `expected` and `got` are for people; where a case passed they say the same. */
export const CaseResult = Schema.Struct({
  name: Schema.String,
  passed: Schema.Boolean,
  expected: Schema.String,
  got: Schema.String
})
export type CaseResult = typeof CaseResult.Type

/** Every case in the order of the file, and how many passed and failed. */
export const Report = Schema.Struct({
  results: Schema.Array(CaseResult),
  passed: Schema.NonNegativeInt,
  failed: Schema.NonNegativeInt
})
export type Report = typeof Report.Type

/** The report of these cases. */
export const make = (results: ReadonlyArray<CaseResult>): Report => {
  const passed = results.filter((result) => result.passed).length
  return { results, passed, failed: results.length - passed }
}

/** One report of several, in the order given. */
export const merge = (reports: ReadonlyArray<Report>): Report => make(reports.flatMap((report) => report.results))

/**
 * The report for a terminal: a line per failing case, at the end `N passed, N failed` alone on a line.
 *
 * Names and values come from the file that was run and are printed as JSON strings, so they cannot steer a terminal.
 *
 * @example
 * ```ts
 * import { Report } from "effect-agent-contracts/conformance"
 *
 * const report = Report.make([{ name: "an empty archive", passed: false, expected: "INVALID_SNAPSHOT", got: "valid" }])
 * console.log(Report.lines(report).join("\n"))
 * // FAIL "an empty archive": expected "INVALID_SNAPSHOT", got "valid"
 * // 0 passed, 1 failed
 * ```
 */
export const lines = (report: Report): ReadonlyArray<string> => [
  ...report.results
    .filter((result) => !result.passed)
    .map(({ expected, got, name }) => `FAIL ${quote(name)}: expected ${quote(expected)}, got ${quote(got)}`),
  `${report.passed} passed, ${report.failed} failed`
]

/** JSON leaves DEL, the C1 controls and bidirectional marks as they are; a terminal does not. */
const quote = (text: string): string => JSON.stringify(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, unicodeEscape)
