/**
 * Where what a delivery knows outlives its process: sealed records by slot (contract, Lifecycle 15).
 *
 * A cache is never trusted: whatever it gives is opened with `SnapshotRecord` and verified again. So a layer here has to
 * keep records whole, and need not keep them safe.
 *
 * @module
 */
import { FileSystem, KeyValueStore, Path } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import {
  Clock,
  Config,
  ConfigError,
  Context,
  Duration,
  Effect,
  Either,
  Layer,
  Metric,
  Option,
  Predicate,
  Schema
} from "effect"
import * as Base64 from "../archive/Base64.js"
import * as DurableFile from "../files/DurableFile.js"
import { InvalidConfig } from "./DeliveryError.js"
import * as SnapshotRecord from "./SnapshotRecord.js"

/** Records that could not be loaded or saved, by `operation` and `reason`. */
export const failures = Metric.counter("effect_agent_contracts_snapshot_cache_failures", {
  description: "Cache records that could not be loaded or saved",
  incremental: true
})

/**
 * A store could not be read or written. Reported, never fatal.
 *
 * `reason` is safe to show: the platform's own word with the system's code (`PermissionDenied (EACCES)`), or `size` (more
 * than a record can have), `slot` (not a slot), `encoding` (not what was saved), `type` (not a regular file) and `defect`.
 */
export class SnapshotCacheError extends Schema.TaggedError<SnapshotCacheError>()("SnapshotCacheError", {
  operation: Schema.Literal("load", "save"),
  reason: Schema.String
}) {
  override get message(): string {
    return `The skill cache could not ${this.operation} a record: ${this.reason}.`
  }
}

export interface SnapshotCacheService {
  /** False when nothing is kept, so that a delivery need not hold archives for it. */
  readonly persistent: boolean
  /** The record last saved under a slot (64 lower-case hex digits). It is the caller's own. */
  readonly load: (slot: string) => Effect.Effect<Option.Option<Uint8Array>, SnapshotCacheError>
  /**
   * Replaces the slot whole or not at all, also when it is interrupted. Interruption may have to wait for a system call,
   * so whoever has a deadline disconnects; saves of one slot are put in order by whoever makes them.
   */
  readonly save: (slot: string, record: Uint8Array) => Effect.Effect<void, SnapshotCacheError>
}

const keepsNothing: SnapshotCacheService = {
  persistent: false,
  load: () => Effect.succeedNone,
  save: () => Effect.void
}

/**
 * The cache of a delivery. A reference, not a tag: without a layer nothing outlives the delivery's own memory.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { SkillDelivery, SnapshotCache } from "effect-agent-contracts/delivery"
 *
 * export const layer = SkillDelivery.layer({ container: "support" }).pipe(
 *   Layer.provide(SnapshotCache.layerFiles({ directory: "/var/cache/agent/skills" })),
 *   Layer.provide(NodeContext.layer)
 * )
 * ```
 */
export class SnapshotCache extends Context.Reference<SnapshotCache>()("effect-agent-contracts/delivery/SnapshotCache", {
  defaultValue: () => keepsNothing
}) {}

/**
 * A cache over a store that keeps bytes by slot: bounds what goes in and out, gives every failure a safe reason, and
 * traces both calls.
 *
 * @param store `load` gives a copy of what `save` was given last, or none; `save` replaces it whole or not at all
 *
 * @example
 * ```ts
 * import { Effect, Layer, Option } from "effect"
 * import { SnapshotCache } from "effect-agent-contracts/delivery"
 *
 * const bucket = new Map<string, Uint8Array>()
 *
 * export const layerBucket = Layer.succeed(
 *   SnapshotCache.SnapshotCache,
 *   SnapshotCache.make({
 *     load: (slot) => Effect.sync(() => Option.fromNullable(bucket.get(slot))),
 *     save: (slot, record) => Effect.sync(() => void bucket.set(slot, record))
 *   })
 * )
 * ```
 */
export const make = (store: {
  readonly load: (slot: string) => Effect.Effect<Option.Option<Uint8Array>, PlatformError | SnapshotCacheError>
  readonly save: (slot: string, record: Uint8Array) => Effect.Effect<void, PlatformError | SnapshotCacheError>
}): SnapshotCacheService => ({
  persistent: true,
  load: Effect.fn("SnapshotCache.load")(function* (slot) {
    yield* requireSlot("load", slot)
    const record = yield* withSafeErrors("load", store.load(slot))
    const bytes = Option.match(record, { onNone: () => 0, onSome: (record) => record.length })
    yield* Effect.annotateCurrentSpan({ "cache.hit": Option.isSome(record), "cache.bytes": bytes })
    yield* requireSize("load", bytes)
    return record
  }),
  save: Effect.fn("SnapshotCache.save")(function* (slot, record) {
    yield* Effect.annotateCurrentSpan({ "cache.bytes": record.length })
    yield* requireSlot("save", slot)
    yield* requireSize("save", record.length)
    yield* withSafeErrors("save", store.save(slot, record))
  })
})

