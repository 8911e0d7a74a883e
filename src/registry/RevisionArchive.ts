/**
 * A set of skill versions as the revision that is delivered: its name, its archive, and the proof that every agent can take
 * it.
 *
 * @module
 */
import { Array, Effect, Either } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import * as Utf8 from "../archive/Utf8.js"
import * as ZipWriter from "../archive/ZipWriter.js"
import { checkMeanings, type InvalidSnapshot, type SnapshotCheck } from "../delivery/DeliveryError.js"
import * as Manifest from "../delivery/Manifest.js"
import { mediaTypes } from "../delivery/RegistryApi.js"
import * as Snapshot from "../delivery/Snapshot.js"
import type { ExtractedFile, InvalidArchive } from "../publishing/SkillPackage.js"
import { type SetProblem, UndeliverableSet } from "./RegistryError.js"

/** What is in a skill version. */
export interface SkillContent {
  readonly description: string
  readonly files: ReadonlyArray<ExtractedFile>
}

/** A skill version of a set. What is stored may be no archive that is extracted: by rules that came after it, or another program's. */
export interface SourceSkill<E, R> {
  readonly name: string
  readonly load: Effect.Effect<Either.Either<SkillContent, InvalidArchive>, E, R>
}

interface LoadedSkill extends SkillContent {
  readonly name: string
}

/** A revision that `Snapshot.verify` accepts. */
export interface RevisionArchive {
  /** Hex SHA-256 of the canonical manifest without `revision` (contract, Registry server). */
  readonly revision: string
  readonly archive: Uint8Array
}

/**
 * Builds the revision of a set. The same content has the same name and the same bytes in every container and in whatever
 * order it is given, whatever its skill ids and versions.
 *
 * The skills are loaded one by one, no name twice, and no further once a bound of delivery is passed. Fails with `UNDELIVERABLE_SET`, which
 * lists every problem found: one bad publish must not break every agent of a container (contract, Registry server).
 */
export const make = Effect.fn("RevisionArchive.make")(function* <E, R>(
  containerId: string,
  sources: ReadonlyArray<SourceSkill<E, R>>
) {
  const { problems, skills } = yield* gather(sources)
  if (Array.isNonEmptyArray(problems)) return yield* new UndeliverableSet({ containerId, problems })

  const listed = yield* Effect.forEach(skills, ({ description, files, name }) =>
    Effect.map(Effect.forEach(files, listFile), (listedFiles) => ({ name, description, files: listedFiles }))
  )
  const revision = yield* Digest.sha256Hex(encodeJson({ schemaVersion: 1, skills: listed }))
  const archive = yield* ZipWriter.pack([
    { path: Manifest.path, bytes: encodeJson({ schemaVersion: 1, revision, skills: listed }) },
    ...skills.flatMap(({ files, name }) => files.map(({ bytes, path }) => ({ path: `${name}/${path}`, bytes })))
  ])
  yield* Snapshot.verify({
    revision,
    etag: yield* Digest.etag(archive),
    contentType: mediaTypes.archive,
    archive
  }).pipe(
    Effect.catchTags({
      INVALID_SNAPSHOT: (error) =>
        new UndeliverableSet({ containerId, problems: [fromInvalidSnapshot(error, skills)] }),
      // The manifest above has the version of this contract.
      UNSUPPORTED_SERVER: Effect.die
    })
  )
  yield* Effect.annotateCurrentSpan({ "registry.skills": skills.length, "registry.archive_bytes": archive.length })
  return { revision, archive } satisfies RevisionArchive
})

const encoder = new TextEncoder()

const encodeJson = (value: unknown) => encoder.encode(JSON.stringify(value))

const listFile = ({ bytes, path }: ExtractedFile) =>
  Effect.map(Digest.sha256Hex(bytes), (sha256) => ({ path, size: bytes.length, sha256 }))

const problem = (rule: SnapshotCheck, skill: string, file?: string): SetProblem => ({
  skill,
  ...(file === undefined ? {} : { file: ArchivePath.display(file) }),
  rule,
  message: checkMeanings[rule]
})

/** `entry` is escaped already. */
const fromInvalidArchive = ({ check, entry }: InvalidArchive, skill: string): SetProblem => ({
  ...problem(check, skill),
  ...(entry === undefined ? {} : { file: entry })
})

/** The skills in the order of a manifest, with every rule of delivery that they break. */
const gather = Effect.fnUntraced(function* <E, R>(sources: ReadonlyArray<SourceSkill<E, R>>) {
  const skills: globalThis.Array<LoadedSkill> = []
  const problems: globalThis.Array<SetProblem> = []
  const names = new Set<string>()
  // The manifest is one.
  let entries = 1
  let bytes = 0
  // With a file of each skill there would be more: nothing is loaded in vain.
  const beyond = sources[Snapshot.limits.entries - 1]
  if (beyond !== undefined) return { skills, problems: [problem("entry-count", beyond.name)] }
  for (const { load, name } of sources) {
    if (names.has(name)) {
      problems.push(problem("skill-order", name))
      continue
    }
    names.add(name)
    const loaded = yield* load
    if (Either.isLeft(loaded)) {
      problems.push(fromInvalidArchive(loaded.left, name))
      continue
    }
    const { description, files: unsorted } = loaded.right
    const files = unsorted.toSorted((left, right) => ArchivePath.compare(left.path, right.path))
    skills.push({ name, description, files })
    problems.push(...(yield* checkFiles(name, files)))
    for (const file of files) {
      entries++
      bytes += file.bytes.length
      const passed =
        entries > Snapshot.limits.entries
          ? "entry-count"
          : bytes > Snapshot.limits.decodedBytes
            ? "decoded-size"
            : undefined
      // Named is the file with which a bound is passed, and what comes after it is not looked at.
      if (passed !== undefined) return { skills, problems: [...problems, problem(passed, name, file.path)] }
    }
  }
  return { skills: skills.toSorted((left, right) => ArchivePath.compare(left.name, right.name)), problems }
})

/** No entry can have a longer name: ZIP gives its length, in bytes, in 16 bits. */
const maximumName = 0xffff

const checkFiles = Effect.fnUntraced(function* (skill: string, files: ReadonlyArray<ExtractedFile>) {
  const problems = files
    .filter(({ path }) => !ArchivePath.isSafe(path) || encoder.encode(`${skill}/${path}`).length > maximumName)
    .map(({ path }) => problem("file-path", skill, path))
  const entryPoint = files.find(({ path }) => path === Manifest.skillPath)
  if (entryPoint === undefined) problems.push(problem("skill-md-missing", skill, Manifest.skillPath))
  else if (!(yield* Utf8.isValid(entryPoint.bytes))) {
    problems.push(problem("skill-md-encoding", skill, Manifest.skillPath))
  }
  return problems
})

/** What only the whole archive shows, its length with all headers for one: named is the file that is most of it. */
const fromInvalidSnapshot = (
  { check = "archive-size" }: InvalidSnapshot,
  skills: ReadonlyArray<LoadedSkill>
): SetProblem => {
  const [largest] = skills
    .flatMap(({ files, name }) => files.map(({ bytes, path }) => ({ name, path, size: bytes.length })))
    .toSorted((left, right) => right.size - left.size)
  return problem(check, largest?.name ?? "", largest?.path)
}
