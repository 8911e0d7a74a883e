/**
 * The wire of learned-skill delivery (contract, Wire): routes, headers, media types, bounds and bodies. Client and server
 * both take them from here, so neither can drift.
 *
 * @example
 * ```ts
 * import { HttpServerResponse } from "@effect/platform"
 * import { DeliveryError, RegistryApi, type Snapshot } from "effect-agent-contracts/delivery"
 *
 * // What a server answers for one container.
 * export const answer = (current: Snapshot.SnapshotResponse | undefined, ifNoneMatch: string | undefined) => {
 *   if (current === undefined) {
 *     return HttpServerResponse.unsafeJson(RegistryApi.errorEnvelope(new DeliveryError.ContainerNotFound({})), { status: 404 })
 *   }
 *   return ifNoneMatch === current.etag
 *     ? HttpServerResponse.empty({ status: 304, headers: RegistryApi.unchangedHeaders(current.revision, current.etag) })
 *     : HttpServerResponse.uint8Array(current.archive, { headers: RegistryApi.snapshotHeaders(current) })
 * }
 * ```
 *
 * @module
 */
import { Effect, Encoding, Schema } from "effect"
import * as Digest from "../archive/Digest.js"
import { DeliveryCode, type DeliveryError, InvalidConfig, isBlocking } from "./DeliveryError.js"
import * as Manifest from "./Manifest.js"
import { limits, type SnapshotResponse } from "./Snapshot.js"

/** One container, relative to the API URL, as a router's pattern. `GET`, with the pin in the query `revision`. */
export const snapshotRoute = "/api/v1/learning/containers/:containerId/skills"

/** Many containers, relative to the API URL. `POST`, body `BatchRequest`. */
export const batchRoute = "/api/v1/learning/skills/batch"

/** Path and query of one container's snapshot. */
export const snapshotPath = (request: SnapshotRequest): string => {
  const path = snapshotRoute.replace(":containerId", () => encodeURIComponent(request.containerId))
  return request.revision === undefined ? path : `${path}?revision=${encodeURIComponent(request.revision)}`
}

/** The media types of an archive, and of a batch, its request and an error. */
export const mediaTypes = { archive: "application/zip", json: "application/json" } as const

/** The response headers that every 200 and 304 of one container carries, in lower case. */
export const metadataHeaders = { etag: "etag", revision: "x-copilotkit-skills-revision" } as const

/** How many containers one batch may ask for. */
export const maximumBatch = 50

/** Of an error's body, which is read no further. In bytes. */
export const maximumErrorBytes = 64 * 1024

/** The length of canonical base64, in characters. */
const base64Length = (bytes: number) => Math.ceil(bytes / 3) * 4

/** Of the body of a batch of `containers`, in bytes; JavaScript cannot hold a much longer text. */
export const maximumBatchBytes = (containers: number): number =>
  Math.min(containers * base64Length(limits.archiveBytes) + 64 * 1024, 384 * 1024 * 1024)

const isContainerId = (id: string) =>
  id.trim() !== "" && id !== "." && id !== ".." && !/[\p{Control}\p{Surrogate}]/u.test(id)

const containerProblem = "must not be blank, `.` or `..`, and must be well-formed Unicode without control characters"
const batchProblem = `must be 1 to ${maximumBatch} containers, each named once`

/** An opaque container id: not blank, not `.` or `..`, well-formed Unicode without control characters. */
export const ContainerId = Schema.String.pipe(Schema.filter(isContainerId, { message: () => containerProblem }))

/** An opaque revision: not blank, well-formed Unicode. The manifest's rule, so that whatever is verified can be pinned. */
export const Revision = Manifest.Revision

/** A strong ETag: 64 lower-case hex digits in quotes. */
export const ETag = Schema.String.pipe(Schema.pattern(Digest.etagPattern))

/** What is asked for one container: in a batch literally this, in a single request path, query and `If-None-Match`. */
export const SnapshotRequest = Schema.Struct({
  containerId: ContainerId,
  /** The pinned revision. */
  revision: Schema.optionalWith(Revision, { exact: true }),
  /** The ETag of the held snapshot. */
  ifNoneMatch: Schema.optionalWith(ETag, { exact: true })
})
export type SnapshotRequest = typeof SnapshotRequest.Type

const isSelection = (requests: ReadonlyArray<{ readonly containerId: string }>) =>
  requests.length >= 1 &&
  requests.length <= maximumBatch &&
  new Set(requests.map((request) => request.containerId)).size === requests.length

