/**
 * What a server keeps in memory to answer who a key is and what a container delivers, and the rule that makes memory safe:
 * it is confirmed at least once a second, and a server that cannot confirm does not answer (contract, Registry server). So a
 * revocation, whichever server made it, is seen everywhere within a second.
 *
 * Every write to the database takes the next change number, and rows that matter here carry the number of their last one. A
 * confirmation reads the number and, when it is new, the rows that have changed since; a view of thousands of containers
 * costs as little to confirm as an empty one. The first one reads all rows, in pages: where that takes longer than a confirmation
 * may, the next one goes on from there.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import { Clock, Deferred, Duration, Effect, Exit, FiberId, type Redacted, Runtime, Schema, type Scope } from "effect"
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
  /**
   * What both give together, if they give it at once and from memory; undefined where they would refuse or have to ask. Runs no
   * effect, for the one request that comes so often that an effect costs several times its answer.
   */
  readonly unsafePoll: (key: Redacted.Redacted, containerId: string, pin?: string) => Model.Known | undefined
  /** Succeeds when memory is confirmed, or can be. */
  readonly ready: Effect.Effect<void, StoreUnavailable>
  /** After a write of this server: who asks from here on is answered after a confirmation that begins after this. */
  readonly invalidate: Effect.Effect<void>
}

export type ResolveError = ContainerNotFound | DeliveryDisabled | RevisionNotFound | RevisionRevoked | StoreUnavailable

/** How old a confirmation may be, from the moment at which it began. */
const maximumAge = Duration.seconds(1)

/** From this age on an answer starts the next confirmation, so that under load nobody waits for one. */
const refreshAge = Duration.millis(500)

const maximumNanos = Duration.unsafeToNanos(maximumAge)
const refreshNanos = Duration.unsafeToNanos(refreshAge)

/** Made ahead, so that the same one is given until something changes. */
type Answer = Exit.Exit<Model.Resolved, RevisionRevoked>

/** What a container delivers. A change of the container replaces it whole. */
interface ContainerView {
  readonly enabled: boolean
  readonly latest: Answer
  /** Of the revisions that were asked for by name and exist. */
  readonly pinned: Map<string, Answer>
}

interface KeyView {
  readonly digest: string
  /** The record, or the refusal of a revoked key. */
  readonly answer: Exit.Exit<Model.ApiKey, AuthenticationFailed>
}

/** Rows that are read with one statement. */
const pageRows = 5_000

interface ContainerRow {
  readonly change: Database.Integer
  readonly id: string
  readonly enabled: number
  readonly revision: string | null
  readonly sha256: string | null
  readonly size: Database.Integer | null
}

interface RevisionRow {
  readonly revision: string
  readonly sha256: string
  readonly size: Database.Integer
  readonly revoked_at: Database.Integer | null
}

/** One confirmation, shared by all who wait for it. */
interface Flight {
  readonly done: Deferred.Deferred<void, StoreUnavailable>
  /** The writes of this server that it sees: those before it began. Infinite before it has begun. */
  generation: number
}

