/**
 * What no container could deliver of a skill, even alone: the bounds of a snapshot and the rules of its paths. An upload may
 * break them, since not every skill that is published is delivered.
 *
 * @module
 */
import { Effect, Option } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as ZipWriter from "../archive/ZipWriter.js"
import * as Manifest from "../delivery/Manifest.js"
import * as Snapshot from "../delivery/Snapshot.js"
import * as SkillPackage from "./SkillPackage.js"
import { problem, problemAt, type UploadProblem } from "./UploadProblem.js"

/** What is asked of a skill; a `SkillBundle` is one. */
export interface Deliverable {
  readonly name: string
  readonly description: string
  readonly directory: string
  readonly archive: Uint8Array
  /** In UTF-8 byte order of their paths. */
  readonly files: ReadonlyArray<Manifest.ManifestFile>
}

/**
 * Every rule of delivery that the skill breaks: nothing exactly where `Snapshot.verify` takes a container of this skill alone.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as Deliverability from "./Deliverability.js"
 * import * as SkillBundle from "./SkillBundle.js"
 *
 * const program = Effect.flatMap(SkillBundle.fromDirectory("skills/greeting"), Deliverability.check)
 * ```
 */
export const check: (skill: Deliverable) => Effect.Effect<ReadonlyArray<UploadProblem>> = Effect.fn(
  "Deliverability.check"
)(function* (skill) {
  const problems = ofFiles(skill.files.map(({ path }) => ({ path, uploaded: `${skill.directory}/${path}` })))
  return [...problems, ...(yield* ofSizes(skill))]
})

/** A file by its path in the skill, and as it was uploaded. */
export interface DeliverableFile {
  readonly path: string
  readonly uploaded: string
}

/** What can be said of files before any of their bytes is read. */
export const ofFiles = (files: ReadonlyArray<DeliverableFile>): ReadonlyArray<UploadProblem> => [
  ...(files.length > mostFiles ? [problem("delivery-entries", `a container delivers at most ${mostFiles} files`)] : []),
  ...files
    .filter(({ path }) => !ArchivePath.isSafe(path))
    .map(({ uploaded }) =>
      problemAt("delivery-path", uploaded, "a path with a control character or a drive such as C: is not delivered")
    )
]

/** The manifest is an entry too. */
const mostFiles = Snapshot.limits.entries - 1

const encoder = new TextEncoder()

/** As long as any: the digest that a revision is named by. */
const revision = "0".repeat(64)

/** What an entry takes in an archive beside its data and, twice, its name; and what the end takes. */
const entryBytes = 30 + 46
const endBytes = 22

const ofSizes = Effect.fnUntraced(function* (skill: Deliverable) {
  const { description, files, name } = skill
  const manifest = encoder.encode(
    JSON.stringify({ schemaVersion: 1, revision, skills: [{ name, description, files }] })
  )
  const decodedBytes = files.reduce((sum, { size }) => sum + size, manifest.length)
  if (decodedBytes > Snapshot.limits.decodedBytes) {
    return [
      problem(
        "delivery-size",
        `a container delivers at most ${Snapshot.limits.decodedBytes} bytes, its manifest included`
      )
    ]
  }
  const names = [Manifest.path, ...files.map((file) => Manifest.memberPath(skill, file))]
  const nameBytes = names.reduce((sum, some) => sum + encoder.encode(some).length, 0)
  // What cannot be made smaller is stored, so that no archive is longer. Past the bound only packing it tells how long it is.
  const longest = decodedBytes + 2 * nameBytes + names.length * entryBytes + endBytes
  if (longest <= Snapshot.limits.archiveBytes) return []
  const extracted = yield* Effect.option(SkillPackage.extract(skill.archive))
  // Then a path is a problem already.
  if (Option.isNone(extracted)) return []
  const archive = yield* ZipWriter.pack([
    { path: Manifest.path, bytes: manifest },
    ...extracted.value.files.map(({ bytes, path }) => ({ path: `${name}/${path}`, bytes }))
  ])
  return archive.length <= Snapshot.limits.archiveBytes
    ? []
    : [
        problem(
          "delivery-size",
          `a container delivers at most ${Snapshot.limits.archiveBytes} bytes of archive, in which each name is there twice`
        )
      ]
})