type Operation = SnapshotCacheError["operation"]

/** A slot becomes a file name, so nothing else may. */
const requireSlot = (operation: Operation, slot: string) =>
  /^[0-9a-f]{64}$/.test(slot) ? Effect.void : new SnapshotCacheError({ operation, reason: "slot" })

const requireSize = (operation: Operation, bytes: number) =>
  bytes <= SnapshotRecord.maxBytes ? Effect.void : new SnapshotCacheError({ operation, reason: "size" })

/** A store that throws, or a file that cannot be closed, is trouble with the store and no reason to end an acquire. */
const withSafeErrors = <A>(operation: Operation, effect: Effect.Effect<A, PlatformError | SnapshotCacheError>) =>
  effect.pipe(
    Effect.mapError((error) =>
      error._tag === "SnapshotCacheError" ? error : new SnapshotCacheError({ operation, reason: platformReason(error) })
    ),
    Effect.catchAllDefect(() => Effect.fail(new SnapshotCacheError({ operation, reason: "defect" })))
  )

/** Paths and descriptions stay out; the system's code tells a full disk (`ENOSPC`) from a forbidden one. */
const platformReason = (error: PlatformError): string => {
  if (error._tag === "BadArgument") return error._tag
  const code = Predicate.hasProperty(error.cause, "code") ? error.cause.code : undefined
  return typeof code === "string" && /^[A-Z][A-Z0-9_]*$/.test(code) ? `${error.reason} (${code})` : error.reason
}

/**
 * Keeps records in this process: for several deliveries in turn, and for tests. Each build of the layer starts empty.
 *
 * @example
 * ```ts
 * import { Layer } from "effect"
 * import { SkillDelivery, SnapshotCache } from "effect-agent-contracts/delivery"
 *
 * export const layer = Layer.provide(SkillDelivery.layer({ container: "support" }), SnapshotCache.layerMemory)
 * ```
 */
export const layerMemory: Layer.Layer<SnapshotCache> = Layer.sync(SnapshotCache, () => {
  const records = new Map<string, Uint8Array>()
  return make({
    // Copied by construction: `slice` of a Buffer is a view.
    load: (slot) =>
      Effect.sync(() => Option.map(Option.fromNullable(records.get(slot)), (record) => new Uint8Array(record))),
    save: (slot, record) =>
      Effect.sync(() => {
        records.set(slot, new Uint8Array(record))
      })
  })
})

/** Long after the last byte, in milliseconds: also where the clocks of a process and of a file server differ. */
const leftoverAge = Duration.toMillis("10 minutes")

/**
 * Keeps one file per slot in a directory, which is made when first needed. Both are for this user only (0700, 0600).
 *
 * A record is written beside its place, synced and renamed, so that after a crash, a full disk or an interruption the
 * old record or the new one is there, whole; processes may share the directory. What a crash left half written is
 * removed by a later save. Records of containers and keys that are no longer used stay: the directory may be emptied at
 * any time.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { SnapshotCache } from "effect-agent-contracts/delivery"
 *
 * export const layer = Layer.provide(
 *   SnapshotCache.layerFiles({ directory: "/var/cache/agent/skills" }),
 *   NodeContext.layer
 * )
 * ```
 */
