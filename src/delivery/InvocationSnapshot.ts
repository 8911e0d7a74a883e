/**
 * One snapshot per invocation: what an invocation acquired before its model work started, as a service for the rest of it.
 *
 * @module
 */
import { Context, Effect, Layer } from "effect"
import type { DeliveryError } from "./DeliveryError.js"
import { acquire, type SkillDelivery } from "./SkillDelivery.js"
import type { VerifiedSnapshot } from "./Snapshot.js"

/** The snapshot of the running invocation. */
export class InvocationSnapshot extends Context.Tag("effect-agent-contracts/delivery/InvocationSnapshot")<
  InvocationSnapshot,
  VerifiedSnapshot
>() {}

/**
 * Runs one invocation with the snapshot that it acquires first. It acquires exactly once and keeps what it got to its end,
 * even when the delivery installs another revision meanwhile (contract, Words: acquire). A failed acquire is the
 * invocation's failure: nothing of it has run.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { InvocationSnapshot, SkillCatalog } from "effect-agent-contracts/delivery"
 *
 * export const invocation = InvocationSnapshot.provide(
 *   Effect.map(InvocationSnapshot.InvocationSnapshot, (snapshot) => SkillCatalog.text(snapshot))
 * )
 * ```
 */
export const provide: <A, E, R>(
  effect: Effect.Effect<A, E, R>
) => Effect.Effect<A, E | DeliveryError, Exclude<R, InvocationSnapshot> | SkillDelivery> = Effect.provideServiceEffect(
  InvocationSnapshot,
  acquire
)

/**
 * The same as a layer, for an invocation that is composed of layers: building it acquires. Build it once per invocation;
 * in a runtime that serves many it would give all of them the first one's snapshot.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { InvocationSnapshot, SkillCatalog } from "effect-agent-contracts/delivery"
 *
 * const invocation = Effect.map(InvocationSnapshot.InvocationSnapshot, SkillCatalog.text)
 *
 * export const program = Effect.provide(invocation, InvocationSnapshot.layer)
 * ```
 */
export const layer: Layer.Layer<InvocationSnapshot, DeliveryError, SkillDelivery> = Layer.effect(
  InvocationSnapshot,
  acquire
)
