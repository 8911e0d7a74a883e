/**
 * How a call to a running registry fails.
 *
 * Whoever answers may be no registry, or one that means ill. So a message is made here, from the code; of what the server says
 * beside it no more is shown than ids that are such, rules that are known here and, quoted, names.
 *
 * @module
 */
import { Data, Option, Predicate, Redacted, Schema } from "effect"
import * as DeliveryError from "../delivery/DeliveryError.js"
import { UploadRule } from "../publishing/UploadProblem.js"
import * as Render from "./Render.js"

/** The key's scope does not include what was asked. */
export class NotAllowed extends Data.TaggedError("AUTHORIZATION_FAILED") {
  override get message(): string {
    return "The API key may not do this. Use one whose scope includes it: publish, or admin for keys and the delivery switch."
  }
}

/** Nobody answers at the address, or whoever did broke off. `reason` is the code of the system. */
export class Unreachable extends Data.TaggedError("NETWORK_ERROR")<{
  readonly url: string
  readonly reason: string | undefined
}> {
  override get message(): string {
    const reason = this.reason === undefined ? "" : `: ${this.reason}`
    return `The registry at ${this.url} could not be reached or broke off${reason}. Is it running, and is the URL right?`
  }
}

/** The registry says that it cannot answer at the moment. */
export class Unavailable extends Data.TaggedError("NETWORK_ERROR")<{ readonly url: string; readonly status: number }> {
  override get message(): string {
    const what = this.status === 429 ? "is asked too often" : "cannot answer at the moment"
    return `The registry at ${this.url} ${what} (HTTP status ${this.status}).`
  }
}

/** What each of the registry's own refusals means to whoever runs a command. */
const meanings = {
  BASE_MISMATCH: "Others published the container again and again meanwhile; try again",
  CONTAINER_NOT_FOUND: "The registry has no such container; see registry container list",
  CORRUPT_BLOB: "An archive that the registry stores is damaged: restore it from a backup, or publish the skill again",
  INVALID_PAGE: "The registry does not know a page that it gave",
  INVALID_REQUEST: "The registry does not take this request; check both versions",
  INVALID_UPLOAD: "The registry does not take this upload",
  INVALID_VALUE: "A name or a title must be one line of well-formed Unicode, not blank and at most 255 characters long",
  KEY_NOT_FOUND: "The registry has no such key; see registry key list",
  REQUEST_TOO_LARGE: "The request is longer than the registry takes",
  REVISION_NOT_FOUND: "The container has no such revision; see registry revisions",
  REVOKED_SET: "This set was revoked, and what was revoked does not come back: publish other versions",
  SKILL_NAME_CHANGED: "The skill has another name than the upload: keep the name, or publish another skill",
  SKILL_NOT_FOUND: "The registry has no such skill",
  SKILL_VERSION_NOT_FOUND: "The registry has no such version of the skill",
  UNDELIVERABLE_SET: "No agent could take this set"
} as const

type Code = keyof typeof meanings

/** A refusal of the registry's own, by its code. */
export class Refused<C extends Code> extends Data.Error<{
  readonly _tag: C
  /** What it is about, each safe to show. */
  readonly details: ReadonlyArray<string>
}> {
  override get message(): string {
    return `${meanings[this._tag]}${this.details.length === 0 ? "" : ` (${this.details.join(", ")})`}.`
  }
}

type Refusal = { readonly [C in Code]: Refused<C> }[Code]

/** Every way in which a call fails. */
export type RegistryFailure = DeliveryError.DeliveryError | NotAllowed | Refusal | Unavailable | Unreachable

const isDeliveryError = Schema.is(DeliveryError.DeliveryError)

/** What a client of the API failed with. */
export const fromUnknown = (error: unknown): RegistryFailure =>
  error instanceof NotAllowed ||
  error instanceof Refused ||
  error instanceof Unavailable ||
  error instanceof Unreachable ||
  isDeliveryError(error)
    ? error
    : // A body that is none of this API's.
      new DeliveryError.UnsupportedServer({})

const isCode = (code: unknown): code is Code => typeof code === "string" && Object.hasOwn(meanings, code)

/**
 * The error in either envelope: that of `/v1` has code and fields in `details`, the other one beside the message. A detail in
 * which the key is, whatever else it looks like, is left out.
 */
export const fromBody = (body: unknown, apiKey: Redacted.Redacted): Option.Option<RegistryFailure> => {
  const error = Predicate.hasProperty(body, "error") ? body.error : undefined
  const fields = Predicate.hasProperty(error, "details") ? error.details : error
  if (!Predicate.isRecord(fields)) return Option.none()
  const code = fields["error_code"] ?? fields["code"]
  if (code === "AUTHORIZATION_FAILED") return Option.some(new NotAllowed())
  if (!isCode(code)) {
    return DeliveryError.isBlockingCode(code) ? Option.some(DeliveryError.fromCode(code)) : Option.none()
  }
  const details = [...ids(fields), ...problems(fields["problems"])]
  return Option.some(
    new Refused({
      _tag: code,
      details: details.filter((detail) => !detail.includes(Redacted.value(apiKey)))
    }) as Refusal
  )
}

/** The ids that a refusal may be about, and what each looks like. */
const idPatterns = {
  skillId: /^skill_[0-9a-f]{32}$/,
  version: /^(?:\d{1,15}|skillver_[0-9a-f]{32})$/,
  revision: /^[0-9a-f]{64}$/,
  keyId: /^[0-9a-f]{18}$/
} as const

const ids = (fields: Readonly<Record<PropertyKey, unknown>>): ReadonlyArray<string> =>
  Object.entries(idPatterns).flatMap(([field, pattern]) => {
    const id = fields[field]
    return typeof id === "string" && pattern.test(id) ? [`${field.replace("Id", "")} ${id}`] : []
  })

/** More of them, or of a name, help nobody. */
const mostProblems = 20
const mostCharacters = 200

const problems = (list: unknown): ReadonlyArray<string> =>
  Array.isArray(list) ? list.slice(0, mostProblems).flatMap(problem) : []

/** The rule that was broken, what it says of delivery, and where: a file of the upload, or a skill of the set. */
const problem = (found: unknown): ReadonlyArray<string> => {
  if (!Predicate.isRecord(found)) return []
  const rule = found["rule"]
  if (!isRule(rule)) return []
  const where = [found["skill"], found["file"]]
    .filter(Predicate.isString)
    .map((name) => Render.quote(name.slice(0, mostCharacters)))
  return [[...where, isCheck(rule) ? `${rule}, ${DeliveryError.checkMeanings[rule]}` : rule].join(" ")]
}

const isCheck = Schema.is(DeliveryError.SnapshotCheck)
const isRule = Schema.is(Schema.Union(DeliveryError.SnapshotCheck, UploadRule))
