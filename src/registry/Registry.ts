/**
 * The registry: skills and their versions, containers and their revisions, keys. What the HTTP surface serves.
 *
 * @module
 */
import type { SqlClient } from "@effect/sql"
import { Context, Effect, Layer, Option, type Redacted, Stream } from "effect"
import type {
  AuthenticationFailed,
  ContainerNotFound,
  DeliveryDisabled,
  RevisionNotFound,
  RevisionRevoked
} from "../delivery/DeliveryError.js"
import type { SkillBundle } from "../publishing/SkillBundle.js"
import { BlobStore, type CorruptBlob } from "../store/BlobStore.js"
import * as Database from "../store/Database.js"
import type { DatabaseError, StoreUnavailable } from "../store/StoreError.js"
import * as Archives from "./Archives.js"
import * as Changes from "./Changes.js"
import * as ContainerStore from "./ContainerStore.js"
import * as KeyStore from "./KeyStore.js"
import * as LiveView from "./LiveView.js"
import * as Migrations from "./Migrations.js"
import type {
  BaseMismatch,
  InvalidPage,
  InvalidValue,
  KeyNotFound,
  LastVersion,
  RevokedSet,
  SkillNameChanged,
  SkillNotFound,
  SkillVersionNotFound,
  UndeliverableSet
} from "./RegistryError.js"
import type {
  ApiKey,
  Container,
  KeyScope,
  Known,
  Page,
  PageRequest,
  Resolved,
  Revision,
  Skill,
  SkillVersion
} from "./RegistryModel.js"
import * as SkillStore from "./SkillStore.js"

export { actingKey } from "./ActingKey.js"

/** A stored archive, its digest proved. */
export interface StoredArchive {
  readonly bytes: Uint8Array
  readonly sha256: string
}

/** A key as it is issued: `key` is shown this once and stored nowhere. */
export interface IssuedKey {
  readonly key: Redacted.Redacted
  readonly apiKey: ApiKey
}

/**
 * The operations. What writes fails with `AUTHENTICATION_FAILED` where `actingKey` names a key that is revoked; the program itself,
 * which has no key, may do everything.
 */
export interface RegistryService {
  /** Creates a skill with its first version. Repeated with the same bytes, title and key within a minute it gives the first. */
  readonly createSkill: (options: {
    readonly displayTitle: string | null
    readonly bundle: SkillBundle
    readonly keyId: string
  }) => Effect.Effect<
    { readonly skill: Skill; readonly version: SkillVersion },
    InvalidValue | AuthenticationFailed | StoreUnavailable
  >
  /** Adds a version. Repeated with the same bytes and key within a minute it gives the first. */
  readonly addVersion: (options: {
    readonly skillId: string
    readonly bundle: SkillBundle
    readonly keyId: string
  }) => Effect.Effect<SkillVersion, SkillNotFound | SkillNameChanged | AuthenticationFailed | StoreUnavailable>
  readonly getSkill: (skillId: string) => Effect.Effect<Skill, SkillNotFound | StoreUnavailable>
  /** Newest first. Every skill's source is `custom`: of another source there are none. */
  readonly listSkills: (
    options?: PageRequest & { readonly source?: string | null | undefined }
  ) => Effect.Effect<Page<Skill>, InvalidPage | StoreUnavailable>
  /** With all its versions. Revisions keep what they published. */
  readonly deleteSkill: (
    skillId: string
  ) => Effect.Effect<void, SkillNotFound | AuthenticationFailed | StoreUnavailable>
  /** `version` is a version's number or its id, here and below. */
  readonly getVersion: (
    skillId: string,
    version: string
  ) => Effect.Effect<SkillVersion, SkillNotFound | SkillVersionNotFound | StoreUnavailable>
  /** Newest first. */
  readonly listVersions: (
    skillId: string,
    options?: PageRequest
  ) => Effect.Effect<Page<SkillVersion>, SkillNotFound | InvalidPage | StoreUnavailable>
  /** Gives the version that was deleted. */
  readonly deleteVersion: (
    skillId: string,
    version: string
  ) => Effect.Effect<
    SkillVersion,
    SkillNotFound | SkillVersionNotFound | LastVersion | AuthenticationFailed | StoreUnavailable
  >
  readonly versionArchive: (
    skillId: string,
    version: string
  ) => Effect.Effect<StoredArchive, SkillNotFound | SkillVersionNotFound | CorruptBlob | StoreUnavailable>

