/**
 * Skills and their versions.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Array, Clock, Duration, Effect, Schema } from "effect"
import type { SkillBundle } from "../publishing/SkillBundle.js"
import * as Database from "../store/Database.js"
import type { Archives } from "./Archives.js"
import type { Changes } from "./Changes.js"
import * as Paging from "./Paging.js"
import { InvalidValue, LastVersion, SkillNameChanged, SkillNotFound, SkillVersionNotFound } from "./RegistryError.js"
import * as Model from "./RegistryModel.js"

interface SkillRow {
  readonly id: string
  readonly name: string
  readonly display_title: string | null
  readonly created_at: Database.Integer
  readonly updated_at: Database.Integer
  readonly ordinal: Database.Integer
  readonly latest_version: Database.Integer
  readonly latest_version_id: string
}

interface VersionRow {
  readonly id: string
  readonly skill_id: string
  readonly version: Database.Integer
  readonly name: string
  readonly description: string
  readonly directory: string
  readonly sha256: string
  readonly size: Database.Integer
  readonly created_at: Database.Integer
}

const toSkill = (row: SkillRow): Model.Skill => ({
  id: row.id,
  name: row.name,
  displayTitle: row.display_title,
  latestVersion: String(row.latest_version),
  latestVersionId: row.latest_version_id,
  createdAt: Database.toDateTime(row.created_at),
  updatedAt: Database.toDateTime(row.updated_at)
})

const toVersion = (row: VersionRow): Model.SkillVersion => ({
  id: row.id,
  skillId: row.skill_id,
  version: String(row.version),
  name: row.name,
  description: row.description,
  directory: row.directory,
  sha256: row.sha256,
  size: Number(row.size),
  createdAt: Database.toDateTime(row.created_at)
})

/** A client that never got the answer sends the same again (contract, Registry server: within a minute). */
const repeatTime = Duration.toMillis("1 minute")

const keyOf = ({ skillId, version }: VersionReference) => `${skillId}/${version}`

const newId = (prefix: string) => `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`

// No other text is looked up: PostgreSQL does not take every text as a parameter.
const isSkillId = (id: string) => /^skill_[0-9a-f]{32}$/.test(id)
const isVersionId = (id: string) => /^skillver_[0-9a-f]{32}$/.test(id)
const isVersionNumber = (version: string) => /^[1-9]\d{0,14}$/.test(version)

/** A skill version as it is asked for: `version` is its number or its id. */
export interface VersionReference {
  readonly skillId: string
  readonly version: string
}

/** Versions that are asked for with one statement. */
const askedAtOnce = 500

export type SkillStore = Effect.Effect.Success<ReturnType<typeof make>>

