/**
 * The service that a runtime asks for its skills: one verified, fresh, immutable snapshot per invocation.
 *
 * `ContainerState` holds the rules; this file adds what they need around them: time, one shared check, waiting callers,
 * and the layers.
 *
 * @module
 */
import {
  Cause,
  Clock,
  Config,
  Context,
  Duration,
  Effect,
  Either,
  Exit,
  Layer,
  Metric,
  Option,
  PubSub,
  Schema,
  type Scope,
  Stream,
  type Tracer
} from "effect"
import * as ContainerCache from "./ContainerCache.js"
import * as ContainerState from "./ContainerState.js"
import {
  type DeliveryError,
  fromConfigError,
  InvalidConfig,
  InvalidSnapshot,
  inContainer,
  isBlocking,
  NetworkError,
  Timeout
} from "./DeliveryError.js"
import * as DeliveryStatus from "./DeliveryStatus.js"
import * as Detached from "./Detached.js"
import * as RegistryApi from "./RegistryApi.js"
import { type Denied, RegistryClient, type SnapshotReply, type SnapshotRequest } from "./RegistryClient.js"
import * as SingleFlight from "./SingleFlight.js"
import * as Snapshot from "./Snapshot.js"

/** Verified, fresh skills of one container or of a list of them. */
export class SkillDelivery extends Context.Tag("effect-agent-contracts/delivery/SkillDelivery")<
  SkillDelivery,
  {
    /**
     * The snapshot for one invocation: what is held while its last check is younger than the freshness window, else what
     * one check, shared by all who wait, makes of it. Interruption returns at once; the request is interrupted with the
     * last caller that waits for it.
     */
    readonly acquire: Effect.Effect<Snapshot.VerifiedSnapshot, DeliveryError>
    /** `acquire` without its value. */
    readonly initialize: Effect.Effect<void, DeliveryError>
    /** The status now; asks nobody. */
    readonly status: Effect.Effect<DeliveryStatus.DeliveryStatus>
    /** The status now, then each distinct one; a slow reader skips to the newest. Ends with the layer. */
    readonly changes: Stream.Stream<DeliveryStatus.DeliveryStatus>
  }
>() {}

/** A container of a list: its id, or its id and a pinned revision. */
export type ContainerOption = string | { readonly container: string; readonly revision?: string }

interface TimeOptions {
  /** How long a successful check is good for; 0 checks at every acquire. Default: 5 seconds. */
  readonly freshness?: Duration.DurationInput
  /** Bounds a whole check, verification included. Default: 5 seconds. */
  readonly timeout?: Duration.DurationInput
}

/** One container, or a list of 1 to 50, each with an optional pinned revision (contract, Lifecycle 12). */
export type Options = TimeOptions &
  (
    | { readonly container: string; readonly revision?: string; readonly containers?: undefined }
    | {
        readonly containers: ReadonlyArray<ContainerOption>
        readonly container?: undefined
        readonly revision?: undefined
      }
  )

/** Checks of containers by `outcome`: `snapshot`, `unchanged`, `interrupted` or the code of the failure. */
export const checks = Metric.counter("effect_agent_contracts_delivery_checks", {
  description: "Checks of containers, by outcome",
  incremental: true
})

/** As many links as OpenTelemetry keeps on a span by default. */
const maximumSpanLinks = 128

interface Container {
  readonly request: SnapshotRequest
  readonly cache: ContainerCache.ContainerCache
  state: ContainerState.ContainerState
  /** What the cache gave, until the first check has settled: an interrupted check changes no status. */
  restored: ContainerState.ContainerState | undefined
  /** The check's time that the cache's record has, in Unix milliseconds. */
  recordedAt: number | undefined
  loaded: boolean
  check: Check | undefined
}

/** A running check: one request for the containers that need it. */
interface Check {
  readonly flight: SingleFlight.Flight
  readonly containers: ReadonlyArray<Container>
  readonly outcomes: Map<Container, ContainerState.Outcome>
  readonly links: Array<Tracer.SpanLink>
  span: Tracer.Span | undefined
  /** Settled or abandoned: whatever still arrives changes nothing (contract, Lifecycle 9). */
  over: boolean
}

/**
 * Whether a record is to be written again for its check's time alone. A write carries the whole archive, so not for every
 * check: whoever starts from a record learns to within an hour when the snapshot was last confirmed.
 */
