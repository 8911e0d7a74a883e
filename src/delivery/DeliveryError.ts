/**
 * The twelve ways in which a learned-skill delivery fails, one tagged error per code of the contract.
 *
 * The `_tag` of each class is the code, so `Effect.catchTag("REVISION_REVOKED", ...)` and the `expected` of a fixture are
 * the same word. Messages are made here from fields that are safe to show: no server text, no key, no file content. The one
 * exception of the contract is `entry`, an escaped archive entry name cut to 200 code points.
 *
 * @example
 * ```ts
 * import { Effect, Match } from "effect"
 * import { DeliveryError, SkillDelivery } from "effect-agent-contracts/delivery"
 *
 * export const advice = Effect.catchAll(SkillDelivery.acquire, (error) =>
 *   Effect.succeed(
 *     Match.value(error).pipe(
 *       Match.tag("INVALID_SNAPSHOT", ({ check, entry }) => `publish again: ${check} at ${entry ?? "the archive"}`),
 *       Match.when(DeliveryError.isBlocking, ({ message }) => `ask the registry's operator: ${message}`),
 *       Match.orElse(({ retryable }) => (retryable ? "try again later" : "look at the registry's version"))
 *     )
 *   )
 * )
 * ```
 *
 * @module
 */
import { type ConfigError, Schema } from "effect"
import { ZipCheck } from "../archive/ZipReader.js"

/** A code of the contract: what a fixture's `expected` names and what `Effect.catchTag` takes. */
export const DeliveryCode = Schema.Literal(
  "INVALID_CONFIG",
  "AUTHENTICATION_FAILED",
  "AUTHORIZATION_FAILED",
  "ENTITLEMENT_REQUIRED",
  "DELIVERY_DISABLED",
  "CONTAINER_NOT_FOUND",
  "REVISION_NOT_FOUND",
  "REVISION_REVOKED",
  "NETWORK_ERROR",
  "TIMEOUT",
  "INVALID_SNAPSHOT",
  "UNSUPPORTED_SERVER"
)
export type DeliveryCode = typeof DeliveryCode.Type

/**
 * The rule that a snapshot broke. The codes of the archive rules are those of `ZipReader`; the rest are the rules of the
 * manifest, of the response's metadata and of the batch body.
 */
export const SnapshotCheck = Schema.Literal(
  ...ZipCheck.literals,
  // The archive against its ETag.
  "etag-format",
  "etag-mismatch",
  // The manifest.
  "manifest-missing",
  "manifest-encoding",
  "manifest-json",
  "manifest-shape",
  "manifest-revision",
  "skill-name",
  "skill-order",
  "skill-md-missing",
  "skill-md-encoding",
  "file-path",
  "file-order",
  "file-missing",
  "file-unlisted",
  "file-size",
  "file-digest",
  // The response around it.
  "content-type",
  "etag-header",
  "revision-header",
  "pinned-revision",
  "unchanged-unasked",
  "unchanged-mismatch",
  "body-size",
  "body-json",
  "batch-shape",
  "batch-base64"
)
export type SnapshotCheck = typeof SnapshotCheck.Type

