import * as fc from "fast-check"

/** A property that brings no seed of its own runs from this one, so that a failure is the same on every machine; fast-check prints it. */
export const seed = 20_261_130

type Arbitraries<Ts extends ReadonlyArray<unknown>> = { readonly [K in keyof Ts]: fc.Arbitrary<Ts[K]> }

/** Checks a property from the fixed seed. The last arguments are the property and, after it, parameters of the run. */
export function check<Ts extends [unknown, ...Array<unknown>]>(
  arbitraries: Arbitraries<Ts>,
  property: (...values: Ts) => void | Promise<void>,
  parameters: fc.Parameters<Ts> = {}
): Promise<void> {
  const asserted = fc.asyncProperty<Ts>(...arbitraries, async (...values) => property(...values))
  return fc.assert(asserted, { seed, ...parameters })
}
