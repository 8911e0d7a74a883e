/**
 * The registry over HTTP: delivery, publishing, containers, keys, health (contract, Registry server).
 *
 * @module
 */
import {
  Headers,
  HttpApiBuilder,
  type HttpApiError,
  type HttpApp,
  HttpRouter,
  HttpServer,
  HttpServerError,
  HttpServerRequest,
  HttpServerResponse
} from "@effect/platform"
import { Cause, type Duration, Effect, Either, Layer, Option, Predicate } from "effect"
import * as Policy from "../publishing/Policy.js"
import * as Authentication from "./Authentication.js"
import * as DeliveryRoutes from "./DeliveryRoutes.js"
import * as ManagementRoutes from "./ManagementRoutes.js"
import * as OutgoingArchives from "./OutgoingArchives.js"
import type { Rate } from "./RateLimit.js"
import * as Refusal from "./Refusal.js"
import { Registry } from "./Registry.js"
import { openApiPath, RegistryHttpApi } from "./RegistryHttpApi.js"
import * as RequestBody from "./RequestBody.js"
import * as RequestTelemetry from "./RequestTelemetry.js"
import * as RunningRequests from "./RunningRequests.js"
import * as SkillsRoutes from "./SkillsRoutes.js"
import * as UnchangedAnswers from "./UnchangedAnswers.js"

/** How a server is run. */
export interface Options {
  /** How often each key may ask this server. By default 10,000 requests in 10 seconds. */
  readonly rateLimit?: Rate
  /** The rules of uploads. `Policy.seed` by default. */
  readonly policy?: Policy.Policy
  /** How long running requests may take when the server stops. 30 seconds by default. */
  readonly shutdownGrace?: Duration.DurationInput
  /**
   * The server of Node with which the `HttpServer` of the context listens. An agent that asks again and again whether its
   * skills are unchanged then gets its answer without the cost of the platform, which is several times that of the answer. And
   * connections that keep the server from stopping are closed, as are those that came before anybody could answer.
   */
  readonly node?: UnchangedAnswers.NodeServer
}

const defaults = {
  rateLimit: { requests: 10_000, per: "10 seconds" },
  policy: Policy.seed,
  shutdownGrace: "30 seconds"
} as const satisfies Options

const delivery = HttpApiBuilder.group(RegistryHttpApi, "delivery", (handlers) =>
  Effect.gen(function* () {
    const { many, one } = DeliveryRoutes.make(yield* Registry, yield* OutgoingArchives.OutgoingArchives)
    const answered = Effect.catchAll(Refusal.answering(Refusal.answer))
    return handlers
      .handleRaw("snapshot", ({ request }) => one(request).pipe(answered))
      .handleRaw("batch", ({ request }) => many(request).pipe(answered))
  })
)

/** A server that can confirm what it answers from is ready; it has to ask its store once a second for that, whoever asks it. */
const health = HttpApiBuilder.group(RegistryHttpApi, "health", (handlers) =>
  Effect.map(Registry, ({ ready }) => {
    const ok = { status: "ok" } as const
    return handlers
      .handleRaw("health", () => Effect.succeed(ok))
      .handleRaw("ready", () => Effect.catchAll(Effect.as(ready, ok), Refusal.answering(Refusal.answer)))
  })
)

/** The answer to a request that failed before or in its handler, in the envelope of its surface. */
const answerOf = (url: string) => (/^\/v1(?:[/?]|$)/.test(url) ? Refusal.skillsAnswer : Refusal.answer)

/** Where a bug is. Its message may quote anything. */
const framesOf = (cause: Cause.Cause<unknown>) =>
  Cause.prettyErrors(cause).map(({ name, stack = "" }) => [name, ...(stack.match(/^\s+at .*$/gm) ?? [])].join("\n"))

const isDecodeError = (error: unknown): error is HttpApiError.HttpApiDecodeError =>
  Predicate.isTagged(error, "HttpApiDecodeError")

/** The answer to whatever went wrong, in the envelope of its surface. */
const refused = (url: string) => (cause: Cause.Cause<unknown>) => {
  const error = Option.getOrUndefined(Cause.failureOption(cause))
  if (Refusal.isFailure(error)) return Refusal.answering(answerOf(url))(error)
  if (isDecodeError(error)) return Effect.succeed(answerOf(url)(RequestBody.fromIssues(error.issues)))
  if (Cause.isInterrupted(cause)) return Effect.failCause(Cause.stripFailures(cause))
  return Effect.as(
    Effect.annotateLogs(Effect.logError("A request failed by a bug."), "stack", framesOf(cause)),
    answerOf(url)(new Refusal.InternalError())
  )
}

