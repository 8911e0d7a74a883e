/**
 * What a server keeps in memory to answer who a key is and what a container delivers, and the rule that makes memory safe:
 * it is confirmed at least once a second, and a server that cannot confirm does not answer (contract, Registry server). So a
 * revocation, whichever server made it, is seen everywhere within a second.
 *
 * Every write to the database takes the next change number, and rows that matter here carry the number of their last one. A
 * confirmation reads the number and, when it is new, the rows that have changed since; a view of thousands of containers
 * costs as little to confirm as an empty one.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import { Clock, Deferred, Duration, Effect, FiberId, type Redacted, Schema, type Scope } from "effect"
import {
  AuthenticationFailed,
  ContainerNotFound,
  DeliveryDisabled,
  RevisionNotFound,
  RevisionRevoked
} from "../delivery/DeliveryError.js"
import * as Database from "../store/Database.js"
import { StoreUnavailable } from "../store/StoreError.js"
import * as ApiKey from "./ApiKey.js"
import * as Model from "./RegistryModel.js"

export interface LiveView {
  readonly authenticate: (
    key: Redacted.Redacted
  ) => Effect.Effect<Model.ApiKey, AuthenticationFailed | StoreUnavailable>
  readonly resolve: (containerId: string, pin?: string) => Effect.Effect<Model.Resolved, ResolveError>
  /** After a write of this server: nothing is answered from memory until a confirmation that began after this. */
  readonly invalidate: Effect.Effect<void>
}

export type ResolveError = ContainerNotFound | DeliveryDisabled | RevisionNotFound | RevisionRevoked | StoreUnavailable

/** How old a confirmation may be, from the moment at which it began. */
const maximumAge = Duration.seconds(1)

/** From this age on an answer starts the next confirmation, so that under load nobody waits for one. */
const refreshAge = Duration.millis(500)

const maximumNanos = Duration.unsafeToNanos(maximumAge)
const refreshNanos = Duration.unsafeToNanos(refreshAge)

type Answer = Effect.Effect<Model.Resolved, ContainerNotFound | DeliveryDisabled | RevisionNotFound | RevisionRevoked>

/** What a container delivers, answers made ahead. A change of the container replaces it whole. */
interface ContainerView {
  readonly enabled: boolean
  readonly latest: Answer
  /** Of the revisions that were asked for by name and exist. */
  readonly pinned: Map<string, Answer>
}

interface KeyView {
  readonly digest: string
  /** Made ahead: the record, or the refusal of a revoked key. */
  readonly answer: Effect.Effect<Model.ApiKey, AuthenticationFailed>
}

interface ContainerRow {
  readonly id: string
  readonly enabled: number
  readonly revision: string | null
  readonly sha256: string | null
  readonly size: number | string | null
}

interface RevisionRow {
  readonly revision: string
  readonly sha256: string
  readonly size: number | string
  readonly revoked_at: number | string | null
}

/** One confirmation, shared by all who wait for it. */
interface Flight {
  readonly done: Deferred.Deferred<void, StoreUnavailable>
  /** The writes of this server that it sees: those before it began. */
  readonly generation: number
}