const isOutdated = (recordedAt: number | undefined, checkedAt: number | undefined): boolean =>
  recordedAt !== undefined && checkedAt !== undefined && Math.abs(checkedAt - recordedAt) >= recordAgeMs

const recordAgeMs = 60 * 60 * 1000

const outcomeName = (outcome: ContainerState.Outcome): string => {
  switch (outcome._tag) {
    case "Verified":
      return "snapshot"
    case "Unchanged":
      return "unchanged"
    case "Failed":
      return outcome.error._tag
  }
}

const failed = (error: DeliveryError): ContainerState.Outcome => ({ _tag: "Failed", error })

const isDenied = (outcome: ContainerState.Outcome) => outcome._tag === "Failed" && isBlocking(outcome.error)

const isList = (options: Options) => options.containers !== undefined

const Selection = Schema.Array(
  Schema.Union(Schema.String, Schema.Struct({ container: Schema.String, revision: Schema.optional(Schema.String) }))
)

const validate = Effect.fnUntraced(function* (options: Options) {
  // Callers from JavaScript have no compiler to tell them.
  if (isList(options) && (options.container !== undefined || options.revision !== undefined)) {
    return yield* new InvalidConfig({ setting: "containers", problem: "has no `container` or `revision` beside it" })
  }
  const selected = Schema.decodeUnknownOption(Selection)(isList(options) ? options.containers : [options])
  if (Option.isNone(selected)) {
    const setting = isList(options) ? "containers" : "container"
    return yield* new InvalidConfig({ setting, problem: "must be given by id, with a revision or without" })
  }
  const requests = yield* RegistryApi.validateSelection(
    selected.value.map((option): SnapshotRequest => {
      if (typeof option === "string") return { containerId: option }
      return { containerId: option.container, ...(option.revision === undefined ? {} : { revision: option.revision }) }
    })
  )
  const freshness = yield* validateDuration("freshness", options.freshness)
  const timeout = yield* validateDuration("timeout", options.timeout)
  if (Duration.toMillis(timeout) <= 0) {
    return yield* new InvalidConfig({ setting: "timeout", problem: "must be longer than 0" })
  }
  return { requests, freshness, timeout }
})

const validateDuration = (setting: string, input: Duration.DurationInput = "5 seconds") =>
  Option.match(Option.filter(isNegative(input) ? Option.none() : Duration.decodeUnknown(input), Duration.isFinite), {
    onNone: () => Either.left(new InvalidConfig({ setting, problem: "must be a finite duration of 0 or more" })),
    onSome: (duration) => Either.right(duration)
  })

/** `Duration` reads what is negative or no number as 0, which would have every acquire ask. */
const isNegative = (input: Duration.DurationInput): boolean => {
  if (typeof input === "string") return input.trimStart().startsWith("-")
  if (typeof input === "number" || typeof input === "bigint") return !(input >= 0)
  return Array.isArray(input) && input.some((part) => !(part >= 0))
}

/**
 * A delivery that lives as long as the scope. Nothing is sent before the first acquire.
 *
 * Fails with `INVALID_CONFIG` for an empty or overlong list, an id given twice, an id or a revision that the contract does
 * not allow, a duration that is negative or not finite, or a timeout of 0.
 */
