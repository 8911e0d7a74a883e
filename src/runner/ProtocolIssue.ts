/**
 * What is wrong with a document, and where. It says what must be there, never what was found: documents hold what users and agents
 * wrote.
 *
 * @module
 */
import { Schema } from "effect"
import * as JsonPointer from "./JsonPointer.js"

/** `path` is a JSON pointer, `/` for the document itself, as the contract writes it (facts 3). */
export const ProtocolIssue = Schema.Struct({ path: Schema.String, message: Schema.String })
export type ProtocolIssue = typeof ProtocolIssue.Type

/** What an error carries: every issue that was found, at least one. */
export const Issues = Schema.NonEmptyArray(ProtocolIssue)

/** An issue at a place. */
export const at = (path: ReadonlyArray<PropertyKey>, message: string): ProtocolIssue => ({
  path: JsonPointer.make(path),
  message
})

/** A rule about a place, as an issue where it does not hold. */
export const unless = (
  holds: boolean,
  path: ReadonlyArray<PropertyKey>,
  message: string
): ReadonlyArray<ProtocolIssue> => (holds ? [] : [at(path, message)])

/** A message that names the first issue, and how many there are besides. */
export const summary = (what: string, [first, ...rest]: readonly [ProtocolIssue, ...ReadonlyArray<ProtocolIssue>]) =>
  `${what}: at ${first.path}, ${first.message}${rest.length > 0 ? `, and ${rest.length} more` : ""}`
