/**
 * Where the events of runs are kept: appended, never changed, acknowledged when they are on disk, and read again from any
 * position.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import {
  Array as Arr,
  Chunk,
  Clock,
  Context,
  type DateTime,
  Duration,
  Effect,
  Layer,
  Option,
  Stream,
  SubscriptionRef
} from "effect"
import * as Database from "../store/Database.js"
import * as CanonicalJson from "./CanonicalJson.js"
import { BatchTooLarge, EventTooLarge, RunConflict, RunEnded, RunNotFound } from "./JournalError.js"
import * as JournalMigrations from "./JournalMigrations.js"
import { BindingMismatch } from "./ProtocolError.js"
import { at, type ProtocolIssue } from "./ProtocolIssue.js"
import * as Replay from "./Replay.js"
import { type RunEvent, sourceKey } from "./RunEvent.js"

/** How large an event may be, as JSON in UTF-8: as a frame of the protocol's wire (facts 9). */
export const maximumEventBytes = 1024 * 1024

/** How many events may come together: nobody else writes to the journal while a batch is kept. */
export const maximumBatchEvents = 4096

/** An event, and its place in its run: 1, 2, 3 and so on, in the order of arrival. */
export interface Entry {
  readonly position: number
  readonly event: RunEvent
}

/** What is kept of a run for certain. */
export interface Acknowledgement {
  /** Of the last event; 0 where there is none. */
  readonly position: number
  /**
   * By source, `<sourceKind>:<sourceInstanceId>`: everything up to this `sourceSeq` is kept. Whoever sends goes on after it; what
   * is sent again is no harm.
   */
  readonly sources: ReadonlyMap<string, number>
}

/** A run as a list of runs has it. */
export interface RunEntry {
  readonly runId: string
  readonly name: string
  readonly openedAt: DateTime.Utc
  /** When its terminal was kept. */
  readonly endedAt: Option.Option<DateTime.Utc>
  readonly events: number
}

/** Where to read from. */
export interface From {
  /** The position of the last entry that the reader has; 0, the default, for all. */
  readonly after?: number
}

type Unavailable = Database.StoreUnavailable

interface Service {
  /** Makes room for a run's events. The same once more changes nothing. */
  readonly open: (run: Replay.Run) => Effect.Effect<void, RunConflict | Unavailable>
  /**
   * Keeps events that came together, all or none; when it succeeds they are on disk. An event that is kept already is no change.
   * Fails with `binding_mismatch` for an event of another run, and for one that is delivered again with another content.
   */
  readonly append: (
    runId: string,
    events: ReadonlyArray<RunEvent>
  ) => Effect.Effect<
    Acknowledgement,
    RunNotFound | RunEnded | BatchTooLarge | EventTooLarge | BindingMismatch | Unavailable
  >
  /** Where whoever sends the events goes on, after a crash of either side. */
  readonly acknowledged: (runId: string) => Effect.Effect<Acknowledgement, RunNotFound | Unavailable>
  /** What is kept now, in pages. */
  readonly read: (runId: string, from?: From) => Stream.Stream<Entry, RunNotFound | Unavailable>
  /**
   * What is kept now and what will be, up to the run's terminal. What this process appends comes at once; for what another one does
   * it looks every 250 milliseconds.
   */
  readonly follow: (runId: string, from?: From) => Stream.Stream<Entry, RunNotFound | Unavailable>
  /** What a run began with. */
  readonly header: (runId: string) => Effect.Effect<Replay.Run, RunNotFound | Unavailable>
  /** What the events that are kept come to. */
  readonly replay: (runId: string) => Effect.Effect<Replay.State, RunNotFound | Unavailable>
  /** All runs, the newest first, in pages. */
  readonly runs: Stream.Stream<RunEntry, Unavailable>
}

/**
 * The journal. Events are kept in the order of their arrival, which need not be that of their numbers: what is late or missing
 * is for the replay to say.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Effect, Layer } from "effect"
 * import { Replay, RunJournal } from "effect-agent-contracts/runner"
 * import { Database } from "effect-agent-contracts/store"
 *
 * export const layer = RunJournal.layer.pipe(
 *   Layer.provide(Database.layerLibsql({ directory: "/var/lib/runs", name: "journal" })),
 *   Layer.provide(NodeContext.layer)
 * )
 *
 * export const phase = (runId: string) =>
 *   Effect.gen(function* () {
 *     const journal = yield* RunJournal.RunJournal
 *     return Replay.snapshot(yield* journal.replay(runId)).runPhase
 *   })
 * ```
 */
export class RunJournal extends Context.Tag("effect-agent-contracts/runner/RunJournal")<RunJournal, Service>() {}

