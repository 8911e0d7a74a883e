/**
 * Skills that a command line names: directories, archives, or the files of one skill. And where on disk a problem of an
 * upload is, whose paths are below the skill.
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import { Effect } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as SkillBundle from "../publishing/SkillBundle.js"
import { skillFileName } from "../publishing/SkillLayout.js"
import * as SkillPackage from "../publishing/SkillPackage.js"
import { limits, type UploadedFile } from "../publishing/Upload.js"
import type { InvalidUpload, UploadProblem, UploadWarning } from "../publishing/UploadProblem.js"
import { Unsuccessful, UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"
import * as Output from "./Output.js"

/** One skill. */
export interface SkillTarget {
  /** What it is called to whoever named it. */
  readonly path: string
  readonly bundle: (
    options?: SkillBundle.BundleOptions
  ) => Effect.Effect<SkillBundle.SkillBundle, InvalidUpload | UsageError, FileSystem.FileSystem | Path.Path>
  /** Where a file of the upload is, by its displayed path, or where the whole of it is. */
  readonly locate: (file: string | undefined) => Location
}

export interface Location {
  /** The file or directory on disk. */
  readonly path: string
  /** The displayed path of what is meant, where that is no path on disk: a member of an archive, an escaped name. */
  readonly member?: string
  /** The file that stands for it where only files can be named. */
  readonly file: string
}

/** A problem or a warning as a linter prints it, `prefix` before its message. */
export const format = (
  { locate }: SkillTarget,
  { file, message, rule }: UploadProblem | UploadWarning,
  prefix = ""
): string => {
  const { member, path } = locate(file)
  return `${display(path)}: ${member === undefined ? "" : `${member}: `}${prefix}${message} [${rule}]`
}

/** Says all that is wrong with a skill, on standard error and with `json` as a result; `consequence` is what that means. */
export const reportInvalid = Effect.fnUntraced(function* (
  target: SkillTarget,
  problems: ReadonlyArray<UploadProblem>,
  { consequence, json }: { readonly consequence: string; readonly json: boolean }
) {
  const code = "INVALID_UPLOAD" satisfies InvalidUpload["_tag"]
  if (json) yield* Output.json({ error: { code, problems } })
  const lines = problems.map((problem) => format(target, problem))
  yield* Output.problem([`${code}: ${display(target.path)} ${consequence}`, ...lines].join("\n"))
  return yield* new Unsuccessful()
})

/** The one skill that is a directory or an archive. */
export const one = Effect.fnUntraced(function* (operand: string) {
  const path = yield* Path.Path
  return (yield* kindOf(operand)) === "directory" ? directory(path, operand) : archive(operand)
})

/** Every directory and every archive is a skill; any other files are one together. */
export const all: (
  operands: ReadonlyArray<string>
) => Effect.Effect<ReadonlyArray<SkillTarget>, UsageError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function* (operands) {
    const path = yield* Path.Path
    const kinds = yield* Effect.forEach(operands, kindOf)
    // Among the files of a skill an archive is a file like any other (contract, One skill, one canonical archive).
    if (!kinds.includes("file")) {
      return operands.map((operand, index) =>
        kinds[index] === "directory" ? directory(path, operand) : archive(operand)
      )
    }
    if (kinds.includes("directory")) {
      return yield* new UsageError({ message: "give directories and archives, or the files of one skill, not both" })
    }
    yield* requireOneSkill(path, operands, kinds)
    return [files(path, operands)]
  }
)

/** Files of which some would be a skill of their own are no upload that anybody meant. */
const requireOneSkill = (path: Path.Path, operands: ReadonlyArray<string>, kinds: ReadonlyArray<Kind>) => {
  const directories = operands.filter((operand) => path.basename(operand) === skillFileName).map(path.dirname)
  const outside = (directory: string) =>
    operands.find(
      (operand, index) =>
        !isBelow(path, path.resolve(operand), path.resolve(directory)) &&
        (kinds[index] === "archive" || path.basename(operand) === skillFileName)
    )
  const [directory] = directories
  const other = directory === undefined ? undefined : outside(directory)
  return directory === undefined || other === undefined || directories.some((some) => outside(some) === undefined)
    ? Effect.void
    : new UsageError({
        message: `give several skills as directories or archives: ${display(other)} is not in ${display(directory)}`
      })
}

type Kind = "archive" | "directory" | "file"

