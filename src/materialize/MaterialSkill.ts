/**
 * A skill to be laid out: its files with the sizes and digests that the disk is held to, and how it is made of a verified
 * snapshot or of a stored archive.
 *
 * @module
 */
import { Effect, type Stream } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import type { Skill, VerifiedSnapshot } from "../delivery/Snapshot.js"
import * as SkillPackage from "../publishing/SkillPackage.js"

/** One file. `size` (in bytes) and `sha256` (lower-case hex) come from verified metadata. */
export interface MaterialFile {
  /** A safe relative path below the skill's directory. */
  readonly path: string
  readonly size: number
  readonly sha256: string
  /** Read when the file is written. */
  readonly bytes: Uint8Array
}

/** A skill to be laid out. */
export interface MaterialSkill {
  /** What the marker calls it; unique in a directory. */
  readonly skillId: string
  readonly version: string
  /** The directory that it is to have. From trusted metadata. */
  readonly name: string
  readonly files: ReadonlyArray<MaterialFile>
  /** Members of its archive that are not laid out, to be reported. */
  readonly skipped?: ReadonlyArray<SkillPackage.SkippedMember>
}

/**
 * The skills of a delivered snapshot (contract, Materialization). The id is the name as delivered; in the snapshot of a
 * list of containers that is `<container>/<name>`, and the directory is the bare name. The version is the hex SHA-256 over
 * the skill's files, so that a new revision rewrites only what changed.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { SkillDelivery } from "effect-agent-contracts/delivery"
 * import * as MaterialSkill from "./MaterialSkill.js"
 *
 * const skills = Effect.map(SkillDelivery.acquire, MaterialSkill.fromSnapshot)
 * ```
 */
export const fromSnapshot = (snapshot: VerifiedSnapshot): ReadonlyArray<MaterialSkill> =>
  snapshot.skills.map((skill) => ({
    skillId: skill.name,
    version: contentVersion(skill.files),
    name: bareName(skill.name),
    files: skill.files
  }))

/** The name without its container. A skill's own name has no `/`, and a container's id is percent-encoded. */
export const bareName = (name: Skill["name"]): string => name.slice(name.lastIndexOf("/") + 1)

/**
 * The version of a skill that has none of its own: hex SHA-256 of the compact JSON `[[path,size,sha256],...]` of its files
 * in UTF-8 byte order of their paths.
 */
export const contentVersion = (files: ReadonlyArray<Omit<MaterialFile, "bytes">>): string => {
  const identity = files
    .toSorted((left, right) => ArchivePath.compare(left.path, right.path))
    .map(({ path, sha256, size }) => [path, size, sha256])
  return Digest.sha256HexSync(new TextEncoder().encode(JSON.stringify(identity)))
}

/**
 * A skill out of the archive that a registry stores. The archive is read with its bound and held to the digest recorded
 * for it, then extracted; sizes and digests of its files are those of the extracted bytes.
 *
 * `verified` is false when no digest was recorded (an empty `sha256`): whoever asks should say so. Fails with
 * `ARCHIVE_TOO_LARGE`, `DIGEST_MISMATCH`, `INVALID_ARCHIVE`, or as the stream does.
 *
 * @example
 * ```ts
 * import { Effect, Stream } from "effect"
 * import * as MaterialSkill from "./MaterialSkill.js"
 *
 * const skill = (archive: Uint8Array, sha256: string) =>
 *   MaterialSkill.fromArchive({
 *     skillId: "skill_01",
 *     version: "3",
 *     name: "pdf",
 *     archive: Stream.make(archive),
 *     sha256
 *   }).pipe(Effect.map(({ skill }) => skill))
 * ```
 */
export const fromArchive = Effect.fn("MaterialSkill.fromArchive")(function* <E, R>(options: {
  readonly skillId: string
  readonly version: string
  readonly name: string
  readonly archive: Stream.Stream<Uint8Array, E, R>
  readonly sha256: string
}) {
  const { name, skillId, version } = options
  const { bytes, verified } = yield* SkillPackage.readArchive(options.archive, options.sha256)
  const extracted = yield* SkillPackage.extract(bytes)
  const files = yield* Effect.forEach(extracted.files, ({ bytes, path }) =>
    Effect.map(Digest.sha256Hex(bytes), (sha256): MaterialFile => ({ path, size: bytes.length, sha256, bytes }))
  )
  const skill: MaterialSkill = { skillId, version, name, files, skipped: extracted.skipped }
  yield* Effect.annotateCurrentSpan({ "skill.files": files.length, "skill.verified": verified })
  return { skill, verified }
})
