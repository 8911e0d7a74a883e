/**
 * The registry's HTTP surface, declared once for server, clients and documentation (contract, Registry server).
 *
 * @module
 */
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "@effect/platform"
import { Predicate, Schema } from "effect"
import * as DeliveryError from "../delivery/DeliveryError.js"
import * as RegistryApi from "../delivery/RegistryApi.js"
import { CorruptBlob } from "../store/BlobStore.js"
import { StoreUnavailable } from "../store/StoreError.js"
import { KeyRequired } from "./Authentication.js"
import * as PathSegment from "./PathSegment.js"
import * as Refusal from "./Refusal.js"
import * as RegistryError from "./RegistryError.js"
import * as Model from "./RegistryModel.js"
import * as RequestBody from "./RequestBody.js"
import { skills } from "./SkillsHttpApi.js"

const { enveloped } = Refusal

const containerId = PathSegment.of(Model.ContainerId)
const containerPath = Schema.Struct({ containerId })
const revisionPath = Schema.Struct({ containerId, revision: PathSegment.of(RegistryApi.Revision) })

const pageOf = <A, I>(item: Schema.Schema<A, I>) =>
  Schema.Struct({ items: Schema.Array(item), nextPage: Schema.NullOr(Schema.String) })

/** Which part of a list. */
export const PageParams = Schema.Struct({
  limit: Schema.optional(Schema.NumberFromString),
  page: Schema.optional(Schema.String)
})

const containerNotFound = enveloped(DeliveryError.ContainerNotFound, "CONTAINER_NOT_FOUND")
const invalidPage = enveloped(RegistryError.InvalidPage, "INVALID_PAGE")
const invalidValue = enveloped(RegistryError.InvalidValue, "INVALID_VALUE")

/** What every body that is JSON may fail with. */
const badBody = Schema.Union(
  enveloped(RequestBody.InvalidRequest, "INVALID_REQUEST"),
  enveloped(RequestBody.RequestTooLarge, "REQUEST_TOO_LARGE"),
  enveloped(RequestBody.RequestStalled, "REQUEST_STALLED")
)

/** A container to create or rename. */
export const ContainerRequest = Schema.Struct({ title: Schema.optional(Schema.NullOr(Schema.String)) })

/** The delivery switch. */
export const SwitchRequest = Schema.Struct({ enabled: Schema.Boolean })

/** A set to publish over `base`, the latest revision that the publisher has seen; null: none. */
export const PublishRequest = Schema.Struct({
  base: Schema.NullOr(Schema.String),
  skills: Schema.Array(Schema.Struct({ skillId: Schema.String, version: Schema.String }))
})

/** A key to issue. */
export const KeyRequest = Schema.Struct({
  name: Schema.String,
  scope: Model.KeyScope,
  /** The containers it may read; without them, or null: all. */
  containers: Schema.optional(Schema.NullOr(Schema.Array(Schema.String)))
})

/** A key as it is issued: shown this once. */
export const IssuedKey = Schema.Struct({ key: Schema.Redacted(Schema.String), apiKey: Model.ApiKey })

const archive = HttpApiSchema.Uint8Array({ contentType: RegistryApi.mediaTypes.archive })

const delivery = HttpApiGroup.make("delivery")
  .add(
    HttpApiEndpoint.get("snapshot", RegistryApi.snapshotRoute)
      .setPath(Schema.Struct({ containerId: PathSegment.of(Schema.String) }))
      .setUrlParams(Schema.Struct({ revision: Schema.optional(Schema.String) }))
      .addSuccess(archive)
      .addSuccess(HttpApiSchema.Empty(304))
      .addError(enveloped(DeliveryError.InvalidConfig, "INVALID_CONFIG"))
      .addError(enveloped(DeliveryError.AuthorizationFailed, "AUTHORIZATION_FAILED"))
      .addError(enveloped(DeliveryError.DeliveryDisabled, "DELIVERY_DISABLED"))
      .addError(enveloped(DeliveryError.RevisionRevoked, "REVISION_REVOKED"))
      .addError(containerNotFound)
      .addError(enveloped(DeliveryError.RevisionNotFound, "REVISION_NOT_FOUND"))
      .addError(enveloped(DeliveryError.InvalidSnapshot, "INVALID_SNAPSHOT"))
  )
  .add(
    HttpApiEndpoint.post("batch", RegistryApi.batchRoute)
      .setPayload(RegistryApi.BatchRequest)
      .addSuccess(RegistryApi.BatchResponse)
      .addError(badBody)
  )
  .middleware(KeyRequired)

