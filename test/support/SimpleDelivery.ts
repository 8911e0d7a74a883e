/**
 * A second implementation of the Lifecycle section, as far as the shared fixtures reach: one caller at a time, no timeout,
 * no cache. It can be given one flaw, to see whether the fixtures notice.
 */
import { Clock, DateTime, Effect, Layer, Stream } from "effect"
import { type DeliveryError, InvalidSnapshot, isBlocking } from "../../src/delivery/DeliveryError.js"
import * as DeliveryStatus from "../../src/delivery/DeliveryStatus.js"
import { RegistryClient } from "../../src/delivery/RegistryClient.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import * as Snapshot from "../../src/delivery/Snapshot.js"

/** What can be wrong with it, by the scenarios that must notice. */
export const flaws = {
  "the window is a millisecond too long": "freshness:",
  "the window is a millisecond too short": "freshness:",
  "every acquire checks": "freshness:",
  "acquires extend the window": "freshness:",
  "a check time of 0 counts as none": "freshness:",
  "a 304 does not restart the window": "unchanged:",
  "a 304 does not clear stale": "unchanged:",
  "a 304 need not match the etag": "unchanged:",
  "a 304 need not match the revision": "unchanged:",
  "a 304 that nothing asked for is accepted as empty": "unchanged:",
  "a failed check restarts the window": "transient:",
  "a failed check sets the check time": "transient:",
  "a transient failure fails the acquire": "transient:",
  "a transient failure drops the snapshot": "transient:",
  "a transient failure does not set stale": "transient:",
  "a transient failure counts as initialized": "transient:",
  "what is retryable is tried again": "transient:",
  "what is not retryable blocks": "transient:",
  "an unknown schema version blocks": "replacement:",
  "an invalid archive drops the snapshot": "replacement:",
  "an earlier revision is refused": "replacement:",
  "the revision is taken for the identity": "replacement:",
  "no skills is no snapshot": "empty container:",
  "a denial leaves the snapshot delivered": "denial:",
  "a denial drops the snapshot": "denial:",
  "a denial leaves stale set": "denial:",
  "a denial is asked about once a window": "denial:",
  "a denial sets the check time": "denial:",
  "a retryable denial does not block": "denial:",
  "INVALID_CONFIG does not block": "denial:",
  "a transient failure ends a denial": "denial:",
  "a later denial does not replace an earlier one": "denial:",
  "a denial is for ever": "denial:",
  "only a new snapshot ends a denial": "denial:",
  "a pin accepts other revisions": "pin:",
  "a pin refuses its own revision": "pin:"
} as const
export type Flaw = keyof typeof flaws

interface State {
  readonly held?: Snapshot.VerifiedSnapshot | undefined
  readonly initialized: boolean
  readonly checkedAt?: number
  /** When a check last ended in any way. */
  readonly askedAt?: number
  readonly stale: boolean
  readonly error?: DeliveryError | undefined
}

const windowMs = 5000