const kindOf = Effect.fnUntraced(function* (operand: string) {
  const fs = yield* FileSystem.FileSystem
  const { type } = yield* Effect.mapError(fs.stat(operand), InputFile.unreadable(operand))
  if (type === "Directory") return "directory"
  // What is read of a pipe is gone.
  if (type !== "File") return "file" satisfies Kind
  const isArchive = /\.zip$/i.test(operand) || SkillPackage.isZip(yield* InputFile.bytes(operand, 4))
  return isArchive ? "archive" : "file"
})

const archive = (operand: string): SkillTarget => ({
  path: operand,
  // One byte more than allowed is enough to refuse it.
  bundle: (options) =>
    Effect.flatMap(InputFile.bytes(operand, limits.archiveBytes + 1), (bytes) => SkillBundle.fromZip(bytes, options)),
  locate: (member) => ({ path: operand, file: operand, ...(member === undefined ? {} : { member }) })
})

const directory = (path: Path.Path, operand: string): SkillTarget => {
  const name = path.basename(path.resolve(operand))
  const skillFile = path.join(operand, skillFileName)
  return {
    path: operand,
    bundle: (options) =>
      Effect.mapError(SkillBundle.fromDirectory(operand, options), (error) => {
        if (error._tag === "INVALID_UPLOAD") return error
        const at = error._tag === "SystemError" ? error.pathOrDescriptor : undefined
        return InputFile.unreadable(typeof at === "string" ? at : operand)(error)
      }),
    locate: (file) => {
      if (file === undefined || file === display(name)) return { path: operand, file: skillFile }
      if (!isExact(file)) return { path: operand, file: skillFile, member: file }
      const location = path.join(operand, file.slice(name.length + 1))
      return { path: location, file: location }
    }
  }
}

/**
 * Whether a displayed path is the path itself: nothing is escaped, for which there is always a backslash, replaced, or cut off
 * at 200 characters or up to nine before, where an escape of ten had no room.
 */
const isExact = (file: string): boolean => !/[\\\ufffd]/.test(file) && file.length <= 190

const files = (path: Path.Path, operands: ReadonlyArray<string>): SkillTarget => {
  const absolute = operands.map((operand) => path.resolve(operand))
  const common = commonDirectory(path, absolute)
  const skillFile = path.join(common, skillFileName)
  // The files of one directory with a `SKILL.md` are that skill, however far above them one stands.
  const root = absolute.includes(skillFile) ? path.dirname(common) : common
  const named = operands.map((operand, index) => ({
    operand,
    path: path.relative(root, absolute[index] ?? operand).replaceAll(path.sep, "/")
  }))
  const shown = path.relative(path.resolve(), common) || "."
  return {
    path: shown,
    bundle: (options) => Effect.flatMap(readAll(named), (files) => SkillBundle.fromFiles(files, options)),
    locate: (file) => {
      const operand = named.find((candidate) => display(candidate.path) === file)?.operand
      if (operand !== undefined) return { path: operand, file: operand }
      return { path: shown, file: path.join(shown, skillFileName), ...(file === undefined ? {} : { member: file }) }
    }
  }
}

const isBelow = (path: Path.Path, file: string, directory: string): boolean => {
  const relative = path.relative(directory, file)
  return relative.split(path.sep)[0] !== ".." && !path.isAbsolute(relative)
}

const commonDirectory = (path: Path.Path, absolute: ReadonlyArray<string>): string => {
  let common = path.dirname(absolute[0] ?? "")
  while (!absolute.every((file) => isBelow(path, file, common)) && path.dirname(common) !== common) {
    common = path.dirname(common)
  }
  return common
}

/** Reads no more than shows that it is too much; `SKILL.md` first, so that what it says is known all the same. */
const readAll = Effect.fnUntraced(function* (
  named: ReadonlyArray<{ readonly operand: string; readonly path: string }>
) {
  const isSkillFile = (file: { readonly path: string }) => file.path.split("/").at(-1) === skillFileName
  const inOrder = [...named.filter(isSkillFile), ...named.filter((file) => !isSkillFile(file))]
  const read: Array<UploadedFile> = []
  let remaining = limits.totalBytes + 1
  for (const { operand, path } of inOrder) {
    const bytes = yield* InputFile.bytes(operand, remaining)
    remaining -= bytes.length
    read.push({ path, bytes })
  }
  return read
})
