/**
 * What a registry holds: skills with their versions, containers with their revisions, and the keys that open it. All of it
 * is metadata; archives are in the blob store.
 *
 * @module
 */
import { Schema } from "effect"
import * as RegistryApi from "../delivery/RegistryApi.js"

/** What a person reads: one line that PostgreSQL can hold, in at most 255 UTF-16 units. */
const Line = Schema.String.pipe(
  Schema.maxLength(255),
  Schema.filter((line) => line.trim() !== "" && !/[\p{Control}\p{Surrogate}]/u.test(line), {
    message: () => "must be one line of well-formed Unicode, not blank"
  })
)

/** The label of a skill, the title of a container, the name of a key. */
export const Title = Line

/** A container id as delivery knows it, and short enough for a database's index. */
export const ContainerId = RegistryApi.ContainerId.pipe(Schema.maxLength(255))

/** Lower-case hex SHA-256. */
const Sha256 = Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/))

/** The name of a revision's content: hex SHA-256 of its canonical manifest without `revision` (contract, Registry server). */
export const RevisionName = Sha256

/** A skill. It always has at least one version, and every version has its name (contract, Registry server). */
export const Skill = Schema.Struct({
  id: Schema.String,
  /** As its versions' frontmatter gives it. */
  name: Schema.String,
  displayTitle: Schema.NullOr(Schema.String),
  latestVersion: Schema.String,
  latestVersionId: Schema.String,
  createdAt: Schema.DateTimeUtc,
  updatedAt: Schema.DateTimeUtc
})
export type Skill = typeof Skill.Type

/** One upload of a skill. Never changed, only deleted. */
export const SkillVersion = Schema.Struct({
  /** Addresses the version wherever `version` does. */
  id: Schema.String,
  skillId: Schema.String,
  /** A decimal number, higher than that of every earlier version of the skill. */
  version: Schema.String,
  name: Schema.String,
  description: Schema.String,
  /** The top-level directory of the archive. */
  directory: Schema.String,
  /** Of the archive. */
  sha256: Sha256,
  /** Of the archive, in bytes. */
  size: Schema.Number,
  createdAt: Schema.DateTimeUtc
})
export type SkillVersion = typeof SkillVersion.Type

/** One skill version of a revision, as it was when the set was published. */
export const RevisionSkill = Schema.Struct({
  skillId: Schema.String,
  version: Schema.String,
  name: Schema.String
})
export type RevisionSkill = typeof RevisionSkill.Type

/**
 * One entry of a container's history. A revision that became latest again has several, and so has one that was published from
 * other skills with the same content.
 */
export const Revision = Schema.Struct({
  containerId: Schema.String,
  /** Its place in the container's history, from 1. */
  sequence: Schema.Number,
  revision: RevisionName,
  etag: RegistryApi.ETag,
  /** Of the archive. */
  sha256: Sha256,
  /** Of the archive, in bytes. */
  size: Schema.Number,
  createdAt: Schema.DateTimeUtc,
  /** Of the revision, so the same in all its entries. */
  revokedAt: Schema.NullOr(Schema.DateTimeUtc),
  /** In the order of the manifest. */
  skills: Schema.Array(RevisionSkill)
})
export type Revision = typeof Revision.Type

/** A named set of published skills. */
export const Container = Schema.Struct({
  id: Schema.String,
  title: Schema.NullOr(Schema.String),
  /** Whether its skills are delivered. */
  enabled: Schema.Boolean,
  /** The newest entry that is not revoked; null when all are. */
  latest: Schema.NullOr(Revision),
  createdAt: Schema.DateTimeUtc
})
export type Container = typeof Container.Type

/** What a key may do; each scope includes the one before it. */
export const KeyScope = Schema.Literal("read", "publish", "admin")
export type KeyScope = typeof KeyScope.Type

/** What is kept of a key. The key itself is shown once, when it is issued. */
export const ApiKey = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  scope: KeyScope,
  /** The containers that the key may read; null: all. */
  containers: Schema.NullOr(Schema.Array(Schema.String)),
  createdAt: Schema.DateTimeUtc,
  revokedAt: Schema.NullOr(Schema.DateTimeUtc)
})
export type ApiKey = typeof ApiKey.Type

/** A part of a list. `nextPage` is opaque, and null at the end. */
export interface Page<A> {
  readonly items: ReadonlyArray<A>
  readonly nextPage: string | null
}

/**
 * Which part of a list: at most `limit` items (1 to 1,000, by default 20), from the start or from a page's `nextPage`. Of containers
 * and revisions, each of which may have a thousand skills, a page has at most 100.
 */
export interface PageRequest {
  readonly limit?: number | undefined
  readonly page?: string | null | undefined
}

/** What is delivered of a container: its latest revision, or the pinned one. */
export interface Resolved {
  readonly revision: string
  readonly etag: string
  /** Of the archive, which `Registry.archive` gives. */
  readonly sha256: string
  /** Of the archive, in bytes. */
  readonly size: number
}

/** What a server knows of a request for a container without asking its store. */
export interface Known {
  readonly apiKey: ApiKey
  readonly resolved: Resolved
}
