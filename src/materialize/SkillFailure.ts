/**
 * Why one skill is not as wanted, as it is found; the report has it escaped.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import * as ArchivePath from "../archive/ArchivePath.js"
import type { LinkRefused } from "./ConfinedFiles.js"
import { platformReason } from "./MaterializeError.js"
import type { FailedSkill, FailureReason } from "./MaterializeReport.js"

export interface Cause {
  readonly reason: FailureReason
  readonly detail?: string
}

export interface SkillFailure extends Cause {
  readonly skillId: string
  readonly directory?: string
}

/** A failure of the file system below; anything else has a name of its own. */
export type FileError = PlatformError | LinkRefused

export const ofFile = (error: FileError): Cause =>
  error._tag === "LinkRefused" ? { reason: "link" } : { reason: "io", detail: platformReason(error) }

export const toReport = ({ detail, directory, reason, skillId }: SkillFailure): FailedSkill => ({
  skillId: ArchivePath.display(skillId),
  ...(directory === undefined ? {} : { directory: ArchivePath.display(directory) }),
  reason,
  ...(detail === undefined ? {} : { detail })
})
