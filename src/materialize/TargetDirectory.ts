/**
 * Where in the skills directory a skill lies.
 *
 * @module
 */
import { Option } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"

/** What this module keeps in a skills directory beside the skills: the marker, and files that begin with its name. */
export const reservedPrefix = ".materialized"

/** The longest name of a directory entry that common file systems take, in bytes. */
const maximumNameBytes = 255

/**
 * Whether `name` can be one entry of a skills directory: a safe path of one component that no file of our own has, in
 * whatever case.
 */
export const isUsable = (name: string): boolean =>
  ArchivePath.isSafeComponent(name) &&
  new TextEncoder().encode(name).length <= maximumNameBytes &&
  !fold(name).startsWith(reservedPrefix)

/** Names with the same key are one entry on a disk that takes no notice of case or of how an accent is written. */
export const fold = (name: string): string => name.normalize("NFC").toLowerCase()

/**
 * The directory of a skill: its version's name, or its id when the name is empty or cannot be one path component
 * (contract, Materialization). None when the id cannot be one either.
 *
 * The name has to come from trusted metadata, never from a file in the skills directory.
 *
 * @example
 * ```ts
 * import * as TargetDirectory from "./TargetDirectory.js"
 *
 * TargetDirectory.targetDirectory("pdf", "skill_01") // some "pdf"
 * TargetDirectory.targetDirectory("../pdf", "skill_01") // some "skill_01"
 * ```
 */
export const targetDirectory = (name: string, skillId: string): Option.Option<string> =>
  isUsable(name) ? Option.some(name) : isUsable(skillId) ? Option.some(skillId) : Option.none()
