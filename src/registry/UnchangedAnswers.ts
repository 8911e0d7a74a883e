/**
 * The answer to an agent that holds the latest already, which is what a fleet's every agent gets every few seconds: written on
 * the server of Node itself, since a fiber and the platform's request and response cost several times what the answer does
 * (docs/performance.md). It is given only where memory has it confirmed and nothing is refused; every other request goes to
 * the platform, as it came.
 *
 * @module
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import { Headers, HttpTraceContext } from "@effect/platform"
import { Effect, Either, Option, type Scope } from "effect"
import * as Authentication from "./Authentication.js"
import * as DeliveryRoutes from "./DeliveryRoutes.js"
import { Registry } from "./Registry.js"
import type { Resolved } from "./RegistryModel.js"

/** A server of Node, as `createServer` makes it. */
export type NodeServer = Pick<Server, "closeAllConnections" | "listeners" | "removeAllListeners" | "on" | "off">

/** Answers ahead of those who listen for the server's requests already, until the scope closes. */
export const serve = (
  server: NodeServer
): Effect.Effect<void, never, Authentication.Admission | Registry | Scope.Scope> =>
  Effect.gen(function* () {
    const registry = yield* Registry
    const admission = yield* Authentication.Admission

    /** What the request's caller holds, if that is all there is to say. */
    const unchanged = ({ headers, method, url }: IncomingMessage): Resolved | undefined => {
      const ifNoneMatch = headers["if-none-match"]
      if (ifNoneMatch === undefined || method !== "GET" || url === undefined || isTraced(headers)) return undefined
      const asked = DeliveryRoutes.askedBy(url)
      const key = Authentication.keyOf(headers)
      if (asked === undefined || Either.isLeft(asked) || key === undefined) return undefined
      const { containerId, revision } = asked.right
      const known = registry.unsafePoll(key, containerId, revision)
      if (known === undefined || !DeliveryRoutes.holds(ifNoneMatch, known.resolved.etag)) return undefined
      // The rate last: whoever is answered by the platform takes from it there.
      return Authentication.mayReach(known.apiKey, containerId) && admission.unsafeTake(known.apiKey)
        ? known.resolved
        : undefined
    }

    yield* Effect.acquireRelease(
      Effect.sync(() => {
        const listeners = server.listeners("request")
        const listener = (request: IncomingMessage, response: ServerResponse) => {
          const held = unchanged(request)
          if (held === undefined) for (const other of listeners) other.call(server, request, response)
          else response.writeHead(304, DeliveryRoutes.headersOf(held)).end()
        }
        server.removeAllListeners("request").on("request", listener)
        return { listener, listeners }
      }),
      ({ listener, listeners }) =>
        Effect.sync(() => {
          server.off("request", listener)
          for (const other of listeners) server.on("request", other as (...args: Array<unknown>) => void)
        })
    )
  })

/** A caller who records its trace gets a span, which continues the caller's. */
const isTraced = (headers: IncomingMessage["headers"]) =>
  ["traceparent", "b3", "x-b3-traceid"].some((name) => headers[name] !== undefined) &&
  Option.exists(HttpTraceContext.fromHeaders(Headers.fromInput(headers)), ({ sampled }) => sampled)
