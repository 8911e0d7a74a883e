/**
 * What a delivery says of itself: plain immutable values that encode to JSON (contract, Lifecycle 13).
 *
 * @module
 */
import { DateTime, Schema } from "effect"
import { DeliveryCode, type DeliveryError, isBlocking } from "./DeliveryError.js"

/** The last failure, safe to show: never a cause, a body or a key. */
export const LastError = Schema.Struct({
  code: DeliveryCode,
  message: Schema.String,
  retryable: Schema.Boolean
})
export type LastError = typeof LastError.Type

const fields = {
  /** Whether a snapshot is held. */
  initialized: Schema.Boolean,
  /** `pinned` when a revision was chosen, which then never advances. */
  mode: Schema.Literal("latest", "pinned"),
  /** When the last successful check was installed; ISO 8601 in JSON. */
  lastCheckedAt: Schema.optionalWith(Schema.DateTimeUtc, { exact: true }),
  /** Whether what is held is delivered although the last check failed. */
  stale: Schema.Boolean,
  /** A denial blocks; anything else is passing trouble. */
  lastError: Schema.optionalWith(LastError, { exact: true })
}

/** The status of one container. */
export const ContainerStatus = Schema.Struct({
  containerId: Schema.String,
  revision: Schema.optionalWith(Schema.String, { exact: true }),
  ...fields
})
export type ContainerStatus = typeof ContainerStatus.Type

/**
 * The status of a delivery: of its one container, or of a list combined with each container's own in list order.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { DeliveryStatus } from "effect-agent-contracts/delivery"
 *
 * const json = Schema.encodeSync(DeliveryStatus.DeliveryStatus)({ initialized: false, mode: "latest", stale: false })
 * console.log(json)
 * ```
 */
export const DeliveryStatus = Schema.Struct({
  revision: Schema.optionalWith(Schema.String, { exact: true }),
  ...fields,
  containers: Schema.optionalWith(Schema.Array(ContainerStatus), { exact: true })
})
export type DeliveryStatus = typeof DeliveryStatus.Type

/**
 * Whether two statuses say the same.
 *
 * @internal
 */
export const equals = Schema.equivalence(DeliveryStatus)

/**
 * The part of an error that a status shows.
 *
 * @internal
 */
export const lastError = (error: DeliveryError): LastError =>
  Object.freeze({ code: error._tag, message: error.message, retryable: error.retryable })

/**
 * The status of a single container's delivery.
 *
 * @internal
 */
export const single = ({ containerId: _, ...status }: ContainerStatus): DeliveryStatus => Object.freeze(status)

/**
 * The status of a list: as good as its worst part (contract, Lifecycle 13).
 *
 * @internal
 */
export const combined = (
  parts: ReadonlyArray<{ readonly status: ContainerStatus; readonly error: DeliveryError | undefined }>
): DeliveryStatus => {
  const statuses = parts.map((part) => part.status)
  const checks = statuses.flatMap((status) => status.lastCheckedAt ?? [])
  const errors = parts.flatMap((part) => part.error ?? [])
  const error = errors.find(isBlocking) ?? errors[0]
  const oldest =
    checks.length === statuses.length ? checks.reduce((left, right) => DateTime.min(left, right)) : undefined
  return Object.freeze({
    initialized: statuses.every((status) => status.initialized),
    mode: statuses.every((status) => status.mode === "pinned") ? "pinned" : "latest",
    ...(oldest === undefined ? {} : { lastCheckedAt: oldest }),
    stale: statuses.some((status) => status.stale),
    ...(error === undefined ? {} : { lastError: lastError(error) }),
    containers: Object.freeze(statuses)
  })
}