export const layerFiles = (options: {
  readonly directory: string
}): Layer.Layer<SnapshotCache, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    SnapshotCache,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { directory } = options

      const load = (slot: string) =>
        Effect.scoped(
          Effect.gen(function* () {
            const file = path.join(directory, `${slot}.record`)
            // Opening a pipe would wait for a writer, and a device has no end.
            if ((yield* fs.stat(file)).type !== "File") {
              return yield* new SnapshotCacheError({ operation: "load", reason: "type" })
            }
            const handle = yield* fs.open(file)
            const size = Number((yield* handle.stat).size)
            yield* requireSize("load", size)
            const record = new Uint8Array(size)
            let length = 0
            while (length < size) {
              const count = Number(yield* handle.read(record.subarray(length)))
              if (count === 0) break
              length += count
            }
            return Option.some(record.subarray(0, length))
          })
        ).pipe(Effect.catchIf(DurableFile.isNotFound, () => Effect.succeedNone))

      const removeLeftovers = Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const names = yield* fs.readDirectory(directory)
        yield* Effect.forEach(
          names.filter((name) => /^[0-9a-f]{64}\.[0-9a-f-]{36}\.tmp$/.test(name)),
          (name) =>
            Effect.gen(function* () {
              const leftover = path.join(directory, name)
              const { mtime } = yield* fs.stat(leftover)
              const isOld = Option.exists(mtime, (mtime) => now - mtime.getTime() > leftoverAge)
              if (isOld) yield* fs.remove(leftover)
              // Another process may have removed or renamed it.
            }).pipe(Effect.ignore),
          { discard: true }
        )
      }).pipe(Effect.ignore)

      // Syncing the directory makes the rename survive a power failure, on systems that can. Nothing that goes wrong there
      // undoes the rename.
      const install = (temporary: string, file: string) =>
        fs
          .rename(temporary, file)
          .pipe(Effect.zipLeft(Effect.exit(DurableFile.syncDirectory(fs, directory))), Effect.uninterruptible)

      const save = Effect.fnUntraced(function* (slot: string, record: Uint8Array) {
        yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
        yield* removeLeftovers
        const temporary = path.join(directory, `${slot}.${crypto.randomUUID()}.tmp`)
        yield* DurableFile.write(fs, temporary, record, { mode: 0o600 }).pipe(
          Effect.zipRight(install(temporary, path.join(directory, `${slot}.record`))),
          Effect.onError(() => Effect.ignore(fs.remove(temporary, { force: true })))
        )
      })

      return make({ load, save })
    })
  )

/**
 * Keeps records in any `KeyValueStore`, shared between hosts where that store is. Keys are slots, values canonical base64.
 *
 * Text, because that is what every store has in common: `KeyValueStore.prefix` reaches the writing of bytes but not their
 * reading, and a store of strings takes half a minute to encode 32 MiB of bytes by itself.
 *
 * @example
 * ```ts
 * import { KeyValueStore } from "@effect/platform"
 * import { Layer } from "effect"
 * import { SnapshotCache } from "effect-agent-contracts/delivery"
 *
 * export const layer = Layer.provide(SnapshotCache.layerKeyValueStore, KeyValueStore.layerMemory)
 * ```
 */
export const layerKeyValueStore: Layer.Layer<SnapshotCache, never, KeyValueStore.KeyValueStore> = Layer.effect(
  SnapshotCache,
  Effect.map(KeyValueStore.KeyValueStore, (store) =>
    make({
      load: (slot) =>
        Effect.flatMap(
          store.get(slot),
          Option.match({ onNone: () => Effect.succeedNone, onSome: (text) => Effect.asSome(fromBase64(text)) })
        ),
      save: (slot, record) => Effect.flatMap(Base64.encode(record), (text) => store.set(slot, text))
    })
  )
)

const fromBase64 = Effect.fnUntraced(function* (text: string) {
  if (text.length > Math.ceil(SnapshotRecord.maxBytes / 3) * 4) {
    return yield* new SnapshotCacheError({ operation: "load", reason: "size" })
  }
  const bytes = yield* Base64.decode(text)
  if (Option.isNone(bytes)) return yield* new SnapshotCacheError({ operation: "load", reason: "encoding" })
  return bytes.value
})

const cacheDirectory = "AGENT_CONTRACTS_SKILLS_CACHE_DIR"

/**
 * `layerFiles` in the directory that `AGENT_CONTRACTS_SKILLS_CACHE_DIR` names; while it is not set nothing is kept. Fails
 * with `INVALID_CONFIG` when it is blank.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Layer } from "effect"
 * import { SkillDelivery, SnapshotCache } from "effect-agent-contracts/delivery"
 *
 * export const layer = SkillDelivery.layerConfig().pipe(
 *   Layer.provide(SnapshotCache.layerConfig),
 *   Layer.provide(NodeContext.layer)
 * )
 * ```
 */
export const layerConfig: Layer.Layer<SnapshotCache, InvalidConfig, FileSystem.FileSystem | Path.Path> =
  Layer.unwrapEffect(
    Config.string(cacheDirectory).pipe(
      Config.mapOrFail((directory) =>
        directory.trim() === "" ? Either.left(ConfigError.InvalidData([], "blank")) : Either.right(directory)
      ),
      Config.option,
      Effect.map(
        Option.match({
          onNone: () => Layer.succeed(SnapshotCache, keepsNothing),
          onSome: (directory) => layerFiles({ directory })
        })
      ),
      Effect.mapError(
        () =>
          new InvalidConfig({
            setting: cacheDirectory,
            problem: "must be the path of a directory, or not be set at all"
          })
      )
    )
  )
