/**
 * What a registry's answer means (contract, Wire): the models of a reply, and how a response is read into one. Nothing that
 * a server wrote leaves this file but a revision, an ETag, a code and an archive.
 *
 * @module
 */

import type { HttpClientError, HttpClientResponse } from "@effect/platform"
import { Data, Effect, Either, Option, Predicate, Schema, Stream } from "effect"
import { yieldToEventLoop } from "#codec"
import * as Base64 from "../archive/Base64.js"
import * as BoundedJson from "../archive/BoundedJson.js"
import {
  AuthenticationFailed,
  AuthorizationFailed,
  type Blocking,
  type DeliveryError,
  Denial,
  fromCode,
  InvalidSnapshot,
  isBlockingCode,
  NetworkError,
  type SnapshotCheck,
  UnsupportedServer
} from "./DeliveryError.js"
import * as RegistryApi from "./RegistryApi.js"
import { limits, mediaType, type SnapshotResponse } from "./Snapshot.js"

/**
 * The registry's answer about one container. With `transfer` nobody else holds the archive, so that verification may take
 * it over instead of copying it.
 */
export type SnapshotReply =
  | { readonly _tag: "Snapshot"; readonly response: SnapshotResponse; readonly transfer?: boolean }
  | { readonly _tag: "Unchanged"; readonly revision: string; readonly etag: string }

/**
 * A denial that was certain when the head of the answer arrived. `refined` reads the body, once, which may name a more
 * exact denial; it never fails and is cut short by whoever waits for it.
 */
export interface Denied {
  readonly _tag: "Denied"
  readonly denial: Blocking
  readonly refined: Effect.Effect<Blocking>
}

/** One answer per requested container, in the order of the request. */
export interface BatchReply {
  readonly _tag: "Batch"
  readonly replies: ReadonlyArray<Either.Either<SnapshotReply, DeliveryError>>
}

/** Told of the bytes received so far and, where the registry has said it, of how many there will be. */
export type OnBytes = (received: number, total: number | undefined) => Effect.Effect<void>

/** The container that an error is about; nothing where it concerns a whole batch. */
interface About {
  readonly container?: string
}

type Response = HttpClientResponse.HttpClientResponse

/** The answer to a request for one container. */
export const readSnapshot = Effect.fnUntraced(function* (
  response: Response,
  request: RegistryApi.SnapshotRequest,
  onBytes: OnBytes
): Effect.fn.Return<SnapshotReply | Denied, DeliveryError> {
  const about = { container: request.containerId }
  switch (response.status) {
    case 200: {
      if (mediaTypeOf(response) !== RegistryApi.mediaTypes.archive) {
        return yield* new InvalidSnapshot({ check: "content-type", ...about })
      }
      const { etag, revision } = yield* readMetadata(response, request)
      const archive = yield* readWhole(response, limits.archiveBytes, about, onBytes)
      return {
        _tag: "Snapshot",
        response: { revision, etag, contentType: RegistryApi.mediaTypes.archive, archive },
        transfer: true
      }
    }
    case 304: {
      if (request.ifNoneMatch === undefined) return yield* new InvalidSnapshot({ check: "unchanged-unasked", ...about })
      const { etag, revision } = yield* readMetadata(response, request)
      if (etag !== request.ifNoneMatch) return yield* new InvalidSnapshot({ check: "unchanged-mismatch", ...about })
      return { _tag: "Unchanged", revision, etag }
    }
    default:
      return yield* readRefusal(response, about)
  }
})

/** The answer to a request for several containers. */
export const readBatch = Effect.fnUntraced(function* (
  response: Response,
  requests: ReadonlyArray<RegistryApi.SnapshotRequest>,
  onBytes: OnBytes
): Effect.fn.Return<BatchReply | Denied, DeliveryError> {
  if (response.status !== 200) return yield* readRefusal(response, {})
  if (mediaTypeOf(response) !== RegistryApi.mediaTypes.json)
    return yield* new InvalidSnapshot({ check: "content-type" })
  const bytes = yield* readWhole(response, RegistryApi.maximumBatchBytes(requests.length), {}, onBytes)
  const body = yield* Effect.mapError(
    BoundedJson.parse(bytes),
    ({ reason }) => new InvalidSnapshot({ check: reason === "syntax" ? "body-json" : "batch-shape" })
  )
  const entries = entriesOf(body)
  const replies = yield* readEntries(entries, requests).pipe(
    Effect.catchTag("MalformedBatch", (malformed) => salvage(entries, requests, malformed))
  )
  return { _tag: "Batch", replies }
})

/** A connection that could not be made or broke. */
export const networkError = (error: HttpClientError.HttpClientError, about: About): NetworkError => {
  const reason = systemCode(error)
  return new NetworkError({ ...about, ...(reason === undefined ? {} : { reason }) })
}

/** The first system code on the chain of causes. Nothing else of a transport's error is shown: it may quote a header. */
const systemCode = (error: unknown): string | undefined => {
  let cause = error
  // Bounded: a chain may be a ring.
  for (let depth = 0; depth < 8; depth++) {
    const code = Predicate.hasProperty(cause, "code") ? cause.code : undefined
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]+$/.test(code)) return code
    cause = Predicate.hasProperty(cause, "cause") ? cause.cause : undefined
  }
  return undefined
}

