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
import * as RateLimit from "./RateLimit.js"
import { enveloped } from "./Refusal.js"
import { Registry } from "./Registry.js"
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
  }
>() {}

/** The key of the request that the fiber answers, for its log. */
export const admitted: FiberRef.FiberRef<Option.Option<ApiKey>> = FiberRef.unsafeMake(Option.none<ApiKey>())

/** The key in `X-Api-Key`, as the public client sends it, or in `Authorization`, as delivery does. */
const keyOf = ({ headers }: HttpServerRequest.HttpServerRequest): string | undefined => {
  const key = headers["x-api-key"]
  if (key !== undefined) return key
  const authorization = headers["authorization"]
  return authorization !== undefined && /^bearer /i.test(authorization)
    ? authorization.slice("bearer ".length).trim()
    : undefined
}

/** Admits each key at most at this rate. */
export const layer = (rate: RateLimit.Rate): Layer.Layer<Admission, never, Registry> =>
  Layer.effect(
    Admission,
    Effect.map(Registry, (registry) => {
      const take = RateLimit.make(rate)
      const within = (apiKey: ApiKey) => Effect.as(take(apiKey.id), apiKey)
      return Admission.of({
        admit: (request) => {
          const key = keyOf(request)
          return key === undefined
            ? new AuthenticationFailed({})
            : Effect.flatMap(registry.authenticate(Redacted.make(key)), within)
        }
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

/** Admits the request of the context, and leaves its key to the log. */
export const admitCurrent = Effect.gen(function* () {
  const { admit } = yield* Admission
  const key = yield* admit(yield* HttpServerRequest.HttpServerRequest)
  yield* FiberRef.set(admitted, Option.some(key))
  yield* Effect.annotateCurrentSpan("registry.key", key.id)
  return key
})

/** Admits what asks for a key. */
export const keyRequired: Layer.Layer<KeyRequired, never, Admission> = Layer.effect(
  KeyRequired,
  Effect.map(Effect.context<Admission>(), (context) => KeyRequired.of(Effect.provide(admitCurrent, context)))
)

const rank = (scope: KeyScope) => KeyScope.literals.indexOf(scope)

/** Fails unless the key of the request has this scope, or one that includes it. */
export const requireScope = (scope: KeyScope): Effect.Effect<ApiKey, AuthorizationFailed, CurrentKey> =>
  Effect.flatMap(CurrentKey, (key) =>
    rank(key.scope) >= rank(scope) ? Effect.succeed(key) : new AuthorizationFailed({})
  )

/** Whether a key may reach a container; a key for some containers learns nothing of others, not even that they exist. */
export const mayReach = ({ containers }: ApiKey, containerId: string): boolean =>
  containers === null || containers.includes(containerId)

/** The same for one container. */
export const requireContainer = (
  scope: KeyScope,
  containerId: string
): Effect.Effect<ApiKey, AuthorizationFailed, CurrentKey> =>
  Effect.filterOrFail(
    requireScope(scope),
    (key) => mayReach(key, containerId),
    () => new AuthorizationFailed({})
  )

/** The administrator of the whole registry: a key for some containers must not issue one for all. */
export const requireAdministrator: Effect.Effect<ApiKey, AuthorizationFailed, CurrentKey> = Effect.filterOrFail(
  requireScope("admin"),
  ({ containers }) => containers === null,
  () => new AuthorizationFailed({})
)