/** The body of a batch request: 1 to 50 containers, each asked once. */
export const BatchRequest = Schema.Struct({
  containers: Schema.Array(SnapshotRequest).pipe(Schema.filter(isSelection, { message: () => batchProblem }))
})

/**
 * What `BatchRequest` asks of its containers, as the configuration error that names the setting; nothing that was given is
 * quoted. For a single request give a list of one.
 */
export const validateSelection = (
  requests: ReadonlyArray<SnapshotRequest>
): Effect.Effect<ReadonlyArray<SnapshotRequest>, InvalidConfig> => {
  for (const { containerId, ifNoneMatch, revision } of requests) {
    if (!isContainerId(containerId)) return new InvalidConfig({ setting: "container", problem: containerProblem })
    if (revision !== undefined && !Schema.is(Revision)(revision)) {
      return new InvalidConfig({ setting: "revision", problem: Manifest.revisionProblem, container: containerId })
    }
    if (ifNoneMatch !== undefined && !Schema.is(ETag)(ifNoneMatch)) {
      return new InvalidConfig({ setting: "ifNoneMatch", problem: "must be a strong ETag", container: containerId })
    }
  }
  return isSelection(requests)
    ? Effect.succeed(requests)
    : new InvalidConfig({ setting: "containers", problem: batchProblem })
}

/** A server's headers for an archive. */
export const snapshotHeaders = (response: Omit<SnapshotResponse, "contentType">) => ({
  "content-type": mediaTypes.archive,
  ...unchangedHeaders(response.revision, response.etag)
})

/** A server's headers for a 304: the held snapshot is the current one. */
export const unchangedHeaders = (revision: string, etag: string) => ({
  [metadataHeaders.etag]: etag,
  [metadataHeaders.revision]: revision
})

/** The body of every answer that is an error: all four members, with these types. */
export const ErrorEnvelope = Schema.Struct({
  error: Schema.Struct({
    code: DeliveryCode,
    message: Schema.String,
    category: Schema.String,
    retryable: Schema.Boolean
  })
})
export type ErrorEnvelope = typeof ErrorEnvelope.Type

/** A server's envelope for an error; the category tells what blocks from what does not. */
export const errorEnvelope = (error: DeliveryError): ErrorEnvelope => ({
  error: {
    code: error._tag,
    message: error.message,
    category: isBlocking(error) ? "denial" : "transient",
    retryable: error.retryable
  }
})

/** One container's part of a batch answer. */
export const BatchEntry = Schema.Union(
  Schema.Struct({
    containerId: ContainerId,
    status: Schema.Literal("snapshot"),
    revision: Revision,
    etag: ETag,
    contentType: Schema.Literal(mediaTypes.archive),
    /** Canonical: padded, without white space. */
    bytesBase64: Schema.String.pipe(Schema.maxLength(base64Length(limits.archiveBytes)))
  }),
  Schema.Struct({
    containerId: ContainerId,
    status: Schema.Literal("unchanged"),
    revision: Revision,
    etag: ETag,
    bytesBase64: Schema.optionalWith(Schema.Never, { exact: true })
  }),
  Schema.Struct({
    containerId: ContainerId,
    status: Schema.Literal("error"),
    error: Schema.Struct({ code: DeliveryCode, retryable: Schema.Boolean })
  })
)
export type BatchEntry = typeof BatchEntry.Type

/** The body of a batch answer: one entry for each container that was asked, in that order. */
export const BatchResponse = Schema.Struct({ containers: Schema.Array(BatchEntry) })
export type BatchResponse = typeof BatchResponse.Type

/** A server's entry for a container's archive. */
export const snapshotEntry = (containerId: string, response: Omit<SnapshotResponse, "contentType">): BatchEntry => ({
  containerId,
  status: "snapshot",
  revision: response.revision,
  etag: response.etag,
  contentType: mediaTypes.archive,
  bytesBase64: Encoding.encodeBase64(response.archive)
})

/** A server's entry for a container whose held snapshot is the current one. */
export const unchangedEntry = (containerId: string, revision: string, etag: string): BatchEntry => ({
  containerId,
  status: "unchanged",
  revision,
  etag
})

/** A server's entry for a container that it does not deliver. */
export const errorEntry = (containerId: string, error: DeliveryError): BatchEntry => ({
  containerId,
  status: "error",
  error: { code: error._tag, retryable: error.retryable }
})
