import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { FileSystem, HttpServer, HttpServerResponse } from "@effect/platform"
import { NodeContext, NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { SqlClient } from "@effect/sql"
import { Effect, Layer, Redacted } from "effect"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"
import { cacheHeaders } from "../../src/registry/DeliveryRoutes.js"
import * as Registry from "../../src/registry/Registry.js"
import * as RegistryServer from "../../src/registry/RegistryServer.js"
import * as BlobStore from "../../src/store/BlobStore.js"
import * as Database from "../../src/store/Database.js"

/** The argument that makes the bundle one of the servers that are loaded. */
export const loadServerFlag = "--load-server"

/** What a server's process tells the process that loads it, once it listens. */
export interface Listening {
  readonly port: number
  readonly key: string
  /** What its answers depend on: containers that are asked for in turn, all with this ETag. */
  readonly etag: string
  readonly containers: ReadonlyArray<string>
}

/** What it answers to any message: the bytes that are in use, after a collection of garbage. */
export interface Memory {
  readonly resident: number
  readonly heap: number
}

const tell = (message: Listening | Memory) => Effect.sync(() => process.send?.(message))

const answerMemory = Effect.sync(() =>
  process.on("message", () => {
    globalThis.gc?.()
    const { heapUsed, rss } = process.memoryUsage()
    process.send?.({ resident: rss, heap: heapUsed } satisfies Memory)
  })
)

const constant = { key: "none", etag: `"${"a".repeat(64)}"`, containers: ["container"] }

/** The headers of every 304 of the registry, from a constant. */
const headers = { ...RegistryApi.unchangedHeaders("b".repeat(64), constant.etag), ...cacheHeaders }

/** As little as a server of Node can do. */
const bare = Effect.async<never>(() => {
  const server = createServer((_, response) => response.writeHead(304, headers).end())
  server.listen(0, "127.0.0.1", () =>
    Effect.runSync(tell({ ...constant, port: (server.address() as AddressInfo).port }))
  )
})

const listening = (node: Server) => NodeHttpServer.layer(() => node, { host: "127.0.0.1", port: 0 })

const port = Effect.map(HttpServer.HttpServer, ({ address }) => (address._tag === "TcpAddress" ? address.port : 0))

/** As little as a server of the platform can do. */
const minimal = Effect.gen(function* () {
  yield* HttpServer.serveEffect(HttpServerResponse.empty({ status: 304, headers }))
  yield* tell({ ...constant, port: yield* port })
  return yield* Effect.never
}).pipe(Effect.provide(listening(createServer())), Effect.scoped)

/** What a large registry holds besides. */
interface Contents {
  readonly containers: number
  readonly versions: number
}

/**
 * Containers like the first one, and skills of a hundred versions each. Written as rows: a hundred thousand publishes would
 * take longer than the measurement.
 */
const fill = ({ containers, versions }: Contents) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const others = (columns: string, table: string, from: string) =>
      sql.unsafe(
        `WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)
        INSERT INTO ${table} SELECT ${columns} FROM counted, ${table} first WHERE ${from} = 'container-0'`,
        [containers - 1]
      )
    return sql.withTransaction(
      Effect.all([
        others(
          // Each the number of a write of its own, by which the server reads them.
          "'container-' || n, title, enabled, latest_sequence, next_sequence, created_at, -n, change + n",
          "containers",
          "first.id"
        ),
        others("'container-' || n, revision, sha256, size, revoked_at", "revisions", "first.container_id"),
        others("'container-' || n, sequence, revision, skills, created_at", "revision_history", "first.container_id"),
        sql`UPDATE registry_state SET change = change + ${containers}`,
        sql`
          WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${versions / 100})
          INSERT INTO skills (id, name, display_title, next_version, created_at, updated_at, ordinal)
          SELECT 'skill_' || n, 'skill-' || n, NULL, 101, 0, 0, -n FROM counted`,
        sql`
          WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n < ${versions - 1})
          INSERT INTO skill_versions
            (id, skill_id, version, name, description, directory, sha256, size, key_id, created_at)
          SELECT 'version_' || n, 'skill_' || (n / 100 + 1), n % 100 + 1, 'skill-' || (n / 100 + 1), 'A skill.',
            'skill-' || (n / 100 + 1), printf('%064x', n), 1000, 'key', 0
          FROM counted`
      ])
    )
  })

/** The registry on the embedded store. */
const registry = (contents?: Contents) =>
  Effect.gen(function* () {
    const node = createServer()
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "agent-contracts-bench-" })
    const store = Layer.merge(
      Database.layerLibsql({ directory }),
      BlobStore.layerFiles({ directory: join(directory, "blobs") })
    )
    return yield* Effect.gen(function* () {
      const registry = yield* Registry.Registry
      const { container } = yield* registry.putContainer({ id: "container-0" })
      if (contents !== undefined) yield* fill(contents)
      const { key } = yield* registry.issueKey({ name: "agent", scope: "read", containers: null })
      yield* tell({
        port: yield* port,
        key: Redacted.value(key),
        etag: container.latest?.etag ?? "",
        containers: Array.from({ length: contents?.containers ?? 1 }, (_, index) => `container-${index}`)
      })
      return yield* Effect.never
    }).pipe(
      Effect.provide(
        // All connections share a key here, which would soon have asked too often.
        RegistryServer.layer({ node, rateLimit: { requests: 1e9, per: "1 second" } }).pipe(
          Layer.provideMerge(Layer.merge(Layer.provideMerge(Registry.layer, store), listening(node)))
        )
      )
    )
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

export const serverKinds = ["node:http", "platform", "registry", "large registry"] as const

export type ServerKind = (typeof serverKinds)[number]

const servers = {
  "node:http": bare,
  platform: minimal,
  registry: registry(),
  "large registry": registry({ containers: 5000, versions: 100_000 })
} as const

/** Whoever started it is gone, by a failure say. */
const endWithParent = Effect.sync(() => process.on("disconnect", () => process.exit()))

/** In the child: serves until it is told to stop. */
export const serveLoad = (kind: ServerKind) =>
  NodeRuntime.runMain(Effect.all([endWithParent, answerMemory, servers[kind]]))
