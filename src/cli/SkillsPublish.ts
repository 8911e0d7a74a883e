/**
 * A skill published to a container: uploaded unless the container has it already, and put in place of the one of its name.
 *
 * @module
 */
import { Effect, Option } from "effect"
import * as DeliveryError from "../delivery/DeliveryError.js"
import type * as SkillBundle from "../publishing/SkillBundle.js"
import type * as Model from "../registry/RegistryModel.js"
import * as ContainerSet from "./ContainerSet.js"
import * as Output from "./Output.js"
import * as Progress from "./Progress.js"
import * as RegistryConnection from "./RegistryConnection.js"
import * as Render from "./Render.js"
import * as SkillTarget from "./SkillTarget.js"

export interface Options extends RegistryConnection.Options {
  /** Its directory or ZIP archive. */
  readonly source: string
  readonly container: string
  /** The skill that gets the version: of the registry's, whichever container has it. */
  readonly skill: Option.Option<string>
  readonly create: boolean
  readonly json: boolean
}

/**
 * Uploads a skill and publishes its container with it. Run again with the same bytes it changes nothing, so that a job may
 * be repeated.
 */
export const run = Effect.fnUntraced(function* (
  { container, create, json, skill, source, ...options }: Options,
  screen: Progress.Screen
) {
  const path = yield* RegistryConnection.containerPath(container)
  const bundle = yield* read(source, json)
  const connection = yield* RegistryConnection.connect(options)
  const published = yield* publish(connection, bundle, path, { createContainer: create, skillId: skill }).pipe(
    Progress.during(screen, "publishing")
  )
  const { isNewRevision, isNewVersion, revision, skillId, version } = published
  const { name, warnings } = bundle
  yield* json
    ? Output.json({
        skill: { id: skillId, name },
        version,
        isNewVersion,
        container,
        revision,
        isNewRevision,
        warnings
      })
    : Output.lines([
        `skill      ${Render.quote(name)} ${Render.id(skillId)}`,
        `version    ${Render.id(version)}${isNewVersion ? "" : " (was there)"}`,
        `container  ${Render.quote(container)}`,
        `revision   ${revision}${isNewRevision ? "" : " (was the latest)"}`
      ])
})

/** The bundle, or all that is wrong with it: also what the registry would take and no container could deliver. */
const read = Effect.fnUntraced(function* (source: string, json: boolean) {
  const target = yield* SkillTarget.one(source)
  const bundle = yield* Effect.catchTag(target.bundle({ deliverable: true }), "INVALID_UPLOAD", ({ problems }) =>
    SkillTarget.reportInvalid(target, problems, { consequence: "is not published", json })
  )
  yield* Effect.forEach(bundle.warnings, (warning) => Output.problem(SkillTarget.format(target, warning, "warning: ")))
  return bundle
})

const publish = Effect.fnUntraced(function* (
  connection: RegistryConnection.Connection,
  bundle: SkillBundle.SkillBundle,
  path: ContainerSet.ContainerPath,
  { createContainer, skillId }: { readonly createContainer: boolean; readonly skillId: Option.Option<string> }
) {
  // Before anything is uploaded: without the container it would be in vain.
  const before = yield* Effect.catchTag(ContainerSet.latest(connection, path), "CONTAINER_NOT_FOUND", (error) =>
    createContainer
      ? Effect.map(
          connection.call(({ containers }) => containers.putContainer({ path, payload: {} })),
          ({ latest }) => latest
        )
      : error
  )
  const current = before?.skills.find((skill) => skill.name === bundle.name)
  const uploaded = yield* upload(connection, bundle, current, skillId)
  const { isNewRevision, revision } = yield* ContainerSet.change(connection, path, (skills) => {
    const current = skills.find((skill) => skill.skillId === uploaded.skillId)
    // Somebody uploaded after us and was quicker to publish: the newer version stays.
    const isSuperseded = current !== undefined && Number(current.version) > Number(uploaded.version)
    const others = skills.filter((skill) => skill.skillId !== uploaded.skillId && skill.name !== bundle.name)
    return Effect.succeed({ skills: [...others, isSuperseded ? current : uploaded] })
  })
  return { ...uploaded, isNewRevision, revision }
})

/**
 * The version with these bytes: of the skill that was asked for, or of the container's own. A skill that only has the same name
 * is somebody else's, and another container's.
 */
const upload = Effect.fnUntraced(function* (
  connection: RegistryConnection.Connection,
  bundle: SkillBundle.SkillBundle,
  current: Model.RevisionSkill | undefined,
  asked: Option.Option<string>
) {
  if (Option.isSome(asked)) {
    return yield* addVersion(connection, bundle, asked.value, current?.skillId === asked.value ? current : undefined)
  }
  if (current === undefined) return yield* create(connection, bundle)
  return yield* Effect.catchTag(addVersion(connection, bundle, current.skillId, current), "SKILL_NOT_FOUND", () =>
    // Deleted since; the revision keeps what it published.
    create(connection, bundle)
  )
})

/** What the container has, if that has the bytes; else the newest version if that has; else a new one. */
const addVersion = Effect.fnUntraced(function* (
  { call }: RegistryConnection.Connection,
  { sha256, ...bundle }: SkillBundle.SkillBundle,
  skillId: string,
  current: Model.RevisionSkill | undefined
) {
  if (current !== undefined) {
    const own = yield* call(({ skills }) => skills.getVersion({ path: current })).pipe(
      Effect.asSome,
      Effect.catchTag("SKILL_VERSION_NOT_FOUND", () => Effect.succeedNone)
    )
    if (Option.exists(own, (version) => version.sha256 === sha256)) {
      return { skillId, version: current.version, isNewVersion: false }
    }
  }
  // A publish that failed half-way has uploaded it.
  const skill = yield* call(({ skills }) => skills.getSkill({ path: { skillId } }))
  const newest = yield* call(({ skills }) => skills.getVersion({ path: { skillId, version: skill.latest_version_id } }))
  if (newest.sha256 === sha256) return { skillId, version: newest.version, isNewVersion: false }
  const added = yield* call(({ skills }) => skills.createVersion({ path: { skillId }, payload: form(bundle) }))
  return { skillId, version: added.version, isNewVersion: true }
})

const create = Effect.fnUntraced(function* ({ call }: RegistryConnection.Connection, bundle: SkillBundle.SkillBundle) {
  const { id: skillId } = yield* call(({ skills }) => skills.createSkill({ payload: form(bundle) }))
  // Of a create that was repeated it is the first, which may have newer versions by now.
  const { data } = yield* call(({ skills }) =>
    skills.listVersions({ path: { skillId }, urlParams: { limit: RegistryConnection.pageSize } })
  )
  const version = data.find(({ sha256 }) => sha256 === bundle.sha256)?.version
  return version === undefined
    ? yield* new DeliveryError.UnsupportedServer({})
    : { skillId, version, isNewVersion: true }
})

const form = ({ archive, name }: Pick<SkillBundle.SkillBundle, "archive" | "name">) => {
  const form = new FormData()
  // Of memory that nobody shares, as a Blob asks for.
  form.append("files[]", new Blob([new Uint8Array(archive)], { type: "application/zip" }), `${name}.zip`)
  return form
}
