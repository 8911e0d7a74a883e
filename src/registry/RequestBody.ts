/**
 * The body of a request, read under a bound that holds while it streams (contract, Registry server). What the sender declares
 * of its length is only ever a reason to refuse.
 *
 * @module
 */
import { HttpServerRequest } from "@effect/platform"
import { Deferred, Duration, Effect, Fiber, type ParseResult, Schema, type Scope, Stream } from "effect"
import { yieldToEventLoop } from "#codec"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as BoundedJson from "../archive/BoundedJson.js"
import type { ByteBudget, ServerBusy } from "./ByteBudget.js"

/** The body is longer than the route takes. */
export class RequestTooLarge extends Schema.TaggedError<RequestTooLarge>()("REQUEST_TOO_LARGE", {
  maximumBytes: Schema.Number
}) {
  override get message(): string {
    return `The request's body is longer than ${this.maximumBytes} bytes.`
  }
}

/** The body stopped arriving, or comes too slowly. Sending it again may go better. */
export class RequestStalled extends Schema.TaggedError<RequestStalled>()("REQUEST_STALLED", {}) {
  override get message(): string {
    return `The request's body came too slowly: within ${Duration.format(pace.within)} less than ${pace.bytes} bytes of it.`
  }
}

/** The request is not what the route takes: no JSON, a member that is missing or of another type, a broken form. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("INVALID_REQUEST", {
  /** Half a sentence that quotes nothing but names. */
  problem: Schema.String
}) {
  override get message(): string {
    return `The request is not valid: ${this.problem}.`
  }
}

/** How slowly a body may come: about 4 KiB a second. Whoever sends a byte now and then would hold what they have sent for ever. */
const pace = { bytes: 128 * 1024, within: Duration.seconds(30) } as const

/**
 * From pieces smaller than this, in bytes, the sender's next ones are gathered first: each costs several times what Node needs to
 * parse it, and a body may come byte by byte.
 */
const smallBytes = 4 * 1024

/**
 * What of a refused body is still taken from the connection, in bytes and for how long. A server that closes a connection
 * with unread bytes resets it, and the reset overtakes the answer: the sender would see a broken connection, which clients
 * try again, in place of the refusal.
 */
const linger = { bytes: 16 * 1024 * 1024, for: Duration.seconds(2) } as const

/** What a buffer for a body begins with; it doubles as it fills. In bytes. */
const firstBytes = 16 * 1024

/**
 * The whole body, at most `maximumBytes`, and within `budget` where there is one. The rest of a refused one is dropped as it comes;
 * the connection is closed with the request's scope when the sender goes on regardless.
 */
export const read: (
  maximumBytes: number,
  budget?: ByteBudget
) => Effect.Effect<
  Uint8Array,
  RequestTooLarge | RequestStalled | InvalidRequest | ServerBusy,
  HttpServerRequest.HttpServerRequest | Scope.Scope
> = Effect.fn("RequestBody.read")(function* (maximumBytes, budget) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const outcome = yield* Deferred.make<Uint8Array, RequestTooLarge | InvalidRequest | ServerBusy>()
  const tooLarge = new RequestTooLarge({ maximumBytes })
  let body = new Uint8Array(0)
  let received = 0
  /** How much had been received when the body was refused. */
  let refusedAt = Number(request.headers["content-length"]) > maximumBytes ? 0 : undefined

  const refuse = (refusal: RequestTooLarge | ServerBusy) => {
    refusedAt = received
    body = new Uint8Array(0)
    return Deferred.fail(outcome, refusal)
  }
  /** Not a list of pieces: of one byte each they would take a hundred times what is in them. */
  const append = Effect.fnUntraced(function* (piece: Uint8Array) {
    const length = received + piece.length
    if (length > body.length) {
      const larger = Math.min(Math.max(length, 2 * body.length, firstBytes), maximumBytes)
      if (budget !== undefined) yield* budget.reserve(larger - body.length)
      const held = body
      body = new Uint8Array(larger)
      body.set(held)
    }
    body.set(piece, received)
    received = length
    if (piece.length < smallBytes) yield* yieldToEventLoop
  })
  const take = (piece: Uint8Array) => {
    if (refusedAt === undefined && received + piece.length <= maximumBytes) {
      return Effect.catchAll(append(piece), refuse)
    }
    received += piece.length
    if (refusedAt === undefined) return refuse(tooLarge)
    return received > refusedAt + linger.bytes ? Effect.fail("dropped") : Effect.void
  }
  const reading = Stream.runForEach(request.stream, take).pipe(
    Effect.matchEffect({
      // Whoever broke off does not read the answer either.
      onFailure: () => Deferred.fail(outcome, new InvalidRequest({ problem: "its body broke off" })),
      onSuccess: () => Deferred.sync(outcome, () => body.subarray(0, received))
    })
  )
  yield* Effect.acquireRelease(Effect.forkDaemon(reading), (reader) =>
    Fiber.await(reader).pipe(Effect.timeoutOption(linger.for), Effect.zipRight(Fiber.interrupt(reader)))
  )
  if (refusedAt !== undefined) return yield* tooLarge

  const stalled = Effect.iterate(Number.NEGATIVE_INFINITY, {
    while: (before) => received - before >= pace.bytes,
    body: () => Effect.suspend(() => Effect.as(Effect.sleep(pace.within), received))
  })
  return yield* Effect.raceFirst(Deferred.await(outcome), Effect.zipRight(stalled, new RequestStalled()))
})

/** Of a JSON body: a thousand skills, or fifty containers with long ids and pins. In bytes. */
const maximumJsonBytes = 1024 * 1024

/**
 * The JSON body as `schema` has it. A failure names the members that are wrong and quotes nothing.
 */
export const json = <A, I>(
  schema: Schema.Schema<A, I>
): Effect.Effect<
  A,
  RequestTooLarge | RequestStalled | InvalidRequest,
  HttpServerRequest.HttpServerRequest | Scope.Scope
> =>
  read(maximumJsonBytes).pipe(
    // Without a budget it is never said.
    Effect.catchTag("SERVER_BUSY", Effect.die),
    Effect.flatMap((bytes) =>
      Effect.mapError(BoundedJson.parse(bytes), () => new InvalidRequest({ problem: "its body is not JSON" }))
    ),
    Effect.flatMap((body) => Effect.mapError(Schema.decodeUnknown(schema)(body), fromParseError))
  )

/** Where a request is not what was declared: paths only. An issue also holds the value, which may be anything, and as deep. */
const fromParseError = ({ issue }: ParseResult.ParseError): InvalidRequest => fromPath(pathOf(issue))

/** The same for the issues of a path or a query. */
export const fromIssues = (issues: ReadonlyArray<{ readonly path: ReadonlyArray<PropertyKey> }>): InvalidRequest =>
  fromPath(issues[0]?.path ?? [])

const fromPath = (path: ReadonlyArray<PropertyKey>) => {
  const first = path.map(String).join(".")
  return new InvalidRequest({
    problem: first === "" ? "it has another shape" : `"${ArchivePath.display(first)}" is missing or not valid`
  })
}

/** To the first thing that is wrong. */
const pathOf = (issue: ParseResult.ParseIssue): ReadonlyArray<PropertyKey> => {
  switch (issue._tag) {
    case "Pointer":
      return [issue.path, pathOf(issue.issue)].flat()
    case "Composite":
      return [issue.issues].flat().slice(0, 1).flatMap(pathOf)
    case "Refinement":
    case "Transformation":
      return pathOf(issue.issue)
    default:
      return []
  }
}
