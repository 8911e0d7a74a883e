/**
 * The containers of a running registry: made, listed, switched, and their history with what can be taken back of it.
 *
 * @module
 */
import { DateTime, Effect, Option, Schema } from "effect"
import * as RegistryApi from "../delivery/RegistryApi.js"
import * as Model from "../registry/RegistryModel.js"
import { UsageError } from "./CliError.js"
import type * as ContainerSet from "./ContainerSet.js"
import * as Output from "./Output.js"
import * as RegistryConnection from "./RegistryConnection.js"
import * as Render from "./Render.js"

interface Options extends RegistryConnection.Options {
  readonly json: boolean
}

/** Creates a container, or gives one that is there another title. */
export const create = Effect.fnUntraced(function* ({
  id,
  json,
  title,
  ...options
}: Options & { readonly id: string; readonly title: Option.Option<string> }) {
  const path = yield* RegistryConnection.containerPath(id)
  const { call } = yield* RegistryConnection.connect(options)
  const container = yield* call(({ containers }) =>
    containers.putContainer({ path, payload: Option.isSome(title) ? { title: title.value } : {} })
  )
  yield* json ? Output.json(encodeContainer(container)) : Output.lines([containerLine(container)])
})

/** The delivery switch: what is disabled is refused to every agent, pinned or not. */
export const setEnabled = Effect.fnUntraced(function* ({
  enabled,
  id,
  json,
  ...options
}: Options & { readonly id: string; readonly enabled: boolean }) {
  const path = yield* RegistryConnection.containerPath(id)
  const { call } = yield* RegistryConnection.connect(options)
  const container = yield* call(({ containers }) => containers.setEnabled({ path, payload: { enabled } }))
  yield* json ? Output.json(encodeContainer(container)) : Output.lines([containerLine(container)])
})

/** Every container with its latest revision. */
export const list = Effect.fnUntraced(function* ({ json, ...options }: Options) {
  const { call } = yield* RegistryConnection.connect(options)
  const containers = yield* RegistryConnection.all((page) =>
    Effect.map(
      call(({ containers }) => containers.listContainers({ urlParams: { limit: RegistryConnection.pageSize, page } })),
      ({ items, nextPage }) => [items, nextPage] as const
    )
  )
  yield* json
    ? Output.json({ containers: containers.map((container) => encodeContainer(container)) })
    : Output.lines(containers.map(containerLine))
})

/** A container's history, newest first. */
export const revisions = Effect.fnUntraced(function* ({
  container,
  json,
  ...options
}: Options & { readonly container: string }) {
  const path = yield* RegistryConnection.containerPath(container)
  const revisions = yield* history(yield* RegistryConnection.connect(options), path)
  const latest = revisions.find(({ revokedAt }) => revokedAt === null)
  yield* json
    ? Output.json({ revisions: revisions.map((revision) => encodeRevision(revision)) })
    : Output.lines(revisions.map((revision) => revisionLine(revision, revision === latest)))
})

/** Takes a revision back: a pin on it is refused, and the latest one falls back to the newest that is not revoked. */
export const revoke = Effect.fnUntraced(function* ({
  container,
  json,
  revision,
  ...options
}: Options & { readonly container: string; readonly revision: string }) {
  const path = yield* RegistryConnection.containerPath(container)
  if (!Schema.is(RegistryApi.Revision)(revision)) return yield* new UsageError({ message: "a revision is not blank" })
  const connection = yield* RegistryConnection.connect(options)
  const whole = yield* complete(connection, path, revision)
  const revoked = yield* connection.call(({ containers }) => containers.revoke({ path: { ...path, revision: whole } }))
  yield* json ? Output.json(encodeRevision(revoked)) : Output.lines([revisionLine(revoked, false)])
})

const history = ({ call }: RegistryConnection.Connection, path: ContainerSet.ContainerPath) =>
  RegistryConnection.all((page) =>
    Effect.map(
      call(({ containers }) =>
        containers.listRevisions({ path, urlParams: { limit: RegistryConnection.pageSize, page } })
      ),
      ({ items, nextPage }) => [items, nextPage] as const
    )
  )

/** The one revision that begins so; a beginning of none is the registry's to refuse. */
const complete = Effect.fnUntraced(function* (
  connection: RegistryConnection.Connection,
  path: ContainerSet.ContainerPath,
  beginning: string
) {
  if (!/^[0-9a-f]{8,63}$/.test(beginning)) return beginning
  const names = new Set((yield* history(connection, path)).map(({ revision }) => revision))
  const [first = beginning, ...others] = [...names].filter((name) => name.startsWith(beginning))
  return others.length === 0
    ? first
    : yield* new UsageError({ message: `several revisions begin with ${beginning}: give more of its digits` })
})

const encodeContainer = Schema.encodeSync(Model.Container)
const encodeRevision = Schema.encodeSync(Model.Revision)

const containerLine = ({ enabled, id, latest, title }: Model.Container): string =>
  [
    Render.quote(id),
    latest === null ? "no revision" : `revision ${latest.revision}`,
    ...(title === null ? [] : [Render.quote(title)]),
    ...(enabled ? [] : ["delivery disabled"])
  ].join("  ")

const revisionLine = (
  { createdAt, revision, revokedAt, sequence, skills }: Model.Revision,
  isLatest: boolean
): string =>
  [
    String(sequence).padStart(4),
    revision,
    DateTime.formatIso(createdAt),
    skills.map(({ name, version }) => `${Render.quote(name)}@${Render.id(version)}`).join(", ") || "no skills",
    ...(isLatest ? ["latest"] : []),
    ...(revokedAt === null ? [] : [`revoked ${DateTime.formatIso(revokedAt)}`])
  ].join("  ")
