import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as LogTail from "../../src/runner/LogTail.js"
import { check } from "../support/Seed.js"

const tailOf = (lines: ReadonlyArray<string>, bounds?: LogTail.Bounds) =>
  lines.reduce(LogTail.append(bounds), LogTail.empty)

const byteLength = (text: string) => new TextEncoder().encode(text).length

describe("the end of a log", () => {
  it("by default the last 32 lines, and 16,384 bytes of them", () => {
    const many = tailOf(Array.from({ length: 100 }, (_, index) => `line ${index}`))
    expect(many.lines).toHaveLength(32)
    expect([many.lines[0], many.lines.at(-1), many.droppedLines]).toEqual(["line 68", "line 99", 68])
    const large = tailOf(Array.from({ length: 3 }, () => "x".repeat(8192)))
    expect([large.lines.length, large.retainedBytes, large.droppedLines]).toEqual([2, 16_384, 1])
  })

  it("a line that is longer than all of it is cut where a character starts, and is not counted as dropped", () => {
    expect(tailOf(["a\u{1f600}\u{1f600}"], { maximumLines: 2, maximumBytes: 8 })).toEqual({
      lines: ["a\u{1f600}"],
      retainedBytes: 5,
      droppedLines: 0
    })
  })

  it("it keeps as many of the last lines as there is room for, and no line is lost uncounted", () =>
    check(
      [
        fc.array(fc.string({ unit: "binary", maxLength: 8 }), { maxLength: 12 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 4, max: 24 })
      ],
      (lines, maximumLines, maximumBytes) => {
        const tail = tailOf(lines, { maximumLines, maximumBytes })
        const kept = tail.lines.length
        expect(tail.droppedLines + kept).toBe(lines.length)
        expect(kept).toBeLessThanOrEqual(maximumLines)
        expect(tail.retainedBytes).toBe(tail.lines.reduce((sum, line) => sum + byteLength(line), 0))
        expect(tail.retainedBytes).toBeLessThanOrEqual(maximumBytes)
        for (const [index, line] of tail.lines.entries()) {
          const whole = lines[tail.droppedLines + index] ?? ""
          expect(whole.startsWith(line)).toBe(true)
          expect(whole.charAt(line.length)).not.toMatch(/[\udc00-\udfff]/)
          if (byteLength(whole) <= maximumBytes) expect(line).toBe(whole)
        }
        // One more would not have fitted.
        const before = lines[tail.droppedLines - 1]
        if (before !== undefined && kept < maximumLines) {
          expect(tail.retainedBytes + Math.min(byteLength(before), maximumBytes)).toBeGreaterThan(maximumBytes)
        }
      },
      { numRuns: 300 }
    ))
})
