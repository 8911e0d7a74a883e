/**
 * What is told of a request, to whoever runs the server: its line in the log, its span, and the id that finds both. No key and
 * nothing of a query is in any of them.
 *
 * @module
 */
import { HttpServerRequest, HttpServerResponse } from "@effect/platform"
import { Clock, Effect, FiberRef, Option } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as RegistryApi from "../delivery/RegistryApi.js"
import * as SkillPackage from "../publishing/SkillPackage.js"
import { actingKey } from "./ActingKey.js"
import * as DeliveryRoutes from "./DeliveryRoutes.js"

/** How often a balancer asks is no news. */
const isProbe = (path: string) => path === "/health" || path === "/ready"

/** One line for each request. Of its URL the path alone, escaped: a query may hold anything. */
export const logged = <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.gen(function* () {
    const { method, url } = yield* HttpServerRequest.HttpServerRequest
    const started = yield* Clock.currentTimeMillis
    const response = yield* app
    const key = yield* FiberRef.get(actingKey)
    const [path = ""] = url.split("?", 1)
    if (isProbe(path) && response.status === 200) return response
    yield* (response.status < 500 ? Effect.logInfo : Effect.logWarning)("request").pipe(
      Effect.annotateLogs({
        "http.method": method,
        "http.path": ArchivePath.display(path),
        "http.status": response.status,
        "duration.ms": (yield* Clock.currentTimeMillis) - started,
        ...(Option.isSome(key) ? { "key.id": key.value } : {})
      })
    )
    return response
  })

/** What of a request's headers its span may say; a key may be in any other. */
const shownHeaders = [
  "accept",
  "accept-encoding",
  "content-length",
  "content-type",
  "host",
  "if-none-match",
  "transfer-encoding",
  "user-agent",
  "retry-after",
  "etag",
  "request-id",
  RegistryApi.metadataHeaders.revision,
  SkillPackage.digestHeader
]
export const hiddenHeaders = new RegExp(`^(?!(?:${shownHeaders.join("|")})$)`)

/** Of the URL in its span the path alone: a query may hold anything, and the platform writes it down before anybody else is asked. */
export const withoutQuery = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
  if (!/[?#]/.test(request.url)) return Effect.void
  return Option.match(HttpServerRequest.toURL(request), {
    onNone: () => Effect.void,
    onSome: ({ origin, pathname }) =>
      Effect.annotateCurrentSpan({ "url.full": origin + pathname, "url.query": "<redacted>" })
  })
})

/** Finds a request again, in its answer, in the log and in traces: the id of its trace. A caller may name a trace anything. */
const requestId = Effect.match(Effect.currentSpan, {
  onFailure: () => undefined,
  onSuccess: ({ spanId, traceId }) => (/^[0-9a-f]{16,32}$/.test(traceId) ? traceId : spanId)
})

/** What every answer carries, and every line of the log meanwhile. */
export const identified = <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.gen(function* () {
    const id = yield* requestId
    const response = yield* id === undefined ? app : Effect.annotateLogs(app, "request.id", id)
    return HttpServerResponse.setHeaders(response, {
      ...DeliveryRoutes.cacheHeaders,
      ...(id === undefined ? {} : { "request-id": id }),
      ...response.headers
    })
  })
