/**
 * The rules of one container's life as pure functions: what a check's outcome makes of its state, when a snapshot is
 * fresh, what an acquire gets (contract, Lifecycle 2 to 9 and 13). `SkillDelivery` adds time, requests and waiting.
 *
 * @module
 */
import { DateTime } from "effect"
import type { Blocking, DeliveryError, Transient } from "./DeliveryError.js"
import { InvalidSnapshot, isBlocking } from "./DeliveryError.js"
import type { ContainerStatus } from "./DeliveryStatus.js"
import * as DeliveryStatus from "./DeliveryStatus.js"
import type { VerifiedSnapshot } from "./Snapshot.js"

export interface ContainerState {
  readonly containerId: string
  /** The pinned revision; absent: latest. */
  readonly pin?: string
  /** The last verified snapshot. */
  readonly held?: VerifiedSnapshot
  /** The archive of what is held, kept only for a persistent cache. */
  readonly archive?: Uint8Array
  /** Unix time in milliseconds of the last successful check. */
  readonly checkedAt?: number
  /** Whether that check was of this process: what a cache gave is held but never fresh. */
  readonly checkedHere: boolean
  /** Confirmed: blocks until a check succeeds. */
  readonly denial?: Blocking
  /** The last check's failure, which says nothing about permission. */
  readonly trouble?: Transient
}

/** How a check of one container ended. */
export type Outcome =
  | { readonly _tag: "Verified"; readonly snapshot: VerifiedSnapshot; readonly archive?: Uint8Array }
  | { readonly _tag: "Unchanged" }
  | { readonly _tag: "Failed"; readonly error: DeliveryError }

/** What a persistent cache gave. */
export interface Restored {
  readonly snapshot?: { readonly held: VerifiedSnapshot; readonly archive: Uint8Array; readonly checkedAt: number }
  readonly denial?: Blocking
}

export const initial = (containerId: string, pin: string | undefined): ContainerState => ({
  containerId,
  ...(pin === undefined ? {} : { pin }),
  checkedHere: false
})

/** A state with what a cache gave: held and blocking, but not fresh (contract, Lifecycle 15). */
export const restore = (state: ContainerState, { denial, snapshot }: Restored): ContainerState => ({
  ...state,
  ...(snapshot === undefined ? {} : { held: snapshot.held, archive: snapshot.archive, checkedAt: snapshot.checkedAt }),
  ...(denial === undefined ? {} : { denial })
})

/** Whether an acquire may have what is held without a check. A negative age means that the clock went back. */
export const isFresh = (state: ContainerState, now: number, windowMs: number): boolean => {
  if (
    !state.checkedHere ||
    state.checkedAt === undefined ||
    state.denial !== undefined ||
    state.trouble !== undefined
  ) {
    return false
  }
  const age = now - state.checkedAt
  return age >= 0 && age < windowMs
}

/** A 304 is a successful check only for exactly what is held (contract, Lifecycle 4). */
export const unchanged = (
  state: ContainerState,
  reply: { readonly revision: string; readonly etag: string }
): Outcome =>
  state.held !== undefined && state.held.revision === reply.revision && state.held.etag === reply.etag
    ? { _tag: "Unchanged" }
    : {
        _tag: "Failed",
        error: new InvalidSnapshot({ check: "unchanged-mismatch", container: state.containerId })
      }

/** The state after a check that ended at `now`, in Unix milliseconds. */
export const settle = (state: ContainerState, outcome: Outcome, now: number): ContainerState => {
  const { denial, trouble: _, ...rest } = state
  switch (outcome._tag) {
    case "Verified": {
      const { archive, snapshot } = outcome
      const same = state.held?.revision === snapshot.revision && state.held.etag === snapshot.etag
      const next = same ? rest : { ...rest, held: snapshot, ...(archive === undefined ? {} : { archive }) }
      return { ...next, checkedAt: now, checkedHere: true }
    }
    case "Unchanged":
      return { ...rest, checkedAt: now, checkedHere: true }
    case "Failed": {
      if (isBlocking(outcome.error)) return { ...rest, denial: outcome.error }
      // An unreachable server cannot undo a confirmed denial (contract, Lifecycle 7).
      return denial === undefined ? { ...rest, trouble: outcome.error } : state
    }
  }
}

/** The failure that a status shows. */
export const lastError = (state: ContainerState): DeliveryError | undefined => state.denial ?? state.trouble

export const status = (state: ContainerState): ContainerStatus => {
  const error = lastError(state)
  return Object.freeze({
    containerId: state.containerId,
    initialized: state.held !== undefined,
    ...(state.held === undefined ? {} : { revision: state.held.revision }),
    mode: state.pin === undefined ? "latest" : "pinned",
    ...(state.checkedAt === undefined ? {} : { lastCheckedAt: DateTime.unsafeMake(state.checkedAt) }),
    stale: state.trouble !== undefined && state.held !== undefined,
    ...(error === undefined ? {} : { lastError: DeliveryStatus.lastError(error) })
  })
}
