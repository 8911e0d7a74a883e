/**
 * What a skill may be called and what it says of itself. The rules that every skill keeps are here, and the policies that
 * add to them; a policy is a value, and operators can make their own of the same rules and of new ones.
 *
 * @module
 */
import { Array, type Option } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import type { Frontmatter } from "./Frontmatter.js"
import type { Finding } from "./UploadProblem.js"

/** What a rule looks at. */
export interface SkillDraft {
  /** The directory that `SKILL.md` is in; `undefined` where it lies at the root, and the skill's name becomes the directory. */
  readonly directory: string | undefined
  readonly frontmatter: Frontmatter
}

/** What is wrong with a draft: nothing, one thing or several. */
export type Rule = (draft: SkillDraft) => ReadonlyArray<Finding>

/** Rules beyond those that every skill keeps. */
export interface Policy {
  readonly name: string
  readonly rules: ReadonlyArray<Rule>
}

const finding = (rule: Finding["rule"], message: string): ReadonlyArray<Finding> => [{ rule, message }]

/** The number of Unicode code points, which is what the contract counts. */
const codePoints = (text: string): number => {
  let count = 0
  for (const _ of text) count++
  return count
}

/** The value of a key that must be text; blank is as good as missing. */
const text = (frontmatter: Frontmatter, key: string): string | undefined => {
  const value = frontmatter.get(key)
  return typeof value === "string" && value.trim() !== "" ? value : undefined
}

const missing = (frontmatter: Frontmatter, key: "description" | "name") => {
  const value = frontmatter.get(key)
  const isOther = value !== undefined && value !== null && typeof value !== "string"
  return finding(
    `${key}-missing`,
    isOther ? `has a ${key} that is not text: put it in quotes` : `has no ${key} in its frontmatter`
  )
}

/** Such a name is safe to show too. */
const isName = (name: string): boolean => /^[a-z0-9-]*$/.test(name)

/** 1 to 64 characters of `[a-z0-9-]`. */
const nameRule: Rule = ({ frontmatter }) => {
  const name = text(frontmatter, "name")
  if (name === undefined) return missing(frontmatter, "name")
  return [
    ...(codePoints(name) > 64 ? finding("name-length", "has a name of more than 64 characters") : []),
    ...(isName(name) ? [] : finding("name-format", "has a name with other characters than a to z, 0 to 9 and -"))
  ]
}

/** `<tag>`, `</tag>` and `<tag/>`, with or without attributes; a bare `<` in prose is fine, and so is `<me@example.org>`. */
const tag = /<\/?[\p{L}_][\p{L}\p{M}\p{N}_.:\u00b7\u203f\u2040-]*(?:\s[^<>]*)?\/?\s*>/u

/** 1 to 1,024 characters of valid text without NUL and without tags. */
const descriptionRule: Rule = ({ frontmatter }) => {
  const description = text(frontmatter, "description")
  if (description === undefined) return missing(frontmatter, "description")
  return [
    ...(codePoints(description) > 1024
      ? finding("description-length", "has a description of more than 1,024 characters")
      : []),
    ...(/[\0\p{Surrogate}]/u.test(description)
      ? finding("description-text", "has a description with a NUL or half a surrogate pair, which is not valid text")
      : []),
    ...(tag.test(description) ? finding("description-tags", "has a description with an XML tag such as <tag>") : [])
  ]
}

/** The rules that every skill keeps, whatever the policy (contract, One skill, one canonical archive). */
const everySkill: ReadonlyArray<Rule> = [nameRule, descriptionRule]

/** No name contains one of these words. */
export const reservedWords =
  (words: ReadonlyArray<string>): Rule =>
  ({ frontmatter }) => {
    const name = text(frontmatter, "name")?.toLowerCase() ?? ""
    return words
      .filter((word) => name.includes(word))
      .flatMap((word) => finding("name-reserved", `has a name with the reserved word "${word}"`))
  }