/** What was found where a check failed, in half a sentence: for messages, and for whoever documents the checks. */
export const checkMeanings = {
  "archive-size": "the archive is longer than 32 MiB",
  "entry-count": "the archive has more than 1,000 entries",
  "decoded-size": "the entries decode to more than 32 MiB",
  "end-record": "no valid ZIP end record: not a ZIP archive, or cut short",
  "archive-comment": "the archive comment holds a second end record",
  "central-directory": "the central directory is damaged, or has another length than its headers",
  zip64: "the ZIP64 records are missing, damaged, or disagree with the plain ones",
  "split-archive": "the archive is one part of several",
  encrypted: "the entry is encrypted",
  method: "the entry is compressed with another method than deflate",
  "entry-name": "the entry's name is not UTF-8",
  "entry-path": "the entry's name is not a safe relative path",
  "duplicate-entry": "two entries have this name",
  "file-and-directory": "a file and a directory have this name",
  "entry-type": "the entry is a link or a special file",
  "directory-bytes": "the directory has bytes",
  "local-header": "the entry's local header disagrees with the central directory",
  "data-descriptor": "the entry's data descriptor disagrees with the central directory",
  overlap: "the entry overlaps another one or the central directory",
  "deflate-stream": "the compressed data is damaged, or does not end where it should",
  "entry-size": "the entry has another size than its header says",
  "etag-format": "the ETag is not 64 lower-case hex digits in quotes",
  "etag-mismatch": "the ETag is not the SHA-256 of the archive: damaged, compressed or changed on the way",
  "manifest-missing": "the archive has no manifest.json",
  "manifest-encoding": "the manifest is not UTF-8, or starts with a byte order mark",
  "manifest-json": "the manifest is not a JSON object",
  "manifest-shape": "the manifest lacks a member, has one of another type, or lists too many files",
  "manifest-revision": "the manifest is of another revision than the answer",
  "skill-name": "the skill's name is not a safe path component",
  "skill-order": "the skills are not in ascending order, or one is there twice",
  "skill-md-missing": "the skill has no SKILL.md",
  "skill-md-encoding": "the skill's SKILL.md is not UTF-8",
  "file-path": "the path in the manifest is not a safe relative path",
  "file-order": "the skill's files are not in ascending order, or one is there twice",
  "file-missing": "the manifest lists a file that the archive does not have",
  "file-unlisted": "the archive has a file that the manifest does not list",
  "file-size": "the file has another size than the manifest says",
  "file-digest": "the file has another SHA-256 than the manifest says",
  "content-type": "the server did not answer with a snapshot; check the API URL",
  "etag-header": "the answer has no strong ETag header",
  "revision-header": "the answer has no revision header",
  "pinned-revision": "the answer is of another revision than the pinned one",
  "unchanged-unasked": "the server says unchanged, but no ETag was sent",
  "unchanged-mismatch": "the server says unchanged, but of another ETag than was sent",
  "body-size": "the answer is longer than its bound",
  "body-json": "the batch answer is not JSON",
  "batch-shape": "the batch answer has other entries than were asked for, or of another shape",
  "batch-base64": "an archive in the batch answer is not canonical base64, or too long"
} as const satisfies Record<SnapshotCheck, string>

const retryable = (value: boolean) =>
  Schema.propertySignature(Schema.Boolean).pipe(Schema.withConstructorDefault(() => value))

/** Which container the error is about, where there is one; in a list of containers this tells them apart. */
const container = Schema.optionalWith(Schema.String, { exact: true })

const about = (self: { readonly container?: string }) =>
  self.container === undefined ? "" : ` (container ${JSON.stringify(self.container)})`

/**
 * A setting is missing or cannot be used; nothing was sent. From a server it blocks as a denial does.
 *
 * `setting` is the name of the environment variable or option at fault. The value is never quoted: it may be a key.
 */
export class InvalidConfig extends Schema.TaggedError<InvalidConfig>()("INVALID_CONFIG", {
  setting: Schema.String,
  problem: Schema.String,
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `${this.setting}: ${this.problem}${about(this)}`
  }
}

/** The registry does not accept the API key (HTTP 401). A denial: it blocks until a check succeeds. */
export class AuthenticationFailed extends Schema.TaggedError<AuthenticationFailed>()("AUTHENTICATION_FAILED", {
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `The registry did not accept the API key${about(this)}. Check that the key is current and belongs to this registry.`
  }
}

/** The key is accepted but may not read this container (HTTP 403). A denial. */
export class AuthorizationFailed extends Schema.TaggedError<AuthorizationFailed>()("AUTHORIZATION_FAILED", {
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `The API key may not read these skills${about(this)}. Ask for access, or use a key that has it.`
  }
}

/** The organisation's plan does not include learned skills. A denial. */
export class EntitlementRequired extends Schema.TaggedError<EntitlementRequired>()("ENTITLEMENT_REQUIRED", {
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `The registry says that learned skills are not part of this plan${about(this)}.`
  }
}

