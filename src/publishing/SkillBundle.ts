/**
 * An upload made a skill: validated, and packed as the one canonical archive that a registry stores. Every way in - loose
 * files, an archive, a directory - goes through the same rules (contract, One skill, one canonical archive).
 *
 * @module
 */
import type { FileSystem, Path } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import { Array, Effect, Either } from "effect"
import { yieldToEventLoop } from "#codec"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import * as Pace from "../archive/Pace.js"
import * as Utf8 from "../archive/Utf8.js"
import * as ZipWriter from "../archive/ZipWriter.js"
import * as Deliverability from "./Deliverability.js"
import * as Frontmatter from "./Frontmatter.js"
import * as Policy from "./Policy.js"
import * as SkillLayout from "./SkillLayout.js"
import * as SkillPackage from "./SkillPackage.js"
import { limits, type UploadedFile } from "./Upload.js"
import * as UploadPath from "./UploadPath.js"
import { InvalidUpload, problem, problemAt, type UploadProblem, type UploadWarning } from "./UploadProblem.js"
import * as UploadSource from "./UploadSource.js"

/** One file of a bundle. */
export interface BundleFile {
  /** Below the skill's directory. */
  readonly path: string
  /** In bytes. */
  readonly size: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** A valid skill, packed. */
export interface SkillBundle {
  readonly name: string
  readonly description: string
  /** The single top-level directory of the archive. */
  readonly directory: string
  /** The bytes to store. An archive that had the canonical form is the very bytes that came in. */
  readonly archive: Uint8Array
  /** Lower-case hex SHA-256 of `archive`. */
  readonly sha256: string
  /** In UTF-8 byte order of their paths. */
  readonly files: ReadonlyArray<BundleFile>
  /** What is worth saying of the upload. */
  readonly warnings: ReadonlyArray<UploadWarning>
}

export interface BundleOptions {
  /** `Policy.seed` by default. */
  readonly policy?: Policy.Policy
  /** Whether what no container could deliver is a problem too, as in a linter; not by default. */
  readonly deliverable?: boolean
}

/**
 * A bundle of loose files with path-qualified names (`financial-skill/SKILL.md`), or of the one ZIP archive that they are:
 * exactly one file that begins with the magic of a ZIP's local header.
 *
 * Fails with `INVALID_UPLOAD`, which lists every problem with the file and the rule. The bytes must not change while this
 * runs, nor those of an archive afterwards.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as SkillBundle from "./SkillBundle.js"
 *
 * const text = "---\nname: greeting\ndescription: Greets people\n---\nSay hello.\n"
 * const program = SkillBundle.fromFiles([{ path: "greeting/SKILL.md", bytes: new TextEncoder().encode(text) }]).pipe(
 *   Effect.map((bundle) => bundle.name),
 *   Effect.catchTag("INVALID_UPLOAD", (error) => Effect.succeed(error.message))
 * )
 * Effect.runPromise(program).then(console.log) // "greeting"
 * ```
 */
export const fromFiles: (
  files: ReadonlyArray<UploadedFile>,
  options?: BundleOptions
) => Effect.Effect<SkillBundle, InvalidUpload> = Effect.fn("SkillBundle.fromFiles")(function* (files, options) {
  const [first, ...more] = files
  if (first !== undefined && more.length === 0 && SkillPackage.isZip(first.bytes)) {
    return yield* bundleZip(first.bytes, options)
  }
  return yield* bundle(UploadSource.fromFiles(files), options)
})

/**
 * A bundle of a ZIP archive. One that has the canonical form - one top-level directory, nothing to ignore, nothing that
 * another reader would see otherwise - is kept byte for byte; any other that is accepted is packed again, which is a warning.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as SkillBundle from "./SkillBundle.js"
 *
 * const problems = (archive: Uint8Array) =>
 *   SkillBundle.fromZip(archive).pipe(
 *     Effect.as([]),
 *     Effect.catchTag("INVALID_UPLOAD", (error) => Effect.succeed(error.problems.map((problem) => problem.rule)))
 *   )
 * ```
 */
export const fromZip: (archive: Uint8Array, options?: BundleOptions) => Effect.Effect<SkillBundle, InvalidUpload> =
  Effect.fn("SkillBundle.fromZip")(function* (archive, options) {
    return yield* bundleZip(archive, options)
  })

/**
 * A bundle of a directory on disk, whose name has to be the skill's. Links are problems and never followed; sizes are summed
 * before a file is read.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as SkillBundle from "./SkillBundle.js"
 *
 * const program = Effect.map(SkillBundle.fromDirectory("skills/greeting"), (bundle) => bundle.archive)
 * ```
 */
export const fromDirectory: (
  directory: string,
  options?: BundleOptions
) => Effect.Effect<SkillBundle, InvalidUpload | PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fn(
  "SkillBundle.fromDirectory"
)(function* (directory, options) {
  return yield* bundle(yield* UploadSource.fromDirectory(directory), options)
})

const bundleZip = (archive: Uint8Array, options: BundleOptions | undefined) =>
  UploadSource.fromZip(archive).pipe(
    Effect.mapError((unreadable) => new InvalidUpload({ problems: [unreadable] })),
    Effect.flatMap((source) => bundle(source, options))
  )

const bundle = Effect.fnUntraced(function* <M extends UploadPath.Member, E, R>(
  source: UploadSource.UploadSource<M, E, R>,
  { deliverable = false, policy = Policy.seed }: BundleOptions = {}
) {
  const kept = source.members.filter(({ path }) => !UploadPath.isIgnored(path))
  const files = kept.filter(({ kind }) => kind === "file")
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0)
  yield* Effect.annotateCurrentSpan({ "upload.members": source.members.length, "upload.bytes": totalBytes })

  const problems: Array<UploadProblem> = []
  const isTooMany = source.members.length > limits.members
  if (isTooMany) problems.push(UploadSource.tooManyMembers)
  const isTooLong = totalBytes > limits.totalBytes
  if (isTooLong) problems.push(problem("total-size", `the files have more than ${limits.totalBytes} bytes together`))
  const pace = Pace.make()
  for (const member of source.members) {
    problems.push(...UploadPath.problemsOf(member))
    // Names can be long.
    if (pace(memberCost + member.path.length)) yield* yieldToEventLoop
  }
  problems.push(...UploadPath.problemsTogether(kept.filter(({ isUtf8 }) => isUtf8)))
  problems.push(...kept.flatMap(irregular))

  const readable = kept.filter(({ path }) => UploadPath.isReadable(path))
  const layout = SkillLayout.find(readable)
  const below = ({ path }: M) => (layout.directory === undefined ? path : path.slice(layout.directory.length + 1))
  if (files.length === 0) problems.push(problem("no-files", "the upload has no files"))
  // Where no path can be read, or not all are listed, nobody knows what is missing.
  else if (readable.length > 0 && source.isWhole) problems.push(...layout.problems)

  const skillFile = files.find((file) => file === layout.skillFile)
  const wanted = (
    isTooMany || isTooLong ? Array.fromNullable(skillFile).filter(({ size }) => size <= limits.totalBytes) : files
  ).filter(({ isUtf8 }) => isUtf8)
  const [unreadable, contents] = Array.separate(
    Array.zipWith(wanted, yield* source.read(wanted), (file, content) =>
      Either.map(content, (bytes) => ({ file, bytes }))
    )
  )
  problems.push(...unreadable)

  const skillContent = contents.find(({ file }) => file === skillFile)
  const skill = skillContent === undefined ? undefined : yield* describe(skillContent, layout.directory, policy)
  if (skill !== undefined) problems.push(...skill.problems)
  if (deliverable) {
    // A path that is not even relative has its problem already.
    const shown = files.filter(({ path }) => ArchivePath.isRelative(path))
    const isFound = layout.skillFile !== undefined && layout.problems.length === 0
    problems.push(
      ...Deliverability.ofFiles(shown.map((file) => ({ path: isFound ? below(file) : file.path, uploaded: file.path })))
    )
  }
  const said = [
    ...source.members.filter(({ path }) => UploadPath.isIgnored(path)).map(ignored),
    ...UploadPath.warningsOf(files)
  ]
  if (Array.isNonEmptyArray(problems)) {
    yield* Effect.annotateCurrentSpan("upload.problems", problems.length)
    return yield* new InvalidUpload({ problems, warnings: said })
  }
  // Without a problem there is a `SKILL.md` with a name and a description.
  const { description, name } = skill ?? (yield* Effect.dieMessage("SkillBundle: a valid upload without SKILL.md"))

  const directory = layout.directory ?? name
  const isCanonical = source.members.every(({ path }) => path === directory || path.startsWith(`${directory}/`))
  const isKept = source.archive?.isUnambiguous === true && isCanonical && kept.length === source.members.length
  const archive =
    source.archive !== undefined && isKept
      ? source.archive.bytes
      : yield* ZipWriter.pack(contents.map(({ bytes, file }) => ({ path: `${directory}/${below(file)}`, bytes })))
  const warnings: ReadonlyArray<UploadWarning> = [
    ...(layout.directory === undefined ? [directoryAdded(name)] : []),
    ...(source.archive !== undefined && !isKept ? [repacked] : []),
    ...said
  ]
  const made: SkillBundle = {
    name,
    description,
    directory,
    archive,
    sha256: yield* Digest.sha256Hex(archive),
    files: yield* digests(contents.map(({ bytes, file }) => ({ path: below(file), bytes }))),
    warnings
  }
  const undeliverable = deliverable ? yield* Deliverability.check(made) : []
  if (Array.isNonEmptyReadonlyArray(undeliverable)) {
    return yield* new InvalidUpload({ problems: undeliverable, warnings })
  }
  yield* Effect.annotateCurrentSpan({ "upload.skill": name, "upload.sha256": made.sha256 })
  return made
})

