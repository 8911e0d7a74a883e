import { describe, expect, it } from "@effect/vitest"
import { Option } from "effect"
import * as fc from "fast-check"
import { ProtocolVersion } from "../../src/runner/index.js"
import { check } from "../support/Seed.js"

const range = fc.tuple(fc.nat(6), fc.nat(6)).map(([left, right]) => ({
  min: Math.min(left, right),
  max: Math.max(left, right)
}))

describe("two ranges of versions", () => {
  it("agree on the highest that both have, or on none", () =>
    check([range, range], (left, right) => {
      const both = [0, 1, 2, 3, 4, 5, 6].filter((version) =>
        [left, right].every(({ max, min }) => version >= min && version <= max)
      )
      const expected = Option.fromNullable(both.at(-1))
      expect(ProtocolVersion.negotiate(left, right)).toEqual(expected)
      expect(ProtocolVersion.negotiate(right, left)).toEqual(expected)
    }))

  it("as the contract's examples have it", () => {
    expect(ProtocolVersion.negotiate({ min: 1, max: 1 }, { min: 1, max: 2 })).toEqual(Option.some(1))
    expect(ProtocolVersion.negotiate({ min: 2, max: 3 }, { min: 1, max: 1 })).toEqual(Option.none())
  })
})
