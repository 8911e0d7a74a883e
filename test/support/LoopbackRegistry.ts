/**
 * A registry on loopback over real HTTP, for tests. Every answer is written down beforehand as a handler, which may also
 * misbehave on the level of the socket: stall, break off, reset, lie about lengths, never end.
 */
import * as Http from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { Context, Effect, FiberSet, Layer, Ref } from "effect"
import type { DeliveryError } from "../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"
import type { SnapshotResponse } from "../../src/delivery/Snapshot.js"

/** A request as it arrived, its body read whole. */
export interface LoopbackRequest {
  readonly method: string
  /** Path and query, as sent. */
  readonly url: string
  readonly headers: Http.IncomingHttpHeaders
  readonly body: string
  /** The number of the connection it came over: equal numbers mean that a connection was reused. */
  readonly connection: number
}

/** What a handler can do with one request. A write waits until the socket has taken it; after a close it does nothing. */
export interface Exchange {
  readonly request: LoopbackRequest
  /** Sends the head at once. */
  readonly head: (status: number, headers?: Http.OutgoingHttpHeaders) => Effect.Effect<void>
  /** Sends bytes of the body. */
  readonly write: (bytes: Uint8Array | string) => Effect.Effect<void>
  readonly end: Effect.Effect<void>
  /** Writes to the socket past the HTTP layer: half a head, a wrong length. */
  readonly raw: (bytes: Uint8Array | string) => Effect.Effect<void>
  /** Ends the connection with FIN, after what was written. */
  readonly hangUp: Effect.Effect<void>
  /** Ends the connection with RST. */
  readonly reset: Effect.Effect<void>
  /** Done when the connection is closed, by either side. */
  readonly closed: Effect.Effect<void>
}

/** Answers one request. Interrupted when the server closes, so it may wait for ever. */
export type Handler = (exchange: Exchange) => Effect.Effect<void>

export class LoopbackRegistry extends Context.Tag("test/LoopbackRegistry")<
  LoopbackRegistry,
  {
    /** The base URL, without a trailing slash. */
    readonly url: string
    /** Queues handlers, one per request. A request without one gets a 500 that says so. */
    readonly enqueue: (...handlers: ReadonlyArray<Handler>) => Effect.Effect<void>
    /** Every request so far, in the order of arrival. */
    readonly requests: Effect.Effect<ReadonlyArray<LoopbackRequest>>
  }
>() {}

/** A server of its own, on a port of its own, closed with the scope. */
export const make = Effect.gen(function* () {
  const queue = yield* Ref.make<ReadonlyArray<Handler>>([])
  const requests = yield* Ref.make<ReadonlyArray<LoopbackRequest>>([])
  const fork = yield* FiberSet.makeRuntime<never, void, never>()
  const connections = new Map<Socket, { readonly number: number; readonly closed: Effect.Latch }>()
  let accepted = 0

  const server = Http.createServer({ keepAliveTimeout: 60_000 }, (incoming, outgoing) => {
    const connection = connections.get(incoming.socket)
    if (connection === undefined) return
    const chunks: Array<Buffer> = []
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk))
    incoming.on("end", () => {
      const request: LoopbackRequest = {
        method: incoming.method ?? "",
        url: incoming.url ?? "",
        headers: incoming.headers,
        body: Buffer.concat(chunks).toString("utf8"),
        connection: connection.number
      }
      fork(
        Effect.gen(function* () {
          yield* Ref.update(requests, (all) => [...all, request])
          const handler = yield* Ref.modify(queue, ([next, ...rest]) => [next, rest])
          yield* (handler ?? unexpected)(exchange(request, incoming.socket, outgoing, connection.closed.await))
        })
      )
    })
  })
  server.on("connection", (socket) => {
    const closed = Effect.unsafeMakeLatch(false)
    connections.set(socket, { number: accepted++, closed })
    // A client that resets the connection is expected here.
    socket.on("error", () => {})
    socket.on("close", () => {
      connections.delete(socket)
      closed.unsafeOpen()
    })
  })

  yield* Effect.acquireRelease(
    Effect.async<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.async<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  return LoopbackRegistry.of({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    enqueue: (...handlers) => Ref.update(queue, (waiting) => [...waiting, ...handlers]),
    requests: Ref.get(requests)
  })
})

