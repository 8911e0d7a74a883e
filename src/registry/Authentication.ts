/**
 * Who asks, and what they may (contract, Registry server). Every route but health and documentation goes through here before
 * anything else of the request is looked at, so that an answer to somebody without a key depends on nothing that the registry
 * holds.
 *
 * @module
 */
import { HttpApiMiddleware, HttpServerRequest } from "@effect/platform"
import { Context, Effect, FiberRef, Layer, Option, Redacted, Schema } from "effect"
import { AuthenticationFailed, AuthorizationFailed } from "../delivery/DeliveryError.js"
import { StoreUnavailable } from "../store/StoreError.js"
import { actingKey } from "./ActingKey.js"
import * as RateLimit from "./RateLimit.js"
import { enveloped } from "./Refusal.js"
import { Registry, type RegistryService } from "./Registry.js"
import { type ApiKey, KeyScope } from "./RegistryModel.js"

/** The key of the request. */
export class CurrentKey extends Context.Tag("effect-agent-contracts/registry/CurrentKey")<CurrentKey, ApiKey>() {}

/** Lets requests in. */
export class Admission extends Context.Tag("effect-agent-contracts/registry/Admission")<
  Admission,
  {
    /** The record of the request's key, within its rate. */
    readonly admit: (
      request: HttpServerRequest.HttpServerRequest
    ) => Effect.Effect<ApiKey, AuthenticationFailed | RateLimit.RateLimited | StoreUnavailable>
    /** Takes a request of a known key, and says whether it is within the rate; runs no effect. */
    readonly unsafeTake: (apiKey: ApiKey) => boolean
  }
>() {}

/** The key in `X-Api-Key`, as the public client sends it, or in `Authorization`, as delivery does. */
export const keyOf = (
  headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
): Redacted.Redacted | undefined => {
  const { "x-api-key": key, authorization } = headers
  if (typeof key === "string") return Redacted.make(key)
  return typeof authorization === "string" && /^bearer /i.test(authorization)
    ? Redacted.make(authorization.slice("bearer ".length).trim())
    : undefined
}

/** The record of the request's key as it is now: what takes long may outlive it. Takes nothing from its rate. */
export const confirm = (
  registry: RegistryService,
  { headers }: HttpServerRequest.HttpServerRequest
): Effect.Effect<ApiKey, AuthenticationFailed | StoreUnavailable> => {
  const key = keyOf(headers)
  return key === undefined ? new AuthenticationFailed({}) : registry.authenticate(key)
}

/** Admits each key at most at this rate. */
export const layer = (rate: RateLimit.Rate): Layer.Layer<Admission, never, Registry> =>
  Layer.effect(
    Admission,
    Effect.gen(function* () {
      const registry = yield* Registry
      const clock = yield* Effect.clock
      const { take, unsafeTake } = RateLimit.make(rate)
      const within = (apiKey: ApiKey) => Effect.as(take(apiKey.id), apiKey)
      return Admission.of({
        admit: (request) => Effect.flatMap(confirm(registry, request), within),
        unsafeTake: ({ id }) => unsafeTake(id, clock.unsafeCurrentTimeNanos())
      })
    })
  )

/** A request of an endpoint that asks for a key. */
export class KeyRequired extends HttpApiMiddleware.Tag<KeyRequired>()("effect-agent-contracts/registry/KeyRequired", {
  provides: CurrentKey,
  failure: Schema.Union(
    enveloped(AuthenticationFailed, "AUTHENTICATION_FAILED"),
    enveloped(RateLimit.RateLimited, "RATE_LIMITED"),
    enveloped(StoreUnavailable, "STORE_UNAVAILABLE")
  )
}) {}

/** Admits the request of the context, and leaves its key to the log and to whatever it writes. */
export const admitCurrent = Effect.gen(function* () {
  const { admit } = yield* Admission
  const key = yield* admit(yield* HttpServerRequest.HttpServerRequest)
  yield* FiberRef.set(actingKey, Option.some(key.id))
  yield* Effect.annotateCurrentSpan("registry.key", key.id)
  return key
})

/** Admits what asks for a key. */
export const keyRequired: Layer.Layer<KeyRequired, never, Admission> = Layer.effect(
  KeyRequired,
  Effect.map(Effect.context<Admission>(), (context) => KeyRequired.of(Effect.provide(admitCurrent, context)))
)

const rank = (scope: KeyScope) => KeyScope.literals.indexOf(scope)

/**
 * Fails unless the key of the request has this scope, or one that includes it. A key for some containers reads and no more: skills
 * belong to no container, and a key that issues keys could issue one for all.
 */
export const requireScope = (scope: KeyScope): Effect.Effect<ApiKey, AuthorizationFailed, CurrentKey> =>
  Effect.flatMap(CurrentKey, (key) =>
    rank(key.containers === null ? key.scope : "read") >= rank(scope)
      ? Effect.succeed(key)
      : new AuthorizationFailed({})
  )

/** Whether a key may reach a container; a key for some containers learns nothing of others, not even that they exist. */
export const mayReach = ({ containers }: ApiKey, containerId: string): boolean =>
  containers === null || containers.includes(containerId)