/** Delivery is switched off for this container. A denial. */
export class DeliveryDisabled extends Schema.TaggedError<DeliveryDisabled>()("DELIVERY_DISABLED", {
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `Delivery of skills is switched off${about(this)}. Switch it on at the registry.`
  }
}

/** The registry has no such container. A denial. */
export class ContainerNotFound extends Schema.TaggedError<ContainerNotFound>()("CONTAINER_NOT_FOUND", {
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `The registry has no such container${about(this)}. Check the container id.`
  }
}

/** The container has no such revision. A denial. */
export class RevisionNotFound extends Schema.TaggedError<RevisionNotFound>()("REVISION_NOT_FOUND", {
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `The container has no such revision${about(this)}. Check the pinned revision, or remove the pin.`
  }
}

/** The revision was taken back by its publisher. A denial. */
export class RevisionRevoked extends Schema.TaggedError<RevisionRevoked>()("REVISION_REVOKED", {
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    return `The revision was revoked by its publisher${about(this)}. It must not be used any longer.`
  }
}

/**
 * The registry could not be reached, or the connection broke. Says nothing about permission: it never blocks.
 *
 * `reason` is the system's own code (`ECONNREFUSED`) where there is one.
 */
export class NetworkError extends Schema.TaggedError<NetworkError>()("NETWORK_ERROR", {
  reason: Schema.optionalWith(Schema.String, { exact: true }),
  retryable: retryable(true),
  container
}) {
  override get message(): string {
    return `The registry could not be reached or broke off${this.reason === undefined ? "" : `: ${this.reason}`}${about(this)}.`
  }
}

/** The check did not end within the request timeout, verification included. Never blocks. */
export class Timeout extends Schema.TaggedError<Timeout>()("TIMEOUT", {
  timeoutMs: Schema.optionalWith(Schema.Number, { exact: true }),
  retryable: retryable(true),
  container
}) {
  override get message(): string {
    const within = this.timeoutMs === undefined ? "in time" : `within ${this.timeoutMs} ms`
    return `The check did not end ${within}${about(this)}.`
  }
}

/**
 * What the registry sent is not a snapshot that may be used. Never blocks: a held snapshot stays delivered, stale.
 *
 * `check` is the rule that was broken; `entry` is the archive entry or the manifest path at which it was broken, escaped
 * and cut to 200 code points.
 */
export class InvalidSnapshot extends Schema.TaggedError<InvalidSnapshot>()("INVALID_SNAPSHOT", {
  check: Schema.optionalWith(SnapshotCheck, { exact: true }),
  entry: Schema.optionalWith(Schema.String, { exact: true }),
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    const check = this.check === undefined ? "" : `: ${this.check} (${checkMeanings[this.check]})`
    const entry = this.entry === undefined ? "" : ` at "${this.entry}"`
    return `The snapshot is not valid${check}${entry}${about(this)}.`
  }
}

/** The statuses with which a server names another place. */
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** The server speaks another contract: an unknown schema version, a redirect, an unknown answer. Never blocks. */
export class UnsupportedServer extends Schema.TaggedError<UnsupportedServer>()("UNSUPPORTED_SERVER", {
  status: Schema.optionalWith(Schema.Number, { exact: true }),
  schemaVersion: Schema.optionalWith(Schema.Number, { exact: true }),
  retryable: retryable(false),
  container
}) {
  override get message(): string {
    if (this.status !== undefined && redirects.has(this.status)) {
      return `The registry redirected (HTTP status ${this.status}); redirects are not followed: give the final URL${about(this)}.`
    }
    const what =
      this.schemaVersion !== undefined
        ? `manifest schema version ${this.schemaVersion}`
        : this.status !== undefined
          ? `an answer with HTTP status ${this.status}`
          : "an answer"
    return `The registry gave ${what} that this contract does not know${about(this)}. Check the API URL and both versions.`
  }
}

