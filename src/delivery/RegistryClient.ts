/**
 * The registry as a delivery sees it: exactly one request per call, over whichever `HttpClient` is supplied.
 *
 * @module
 */

import { FetchHttpClient, HttpClient, HttpClientRequest, HttpTraceContext } from "@effect/platform"
import { Config, Context, Effect, Either, Layer, Option, Redacted, Schema, type Scope } from "effect"
import { hmacSha256 } from "#codec"
import { type DeliveryError, fromConfigError, InvalidConfig } from "./DeliveryError.js"
import * as RegistryApi from "./RegistryApi.js"
import * as RegistryReply from "./RegistryReply.js"

export type { BatchReply, Denied, SnapshotReply } from "./RegistryReply.js"

/** What is asked for one container: its id, the pinned revision, the ETag of the held snapshot. */
export type SnapshotRequest = RegistryApi.SnapshotRequest

/**
 * The registry as a delivery sees it. Each call makes exactly one request, which lives until the scope closes:
 * interruption and closing release the connection. Nothing here retries, waits or remembers.
 *
 * @example
 * ```ts
 * import { FetchHttpClient } from "@effect/platform"
 * import { Effect, Layer, Redacted } from "effect"
 * import { RegistryClient } from "effect-agent-contracts/delivery"
 *
 * const registry = RegistryClient.layer({
 *   apiUrl: "https://registry.example",
 *   apiKey: Redacted.make("key")
 * }).pipe(Layer.provide(FetchHttpClient.layer))
 *
 * const program = Effect.gen(function* () {
 *   const client = yield* RegistryClient.RegistryClient
 *   return yield* client.get({ containerId: "team-skills" })
 * })
 *
 * Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(registry), Effect.either)).then(console.log)
 * ```
 */
export class RegistryClient extends Context.Tag("effect-agent-contracts/delivery/RegistryClient")<
  RegistryClient,
  {
    /** Without a trailing slash. */
    readonly apiUrl: string
    /** Seals what a persistent cache keeps: derived from the API key, so that only its holder can write a record. */
    readonly sealingKey: Redacted.Redacted<Uint8Array>
    /** One container, over its own route. The archive is bounded, not verified. */
    readonly get: (
      request: SnapshotRequest
    ) => Effect.Effect<RegistryReply.SnapshotReply | RegistryReply.Denied, DeliveryError, Scope.Scope>
    /**
     * 1 to 50 containers in one request. A failure concerns all of them; a malformed batch is `INVALID_SNAPSHOT` for each
     * but those to which it carries a denial.
     */
    readonly batch: (
      requests: ReadonlyArray<SnapshotRequest>
    ) => Effect.Effect<RegistryReply.BatchReply | RegistryReply.Denied, DeliveryError, Scope.Scope>
  }
>() {}

/**
 * Told of a snapshot's bytes while they arrive: received so far and, where the registry has said it, of how many. Does
 * nothing by default; a command line draws its progress with it.
 *
 * It is taken from the context of the call. A delivery's check runs in the context of the caller that started it: who joins a
 * running check hears nothing, and an `onBytes` that is slow holds up everybody's download.
 */
export class DownloadProgress extends Context.Reference<DownloadProgress>()(
  "effect-agent-contracts/delivery/RegistryClient/DownloadProgress",
  { defaultValue: (): DownloadProgressService => ({ onBytes: () => Effect.void }) }
) {}

export interface DownloadProgressService {
  readonly onBytes: (received: number, total: number | undefined) => Effect.Effect<void>
}

/** Where the registry is, and who asks. */
export interface Options {
  /** `http` or `https`, with any path before the registry's routes; no credentials, query or fragment. */
  readonly apiUrl: string
  /** Visible ASCII. */
  readonly apiKey: Redacted.Redacted<string>
}

/**
 * A client over the `HttpClient` of the context. Fails with `INVALID_CONFIG` for a URL or a key that cannot be used;
 * `settings` names them in that error. Sends nothing.
 */
export const make = Effect.fnUntraced(function* (
  options: Options,
  settings: { readonly apiUrl: string; readonly apiKey: string } = { apiUrl: "apiUrl", apiKey: "apiKey" }
): Effect.fn.Return<RegistryClient["Type"], InvalidConfig, HttpClient.HttpClient> {
  const apiUrl = yield* parseApiUrl(options.apiUrl, settings.apiUrl)
  const apiKey = yield* parseApiKey(options.apiKey, settings.apiKey)
  const http = (yield* HttpClient.HttpClient).pipe(
    // The client's own span has the URL and every response header as attributes.
    HttpClient.withTracerDisabledWhen(() => true),
    HttpClient.withScope
  )
  const fetchOptions = Option.getOrUndefined(yield* Effect.serviceOption(FetchHttpClient.RequestInit))

  const send = Effect.fnUntraced(function* (
    request: HttpClientRequest.HttpClientRequest,
    about: { readonly container?: string }
  ) {
    const span = yield* Effect.option(Effect.currentPropagatedSpan)
    const response = yield* request.pipe(
      HttpClientRequest.bearerToken(apiKey),
      HttpClientRequest.setHeader("accept-encoding", "identity"),
      HttpClientRequest.setHeaders(Option.match(span, { onNone: () => ({}), onSome: HttpTraceContext.toHeaders })),
      http.execute,
      // The key must not travel (contract, Wire): fetch alone follows redirects, and takes the headers along.
      Effect.provideService(FetchHttpClient.RequestInit, { ...fetchOptions, redirect: "manual" }),
      // A client that was made to fail for certain statuses still has an answer: a denial must not pass for trouble.
      Effect.catchAll((error) =>
        error._tag === "ResponseError" && error.reason === "StatusCode"
          ? Effect.succeed(error.response)
          : RegistryReply.networkError(error, about)
      )
    )
    yield* Effect.annotateCurrentSpan("http.response.status_code", response.status)
    return response
  })

  return RegistryClient.of({
    apiUrl,
    sealingKey: deriveSealingKey(apiKey),

    get: Effect.fn("RegistryClient.get")(function* (request) {
      yield* RegistryApi.validateSelection([request])
      yield* Effect.annotateCurrentSpan("skills.container", request.containerId)
      const { onBytes } = yield* DownloadProgress
      const asked = HttpClientRequest.get(apiUrl + RegistryApi.snapshotPath(request)).pipe(
        HttpClientRequest.accept(RegistryApi.mediaTypes.archive),
        HttpClientRequest.setHeaders(request.ifNoneMatch === undefined ? {} : { "if-none-match": request.ifNoneMatch })
      )
      const response = yield* send(asked, { container: request.containerId })
      return yield* RegistryReply.readSnapshot(response, request, onBytes)
    }, observed),

    batch: Effect.fn("RegistryClient.batch")(function* (requests) {
      yield* RegistryApi.validateSelection(requests)
      yield* Effect.annotateCurrentSpan("skills.container_count", requests.length)
      const { onBytes } = yield* DownloadProgress
      const asked = HttpClientRequest.post(apiUrl + RegistryApi.batchRoute).pipe(
        HttpClientRequest.accept(RegistryApi.mediaTypes.json),
        HttpClientRequest.bodyUnsafeJson(encodeBatchRequest({ containers: requests }))
      )
      const response = yield* send(asked, {})
      return yield* RegistryReply.readBatch(response, requests, onBytes)
    }, observed)
  })
})

