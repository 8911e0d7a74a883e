/**
 * The delivery wire (contract of learned-skill delivery, Wire): one container, many containers, pins, 304 and denials, from the
 * shapes in `RegistryApi` that its client reads.
 *
 * @module
 */
import { type HttpServerRequest, HttpServerResponse } from "@effect/platform"
import { Effect, Either, Schema, Stream } from "effect"
import * as Base64 from "../archive/Base64.js"
import {
  AuthorizationFailed,
  type DeliveryError,
  InvalidConfig,
  InvalidSnapshot,
  NetworkError
} from "../delivery/DeliveryError.js"
import * as RegistryApi from "../delivery/RegistryApi.js"
import type { StoreUnavailable } from "../store/StoreError.js"
import { mayReach } from "./Authentication.js"
import { RouteNotFound } from "./Refusal.js"
import type { RegistryService } from "./Registry.js"
import type { ApiKey, Resolved } from "./RegistryModel.js"
import * as RequestBody from "./RequestBody.js"

const [prefix = "", suffix = ""] = RegistryApi.snapshotRoute.split(":containerId")

const malformed = new InvalidConfig({ setting: "request", problem: "is malformed" })

const isContainerId = Schema.is(RegistryApi.ContainerId)
const isRevision = Schema.is(RegistryApi.Revision)

/** What a URL asks for; nothing when it is of another route. */
const askedBy = (url: string): Either.Either<RegistryApi.SnapshotRequest, InvalidConfig> | undefined => {
  const query = url.indexOf("?")
  const end = (query === -1 ? url.length : query) - suffix.length
  if (!url.startsWith(prefix) || end <= prefix.length || !url.startsWith(suffix, end)) return undefined
  const encoded = url.slice(prefix.length, end)
  if (encoded.includes("/")) return undefined
  const containerId = decode(encoded)
  if (containerId === undefined || !isContainerId(containerId)) return Either.left(malformed)
  if (query === -1) return Either.right({ containerId })
  const revision = new URLSearchParams(url.slice(query)).get("revision")
  if (revision === null) return Either.right({ containerId })
  return isRevision(revision) ? Either.right({ containerId, revision }) : Either.left(malformed)
}

