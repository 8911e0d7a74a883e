/**
 * A skill's files as the tree that they make on disk.
 *
 * @module
 */
import { Either } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import { skillPath } from "../delivery/Manifest.js"
import type { FailureReason } from "./MaterializeReport.js"
import type { MaterialFile, MaterialSkill } from "./MaterialSkill.js"

/** By name: a file, or a directory and what is in it. */
export type SkillTree = ReadonlyMap<string, SkillTree | MaterialFile>

type MutableTree = Map<string, MutableTree | MaterialFile>

export const isFile = (node: SkillTree | MaterialFile): node is MaterialFile => "sha256" in node

interface Problem {
  readonly reason: FailureReason
  readonly detail?: string
}

const problem = (reason: FailureReason, path: string) =>
  Either.left<Problem>({ reason, detail: ArchivePath.display(path) })

/**
 * The tree of a skill, or why no disk could hold it. Paths are checked again here: not every skill comes from a verified
 * snapshot, and `a` beside `a/b` is valid in one (contract, Archive).
 */
export const fromFiles = ({ files }: MaterialSkill): Either.Either<SkillTree, Problem> => {
  const root: MutableTree = new Map()
  for (const file of files) {
    if (!ArchivePath.isSafe(file.path)) return problem("path-unsafe", file.path)
    const components = file.path.split("/")
    const name = components.pop() ?? ""
    let directory = root
    for (const component of components) {
      const node = directory.get(component) ?? new Map()
      if (isFile(node)) return problem("path-conflict", file.path)
      directory.set(component, node)
      directory = node
    }
    const there = directory.get(name)
    if (there !== undefined) return problem(isFile(there) ? "path-unsafe" : "path-conflict", file.path)
    directory.set(name, file)
  }
  const entryPoint = root.get(skillPath)
  return entryPoint !== undefined && isFile(entryPoint)
    ? Either.right(root)
    : Either.left({ reason: "skill-md-missing" })
}
