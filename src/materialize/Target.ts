/**
 * A wanted skill and the place that it is to have.
 *
 * @module
 */
import { Either, Option } from "effect"
import type { MaterialSkill } from "./MaterialSkill.js"
import type { SkillFailure } from "./SkillFailure.js"
import * as SkillTree from "./SkillTree.js"
import * as TargetDirectory from "./TargetDirectory.js"

export interface Target {
  readonly skill: MaterialSkill
  readonly directory: string
  readonly tree: SkillTree.SkillTree
}

/** The place of every wanted skill. Those that would share one fail together: neither is a better choice. */
export const resolve = (skills: ReadonlyArray<MaterialSkill>): ReadonlyArray<Either.Either<Target, SkillFailure>> => {
  const located = skills.map((skill) => ({
    skill,
    place: TargetDirectory.targetDirectory(skill.name, skill.skillId)
  }))
  const ids = count(skills.map(({ skillId }) => skillId))
  const places = count(located.flatMap(({ place }) => Option.toArray(Option.map(place, TargetDirectory.fold))))
  return located.map(({ place, skill }) => {
    const { skillId } = skill
    if (Option.isNone(place)) return Either.left({ skillId, reason: "name-unusable" })
    const directory = place.value
    if ((ids.get(skillId) ?? 0) > 1 || (places.get(TargetDirectory.fold(directory)) ?? 0) > 1) {
      return Either.left({ skillId, directory, reason: "name-conflict" })
    }
    return Either.mapBoth(SkillTree.fromFiles(skill), {
      onLeft: (problem) => ({ skillId, directory, ...problem }),
      onRight: (tree) => ({ skill, directory, tree })
    })
  })
}

const count = (keys: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}
