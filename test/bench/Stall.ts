import { monitorEventLoopDelay } from "node:perf_hooks"
import { setTimeout } from "node:timers/promises"
import { collectGarbage } from "./Timing.js"

/** Milliseconds between two turns of a timer of 1 ms while `work` runs, the longest of each run. */
export const stalls = async (work: () => Promise<unknown>, runs: number): Promise<ReadonlyArray<number>> => {
  const longest: Array<number> = []
  for (let run = 0; run < runs; run++) {
    await collectGarbage()
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    await setTimeout(5)
    await work()
    await setTimeout(5)
    delay.disable()
    longest.push(delay.max / 1e6)
  }
  return longest
}
