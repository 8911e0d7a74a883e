/**
 * The set of skills that a container publishes, as publishers change it: each over the latest, so that none undoes what
 * another did meanwhile.
 *
 * @module
 */
import { Effect, Schedule } from "effect"
import type * as Model from "../registry/RegistryModel.js"
import type * as RegistryConnection from "./RegistryConnection.js"

export type ContainerPath = Effect.Effect.Success<ReturnType<typeof RegistryConnection.containerPath>>

/** The newest revision that is not revoked; null when all are. */
export const latest = ({ call }: RegistryConnection.Connection, path: ContainerPath) =>
  Effect.map(
    call(({ containers }) => containers.getContainer({ path })),
    ({ latest }) => latest
  )

/**
 * Publishes the set that `edit` makes of the latest one. When somebody else published in between, the set is read and edited
 * anew.
 */
export const change = <
  A extends { readonly skills: ReadonlyArray<Pick<Model.RevisionSkill, "skillId" | "version">> },
  E extends { readonly _tag: string }
>(
  connection: RegistryConnection.Connection,
  path: ContainerPath,
  edit: (skills: ReadonlyArray<Model.RevisionSkill>) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const base = yield* latest(connection, path)
    const edited = yield* edit(base?.skills ?? [])
    const published = yield* connection.call(({ containers }) =>
      containers.publish({
        path,
        payload: {
          base: base?.revision ?? null,
          skills: edited.skills.map(({ skillId, version }) => ({ skillId, version }))
        }
      })
    )
    return { edited, revision: published.revision, isNewRevision: published.sequence !== base?.sequence }
  }).pipe(Effect.retry({ while: (error) => error._tag === "BASE_MISMATCH", schedule: afterMismatch }))

const afterMismatch = Schedule.exponential("50 millis").pipe(
  Schedule.union(Schedule.spaced("1 second")),
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(20))
)
