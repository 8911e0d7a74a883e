import type { DateTime, Effect, Stream } from "effect"
import { Context } from "effect"
import type { DeliveryCode, DeliveryError } from "./DeliveryError.js"
import type { VerifiedSnapshot } from "./Snapshot.js"

export interface LastError {
  readonly code: DeliveryCode
  readonly message: string
  readonly retryable: boolean
}

export interface ContainerStatus {
  readonly containerId: string
  readonly initialized: boolean
  readonly revision?: string
  readonly mode: "latest" | "pinned"
  readonly lastCheckedAt?: DateTime.Utc
  readonly stale: boolean
  readonly lastError?: LastError
}

export interface DeliveryStatus extends Omit<ContainerStatus, "containerId"> {
  /** With a list of containers: each of them, in list order. */
  readonly containers?: ReadonlyArray<ContainerStatus>
}

export class SkillDelivery extends Context.Tag("effect-agent-contracts/delivery/SkillDelivery")<
  SkillDelivery,
  {
    readonly acquire: Effect.Effect<VerifiedSnapshot, DeliveryError>
    readonly initialize: Effect.Effect<void, DeliveryError>
    readonly status: Effect.Effect<DeliveryStatus>
    readonly changes: Stream.Stream<DeliveryStatus>
  }
>() {}
