import { createServer } from "node:http"
import { FileSystem, HttpServer, Path } from "@effect/platform"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Config, Effect, FiberRef, HashSet, Layer, Logger, Option, Redacted } from "effect"
import * as Registry from "../registry/Registry.js"
import * as RegistryServer from "../registry/RegistryServer.js"
import * as BlobStore from "../store/BlobStore.js"
import * as Database from "../store/Database.js"
import { reasonOf } from "../store/StoreError.js"
import { CannotListen, UsageError } from "./CliError.js"
import * as Output from "./Output.js"

export interface Options {
  readonly port: Option.Option<string>
  readonly host: Option.Option<string>
  readonly data: Option.Option<string>
  readonly databaseUrl: Option.Option<string>
  readonly json: boolean
}

const defaults = { port: 4400, host: "127.0.0.1", data: "registry-data" } as const

/** Serves until it is interrupted; running requests are finished then. */
export const run = Effect.fnUntraced(function* (options: Options) {
  const path = yield* Path.Path
  const port = yield* parsePort(options.port)
  const host = Option.getOrElse(options.host, () => defaults.host)
  const directory = Option.getOrElse(options.data, () => defaults.data)
  const databaseUrl = yield* databaseUrlSetting(options.databaseUrl)

  return yield* Effect.gen(function* () {
    const registry = yield* Registry.Registry
    const keyFile = path.join(directory, "admin-key")
    // Before anybody can ask: a server without a key is of no use.
    const issued = yield* registry.issueFirstKey("admin", (key) => writeKey(directory, keyFile, key))
    return yield* Effect.gen(function* () {
      const url = yield* HttpServer.addressFormattedWith(Effect.succeed)
      const store = Option.isSome(databaseUrl) ? "PostgreSQL" : directory
      yield* options.json
        ? Output.json({ url, store, ...(Option.isSome(issued) ? { adminKeyFile: keyFile } : {}) })
        : Output.lines([
            `registry   ${url}`,
            `store      ${store}`,
            ...(Option.isSome(issued) ? [`admin key  written to ${keyFile}`] : [])
          ])
      return yield* Effect.never
    }).pipe(Effect.provide(server(host, port)))
  }).pipe(
    Effect.provide(Layer.provide(Registry.layer, store(directory, path, databaseUrl))),
    // Nothing of it is the user's to get wrong: the name is a constant.
    Effect.catchTag("INVALID_VALUE", Effect.die),
    // Standard output has what was asked for; the log is for machines.
    Effect.locally(FiberRef.currentLoggers, HashSet.make(Logger.withConsoleError(Logger.jsonLogger)))
  )
})

const parsePort = (text: Option.Option<string>) => {
  const port = Option.match(text, {
    onNone: () => defaults.port,
    onSome: (text) => (/^\d{1,5}$/.test(text) ? Number(text) : Number.NaN)
  })
  return port <= 65_535
    ? Effect.succeed(port)
    : new UsageError({ message: "--port takes a number from 0 to 65535, 0 being any free port" })
}

const databaseUrlSetting = (flag: Option.Option<string>) =>
  Option.isSome(flag)
    ? Effect.succeed(Option.map(flag, Redacted.make))
    : Effect.mapError(
        Config.option(Config.nonEmptyString("AGENT_CONTRACTS_DATABASE_URL")).pipe(
          Config.map(Option.map(Redacted.make))
        ),
        () => new UsageError({ message: "AGENT_CONTRACTS_DATABASE_URL is empty: set it or unset it" })
      )

/** The database first: whoever does not own the directory touches nothing else in it. */
const store = (directory: string, path: Path.Path, databaseUrl: Option.Option<Redacted.Redacted>) =>
  Option.match(databaseUrl, {
    onNone: () =>
      Layer.flatMap(Database.layerLibsql({ directory }), (database) =>
        Layer.merge(Layer.succeedContext(database), BlobStore.layerFiles({ directory: path.join(directory, "blobs") }))
      ),
    onSome: (url) => Layer.provideMerge(BlobStore.layerSql, Database.layerPostgres({ url }))
  })

/** How long a client may take over the end of its answer, once no request runs or the grace of those is over. */
const lastBytes = "2 seconds"

const server = (host: string, port: number) =>
  Layer.suspend(() => {
    const node = createServer()
    // The platform waits for every connection, so one client that reads nothing would keep the process alive.
    const cutOff = Effect.delay(
      Effect.sync(() => node.closeAllConnections()),
      lastBytes
    )
    return RegistryServer.layer().pipe(
      Layer.provideMerge(Layer.scopedDiscard(Effect.addFinalizer(() => Effect.forkDaemon(cutOff)))),
      Layer.provideMerge(NodeHttpServer.layer(() => node, { host, port }))
    )
  }).pipe(Layer.mapError(({ cause }) => new CannotListen({ host, port, reason: reasonOf(cause) })))

/**
 * On disk when it succeeds, whole, for its owner only. It replaces the key of a first start that a crash undid, which opens
 * nothing.
 */
const writeKey = (directory: string, file: string, key: Redacted.Redacted) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const temporary = `${file}.tmp`
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    yield* fs.remove(temporary, { force: true })
    yield* Effect.scoped(
      Effect.gen(function* () {
        const handle = yield* fs.open(temporary, { flag: "wx", mode: 0o600 })
        yield* handle.writeAll(new TextEncoder().encode(`${Redacted.value(key)}\n`))
        yield* handle.sync
      })
    )
    yield* fs.rename(temporary, file)
    yield* Effect.scoped(Effect.flatMap(fs.open(directory), (handle) => handle.sync))
  }).pipe(Effect.mapError((error) => new Database.DatabaseError({ problem: "open", reason: reasonOf(error) })))
