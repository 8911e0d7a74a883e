/**
 * The running registry that a command talks to: the client that the registry's own declaration gives, with every refusal as
 * the typed error that it was at the server.
 *
 * @module
 */
import {
  FetchHttpClient,
  HttpApiClient,
  HttpClient,
  type HttpClientError,
  HttpClientRequest,
  HttpClientResponse
} from "@effect/platform"
import { Config, Effect, Option, type Redacted, Schema, Stream } from "effect"
import * as DeliveryError from "../delivery/DeliveryError.js"
import * as RegistryClient from "../delivery/RegistryClient.js"
import { networkError } from "../delivery/RegistryReply.js"
import { RegistryHttpApi } from "../registry/RegistryHttpApi.js"
import * as Model from "../registry/RegistryModel.js"
import { UsageError } from "./CliError.js"
import * as KeyFile from "./KeyFile.js"
import { Passing, persevere } from "./Perseverance.js"
import * as RegistryFailure from "./RegistryFailure.js"

/** Where the registry is and who asks, as the command line says it. */
export interface Options {
  readonly apiUrl: Option.Option<string>
  readonly keyFile: Option.Option<string>
}

const variables = { apiUrl: "INTELLIGENCE_API_URL", apiKey: "CPK_INTELLIGENCE_API_KEY" } as const

/** A call may carry 30 MiB over a slow line. */
const timeout = "2 minutes"

/** Asks nothing yet. A setting that is missing or cannot be used is wrong usage. */
export const connect = Effect.fnUntraced(function* ({ apiUrl, keyFile }: Options) {
  const settings = yield* Effect.all(
    { apiUrl: urlSetting(apiUrl), apiKey: keySetting(keyFile) },
    { mode: "validate" }
  ).pipe(
    // All that is wrong at once, not one per attempt.
    Effect.mapError(({ apiKey, apiUrl }) =>
      unusable([apiUrl, apiKey].flatMap((problem) => Option.toArray(problem)).join("; "))
    )
  )
  // The rules of both are those of delivery.
  const names = {
    apiUrl: Option.isSome(apiUrl) ? "--api-url" : variables.apiUrl,
    apiKey: Option.isSome(keyFile) ? "--key-file" : variables.apiKey
  }
  const checked = yield* RegistryClient.make(settings, names).pipe(
    Effect.provide(FetchHttpClient.layer),
    Effect.mapError(({ problem, setting }) => unusable(`${setting}: ${problem}`))
  )
  const api = yield* HttpApiClient.makeWith(RegistryHttpApi, {
    baseUrl: checked.apiUrl,
    httpClient: (yield* HttpClient.HttpClient).pipe(
      HttpClient.mapRequest(HttpClientRequest.bearerToken(settings.apiKey)),
      HttpClient.transformResponse((response) =>
        Effect.flatMap(Effect.mapError(response, broken(checked.apiUrl)), (response) =>
          receive(response, { apiKey: settings.apiKey, apiUrl: checked.apiUrl })
        )
      )
    )
  })

  const send = <A>(
    request: (client: typeof api) => Effect.Effect<A, unknown>
  ): Effect.Effect<A, RegistryFailure.RegistryFailure | Passing> =>
    request(api).pipe(
      Effect.timeoutFail({ duration: timeout, onTimeout: () => new DeliveryError.Timeout({}) }),
      Effect.mapError((error) => (error instanceof Passing ? error : RegistryFailure.fromUnknown(error))),
      // The key must not travel: fetch alone follows redirects, and takes the headers along.
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
    )

  return {
    /**
     * One request, sent again while what is wrong may pass: for reads, and for what the registry does once however often it is
     * asked. Whatever is answered beside a success is a typed failure.
     */
    call: <A>(request: (client: typeof api) => Effect.Effect<A, unknown>) => persevere(send(request)),
    /** The same for what must not be done twice. */
    callOnce: <A>(request: (client: typeof api) => Effect.Effect<A, unknown>) =>
      Effect.catchTag(send(request), "Passing", ({ error }) => Effect.fail(error))
  }
}, Effect.provide(FetchHttpClient.layer))

export type Connection = Effect.Effect.Success<ReturnType<typeof connect>>

