import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { CanonicalJson } from "../../src/runner/index.js"
import { check } from "../support/Seed.js"

/** The same value with the members of every object turned round. */
const turned = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(turned)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, turned(member)])
  )
}

const json = fc.jsonValue()

describe("canonical JSON", () => {
  it("does not know the order of members, and keeps the value", () =>
    check([json], (value) => {
      const text = CanonicalJson.stringify(value)
      expect(CanonicalJson.stringify(turned(value))).toBe(text)
      expect(CanonicalJson.equals(value, turned(value))).toBe(true)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
    }))

  it("tells apart values that differ", () => {
    const values = [
      null,
      0,
      "0",
      [],
      {},
      [0],
      { a: 1 },
      { a: "1" },
      { a: 1, b: 1 },
      [1, 2],
      [2, 1],
      JSON.parse('{"__proto__":1}')
    ]
    values.forEach((left, i) => {
      values.forEach((right, j) => {
        expect([i, j, CanonicalJson.equals(left, right)]).toEqual([i, j, i === j])
      })
    })
  })
})
