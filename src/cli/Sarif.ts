/**
 * Problems and warnings of skills as SARIF 2.1.0, the format in which code hosts take the results of linters.
 *
 * @module
 */
import { Path } from "@effect/platform"
import { Effect, Record } from "effect"
import packageJson from "../../package.json" with { type: "json" }
import { limits as frontmatter } from "../publishing/Frontmatter.js"
import { limits } from "../publishing/Upload.js"
import type { UploadRule, UploadWarningRule } from "../publishing/UploadProblem.js"

/** One result. */
export interface Result {
  readonly rule: UploadRule | UploadWarningRule
  readonly level: "error" | "warning"
  readonly message: string
  /** The file that it is shown at, absolute or relative to the working directory. */
  readonly file: string
}

const number = (value: number) => value.toLocaleString("en-US")

const mebibytes = (bytes: number) => `${number(bytes / 1024 ** 2)} MiB`

/** What each rule says. */
export const rules: Readonly<Record<UploadRule | UploadWarningRule, string>> = {
  "no-files": "the upload has no files",
  "total-size": `the files have more than ${mebibytes(limits.totalBytes)} together`,
  "member-count": `more than ${number(limits.members)} files, or members of an archive, or files and directories on disk`,
  "archive-size": `the archive is longer than ${mebibytes(limits.archiveBytes)}`,
  "archive-format": "the archive is no ZIP, cut short, encrypted, or broken in its structure",
  "archive-entry": "a member does not decode to what is declared of it",
  "path-encoding": "the path is not valid UTF-8",
  "path-segment": "the path has an empty, `.` or `..` part, or starts with `/`",
  "path-nul": "the path has a NUL character",
  "path-backslash": "the path has a backslash, as some Windows tools write them",
  "path-length": `the path has more than ${number(limits.pathBytes)} bytes`,
  "duplicate-path": "the path is there more than once",
  "file-and-directory": "a file and a directory have this path",
  link: "a link cannot be packed",
  "special-file": "neither a file nor a directory",
  "file-unreadable": "a file on disk may not be read, or changed while it was read",
  "one-directory": "this is not in the one directory that all files must be in",
  "several-skills": "the upload contains several `SKILL.md` files and none of them is the skill's",
  "wrapper-directory": "there is an extra directory around the skill",
  "skill-file": "no `SKILL.md` at the directory's root, or not as a regular file, or in other case",
  "skill-file-encoding": "`SKILL.md` is not valid UTF-8",
  "frontmatter-missing": "`SKILL.md` does not start with a frontmatter, or no line `---` closes it",
  "frontmatter-size": `the frontmatter has more than ${number(frontmatter.tokens)} tokens of YAML, or collections more than ${frontmatter.depth} deep`,
  "frontmatter-yaml": "the frontmatter is not valid YAML, or no map",
  "frontmatter-alias": "the frontmatter has an alias or an anchor",
  "frontmatter-tag": "the frontmatter has a custom tag",
  "name-missing": "no `name`, or one that is not text",
  "name-format": "the name has other characters than `a` to `z`, `0` to `9` and `-`",
  "name-length": "the name has more than 64 characters",
  "name-reserved": "the name has a reserved word",
  "name-hyphens": "the name has a hyphen at an end, or two together (`agent-skills`)",
  "description-missing": "no `description`, or one that is not text",
  "description-length": "the description has more than 1,024 characters",
  "description-text": "the description has a NUL, or half a surrogate pair",
  "description-tags": "the description has an XML tag",
  "directory-name": "the directory has another name than the skill",
  license: "`license` is not text (`agent-skills`)",
  compatibility: "`compatibility` is not text of up to 500 characters (`agent-skills`)",
  metadata: "`metadata` is not a map of text (`agent-skills`)",
  "allowed-tools": "`allowed-tools` is not text (`agent-skills`)",
  policy: "a rule of an operator's own policy",
  "delivery-entries": "more files than a container can deliver (`deliverable` only)",
  "delivery-size": "more bytes than a container can deliver (`deliverable` only)",
  "delivery-path": "a path that delivery refuses (`deliverable` only)",
  "ignored-member": "macOS added this; it is left out",
  "directory-added": "`SKILL.md` lies at the root; a directory of the skill's name is put around all files",
  repacked: "the archive has not the canonical form; its digest is not that of what was uploaded",
  "case-collision": "the path differs from another only by case or Unicode form",
  "windows-name": "Windows has no files of this name"
}

const ruleIds = Record.keys(rules)

/** The log of one run, for `JSON.stringify`. */
export const log = Effect.fnUntraced(function* (results: ReadonlyArray<Result>) {
  const path = yield* Path.Path
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: packageJson.name,
            version: packageJson.version,
            rules: ruleIds.map((id) => ({ id, shortDescription: { text: rules[id] } }))
          }
        },
        results: results.map(({ file, level, message, rule }) => ({
          ruleId: rule,
          ruleIndex: ruleIds.indexOf(rule),
          level,
          message: { text: plainText(message) },
          locations: [
            {
              physicalLocation: {
                artifactLocation: artifactLocation(path, file),
                // No rule knows a line, and code hosts show no result without one.
                region: { startLine: 1 }
              }
            }
          ]
        }))
      }
    ]
  }
})

/**
 * A message that says the same as SARIF's text: braces, which would be placeholders of arguments, are doubled (2.1.0, 3.11.5),
 * and no name of a file makes a link, which is text in brackets before one in parentheses (3.11.6). A backslash before the
 * brackets would be enough for the standard, but not all viewers look for one.
 */
const plainText = (message: string): string => message.replaceAll("](", "]\\u{28}").replace(/[{}]/g, "$&$&")

/** Below the working directory relative to it, which code hosts take for the root of the repository. */
const artifactLocation = (path: Path.Path, file: string) => {
  const segments = path.relative(path.resolve(), path.resolve(file)).split(path.sep)
  return segments[0] === ".." || path.isAbsolute(segments.join(path.sep))
    ? { uri: `file://${encode(path.resolve(file).split(path.sep))}` }
    : { uri: encode(segments), uriBaseId: "%SRCROOT%" }
}

/** Half a surrogate pair, which JavaScript does not encode, comes out as the replacement character. */
const encode = (segments: ReadonlyArray<string>): string =>
  segments.map((segment) => encodeURIComponent(segment.replace(/\p{Surrogate}/gu, "\ufffd"))).join("/")
