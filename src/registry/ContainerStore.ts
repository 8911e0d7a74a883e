/**
 * Containers and the revisions published in them.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Effect, Either, Option, Schema } from "effect"
import { ContainerNotFound, RevisionNotFound } from "../delivery/DeliveryError.js"
import { mediaTypes } from "../delivery/RegistryApi.js"
import * as Snapshot from "../delivery/Snapshot.js"
import * as SkillPackage from "../publishing/SkillPackage.js"
import * as Database from "../store/Database.js"
import type { Archives } from "./Archives.js"
import type { Changes } from "./Changes.js"
import * as Paging from "./Paging.js"
import { BaseMismatch, InvalidValue, RevokedSet } from "./RegistryError.js"
import * as Model from "./RegistryModel.js"
import * as RevisionArchive from "./RevisionArchive.js"
import type { SkillStore, VersionReference } from "./SkillStore.js"

/** An entry of the history, or of a container without one nothing. */
interface EntryRow {
  readonly sequence: Database.Integer
  readonly revision: string
  readonly sha256: string
  readonly size: Database.Integer
  readonly skills: string
  readonly entered_at: Database.Integer
  readonly revoked_at: Database.Integer | null
}

type ContainerRow = {
  readonly id: string
  readonly title: string | null
  readonly enabled: Database.Integer
  readonly created_at: Database.Integer
  readonly ordinal: Database.Integer
} & (EntryRow | { readonly [K in keyof EntryRow]: null })

const RevisionSkills = Schema.parseJson(Schema.Array(Model.RevisionSkill))
const decodeSkills = Schema.decodeSync(RevisionSkills)
const encodeSkills = Schema.encodeSync(RevisionSkills)

const toRevision = (containerId: string, row: EntryRow): Model.Revision => ({
  containerId,
  sequence: Number(row.sequence),
  revision: row.revision,
  etag: `"${row.sha256}"`,
  sha256: row.sha256,
  size: Number(row.size),
  createdAt: Database.toDateTime(row.entered_at),
  revokedAt: row.revoked_at === null ? null : Database.toDateTime(row.revoked_at),
  skills: decodeSkills(row.skills)
})

const toContainer = (row: ContainerRow): Model.Container => ({
  id: row.id,
  title: row.title,
  enabled: Number(row.enabled) === 1,
  latest: row.sequence === null ? null : toRevision(row.id, row),
  createdAt: Database.toDateTime(row.created_at)
})

/** Only such a text can be a parameter of PostgreSQL, and only such an id was ever given to a container. */
const isContainerId = Schema.is(Model.ContainerId)
const isRevisionName = Schema.is(Model.RevisionName)
const isTitle = Schema.is(Model.Title)