/** So many rows come at a time: of the largest events, what a process bears. */
const pageSize = 64

/** So many rows go into one statement, which has a bounded number of parameters on either database. */
const batchSize = 500

/** How often a follower looks for what another process has written. */
const pollInterval = Duration.millis(250)

interface RunRow {
  readonly run_id: string
  readonly ordinal: Database.Integer
  readonly header: string
  readonly opened_at: Database.Integer
  readonly last_position: Database.Integer
  readonly ended_at: Database.Integer | null
}

interface EventRow {
  readonly position: Database.Integer
  readonly event: string
}

/**
 * An id of a source's choosing, as a column has it: it may contain characters that a database refuses or does not tell apart (NUL,
 * half a pair), which JSON escapes.
 */
const toColumn = (id: string) => JSON.stringify(id)
const fromColumn = (column: string): string => JSON.parse(column)

const utf8 = new TextEncoder()

// Written by `open` and `append` alone, from checked values.
const headerOf = ({ header }: RunRow): Replay.Run => JSON.parse(header)
const entryOf = ({ event, position }: EventRow): Entry => ({ position: Number(position), event: JSON.parse(event) })

const mismatch = (issues: Arr.NonEmptyReadonlyArray<ProtocolIssue>) => new BindingMismatch({ issues })

/** The events as text, all within their bounds and of this run. */
const encode = Effect.fnUntraced(function* (runId: string, events: ReadonlyArray<RunEvent>) {
  if (events.length > maximumBatchEvents) {
    return yield* new BatchTooLarge({ runId, events: events.length, maximumEvents: maximumBatchEvents })
  }
  const foreign = events.flatMap((event, index) =>
    event.runId === runId ? [] : [at([index, "runId"], "it must be the run that is appended to")]
  )
  if (Arr.isNonEmptyReadonlyArray(foreign)) return yield* mismatch(foreign)
  return yield* Effect.forEach(events, (event, index) => {
    const text = JSON.stringify(event)
    // A UTF-16 unit is three bytes at most, so that what is short need not be counted.
    const bytes = 3 * text.length > maximumEventBytes ? utf8.encode(text).length : 0
    const { sourceEventId } = event
    return bytes > maximumEventBytes
      ? new EventTooLarge({ runId, sourceEventId, bytes, maximumBytes: maximumEventBytes })
      : Effect.succeed({ event, index, text })
  })
})

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  /** Rises with every append of this process, so that its followers need not wait for their next look. */
  const appended = yield* SubscriptionRef.make(0)

  const withClient = Effect.provideService(SqlClient.SqlClient, sql)

  const findRun = Effect.fnUntraced(function* (runId: string) {
    const [row] = yield* sql<RunRow>`SELECT * FROM journal_runs WHERE run_id = ${runId}`
    return row === undefined ? yield* new RunNotFound({ runId }) : row
  })

  /** In one statement, which sees one moment without a transaction: a reader may have none. */
  const acknowledgement = Effect.fnUntraced(function* (runId: string) {
    const rows = yield* sql<{
      last_position: Database.Integer
      source_key: string | null
      acknowledged: Database.Integer
    }>`
      SELECT journal_runs.last_position, journal_sources.source_key, journal_sources.acknowledged
      FROM journal_runs LEFT JOIN journal_sources ON journal_sources.run_id = journal_runs.run_id
      WHERE journal_runs.run_id = ${runId} ORDER BY journal_sources.source_key`
    const [first] = rows
    if (first === undefined) return yield* new RunNotFound({ runId })
    const sources = new Map<string, number>()
    for (const { acknowledged, source_key } of rows)
      if (source_key !== null) sources.set(fromColumn(source_key), Number(acknowledged))
    return { position: Number(first.last_position), sources } satisfies Acknowledgement
  })

  const open = Effect.fn("RunJournal.open")(function* ({ capabilities, fixtureName, identity }: Replay.Run) {
    const { runId } = identity
    yield* Effect.annotateCurrentSpan({ "run.id": runId })
    const header = JSON.stringify({ fixtureName, identity, capabilities })
    const now = yield* Clock.currentTimeMillis
    yield* Effect.gen(function* () {
      const [known] = yield* sql<RunRow>`SELECT * FROM journal_runs WHERE run_id = ${runId}`
      if (known !== undefined) {
        const same = CanonicalJson.equals(JSON.parse(known.header), JSON.parse(header))
        return same ? undefined : yield* new RunConflict({ runId })
      }
      const [last] = yield* sql<{ ordinal: Database.Integer | null }>`SELECT MAX(ordinal) AS ordinal FROM journal_runs`
      const row = { run_id: runId, ordinal: Number(last?.ordinal ?? 0) + 1, header, opened_at: now, last_position: 0 }
      yield* sql`INSERT INTO journal_runs ${sql.insert(row)}`
    }).pipe(Database.transaction, withClient)
  })

  /** What is kept of these ids, as text. */
  const kept = Effect.fnUntraced(function* (runId: string, ids: ReadonlyArray<string>) {
    const rows = yield* Effect.forEach(
      Arr.chunksOf(ids.map(toColumn), batchSize),
      (some) =>
        sql<{ source_event_id: string; event: string }>`
        SELECT source_event_id, event FROM journal_events
        WHERE run_id = ${runId} AND ${sql.in("source_event_id", some)}`
    )
    return new Map(rows.flat().map(({ event, source_event_id }) => [fromColumn(source_event_id), event]))
  })

  /** Moves the acknowledgement of a source up to its next gap. */
  const acknowledge = Effect.fnUntraced(function* (runId: string, sourceKey: string) {
    const [row] = yield* sql<{ acknowledged: Database.Integer }>`
      SELECT acknowledged FROM journal_sources WHERE run_id = ${runId} AND source_key = ${sourceKey}`
    const before = Number(row?.acknowledged ?? 0)
    let acknowledged = before
    let found: ReadonlyArray<number>
    do {
      const rows = yield* sql<{ source_seq: Database.Integer }>`
        SELECT DISTINCT source_seq FROM journal_events
        WHERE run_id = ${runId} AND source_key = ${sourceKey} AND source_seq > ${acknowledged}
        ORDER BY source_seq LIMIT ${batchSize}`
      found = rows.map(({ source_seq }) => Number(source_seq))
      const first = acknowledged + 1
      const gap = found.findIndex((seq, index) => seq !== first + index)
      acknowledged += gap === -1 ? found.length : gap
    } while (found.length === batchSize && found.at(-1) === acknowledged)
    if (row === undefined) {
      const source = { run_id: runId, source_key: sourceKey, acknowledged }
      yield* sql`INSERT INTO journal_sources ${sql.insert(source)}`
    } else if (acknowledged > before) {
      yield* sql`
        UPDATE journal_sources SET acknowledged = ${acknowledged}
        WHERE run_id = ${runId} AND source_key = ${sourceKey}`
    }
  })

  const append = Effect.fn("RunJournal.append")(function* (runId: string, events: ReadonlyArray<RunEvent>) {
    yield* Effect.annotateCurrentSpan({ "run.id": runId, "run.events": events.length })
    const encoded = yield* encode(runId, events)
    const now = yield* Clock.currentTimeMillis
    const result = yield* Effect.gen(function* () {
      const run = yield* findRun(runId)
      const known = yield* kept(runId, [...new Set(events.map(({ sourceEventId }) => sourceEventId))])
      const fresh: Array<(typeof encoded)[number]> = []
      const changed: Array<ProtocolIssue> = []
      for (const one of encoded) {
        const before = known.get(one.event.sourceEventId)
        if (before === undefined) {
          known.set(one.event.sourceEventId, one.text)
          fresh.push(one)
        } else if (before !== one.text && !CanonicalJson.equals(JSON.parse(before), JSON.parse(one.text))) {
          changed.push(at([one.index, "sourceEventId"], "an event that is delivered again must be the same as before"))
        }
      }
      if (Arr.isNonEmptyReadonlyArray(changed)) return yield* mismatch(changed)
      const last = Number(run.last_position)
      if (fresh.length === 0) return yield* acknowledgement(runId)

      const terminal = fresh.findIndex(({ event }) => event.eventType === "run.terminal")
      if (run.ended_at !== null || (terminal !== -1 && terminal < fresh.length - 1))
        return yield* new RunEnded({ runId })
      const rows = fresh.map(({ event, text }, index) => ({
        run_id: runId,
        position: last + 1 + index,
        source_event_id: toColumn(event.sourceEventId),
        source_key: toColumn(sourceKey(event)),
        source_seq: event.sourceSeq,
        event: text
      }))
      yield* Effect.forEach(
        Arr.chunksOf(rows, batchSize),
        (some) => sql`INSERT INTO journal_events ${sql.insert(some)}`
      )
      const position = last + fresh.length
      yield* sql`
        UPDATE journal_runs SET last_position = ${position}, ended_at = ${terminal === -1 ? null : now}
        WHERE run_id = ${runId}`
      yield* Effect.forEach(new Set(rows.map(({ source_key }) => source_key)), (source) => acknowledge(runId, source))
      return yield* acknowledgement(runId)
    }).pipe(
      Database.transaction,
      withClient,
      // Also when it is interrupted: it may be just after its last statement.
      Effect.ensuring(SubscriptionRef.update(appended, (count) => count + 1))
    )
    yield* Effect.annotateCurrentSpan({ "run.position": result.position })
    return result
  })

  const acknowledged = Effect.fn("RunJournal.acknowledged")(function* (runId: string) {
    yield* Effect.annotateCurrentSpan({ "run.id": runId })
    return yield* Database.orUnavailable(acknowledgement(runId))
  })

  const page = (runId: string, after: number) =>
    Effect.map(
      sql<EventRow>`
        SELECT position, event FROM journal_events
        WHERE run_id = ${runId} AND position > ${after} ORDER BY position LIMIT ${pageSize}`,
      Arr.map(entryOf)
    )

  const positionAfter = (entries: ReadonlyArray<Entry>, before: number) => entries.at(-1)?.position ?? before

  const read: Service["read"] = (runId, { after = 0 } = {}) =>
    Stream.unwrap(
      Effect.as(
        Database.orUnavailable(findRun(runId)),
        Stream.paginateChunkEffect(after, (position) =>
          Effect.map(Database.orUnavailable(page(runId, position)), (entries) => [
            Chunk.unsafeFromArray(entries),
            entries.length < pageSize ? Option.none() : Option.some(positionAfter(entries, position))
          ])
        )
      )
    )

  const follow: Service["follow"] = (runId, { after = 0 } = {}) =>
    Stream.paginateChunkEffect(after, (position) =>
      Effect.gen(function* () {
        const seen = yield* SubscriptionRef.get(appended)
        // Looked at before the page, so that a run is only over when the page that follows has its terminal.
        const { ended_at } = yield* findRun(runId)
        const entries = yield* page(runId, position)
        const isOver = ended_at !== null && entries.length < pageSize
        if (entries.length === 0 && !isOver) {
          yield* appended.changes.pipe(
            Stream.filter((count) => count !== seen),
            Stream.runHead,
            Effect.raceFirst(Effect.sleep(pollInterval))
          )
        }
        const next = positionAfter(entries, position)
        return [Chunk.unsafeFromArray(entries), isOver ? Option.none<number>() : Option.some(next)] as const
      }).pipe(Database.orUnavailable)
    )

  const header = Effect.fn("RunJournal.header")(function* (runId: string) {
    yield* Effect.annotateCurrentSpan({ "run.id": runId })
    return headerOf(yield* Database.orUnavailable(findRun(runId)))
  })

  const replay = Effect.fn("RunJournal.replay")(function* (runId: string) {
    const run = yield* header(runId)
    return yield* read(runId).pipe(
      Stream.chunks,
      Stream.runFold(Replay.begin(run), (state, entries) =>
        Replay.reduce(
          state,
          Arr.map(Chunk.toReadonlyArray(entries), ({ event }) => event)
        )
      )
    )
  })

  const runs: Service["runs"] = Stream.paginateChunkEffect(Number.MAX_SAFE_INTEGER, (before) =>
    Effect.map(
      Database.orUnavailable(
        sql<RunRow>`SELECT * FROM journal_runs WHERE ordinal < ${before} ORDER BY ordinal DESC LIMIT ${pageSize}`
      ),
      (rows) => [
        Chunk.fromIterable(
          rows.map((row) => ({
            runId: row.run_id,
            name: headerOf(row).fixtureName,
            openedAt: Database.toDateTime(row.opened_at),
            endedAt: Option.map(Option.fromNullable(row.ended_at), Database.toDateTime),
            events: Number(row.last_position)
          }))
        ),
        Option.map(
          Option.filter(Arr.last(rows), () => rows.length === pageSize),
          ({ ordinal }) => Number(ordinal)
        )
      ]
    )
  )

  return RunJournal.of({ open, append, acknowledged, read, follow, header, replay, runs })
})

/**
 * A journal in a database. Its tables are made, or brought to the newest version, at the start; a registry may share the
 * database.
 */
export const layer: Layer.Layer<RunJournal, Database.DatabaseError, SqlClient.SqlClient> = Layer.effect(
  RunJournal,
  Effect.zipRight(Database.migrate(JournalMigrations.all, JournalMigrations.ledger), make)
)

/**
 * A journal that another process writes, over `Database.layerLibsqlReader`. Nothing is made; `open` and `append` fail
 * with `STORE_UNAVAILABLE`, reason `SQLITE_READONLY`.
 */
export const layerReader: Layer.Layer<RunJournal, never, SqlClient.SqlClient> = Layer.effect(RunJournal, make)