export const make = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<SkillDelivery["Type"], InvalidConfig, RegistryClient | Scope.Scope> {
  const { freshness, requests, timeout } = yield* validate(options)
  const hasList = isList(options)
  const freshnessMs = Duration.toMillis(freshness)
  const timeoutMs = Duration.toMillis(timeout)
  const client = yield* RegistryClient
  const scope = yield* Effect.scope

  const containers = yield* Effect.forEach(requests, (request) =>
    Effect.map(
      ContainerCache.make({ key: { apiUrl: client.apiUrl, ...request }, sealingKey: client.sealingKey, timeout }),
      (cache): Container => ({
        request,
        cache,
        state: ContainerState.initial(request.containerId, request.revision),
        restored: undefined,
        recordedAt: undefined,
        loaded: !cache.persistent,
        check: undefined
      })
    )
  )

  // A process that acquires once and exits would otherwise never fill its cache.
  yield* Effect.addFinalizer(() =>
    Effect.forEach(containers, ({ cache }) => cache.idle, { concurrency: "unbounded", discard: true }).pipe(
      Effect.interruptible,
      Effect.timeoutOption(timeout)
    )
  )

  const currentStatus = (): DeliveryStatus.DeliveryStatus => {
    const parts = containers.map(({ state }) => ({
      status: ContainerState.status(state),
      error: ContainerState.lastError(state)
    }))
    const [only] = parts
    return hasList || only === undefined ? DeliveryStatus.combined(parts) : DeliveryStatus.single(only.status)
  }
  let status = currentStatus()
  const statuses = yield* Effect.acquireRelease(
    PubSub.sliding<DeliveryStatus.DeliveryStatus>({ capacity: 1, replay: 1 }),
    PubSub.shutdown
  )
  yield* statuses.publish(status)
  const publish = Effect.suspend(() => {
    const next = currentStatus()
    if (DeliveryStatus.equals(status, next)) return Effect.void
    status = next
    return statuses.publish(status)
  })

  let parts: ReadonlyArray<Snapshot.SnapshotPart> = []
  let combined: Snapshot.VerifiedSnapshot | undefined
  /** The held snapshots as one; unchanged parts give the same value, by reference (contract, Lifecycle 12). */
  const combine = (next: ReadonlyArray<Snapshot.SnapshotPart>): Snapshot.VerifiedSnapshot => {
    if (combined === undefined || next.some((part, index) => part.snapshot !== parts[index]?.snapshot)) {
      parts = next
      combined = Snapshot.combine(next)
    }
    return combined
  }

  /** What an acquire gets when the checks it waited for have ended: never a partial catalog (contract, Lifecycle 12). */
  const result = (): Effect.Effect<Snapshot.VerifiedSnapshot, DeliveryError> => {
    const held: Array<Snapshot.SnapshotPart> = []
    let cold: DeliveryError | undefined
    for (const { request, state } of containers) {
      if (state.denial !== undefined) return Either.left(state.denial)
      if (state.held !== undefined) held.push({ containerId: request.containerId, snapshot: state.held })
      else cold ??= state.trouble
    }
    if (cold !== undefined) return Either.left(cold)
    const [first] = held
    if (first === undefined || held.length < containers.length) return Effect.dieMessage("ended before its check")
    return Either.right(hasList ? combine(held) : first.snapshot)
  }

  const known = (container: Container) => container.restored ?? container.state

  const record = (check: Check, container: Container, outcome: ContainerState.Outcome) =>
    Effect.sync(() => {
      if (!check.over) check.outcomes.set(container, outcome)
    })

  const count = (outcome: string) => Metric.update(Metric.tagged(checks, "outcome", outcome), 1)

  /** Installs an outcome at once; the effect counts it and queues the write of what it changed. */
  const install = (container: Container, outcome: ContainerState.Outcome, now: number) => {
    const before = known(container)
    const after = ContainerState.settle(before, outcome, now)
    container.state = after
    container.restored = undefined
    const changed =
      before.held !== after.held ||
      before.denial?._tag !== after.denial?._tag ||
      isOutdated(container.recordedAt, after.checkedAt) ||
      container.cache.isBehind()
    if (changed) container.recordedAt = after.checkedAt
    return Effect.zipRight(
      count(outcomeName(outcome)),
      changed ? container.cache.save(() => container.state) : Effect.succeed(Effect.void)
    )
  }

  const detach = (check: Check) => {
    check.over = true
    for (const container of check.containers) {
      if (container.check === check) container.check = undefined
    }
  }

  /** Ends a check that nobody waits for: only a denial whose head had arrived is recorded (contract, Lifecycle 11). */
  const abandon = (check: Check): Effect.Effect<void> => {
    if (check.over) return Effect.void
    detach(check)
    const saves = [...check.outcomes]
      .filter(([, outcome]) => isDenied(outcome))
      .map(([container, outcome]) => install(container, outcome, Number.NaN))
    return Effect.all([publish, count("interrupted"), ...saves], { discard: true })
  }

  /** Installs what the check found, in one step; succeeds with the writes of its denials. */
  const settle = (check: Check, span: Tracer.Span, now: number) =>
    Effect.suspend(() => {
      detach(check)
      const installed = check.containers.map((container) => {
        const late = () => failed(new Timeout({ timeoutMs, container: container.request.containerId }))
        const outcome = check.outcomes.get(container) ?? late()
        return { outcome, save: install(container, outcome, now) }
      })
      span.attribute(
        "skills.outcomes",
        installed.map(({ outcome }) => outcomeName(outcome))
      )
      const saves = Effect.forEach(installed, ({ outcome, save }) =>
        Effect.map(save, (written) => (isDenied(outcome) ? written : Effect.void))
      )
      return Effect.zipRight(publish, saves)
    }).pipe(Effect.uninterruptible)

  const restore = (check: Check, container: Container) =>
    // Half of the timeout at most, so that a store that hangs still leaves time to ask the registry.
    Effect.map(container.cache.restore(Duration.times(timeout, 0.5)), (restored) => {
      if (check.over) return
      container.loaded = true
      container.restored = ContainerState.restore(container.state, restored)
      container.recordedAt = restored.snapshot?.checkedAt
    })

  const verify = (check: Check, container: Container, reply: SnapshotReply) => {
    const { containerId, revision: pin } = container.request
    if (reply._tag === "Unchanged") return record(check, container, ContainerState.unchanged(known(container), reply))
    const { response, transfer = false } = reply
    if (pin !== undefined && response.revision !== pin) {
      return record(check, container, failed(new InvalidSnapshot({ check: "pinned-revision", container: containerId })))
    }
    return Snapshot.verifyKeeping(response, { transfer }).pipe(
      Effect.map(
        ({ archive, snapshot }): ContainerState.Outcome => ({
          _tag: "Verified",
          snapshot,
          ...(container.cache.persistent ? { archive } : {})
        })
      ),
      Effect.catchAll((error) => Effect.succeed(failed(inContainer(error, containerId)))),
      Effect.flatMap((outcome) => record(check, container, outcome))
    )
  }

  const recordAll = (check: Check, error: DeliveryError) =>
    Effect.forEach(
      check.containers,
      (container) => record(check, container, failed(inContainer(error, container.request.containerId))),
      { discard: true }
    )

  /** A denial counts from the moment its head arrives; its body may only make it more exact. */
  const deny = (check: Check, { denial, refined }: Denied) =>
    Effect.zipRight(
      recordAll(check, denial),
      Effect.flatMap(refined, (refined) => recordAll(check, refined))
    )

  const ask = (check: Check) =>
    Effect.gen(function* () {
      const unread = check.containers.filter((container) => !container.loaded)
      yield* Effect.forEach(unread, (container) => restore(check, container), {
        concurrency: "unbounded",
        discard: true
      })

      const asked = check.containers.map((container): SnapshotRequest => {
        const { held } = known(container)
        return held === undefined ? container.request : { ...container.request, ifNoneMatch: held.etag }
      })
      const [request] = asked
      const reply = yield* hasList || request === undefined ? client.batch(asked) : client.get(request)
      if (reply._tag === "Denied") return yield* deny(check, reply)

      const replies = reply._tag === "Batch" ? reply.replies : [Either.right(reply)]
      if (replies.length !== asked.length) return yield* new InvalidSnapshot({ check: "batch-shape" })
      const archives: Array<Effect.Effect<void>> = []
      // What costs nothing first: a denial is known before any archive is verified.
      for (const [index, container] of check.containers.entries()) {
        const answer = replies[index]
        if (answer === undefined) continue
        if (Either.isLeft(answer)) {
          yield* record(check, container, failed(inContainer(answer.left, container.request.containerId)))
        } else if (answer.right._tag === "Snapshot") archives.push(verify(check, container, answer.right))
        else yield* verify(check, container, answer.right)
      }
      yield* Effect.all(archives, { discard: true })
    }).pipe(
      Effect.catchAll((error) => recordAll(check, error)),
      Effect.scoped
    )

  /** A client that interrupts itself is trouble; a defect reaches the callers, but takes no denial along. */
  const broken = (check: Check, cause: Cause.Cause<never>) =>
    Effect.suspend(() => {
      if (!Cause.isInterruptedOnly(cause))
        return Effect.zipRight(Effect.uninterruptible(abandon(check)), Effect.failCause(cause))
      const unknown = check.containers.filter((container) => !check.outcomes.has(container))
      return Effect.forEach(
        unknown,
        (container) => record(check, container, failed(new NetworkError({ container: container.request.containerId }))),
        { discard: true }
      )
    })

  const run = Effect.fn("SkillDelivery.check")(function* (check: Check) {
    const span = yield* Effect.orDie(Effect.currentSpan)
    check.span = span
    span.addLinks(check.links)
    span.attribute(
      "skills.containers",
      check.containers.map((container) => container.request.containerId)
    )

    const started = yield* Clock.currentTimeMillis
    // Whatever is slow to let go of its request winds down on its own.
    const ended = yield* Effect.timeoutOption(Detached.exit(ask(check)), timeout)
    if (Option.isSome(ended) && Exit.isFailure(ended.value)) yield* broken(check, ended.value.cause)
    const now = yield* Clock.currentTimeMillis
    const denials = yield* settle(check, span, now)
    // A denial outlives the process before anybody hears of it, as far as the timeout allows (contract, Lifecycle 15).
    yield* Effect.all(denials, { concurrency: "unbounded", discard: true }).pipe(
      // Never longer than the timeout, whatever the clock did meanwhile.
      Effect.timeoutOption(Math.min(timeoutMs, Math.max(0, started + timeoutMs - now)))
    )
  })

  const begin = (idle: ReadonlyArray<Container>): Check => {
    const check: Check = {
      flight: SingleFlight.make({ abandon: () => abandon(check), end: () => detach(check) }),
      containers: idle,
      outcomes: new Map(),
      links: [],
      span: undefined,
      over: false
    }
    for (const container of idle) container.check = check
    return check
  }

  /** Links the caller's span to the check that it joins (contract, Lifecycle 16). */
  const link = (check: Check) =>
    Effect.map(Effect.option(Effect.currentParentSpan), (parent) => {
      if (Option.isNone(parent) || check.links.length === maximumSpanLinks) return
      const link: Tracer.SpanLink = { _tag: "SpanLink", span: parent.value, attributes: {} }
      check.links.push(link)
      check.span?.addLinks([link])
    })

  // A hot path without a span: inside the window it only compares times. From the decision that a check is needed to the
  // registration of the caller with it everything happens at once, so that no second check can slip in between.
  const acquire = Effect.uninterruptibleMask((restore) =>
    Effect.clockWith((clock) => {
      const now = clock.unsafeCurrentTimeMillis()
      const needed = containers.filter(({ state }) => !ContainerState.isFresh(state, now, freshnessMs))
      if (needed.length === 0) return result()

      const running = [...new Set(needed.flatMap((container) => container.check ?? []))]
      const idle = needed.filter((container) => container.check === undefined)
      const started = idle.length === 0 ? [] : [begin(idle)]
      const waiter = SingleFlight.join([...running, ...started].map((check) => check.flight))

      return Effect.forEach(running, link, { discard: true }).pipe(
        Effect.zipRight(
          Effect.forEach(started, (check) => SingleFlight.launch(check.flight, run(check), scope), { discard: true })
        ),
        Effect.zipRight(restore(SingleFlight.landed(waiter))),
        Effect.ensuring(SingleFlight.leave(waiter)),
        Effect.flatMap(result)
      )
    })
  )

  return {
    acquire,
    initialize: Effect.asVoid(acquire),
    status: Effect.sync(() => status),
    // A reader that skipped some may find the newest to be what it saw last.
    changes: Stream.changesWith(Stream.fromPubSub(statuses), DeliveryStatus.equals)
  }
})