const encodeBatchRequest = Schema.encodeSync(RegistryApi.BatchRequest)

/** Writes how a call ended to its span. */
const observed = <A extends { readonly _tag: string }, R>(call: Effect.Effect<A, DeliveryError, R>) =>
  call.pipe(
    Effect.tap((reply) => Effect.annotateCurrentSpan("skills.outcome", reply._tag.toLowerCase())),
    Effect.tapError((error) => Effect.annotateCurrentSpan("skills.outcome", error._tag))
  )

/** The URL that routes are appended to. A failure does not quote it: it may hold a password. */
const parseApiUrl = (apiUrl: string, setting: string): Either.Either<string, InvalidConfig> => {
  const invalid = (problem: string) => Either.left(new InvalidConfig({ setting, problem }))
  const url = URL.canParse(apiUrl) ? new URL(apiUrl) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    return invalid(/^https?:/i.test(apiUrl) ? "is not a URL" : "must begin with http:// or https://")
  }
  if (url.username !== "" || url.password !== "") return invalid("must not contain credentials")
  if (/[?#]/.test(apiUrl)) return invalid("must have neither a query nor a fragment")
  return Either.right(url.origin + url.pathname.replace(/\/+$/, ""))
}

/** The key as it can stand in a header. A failure does not quote it. */
const parseApiKey = (apiKey: Redacted.Redacted<string>, setting: string) => {
  const invalid = (problem: string) => Either.left(new InvalidConfig({ setting, problem }))
  // A plain string, as JavaScript may give it, could be printed by whoever holds it.
  if (!Redacted.isRedacted(apiKey)) return invalid("must be Redacted")
  return /^[\x21-\x7e]+$/.test(Redacted.value(apiKey))
    ? Either.right(apiKey)
    : invalid("is empty, or has a space, a line break or another character that is not visible ASCII")
}

const deriveSealingKey = (apiKey: Redacted.Redacted<string>): Redacted.Redacted<Uint8Array> => {
  const utf8 = new TextEncoder()
  const label = "effect-agent-contracts: seal of learned-skill records, version 1"
  return Redacted.make(hmacSha256(utf8.encode(Redacted.value(apiKey)), utf8.encode(label)))
}

/**
 * The registry at `apiUrl`, over the `HttpClient` of the context.
 *
 * Redirects are not followed: over fetch this sets `redirect` in `FetchHttpClient.RequestInit`, whose other options are
 * taken from the context of this layer. A client that was wrapped in `HttpClient.followRedirects` or in a retry cannot be
 * unwrapped, so supply one that is not.
 *
 * @example
 * ```ts
 * import { NodeHttpClient } from "@effect/platform-node"
 * import { Layer, Redacted } from "effect"
 * import { RegistryClient, SkillDelivery } from "effect-agent-contracts/delivery"
 *
 * export const skills = SkillDelivery.layer({ container: "team-skills" }).pipe(
 *   Layer.provide(RegistryClient.layer({ apiUrl: "https://registry.example", apiKey: Redacted.make("key") })),
 *   Layer.provide(NodeHttpClient.layerUndici)
 * )
 * ```
 */
export const layer = (options: Options): Layer.Layer<RegistryClient, InvalidConfig, HttpClient.HttpClient> =>
  Layer.effect(RegistryClient, make(options))

const settings = { apiUrl: "INTELLIGENCE_API_URL", apiKey: "CPK_INTELLIGENCE_API_KEY" } as const

/** `layer` from the settings `INTELLIGENCE_API_URL` and `CPK_INTELLIGENCE_API_KEY`; neither has a default. */
export const layerConfig: Layer.Layer<RegistryClient, InvalidConfig, HttpClient.HttpClient> = Layer.effect(
  RegistryClient,
  Config.all({ apiUrl: Config.string(settings.apiUrl), apiKey: Config.redacted(settings.apiKey) }).pipe(
    Effect.mapError(fromConfigError),
    Effect.flatMap((options) => make(options, settings))
  )
)
