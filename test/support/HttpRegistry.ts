/** The registry over HTTP on loopback: one server, as a machine runs it, or one of several over a store. */
import { createServer, type Server } from "node:http"
import { FetchHttpClient, HttpApiClient, HttpClient, HttpClientRequest, HttpServer } from "@effect/platform"
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, Layer, Logger, Redacted, type Scope } from "effect"
import * as RegistryClient from "../../src/delivery/RegistryClient.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import * as Registry from "../../src/registry/Registry.js"
import { RegistryHttpApi } from "../../src/registry/RegistryHttpApi.js"
import type { KeyScope } from "../../src/registry/RegistryModel.js"
import * as RegistryServer from "../../src/registry/RegistryServer.js"
import * as Stores from "./Stores.js"
import { loose, skillFile, type Tree } from "./Uploads.js"

export interface Options extends RegistryServer.Options {
  /** An empty libSQL by default. */
  readonly store?: Stores.Store
  /** Gets the server's log, which is kept nowhere without it. */
  readonly logger?: Logger.Logger<unknown, unknown>
  /** Replaces operations of the real registry, to fail or to wait. */
  readonly override?: (registry: Registry.RegistryService) => Partial<Registry.RegistryService>
}

/** Registry and server of a test. `key` opens everything. */
export interface HttpRegistry {
  readonly url: string
  readonly key: string
  readonly registry: Registry.RegistryService
  readonly server: Server
  readonly issue: (scope: KeyScope, containers?: ReadonlyArray<string>) => Effect.Effect<string>
  /** Publishes one skill of this tree to a container, which is created where it has to be, and gives the revision. */
  readonly publish: (containerId: string, tree?: Tree) => Effect.Effect<string>
  /** Sends a request with `key` unless the headers say otherwise. */
  readonly request: (path: string, init?: RequestInit) => Effect.Effect<Response>
}

export const greeting: Tree = { "greeting/SKILL.md": skillFile(), "greeting/tone.md": "Warm.\n" }

/** Stopped with the scope. */
export const start = ({
  logger = Logger.none,
  override = () => ({}),
  store = Stores.libsql,
  ...options
}: Options = {}): Effect.Effect<HttpRegistry, never, Scope.Scope> =>
  Effect.gen(function* () {
    const server = createServer()
    const overridden = Layer.map(Layer.provide(Registry.layer, store), (context) => {
      const registry = Context.get(context, Registry.Registry)
      const replaced = override(registry)
      // Memory answers ahead of whatever is replaced.
      const isReplaced = replaced.authenticate !== undefined || replaced.resolve !== undefined
      return Context.make(Registry.Registry, {
        ...registry,
        ...(isReplaced ? { unsafePoll: () => undefined } : {}),
        ...replaced
      })
    })
    const context = yield* Layer.build(
      RegistryServer.layer({ node: server, ...options }).pipe(
        Layer.provideMerge(overridden),
        Layer.provideMerge(NodeHttpServer.layer(() => server, { host: "127.0.0.1", port: 0 })),
        Layer.provide(Logger.replace(Logger.defaultLogger, logger))
      )
    ).pipe(Effect.orDie)
    const registry = Context.get(context, Registry.Registry)
    const url = HttpServer.formatAddress(Context.get(context, HttpServer.HttpServer).address)

    const issue = (scope: KeyScope, containers: ReadonlyArray<string> | null = null) =>
      Effect.map(Effect.orDie(registry.issueKey({ name: scope, scope, containers })), ({ key }) => Redacted.value(key))
    const key = yield* issue("admin")
    return {
      url,
      key,
      registry,
      server,
      issue,
      publish: (containerId, tree = greeting) =>
        Effect.gen(function* () {
          const { container } = yield* registry.putContainer({ id: containerId })
          const bundle = yield* SkillBundle.fromFiles(loose(tree))
          const { skill, version } = yield* registry.createSkill({ displayTitle: null, bundle, keyId: "test" })
          const published = yield* registry.publish({
            containerId,
            base: container.latest?.revision ?? null,
            skills: [{ skillId: skill.id, version: version.version }]
          })
          return published.revision
        }).pipe(Effect.orDie),
      request: (path, init = {}) =>
        Effect.promise((signal) =>
          fetch(url + path, { signal, ...init, headers: { "x-api-key": key, ...init.headers } })
        )
    }
  })

/** The client that is derived from the declaration, as the command line uses it. */
export const connect = ({ url }: HttpRegistry, key: string) =>
  HttpApiClient.make(RegistryHttpApi, {
    baseUrl: url,
    transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(key))
  }).pipe(Effect.provide(FetchHttpClient.layer))

/** An agent that asks this server at every acquire. */
export const deliver = ({ key, url }: Pick<HttpRegistry, "key" | "url">, options: SkillDelivery.Options) =>
  SkillDelivery.layer({ ...options, freshness: 0 }).pipe(
    Layer.provide(RegistryClient.layer({ apiUrl: url, apiKey: Redacted.make(key) })),
    Layer.provide(FetchHttpClient.layer),
    Layer.build,
    Effect.map(Context.get(SkillDelivery.SkillDelivery))
  )

/** The status of an answer of which nothing else matters. */
export const statusOf = (response: Response): Effect.Effect<number> =>
  Effect.as(
    Effect.promise(() => response.arrayBuffer()),
    response.status
  )

/** The JSON of an answer, of the shape that the test expects. */
export const jsonOf = <A>(response: Response): Effect.Effect<A> => Effect.promise(() => response.json() as Promise<A>)

/** The code in an answer of either envelope, with its status. */
export const refusalOf = (response: Response): Effect.Effect<readonly [status: number, code: string]> =>
  Effect.map(
    jsonOf<{ readonly error: { readonly code?: string; readonly details?: { readonly error_code: string } } }>(
      response
    ),
    ({ error }) => [response.status, error.code ?? error.details?.error_code ?? ""]
  )