/**
 * A delivery as a layer, over whichever registry client is provided.
 *
 * Without a `SnapshotCache` layer nothing outlives the delivery's own memory.
 *
 * @example
 * ```ts
 * import { FetchHttpClient } from "@effect/platform"
 * import { RegistryClient, SkillDelivery } from "effect-agent-contracts/delivery"
 * import { Effect, Layer, Redacted } from "effect"
 *
 * const Skills = SkillDelivery.layer({ container: "team-skills", freshness: "30 seconds" }).pipe(
 *   Layer.provide(RegistryClient.layer({ apiUrl: "https://registry.example", apiKey: Redacted.make("key") })),
 *   Layer.provide(FetchHttpClient.layer)
 * )
 *
 * const program = SkillDelivery.acquire.pipe(
 *   Effect.map((snapshot) => snapshot.skills.map((skill) => skill.name)),
 *   Effect.catchTag("REVISION_REVOKED", () => Effect.succeed([]))
 * )
 *
 * export const names = program.pipe(Effect.provide(Skills))
 * ```
 */
export const layer = (options: Options): Layer.Layer<SkillDelivery, InvalidConfig, RegistryClient> =>
  Layer.scoped(SkillDelivery, make(options))

const variables = {
  container: "CPK_INTELLIGENCE_LEARNING_CONTAINER_ID",
  revision: "CPK_INTELLIGENCE_SKILLS_REVISION"
} as const

