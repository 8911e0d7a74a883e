/**
 * The registry as a process: its settings, where it keeps what, the first admin key, and its end.
 *
 * @module
 */
import { createServer } from "node:http"
import { FileSystem, HttpServer, Path } from "@effect/platform"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Config, Effect, Either, FiberRef, HashSet, Layer, Logger, Option, Redacted } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as DurableFile from "../files/DurableFile.js"
import * as Registry from "../registry/Registry.js"
import * as RegistryServer from "../registry/RegistryServer.js"
import * as BlobStore from "../store/BlobStore.js"
import * as Database from "../store/Database.js"
import { reasonOf } from "../store/StoreError.js"
import * as AtomicFile from "./AtomicFile.js"
import { AdminKeyNotWritten, CannotListen, UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"
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
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const port = yield* parsePort(options.port)
  const host = Option.getOrElse(options.host, () => defaults.host)
  const directory = Option.getOrElse(options.data, () => defaults.data)
  const databaseUrl = yield* databaseUrlSetting(options.databaseUrl)
  yield* requireDirectory(directory)

  return yield* Effect.gen(function* () {
    const registry = yield* Registry.Registry
    const keyFile = path.join(directory, "admin-key")
    // Before anybody can ask: a server without a key is of no use.
    const issued = yield* registry.issueFirstKey("admin", (key) => writeKey(directory, keyFile, key))
    yield* warnOfModes(directory, keyFile)
    return yield* Effect.gen(function* () {
      const url = yield* HttpServer.addressWith((address) => Effect.succeed(urlOf(address)))
      const store = Option.isSome(databaseUrl) ? "PostgreSQL" : directory
      const hasKeyFile = yield* Effect.orElseSucceed(fs.exists(keyFile), () => false)
      yield* options.json
        ? Output.json({ url, store, ...(hasKeyFile ? { adminKeyFile: keyFile } : {}) })
        : Output.lines([
            `registry   ${url}`,
            `store      ${display(store)}`,
            ...(hasKeyFile ? [`admin key  ${Option.isSome(issued) ? "written to" : "in"} ${display(keyFile)}`] : [])
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

/** A directory, or a place for one. */
const requireDirectory = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const found = yield* Effect.either(fs.stat(directory))
  const problem = Either.match(found, {
    onLeft: (error) => (DurableFile.isNotFound(error) ? undefined : InputFile.reason(error)),
    onRight: ({ type }) => (type === "Directory" ? undefined : "is no directory")
  })
  if (problem !== undefined) {
    return yield* new UsageError({ message: `--data: cannot use ${display(directory)}: ${problem}` })
  }
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

const databaseVariable = "AGENT_CONTRACTS_DATABASE_URL"

const databaseUrlSetting = (flag: Option.Option<string>) =>
  Effect.gen(function* () {
    // Neither is a value shown: it has a password.
    const name = Option.isSome(flag) ? "--database-url" : databaseVariable
    // Empty is not unset: a server that was meant to share a database must not start one of its own.
    const url = Option.isSome(flag) ? flag : yield* Effect.orDie(Config.option(Config.string(databaseVariable)))
    if (Option.exists(url, (text) => !/^postgres(?:ql)?:\/\//.test(text))) {
      return yield* new UsageError({
        message: `${name} must begin with postgres://${Option.isSome(flag) ? "" : ", or not be set at all"}`
      })
    }
    return Option.map(url, Redacted.make)
  })

const urlOf = (address: HttpServer.Address): string =>
  // An IPv6 address stands in brackets, which the platform leaves out.
  address._tag === "TcpAddress" && address.hostname.includes(":")
    ? `http://[${address.hostname}]:${address.port}`
    : HttpServer.formatAddress(address)

/** The database first: whoever does not own the directory touches nothing else in it. */
const store = (directory: string, path: Path.Path, databaseUrl: Option.Option<Redacted.Redacted>) =>
  Option.match(databaseUrl, {
    onNone: () =>
      Layer.flatMap(Database.layerLibsql({ directory }), (database) =>
        Layer.merge(Layer.succeedContext(database), BlobStore.layerFiles({ directory: path.join(directory, "blobs") }))
      ),
    onSome: (url) => Layer.provideMerge(BlobStore.layerSql, Database.layerPostgres({ url }))
  })

/** What a connection may take, in milliseconds (docs/registry.md, Connections). */
const connections = {
  /** For the head of a request. */
  headersTimeout: 20_000,
  /** For all of it; the largest upload then needs 70 KB a second. */
  requestTimeout: 600_000,
  /** Without a request. Longer than balancers keep theirs, or one would send a request on a connection that is being closed. */
  keepAliveTimeout: 65_000
} as const

/** Without a byte in either direction while a request runs: whoever does not read their answer holds an archive. */
const stillTimeout = 120_000

const server = (host: string, port: number) =>
  Layer.suspend(() => {
    const node = createServer(connections).setTimeout(stillTimeout)
    return Layer.provideMerge(
      RegistryServer.layer({ node }),
      NodeHttpServer.layer(() => node, { host, port })
    )
  }).pipe(Layer.mapError(({ cause }) => new CannotListen({ host, port, reason: reasonOf(cause) })))

/**
 * On disk when it succeeds, whole, for its owner only. It replaces the key of a first start that a crash undid, which opens
 * nothing.
 */
const writeKey = (directory: string, file: string, key: Redacted.Redacted) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    yield* AtomicFile.write(file, new TextEncoder().encode(`${Redacted.value(key)}\n`), { mode: 0o600 })
  }).pipe(Effect.mapError((error) => new AdminKeyNotWritten({ file, reason: reasonOf(error) })))

/** Says what others on the machine may do that should be the server's alone. Windows has no such modes. */
const warnOfModes = Effect.fnUntraced(function* (directory: string, keyFile: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if (path.sep === "\\") return
  const allows = (at: string, modes: number) =>
    Effect.match(fs.stat(at), { onFailure: () => false, onSuccess: ({ mode }) => (mode & modes) !== 0 })
  if (yield* allows(directory, 0o022)) {
    yield* Effect.logWarning(
      "Others can write to the data directory, and so replace keys and archives; take that from them"
    ).pipe(Effect.annotateLogs({ directory }))
  }
  if (yield* allows(keyFile, 0o077)) {
    yield* Effect.logWarning("Others can read or write the admin key; revoke it, and delete the file").pipe(
      Effect.annotateLogs({ file: keyFile })
    )
  }
})