const containers = HttpApiGroup.make("containers")
  .add(
    HttpApiEndpoint.get("listContainers", "/api/v1/learning/containers")
      .setUrlParams(PageParams)
      .addSuccess(pageOf(Model.Container))
      .addError(invalidPage)
  )
  .add(
    HttpApiEndpoint.put("putContainer", "/api/v1/learning/containers/:containerId")
      .setPath(containerPath)
      .setPayload(ContainerRequest)
      .addSuccess(Model.Container)
      .addError(invalidValue)
      .addError(badBody)
  )
  .add(
    HttpApiEndpoint.get("getContainer", "/api/v1/learning/containers/:containerId")
      .setPath(containerPath)
      .addSuccess(Model.Container)
      .addError(containerNotFound)
  )
  .add(
    HttpApiEndpoint.patch("setEnabled", "/api/v1/learning/containers/:containerId")
      .setPath(containerPath)
      .setPayload(SwitchRequest)
      .addSuccess(Model.Container)
      .addError(containerNotFound)
      .addError(badBody)
  )
  .add(
    HttpApiEndpoint.get("listRevisions", "/api/v1/learning/containers/:containerId/revisions")
      .setPath(containerPath)
      .setUrlParams(PageParams)
      .addSuccess(pageOf(Model.Revision))
      .addError(containerNotFound)
      .addError(invalidPage)
  )
  .add(
    HttpApiEndpoint.post("publish", "/api/v1/learning/containers/:containerId/revisions")
      .setPath(containerPath)
      .setPayload(PublishRequest)
      .addSuccess(Model.Revision)
      .addError(containerNotFound)
      .addError(enveloped(RegistryError.SkillNotFound, "SKILL_NOT_FOUND"))
      .addError(enveloped(RegistryError.SkillVersionNotFound, "SKILL_VERSION_NOT_FOUND"))
      .addError(enveloped(RegistryError.BaseMismatch, "BASE_MISMATCH"))
      .addError(enveloped(RegistryError.RevokedSet, "REVOKED_SET"))
      .addError(enveloped(RegistryError.UndeliverableSet, "UNDELIVERABLE_SET"))
      .addError(enveloped(CorruptBlob, "CORRUPT_BLOB"))
      .addError(badBody)
  )
  .add(
    HttpApiEndpoint.post("revoke", "/api/v1/learning/containers/:containerId/revisions/:revision/revoke")
      .setPath(revisionPath)
      .addSuccess(Model.Revision)
      .addError(containerNotFound)
      .addError(enveloped(DeliveryError.RevisionNotFound, "REVISION_NOT_FOUND"))
  )
  .addError(enveloped(DeliveryError.AuthorizationFailed, "AUTHORIZATION_FAILED"))
  .middleware(KeyRequired)

const keys = HttpApiGroup.make("keys")
  .add(HttpApiEndpoint.get("listKeys", "/api/v1/learning/keys").addSuccess(Schema.Array(Model.ApiKey)))
  .add(
    HttpApiEndpoint.post("issueKey", "/api/v1/learning/keys")
      .setPayload(KeyRequest)
      .addSuccess(IssuedKey)
      .addError(invalidValue)
      .addError(badBody)
  )
  .add(
    HttpApiEndpoint.post("revokeKey", "/api/v1/learning/keys/:keyId/revoke")
      .setPath(Schema.Struct({ keyId: PathSegment.of(Schema.String) }))
      .addSuccess(Model.ApiKey)
      .addError(enveloped(RegistryError.KeyNotFound, "KEY_NOT_FOUND"))
  )
  .addError(enveloped(DeliveryError.AuthorizationFailed, "AUTHORIZATION_FAILED"))
  .middleware(KeyRequired)

/** A server that runs, and a server that can answer. */
const HealthStatus = Schema.Struct({ status: Schema.Literal("ok") })

const health = HttpApiGroup.make("health")
  .add(HttpApiEndpoint.get("health", "/health").addSuccess(HealthStatus))
  .add(
    HttpApiEndpoint.get("ready", "/ready")
      .addSuccess(HealthStatus)
      .addError(enveloped(StoreUnavailable, "STORE_UNAVAILABLE"))
  )

const record = (value: unknown): Record<PropertyKey, unknown> => (Predicate.isRecord(value) ? value : {})

const mapRecord = (self: unknown, f: (value: unknown, name: string) => unknown) =>
  Object.fromEntries(Object.entries(record(self)).map(([name, value]) => [name, f(value, name)]))

const isOpen = (path: string) => path === "/health" || path === "/ready"

/**
 * A key in either header (contract, Registry server), for every operation but health. The platform gives each an empty list of its
 * own, by which a generated client would send none.
 */
const withSecurity = (document: Record<string, unknown>) => ({
  ...document,
  paths: mapRecord(document["paths"], (operations, path) =>
    mapRecord(operations, (operation) => {
      const { security: _, ...rest } = record(operation)
      return isOpen(path) ? { ...rest, security: [] } : rest
    })
  ),
  components: {
    ...(Predicate.isRecord(document["components"]) ? document["components"] : {}),
    securitySchemes: {
      bearer: { type: "http", scheme: "bearer" },
      apiKey: { type: "apiKey", in: "header", name: "X-Api-Key" }
    }
  },
  security: [{ bearer: [] }, { apiKey: [] }]
})

/** Where the OpenAPI document is. */
export const openApiPath = "/openapi.json"

/**
 * The whole surface: delivery, containers with their revisions, keys, health, and what the public client speaks.
 *
 * Its client takes parameters of a path as they are, not percent-encoded, and fails with what the server refused with.
 *
 * @example
 * ```ts
 * import { FetchHttpClient, HttpApiClient, HttpClient, HttpClientRequest } from "@effect/platform"
 * import { Effect, type Redacted } from "effect"
 * import { RegistryHttpApi } from "effect-agent-contracts/registry"
 *
 * // Takes a container's latest revision back, if it has one.
 * export const takeBack = (baseUrl: string, key: Redacted.Redacted, containerId: string) =>
 *   Effect.gen(function* () {
 *     const { containers } = yield* HttpApiClient.make(RegistryHttpApi.RegistryHttpApi, {
 *       baseUrl,
 *       transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(key))
 *     })
 *     const { latest } = yield* containers.getContainer({ path: { containerId } })
 *     if (latest === null) return null
 *     return yield* containers.revoke({ path: { containerId, revision: latest.revision } })
 *   }).pipe(Effect.provide(FetchHttpClient.layer))
 * ```
 */
export class RegistryHttpApi extends HttpApi.make("registry")
  .add(delivery)
  .add(containers)
  .add(keys)
  .add(health)
  .add(skills)
  .annotateContext(OpenApi.annotations({ title: "Skill registry", version: "1", transform: withSecurity })) {}
