/**
 * The body of a request, read under a bound that holds while it streams (contract, Registry server). What the sender declares
 * of its length is only ever a reason to refuse.
 *
 * @module
 */
import { HttpServerRequest } from "@effect/platform"
import { Deferred, Duration, Effect, Fiber, ParseResult, Schema, type Scope, Stream } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as BoundedJson from "../archive/BoundedJson.js"

/** The body is longer than the route takes. */
export class RequestTooLarge extends Schema.TaggedError<RequestTooLarge>()("REQUEST_TOO_LARGE", {
  maximumBytes: Schema.Number
}) {
  override get message(): string {
    return `The request's body is longer than ${this.maximumBytes} bytes.`
  }
}

/** The body stopped arriving. Sending it again may go better. */
export class RequestStalled extends Schema.TaggedError<RequestStalled>()("REQUEST_STALLED", {}) {
  override get message(): string {
    return `No byte of the request's body arrived for ${Duration.format(idle)}.`
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

/** How long a body may pause. */
const idle = Duration.seconds(30)

/**
 * What of a refused body is still taken from the connection, in bytes and for how long. A server that closes a connection
 * with unread bytes resets it, and the reset overtakes the answer: the sender would see a broken connection, which clients
 * try again, in place of the refusal.
 */
const linger = { bytes: 16 * 1024 * 1024, for: Duration.seconds(2) } as const

/**
 * The whole body, at most `maximumBytes`. The rest of a longer one is dropped as it comes, so memory is bounded by
 * `maximumBytes`; the connection is closed with the request's scope when the sender goes on regardless.
 */
export const read: (
  maximumBytes: number
) => Effect.Effect<
  Uint8Array,
  RequestTooLarge | RequestStalled | InvalidRequest,
  HttpServerRequest.HttpServerRequest | Scope.Scope
> = Effect.fn("RequestBody.read")(function* (maximumBytes) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const outcome = yield* Deferred.make<Uint8Array, RequestTooLarge | InvalidRequest>()
  const tooLarge = new RequestTooLarge({ maximumBytes })
  const chunks: Array<Uint8Array> = []
  let received = 0

  const take = (chunk: Uint8Array) => {
    received += chunk.length
    if (received <= maximumBytes) {
      chunks.push(chunk)
      return Effect.void
    }
    chunks.length = 0
    return Effect.zipRight(
      Deferred.fail(outcome, tooLarge),
      received > maximumBytes + linger.bytes ? Effect.fail("dropped") : Effect.void
    )
  }
  const reading = Stream.runForEach(request.stream, take).pipe(
    Effect.matchEffect({
      // Whoever broke off does not read the answer either.
      onFailure: () => Deferred.fail(outcome, new InvalidRequest({ problem: "its body broke off" })),
      onSuccess: () => Deferred.sync(outcome, () => concat(chunks, received))
    })
  )
  yield* Effect.acquireRelease(Effect.forkDaemon(reading), (reader) =>
    Fiber.await(reader).pipe(Effect.timeoutOption(linger.for), Effect.zipRight(Fiber.interrupt(reader)))
  )
  if (Number(request.headers["content-length"]) > maximumBytes) return yield* tooLarge

  const stalled = Effect.iterate(-1, {
    while: (before) => before !== received,
    body: () => Effect.suspend(() => Effect.as(Effect.sleep(idle), received))
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
    Effect.flatMap((bytes) =>
      Effect.mapError(BoundedJson.parse(bytes), () => new InvalidRequest({ problem: "its body is not JSON" }))
    ),
    Effect.flatMap((body) => Effect.mapError(Schema.decodeUnknown(schema)(body), fromParseError))
  )

/** Where a request is not what was declared. The formatted issue quotes values, which may be anything: paths only. */
export const fromParseError = (error: ParseResult.ParseError): InvalidRequest =>
  fromIssues(ParseResult.ArrayFormatter.formatErrorSync(error))

/** The same for the issues of a path or a query. */
export const fromIssues = (issues: ReadonlyArray<{ readonly path: ReadonlyArray<PropertyKey> }>): InvalidRequest => {
  const first = issues[0]?.path.map(String).join(".") ?? ""
  return new InvalidRequest({
    problem: first === "" ? "it has another shape" : `"${ArchivePath.display(first)}" is missing or not valid`
  })
}

const concat = (chunks: ReadonlyArray<Uint8Array>, length: number): Uint8Array => {
  const whole = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}
