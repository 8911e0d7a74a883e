/**
 * The tables of a journal, the same on libSQL and PostgreSQL. Documents are JSON text, times milliseconds since the epoch.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { Effect } from "effect"
import type { Migration } from "../store/Database.js"

/** What has run is kept here, so that a registry may share the database. */
export const ledger = "journal_migration"

const tables = [
  `CREATE TABLE journal_runs (
    run_id TEXT PRIMARY KEY,
    ordinal BIGINT NOT NULL UNIQUE,
    header TEXT NOT NULL,
    opened_at BIGINT NOT NULL,
    last_position BIGINT NOT NULL,
    ended_at BIGINT
  )`,
  `CREATE TABLE journal_events (
    run_id TEXT NOT NULL REFERENCES journal_runs (run_id),
    position BIGINT NOT NULL,
    source_event_id TEXT NOT NULL,
    source_key TEXT NOT NULL,
    source_seq BIGINT NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run_id, position),
    UNIQUE (run_id, source_event_id)
  )`,
  // What follows an acknowledged number without a gap is found here.
  `CREATE INDEX journal_events_by_source ON journal_events (run_id, source_key, source_seq)`,
  `CREATE TABLE journal_sources (
    run_id TEXT NOT NULL REFERENCES journal_runs (run_id),
    source_key TEXT NOT NULL,
    acknowledged BIGINT NOT NULL,
    PRIMARY KEY (run_id, source_key)
  )`
]

export const all: ReadonlyArray<Migration> = [
  {
    id: 1,
    name: "journal",
    up: Effect.flatMap(SqlClient.SqlClient, (sql) =>
      Effect.forEach(tables, (statement) => sql.unsafe(statement), { discard: true })
    )
  }
]
