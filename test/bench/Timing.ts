import { performance } from "node:perf_hooks"
import { setTimeout } from "node:timers/promises"

export const median = (samples: ReadonlyArray<number>): number =>
  samples.toSorted((left, right) => left - right)[Math.floor(samples.length / 2)] ?? Number.NaN

export const collectGarbage = async () => {
  globalThis.gc?.()
  // Large buffers are given back on another thread, after the collection.
  await setTimeout(30)
}

const time = async (work: () => unknown) => {
  const start = performance.now()
  await work()
  return performance.now() - start
}

/**
 * Milliseconds of every contestant in every round. Contestants take turns and each round starts with another one, so that
 * what the machine does meanwhile hits all alike.
 */
export const measure = async <Name extends string>(
  contestants: Readonly<Record<Name, () => unknown>>,
  rounds: number
): Promise<Readonly<Record<Name, ReadonlyArray<number>>>> => {
  const names = Object.keys(contestants) as Array<Name>
  const samples = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Array<number>>
  // As many untimed rounds first, so that the compiler has seen to everybody.
  for (let round = 0; round < rounds; round++) for (const name of names) await contestants[name]()
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + turn) % names.length] as Name
      samples[name].push(await time(contestants[name]))
    }
  }
  return samples
}

/** The median over the rounds of `left` in units of `right`. */
export const ratio = (left: ReadonlyArray<number>, right: ReadonlyArray<number>): number =>
  median(left.map((sample, round) => sample / (right[round] ?? Number.NaN)))