const mediaTypeOf = ({ headers }: Response) => mediaType(headers["content-type"] ?? "")

/** The metadata that a 200 and a 304 both carry. */
const readMetadata = ({ headers }: Response, request: RegistryApi.SnapshotRequest) => {
  const invalid = (check: SnapshotCheck) => Either.left(new InvalidSnapshot({ check, container: request.containerId }))
  const etag = headers[RegistryApi.metadataHeaders.etag]
  const revision = headers[RegistryApi.metadataHeaders.revision]
  if (!Schema.is(RegistryApi.ETag)(etag)) return invalid("etag-header")
  if (!Schema.is(RegistryApi.Revision)(revision)) return invalid("revision-header")
  if (request.revision !== undefined && revision !== request.revision) return invalid("pinned-revision")
  return Either.right({ revision, etag })
}

/** Every answer that is neither 200 nor, for one container, 304. */
const readRefusal = (response: Response, about: About): Effect.Effect<Denied, DeliveryError> => {
  const { status } = response
  if (status === 101) return Effect.zipRight(closeUpgraded(response), new UnsupportedServer({ status, ...about }))
  if (status === 401) return new AuthenticationFailed(about)
  if (status === 403) return Effect.succeed(denied(response, about))
  // A browser's fetch gives 0 for a redirect that it was told not to follow.
  if (status === 0) return new UnsupportedServer(about)
  if (status >= 300 && status < 400) return new UnsupportedServer({ status, ...about })
  return Effect.flatMap(readError(response, about), (error) =>
    Effect.fail(Option.getOrElse(error, () => new UnsupportedServer({ status, ...about })))
  )
}

/**
 * `NodeHttpClient.layer` gives an upgrade, which nobody asked for, as a response whose body has ended. The socket has then
 * left agent and request, so that neither the end of the body nor the abort of the request closes it, nor the layer's end:
 * only destroying the message itself does, as long as the body is unread. Other clients refuse an upgrade on their own.
 */
const closeUpgraded = (response: Response): Effect.Effect<void> =>
  Effect.sync(() => {
    const message = Predicate.hasProperty(response, "source") ? response.source : undefined
    if (Predicate.hasProperty(message, "destroy") && Predicate.isFunction(message.destroy)) message.destroy()
  })

const denied = (response: Response, about: About): Denied => {
  const denial = new AuthorizationFailed(about)
  return {
    _tag: "Denied",
    denial,
    refined: readError(response, about).pipe(
      Effect.map(Option.filter(isDenial)),
      Effect.map(Option.getOrElse(() => denial)),
      Effect.orElseSucceed(() => denial)
    )
  }
}

/** The error that the body names; none where it is not an envelope of this contract. */
const readError = (response: Response, about: About): Effect.Effect<Option.Option<DeliveryError>, NetworkError> =>
  readBody(response, RegistryApi.maximumErrorBytes, about).pipe(
    Effect.map((body) => Option.flatMap(parseJson(body), decodeErrorEnvelope)),
    Effect.map(Option.map(({ error }) => fromCode(error.code, { retryable: error.retryable, ...about }))),
    Effect.catchTag("BodyTooLong", () => Effect.succeedNone)
  )

const decodeErrorEnvelope = Schema.decodeUnknownOption(RegistryApi.ErrorEnvelope)

const parseJson = Option.liftThrowable((body: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(body)))

/** `container` is the one at which it was seen. */
class MalformedBatch extends Data.TaggedError("MalformedBatch")<{
  readonly check: SnapshotCheck
  readonly container?: string
}> {}

/** The list of a batch's body, whatever is in it; empty where there is no list. */
const entriesOf = (body: unknown): ReadonlyArray<unknown> =>
  Predicate.hasProperty(body, "containers") && Array.isArray(body.containers) ? body.containers : []

/** The entries of a well-formed batch. Any flaw makes the whole batch malformed. */
const readEntries = Effect.fnUntraced(function* (
  carried: ReadonlyArray<unknown>,
  requests: ReadonlyArray<RegistryApi.SnapshotRequest>
): Effect.fn.Return<BatchReply["replies"], MalformedBatch> {
  // Before anything is decoded: a body has room for far more entries than were asked for.
  if (carried.length !== requests.length) return yield* new MalformedBatch({ check: "batch-shape" })
  const entries = decodeEntries(carried)
  if (Option.isNone(entries)) return yield* new MalformedBatch({ check: "batch-shape" })
  const replies: Array<BatchReply["replies"][number]> = []
  for (const [index, request] of requests.entries()) {
    const entry = entries.value[index]
    const container = request.containerId
    if (entry?.containerId !== container) return yield* new MalformedBatch({ check: "batch-shape", container })
    if (entry.status === "error") {
      replies.push(Either.left(fromCode(entry.error.code, { retryable: entry.error.retryable, container })))
      continue
    }
    const { etag, revision } = entry
    const accept = (reply: SnapshotReply) =>
      request.revision === undefined || request.revision === revision
        ? Either.right(reply)
        : Either.left(new InvalidSnapshot({ check: "pinned-revision", container }))
    if (entry.status === "unchanged") {
      if (request.ifNoneMatch === undefined) return yield* new MalformedBatch({ check: "unchanged-unasked", container })
      if (etag !== request.ifNoneMatch) return yield* new MalformedBatch({ check: "unchanged-mismatch", container })
      replies.push(accept({ _tag: "Unchanged", revision, etag }))
      continue
    }
    const archive = Option.getOrUndefined(yield* Base64.decode(entry.bytesBase64))
    if (archive === undefined || archive.length > limits.archiveBytes) {
      return yield* new MalformedBatch({ check: "batch-base64", container })
    }
    replies.push(
      accept({
        _tag: "Snapshot",
        response: { revision, etag, contentType: entry.contentType, archive },
        transfer: true
      })
    )
    // Fifty archives that are short enough to be decoded at once are long together.
    yield* yieldToEventLoop
  }
  return replies
})

