/**
 * JSON texts that are equal exactly when the values are: members of objects in the order of their names, arrays as they are.
 * That is what the contract means by an equal redelivery, an equal command and an equal result.
 *
 * @module
 */
import { Predicate } from "effect"

/** Own members only, in code unit order; one called `__proto__` is a member like any other. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (!Predicate.isRecord(value)) return value
  const members: Array<[string, unknown]> = Object.keys(value)
    .sort()
    .map((name) => [name, sorted(value[name])])
  return Object.fromEntries(members)
}

/**
 * The canonical text of a JSON value.
 *
 * @example
 * ```ts
 * import { CanonicalJson } from "effect-agent-contracts/runner"
 *
 * console.log(CanonicalJson.stringify({ b: [2, 1], a: null })) // {"a":null,"b":[2,1]}
 * ```
 */
export const stringify = (value: unknown): string => JSON.stringify(sorted(value)) ?? "null"

/** Whether two JSON values are the same but for the order of members. */
export const equals = (left: unknown, right: unknown): boolean => left === right || stringify(left) === stringify(right)
