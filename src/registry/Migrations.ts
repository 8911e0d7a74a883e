/**
 * The tables of a registry, the same on libSQL and PostgreSQL. Times are milliseconds since the epoch, truth values 0 and 1,
 * lists JSON text.
 *
 * What has no foreign key: the skills of an entry of a history, which outlive their rows; the key of a version, which a program
 * names as it likes; and the latest entry of a container, which points at its container in its turn.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Effect } from "effect"
import { DatabaseError, type Migration } from "../store/Database.js"

const run = (statements: ReadonlyArray<string>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })
  )

/** Of {@link all}: what every table is made of. */
const tables = [
  // Every write takes the next number here first, so that writes are in one order that `change` columns follow.
  `CREATE TABLE registry_state (id INTEGER PRIMARY KEY, change BIGINT NOT NULL)`,
  `INSERT INTO registry_state (id, change) VALUES (1, 0)`,

  `CREATE TABLE skills (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    display_title TEXT,
    next_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ordinal BIGINT NOT NULL UNIQUE
  )`,
  `CREATE TABLE skill_versions (
    id TEXT PRIMARY KEY,
    skill_id TEXT NOT NULL REFERENCES skills (id),
    version BIGINT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    directory TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    key_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (skill_id, version)
  )`,
  `CREATE INDEX skill_versions_by_sha256 ON skill_versions (sha256, key_id, created_at)`,

  `CREATE TABLE containers (
    id TEXT PRIMARY KEY,
    title TEXT,
    enabled INTEGER NOT NULL,
    latest_sequence BIGINT,
    next_sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    ordinal BIGINT NOT NULL UNIQUE,
    change BIGINT NOT NULL
  )`,
  `CREATE INDEX containers_by_change ON containers (change)`,
  `CREATE TABLE revisions (
    container_id TEXT NOT NULL REFERENCES containers (id),
    revision TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    revoked_at BIGINT,
    PRIMARY KEY (container_id, revision)
  )`,
  `CREATE INDEX revisions_by_sha256 ON revisions (sha256)`,
  `CREATE TABLE revision_history (
    container_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    revision TEXT NOT NULL,
    skills TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (container_id, sequence),
    FOREIGN KEY (container_id, revision) REFERENCES revisions (container_id, revision)
  )`,
  `CREATE INDEX revision_history_by_revision ON revision_history (container_id, revision)`,

  `CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    containers TEXT,
    digest TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    ordinal BIGINT NOT NULL UNIQUE,
    change BIGINT NOT NULL
  )`,
  `CREATE INDEX api_keys_by_change ON api_keys (change)`
]

/**
 * In the order in which they run. One that was released is never changed.
 *
 * Where there are archives before the first one, the database that knew them was lost, or copied without its log; with a new one
 * they would all be swept.
 */
export const all = ({ hasArchives }: { readonly hasArchives: boolean }): ReadonlyArray<Migration> => [
  { id: 1, name: "tables", up: hasArchives ? new DatabaseError({ problem: "lost" }) : run(tables) }
]