export const layer = Layer.scoped(LoopbackRegistry, make)

const exchange = (
  request: LoopbackRequest,
  socket: Socket,
  outgoing: Http.ServerResponse,
  closed: Effect.Effect<void>
): Exchange => {
  // A write that fails says so before the socket does: whoever writes on and on would never let the socket's turn come.
  const written = (write: (done: (error?: Error | null) => void) => void) =>
    Effect.async<void>((resume) => {
      write((error) => resume(error ? closed : Effect.void))
    }).pipe(Effect.raceFirst(closed))
  return {
    request,
    head: (status, headers) =>
      Effect.sync(() => {
        outgoing.writeHead(status, headers)
        outgoing.flushHeaders()
      }),
    write: (bytes) => written((done) => outgoing.write(bytes, done)),
    end: Effect.sync(() => {
      outgoing.end()
    }),
    raw: (bytes) => written((done) => socket.write(bytes, done)),
    hangUp: Effect.sync(() => {
      socket.end()
    }),
    reset: Effect.sync(() => {
      socket.resetAndDestroy()
    }),
    closed
  }
}

/** Sends the head at once, and leaves the rest to others. */
export const head =
  (status: number, headers?: Http.OutgoingHttpHeaders): Handler =>
  (exchange) =>
    exchange.head(status, headers)

/** Answers with status, headers and a whole body. */
export const respond =
  (status: number, headers: Http.OutgoingHttpHeaders = {}, body: Uint8Array | string = ""): Handler =>
  ({ end, head, write }) =>
    head(status, headers).pipe(Effect.zipRight(body.length === 0 ? Effect.void : write(body)), Effect.zipRight(end))

/** Answers with one revision's archive. */
export const snapshot = (response: SnapshotResponse): Handler =>
  respond(
    200,
    { ...RegistryApi.snapshotHeaders(response), "content-length": response.archive.length },
    response.archive
  )

/** Answers that the held snapshot is the current one. */
export const unchanged = (revision: string, etag: string): Handler =>
  respond(304, RegistryApi.unchangedHeaders(revision, etag))

/** Answers with an error in the contract's envelope. */
export const failure = (status: number, error: DeliveryError): Handler => json(status, RegistryApi.errorEnvelope(error))

/** Answers a batch with these entries. */
export const batch = (...containers: ReadonlyArray<RegistryApi.BatchEntry>): Handler => json(200, { containers })

/** Answers with any JSON. */
export const json = (status: number, body: unknown): Handler =>
  respond(status, { "content-type": RegistryApi.mediaTypes.json }, JSON.stringify(body))

/** Answers with bytes that never end; done when the client has closed the connection. */
export const endless =
  (status: number, headers: Http.OutgoingHttpHeaders, chunk: Uint8Array): Handler =>
  ({ closed, head, write }) =>
    Effect.zipRight(head(status, headers), Effect.raceFirst(Effect.forever(write(chunk)), closed))

/** Answers nothing more, so that the client waits; done when the connection is closed. */
export const stall: Handler = ({ closed }) => closed

/** One handler after the other, on the same exchange. */
export const sequence =
  (...handlers: ReadonlyArray<Handler>): Handler =>
  (exchange) =>
    Effect.forEach(handlers, (handler) => handler(exchange), { discard: true })

/** A handler, then a stall; a test waits until it is `reached` and until the client has `closed` the connection. */
export const watched = (handler: Handler) =>
  Effect.gen(function* () {
    const reached = yield* Effect.makeLatch()
    const closed = yield* Effect.makeLatch()
    return {
      handler: sequence(
        handler,
        () => reached.open,
        stall,
        () => closed.open
      ),
      reached: reached.await,
      closed: closed.await
    }
  })

const unexpected = respond(500, { "content-type": "text/plain" }, "No handler was queued for this request.")
