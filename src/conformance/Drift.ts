/**
 * Whether the fixture files at hand are the ones that their generator writes.
 *
 * @module
 */
import { Predicate } from "effect"

/** Fixture files by path, as text. */
export type Texts = ReadonlyMap<string, string>

/** Compares line by line, since a case is a line; one message a file, empty when nothing differs. */
export const compare = (generated: Texts, actual: Texts): ReadonlyArray<string> => [
  ...[...generated].flatMap(([path, text]) => {
    const found = actual.get(path)
    if (found === undefined) return [`${path}: is missing`]
    return found === text ? [] : [`${path}: ${firstDifference(text.split("\n"), found.split("\n"))}`]
  }),
  ...[...actual.keys()].filter((path) => !generated.has(path)).map((path) => `${path}: is not generated`)
]

const firstDifference = (generated: ReadonlyArray<string>, actual: ReadonlyArray<string>): string => {
  const longer = generated.length > actual.length ? generated : actual
  const index = longer.findIndex((_, line) => generated[line] !== actual[line])
  const name = caseName(generated[index]) ?? caseName(actual[index])
  return `line ${index + 1}${name === undefined ? "" : ` (case ${JSON.stringify(name)})`} differs`
}

const caseName = (line: string | undefined): string | undefined => {
  try {
    const value: unknown = JSON.parse((line ?? "").replace(/,$/, ""))
    return Predicate.hasProperty(value, "name") && typeof value.name === "string" ? value.name : undefined
  } catch {
    return undefined
  }
}