  /** Creates a container, with an empty first revision, or renames it. Without a title the one it has is kept. */
  readonly putContainer: (options: {
    readonly id: string
    readonly title?: string | null | undefined
  }) => Effect.Effect<
    { readonly container: Container; readonly created: boolean },
    InvalidValue | AuthenticationFailed | StoreUnavailable
  >
  readonly getContainer: (id: string) => Effect.Effect<Container, ContainerNotFound | StoreUnavailable>
  /** Oldest first. */
  readonly listContainers: (options?: PageRequest) => Effect.Effect<Page<Container>, InvalidPage | StoreUnavailable>
  readonly setEnabled: (
    id: string,
    enabled: boolean
  ) => Effect.Effect<Container, ContainerNotFound | AuthenticationFailed | StoreUnavailable>
  /**
   * Publishes a set of skill versions as the container's latest revision, if `base` still is (contract, Registry server).
   *
   * A set equal to the latest one gives that one whatever the base, since nothing is lost: a publish can be repeated. A member whose
   * version was deleted may stay: the latest revision has it still.
   *
   * @example
   * ```ts
   * import { Effect } from "effect"
   * import { Registry } from "effect-agent-contracts/registry"
   *
   * // Adds a skill to those that the container has.
   * const add = (containerId: string, skillId: string, version: string) =>
   *   Effect.gen(function* () {
   *     const { getContainer, publish } = yield* Registry.Registry
   *     const { latest } = yield* getContainer(containerId)
   *     const skills = [...(latest?.skills ?? []), { skillId, version }]
   *     return yield* publish({ containerId, base: latest?.revision ?? null, skills })
   *   }).pipe(Effect.retry({ times: 5, while: ({ _tag }) => _tag === "BASE_MISMATCH" }))
   * ```
   */
  readonly publish: (options: {
    readonly containerId: string
    readonly base: string | null
    readonly skills: ReadonlyArray<{ readonly skillId: string; readonly version: string }>
  }) => Effect.Effect<
    Revision,
    | ContainerNotFound
    | SkillNotFound
    | SkillVersionNotFound
    | BaseMismatch
    | RevokedSet
    | UndeliverableSet
    | CorruptBlob
    | AuthenticationFailed
    | StoreUnavailable
  >
  /** Newest first. */
  readonly listRevisions: (
    containerId: string,
    options?: PageRequest
  ) => Effect.Effect<Page<Revision>, ContainerNotFound | InvalidPage | StoreUnavailable>
  /** Revoking a revoked one changes nothing. Gives its newest entry. */
  readonly revoke: (
    containerId: string,
    revision: string
  ) => Effect.Effect<Revision, ContainerNotFound | RevisionNotFound | AuthenticationFailed | StoreUnavailable>

  /**
   * Succeeds when this server can answer who a key is and what a container delivers. The first time after a start it may fail for a
   * while, since all that the registry delivers is read into memory.
   */
  readonly ready: Effect.Effect<void, StoreUnavailable>
  /** What is delivered of a container, the one-second rule kept. Fast: from memory where that is confirmed. */
  readonly resolve: (
    containerId: string,
    pin?: string
  ) => Effect.Effect<
    Resolved,
    ContainerNotFound | DeliveryDisabled | RevisionNotFound | RevisionRevoked | StoreUnavailable
  >
  /** A revision's archive, its digest proved. */
  readonly archive: (sha256: string) => Effect.Effect<Uint8Array, CorruptBlob | StoreUnavailable>

  readonly issueKey: (options: {
    readonly name: string
    readonly scope: KeyScope
    readonly containers: ReadonlyArray<string> | null
  }) => Effect.Effect<IssuedKey, InvalidValue | AuthenticationFailed | StoreUnavailable>
  /**
   * Issues an admin key if the registry has none at all. `keep` has to make it durable: it runs before the key is
   * committed, so that no crash leaves a registry whose only key nobody has.
   */
  readonly issueFirstKey: <E, R>(
    name: string,
    keep: (key: Redacted.Redacted) => Effect.Effect<void, E, R>
  ) => Effect.Effect<Option.Option<ApiKey>, E | InvalidValue | AuthenticationFailed | StoreUnavailable, R>
  /** Oldest first, the revoked ones too. */
  readonly listKeys: Effect.Effect<ReadonlyArray<ApiKey>, StoreUnavailable>
  /** Revoking a revoked one changes nothing. */
  readonly revokeKey: (keyId: string) => Effect.Effect<ApiKey, KeyNotFound | AuthenticationFailed | StoreUnavailable>
  /** The key's record, the one-second rule kept. Fast: from memory where that is confirmed. */
  readonly authenticate: (key: Redacted.Redacted) => Effect.Effect<ApiKey, AuthenticationFailed | StoreUnavailable>
  /**
   * What `authenticate` and `resolve` give, if both give it at once and from memory; undefined where they would refuse or have
   * to ask. Runs no effect: for the request that every agent makes every few seconds. Whether the key may reach the container
   * is the caller's to check, as after `authenticate`.
   */
  readonly unsafePoll: (key: Redacted.Redacted, containerId: string, pin?: string) => Known | undefined
}

export class Registry extends Context.Tag("effect-agent-contracts/registry/Registry")<Registry, RegistryService>() {}

/**
 * The registry over a database and a store of archives. Its start makes or updates the tables and sweeps the archives that
 * a crash left without a row, as it does every hour from then on; it fails when the store cannot be used, or when it has archives
 * but a database without tables: one that was lost would have them all swept.
 *
 * Several registries may share one PostgreSQL database. On libSQL there is one.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { Registry } from "effect-agent-contracts/registry"
 * import { BlobStore, Database } from "effect-agent-contracts/store"
 *
 * const directory = "/var/lib/registry"
 * export const layer = Registry.layer.pipe(
 *   Layer.provide([Database.layerLibsql({ directory }), BlobStore.layerFiles({ directory: `${directory}/blobs` })]),
 *   Layer.provide(NodeContext.layer)
 * )
 * ```
 */
export const layer: Layer.Layer<Registry, DatabaseError | StoreUnavailable, SqlClient.SqlClient | BlobStore> =
  Layer.scoped(
    Registry,
    Effect.gen(function* () {
      const archive = yield* Stream.runHead((yield* BlobStore).list)
      yield* Database.migrate(Migrations.all({ hasArchives: Option.isSome(archive) }))
      const archives = yield* Archives.make
      yield* archives.sweep
      const liveView = yield* LiveView.make
      const changes = yield* Changes.make(liveView)
      const skills = yield* SkillStore.make(changes, archives)
      const containers = yield* ContainerStore.make(changes, archives, skills)
      const keys = yield* KeyStore.make(changes)
      return {
        ...skills.operations,
        ...containers,
        ...keys,
        authenticate: liveView.authenticate,
        resolve: liveView.resolve,
        ready: liveView.ready,
        unsafePoll: liveView.unsafePoll,
        archive: archives.get
      }
    })
  )