export const make = Effect.fnUntraced(function* (changes: Changes, archives: Archives) {
  const sql = yield* SqlClient.SqlClient

  const selectSkills = sql`
    SELECT s.*, v.version AS latest_version, v.id AS latest_version_id FROM skills s
    JOIN skill_versions v ON v.skill_id = s.id
      AND v.version = (SELECT MAX(version) FROM skill_versions WHERE skill_id = s.id)`

  const findSkill = Effect.fnUntraced(function* (skillId: string) {
    if (!isSkillId(skillId)) return yield* new SkillNotFound({ skillId })
    const [row] = yield* sql<SkillRow>`${selectSkills} WHERE s.id = ${skillId}`
    return row === undefined ? yield* new SkillNotFound({ skillId }) : toSkill(row)
  })

  const findVersion = Effect.fnUntraced(function* (skillId: string, version: string) {
    yield* findSkill(skillId)
    const rows = isVersionNumber(version)
      ? yield* sql<VersionRow>`SELECT * FROM skill_versions WHERE skill_id = ${skillId} AND version = ${Number(version)}`
      : isVersionId(version)
        ? yield* sql<VersionRow>`SELECT * FROM skill_versions WHERE skill_id = ${skillId} AND id = ${version}`
        : []
    const [row] = rows
    return row === undefined ? yield* new SkillVersionNotFound({ skillId, version }) : toVersion(row)
  })

  /** Those of many versions that there are, by the reference that was given, with few statements. */
  const findVersions = Effect.fnUntraced(function* (references: ReadonlyArray<VersionReference>) {
    const known = references.filter(({ skillId }) => isSkillId(skillId))
    const byNumber = Array.chunksOf(
      known.filter(({ version }) => isVersionNumber(version)),
      askedAtOnce
    )
    const byId = Array.chunksOf(
      known.filter(({ version }) => isVersionId(version)),
      askedAtOnce
    )
    const numbered = yield* Effect.forEach(byNumber, (some) => {
      const pairs = some.map(({ skillId, version }) => sql`(${skillId}, CAST(${Number(version)} AS BIGINT))`)
      return sql<VersionRow>`
        WITH wanted (skill_id, version) AS (VALUES ${sql.join(", ", false)(pairs)})
        SELECT v.* FROM wanted JOIN skill_versions v ON v.skill_id = wanted.skill_id AND v.version = wanted.version`
    })
    const named = yield* Effect.forEach(byId, (some) => {
      const ids = some.map(({ version }) => version)
      return sql<VersionRow>`SELECT * FROM skill_versions WHERE ${sql.in("id", ids)}`
    })
    const found = new Map(
      [...numbered, ...named]
        .flat()
        .map(toVersion)
        .flatMap((version) => [
          [keyOf({ skillId: version.skillId, version: version.version }), version],
          [keyOf({ skillId: version.skillId, version: version.id }), version]
        ])
    )
    return (reference: VersionReference) => found.get(keyOf(reference))
  })

  /** Puts the archive of a bundle before the row that points to it. */
  const insertVersion = (options: {
    readonly skillId: string
    readonly version: number
    readonly bundle: SkillBundle
    readonly sha256: string
    readonly keyId: string
    readonly now: number
  }) => {
    const { bundle, keyId, now, sha256, skillId, version } = options
    const row = {
      id: newId("skillver"),
      skill_id: skillId,
      version,
      name: bundle.name,
      description: bundle.description,
      directory: bundle.directory,
      sha256,
      size: bundle.archive.length,
      key_id: keyId,
      created_at: now
    }
    return Effect.as(sql`INSERT INTO skill_versions ${sql.insert(row)}`, toVersion(row))
  }

  const createSkill = Effect.fn("Registry.createSkill")(function* (options: {
    readonly displayTitle: string | null
    readonly bundle: SkillBundle
    readonly keyId: string
  }) {
    const { bundle, displayTitle, keyId } = options
    if (displayTitle !== null && !Schema.is(Model.Title)(displayTitle)) {
      return yield* new InvalidValue({ field: "display title" })
    }
    const sha256 = yield* archives.put(bundle.archive)
    const now = yield* Clock.currentTimeMillis
    return yield* changes.commit(
      Effect.fnUntraced(
        function* (change) {
          const [first] = yield* sql<VersionRow>`
          SELECT v.* FROM skill_versions v JOIN skills s ON s.id = v.skill_id
          WHERE v.sha256 = ${sha256} AND v.key_id = ${keyId} AND v.version = 1
            AND v.created_at > ${now - repeatTime} AND v.created_at < ${now + repeatTime}
            AND COALESCE(s.display_title, '') = ${displayTitle ?? ""}
          ORDER BY v.created_at LIMIT 1`
          if (first !== undefined) return { skill: yield* findSkill(first.skill_id), version: toVersion(first) }
          const id = newId("skill")
          yield* sql`INSERT INTO skills ${sql.insert({
            id,
            name: bundle.name,
            display_title: displayTitle,
            next_version: 2,
            created_at: now,
            updated_at: now,
            ordinal: change
          })}`
          const version = yield* insertVersion({ skillId: id, version: 1, bundle, sha256, keyId, now })
          return { skill: yield* findSkill(id), version }
        },
        Effect.catchTag("SKILL_NOT_FOUND", Effect.die)
      )
    )
  })

  const addVersion = Effect.fn("Registry.addVersion")(function* (options: {
    readonly skillId: string
    readonly bundle: SkillBundle
    readonly keyId: string
  }) {
    const { bundle, keyId, skillId } = options
    yield* Effect.annotateCurrentSpan("registry.skill", skillId)
    const checkName = Effect.flatMap(findSkill(skillId), ({ name }) =>
      name === bundle.name ? Effect.void : new SkillNameChanged({ skillId, expected: name, actual: bundle.name })
    )
    // Before anything is stored; and once more when nothing can change any longer.
    yield* Database.orUnavailable(checkName)
    const sha256 = yield* archives.put(bundle.archive)
    const now = yield* Clock.currentTimeMillis
    return yield* changes.commit(
      Effect.fnUntraced(function* () {
        yield* checkName
        // The first version is that of another request, and what is no longer the latest was not just sent.
        const [latest] = yield* sql<VersionRow & { readonly key_id: string }>`
          SELECT * FROM skill_versions WHERE skill_id = ${skillId} ORDER BY version DESC LIMIT 1`
        if (
          latest?.sha256 === sha256 &&
          latest.key_id === keyId &&
          Number(latest.version) > 1 &&
          Math.abs(now - Number(latest.created_at)) < repeatTime
        ) {
          return toVersion(latest)
        }
        const [skill] = yield* sql<{ readonly next_version: Database.Integer }>`
          UPDATE skills SET next_version = next_version + 1, updated_at = ${now}
          WHERE id = ${skillId} RETURNING next_version`
        const version = Number(skill?.next_version) - 1
        return yield* insertVersion({ skillId, version, bundle, sha256, keyId, now })
      })
    )
  })

  const listSkills = Effect.fn("Registry.listSkills")(function* (
    options: Model.PageRequest & { readonly source?: string | null | undefined } = {}
  ) {
    const position = yield* Paging.parse(options)
    if (options.source !== undefined && options.source !== null && options.source !== "custom") {
      return { items: [], nextPage: null }
    }
    const rows = yield* Database.orUnavailable(sql<SkillRow>`
      ${selectSkills} WHERE s.ordinal < ${position.after ?? Number.MAX_SAFE_INTEGER}
      ORDER BY s.ordinal DESC LIMIT ${position.limit + 1}`)
    return Paging.toPage(rows, position, { ordinal: (row) => row.ordinal, item: toSkill })
  })

  const listVersions = Effect.fn("Registry.listVersions")(function* (skillId: string, options: Model.PageRequest = {}) {
    const position = yield* Paging.parse(options)
    yield* Database.orUnavailable(findSkill(skillId))
    const rows = yield* Database.orUnavailable(sql<VersionRow>`
      SELECT * FROM skill_versions
      WHERE skill_id = ${skillId} AND version < ${position.after ?? Number.MAX_SAFE_INTEGER}
      ORDER BY version DESC LIMIT ${position.limit + 1}`)
    return Paging.toPage(rows, position, { ordinal: (row) => row.version, item: toVersion })
  })

  /** What cannot be removed now is swept later. */
  const collectAll = (rows: ReadonlyArray<{ readonly sha256: string }>) =>
    Effect.forEach(rows, ({ sha256 }) => Effect.ignore(archives.collect(sha256)), { discard: true })

  const deleteSkill = Effect.fn("Registry.deleteSkill")(function* (skillId: string) {
    yield* Effect.annotateCurrentSpan("registry.skill", skillId)
    const deleted = yield* changes.commit(
      Effect.fnUntraced(function* () {
        yield* findSkill(skillId)
        const versions = yield* sql<{ sha256: string }>`
          DELETE FROM skill_versions WHERE skill_id = ${skillId} RETURNING sha256`
        yield* sql`DELETE FROM skills WHERE id = ${skillId}`
        return versions
      })
    )
    yield* collectAll(deleted)
  })

  const deleteVersion = Effect.fn("Registry.deleteVersion")(function* (skillId: string, version: string) {
    yield* Effect.annotateCurrentSpan("registry.skill", skillId)
    const now = yield* Clock.currentTimeMillis
    const deleted = yield* changes.commit(
      Effect.fnUntraced(function* () {
        const found = yield* findVersion(skillId, version)
        const others = yield* sql`
          SELECT id FROM skill_versions WHERE skill_id = ${skillId} AND id <> ${found.id} LIMIT 1`
        if (others.length === 0) return yield* new LastVersion({ skillId, version })
        yield* sql`DELETE FROM skill_versions WHERE id = ${found.id}`
        yield* sql`UPDATE skills SET updated_at = ${now} WHERE id = ${skillId}`
        return found
      })
    )
    yield* collectAll([deleted])
    return deleted
  })

  /** The archive of a version that was found. A damaged one is that only while the version is still there. */
  const archiveOf = ({ sha256, skillId, version }: Model.SkillVersion) =>
    archives
      .get(sha256)
      .pipe(Effect.tapErrorTag("CORRUPT_BLOB", () => Database.orUnavailable(findVersion(skillId, version))))

  const versionArchive = Effect.fn("Registry.versionArchive")(function* (skillId: string, version: string) {
    yield* Effect.annotateCurrentSpan("registry.skill", skillId)
    const found = yield* Database.orUnavailable(findVersion(skillId, version))
    return { bytes: yield* archiveOf(found), sha256: found.sha256 }
  })

  return {
    operations: {
      createSkill,
      addVersion,
      getSkill: (skillId: string) => Database.orUnavailable(findSkill(skillId)),
      listSkills,
      deleteSkill,
      getVersion: (skillId: string, version: string) => Database.orUnavailable(findVersion(skillId, version)),
      listVersions,
      deleteVersion,
      versionArchive
    },
    /** For a transaction that also writes something else. */
    findVersion,
    findVersions,
    archiveOf
  }
})
