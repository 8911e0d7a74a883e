/**
 * The registry over HTTP: delivery, publishing, containers, keys, health (contract, Registry server).
 *
 * @module
 */
import {
  HttpApiBuilder,
  type HttpApiError,
  type HttpApp,
  HttpMiddleware,
  HttpRouter,
  HttpServer,
  HttpServerError,
  HttpServerRequest,
  HttpServerResponse,
  HttpTraceContext
} from "@effect/platform"
import { Cause, Clock, type Duration, Effect, FiberRef, Layer, Option, Predicate } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Policy from "../publishing/Policy.js"
import * as Authentication from "./Authentication.js"
import * as DeliveryRoutes from "./DeliveryRoutes.js"
import * as ManagementRoutes from "./ManagementRoutes.js"
import type { Rate } from "./RateLimit.js"
import * as Refusal from "./Refusal.js"
import { Registry } from "./Registry.js"
import { openApiPath, RegistryHttpApi } from "./RegistryHttpApi.js"
import * as RequestBody from "./RequestBody.js"
import * as SkillsRoutes from "./SkillsRoutes.js"

/** How a server is run. */
export interface Options {
  /** How often each key may ask this server. By default 10,000 requests in 10 seconds. */
  readonly rateLimit?: Rate
  /** The rules of uploads. `Policy.seed` by default. */
  readonly policy?: Policy.Policy
  /** How long running requests may take when the server stops. 30 seconds by default. */
  readonly shutdownGrace?: Duration.DurationInput
}

const defaults = {
  rateLimit: { requests: 10_000, per: "10 seconds" },
  policy: Policy.seed,
  shutdownGrace: "30 seconds"
} as const satisfies Options

const delivery = HttpApiBuilder.group(RegistryHttpApi, "delivery", (handlers) =>
  Effect.map(Registry, (registry) => {
    const { many, one } = DeliveryRoutes.make(registry)
    const answered = Effect.catchAll((failure: Refusal.Failure) => Effect.succeed(Refusal.answer(failure)))
    return handlers
      .handleRaw("snapshot", ({ request }) =>
        Effect.flatMap(Authentication.CurrentKey, (key) => one(key, request)).pipe(answered)
      )
      .handleRaw("batch", () => Effect.flatMap(Authentication.CurrentKey, many).pipe(answered))
  })
)

/** A server that can reach its store is ready. Asked at most once a second, whoever asks. */
const health = HttpApiBuilder.group(RegistryHttpApi, "health", (handlers) =>
  Effect.gen(function* () {
    const registry = yield* Registry
    const probe = yield* Effect.cachedWithTTL(
      Effect.catchTag(registry.listContainers({ limit: 1 }), "INVALID_PAGE", Effect.die),
      "1 second"
    )
    const ok = { status: "ok" } as const
    return handlers
      .handleRaw("health", () => Effect.succeed(ok))
      .handleRaw("ready", () =>
        Effect.match(probe, { onFailure: (failure) => Refusal.answer(failure), onSuccess: () => ok })
      )
  })
)

/** The answer to a request that failed before or in its handler, in the envelope of its surface. */
const refuse = (url: string, failure: Refusal.Failure) =>
  /^\/v1(?:[/?]|$)/.test(url) ? Refusal.skillsAnswer(failure) : Refusal.answer(failure)

/** Where a bug is. Its message may quote anything. */
const framesOf = (cause: Cause.Cause<unknown>) =>
  Cause.prettyErrors(cause).map(({ name, stack = "" }) => [name, ...(stack.match(/^\s+at .*$/gm) ?? [])].join("\n"))

const isDecodeError = (error: unknown): error is HttpApiError.HttpApiDecodeError =>
  Predicate.isTagged(error, "HttpApiDecodeError")

/** The answer to whatever went wrong, in the envelope of its surface. */
const refused = (url: string) => (cause: Cause.Cause<unknown>) => {
  const error = Option.getOrUndefined(Cause.failureOption(cause))
  if (Refusal.isFailure(error)) return Effect.succeed(refuse(url, error))
  if (isDecodeError(error)) return Effect.succeed(refuse(url, RequestBody.fromIssues(error.issues)))
  if (Cause.isInterrupted(cause)) return Effect.failCause(Cause.stripFailures(cause))
  return Effect.as(
    Effect.annotateLogs(Effect.logError("A request failed by a bug."), "stack", framesOf(cause)),
    refuse(url, new Refusal.InternalError())
  )
}

/** A route that does not exist asks for a key as well, so that whoever scans without one gets the same answer everywhere. */
const noRoute = Effect.zipRight(Authentication.admitCurrent, new Refusal.RouteNotFound())

/** What the platform would answer in its own words. */
const enveloped = (
  app: HttpApp.Default
): HttpApp.Default<never, Authentication.Admission | HttpServerRequest.HttpServerRequest> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) =>
    // The platform's type hides the failures of the handlers behind it.
    Effect.catchAll(app, (error: unknown) =>
      error instanceof HttpServerError.RouteNotFound ? noRoute : Effect.fail(error)
    ).pipe(Effect.catchAllCause(refused(url)))
  )

