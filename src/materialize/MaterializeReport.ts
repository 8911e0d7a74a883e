/**
 * What a pass did, skill by skill: plain values that encode to JSON.
 *
 * @module
 */
import { Schema } from "effect"
import { DeliveryCode } from "../delivery/DeliveryError.js"

/** Ids and directories as given, except that a failed skill's are escaped: they may be what is wrong with it. */
const shape = { skillId: Schema.String, directory: Schema.String }

/** A skill that was laid out, new or in place of another version. */
export const WrittenSkill = Schema.Struct({
  ...shape,
  version: Schema.String,
  files: Schema.Number,
  /** Of all files together. */
  bytes: Schema.Number
})
export type WrittenSkill = typeof WrittenSkill.Type

/**
 * A skill whose every file was found in place, with its size and digest, and nothing beside them. Where no materialization
 * wrote them the directory stays its owner's: it is not claimed, and so neither replaced nor removed later.
 */
export const KeptSkill = Schema.Struct({ ...shape, version: Schema.String })
export type KeptSkill = typeof KeptSkill.Type

/** A member of a stored skill's archive that is not laid out: links and special files never are. */
export const SkippedSkillMember = Schema.Struct({
  skillId: Schema.String,
  /** Escaped. */
  path: Schema.String,
  reason: Schema.Literal("link", "special-file")
})
export type SkippedSkillMember = typeof SkippedSkillMember.Type

/** A skill that the marker named and that is wanted no longer; `reason` is the code of a denial, if one is why. */
export const RemovedSkill = Schema.Struct({ ...shape, reason: Schema.Union(Schema.Literal("unwanted"), DeliveryCode) })
export type RemovedSkill = typeof RemovedSkill.Type

/**
 * Why a skill was not laid out, or not removed:
 *
 * - `name-conflict`: another wanted skill has this directory's name, perhaps in another case, or this id; all of them fail
 * - `name-unusable`: neither its name nor its id can be the name of a directory
 * - `skill-md-missing`: it has no `SKILL.md` at its root
 * - `path-unsafe`: one of its paths is not a safe relative path, or is there twice
 * - `path-conflict`: one of its files is where another one needs a directory
 * - `content`: its bytes do not have the size or the digest that its metadata say
 * - `occupied`: at its place is something that no materialization has written
 * - `link`: a link is at its place or on the way there
 * - `io`: the file system refused; `detail` has its word
 */
export const FailureReason = Schema.Literal(
  "name-conflict",
  "name-unusable",
  "skill-md-missing",
  "path-unsafe",
  "path-conflict",
  "content",
  "occupied",
  "link",
  "io"
)
export type FailureReason = typeof FailureReason.Type

/** A skill that is not as wanted. What was at its place before is there still, whole. */
export const FailedSkill = Schema.Struct({
  skillId: Schema.String,
  directory: Schema.optionalWith(Schema.String, { exact: true }),
  reason: FailureReason,
  /** The file system's word and code, or the path that is wrong, escaped. */
  detail: Schema.optionalWith(Schema.String, { exact: true })
})
export type FailedSkill = typeof FailedSkill.Type

/** What a pass put beside the skills and could not clear away: the next one tries again. */
export const Leftover = Schema.Struct({
  /** Of the entry in the skills directory, escaped. */
  name: Schema.String,
  reason: FailureReason,
  detail: Schema.optionalWith(Schema.String, { exact: true })
})
export type Leftover = typeof Leftover.Type

/**
 * What a pass did. Every wanted skill is in exactly one of `written`, `kept` and `failed`.
 *
 * @example
 * ```ts
 * import * as MaterializeReport from "./MaterializeReport.js"
 *
 * const summary = (report: MaterializeReport.MaterializeReport) =>
 *   `${report.written.length} written, ${report.kept.length} kept, ${report.failed.length} failed`
 * ```
 */
export const MaterializeReport = Schema.Struct({
  written: Schema.Array(WrittenSkill),
  kept: Schema.Array(KeptSkill),
  skipped: Schema.Array(SkippedSkillMember),
  removed: Schema.Array(RemovedSkill),
  /** Directories that an interrupted pass had moved away, and that were put back before anything else. */
  restored: Schema.Array(Schema.String),
  leftovers: Schema.Array(Leftover),
  failed: Schema.Array(FailedSkill)
})
export type MaterializeReport = typeof MaterializeReport.Type

/** One failure as a line of text, safe to show. */
export const format = ({ detail, directory, reason, skillId }: FailedSkill): string => {
  const at = directory === undefined || directory === skillId ? "" : ` (in "${directory}")`
  return `"${skillId}"${at}: ${meanings[reason]}${detail === undefined ? "" : `: ${detail}`}`
}

const meanings = {
  "name-conflict": "another skill has the same directory or the same id",
  "name-unusable": "neither its name nor its id can be the name of a directory",
  "skill-md-missing": "it has no SKILL.md at its root",
  "path-unsafe": "it has a file whose path is not safe, or is there twice",
  "path-conflict": "one of its files is where another needs a directory",
  content: "its content is not what its metadata say",
  occupied: "at its place is something that was not written by a materialization; move it away or remove it",
  link: "a link is at its place or on the way there",
  io: "the file system refused"
} satisfies Record<FailureReason, string>