const decodeEntries = Schema.decodeUnknownOption(RegistryApi.BatchResponse.fields.containers)

/** What a malformed batch still says: it gives nobody a snapshot, but what blocks in it blocks, whatever is wrong around. */
const salvage = Effect.fnUntraced(function* (
  entries: ReadonlyArray<unknown>,
  requests: ReadonlyArray<RegistryApi.SnapshotRequest>,
  malformed: MalformedBatch
): Effect.fn.Return<BatchReply["replies"]> {
  const asked = new Set(requests.map((request) => request.containerId))
  const blocked = new Map<string, DeliveryError>()
  for (const [index, entry] of entries.entries()) {
    // Plain checks in one pass, with other work in between: a body has room for far more entries than were asked for.
    if (index % entriesAtOnce === entriesAtOnce - 1) yield* yieldToEventLoop
    if (!Predicate.isRecord(entry) || entry["status"] !== "error" || !Predicate.isRecord(entry["error"])) continue
    const container = entry["containerId"]
    if (typeof container !== "string" || !asked.has(container) || blocked.has(container)) continue
    const code = entry["error"]["code"]
    if (isBlockingCode(code)) blocked.set(container, fromCode(code, { container }))
  }
  return requests.map(({ containerId: container }) => {
    const check = malformed.container === container ? malformed.check : "batch-shape"
    return Either.left(blocked.get(container) ?? new InvalidSnapshot({ check, container }))
  })
})

const entriesAtOnce = 4096

const isDenial = Schema.is(Denial)

class BodyTooLong extends Data.TaggedError("BodyTooLong") {}

/** A body without which there is no snapshot. */
const readWhole = (response: Response, limit: number, about: About, onBytes: OnBytes) =>
  readBody(response, limit, about, onBytes).pipe(
    Effect.tap((body) => Effect.annotateCurrentSpan("skills.bytes", body.length)),
    Effect.catchTag("BodyTooLong", () => new InvalidSnapshot({ check: "body-size", ...about }))
  )

/**
 * The body in a buffer of its own. What is longer than `limit` bytes is refused by its declared length, or cut off while it
 * streams; bytes are counted as they come out of whatever encoding the transport has undone.
 */
const readBody = Effect.fnUntraced(function* (
  response: Response,
  limit: number,
  about: About,
  onBytes: OnBytes = () => Effect.void
): Effect.fn.Return<Uint8Array, BodyTooLong | NetworkError> {
  const declared = /^\d+$/.test(response.headers["content-length"] ?? "")
    ? Number(response.headers["content-length"])
    : undefined
  if (declared !== undefined && declared > limit) return yield* new BodyTooLong()
  // Where the transport undoes an encoding, the declared length is not that of the bytes that arrive here.
  const total = (response.headers["content-encoding"] ?? "identity") === "identity" ? declared : undefined

  // Never more than twice what has arrived, whatever length was declared.
  let buffer = new Uint8Array(Math.min(total ?? limit, 64 * 1024))
  let received = 0
  const append = (chunk: Uint8Array): Effect.Effect<void, BodyTooLong> => {
    const needed = received + chunk.length
    if (needed > limit) return new BodyTooLong()
    if (needed > buffer.length) {
      const atMost = total !== undefined && needed <= total ? total : limit
      const larger = new Uint8Array(Math.min(2 * needed, atMost))
      larger.set(buffer.subarray(0, received))
      buffer = larger
    }
    buffer.set(chunk, received)
    received = needed
    return onBytes(received, total)
  }
  yield* response.stream.pipe(
    Stream.catchAll((error) => (isEmptyBody(error) ? Stream.empty : Stream.fail(networkError(error, about)))),
    Stream.runForEach(append)
  )
  // A connection that broke before anything was read looks to Node's streams like a body that has ended.
  if (total !== undefined && received < total) return yield* new NetworkError(about)
  return received === buffer.length ? buffer : buffer.slice(0, received)
})

/** fetch fails where there is no body; other clients give an empty one. */
const isEmptyBody = (error: HttpClientError.HttpClientError) =>
  error._tag === "ResponseError" && error.reason === "EmptyBody"
