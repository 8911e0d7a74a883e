import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { sliceBytes } from "#codec"
import * as Pace from "../../src/archive/Pace.js"
import { turnsDuring } from "../support/Turns.js"

const doing = (work: ReadonlyArray<number>, slice?: number) =>
  Effect.suspend(() => {
    const pace = Pace.make(slice)
    return Effect.forEach(work, pace, { discard: true })
  })

it.live("lets other work run once for each slice's worth of work, and not before", () =>
  Effect.gen(function* () {
    expect(yield* turnsDuring(doing([sliceBytes - 1]))).toBe(0)
    expect(yield* turnsDuring(doing(new Array(8).fill(sliceBytes)))).toBeGreaterThanOrEqual(7)
    expect(yield* turnsDuring(doing(new Array(99).fill(1), 100))).toBe(0)
    expect(yield* turnsDuring(doing(new Array(800).fill(1), 100))).toBeGreaterThanOrEqual(7)
  })
)
