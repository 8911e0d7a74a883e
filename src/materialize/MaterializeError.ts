/**
 * Why a skills directory could not be worked on at all. What concerns one skill is in the report instead.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import { Predicate, Schema } from "effect"

/**
 * - `link`: a link is at the place or on the way to it
 * - `type`: it is not a directory, or not a file
 * - `outside`: the directory is not below the trusted one
 * - `busy`: another pass holds the directory
 * - `io`: the file system refused; `detail` has its word and the system's code (`PermissionDenied (EACCES)`)
 */
export const MaterializeFailureReason = Schema.Literal("link", "type", "outside", "busy", "io")
export type MaterializeFailureReason = typeof MaterializeFailureReason.Type

/**
 * The skills directory could not be read or written. What has landed before stays whole; the next pass goes on.
 *
 * `path` is where, relative to the directory, or empty for the directory itself. Everything in it is safe to show.
 */
export class MaterializeError extends Schema.TaggedError<MaterializeError>()("MATERIALIZE_FAILED", {
  path: Schema.String,
  reason: MaterializeFailureReason,
  detail: Schema.optionalWith(Schema.String, { exact: true })
}) {
  override get message(): string {
    const at = this.path === "" ? "The skills directory" : `"${this.path}" in the skills directory`
    const detail = this.detail === undefined ? "" : `: ${this.detail}`
    return `${at} cannot be used: ${meanings[this.reason]}${detail}.`
  }
}

const meanings = {
  link: "it is a link, or a link is on the way to it",
  type: "it is something else than a materialization puts there",
  outside: "it is not below the directory that is trusted",
  busy: "another pass is at work in it",
  io: "the file system refused"
} satisfies Record<MaterializeFailureReason, string>

/** Paths and descriptions stay out; the system's code tells a full disk (`ENOSPC`) from a forbidden one. */
export const platformReason = (error: PlatformError): string => {
  if (error._tag === "BadArgument") return error._tag
  const code = Predicate.hasProperty(error.cause, "code") ? error.cause.code : undefined
  return typeof code === "string" && /^[A-Z][A-Z0-9_]*$/.test(code) ? `${error.reason} (${code})` : error.reason
}

/** The file system's refusal, of the directory as a whole. */
export const ofPlatform = (error: PlatformError): MaterializeError =>
  new MaterializeError({ path: "", reason: "io", detail: platformReason(error) })
