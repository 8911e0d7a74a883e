/**
 * How a call to a running registry fails.
 *
 * @module
 */
import { Data, Option, Predicate, Schema } from "effect"
import * as DeliveryError from "../delivery/DeliveryError.js"
import { InvalidUpload } from "../publishing/UploadProblem.js"
import * as RegistryError from "../registry/RegistryError.js"
import { InvalidRequest, RequestTooLarge } from "../registry/RequestBody.js"
import { CorruptBlob } from "../store/BlobStore.js"

/** The key's scope does not include what was asked. */
export class NotAllowed extends Data.TaggedError("AUTHORIZATION_FAILED") {
  override get message(): string {
    return "The API key may not do this. Use one whose scope includes it: publish, or admin for keys."
  }
}

/** A refusal of the registry, by its code. */
const Refusal = Schema.Union(
  ...DeliveryError.Blocking.members,
  CorruptBlob,
  InvalidUpload,
  InvalidRequest,
  RequestTooLarge,
  RegistryError.BaseMismatch,
  RegistryError.InvalidPage,
  RegistryError.InvalidValue,
  RegistryError.KeyNotFound,
  RegistryError.LastVersion,
  RegistryError.RevokedSet,
  RegistryError.SkillNameChanged,
  RegistryError.SkillNotFound,
  RegistryError.SkillVersionNotFound,
  RegistryError.UndeliverableSet
)

/** Every way in which a call fails. Messages are made here, not the server's. */
export type RegistryFailure =
  | Exclude<typeof Refusal.Type, DeliveryError.AuthorizationFailed>
  | NotAllowed
  | DeliveryError.NetworkError
  | DeliveryError.Timeout
  | DeliveryError.UnsupportedServer

const isRefusal = Schema.is(Refusal)

/** What a client of the API failed with. */
export const fromUnknown = (error: unknown): RegistryFailure => {
  if (isRefusal(error)) return error._tag === "AUTHORIZATION_FAILED" ? new NotAllowed() : error
  return error instanceof DeliveryError.NetworkError ||
    error instanceof DeliveryError.Timeout ||
    error instanceof DeliveryError.UnsupportedServer
    ? error
    : // A body that is none of this API's.
      new DeliveryError.UnsupportedServer({})
}

const decodeRefusal = Schema.decodeUnknownOption(Refusal)

/** The error in either envelope: that of `/v1` has code and fields in `details`, the other one beside the message. */
export const fromBody = (body: unknown): Option.Option<typeof Refusal.Type> => {
  const error = Predicate.hasProperty(body, "error") ? body.error : undefined
  const details = Predicate.hasProperty(error, "details") ? error.details : error
  if (!Predicate.isRecord(details)) return Option.none()
  return decodeRefusal({ ...details, _tag: details["error_code"] ?? details["code"] })
}