/** An empty view, which the first question fills. Its confirmations run in the scope. */
export const make: Effect.Effect<LiveView, never, SqlClient.SqlClient | Scope.Scope> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const scope = yield* Effect.scope

  let containers = new Map<string, ContainerView>()
  let keys = new Map<string, KeyView>()
  /** The change number up to which the view is complete; -1 for an empty view. */
  let change = -1
  /** When the last confirmation that counts began, on the monotonic clock. */
  let confirmedAt: bigint | undefined
  /** Goes up with every write of this server. */
  let generation = 0
  let flight: Flight | undefined

  const confirm = Effect.fn("LiveView.confirm")(function* (self: Flight) {
    const begun = yield* Clock.currentTimeNanos
    // Read before the rows: what is committed in between is in the rows already, and is read once more the next time.
    const [state] = yield* sql<{ change: number | string }>`SELECT change FROM registry_state WHERE id = 1`
    const current = Number(state?.change)
    // A database that has gone back, restored say, has nothing in common with the view.
    const since = current < change ? -1 : change
    const changed = current === change ? unchanged : yield* readChanges(sql, since)
    yield* Effect.annotateCurrentSpan({
      "registry.changed_containers": changed.containers.length,
      "registry.changed_keys": changed.keys.length
    })
    // Older rows than those of the flight that took its place must not overwrite them.
    if (flight !== self) return
    if (since === -1) {
      containers = new Map()
      keys = new Map()
    }
    for (const row of changed.containers) containers.set(row.id, toContainerView(row))
    for (const row of changed.keys) keys.set(row.id, toKeyView(row))
    change = current
    if (self.generation === generation) confirmedAt = begun
  })

  const launch = Effect.suspend(() => {
    const self: Flight = { done: Deferred.unsafeMake(FiberId.none), generation }
    flight = self
    return confirm(self).pipe(
      Database.orUnavailable,
      // A statement that hangs and cannot be interrupted is left behind, or nobody would ever get an answer again.
      Effect.disconnect,
      Effect.timeoutFail({ duration: maximumAge, onTimeout: () => new StoreUnavailable({ reason: "timeout" }) }),
      Effect.interruptible,
      Effect.forkIn(scope),
      Effect.map((fiber) => {
        // Rather than in the fiber: one that is interrupted before it has begun does not end its own flight.
        fiber.addObserver((exit) => {
          if (flight === self) flight = undefined
          Deferred.unsafeDone(self.done, exit)
        })
        return self
      })
    )
  })

  /** A flight that began before this server's last write is of no use: it is left to those who wait for it, who try again. */
  const joined = Effect.suspend(() =>
    flight?.generation === generation ? Effect.succeed(flight) : Effect.uninterruptible(launch)
  )

  /** The answer from memory, confirmed within the last second; without one, after a confirmation. */
  const answerConfirmed = <A, E>(answer: () => Effect.Effect<A, E>): Effect.Effect<A, E | StoreUnavailable> =>
    Clock.clockWith((clock) => {
      const age = confirmedAt === undefined ? -1n : clock.unsafeCurrentTimeNanos() - confirmedAt
      if (age >= 0n && age < refreshNanos) return answer()
      if (age >= 0n && age < maximumNanos) return Effect.zipRight(joined, answer())
      return Effect.flatMap(joined, ({ done }) =>
        Effect.zipRight(
          Deferred.await(done),
          Effect.suspend(() => answerConfirmed(answer))
        )
      )
    })

  /** Asked of the database, so as fresh as can be; kept with the container, whose every change drops it. */
  const resolvePin = Effect.fn("LiveView.resolvePin")(function* (
    containerId: string,
    pin: string,
    view: ContainerView
  ): Effect.fn.Return<Model.Resolved, ResolveError> {
    const [row] = yield* sql<RevisionRow>`
      SELECT revision, sha256, size, revoked_at FROM revisions
      WHERE container_id = ${containerId} AND revision = ${pin}`.pipe(
      Database.orUnavailable,
      Effect.disconnect,
      Effect.timeoutFail({ duration: maximumAge, onTimeout: () => new StoreUnavailable({ reason: "timeout" }) })
    )
    if (row === undefined) return yield* new RevisionNotFound({ container: containerId })
    const answer = toAnswer(containerId, row)
    view.pinned.set(pin, answer)
    return yield* answer
  })

  const resolveNow = (containerId: string, pin: string | undefined): Effect.Effect<Model.Resolved, ResolveError> => {
    const view = containers.get(containerId)
    if (view === undefined) return new ContainerNotFound({ container: containerId })
    if (!view.enabled) return new DeliveryDisabled({ container: containerId })
    if (pin === undefined) return view.latest
    // No revision has another form, and not every text can be a parameter of PostgreSQL.
    if (!Schema.is(Model.RevisionName)(pin)) return new RevisionNotFound({ container: containerId })
    return view.pinned.get(pin) ?? resolvePin(containerId, pin, view)
  }

  return {
    authenticate: (key) => answerConfirmed(() => ApiKey.find(keys, key)?.answer ?? new AuthenticationFailed({})),
    resolve: (containerId, pin) => answerConfirmed(() => resolveNow(containerId, pin)),
    invalidate: Effect.sync(() => {
      generation++
      confirmedAt = undefined
    })
  }
})

interface Changed {
  readonly containers: ReadonlyArray<ContainerRow>
  readonly keys: ReadonlyArray<ApiKey.Row>
}

const unchanged: Changed = { containers: [], keys: [] }

const readChanges = (sql: SqlClient.SqlClient, since: number): Effect.Effect<Changed, SqlError> =>
  Effect.all({
    containers: sql<ContainerRow>`
      SELECT c.id, c.enabled, r.revision, r.sha256, r.size FROM containers c
      LEFT JOIN revision_history h ON h.container_id = c.id AND h.sequence = c.latest_sequence
      LEFT JOIN revisions r ON r.container_id = h.container_id AND r.revision = h.revision
      WHERE c.change > ${since}`,
    keys: sql<ApiKey.Row>`SELECT * FROM api_keys WHERE change > ${since}`
  })

const toAnswer = (containerId: string, { revision, revoked_at, sha256, size }: RevisionRow): Answer =>
  revoked_at === null
    ? Effect.succeed({ revision, etag: `"${sha256}"`, sha256, size: Number(size) })
    : Effect.suspend(() => new RevisionRevoked({ container: containerId }))

const toContainerView = ({ enabled, id, revision, sha256, size }: ContainerRow): ContainerView => ({
  enabled: Number(enabled) === 1,
  latest:
    revision === null || sha256 === null || size === null
      ? // Every revision is revoked (contract, Registry server).
        Effect.suspend(() => new RevisionRevoked({ container: id }))
      : toAnswer(id, { revision, sha256, size, revoked_at: null }),
  pinned: new Map()
})

const toKeyView = (row: ApiKey.Row): KeyView => ({
  digest: row.digest,
  answer:
    row.revoked_at === null ? Effect.succeed(ApiKey.fromRow(row)) : Effect.suspend(() => new AuthenticationFailed({}))
})
