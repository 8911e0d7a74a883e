/**
 * The versions that have to be known: who does not know one fails closed.
 *
 * @module
 */
import { Option } from "effect"
import * as JsonPointer from "./JsonPointer.js"
import { at, type ProtocolIssue } from "./ProtocolIssue.js"

/** The version of the protocol, of its fixtures and of its events that this consumer knows. */
export const supported = 1

/** Versions from `min` to `max`, both included. */
export interface VersionRange {
  readonly min: number
  readonly max: number
}

/**
 * The highest version that both sides know.
 *
 * @example
 * ```ts
 * import { Option } from "effect"
 * import { ProtocolVersion } from "effect-agent-contracts/runner"
 *
 * console.log(Option.getOrNull(ProtocolVersion.negotiate({ min: 1, max: 1 }, { min: 1, max: 2 }))) // 1
 * console.log(Option.getOrNull(ProtocolVersion.negotiate({ min: 2, max: 3 }, { min: 1, max: 1 }))) // null
 * ```
 */
export const negotiate = (left: VersionRange, right: VersionRange): Option.Option<number> => {
  const highest = Math.min(left.max, right.max)
  return highest >= Math.max(left.min, right.min) ? Option.some(highest) : Option.none()
}

/**
 * The versions at these places that are numbers, but not ours. What is missing there, or is no number, is for the schema to
 * refuse (facts 3).
 */
export const mismatches = (
  value: unknown,
  paths: ReadonlyArray<ReadonlyArray<PropertyKey>>
): ReadonlyArray<ProtocolIssue> =>
  paths
    .filter((path) => {
      const version = JsonPointer.get(value, path)
      return typeof version === "number" && version !== supported
    })
    .map((path) => at(path, `the version must be ${supported}`))
