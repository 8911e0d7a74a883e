import { describe, expect, it } from "@effect/vitest"
import { Schema } from "effect"
import * as Report from "../../src/conformance/Report.js"

const passed = { name: "good", passed: true, expected: "valid", got: "valid" }
const failed = { name: "bad", passed: false, expected: "valid", got: "INVALID_SNAPSHOT" }

describe("Report", () => {
  it("counts", () => {
    expect(Report.make([])).toEqual({ results: [], passed: 0, failed: 0 })
    expect(Report.make([passed, failed, passed])).toMatchObject({ passed: 2, failed: 1 })
  })

  it("merges in the order given", () => {
    expect(Report.merge([Report.make([passed]), Report.make([failed])])).toEqual(Report.make([passed, failed]))
  })

  it("prints a line per failing case and the totals alone on the last one", () => {
    expect(Report.lines(Report.make([passed, failed]))).toEqual([
      'FAIL "bad": expected "valid", got "INVALID_SNAPSHOT"',
      "1 passed, 1 failed"
    ])
    expect(Report.lines(Report.make([passed]))).toEqual(["1 passed, 0 failed"])
  })

  it("escapes what could steer a terminal", () => {
    const name = "a\u001b[2J\n\u009b\u202e\u2028\u{e0001}é"
    const [line] = Report.lines(Report.make([{ ...failed, name }]))
    expect(line).toContain('"a\\u001b[2J\\n\\u009b\\u202e\\u2028\\udb40\\udc01é"')
    expect(line).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}]/u)
  })

  it("survives JSON", () => {
    const report = Report.make([passed, failed])
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(Report.Report)(report)))
    expect(Schema.decodeUnknownSync(Report.Report)(json)).toEqual(report)
  })
})