/** One line for each request. Of its URL the path alone, escaped: a query may hold anything. */
const logged = <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.gen(function* () {
    const { method, url } = yield* HttpServerRequest.HttpServerRequest
    const started = yield* Clock.currentTimeMillis
    const response = yield* app
    const key = yield* FiberRef.get(Authentication.admitted)
    yield* Effect.logInfo("request").pipe(
      Effect.annotateLogs({
        "http.method": method,
        "http.path": ArchivePath.display(url.split("?", 1)[0] ?? ""),
        "http.status": response.status,
        "duration.ms": (yield* Clock.currentTimeMillis) - started,
        ...(Option.isSome(key) ? { "key.id": key.value.id } : {})
      })
    )
    return response
  })

/** Headers of every answer. A trace's id finds a request again, in logs and in traces: it is the request's. */
const withHeaders = <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.gen(function* () {
    const response = yield* app
    const span = yield* Effect.option(Effect.currentSpan)
    return HttpServerResponse.setHeaders(response, {
      ...DeliveryRoutes.cacheHeaders,
      ...(Option.isSome(span) ? { "request-id": span.value.traceId } : {}),
      ...response.headers
    })
  })

/**
 * A conditional request is answered in microseconds from memory, so a span of its own is made only for a caller who records
 * its trace; everything else always has one, which continues the caller's.
 */
const isUntraced = (request: HttpServerRequest.HttpServerRequest) =>
  DeliveryRoutes.isConditional(request) &&
  !Option.exists(HttpTraceContext.fromHeaders(request.headers), ({ sampled }) => sampled)

/** Which requests run, so that a stop can wait for them. */
const makeGauge = () => {
  const idle = Effect.unsafeMakeLatch(false)
  let running = 0
  let stopping = false
  const left = Effect.sync(() => {
    if (--running === 0 && stopping) idle.unsafeOpen()
  })
  return {
    isStopping: () => stopping,
    counted: <A, E, R>(app: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        running++
        return Effect.ensuring(app, left)
      }),
    /** Takes nothing more; done when nothing runs. */
    stop: Effect.suspend(() => {
      stopping = true
      // What closes a scope cannot be interrupted, and a grace that cannot interrupt never ends.
      return running === 0 ? Effect.void : Effect.interruptible(idle.await)
    })
  }
}

const serve = (shutdownGrace: Duration.DurationInput) =>
  Effect.gen(function* () {
    const registry = yield* Registry
    const { admit } = yield* Authentication.Admission
    const { one } = DeliveryRoutes.make(registry)
    const gauge = makeGauge()

    // Ids may be long once they are percent-encoded.
    const router = yield* HttpRouter.withRouterConfig(HttpApiBuilder.httpApp, { maxParamLength: 16 * 1024 })
    const routed = logged(withHeaders(router))

    // Ahead of the router, which costs several times what the answer does.
    const conditional = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.catchAllCause(
        Effect.flatMap(admit(request), (key) => one(key, request)),
        (cause) => Effect.map(refused(request.url)(cause), HttpServerResponse.setHeaders(DeliveryRoutes.cacheHeaders))
      )
    const app = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      if (gauge.isStopping()) return Effect.succeed(stopped(request.url))
      return Effect.interruptible(DeliveryRoutes.isConditional(request) ? conditional(request) : routed)
    })
    yield* HttpServer.serveEffect(gauge.counted(app)).pipe(HttpMiddleware.withTracerDisabledWhenEffect(isUntraced))
    // Runs before the server stops listening and before the store is closed: what runs still needs both.
    yield* Effect.addFinalizer(() =>
      gauge.stop.pipe(
        Effect.timeoutFail({ duration: shutdownGrace, onTimeout: () => "grace" }),
        Effect.catchAll(() => Effect.logWarning("Stopped although requests were running."))
      )
    )
  })

/** Another server behind the balancer may answer; this connection leads nowhere. */
const stopped = (url: string) =>
  HttpServerResponse.setHeader(refuse(url, new Refusal.ShuttingDown()), "connection", "close")

/**
 * Serves the registry of the context over the `HttpServer` of the context, until the layer closes: then running requests are
 * finished, within `shutdownGrace`, and new ones are told to go elsewhere.
 *
 * @example
 * ```ts
 * import { createServer } from "node:http"
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { RegistryServer } from "effect-agent-contracts/registry"
 *
 * export const server = RegistryServer.layer().pipe(
 *   Layer.provide(NodeHttpServer.layer(() => createServer(), { port: 4400 }))
 * )
 * ```
 */
export const layer = (options: Options = {}): Layer.Layer<never, never, Registry | HttpServer.HttpServer> => {
  const { policy, rateLimit, shutdownGrace } = { ...defaults, ...options }
  const handlers = Layer.mergeAll(
    delivery,
    ManagementRoutes.containers,
    ManagementRoutes.keys,
    SkillsRoutes.skills(policy),
    health
  )
  const api = HttpApiBuilder.api(RegistryHttpApi).pipe(
    Layer.provide(handlers),
    Layer.provide(Authentication.keyRequired)
  )
  return Layer.scopedDiscard(serve(shutdownGrace)).pipe(
    Layer.provide(HttpApiBuilder.middlewareOpenApi({ path: openApiPath })),
    Layer.provide(HttpApiBuilder.middleware(enveloped, { withContext: true })),
    Layer.provide(api),
    Layer.provide([HttpApiBuilder.Router.Live, HttpApiBuilder.Middleware.layer]),
    Layer.provide(Authentication.layer(rateLimit)),
    Layer.provide(HttpServer.layerContext)
  )
}
