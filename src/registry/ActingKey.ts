/**
 * On whose behalf a registry is written to. A key is looked at when a request comes in; its body may take minutes, and the key may be
 * revoked meanwhile. So a write asks for it once more, in its own transaction (see `Changes`).
 *
 * @module
 */
import { FiberRef, Option } from "effect"

/**
 * The id of the key for which a fiber writes; none: the program itself writes. Once the key is revoked, every write of the fiber
 * fails with `AUTHENTICATION_FAILED`. A server sets it when it lets a request in.
 *
 * @example
 * ```ts
 * import { Effect, Option } from "effect"
 * import { Registry } from "effect-agent-contracts/registry"
 *
 * const create = Effect.flatMap(Registry.Registry, ({ putContainer }) => putContainer({ id: "team" }))
 * export const createFor = (keyId: string) => Effect.locally(create, Registry.actingKey, Option.some(keyId))
 * ```
 */
export const actingKey: FiberRef.FiberRef<Option.Option<string>> = FiberRef.unsafeMake(Option.none<string>())
