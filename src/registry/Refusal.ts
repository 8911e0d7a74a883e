/**
 * How every failure is answered: its status and its envelope (contract, Registry server). `/v1` answers in the envelope of the
 * API that its clients know, everything else in that of delivery.
 *
 * @module
 */
import { HttpApiSchema, HttpServerResponse } from "@effect/platform"
import { Effect, ParseResult, Predicate, Schema } from "effect"
import { Blocking, type DeliveryError } from "../delivery/DeliveryError.js"
import type { InvalidUpload } from "../publishing/UploadProblem.js"
import type { CorruptBlob } from "../store/BlobStore.js"
import type { StoreUnavailable } from "../store/StoreError.js"
import type { ServerBusy } from "./ByteBudget.js"
import type { RateLimited } from "./RateLimit.js"
import type * as RegistryError from "./RegistryError.js"
import type { InvalidRequest, RequestStalled, RequestTooLarge } from "./RequestBody.js"

/** There is nothing at this path, or not with this method. */
export class RouteNotFound extends Schema.TaggedError<RouteNotFound>()("ROUTE_NOT_FOUND", {}) {
  override get message(): string {
    return "The registry has no such route."
  }
}

/** A bug of the server, which its log describes. */
export class InternalError extends Schema.TaggedError<InternalError>()("INTERNAL_ERROR", {}) {
  override get message(): string {
    return "The registry failed to answer."
  }
}

/** The server is about to stop. Another one, or this one in a moment, answers. */
export class ShuttingDown extends Schema.TaggedError<ShuttingDown>()("SHUTTING_DOWN", {}) {
  override get message(): string {
    return "The registry is shutting down."
  }
}

/** Whatever is answered with a refusal. */
export type Failure =
  | DeliveryError
  | CorruptBlob
  | InternalError
  | InvalidUpload
  | InvalidRequest
  | RateLimited
  | RequestStalled
  | RequestTooLarge
  | RouteNotFound
  | ServerBusy
  | ShuttingDown
  | StoreUnavailable
  | RegistryError.BaseMismatch
  | RegistryError.InvalidPage
  | RegistryError.InvalidValue
  | RegistryError.KeyNotFound
  | RegistryError.LastVersion
  | RegistryError.RevokedSet
  | RegistryError.SkillNameChanged
  | RegistryError.SkillNotFound
  | RegistryError.SkillVersionNotFound
  | RegistryError.UndeliverableSet

/**
 * Clients try 408, 409, 429 and 5xx again by themselves, so only what may pass is one of those. A denial is a 403 where it can
 * be: a client knows a 403 for a denial before it has read the body.
 */
const statuses = {
  INVALID_CONFIG: 400,
  INVALID_PAGE: 400,
  INVALID_REQUEST: 400,
  INVALID_UPLOAD: 400,
  INVALID_VALUE: 400,
  LAST_VERSION: 400,
  SKILL_NAME_CHANGED: 400,
  AUTHENTICATION_FAILED: 401,
  AUTHORIZATION_FAILED: 403,
  DELIVERY_DISABLED: 403,
  ENTITLEMENT_REQUIRED: 403,
  REVISION_REVOKED: 403,
  CONTAINER_NOT_FOUND: 404,
  KEY_NOT_FOUND: 404,
  REVISION_NOT_FOUND: 404,
  ROUTE_NOT_FOUND: 404,
  SKILL_NOT_FOUND: 404,
  SKILL_VERSION_NOT_FOUND: 404,
  REQUEST_STALLED: 408,
  BASE_MISMATCH: 412,
  REQUEST_TOO_LARGE: 413,
  REVOKED_SET: 422,
  UNDELIVERABLE_SET: 422,
  RATE_LIMITED: 429,
  CORRUPT_BLOB: 500,
  INTERNAL_ERROR: 500,
  INVALID_SNAPSHOT: 500,
  UNSUPPORTED_SERVER: 500,
  NETWORK_ERROR: 503,
  SERVER_BUSY: 503,
  SHUTTING_DOWN: 503,
  STORE_UNAVAILABLE: 503,
  TIMEOUT: 503
} as const satisfies Record<Failure["_tag"], number>

/** Whether a value is a failure that is answered with a refusal. */
export const isFailure = (value: unknown): value is Failure =>
  Predicate.hasProperty(value, "_tag") && typeof value._tag === "string" && Object.hasOwn(statuses, value._tag)

type Status = (typeof statuses)[keyof typeof statuses]

