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
  HttpClientRequest,
  type HttpClientResponse
} from "@effect/platform"
import { Chunk, Config, Effect, Option, Redacted, Schema, Stream } from "effect"
import * as DeliveryError from "../delivery/DeliveryError.js"
import * as RegistryClient from "../delivery/RegistryClient.js"
import { networkError } from "../delivery/RegistryReply.js"
import { RegistryHttpApi } from "../registry/RegistryHttpApi.js"
import * as Model from "../registry/RegistryModel.js"
import { UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"
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
  const settings = yield* Effect.all({ apiUrl: urlSetting(apiUrl), apiKey: keySetting(keyFile) })
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
        Effect.flatMap(
          Effect.mapError(response, (error) => networkError(error, {})),
          refuse
        )
      )
    )
  })

  return {
    /** One request. Whatever is answered beside a success is a typed failure. */
    call: <A>(
      request: (client: typeof api) => Effect.Effect<A, unknown>
    ): Effect.Effect<A, RegistryFailure.RegistryFailure> =>
      request(api).pipe(
        Effect.timeoutFail({ duration: timeout, onTimeout: () => new DeliveryError.Timeout({}) }),
        Effect.mapError(RegistryFailure.fromUnknown),
        // The key must not travel: fetch alone follows redirects, and takes the headers along.
        Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
      )
  }
}, Effect.provide(FetchHttpClient.layer))

export type Connection = Effect.Effect.Success<ReturnType<typeof connect>>

/** As many as a registry gives at once. */
export const pageSize = 1000

/** All items of a list, page by page. */
export const all = <A, E>(
  page: (token: string | undefined) => Effect.Effect<readonly [ReadonlyArray<A>, string | null], E>
) =>
  Stream.paginateChunkEffect(Option.none<string>(), (token) =>
    Effect.map(page(Option.getOrUndefined(token)), ([items, next]) => [
      Chunk.unsafeFromArray(items),
      Option.map(Option.fromNullable(next), Option.some)
    ])
  ).pipe(Stream.runCollect, Effect.map(Chunk.toReadonlyArray))

/** The id as it stands in a path. One that no registry can have is wrong usage. */
export const containerPath = (id: string) =>
  Schema.is(Model.ContainerId)(id)
    ? Effect.succeed({ containerId: encodeURIComponent(id) })
    : new UsageError({
        message: "a container id is not blank, `.` or `..`, has no control characters and at most 255 characters"
      })

const urlSetting = (flag: Option.Option<string>) =>
  Effect.orElseFail(Option.match(flag, { onNone: () => Config.string(variables.apiUrl), onSome: Effect.succeed }), () =>
    unusable(`set ${variables.apiUrl} or give --api-url`)
  )

/** Far longer than any key. */
const maximumKeyBytes = 64 * 1024

const keySetting = (file: Option.Option<string>) =>
  Option.match(file, {
    onNone: () =>
      Effect.orElseFail(Config.redacted(variables.apiKey), () =>
        unusable(`set ${variables.apiKey} or give --key-file`)
      ),
    onSome: (path) => Effect.map(InputFile.text(path, maximumKeyBytes), (text) => Redacted.make(text.trim()))
  })

const unusable = (problem: string) => new UsageError({ message: `INVALID_CONFIG: ${problem}` })

/** What may pass: too slow, too often, or not at the moment. */
const passing: ReadonlySet<number> = new Set([408, 429, 503])

const refuse = (response: HttpClientResponse.HttpClientResponse) =>
  Effect.gen(function* () {
    const { status } = response
    if (status >= 200 && status < 300) return response
    if (passing.has(status)) return yield* new DeliveryError.NetworkError({ reason: `HTTP status ${status}` })
    const body = yield* Effect.orElseSucceed(response.json, () => undefined)
    return yield* Option.getOrElse(
      RegistryFailure.fromBody(body),
      () => new DeliveryError.UnsupportedServer({ status })
    )
  })