const decode = (encoded: string): string | undefined => {
  if (!encoded.includes("%")) return encoded
  try {
    return decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}

/**
 * Whether a request asks for one container's snapshot with the ETag of a held one: what a fleet's every agent asks every few
 * seconds. Says it without decoding anything.
 */
export const isConditional = ({ headers, method, url }: HttpServerRequest.HttpServerRequest): boolean =>
  method === "GET" &&
  headers["if-none-match"] !== undefined &&
  url.startsWith(prefix) &&
  (url.endsWith(suffix) || url.includes(`${suffix}?`))

/** The failures of a delivery. A damaged archive never leaves; to its receiver there is no valid snapshot. */
type Delivered<A> = Effect.Effect<A, DeliveryError | StoreUnavailable>

/** How much of an archive is written, or coded, at once. Whole groups of base64. In bytes. */
const sliceBytes = 3 * 16 * 1024

/** An archive as it is written: the caller's pace decides, and a caller who leaves ends it. */
export const slices = (bytes: Uint8Array): Stream.Stream<Uint8Array> =>
  Stream.map(
    Stream.iterate(0, (start) => start + sliceBytes),
    (start) => bytes.subarray(start, start + sliceBytes)
  ).pipe(Stream.take(Math.ceil(bytes.length / sliceBytes)))

/** What the routes of delivery answer to a key. */
export const make = (registry: RegistryService) => {
  const resolve = (key: ApiKey, { containerId, revision }: RegistryApi.SnapshotRequest): Delivered<Resolved> =>
    mayReach(key, containerId)
      ? registry.resolve(containerId, revision)
      : new AuthorizationFailed({ container: containerId })

  const archive = (sha256: string): Delivered<Uint8Array> =>
    Effect.catchTag(registry.archive(sha256), "CORRUPT_BLOB", () => new InvalidSnapshot({ check: "etag-mismatch" }))

  /** The answers of 304 by what is unchanged: the view of the registry gives the same value until something changes. */
  const unchanged = new WeakMap<Resolved, HttpServerResponse.HttpServerResponse>()
  const notModified = (found: Resolved) => {
    const known = unchanged.get(found)
    if (known !== undefined) return known
    const response = HttpServerResponse.empty({
      status: 304,
      headers: { ...RegistryApi.unchangedHeaders(found.revision, found.etag), ...cacheHeaders }
    })
    unchanged.set(found, response)
    return response
  }

  /** One container: an archive, or 304 for the one that the caller holds. */
  const one = (
    key: ApiKey,
    { headers, url }: HttpServerRequest.HttpServerRequest
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, DeliveryError | StoreUnavailable | RouteNotFound> => {
    const asked = askedBy(url)
    if (asked === undefined) return new RouteNotFound()
    if (Either.isLeft(asked)) return asked.left
    return Effect.flatMap(resolve(key, asked.right), (found) =>
      holds(headers["if-none-match"], found.etag)
        ? Effect.succeed(notModified(found))
        : Effect.map(archive(found.sha256), (bytes) =>
            HttpServerResponse.stream(slices(bytes), {
              contentType: RegistryApi.mediaTypes.archive,
              contentLength: bytes.length,
              headers: { ...RegistryApi.unchangedHeaders(found.revision, found.etag), ...cacheHeaders }
            })
          )
    )
  }

  /** One entry of a batch, as pieces of JSON. Nothing fails once the answer has begun: a failure is the entry. */
  const entry = (key: ApiKey, asked: RegistryApi.SnapshotRequest, room: Room) =>
    Effect.gen(function* () {
      const { containerId, ifNoneMatch } = asked
      const found = yield* resolve(key, asked)
      if (ifNoneMatch === found.etag) {
        return Stream.make(JSON.stringify(RegistryApi.unchangedEntry(containerId, found.revision, found.etag)))
      }
      // What is not sent now is not held next time either, but what is sent will be: the next answer has room for it.
      if (!room.take(found.size)) return yield* new NetworkError({ container: containerId })
      const bytes = yield* archive(found.sha256)
      // The members of an empty archive's entry, the last of which is the text that is written piece by piece.
      const around = JSON.stringify(RegistryApi.snapshotEntry(containerId, { ...found, archive: empty }))
      return Stream.make(around.slice(0, -2)).pipe(
        Stream.concat(Stream.mapEffect(slices(bytes), Base64.encode)),
        Stream.concat(Stream.make(around.slice(-2)))
      )
    }).pipe(
      Effect.catchTag("STORE_UNAVAILABLE", () => new NetworkError({ container: asked.containerId })),
      Effect.catchAll((error) =>
        Effect.succeed(Stream.make(JSON.stringify(RegistryApi.errorEntry(asked.containerId, error))))
      )
    )

  /** Many containers, each entry read when the one before it is written: one archive in memory, not fifty. */
  const many = (key: ApiKey) =>
    Effect.map(RequestBody.json(RegistryApi.BatchRequest), ({ containers }) => {
      const room = makeRoom(RegistryApi.maximumBatchBytes(containers.length))
      const entries = Stream.fromIterable(containers).pipe(
        Stream.mapEffect((asked) => entry(key, asked, room)),
        Stream.zipWithIndex,
        Stream.flatMap(([pieces, index]) => (index === 0 ? pieces : Stream.concat(Stream.make(","), pieces)))
      )
      const body = Stream.concat(Stream.concat(Stream.make('{"containers":['), entries), Stream.make("]}"))
      return HttpServerResponse.stream(Stream.encodeText(body), {
        contentType: RegistryApi.mediaTypes.json,
        headers: cacheHeaders
      })
    })

  return { one, many }
}

/** What is left of the length that the client reads of a batch. */
interface Room {
  /** Whether an archive of this size still fits; it then has its place. */
  readonly take: (archiveBytes: number) => boolean
}

const makeRoom = (maximumBytes: number): Room => {
  // The rest is for names, which the bound of the request's body bounds.
  let left = maximumBytes - 64 * 1024
  return {
    take: (archiveBytes) => {
      const needed = Math.ceil(archiveBytes / 3) * 4
      if (needed > left) return false
      left -= needed
      return true
    }
  }
}

const empty = new Uint8Array(0)

/** Keys see different things, and a revocation has to be seen: nobody in between may answer for the registry. */
export const cacheHeaders = { "cache-control": "private, no-cache" } as const

/** Whether `If-None-Match` names this ETag, alone or in a list (RFC 9110, 13.1.2); its quotes keep it apart from others. */
const holds = (ifNoneMatch: string | undefined, etag: string): boolean => ifNoneMatch?.includes(etag) ?? false
