import { Effect } from "effect"
import { SkillNotPublished } from "./CliError.js"
import * as ContainerSet from "./ContainerSet.js"
import * as Output from "./Output.js"
import * as Progress from "./Progress.js"
import * as RegistryConnection from "./RegistryConnection.js"
import * as Render from "./Render.js"

export interface Options extends RegistryConnection.Options {
  readonly name: string
  readonly container: string
  readonly json: boolean
}

/** Publishes a container's set without the skill of this name. The registry keeps the skill and its versions. */
export const run = Effect.fnUntraced(function* (
  { container, json, name, ...options }: Options,
  screen: Progress.Screen
) {
  const path = yield* RegistryConnection.containerPath(container)
  const connection = yield* RegistryConnection.connect(options)
  const { edited, revision } = yield* ContainerSet.change(connection, path, (skills) => {
    // No two skills of a set have the same name.
    const removed = skills.find((skill) => skill.name === name)
    return removed === undefined
      ? new SkillNotPublished({ container, name })
      : Effect.succeed({ removed, skills: skills.filter((skill) => skill !== removed) })
  }).pipe(Progress.during(screen, "publishing"))
  const { skillId, version } = edited.removed
  yield* json
    ? Output.json({ skill: { id: skillId, name }, version, container, revision })
    : Output.lines([
        `skill      ${Render.quote(name)} ${Render.id(skillId)} (taken out)`,
        `version    ${Render.id(version)}`,
        `container  ${Render.quote(container)}`,
        `revision   ${revision}`
      ])
})
