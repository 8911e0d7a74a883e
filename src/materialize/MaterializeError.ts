/**
 * Why a skills directory could not be worked on at all. What concerns one skill is in the report instead.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import { Predicate, Schema } from "effect"

/**
 * The skills directory could not be read or written. What has landed before stays whole; the next pass goes on.
 *
 * `path` is where, relative to the directory, or empty for the directory itself. `reason` is safe to show: `link` (a link
 * is on the way), `type` (not a directory, or not a file), `outside` (not below the trusted directory), `busy` (another
 * pass holds the directory), or the platform's own word with the system's code (`PermissionDenied (EACCES)`).
 */
export class MaterializeError extends Schema.TaggedError<MaterializeError>()("MATERIALIZE_FAILED", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    const at = this.path === "" ? "The skills directory" : `"${this.path}" in the skills directory`
    return `${at} cannot be used: ${meanings[this.reason] ?? this.reason}.`
  }
}

const meanings: Readonly<Record<string, string>> = {
  link: "it is a link, or a link is on the way to it",
  type: "it is something else than a materialization puts there",
  outside: "it is not below the directory that is trusted",
  busy: "another pass is at work in it"
}

/** Paths and descriptions stay out; the system's code tells a full disk (`ENOSPC`) from a forbidden one. */
export const platformReason = (error: PlatformError): string => {
  if (error._tag === "BadArgument") return error._tag
  const code = Predicate.hasProperty(error.cause, "code") ? error.cause.code : undefined
  return typeof code === "string" && /^[A-Z][A-Z0-9_]*$/.test(code) ? `${error.reason} (${code})` : error.reason
}
