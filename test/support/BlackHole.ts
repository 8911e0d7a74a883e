import { connect, createServer, type Socket } from "node:net"
import { Effect, Redacted } from "effect"

/** A way to a PostgreSQL on which `swallow` makes every connection of that moment silent, as a lost route does: nobody is told. */
export const blackHole = (url: Redacted.Redacted) =>
  Effect.gen(function* () {
    const { hostname, port: farPort } = new URL(Redacted.value(url))
    const ways = new Set<{ readonly sockets: ReadonlyArray<Socket>; isSwallowed: boolean }>()
    const server = createServer((near) => {
      const far = connect(Number(farPort), hostname)
      const way = { sockets: [near, far], isSwallowed: false }
      ways.add(way)
      const pass = (from: Socket, to: Socket) => {
        from.on("data", (bytes) => {
          if (!way.isSwallowed) to.write(bytes)
        })
        from.on("error", () => undefined)
        from.on("close", () => {
          if (!way.isSwallowed) to.destroy()
        })
      }
      pass(near, far)
      pass(far, near)
    })
    const port = yield* Effect.acquireRelease(
      Effect.async<number>((resume) => {
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          resume(typeof address === "object" && address !== null ? Effect.succeed(address.port) : Effect.die(address))
        })
      }),
      () =>
        Effect.sync(() => {
          for (const { sockets } of ways) for (const socket of sockets) socket.destroy()
          server.close()
        })
    )
    const way = new URL(Redacted.value(url))
    way.port = String(port)
    return {
      url: Redacted.make(way.href),
      swallow: Effect.sync(() => {
        for (const way of ways) way.isSwallowed = true
      })
    }
  })
