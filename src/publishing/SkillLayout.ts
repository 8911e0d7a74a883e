/**
 * Where in an upload the skill is. People's archives have wrappers around it, several skills, or no directory at all; what
 * can be meant is taken, and everything else is answered with what to do.
 *
 * @module
 */
import * as ArchivePath from "../archive/ArchivePath.js"
import { type Member, withSlashes } from "./UploadPath.js"
import { problem, problemAt, type UploadProblem } from "./UploadProblem.js"

/** The name of the file that makes a directory a skill. */
export const skillFileName = "SKILL.md"

/** Where the skill is, as far as that can be told. */
export interface SkillLayout {
  /** The directory that all files are below; `undefined` where `SKILL.md` lies at the root, or where nobody can tell. */
  readonly directory: string | undefined
  /** `SKILL.md`, where there is one that can be the skill's. */
  readonly skillFile: Member | undefined
  readonly problems: ReadonlyArray<UploadProblem>
}

/** `members` are those to be packed; all of their paths are readable. */
export const find = (members: ReadonlyArray<Member>): SkillLayout => {
  const files = members.filter(({ kind }) => kind === "file")
  const located = files.map((member): Located => ({ member, components: withSlashes(member.path).split("/") }))
  const skillFiles = located.filter(({ components }) => components.at(-1) === skillFileName)
  const atRoot = skillFiles.find(({ components }) => components.length === 1)
  if (atRoot !== undefined && skillFiles.length === 1) {
    return { directory: undefined, skillFile: atRoot.member, problems: [] }
  }

  const top = located[0]?.components[0] ?? ""
  const isOneDirectory = located.every(({ components }) => components.length > 1 && components[0] === top)
  const inTop = skillFiles.find(({ components }) => components.length === 2)
  if (isOneDirectory && inTop !== undefined) return { directory: top, skillFile: inTop.member, problems: [] }

  const only = atRoot === undefined ? outermost(skillFiles) : undefined
  if (only === undefined && skillFiles.length > 0) {
    return { directory: undefined, skillFile: undefined, problems: [severalSkills(skillFiles.length)] }
  }
  if (only === undefined) {
    const noSkillFile = missingSkillFile(members, isOneDirectory ? top : undefined)
    const problems = isOneDirectory ? [noSkillFile] : [...notOneDirectory(located, undefined), noSkillFile]
    return { directory: undefined, skillFile: undefined, problems }
  }
  const directory = only.components.slice(0, -1).join("/")
  return {
    directory: only.components.at(-2),
    skillFile: only.member,
    problems: isOneDirectory ? [wrapped(top, directory)] : notOneDirectory(located, directory)
  }
}

interface Located {
  readonly member: Member
  readonly components: ReadonlyArray<string>
}

/** The `SKILL.md` whose directory all the others are below: a skill may have some among its examples. */
const outermost = (skillFiles: ReadonlyArray<Located>): Located | undefined =>
  skillFiles.find((candidate) => {
    const directory = candidate.components.slice(0, -1)
    return skillFiles.every(({ components }) => directory.every((name, index) => components[index] === name))
  })

const severalSkills = (count: number): UploadProblem =>
  problem(
    "several-skills",
    `the upload contains ${count} ${skillFileName} files: upload one skill, or import the directory`
  )

const wrapped = (top: string, directory: string): UploadProblem =>
  problemAt(
    "wrapper-directory",
    `${directory}/${skillFileName}`,
    `there is an extra directory around the skill, as downloads of a repository have: upload ${ArchivePath.display(directory)} without ${ArchivePath.display(top)} around it`
  )

const missingSkillFile = (members: ReadonlyArray<Member>, top: string | undefined): UploadProblem => {
  const wanted = top === undefined ? skillFileName : `${top}/${skillFileName}`
  const isAt = (path: string) => path === wanted || (top === undefined && path.endsWith(`/${skillFileName}`))
  const irregular = members.find(({ path }) => isAt(path) || path.startsWith(`${wanted}/`))
  if (irregular !== undefined) {
    return problemAt("skill-file", wanted, `${skillFileName} is not a regular file`)
  }
  const misspelt = members.find(({ path }) => path.split("/").at(-1)?.toLowerCase() === skillFileName.toLowerCase())
  if (misspelt !== undefined) {
    return problemAt("skill-file", misspelt.path, `this file must be named ${skillFileName}, in this case`)
  }
  return top === undefined
    ? problem("skill-file", `the upload has no ${skillFileName}`)
    : problemAt("skill-file", top, `the directory has no ${skillFileName} at its root`)
}

/** One problem for each other directory, and for each file beside them. */
const notOneDirectory = (
  located: ReadonlyArray<Located>,
  directory: string | undefined
): ReadonlyArray<UploadProblem> => {
  const [top] = directory?.split("/") ?? []
  const names = located.map(({ components }) => components[0] ?? "").filter((name) => name !== top)
  const others = new Map(names.map((name) => [ArchivePath.key(name), name]))
  const where = directory === undefined ? "one directory" : ArchivePath.display(directory)
  return Array.from(others.values(), (other) =>
    problemAt("one-directory", other, `all files must be in one directory, and this is not in ${where}`)
  )
}
