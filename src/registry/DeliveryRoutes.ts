/**
 * The delivery wire (contract of learned-skill delivery, Wire): one container, many containers, pins, 304 and denials, from the
 * shapes in `RegistryApi` that its client reads.
 *
 * @module
 */
import { type HttpServerRequest, HttpServerResponse } from "@effect/platform"
import { type Context, Effect, Either, Option, Schema, type Scope, Stream } from "effect"
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
import * as Authentication from "./Authentication.js"
import type { ServerBusy } from "./ByteBudget.js"
import { type OutgoingArchives, slices } from "./OutgoingArchives.js"
import { RouteNotFound } from "./Refusal.js"
import type { RegistryService } from "./Registry.js"
import type { Resolved } from "./RegistryModel.js"
import * as RequestBody from "./RequestBody.js"

const [prefix = "", suffix = ""] = RegistryApi.snapshotRoute.split(":containerId")

const malformed = new InvalidConfig({ setting: "request", problem: "is malformed" })

const isContainerId = Schema.is(RegistryApi.ContainerId)
const isRevision = Schema.is(RegistryApi.Revision)

/** What a URL asks for; nothing when it is of another route. */
export const askedBy = (url: string): Either.Either<RegistryApi.SnapshotRequest, InvalidConfig> | undefined => {
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

/** The failures of a delivery. A damaged archive never leaves; to its receiver there is no valid snapshot. */
type Delivered<A, R = never> = Effect.Effect<A, DeliveryError | ServerBusy | StoreUnavailable, R>

/** What the routes of delivery answer to a key. */
export const make = (registry: RegistryService, archives: Context.Tag.Service<OutgoingArchives>) => {
  /** What is delivered to the request's key of a container, both as they are now. */
  const resolve = (
    request: HttpServerRequest.HttpServerRequest,
    { containerId, revision }: RegistryApi.SnapshotRequest
  ): Delivered<Resolved> =>
    Effect.flatMap(
      Authentication.confirm(registry, request),
      (key): Delivered<Resolved> =>
        Authentication.mayReach(key, containerId)
          ? registry.resolve(containerId, revision)
          : new AuthorizationFailed({ container: containerId })
    )

  /** An archive, if it is still what is delivered once it has been read, which may take long enough for a revocation. */
  const archive = (
    request: HttpServerRequest.HttpServerRequest,
    asked: RegistryApi.SnapshotRequest,
    found: Resolved
  ): Delivered<Option.Option<Uint8Array>, Scope.Scope> =>
    archives.get(found).pipe(
      Effect.catchTag("CORRUPT_BLOB", () => new InvalidSnapshot({ check: "etag-mismatch" })),
      Effect.zipWith(resolve(request, asked), (bytes, now) =>
        now.etag === found.etag ? Option.some(bytes) : Option.none()
      )
    )

  /** One container: an archive, or 304 for the one that the caller holds. */
  const one = (
    request: HttpServerRequest.HttpServerRequest
  ): Effect.Effect<
    HttpServerResponse.HttpServerResponse,
    DeliveryError | RouteNotFound | ServerBusy | StoreUnavailable,
    Scope.Scope
  > => {
    const asked = askedBy(request.url)
    if (asked === undefined) return new RouteNotFound()
    if (Either.isLeft(asked)) return asked.left
    return Effect.gen(function* () {
      const found = yield* resolve(request, asked.right)
      if (holds(request.headers["if-none-match"], found.etag)) {
        return HttpServerResponse.empty({ status: 304, headers: headersOf(found) })
      }
      const bytes = yield* archive(request, asked.right, found)
      // Another revision has come meanwhile.
      if (Option.isNone(bytes)) return yield* one(request)
      return HttpServerResponse.stream(slices(bytes.value), {
        contentType: RegistryApi.mediaTypes.archive,
        contentLength: bytes.value.length,
        headers: headersOf(found)
      })
    })
  }

  /** One entry of a batch, as pieces of JSON; the scope is that of its writing. */
  const found = (
    request: HttpServerRequest.HttpServerRequest,
    asked: RegistryApi.SnapshotRequest,
    room: Room
  ): Delivered<Stream.Stream<string>, Scope.Scope> =>
    Effect.gen(function* () {
      const { containerId, ifNoneMatch } = asked
      const found = yield* resolve(request, asked)
      if (ifNoneMatch === found.etag) {
        return Stream.make(JSON.stringify(RegistryApi.unchangedEntry(containerId, found.revision, found.etag)))
      }
      // What is not sent now is not held next time either, but what is sent will be: the next answer has room for it.
      if (!room.take(found.size)) return yield* new NetworkError({ container: containerId })
      const bytes = yield* archive(request, asked, found)
      if (Option.isNone(bytes)) return yield* new NetworkError({ container: containerId })
      // The members of an empty archive's entry, the last of which is the text that is written piece by piece.
      const around = JSON.stringify(RegistryApi.snapshotEntry(containerId, { ...found, archive: empty }))
      return Stream.make(around.slice(0, -2)).pipe(
        Stream.concat(Stream.mapEffect(slices(bytes.value), Base64.encode)),
        Stream.concat(Stream.make(around.slice(-2)))
      )
    })

  /** Nothing fails once the answer has begun: a failure is the entry. */
  const entry = (
    request: HttpServerRequest.HttpServerRequest,
    asked: RegistryApi.SnapshotRequest,
    room: Room
  ): Effect.Effect<Stream.Stream<string>, never, Scope.Scope> =>
    found(request, asked, room).pipe(
      Effect.catchTags({
        SERVER_BUSY: () => new NetworkError({ container: asked.containerId }),
        STORE_UNAVAILABLE: () => new NetworkError({ container: asked.containerId })
      }),
      Effect.catchAll((error) =>
        Effect.succeed(Stream.make(JSON.stringify(RegistryApi.errorEntry(asked.containerId, error))))
      )
    )

  /**
   * Many containers, each entry found and read when the one before it is written: one archive in memory, not fifty, and none that was
   * revoked while its reader took their time.
   */
  const many = (request: HttpServerRequest.HttpServerRequest) =>
    Effect.map(RequestBody.json(RegistryApi.BatchRequest), ({ containers }) => {
      const room = makeRoom(RegistryApi.maximumBatchBytes(containers.length))
      const entries = Stream.fromIterable(containers).pipe(
        Stream.zipWithIndex,
        Stream.flatMap(([asked, index]) => {
          const pieces = Stream.unwrapScoped(entry(request, asked, room))
          return index === 0 ? pieces : Stream.concat(Stream.make(","), pieces)
        })
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

/** Of a container's archive, and of the answer that it is unchanged. */
export const headersOf = ({ etag, revision }: Resolved) => ({
  ...RegistryApi.unchangedHeaders(revision, etag),
  ...cacheHeaders
})

/** Whether `If-None-Match` names this ETag, alone or in a list, or any (RFC 9110, 13.1.2); its quotes keep it apart from others. */
export const holds = (ifNoneMatch: string | undefined, etag: string): boolean =>
  ifNoneMatch !== undefined && (ifNoneMatch.includes(etag) || ifNoneMatch.trim() === "*")