const make = Effect.fnUntraced(function* (
  { container, revision }: { readonly container: string; readonly revision?: string },
  flaw: Flaw | undefined
) {
  const client = yield* RegistryClient
  const has = (name: Flaw) => flaw === name
  let state: State = { initialized: false, stale: false }

  const isFresh = (now: number) => {
    if (has("every acquire checks")) return false
    if (has("a check time of 0 counts as none") && !state.checkedAt) return false
    if (state.error !== undefined) {
      const restarted =
        (has("a failed check restarts the window") && !isBlocking(state.error)) ||
        (has("a denial is asked about once a window") && isBlocking(state.error))
      return restarted && state.askedAt !== undefined && now - state.askedAt < windowMs
    }
    const window =
      windowMs +
      (has("the window is a millisecond too long") ? 1 : has("the window is a millisecond too short") ? -1 : 0)
    return state.checkedAt !== undefined && now - state.checkedAt < window
  }

  const ask = Effect.gen(function* () {
    const { held } = state
    const reply = yield* client.get({
      containerId: container,
      ...(revision === undefined ? {} : { revision }),
      ...(held === undefined ? {} : { ifNoneMatch: held.etag })
    })
    if (reply._tag === "Denied") return yield* reply.denial
    if (reply._tag === "Unchanged") {
      if (held === undefined) {
        if (!has("a 304 that nothing asked for is accepted as empty")) {
          return yield* new InvalidSnapshot({ check: "unchanged-unasked" })
        }
        return { kind: reply._tag, value: { revision: reply.revision, etag: reply.etag, skills: [] } }
      }
      const matches =
        (reply.etag === held.etag || has("a 304 need not match the etag")) &&
        (reply.revision === held.revision || has("a 304 need not match the revision"))
      if (!matches) return yield* new InvalidSnapshot({ check: "unchanged-mismatch" })
      return { kind: reply._tag, value: held }
    }
    const value = yield* Snapshot.verify(reply.response)
    if (revision !== undefined) {
      const refused = has("a pin refuses its own revision") || value.revision !== revision
      if (refused && !has("a pin accepts other revisions")) {
        return yield* new InvalidSnapshot({ check: "pinned-revision" })
      }
    }
    if (has("an earlier revision is refused") && held !== undefined && value.revision < held.revision) {
      return yield* new InvalidSnapshot({ check: "manifest-revision" })
    }
    if (has("no skills is no snapshot") && value.skills.length === 0) {
      return yield* new InvalidSnapshot({ check: "manifest-shape" })
    }
    const same = has("the revision is taken for the identity") && value.revision === held?.revision
    return { kind: reply._tag, value: same ? held : value }
  }).pipe(Effect.scoped)

  const blocks = (error: DeliveryError) => {
    if (has("a retryable denial does not block") && error.retryable) return false
    if (has("INVALID_CONFIG does not block") && error._tag === "INVALID_CONFIG") return false
    if (has("an unknown schema version blocks") && error._tag === "UNSUPPORTED_SERVER") return true
    if (has("what is not retryable blocks") && error._tag === "NETWORK_ERROR" && !error.retryable) return true
    return isBlocking(error)
  }

  const fail = (error: DeliveryError, now: number) => {
    const before = state
    const wasBlocked = before.error !== undefined && blocks(before.error)
    if (blocks(error)) {
      const kept = wasBlocked && has("a later denial does not replace an earlier one") ? before.error : error
      state = {
        ...before,
        error: kept,
        stale: before.stale && has("a denial leaves stale set"),
        ...(has("a denial sets the check time") ? { checkedAt: now } : {}),
        ...(has("a denial drops the snapshot") ? { held: undefined } : {})
      }
      return before.held !== undefined && has("a denial leaves the snapshot delivered") ? before.held : state.error
    }
    if (wasBlocked && !has("a transient failure ends a denial")) return before.error
    const held = has("a transient failure drops the snapshot") ? undefined : before.held
    const dropped = has("an invalid archive drops the snapshot") && error._tag === "INVALID_SNAPSHOT"
    state = {
      ...before,
      held: dropped ? undefined : held,
      error,
      stale: before.held !== undefined && !has("a transient failure does not set stale"),
      ...(has("a failed check sets the check time") ? { checkedAt: now } : {}),
      ...(has("a transient failure counts as initialized") ? { initialized: true } : {})
    }
    if (state.held === undefined || has("a transient failure fails the acquire")) return error
    return state.held
  }

  const acquire = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (isFresh(now)) {
      if (has("acquires extend the window")) state = { ...state, checkedAt: now }
      return state.error !== undefined && isBlocking(state.error)
        ? yield* state.error
        : (state.held ?? (yield* Effect.dieMessage("fresh without a snapshot")))
    }
    const asking = has("what is retryable is tried again")
      ? Effect.retry(ask, { times: 1, while: (error) => error.retryable })
      : ask
    const answer = yield* Effect.either(asking)
    if (answer._tag === "Left") {
      const outcome = fail(answer.left, now)
      state = { ...state, askedAt: now }
      if (outcome === undefined) return yield* Effect.dieMessage("failed without an error")
      return "skills" in outcome ? outcome : yield* outcome
    }
    const { kind, value } = answer.right
    if (state.error !== undefined && blocks(state.error)) {
      if (has("a denial is for ever")) return yield* state.error
      if (has("only a new snapshot ends a denial") && kind === "Unchanged") return yield* state.error
    }
    const isUnchanged = kind === "Unchanged"
    state = {
      held: value,
      initialized: true,
      stale: isUnchanged && has("a 304 does not clear stale") && state.stale,
      checkedAt: isUnchanged && has("a 304 does not restart the window") ? (state.checkedAt ?? now) : now
    }
    return value
  })

  const status = Effect.sync(
    (): DeliveryStatus.DeliveryStatus => ({
      initialized: state.initialized,
      mode: revision === undefined ? "latest" : "pinned",
      stale: state.stale,
      ...(state.held === undefined ? {} : { revision: state.held.revision }),
      ...(state.checkedAt === undefined ? {} : { lastCheckedAt: DateTime.unsafeMake(state.checkedAt) }),
      ...(state.error === undefined ? {} : { lastError: DeliveryStatus.lastError(state.error) })
    })
  )

  return SkillDelivery.SkillDelivery.of({
    acquire,
    initialize: Effect.asVoid(acquire),
    status,
    changes: Stream.fromEffect(status)
  })
})

/** A delivery as the lifecycle runner takes it, sound or with one flaw. */
export const layer =
  (flaw?: Flaw) =>
  (options: {
    readonly container: string
    readonly revision?: string
  }): Layer.Layer<SkillDelivery.SkillDelivery, never, RegistryClient> =>
    Layer.effect(SkillDelivery.SkillDelivery, make(options, flaw))
