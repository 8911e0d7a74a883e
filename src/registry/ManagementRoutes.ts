/**
 * Containers, revisions and keys over HTTP (contract, Registry server). A publisher may publish and take back; the delivery
 * switch and the keys are an administrator's.
 *
 * @module
 */
import { HttpApiBuilder, HttpServerResponse } from "@effect/platform"
import { Effect } from "effect"
import { requireScope } from "./Authentication.js"
import { Registry } from "./Registry.js"
import * as RegistryHttpApi from "./RegistryHttpApi.js"
import * as RequestBody from "./RequestBody.js"

/** `/api/v1/learning/containers`. */
export const containers = HttpApiBuilder.group(RegistryHttpApi.RegistryHttpApi, "containers", (handlers) =>
  Effect.map(Registry, (registry) =>
    handlers
      .handle("listContainers", ({ urlParams }) =>
        Effect.gen(function* () {
          yield* requireScope("publish")
          return yield* registry.listContainers(urlParams)
        })
      )
      .handleRaw("putContainer", ({ path }) =>
        Effect.gen(function* () {
          yield* requireScope("publish")
          const { title } = yield* RequestBody.json(RegistryHttpApi.ContainerRequest)
          return (yield* registry.putContainer({ id: path.containerId, title })).container
        })
      )
      .handle("getContainer", ({ path }) =>
        Effect.zipRight(requireScope("publish"), registry.getContainer(path.containerId))
      )
      .handleRaw("setEnabled", ({ path }) =>
        Effect.gen(function* () {
          yield* requireScope("admin")
          const { enabled } = yield* RequestBody.json(RegistryHttpApi.SwitchRequest)
          return yield* registry.setEnabled(path.containerId, enabled)
        })
      )
      .handle("listRevisions", ({ path, urlParams }) =>
        Effect.zipRight(requireScope("publish"), registry.listRevisions(path.containerId, urlParams))
      )
      .handleRaw("publish", ({ path }) =>
        Effect.gen(function* () {
          yield* requireScope("publish")
          const set = yield* RequestBody.json(RegistryHttpApi.PublishRequest)
          return yield* registry.publish({ containerId: path.containerId, ...set })
        })
      )
      .handle("revoke", ({ path }) =>
        Effect.zipRight(requireScope("publish"), registry.revoke(path.containerId, path.revision))
      )
  )
)

const issuedKeyJson = HttpServerResponse.schemaJson(RegistryHttpApi.IssuedKey)

/** `/api/v1/learning/keys`. */
export const keys = HttpApiBuilder.group(RegistryHttpApi.RegistryHttpApi, "keys", (handlers) =>
  Effect.map(Registry, (registry) =>
    handlers
      .handle("listKeys", () => Effect.zipRight(requireScope("admin"), registry.listKeys))
      .handleRaw("issueKey", () =>
        Effect.gen(function* () {
          yield* requireScope("admin")
          const { containers = null, name, scope } = yield* RequestBody.json(RegistryHttpApi.KeyRequest)
          const issued = yield* registry.issueKey({ name, scope, containers })
          // The one answer that holds a secret must not be kept anywhere on its way.
          return yield* Effect.orDie(issuedKeyJson(issued, { headers: { "cache-control": "no-store" } }))
        })
      )
      .handle("revokeKey", ({ path }) => Effect.zipRight(requireScope("admin"), registry.revokeKey(path.keyId)))
  )
)
