/**
 * The paths of an upload: the rules that each keeps, the rules that they keep together, and what will not work everywhere.
 *
 * @module
 */
import * as ArchivePath from "../archive/ArchivePath.js"
import { limits } from "./Upload.js"
import { problemAt, type UploadProblem, type UploadWarning } from "./UploadProblem.js"

/** What was found at a path. */
export type MemberKind = "file" | "directory" | "link" | "special-file"

/** A member of an upload: all that is known before its bytes are read. */
export interface Member {
  /** With `/` between its components and none at its end. */
  readonly path: string
  /** Whether the path is as it was given; not where its bytes were no UTF-8 and had to be replaced. */
  readonly isUtf8: boolean
  readonly kind: MemberKind
  /** In bytes. */
  readonly size: number
}

/** What is wrong with a path (contract, One skill, one canonical archive). */
export const problemsOf = ({ isUtf8, path }: Pick<Member, "isUtf8" | "path">): ReadonlyArray<UploadProblem> => {
  const problems: Array<UploadProblem> = []
  if (!isUtf8 || /\p{Surrogate}/u.test(path)) {
    problems.push(problemAt("path-encoding", path, "the path is not valid UTF-8"))
  }
  if (path.includes("\0")) problems.push(problemAt("path-nul", path, "the path has a NUL character"))
  if (path.includes("\\")) {
    problems.push(
      problemAt("path-backslash", path, "the path has a backslash: some Windows tools write them; pack it again with /")
    )
  }
  if (!isReadable(path)) {
    problems.push(problemAt("path-segment", path, 'the path has an empty, "." or ".." part, or starts with /'))
  }
  if (byteLength(path) > limits.pathBytes) {
    problems.push(problemAt("path-length", path, `the path has more than ${limits.pathBytes} bytes`))
  }
  return problems
}

/** The path that was meant where a Windows tool wrote it. */
export const withSlashes = (path: string): string => path.replaceAll("\\", "/")

/** Whether the path can be looked at as one of a skill, whatever else is wrong with it: no part is empty, `.` or `..`. */
export const isReadable = (path: string): boolean => !/(?:^|\/)\.{0,2}(?:\/|$)/.test(withSlashes(path))

const encoder = new TextEncoder()

const byteLength = (text: string): number => encoder.encode(text).length

/** What macOS adds to archives and folders, and nobody means to publish. */
export const isIgnored = (path: string): boolean => {
  const components = withSlashes(path).split("/")
  return components.includes("__MACOSX") || components.at(-1) === ".DS_Store"
}

/** Two members that no directory could hold: one path twice, or a file (or link, or device) and a directory of one path. */
export interface Conflict<M> {
  readonly type: "duplicate" | "file-and-directory"
  readonly member: M
}

/**
 * Paths that are there twice, and files with the path of a directory. By sorting, not by a set of every directory: one hostile
 * path can have thirty thousand.
 */
export const conflicts = <M extends { readonly kind: string; readonly path: string }>(
  members: ReadonlyArray<M>
): ReadonlyArray<Conflict<M>> => {
  const found: Array<Conflict<M>> = []
  const sorted = toSorted(members, (path) => path)
  for (const [index, { key, member }] of sorted.entries()) {
    const previous = sorted[index - 1]
    if (previous === undefined) continue
    if (previous.key === key) {
      const isReported = sorted[index - 2]?.key === key
      const type = isDirectory(previous.member) === isDirectory(member) ? "duplicate" : "file-and-directory"
      if (!isReported) found.push({ type, member })
    } else if (!isDirectory(previous.member) && key.startsWith(previous.key)) {
      // All that is below a path comes right behind it.
      found.push({ type: "file-and-directory", member: previous.member })
    }
  }
  return found
}

const isDirectory = ({ kind }: { readonly kind: string }): boolean => kind === "directory"

/** The same as problems. */
export const problemsTogether = (members: ReadonlyArray<Member>): ReadonlyArray<UploadProblem> =>
  conflicts(members).map(({ member, type }) =>
    type === "duplicate"
      ? problemAt("duplicate-path", member.path, "this path is there more than once")
      : problemAt("file-and-directory", member.path, "a file and a directory have this path")
  )

/**
 * What cannot be laid out everywhere: names that differ only by case or by Unicode form, which are one on macOS and Windows,
 * and names that Windows does not have.
 */
export const warningsOf = (members: ReadonlyArray<Member>): ReadonlyArray<UploadWarning> => [
  ...caseWarnings(members),
  ...members.filter(({ path }) => noWindowsName.test(path)).map(windowsWarning)
]

/**
 * In the order of their folded paths, all below one folded directory are neighbours, so that two spellings of it show
 * between two of them.
 */
function* caseWarnings(members: ReadonlyArray<Member>): Generator<UploadWarning> {
  const sorted = toSorted(members, (path) => path.normalize("NFC").toLowerCase())
  const reported = new Set<string>()
  for (const [index, { key, member }] of sorted.entries()) {
    const previous = sorted[index - 1]
    if (previous === undefined) continue
    const same = sharedComponents(previous.key, key)
    const left = leadingComponents(previous.member.path, same)
    const right = leadingComponents(member.path, same)
    if (left !== right && !reported.has(ArchivePath.key(right))) {
      reported.add(ArchivePath.key(right))
      yield {
        rule: "case-collision",
        file: ArchivePath.display(right),
        message: `differs from ${ArchivePath.display(left)} only by case or Unicode form, which macOS and Windows do not tell apart`
      }
    }
  }
}

/** How many components two paths, each with a `/` at its end, have in common from the first on. */
const sharedComponents = (left: string, right: string): number => {
  let shared = 0
  for (let index = 0; index < left.length && left[index] === right[index]; index++) if (left[index] === "/") shared++
  return shared
}

/** The path up to and without the `/` behind so many of its components. */
const leadingComponents = (path: string, count: number): string => {
  let end = -1
  for (let component = 0; component < count; component++) {
    end = path.indexOf("/", end + 1)
    if (end === -1) return path
  }
  return path.slice(0, Math.max(end, 0))
}

interface Sortable<M> {
  readonly key: string
  readonly member: M
}

/** By a key of the path with a `/` at its end, so that what lies below a path starts with its key. */
const toSorted = <M extends { readonly path: string }>(
  members: ReadonlyArray<M>,
  keyOf: (path: string) => string
): ReadonlyArray<Sortable<M>> =>
  members
    .map((member) => ({ key: `${keyOf(member.path)}/`, member }))
    .sort((left, right) => (left.key < right.key ? -1 : left.key > right.key ? 1 : 0))

/** Devices, with any extension; characters; a dot or space at the end. Of the whole path at once, whose parts can be many. */
const noWindowsName =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what Windows refuses.
  /(?:^|\/)(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:[./]|$)|[<>:"|?*\u0000-\u001f]|[. ](?:\/|$)/i

const windowsWarning = ({ path }: Member): UploadWarning => ({
  rule: "windows-name",
  file: ArchivePath.display(path),
  message: "Windows has no files of this name"
})