/** The names that the API under `/v1` has for kinds of errors. */
const skillsTypes = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  408: "timeout_error",
  412: "invalid_request_error",
  413: "request_too_large",
  422: "invalid_request_error",
  429: "rate_limit_error",
  500: "api_error",
  503: "overloaded_error"
} as const satisfies Record<Status, string>

const blocking: ReadonlySet<string> = new Set(Blocking.members.map((member) => member._tag))

/** What only the server tells apart is one code to its clients (contract, Registry server). */
const codeOf = (tag: Failure["_tag"]) => (statuses[tag] === 429 || statuses[tag] === 503 ? "NETWORK_ERROR" : tag)

/** What every answer says of a failure, whatever the envelope. */
const describe = (failure: Failure) => {
  const status = statuses[failure._tag]
  const passes = status === 408 || status === 429 || status === 503
  return {
    status,
    code: codeOf(failure._tag),
    // A client that only asked learns nothing of the store.
    message:
      failure._tag === "STORE_UNAVAILABLE" ? "The registry cannot answer at the moment. Ask again." : failure.message,
    category: blocking.has(failure._tag) ? "denial" : passes || status === 500 ? "transient" : "refusal",
    retryable: passes,
    detail: detailOf(failure),
    headers: {
      ...(failure._tag === "RATE_LIMITED" ? { "retry-after": String(failure.retryAfterSeconds) } : {}),
      ...(status === 503 ? { "retry-after": "1" } : {}),
      ...(status === 401 ? { "www-authenticate": 'Bearer realm="registry"' } : {}),
      // The public client tries every 500 again by itself; a damaged archive stays damaged.
      ...(status === 500 ? { "x-should-retry": "false" } : {})
    }
  } as const
}

/**
 * The members of the error beside what every envelope has, so that a program can go on: the problems of an upload, the revision
 * that is latest now. All are safe to show but the reason of the store.
 */
const detailOf = (failure: Failure): Readonly<Record<string, unknown>> => {
  if (failure._tag === "STORE_UNAVAILABLE") return { reason: "the registry cannot reach it" }
  const { _tag, ...detail } = { ...failure }
  return detail
}

/** The answer in delivery's envelope. */
export const answer = (failure: Failure): HttpServerResponse.HttpServerResponse => {
  const { category, code, detail, headers, message, retryable, status } = describe(failure)
  return HttpServerResponse.unsafeJson(
    { error: { ...detail, code, message, category, retryable } },
    { status, headers }
  )
}

/** The answer in the envelope of `/v1`. */
export const skillsAnswer = (failure: Failure): HttpServerResponse.HttpServerResponse => {
  const { code, detail, headers, message, status } = describe(failure)
  return HttpServerResponse.unsafeJson(
    { type: "error", error: { type: skillsTypes[status], message, details: { ...detail, error_code: code } } },
    { status, headers }
  )
}

/** The answer, and a line in the log when the failure is the server's: which one it was its client does not learn. */
export const answering =
  (answer: (failure: Failure) => HttpServerResponse.HttpServerResponse) =>
  (failure: Failure): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
    Effect.as(
      statuses[failure._tag] < 500
        ? Effect.void
        : Effect.annotateLogs(Effect.logWarning("A request was refused."), {
            "error.code": failure._tag,
            ...(failure._tag === "STORE_UNAVAILABLE" ? { "error.reason": failure.reason } : {}),
            ...(failure._tag === "CORRUPT_BLOB" ? { "blob.sha256": failure.sha256 } : {})
          }),
      answer(failure)
    )

/** An error as it stands in delivery's envelope, for the declaration of an endpoint and for its clients. */
export const enveloped = <A extends Failure, I>(self: Schema.Schema<A, I>, tag: A["_tag"]) => {
  const status = statuses[tag]
  const Envelope = Schema.Struct({
    error: Schema.Struct(
      {
        code: Schema.Literal(codeOf(tag)),
        message: Schema.String,
        category: Schema.String,
        retryable: Schema.Boolean
      },
      Schema.Record({ key: Schema.String, value: Schema.Unknown })
    )
  })
  return Schema.transformOrFail(Envelope, Schema.typeSchema(self), {
    strict: true,
    decode: ({ error }) => ParseResult.decodeUnknown(self)({ ...error, _tag: tag }),
    encode: (failure) => {
      const { category, code, detail, message, retryable } = describe(failure)
      return ParseResult.succeed({ error: { ...detail, code, message, category, retryable } })
    }
  }).annotations({ ...HttpApiSchema.annotations({ status }), identifier: tag })
}
