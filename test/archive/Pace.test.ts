import { expect, it } from "@effect/vitest"
import { sliceBytes } from "#codec"
import * as Pace from "../../src/archive/Pace.js"

/** How many slices these pieces of work are. */
const slices = (work: ReadonlyArray<number>, slice?: number) => {
  const pace = Pace.make(slice)
  return work.filter((piece) => pace(piece)).length
}

it("says so once for each slice's worth of work, and not before", () => {
  expect(slices([sliceBytes - 1])).toBe(0)
  expect(slices(new Array(8).fill(sliceBytes))).toBe(8)
  expect(slices(new Array(99).fill(1), 100)).toBe(0)
  expect(slices(new Array(800).fill(1), 100)).toBe(8)
})