const irregular = ({ kind, path }: UploadPath.Member): ReadonlyArray<UploadProblem> => {
  if (kind === "link") return [problemAt("link", path, "a link cannot be packed: put the file itself here")]
  return kind === "special-file" ? [problemAt("special-file", path, "this is neither a file nor a directory")] : []
}

/** What `SKILL.md` says, and what is wrong with it. */
const describe = Effect.fnUntraced(function* (
  { bytes, file }: { readonly bytes: Uint8Array; readonly file: UploadPath.Member },
  directory: string | undefined,
  policy: Policy.Policy
) {
  const at = ({ message, rule }: { readonly rule: UploadProblem["rule"]; readonly message: string }) =>
    problemAt(rule, file.path, message)
  const parsed = Frontmatter.parse(bytes)
  const frontmatter: Frontmatter.Frontmatter = Either.getOrElse(parsed, () => new Map())
  const findings = Either.match(parsed, {
    onLeft: (left) => left,
    onRight: (right) => Policy.check(policy, { directory, frontmatter: right })
  })
  const isText = yield* Utf8.isValid(bytes)
  const problems = [
    ...(isText ? [] : [problemAt("skill-file-encoding", file.path, "is not valid UTF-8")]),
    ...findings.filter(({ rule }) => rule !== "skill-file-encoding").map(at)
  ]
  return {
    problems,
    name: String(frontmatter.get("name")),
    description: String(frontmatter.get("description"))
  }
})

const ignored = ({ path }: UploadPath.Member): UploadWarning => ({
  rule: "ignored-member",
  file: ArchivePath.display(path),
  message: "macOS added this; it is left out"
})

const directoryAdded = (name: string): UploadWarning => ({
  rule: "directory-added",
  message: `${SkillLayout.skillFileName} lies at the root: all files are put in a directory ${name}`
})

const repacked: UploadWarning = {
  rule: "repacked",
  message: "the archive has not the canonical form and is packed again: its digest is not that of what was uploaded"
}

/** What a file costs beside its bytes, in bytes hashed. */
const fileCost = 4 * 1024

/** What a member costs beside its path, in UTF-16 units looked at. */
const memberCost = 1024

const digests = Effect.fnUntraced(function* (files: ReadonlyArray<UploadedFile>) {
  const made: Array<BundleFile> = []
  const pace = Pace.make()
  for (const { bytes, path } of files.toSorted((left, right) => ArchivePath.compare(left.path, right.path))) {
    made.push({ path, size: bytes.length, sha256: yield* Digest.sha256Hex(bytes) })
    if (pace(fileCost + bytes.length)) yield* yieldToEventLoop
  }
  return made
})