export const make = Effect.fnUntraced(function* (changes: Changes, archives: Archives, skills: SkillStore) {
  const sql = yield* SqlClient.SqlClient
  // Each holds up to 32 MiB twice.
  const building = yield* Effect.makeSemaphore(1)

  const entryColumns = sql.literal(
    "h.sequence, h.revision, h.created_at AS entered_at, h.skills, r.sha256, r.size, r.revoked_at"
  )

  const selectContainers = sql`
    SELECT c.id, c.title, c.enabled, c.created_at, c.ordinal, ${entryColumns} FROM containers c
    LEFT JOIN revision_history h ON h.container_id = c.id AND h.sequence = c.latest_sequence
    LEFT JOIN revisions r ON r.container_id = h.container_id AND r.revision = h.revision`

  const selectEntries = sql`
    SELECT ${entryColumns} FROM revision_history h
    JOIN revisions r ON r.container_id = h.container_id AND r.revision = h.revision`

  const findContainer = Effect.fnUntraced(function* (id: string) {
    if (!isContainerId(id)) return yield* new ContainerNotFound({ container: id })
    const [row] = yield* sql<ContainerRow>`${selectContainers} WHERE c.id = ${id}`
    return row === undefined ? yield* new ContainerNotFound({ container: id }) : toContainer(row)
  })

  const findRevision = Effect.fnUntraced(function* (containerId: string, revision: string) {
    const [row] = yield* sql<EntryRow>`
      ${selectEntries} WHERE h.container_id = ${containerId} AND h.revision = ${revision}
      ORDER BY h.sequence DESC LIMIT 1`
    return Option.map(Option.fromNullable(row), (found) => toRevision(containerId, found))
  })

  /** Makes a revision the container's latest: the next entry of its history. */
  const enter = Effect.fnUntraced(function* (
    containerId: string,
    revision: string,
    skills: ReadonlyArray<Model.RevisionSkill>,
    change: number
  ) {
    const now = yield* Clock.currentTimeMillis
    const [container] = yield* sql<{ readonly next_sequence: Database.Integer }>`
      UPDATE containers
      SET latest_sequence = next_sequence, next_sequence = next_sequence + 1, change = ${change}
      WHERE id = ${containerId} RETURNING next_sequence`
    const sequence = Number(container?.next_sequence) - 1
    yield* sql`INSERT INTO revision_history ${sql.insert({
      container_id: containerId,
      sequence,
      revision,
      skills: encodeSkills(skills),
      created_at: now
    })}`
    // Both rows are there: the entry was just made of them.
    return yield* Effect.flatten(findRevision(containerId, revision)).pipe(
      Effect.catchTag("NoSuchElementException", Effect.die)
    )
  })

  const insertRevision = (options: {
    readonly containerId: string
    readonly revision: string
    readonly sha256: string
    readonly size: number
  }) =>
    sql`INSERT INTO revisions ${sql.insert({
      container_id: options.containerId,
      revision: options.revision,
      sha256: options.sha256,
      size: options.size,
      revoked_at: null
    })}`

  const putContainer = Effect.fn("Registry.putContainer")(function* (options: {
    readonly id: string
    readonly title?: string | null | undefined
  }) {
    const { id, title } = options
    if (!isContainerId(id)) return yield* new InvalidValue({ field: "container id" })
    if (title !== undefined && title !== null && !isTitle(title)) return yield* new InvalidValue({ field: "title" })
    yield* Effect.annotateCurrentSpan("registry.container", id)
    const { archive, revision } = yield* Effect.orDie(RevisionArchive.make<never, never>(id, []))
    const sha256 = yield* archives.put(archive)
    const now = yield* Clock.currentTimeMillis
    return yield* changes.commit(
      Effect.fnUntraced(
        function* (change) {
          const existing = yield* sql`SELECT id FROM containers WHERE id = ${id}`
          const created = existing.length === 0
          if (created) {
            yield* sql`INSERT INTO containers ${sql.insert({
              id,
              title: title ?? null,
              enabled: 1,
              latest_sequence: null,
              next_sequence: 1,
              created_at: now,
              ordinal: change,
              change
            })}`
            yield* insertRevision({ containerId: id, revision, sha256, size: archive.length })
            yield* enter(id, revision, [], change)
          } else if (title !== undefined) {
            yield* sql`UPDATE containers SET title = ${title} WHERE id = ${id}`
          }
          return { container: yield* findContainer(id), created }
        },
        Effect.catchTag("CONTAINER_NOT_FOUND", Effect.die)
      )
    )
  })

  const listContainers = Effect.fn("Registry.listContainers")(function* (options: Model.PageRequest = {}) {
    const position = yield* Paging.parse(options, Paging.maximumSets)
    const rows = yield* Database.orUnavailable(sql<ContainerRow>`
      ${selectContainers} WHERE c.ordinal > ${position.after ?? 0}
      ORDER BY c.ordinal LIMIT ${position.limit + 1}`)
    return Paging.toPage(rows, position, { ordinal: (row) => row.ordinal, item: toContainer })
  })

  const setEnabled = Effect.fn("Registry.setEnabled")(function* (id: string, enabled: boolean) {
    yield* Effect.annotateCurrentSpan({ "registry.container": id, "registry.enabled": enabled })
    return yield* changes.commit(
      Effect.fnUntraced(function* (change) {
        yield* findContainer(id)
        yield* sql`UPDATE containers SET enabled = ${enabled ? 1 : 0}, change = ${change} WHERE id = ${id}`
        return yield* findContainer(id)
      })
    )
  })

  /**
   * The members of a set. One whose version was deleted is there as long as the latest revision has it, which keeps an archive of its
   * own: else nothing could be published over that one.
   */
  const findMembers = Effect.fnUntraced(function* (
    references: ReadonlyArray<VersionReference>,
    latest: Model.Revision | null
  ) {
    const find = yield* skills.findVersions(references)
    return yield* Effect.forEach(references, (reference) => {
      const stored = find(reference)
      if (stored !== undefined) return Effect.succeed(toMember(stored))
      const kept = latest?.skills.find((skill) => isSame(skill, reference))
      return kept === undefined
        ? Effect.map(skills.findVersion(reference.skillId, reference.version), toMember)
        : Effect.succeed<Member>(kept)
    })
  })

  const loadVersion = Effect.fnUntraced(function* (version: Model.SkillVersion) {
    const extracted = yield* Effect.either(SkillPackage.extract(yield* skills.archiveOf(version)))
    return Either.map(extracted, ({ files }) => ({ description: version.description, files }))
  })

  /** The skills of a revision by name, from its own archive. */
  const loadRevision = Effect.fnUntraced(function* ({ etag, revision, sha256 }: Model.Revision) {
    const archive = yield* archives.get(sha256)
    // It passed this before it was committed, and its digest has been checked.
    const { skills } = yield* Effect.orDie(
      Snapshot.verify({ revision, etag, contentType: mediaTypes.archive, archive })
    )
    return new Map(skills.map((skill) => [skill.name, skill]))
  })

  const build = Effect.fnUntraced(function* (
    containerId: string,
    members: ReadonlyArray<Member>,
    latest: Model.Revision | null
  ) {
    const kept = yield* Effect.cached(
      latest === null ? Effect.succeed(new Map<string, Snapshot.Skill>()) : loadRevision(latest)
    )
    const loadKept = (name: string) =>
      Effect.flatMap(kept, (skills) => Effect.orDie(Effect.fromNullable(skills.get(name)))).pipe(
        Effect.map(({ description, files }) =>
          // A file gives a fresh copy every time it is asked.
          Either.right({ description, files: files.map(({ bytes, path }) => ({ path, bytes })) })
        )
      )
    return yield* RevisionArchive.make(
      containerId,
      members.map(({ name, stored }) => ({
        name,
        load: stored === undefined ? loadKept(name) : loadVersion(stored)
      }))
    )
  }, building.withPermits(1))

  const publish = Effect.fn("Registry.publish")(function* (options: {
    readonly containerId: string
    readonly base: string | null
    readonly skills: ReadonlyArray<VersionReference>
  }) {
    const { base, containerId } = options
    yield* Effect.annotateCurrentSpan({
      "registry.container": containerId,
      "registry.skills": options.skills.length
    })
    /** What there is to publish; nothing when it is the latest already. */
    const look = Effect.gen(function* () {
      const { latest } = yield* findContainer(containerId)
      const members = yield* findMembers(options.skills, latest)
      const published = members.map(toRevisionSkill).toSorted((left, right) => (left.name < right.name ? -1 : 1))
      // Nothing is lost, whatever the base: this is how a publish whose answer was lost is repeated.
      const isLatest = latest !== null && areEqual(latest.skills, published)
      if (!isLatest && (latest?.revision ?? null) !== base) {
        return yield* new BaseMismatch({ containerId, base, latest: latest?.revision ?? null })
      }
      return { latest, members, published, repeated: isLatest ? latest : undefined }
    })
    // Before anything is built.
    const first = yield* Database.orUnavailable(look)
    if (first.repeated !== undefined) return first.repeated
    const { archive, revision } = yield* build(containerId, first.members, first.latest)
    const sha256 = yield* archives.put(archive)
    return yield* changes.commit(
      Effect.fnUntraced(function* (change) {
        // Once more, when nothing can change any longer: a version that was deleted meanwhile is not published.
        const { published, repeated } = yield* look
        if (repeated !== undefined) return repeated
        const known = yield* findRevision(containerId, revision)
        if (Option.isNone(known)) yield* insertRevision({ containerId, revision, sha256, size: archive.length })
        else if (known.value.revokedAt !== null) return yield* new RevokedSet({ containerId, revision })
        return yield* enter(containerId, revision, published, change)
      })
    )
  })

  const listRevisions = Effect.fn("Registry.listRevisions")(function* (
    containerId: string,
    options: Model.PageRequest = {}
  ) {
    const position = yield* Paging.parse(options, Paging.maximumSets)
    yield* Database.orUnavailable(findContainer(containerId))
    const rows = yield* Database.orUnavailable(sql<EntryRow>`
      ${selectEntries}
      WHERE h.container_id = ${containerId} AND h.sequence < ${position.after ?? Number.MAX_SAFE_INTEGER}
      ORDER BY h.sequence DESC LIMIT ${position.limit + 1}`)
    return Paging.toPage(rows, position, {
      ordinal: (row) => row.sequence,
      item: (row) => toRevision(containerId, row)
    })
  })

  const revoke = Effect.fn("Registry.revoke")(function* (containerId: string, revision: string) {
    yield* Effect.annotateCurrentSpan("registry.container", containerId)
    const now = yield* Clock.currentTimeMillis
    return yield* changes.commit(
      Effect.fnUntraced(function* (change) {
        yield* findContainer(containerId)
        if (!isRevisionName(revision)) return yield* new RevisionNotFound({ container: containerId })
        yield* sql`
          UPDATE revisions SET revoked_at = ${now}
          WHERE container_id = ${containerId} AND revision = ${revision} AND revoked_at IS NULL`
        // Latest is the newest entry that is not revoked; none when all are (contract, Registry server).
        yield* sql`
          UPDATE containers SET change = ${change}, latest_sequence = (
            SELECT MAX(h.sequence) FROM revision_history h
            JOIN revisions r ON r.container_id = h.container_id AND r.revision = h.revision
            WHERE h.container_id = ${containerId} AND r.revoked_at IS NULL
          ) WHERE id = ${containerId}`
        const revoked = yield* findRevision(containerId, revision)
        return Option.isSome(revoked) ? revoked.value : yield* new RevisionNotFound({ container: containerId })
      })
    )
  })

  return {
    putContainer,
    getContainer: (id: string) => Database.orUnavailable(findContainer(id)),
    listContainers,
    setEnabled,
    publish,
    listRevisions,
    revoke
  }
})

/** A member of a set to publish; `stored` unless its version was deleted. */
interface Member extends Model.RevisionSkill {
  readonly stored?: Model.SkillVersion
}

const toMember = (stored: Model.SkillVersion): Member => ({ ...toRevisionSkill(stored), stored })

const toRevisionSkill = ({ name, skillId, version }: Model.RevisionSkill): Model.RevisionSkill => ({
  skillId,
  version,
  name
})

const isSame = (left: VersionReference, right: VersionReference) =>
  left.skillId === right.skillId && left.version === right.version

const areEqual = (left: ReadonlyArray<VersionReference>, right: ReadonlyArray<VersionReference>) =>
  left.length === right.length &&
  left.every((skill, at) => Option.exists(Option.fromNullable(right[at]), (other) => isSame(skill, other)))