/**
 * How many items of a list are asked for at once: fifty containers, or revisions, of as many skills as can be delivered fit in
 * a body.
 */
export const pageSize = 50

/** A list that has more is none that a registry has. */
const mostPages = 10_000

/** All items of a list, page by page. */
export const all = <A, E>(
  page: (token: string | undefined) => Effect.Effect<readonly [ReadonlyArray<A>, string | null], E>
) =>
  Effect.gen(function* () {
    const items: Array<A> = []
    const tokens = new Set<string>()
    for (let token: string | undefined; ; ) {
      const [part, next] = yield* page(token)
      for (const item of part) items.push(item)
      if (next === null) return items
      // Pages go forward: one that leads back would never end.
      if (tokens.has(next) || tokens.size === mostPages) return yield* new DeliveryError.UnsupportedServer({})
      tokens.add(next)
      token = next
    }
  })

/** The container that a path names. An id that no registry can have is wrong usage. */
export const containerPath = (id: string) =>
  Schema.is(Model.ContainerId)(id)
    ? Effect.succeed({ containerId: id })
    : new UsageError({
        message: "a container id is not blank, `.` or `..`, has no control characters and at most 255 characters"
      })

const urlSetting = (flag: Option.Option<string>) =>
  Effect.orElseFail(
    Option.match(flag, { onNone: () => Config.string(variables.apiUrl), onSome: Effect.succeed }),
    () => `set ${variables.apiUrl} or give --api-url`
  )

const keySetting = (file: Option.Option<string>) =>
  Option.match(file, {
    onNone: () =>
      Effect.orElseFail(Config.redacted(variables.apiKey), () => `set ${variables.apiKey} or give --key-file`),
    onSome: (path) => Effect.mapError(KeyFile.read(path), ({ message }) => message)
  })

const unusable = (problem: string) => new UsageError({ message: `INVALID_CONFIG: ${problem}` })

/** What may pass: too slow, too often, or not at the moment. */
const passing: ReadonlySet<number> = new Set([408, 429, 503])

/** The registry is not there yet, or went away while it was asked. What a name or an address that is wrong gives does not pass. */
const away: ReadonlySet<string> = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "UND_ERR_SOCKET"])

const broken = (url: string) => (cause: HttpClientError.HttpClientError) => {
  const { reason } = networkError(cause, {})
  const error = new RegistryFailure.Unreachable({ url, reason })
  return reason !== undefined && away.has(reason) ? new Passing({ error, retryAfter: 0 }) : error
}

/** The longest body that is read, in bytes, whatever was declared. */
const mostBytes = 8 * 1024 * 1024

/** The answer with its body read whole, or the failure that it is. */
const receive = Effect.fnUntraced(function* (
  response: HttpClientResponse.HttpClientResponse,
  { apiKey, apiUrl }: { readonly apiKey: Redacted.Redacted; readonly apiUrl: string }
) {
  const { headers, status } = response
  if (passing.has(status)) {
    const after = headers["retry-after"] ?? ""
    return yield* new Passing({
      error: new RegistryFailure.Unavailable({ url: apiUrl, status }),
      retryAfter: /^\d+$/.test(after) ? Number(after) : 0
    })
  }
  const parts: Array<Uint8Array> = []
  let length = 0
  yield* response.stream.pipe(
    Stream.catchAll((error) => (error.reason === "EmptyBody" ? Stream.empty : Stream.fail(broken(apiUrl)(error)))),
    Stream.runForEach((part) => {
      parts.push(part)
      length += part.length
      return length > mostBytes ? new DeliveryError.UnsupportedServer({ status }) : Effect.void
    })
  )
  const body = Buffer.concat(parts)
  if (status >= 200 && status < 300) {
    return HttpClientResponse.fromWeb(
      response.request,
      // Some statuses must have none.
      new Response(length === 0 ? null : body, { status, headers })
    )
  }
  const json = yield* Effect.option(Effect.try((): unknown => JSON.parse(body.toString("utf8"))))
  return yield* Option.getOrElse(
    Option.flatMap(json, (json) => RegistryFailure.fromBody(json, apiKey)),
    () => new DeliveryError.UnsupportedServer({ status })
  )
})
