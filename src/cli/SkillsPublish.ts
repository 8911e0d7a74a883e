import { Effect, Option, Schedule } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as Policy from "../publishing/Policy.js"
import * as SkillBundle from "../publishing/SkillBundle.js"
import type { UploadProblem } from "../publishing/UploadProblem.js"
import type * as Model from "../registry/RegistryModel.js"
import { Unsuccessful } from "./CliError.js"
import * as Output from "./Output.js"
import * as Progress from "./Progress.js"
import * as RegistryConnection from "./RegistryConnection.js"
import * as Render from "./Render.js"
import * as SkillTarget from "./SkillTarget.js"

export interface Options extends RegistryConnection.Options {
  readonly skill: string
  readonly container: string
  readonly create: boolean
  readonly json: boolean
}

/**
 * Uploads a skill and publishes its container with it. Run again with the same bytes it changes nothing, so that a job may
 * be repeated.
 */
export const run = Effect.fnUntraced(function* (
  { container, create, json, skill, ...options }: Options,
  screen: Progress.Screen
) {
  const path = yield* RegistryConnection.containerPath(container)
  const bundle = yield* read(skill, json)
  const connection = yield* RegistryConnection.connect(options)
  const published = yield* publish(connection, bundle, path, create).pipe(Progress.during(screen, "publishing"))
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
        `skill      ${Render.quote(name)} ${skillId}`,
        `version    ${version}${isNewVersion ? "" : " (was there)"}`,
        `container  ${Render.quote(container)}`,
        `revision   ${revision}${isNewRevision ? "" : " (was the latest)"}`
      ])
})

/** The bundle, or all that is wrong with it: also what the registry would take and no container could deliver. */
const read = Effect.fnUntraced(function* (source: string, json: boolean) {
  const target = yield* SkillTarget.one(source)
  const bundle = yield* Effect.catchTag(target.bundle(Policy.seed), "INVALID_UPLOAD", ({ problems }) =>
    reportInvalid(target, problems, json)
  )
  const undeliverable = SkillBundle.deliverable(bundle)
  if (undeliverable.length > 0) return yield* reportInvalid(target, undeliverable, json)
  yield* Effect.forEach(bundle.warnings, (warning) => Output.problem(SkillTarget.format(target, warning, "warning: ")))
  return bundle
})

const reportInvalid = Effect.fnUntraced(function* (
  target: SkillTarget.SkillTarget,
  problems: ReadonlyArray<UploadProblem>,
  json: boolean
) {
  const code = "INVALID_UPLOAD"
  if (json) yield* Output.json({ error: { code, problems } })
  const lines = problems.map((problem) => SkillTarget.format(target, problem))
  yield* Output.problem([`${code}: ${display(target.path)} is not published`, ...lines].join("\n"))
  return yield* new Unsuccessful()
})

type ContainerPath = Effect.Effect.Success<ReturnType<typeof RegistryConnection.containerPath>>

const publish = Effect.fnUntraced(function* (
  connection: RegistryConnection.Connection,
  bundle: SkillBundle.SkillBundle,
  path: ContainerPath,
  create: boolean
) {
  const { call } = connection
  const latestSet = Effect.map(
    call(({ containers }) => containers.getContainer({ path })),
    ({ latest }) => latest
  )
  // Before anything is uploaded: without the container it would be in vain.
  const before = yield* Effect.catchTag(latestSet, "CONTAINER_NOT_FOUND", (error) =>
    create
      ? Effect.map(
          call(({ containers }) => containers.putContainer({ path, payload: {} })),
          ({ latest }) => latest
        )
      : error
  )
  const uploaded = yield* upload(connection, bundle, before)
  const { skillId, version } = uploaded

  const replace = Effect.gen(function* () {
    const latest = yield* latestSet
    const set = latest?.skills ?? []
    const current = set.find((skill) => skill.skillId === skillId)
    // Somebody uploaded after us and was quicker to publish: the newer version stays.
    const isSuperseded = current !== undefined && BigInt(current.version) > BigInt(version)
    const others = set.filter((skill) => skill.skillId !== skillId && skill.name !== bundle.name)
    const kept = isSuperseded ? current : uploaded
    const published = yield* call(({ containers }) =>
      containers.publish({
        path,
        payload: {
          base: latest?.revision ?? null,
          skills: [...others, kept].map(({ skillId, version }) => ({ skillId, version }))
        }
      })
    )
    return { revision: published.revision, isNewRevision: published.sequence !== latest?.sequence }
  })
  const revision = yield* Effect.retry(replace, {
    while: (error) => error._tag === "BASE_MISMATCH",
    schedule: afterMismatch
  })
  return { ...uploaded, ...revision }
})

/** Somebody else published in between; each try begins with what is latest then. */
const afterMismatch = Schedule.exponential("50 millis").pipe(
  Schedule.union(Schedule.spaced("1 second")),
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(20))
)

/** The version with these bytes: that of the skill of this name if it is the latest, else a new one. */
const upload = Effect.fnUntraced(function* (
  connection: RegistryConnection.Connection,
  bundle: SkillBundle.SkillBundle,
  latest: Model.Revision | null
) {
  const { call } = connection
  const skill = yield* find(connection, bundle.name, latest)
  if (Option.isNone(skill)) {
    const created = yield* call(({ skills }) => skills.createSkill({ payload: form(bundle) }))
    const version = yield* call(({ skills }) =>
      skills.getVersion({ path: { skillId: created.id, version: created.latest_version_id } })
    )
    return { skillId: created.id, version: version.version, isNewVersion: true }
  }
  const { id, latest_version_id } = skill.value
  const newest = yield* call(({ skills }) => skills.getVersion({ path: { skillId: id, version: latest_version_id } }))
  if (newest.sha256 === bundle.sha256) return { skillId: id, version: newest.version, isNewVersion: false }
  const added = yield* call(({ skills }) => skills.createVersion({ path: { skillId: id }, payload: form(bundle) }))
  return { skillId: id, version: added.version, isNewVersion: true }
})

/** The skill of this name in the container; if it has none, the newest one that the registry has. */
const find = Effect.fnUntraced(function* (
  { call }: RegistryConnection.Connection,
  name: string,
  latest: Model.Revision | null
) {
  const published = latest?.skills.find((skill) => skill.name === name)
  if (published !== undefined) {
    const known = yield* call(({ skills }) => skills.getSkill({ path: { skillId: published.skillId } })).pipe(
      Effect.asSome,
      // Deleted since; the revision keeps what it published.
      Effect.catchTag("SKILL_NOT_FOUND", () => Effect.succeedNone)
    )
    if (Option.isSome(known)) return known
  }
  const all = yield* RegistryConnection.all((page) =>
    Effect.map(
      call(({ skills }) => skills.listSkills({ urlParams: { limit: RegistryConnection.pageSize, page } })),
      ({ data, next_page }) => [data, next_page] as const
    )
  )
  return Option.fromNullable(all.find((skill) => skill.name === name))
})

const form = ({ archive, name }: SkillBundle.SkillBundle) => {
  const form = new FormData()
  // Of memory that nobody shares, as a Blob asks for.
  form.append("files[]", new Blob([new Uint8Array(archive)], { type: "application/zip" }), `${name}.zip`)
  return form
}
