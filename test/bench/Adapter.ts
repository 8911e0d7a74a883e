import { answerParent, runChild } from "./Child.js"
import { floor, type ShapeName, shapes } from "./Shapes.js"
import { stalls } from "./Stall.js"
import { measure, median, ratio } from "./Timing.js"

/** The argument that makes the bundle measure the adapter. */
export const adapterFlag = "--adapter"

export interface AdapterResult {
  readonly milliseconds: number
  readonly timesFloor: number
  readonly longestStall: number
}

/**
 * In the child: the adapter against a floor of its own. In the process of the others the tens of megabytes of code that it
 * loads would make every garbage collection of theirs longer.
 */
export const measureAdapter = async (name: ShapeName, rounds: number) => {
  const { validateSnapshot } = await import("@copilotkit/runtime/internal/learned-skills")
  const shape = shapes[name]()
  const { archive, ...metadata } = shape.response
  const adapter = () => validateSnapshot({ status: "snapshot", ...metadata, bytes: archive })
  const samples = await measure({ floor: () => floor(shape), adapter }, rounds)
  const result: AdapterResult = {
    milliseconds: median(samples.adapter),
    timesFloor: ratio(samples.adapter, samples.floor),
    longestStall: Math.max(...(await stalls(adapter, 5)))
  }
  answerParent(result)
}

export const adapterResult = (name: ShapeName, rounds: number): AdapterResult =>
  runChild(adapterFlag, name, String(rounds))