/** An empty view, which the first question fills. Its confirmations run in the scope. */
export const make: Effect.Effect<LiveView, never, SqlClient.SqlClient | Scope.Scope> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const scope = yield* Effect.scope
  const clock = yield* Effect.clock
  const runFork = Runtime.runFork(yield* Effect.runtime<never>())

  let containers = new Map<string, ContainerView>()
  let keys = new Map<string, KeyView>()
  /** The change number up to which the view is complete; -1 for an empty view. */
  let change = -1
  /** The last changes that were read. */
  let read = nothingRead
  /** When the last confirmation began, on the monotonic clock, and the writes of this server that it has seen. */
  let confirmed: { readonly at: bigint; readonly generation: number } | undefined
  /** Goes up with every write of this server. */
  let generation = 0
  /** One confirmation after the other, so that what one has read never overwrites what a later one has. */
  let flight: Flight | undefined
  /** For those who asked after a write that the running one does not see. */
  let next: Flight | undefined

  const newFlight = (): Flight => ({ done: Deferred.unsafeMake(FiberId.none), generation: Number.POSITIVE_INFINITY })

  /** A statement of a confirmation that began at this time. One that hangs and cannot be interrupted is left behind. */
  const asked = <A>(at: bigint, statement: Effect.Effect<A, SqlError>) =>
    Effect.flatMap(Clock.currentTimeNanos, (now) => {
      const left = maximumNanos - (now - at)
      return Database.orUnavailable(statement).pipe(
        Effect.disconnect,
        Effect.timeoutFail({
          duration: Duration.nanos(left > 0n ? left : 0n),
          onTimeout: () => new StoreUnavailable({ reason: "timeout" })
        })
      )
    })

  /** Gives how many there were. */
  const readContainers = Effect.fnUntraced(function* (at: bigint) {
    for (let count = 0; ; ) {
      const rows = yield* asked(
        at,
        sql<ContainerRow>`
          SELECT c.id, c.enabled, c.change, r.revision, r.sha256, r.size FROM containers c
          LEFT JOIN revision_history h ON h.container_id = c.id AND h.sequence = c.latest_sequence
          LEFT JOIN revisions r ON r.container_id = h.container_id AND r.revision = h.revision
          WHERE c.change > ${read.containers} ORDER BY c.change LIMIT ${pageRows}`
      )
      for (const row of rows) containers.set(row.id, toContainerView(row))
      read = { ...read, containers: Number(rows.at(-1)?.change ?? read.containers) }
      count += rows.length
      if (rows.length < pageRows) return count
    }
  })

  const readKeys = Effect.fnUntraced(function* (at: bigint) {
    for (let count = 0; ; ) {
      const rows = yield* asked(
        at,
        sql<ApiKey.Row & { readonly change: Database.Integer }>`
          SELECT * FROM api_keys WHERE change > ${read.keys} ORDER BY change LIMIT ${pageRows}`
      )
      for (const row of rows) keys.set(row.id, toKeyView(row))
      read = { ...read, keys: Number(rows.at(-1)?.change ?? read.keys) }
      count += rows.length
      if (rows.length < pageRows) return count
    }
  })

  const confirm = Effect.fn("LiveView.confirm")(function* (self: Flight) {
    const at = yield* Clock.currentTimeNanos
    // Read before the rows: what is committed in between is in the rows already, and is read once more the next time.
    const [state] = yield* asked(at, sql<{ change: Database.Integer }>`SELECT change FROM registry_state WHERE id = 1`)
    const current = Number(state?.change)
    if (current < change) {
      // A database that has gone back, restored say, has nothing in common with the view.
      containers = new Map()
      keys = new Map()
      change = -1
      read = nothingRead
      confirmed = undefined
    }
    if (current !== change) {
      yield* Effect.annotateCurrentSpan({
        "registry.changed_containers": yield* readContainers(at),
        "registry.changed_keys": yield* readKeys(at)
      })
      change = current
    }
    confirmed = { at, generation: self.generation }
  })

  const launch = (self: Flight): Effect.Effect<Flight> =>
    Effect.suspend(() => {
      self.generation = generation
      flight = self
      return confirm(self).pipe(
        Effect.interruptible,
        Effect.forkIn(scope),
        Effect.map((fiber) => {
          // Rather than in the fiber: one that is interrupted before it has begun does not end its own flight.
          fiber.addObserver((exit) => {
            const following = next
            flight = next = undefined
            if (following !== undefined) runFork(launch(following))
            Deferred.unsafeDone(self.done, exit)
          })
          return self
        })
      )
    })

  /** The running confirmation, or the next one if the running one began before this server's last write. */
  const joined = Effect.suspend(() => {
    if (flight === undefined) return Effect.uninterruptible(launch(newFlight()))
    if (flight.generation === generation) return Effect.succeed(flight)
    next ??= newFlight()
    return Effect.succeed(next)
  })

  /** Whether memory may answer now. */
  const isConfirmed = () => {
    if (confirmed?.generation !== generation) return false
    const age = clock.unsafeCurrentTimeNanos() - confirmed.at
    if (age < 0n || age >= maximumNanos) return false
    if (age >= refreshNanos && flight === undefined) runFork(launch(newFlight()))
    return true
  }

  /**
   * The answer from memory, confirmed within the last second; without one, after a confirmation. That one counts whatever is written
   * meanwhile, or those who ask would never be answered while others write.
   */
  const answerConfirmed = <A, E>(answer: () => Effect.Effect<A, E>): Effect.Effect<A, E | StoreUnavailable> =>
    Effect.suspend(() =>
      isConfirmed()
        ? answer()
        : Effect.flatMap(joined, ({ done }) => Effect.zipRight(Deferred.await(done), Effect.suspend(answer)))
    )

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

  const unsafePoll: LiveView["unsafePoll"] = (key, containerId, pin) => {
    if (!isConfirmed()) return undefined
    const apiKey = ApiKey.find(keys, key)?.answer
    const container = containers.get(containerId)
    if (apiKey === undefined || container === undefined || !container.enabled) return undefined
    const resolved = pin === undefined ? container.latest : container.pinned.get(pin)
    if (resolved === undefined || Exit.isFailure(apiKey) || Exit.isFailure(resolved)) return undefined
    return { apiKey: apiKey.value, resolved: resolved.value }
  }

  return {
    unsafePoll,
    authenticate: (key) => answerConfirmed(() => ApiKey.find(keys, key)?.answer ?? new AuthenticationFailed({})),
    resolve: (containerId, pin) => answerConfirmed(() => resolveNow(containerId, pin)),
    ready: answerConfirmed(() => Effect.void),
    invalidate: Effect.sync(() => {
      generation++
    })
  }
})

const nothingRead = { containers: -1, keys: -1 }

const toAnswer = (containerId: string, { revision, revoked_at, sha256, size }: RevisionRow): Answer =>
  revoked_at === null
    ? Exit.succeed({ revision, etag: `"${sha256}"`, sha256, size: Number(size) })
    : Exit.fail(new RevisionRevoked({ container: containerId }))

const toContainerView = ({ enabled, id, revision, sha256, size }: ContainerRow): ContainerView => ({
  enabled: Number(enabled) === 1,
  latest:
    revision === null || sha256 === null || size === null
      ? // Every revision is revoked (contract, Registry server).
        Exit.fail(new RevisionRevoked({ container: id }))
      : toAnswer(id, { revision, sha256, size, revoked_at: null }),
  pinned: new Map()
})

const toKeyView = (row: ApiKey.Row): KeyView => ({
  digest: row.digest,
  answer: row.revoked_at === null ? Exit.succeed(ApiKey.fromRow(row)) : Exit.fail(new AuthenticationFailed({}))
})