/** The answers that say "you may not have this": confirmed, they block until a check succeeds. */
export const Denial = Schema.Union(
  AuthenticationFailed,
  AuthorizationFailed,
  EntitlementRequired,
  DeliveryDisabled,
  ContainerNotFound,
  RevisionNotFound,
  RevisionRevoked
)
export type Denial = typeof Denial.Type

/** The failures that say nothing about permission: with a snapshot held the acquire succeeds, stale. */
export const Transient = Schema.Union(NetworkError, Timeout, InvalidSnapshot, UnsupportedServer)
export type Transient = typeof Transient.Type

/** What blocks: a denial, or `INVALID_CONFIG` that came from a server (contract, Wire). */
export const Blocking = Schema.Union(InvalidConfig, ...Denial.members)
export type Blocking = typeof Blocking.Type

/** Every way in which an acquire fails. Encodes to JSON without causes or stacks. */
export const DeliveryError = Schema.Union(...Blocking.members, ...Transient.members)
export type DeliveryError = typeof DeliveryError.Type

const blockingCodes: ReadonlySet<unknown> = new Set(Blocking.members.map((member) => member._tag))

/** Whether a code, from wherever it came, is that of a failure that blocks. */
export const isBlockingCode = (code: unknown): code is Blocking["_tag"] => blockingCodes.has(code)

/** Whether the failure blocks delivery until a check succeeds. */
export const isBlocking = (error: DeliveryError): error is Blocking => isBlockingCode(error._tag)

const constructors = {
  INVALID_CONFIG: (detail: Detail) =>
    new InvalidConfig({ setting: "request", problem: "the registry refused it as misconfigured", ...detail }),
  AUTHENTICATION_FAILED: (detail: Detail) => new AuthenticationFailed(detail),
  AUTHORIZATION_FAILED: (detail: Detail) => new AuthorizationFailed(detail),
  ENTITLEMENT_REQUIRED: (detail: Detail) => new EntitlementRequired(detail),
  DELIVERY_DISABLED: (detail: Detail) => new DeliveryDisabled(detail),
  CONTAINER_NOT_FOUND: (detail: Detail) => new ContainerNotFound(detail),
  REVISION_NOT_FOUND: (detail: Detail) => new RevisionNotFound(detail),
  REVISION_REVOKED: (detail: Detail) => new RevisionRevoked(detail),
  NETWORK_ERROR: (detail: Detail) => new NetworkError(detail),
  TIMEOUT: (detail: Detail) => new Timeout(detail),
  INVALID_SNAPSHOT: (detail: Detail) => new InvalidSnapshot(detail),
  UNSUPPORTED_SERVER: (detail: Detail) => new UnsupportedServer(detail)
} satisfies Record<DeliveryCode, (detail: Detail) => DeliveryError>

interface Detail {
  readonly retryable?: boolean
  readonly container?: string
}

/**
 * The error that a code from outside stands for: a server's envelope, a batch entry, a fixture's reply. Without a
 * `retryable` of the server's own it is true for `NETWORK_ERROR` and `TIMEOUT` and false for the rest.
 */
export const fromCode = (code: DeliveryCode, detail: Detail = {}): DeliveryError => constructors[code](detail)

/**
 * The setting that a `Config` could not give. Its message may quote the value, so it is left behind.
 *
 * @internal
 */
export const fromConfigError = (error: ConfigError.ConfigError): InvalidConfig => {
  switch (error._op) {
    case "And":
    case "Or":
      return fromConfigError(error.left)
    case "MissingData":
      return new InvalidConfig({ setting: error.path.join("."), problem: "is not set" })
    default:
      return new InvalidConfig({ setting: error.path.join("."), problem: "cannot be read" })
  }
}

/**
 * The same error, saying which container it is about.
 *
 * @internal
 */
export const inContainer = (error: DeliveryError, container: string): DeliveryError =>
  error.container === undefined
    ? Schema.decodeSync(DeliveryError)({ ...Schema.encodeSync(DeliveryError)(error), container })
    : error