/** What `layerConfig` does not read from the environment. */
export type ConfigOptions = TimeOptions & {
  /** An explicit list; then the two variables are not read (contract, Wire). */
  readonly containers?: ReadonlyArray<ContainerOption>
}

/**
 * The container from `CPK_INTELLIGENCE_LEARNING_CONTAINER_ID` and, if set, its pinned revision from
 * `CPK_INTELLIGENCE_SKILLS_REVISION`. Fails with `INVALID_CONFIG` that names the variable.
 *
 * @example
 * ```ts
 * import { FetchHttpClient } from "@effect/platform"
 * import { RegistryClient, SkillDelivery } from "effect-agent-contracts/delivery"
 * import { Layer } from "effect"
 *
 * export const Skills = SkillDelivery.layerConfig({ timeout: "10 seconds" }).pipe(
 *   Layer.provide(RegistryClient.layerConfig),
 *   Layer.provide(FetchHttpClient.layer)
 * )
 * ```
 */
export const layerConfig = (options: ConfigOptions = {}): Layer.Layer<SkillDelivery, InvalidConfig, RegistryClient> => {
  const { containers, ...times } = options
  if (containers !== undefined) return layer({ ...times, containers })
  const selection = Config.all({
    container: Config.string(variables.container),
    revision: Config.option(Config.string(variables.revision))
  })
  return selection.pipe(
    Effect.mapError(fromConfigError),
    Effect.map(({ container, revision }) =>
      layer({ ...times, container, ...(Option.isNone(revision) ? {} : { revision: revision.value }) })
    ),
    Layer.unwrapEffect,
    // Whoever configures through the environment knows the option by its variable.
    Layer.mapError((error) => {
      const variable = Object.entries(variables).find(([option]) => option === error.setting)?.[1]
      return variable === undefined ? error : new InvalidConfig({ setting: variable, problem: error.problem })
    })
  )
}

