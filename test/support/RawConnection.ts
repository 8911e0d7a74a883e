/** A connection to an HTTP server on the level of the socket, for requests that no client would send. */
import { connect } from "node:net"
import { Effect, type Scope } from "effect"

export interface RawConnection {
  /** Done when the socket has taken the bytes; never, once it is closed, so that whoever writes on and on comes to rest. */
  readonly write: (bytes: Uint8Array | string) => Effect.Effect<void>
  /** All that was received until this text was among it. */
  readonly receive: (text: string) => Effect.Effect<string>
  /** All that was received, once the connection is closed by the other side. */
  readonly closed: Effect.Effect<string>
  readonly destroy: Effect.Effect<void>
}

export const open = (url: string): Effect.Effect<RawConnection, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { hostname, port } = new URL(url)
    const socket = yield* Effect.acquireRelease(
      Effect.sync(() => connect(Number(port), hostname)),
      (socket) => Effect.sync(() => socket.destroy())
    )
    const closed = yield* Effect.makeLatch()
    let received = ""
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1")
    })
    // A reset is expected here.
    socket.on("error", () => {})
    socket.on("close", () => closed.unsafeOpen())
    return {
      write: (bytes) =>
        Effect.async<void>((resume) => {
          socket.write(bytes, (error) => {
            if (!error) resume(Effect.void)
          })
        }),
      receive: (text) =>
        Effect.async<string>((resume) => {
          const look = () => {
            if (!received.includes(text)) return
            socket.off("data", look)
            resume(Effect.succeed(received))
          }
          socket.on("data", look)
          look()
          return Effect.sync(() => socket.off("data", look))
        }).pipe(Effect.raceFirst(Effect.map(closed.await, () => received))),
      closed: Effect.map(closed.await, () => received),
      destroy: Effect.sync(() => socket.destroy())
    }
  })