/**
 * A route that does not exist asks for a key as well, so that whoever scans without one gets the same answer everywhere. The
 * router finds none either for a path that it cannot decode: a container's with such an id is malformed, not unknown.
 */
const noRoute = (url: string) => {
  const asked = DeliveryRoutes.askedBy(url)
  const failure = asked !== undefined && Either.isLeft(asked) ? asked.left : new Refusal.RouteNotFound()
  return Effect.zipRight(Authentication.admitCurrent, Effect.fail(failure))
}

/** What the platform would answer in its own words. */
const enveloped = (
  app: HttpApp.Default
): HttpApp.Default<never, Authentication.Admission | HttpServerRequest.HttpServerRequest> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) =>
    // No URL on the wire has a fragment: the router would cut it off and answer for another path. The platform's type hides the
    // failures of the handlers behind it.
    Effect.catchAll(url.includes("#") ? noRoute(url) : app, (error: unknown) =>
      error instanceof HttpServerError.RouteNotFound ? noRoute(url) : Effect.fail(error)
    ).pipe(Effect.catchAllCause(refused(url)))
  )

const serve = (shutdownGrace: Duration.DurationInput, node: UnchangedAnswers.NodeServer | undefined) =>
  Effect.gen(function* () {
    const running = RunningRequests.make()

    const router = yield* HttpRouter.withRouterConfig(HttpApiBuilder.httpApp, {
      // Ids may be long once they are percent-encoded.
      maxParamLength: 16 * 1024,
      // One path, one route: whoever else looks at a path looks at it as it is.
      caseSensitive: true,
      ignoreDuplicateSlashes: false
    })
    const routed = RequestTelemetry.identified(RequestTelemetry.logged(router))

    const app = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) =>
      Effect.zipRight(
        RequestTelemetry.withoutQuery,
        running.isStopping() ? Effect.succeed(stopped(url)) : Effect.interruptible(routed)
      )
    )
    // Around the writing of the answer too: an archive is on its way for as long as its receiver reads.
    yield* Effect.locally(HttpServer.serveEffect(app, running.counted), Headers.currentRedactedNames, [
      RequestTelemetry.hiddenHeaders
    ])
    if (node !== undefined) {
      // It listened before anybody here did: what was asked meanwhile would never be answered.
      node.closeAllConnections()
      yield* UnchangedAnswers.serve(node)
    }
    yield* Effect.logInfo("Serving.")
    // Runs before the server stops listening and before the store is closed: what runs still needs both.
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => Effect.logInfo(`Stopping: ${running.count()} requests are running.`)).pipe(
        Effect.zipRight(running.stop),
        Effect.timeoutFail({ duration: shutdownGrace, onTimeout: () => "grace" }),
        Effect.catchAll(() => Effect.logWarning("Stopped although requests were running.")),
        Effect.zipRight(node === undefined ? Effect.void : Effect.forkDaemon(Effect.interruptible(cutOff(node))))
      )
    )
  })

/** How long a client may take over the end of its answer, once no request runs or the grace of those is over. */
const lastBytes = "2 seconds"

/** The platform waits for every connection, so one client that reads nothing would keep a server from stopping. */
const cutOff = (node: UnchangedAnswers.NodeServer) =>
  Effect.raceFirst(
    Effect.delay(
      Effect.sync(() => node.closeAllConnections()),
      lastBytes
    ),
    Effect.async<void>((resume) => {
      const closed = () => resume(Effect.void)
      node.on("close", closed)
      return Effect.sync(() => node.off("close", closed))
    })
  )

/** Another server behind the balancer may answer; this connection leads nowhere. */
const stopped = (url: string) =>
  HttpServerResponse.setHeaders(answerOf(url)(new Refusal.ShuttingDown()), {
    ...DeliveryRoutes.cacheHeaders,
    connection: "close"
  })

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
 * const node = createServer()
 * export const server = RegistryServer.layer({ node }).pipe(
 *   Layer.provide(NodeHttpServer.layer(() => node, { port: 4400 }))
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
    Layer.provide([Authentication.keyRequired, OutgoingArchives.layer])
  )
  return Layer.scopedDiscard(serve(shutdownGrace, options.node)).pipe(
    Layer.provide(HttpApiBuilder.middlewareOpenApi({ path: openApiPath })),
    Layer.provide(HttpApiBuilder.middleware(enveloped, { withContext: true })),
    Layer.provide(api),
    Layer.provide([HttpApiBuilder.Router.Live, HttpApiBuilder.Middleware.layer]),
    Layer.provide(Authentication.layer(rateLimit)),
    Layer.provide(HttpServer.layerContext)
  )
}