/**
 * `SkillDelivery.acquire` of the service in the context.
 *
 * @example
 * ```ts
 * import { SkillDelivery } from "effect-agent-contracts/delivery"
 * import { Effect } from "effect"
 *
 * export const revision = SkillDelivery.acquire.pipe(
 *   Effect.map((snapshot) => snapshot.revision),
 *   Effect.catchTags({ TIMEOUT: () => Effect.succeedNone, NETWORK_ERROR: () => Effect.succeedNone })
 * )
 * ```
 */
export const acquire: Effect.Effect<Snapshot.VerifiedSnapshot, DeliveryError, SkillDelivery> = Effect.flatMap(
  SkillDelivery,
  (delivery) => delivery.acquire
)

/**
 * `SkillDelivery.initialize` of the service in the context.
 *
 * @example
 * ```ts
 * import { SkillDelivery } from "effect-agent-contracts/delivery"
 * import { Effect } from "effect"
 *
 * // At the start of a process, so that the first invocation does not wait; its failure is that of the first acquire.
 * export const warmUp = Effect.forkDaemon(Effect.ignore(SkillDelivery.initialize))
 * ```
 */
export const initialize: Effect.Effect<void, DeliveryError, SkillDelivery> = Effect.flatMap(
  SkillDelivery,
  (delivery) => delivery.initialize
)

/**
 * `SkillDelivery.status` of the service in the context.
 *
 * @example
 * ```ts
 * import { SkillDelivery } from "effect-agent-contracts/delivery"
 * import { Effect } from "effect"
 *
 * export const isHealthy = Effect.map(SkillDelivery.status, (status) => status.initialized && !status.stale)
 * ```
 */
export const status: Effect.Effect<DeliveryStatus.DeliveryStatus, never, SkillDelivery> = Effect.flatMap(
  SkillDelivery,
  (delivery) => delivery.status
)

/**
 * `SkillDelivery.changes` of the service in the context.
 *
 * @example
 * ```ts
 * import { SkillDelivery } from "effect-agent-contracts/delivery"
 * import { Effect, Stream } from "effect"
 *
 * export const logged = SkillDelivery.changes.pipe(
 *   Stream.runForEach((status) => Effect.log("skills", status.revision ?? "none", status.stale ? "stale" : "fresh"))
 * )
 * ```
 */
export const changes: Stream.Stream<DeliveryStatus.DeliveryStatus, never, SkillDelivery> = Stream.unwrap(
  Effect.map(SkillDelivery, (delivery) => delivery.changes)
)