/** Nothing where the name or the directory is missing: that is said by other rules. */
const directoryRule =
  (isSame: (directory: string, name: string) => boolean, how: string): Rule =>
  ({ directory, frontmatter }) => {
    const name = text(frontmatter, "name")
    if (name === undefined || directory === undefined || isSame(directory, name)) return []
    const names = isName(name) ? `: "${name}", not "${ArchivePath.display(directory)}"` : ""
    const hint = directory.startsWith(`${name}-`) ? ". Downloads of a repository add a branch or a version to it" : ""
    return finding("directory-name", `has a directory whose name is not ${how} its frontmatter${names}${hint}`)
  }

const fold = (name: string) => name.toLowerCase().replaceAll("_", "-")

/** The directory's name is the skill's, compared case-insensitively and with `_` equal to `-`. */
export const similarDirectory: Rule = directoryRule((directory, name) => fold(directory) === fold(name), "that of")

/** The directory's name is exactly the skill's. */
export const exactDirectory: Rule = directoryRule((directory, name) => directory === name, "exactly that of")

/** No hyphen at the name's start and end, and no two together. */
export const singleHyphens: Rule = ({ frontmatter }) =>
  /^-|-$|--/.test(text(frontmatter, "name") ?? "")
    ? finding("name-hyphens", "has a name with a hyphen at its start or end, or with two together")
    : []

/** A key that may be missing but, if it is there, is text of at most so many characters. */
const optionalText =
  (key: "allowed-tools" | "compatibility" | "license", maximum = Number.POSITIVE_INFINITY): Rule =>
  ({ frontmatter }) => {
    if (!frontmatter.has(key)) return []
    const value = text(frontmatter, key)
    if (value === undefined) return finding(key, `has a value of ${key} that is not text`)
    return codePoints(value) > maximum ? finding(key, `has a value of ${key} of more than ${maximum} characters`) : []
  }

/** `metadata` may be missing but, if it is there, is a map of strings. */
const metadataRule: Rule = ({ frontmatter }) => {
  if (!frontmatter.has("metadata")) return []
  const metadata = frontmatter.get("metadata")
  return metadata instanceof Map && [...metadata.values()].every((value) => typeof value === "string")
    ? []
    : finding("metadata", "has metadata that is not a map of text: put numbers, dates and the like in quotes")
}

const reserved = reservedWords(["anthropic", "claude"])

/** The rules of the contract, and the default. */
export const seed: Policy = { name: "seed", rules: [reserved, similarDirectory] }

/**
 * The public Agent Skills format on top of the contract's rules: a name without a hyphen at its ends or two together, a
 * directory of exactly that name, and `license`, `compatibility`, `metadata` and `allowed-tools` of their types.
 */
export const agentSkills: Policy = {
  name: "agent-skills",
  rules: [
    reserved,
    singleHyphens,
    exactDirectory,
    optionalText("license"),
    optionalText("compatibility", 500),
    metadataRule,
    optionalText("allowed-tools")
  ]
}

/** The policies that are here. */
export const all: ReadonlyArray<Policy> = [seed, agentSkills]

/** The policy of this name, as a command line gives it. */
export const byName = (name: string): Option.Option<Policy> => Array.findFirst(all, (policy) => policy.name === name)

/**
 * All that is wrong with a draft, by the rules that every skill keeps and by those of the policy.
 *
 * @example
 * ```ts
 * import * as Policy from "./Policy.js"
 *
 * const noDrafts: Policy.Rule = ({ frontmatter }) =>
 *   frontmatter.get("status") === "draft" ? [{ rule: "policy", message: "is a draft" }] : []
 * const ours: Policy.Policy = { name: "ours", rules: [...Policy.seed.rules, noDrafts] }
 * const frontmatter = new Map([["name", "greeting"], ["description", "Greets people"], ["status", "draft"]])
 * console.log(Policy.check(ours, { directory: "greeting", frontmatter }).length) // 1
 * ```
 */
export const check = (policy: Policy, draft: SkillDraft): ReadonlyArray<Finding> =>
  [...everySkill, ...policy.rules].flatMap((rule) => rule(draft))
