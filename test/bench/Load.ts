import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { performance } from "node:perf_hooks"
import { type Listening, loadServerFlag, type Memory, type ServerKind } from "./LoadServer.js"

const connections = 200

export interface LoadedServer {
  readonly process: ChildProcess
  readonly listening: Listening
}

export const startServer = async (kind: ServerKind): Promise<LoadedServer> => {
  const [, main = ""] = process.argv
  const child = fork(main, [loadServerFlag, kind], { execArgv: ["--expose-gc"] })
  const [listening] = await Promise.race([
    once(child, "message") as Promise<[Listening]>,
    once(child, "exit").then(([code]) => Promise.reject(new Error(`${kind} ended with ${code}`)))
  ])
  return { process: child, listening }
}

export const stopServer = async ({ process }: LoadedServer) => {
  process.kill()
  await once(process, "exit")
}

export const memoryOf = async ({ process }: LoadedServer): Promise<Memory> => {
  process.send("memory")
  const [memory] = (await once(process, "message")) as [Memory]
  return memory
}

/** Microseconds of processor time that a process has used. */
const processorTime = ({ process }: LoadedServer): number => {
  const [, fields = ""] = readFileSync(`/proc/${process.pid}/stat`, "utf8").split(") ")
  const [user, system] = fields.split(" ").slice(11, 13).map(Number)
  // In hundredths of a second on every Linux.
  return ((user ?? 0) + (system ?? 0)) * 10_000
}

export interface Load {
  readonly requestsPerSecond: number
  /** Milliseconds. */
  readonly median: number
  readonly p99: number
  /** Microseconds of the server's processor time for a request. */
  readonly processorTime: number
}

/**
 * Each connection asks for the next container as soon as it has its answer, until `requests` have been asked. Sockets alone,
 * since a client of HTTP would use more of the machine than the servers do.
 */
export const load = async (server: LoadedServer, requests: number): Promise<Load> => {
  const { containers, etag, key, port } = server.listening
  const texts = containers.map((id) =>
    Buffer.from(
      `GET /api/v1/learning/containers/${id}/skills HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n` +
        `Accept: application/zip\r\nAccept-Encoding: identity\r\nIf-None-Match: ${etag}\r\n\r\n`
    )
  )
  const latencies = new Float64Array(requests)
  let asked = 0
  let answered = 0
  const converse = (socket: Socket): Promise<void> =>
    new Promise((resolve, reject) => {
      let received = ""
      let start = 0
      const ask = () => {
        if (asked === requests) return resolve()
        start = performance.now()
        socket.write(texts[asked++ % texts.length] ?? "")
      }
      socket.on("error", reject).on("data", (data) => {
        received += data.toString("latin1")
        if (!received.endsWith("\r\n\r\n")) return
        if (!received.startsWith("HTTP/1.1 304 ")) {
          return reject(new Error(`answered ${received.slice(0, received.indexOf("\r\n"))}`))
        }
        received = ""
        latencies[answered++] = performance.now() - start
        ask()
      })
      ask()
    })
  const sockets = Array.from({ length: connections }, () => connect({ port, host: "127.0.0.1", noDelay: true }))
  await Promise.all(sockets.map((socket) => once(socket, "connect")))
  const processorBefore = processorTime(server)
  const start = performance.now()
  await Promise.all(sockets.map(converse))
  const seconds = (performance.now() - start) / 1000
  const used = processorTime(server) - processorBefore
  for (const socket of sockets) socket.destroy()
  latencies.sort()
  return {
    requestsPerSecond: requests / seconds,
    median: latencies[requests >> 1] ?? Number.NaN,
    p99: latencies[Math.floor(requests * 0.99)] ?? Number.NaN,
    processorTime: used / requests
  }
}
