/**
 * What can be wrong with an upload, and what is worth saying of one that is accepted.
 *
 * Every problem is caused by the upload and is safe to echo to its sender: it names the rule and, where there is one, the
 * upload's own file. No file content is quoted.
 *
 * @module
 */
import { Schema } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"

/** The rule that an upload broke (contract, One skill, one canonical archive). */
export const UploadRule = Schema.Literal(
  // The upload as a whole.
  "no-files",
  "total-size",
  "member-count",
  "archive-size",
  "archive-format",
  "archive-entry",
  // Its paths.
  "path-encoding",
  "path-segment",
  "path-nul",
  "path-backslash",
  "path-length",
  "duplicate-path",
  "file-and-directory",
  "link",
  "special-file",
  "file-unreadable",
  // Where the skill is.
  "one-directory",
  "several-skills",
  "wrapper-directory",
  "skill-file",
  // What `SKILL.md` says.
  "skill-file-encoding",
  "frontmatter-missing",
  "frontmatter-size",
  "frontmatter-yaml",
  "frontmatter-alias",
  "frontmatter-tag",
  "name-missing",
  "name-format",
  "name-length",
  "name-reserved",
  "name-hyphens",
  "description-missing",
  "description-length",
  "description-text",
  "description-tags",
  "directory-name",
  "license",
  "compatibility",
  "metadata",
  "allowed-tools",
  // What a policy of one's own asks.
  "policy",
  // What no container could deliver.
  "delivery-entries",
  "delivery-size",
  "delivery-path"
)
export type UploadRule = typeof UploadRule.Type

/** What an accepted upload should be told. */
export const UploadWarningRule = Schema.Literal(
  "ignored-member",
  "directory-added",
  "repacked",
  "case-collision",
  "windows-name"
)
export type UploadWarningRule = typeof UploadWarningRule.Type

const shape = {
  /** The path as uploaded, escaped and cut to 200 code points. */
  file: Schema.optionalWith(Schema.String, { exact: true }),
  /** One sentence without its full stop, safe to show. */
  message: Schema.String
}

/** One rule that an upload broke, and where. */
export const UploadProblem = Schema.Struct({ rule: UploadRule, ...shape })
export type UploadProblem = typeof UploadProblem.Type

/** The same shape for what is worth saying of an upload that is accepted. */
export const UploadWarning = Schema.Struct({ rule: UploadWarningRule, ...shape })
export type UploadWarning = typeof UploadWarning.Type

/** What a rule about `SKILL.md` says of it; the file is the same for all of them. */
export interface Finding {
  readonly rule: UploadRule
  readonly message: string
}

/** A problem of the upload as a whole. */
export const problem = (rule: UploadRule, message: string): UploadProblem => ({ rule, message })

/** A problem of one file, whose path is escaped here. */
export const problemAt = (rule: UploadRule, path: string, message: string): UploadProblem => ({
  rule,
  file: ArchivePath.display(path),
  message
})

/** One problem or warning as text: `skill/a.md: two files have this path [duplicate-path]`. */
export const format = ({ file, message, rule }: UploadProblem | UploadWarning): string =>
  file === undefined ? `${message} [${rule}]` : `${file}: ${message} [${rule}]`

/**
 * The upload is not a skill. `problems` are all that were found, in the order of the rules, then of the files.
 *
 * @example
 * ```ts
 * import * as UploadProblem from "./UploadProblem.js"
 *
 * const error = new UploadProblem.InvalidUpload({ problems: [UploadProblem.problem("no-files", "the upload has no files")] })
 * console.log(error.message) // "The upload is not valid: the upload has no files [no-files]"
 * ```
 */
export class InvalidUpload extends Schema.TaggedError<InvalidUpload>()("INVALID_UPLOAD", {
  problems: Schema.NonEmptyArray(UploadProblem),
  /** What would be worth saying of the upload without its problems. */
  warnings: Schema.optionalWith(Schema.Array(UploadWarning), { default: () => [] })
}) {
  override get message(): string {
    return `The upload is not valid: ${this.problems.map(format).join("; ")}`
  }
}
