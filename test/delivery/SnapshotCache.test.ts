import { FileSystem, KeyValueStore } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Either, Layer, Option, Redacted, Tracer } from "effect"
import * as FastCheck from "fast-check"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import * as SnapshotRecord from "../../src/delivery/SnapshotRecord.js"
import * as SealedRecords from "../support/SealedRecords.js"

const seed = 20_261_130
const { slot } = SealedRecords
const otherSlot = "f".repeat(64)

const inTemporaryDirectory = <A, E, R>(make: (directory: string) => Layer.Layer<A, E, R>) =>
  Layer.unwrapScoped(
    Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.map(fs.makeTempDirectoryScoped(), make))
  ).pipe(Layer.provide(NodeContext.layer))

/** A store of strings only, as the browser's is. */
const layerStrings = KeyValueStore.layerStorage(() => {
  const items = new Map<string, string>()
  return {
    get length() {
      return items.size
    },
    clear: () => items.clear(),
    getItem: (key: string) => items.get(key) ?? null,
    key: () => null,
    removeItem: (key: string) => items.delete(key),
    setItem: (key: string, value: string) => items.set(key, value)
  }
})

const layerPrefixed = Layer.effect(
  KeyValueStore.KeyValueStore,
  Effect.map(KeyValueStore.KeyValueStore, KeyValueStore.prefix("skills/"))
).pipe(Layer.provide(KeyValueStore.layerMemory))

const over = (store: Layer.Layer<KeyValueStore.KeyValueStore>) => Layer.provide(SnapshotCache.layerKeyValueStore, store)

const backends = [
  ["memory", SnapshotCache.layerMemory],
  ["files", inTemporaryDirectory((directory) => SnapshotCache.layerFiles({ directory }))],
  ["a key-value store in memory", over(KeyValueStore.layerMemory)],
  ["a key-value store in files", over(inTemporaryDirectory(KeyValueStore.layerFileSystem).pipe(Layer.orDie))],
  ["a key-value store of strings", over(layerStrings)],
  ["a key-value store with a prefix", over(layerPrefixed)]
] as const

const cacheError = (operation: "load" | "save", reason: string) =>
  Either.left(new SnapshotCache.SnapshotCacheError({ operation, reason }))

describe.each(backends)("SnapshotCache over %s", (name, backend) => {
  const test = (behaviour: string, program: Effect.Effect<void, unknown>) =>
    it.effect(behaviour, () => Effect.provide(program, backend))

  test(
    "says that it is persistent and has nothing at first",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      expect(cache.persistent).toBe(true)
      expect(yield* cache.load(slot)).toEqual(Option.none())
    })
  )

  test(
    "gives back the bytes that were saved, whatever they are",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      for (const record of [
        new Uint8Array(0),
        new Uint8Array([0]),
        Uint8Array.from({ length: 256 }, (_, byte) => byte),
        new TextEncoder().encode("\ufefftext"),
        Buffer.from("a view of a pool")
      ]) {
        yield* cache.save(slot, record)
        expect(yield* cache.load(slot)).toEqual(Option.some(new Uint8Array(record)))
      }
    })
  )

  test(
    "keeps slots apart, and replaces a record by a shorter and by a longer one",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      yield* cache.save(otherSlot, new Uint8Array([9, 9]))
      for (const length of [1_000, 10, 5_000]) {
        const record = new Uint8Array(length).fill(length % 251)
        yield* cache.save(slot, record)
        expect(yield* cache.load(slot)).toEqual(Option.some(record))
      }
      expect(yield* cache.load(otherSlot)).toEqual(Option.some(new Uint8Array([9, 9])))
    })
  )

  test(
    "is not changed by what a caller does to the bytes afterwards",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      const record = new Uint8Array([1, 2, 3])
      yield* cache.save(slot, record)
      record.fill(0)
      const loaded = Option.getOrThrow(yield* cache.load(slot))
      expect(loaded).toEqual(new Uint8Array([1, 2, 3]))
      loaded.fill(0)
      expect(yield* cache.load(slot)).toEqual(Option.some(new Uint8Array([1, 2, 3])))
    })
  )

  test(
    "ends with one whole record after concurrent saves of one slot",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      const revisions = Array.from({ length: 20 }, (_, index) => `r${index}`)
      const records = yield* Effect.forEach(revisions, (revision) => SealedRecords.sealed(revision, 10_000))
      yield* Effect.forEach(records, (record) => cache.save(slot, record), { concurrency: "unbounded", discard: true })
      const last = Option.getOrThrow(yield* cache.load(slot))
      expect(revisions).toContain(yield* SealedRecords.revisionOf(last))
    })
  )

  test(
    "keeps the largest record and refuses one of a byte more",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      const largest = new Uint8Array(SnapshotRecord.maxBytes).fill(7)
      largest[largest.length - 1] = 8
      yield* cache.save(slot, largest)
      const loaded = Option.getOrThrow(yield* cache.load(slot))
      // Compared natively: `toEqual` takes seconds for so many bytes.
      expect(Buffer.compare(loaded, largest)).toBe(0)
      expect(yield* Effect.either(cache.save(slot, new Uint8Array(SnapshotRecord.maxBytes + 1)))).toEqual(
        cacheError("save", "size")
      )
      expect(Buffer.compare(Option.getOrThrow(yield* cache.load(slot)), largest)).toBe(0)
    })
  )

  test(
    "refuses what is not a slot",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      for (const bad of ["", "..", `../${slot}`, slot.toUpperCase(), slot.slice(1), `${slot}0`, `${slot}\n`]) {
        expect(yield* Effect.either(cache.save(bad, new Uint8Array(1)))).toEqual(cacheError("save", "slot"))
        expect(yield* Effect.either(cache.load(bad))).toEqual(cacheError("load", "slot"))
      }
    })
  )

  test(
    "traces a load and a save with hit and bytes, and nothing of the record or its key",
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      const spans: Array<Tracer.Span> = []
      const native = yield* Effect.tracer
      const tracer = Tracer.make({
        context: native.context,
        span: (...args) => {
          const span = native.span(...args)
          spans.push(span)
          return span
        }
      })
      yield* Effect.gen(function* () {
        yield* cache.load(slot)
        yield* cache.save(slot, new Uint8Array([1, 2, 3]))
        yield* cache.load(slot)
      }).pipe(Effect.withTracer(tracer))
      expect(
        spans
          .filter(({ name }) => name.startsWith("SnapshotCache."))
          .map(({ attributes, name }) => [
            name,
            Object.fromEntries([...attributes].filter(([key]) => !key.startsWith("code.")))
          ])
      ).toEqual([
        ["SnapshotCache.load", { "cache.hit": false, "cache.bytes": 0 }],
        ["SnapshotCache.save", { "cache.bytes": 3 }],
        ["SnapshotCache.load", { "cache.hit": true, "cache.bytes": 3 }]
      ])
    })
  )

  if (name === "memory") {
    test(
      "starts empty for each build of the layer",
      Effect.gen(function* () {
        const cache = yield* SnapshotCache.SnapshotCache
        yield* cache.save(slot, new Uint8Array(1))
        const other = yield* Effect.provide(SnapshotCache.SnapshotCache, Layer.fresh(backend))
        expect(yield* other.load(slot)).toEqual(Option.none())
      })
    )
  }
})

describe("SnapshotCache without a layer", () => {
  it.effect("keeps nothing and says so", () =>
    Effect.gen(function* () {
      const cache = yield* SnapshotCache.SnapshotCache
      expect(cache.persistent).toBe(false)
      yield* cache.save(slot, new Uint8Array(1))
      expect(yield* cache.load(slot)).toEqual(Option.none())
    })
  )
})

describe("SnapshotCache.layerKeyValueStore", () => {
  const withStore = <A, E>(
    program: (store: KeyValueStore.KeyValueStore, cache: SnapshotCache.SnapshotCacheService) => Effect.Effect<A, E>
  ) =>
    Effect.gen(function* () {
      return yield* program(yield* KeyValueStore.KeyValueStore, yield* SnapshotCache.SnapshotCache)
    }).pipe(Effect.provide(Layer.provideMerge(SnapshotCache.layerKeyValueStore, KeyValueStore.layerMemory)))

  it.effect(`writes canonical base64 (seed ${seed})`, () =>
    withStore((store, cache) =>
      Effect.promise(() =>
        FastCheck.assert(
          FastCheck.asyncProperty(FastCheck.uint8Array({ maxLength: 400 }), async (bytes) => {
            await Effect.runPromise(cache.save(slot, bytes))
            expect(await Effect.runPromise(store.get(slot))).toEqual(Option.some(Buffer.from(bytes).toString("base64")))
          }),
          { seed, numRuns: 300 }
        )
      )
    )
  )

  it.effect("codes long records in slices that fit together", () =>
    withStore((store, cache) =>
      Effect.gen(function* () {
        for (const extra of [-2, -1, 0, 1, 2, 3]) {
          for (const slice of [256 * 1024, 1024 * 1024]) {
            const record = new Uint8Array(2 * slice + extra)
            for (let index = 0; index < record.length; index++) record[index] = (index * 31) % 256
            yield* cache.save(slot, record)
            const text = Option.getOrThrow(yield* store.get(slot))
            expect(text === Buffer.from(record).toString("base64")).toBe(true)
            expect(Buffer.compare(Option.getOrThrow(yield* cache.load(slot)), record)).toBe(0)
          }
        }
      })
    )
  )

  it.effect("refuses values that it has not written", () =>
    withStore((store, cache) =>
      Effect.gen(function* () {
        const slices = "A".repeat(4 * 1024 * 1024)
        for (const value of ["A", "AAA", "A===", "AB==", "AA==AAAA", "AAAA\n", "<html>", "AA-_", `AA==${slices}`]) {
          yield* store.set(slot, value)
          expect(yield* Effect.either(cache.load(slot)), value.slice(0, 10)).toEqual(cacheError("load", "encoding"))
        }
        // Padding exactly where one slice ends, and every later character in its place.
        for (const sliceBytes of [1024 * 1024, 256 * 1024]) {
          const end = Math.floor(sliceBytes / 3) * 4
          yield* store.set(slot, `${slices.slice(0, end - 4)}AA==${slices}`)
          expect(yield* Effect.either(cache.load(slot))).toEqual(cacheError("load", "encoding"))
        }
        yield* store.set(slot, "A".repeat(Math.ceil(SnapshotRecord.maxBytes / 3) * 4 + 4))
        expect(yield* Effect.either(cache.load(slot))).toEqual(cacheError("load", "size"))
      })
    )
  )

  it.effect("gives a safe reason when the store fails or throws", () =>
    Effect.gen(function* () {
      const secret = "postgres://user:password@host"
      const store = (fails: () => Effect.Effect<never, never>) =>
        Layer.succeed(
          KeyValueStore.KeyValueStore,
          KeyValueStore.makeStringOnly({ get: fails, set: fails, remove: fails, clear: fails(), size: fails() })
        )
      const cache = yield* Effect.provide(SnapshotCache.SnapshotCache, over(store(() => Effect.die(new Error(secret)))))
      expect(yield* Effect.either(cache.load(slot))).toEqual(cacheError("load", "defect"))
      expect(yield* Effect.either(cache.save(slot, new Uint8Array(1)))).toEqual(cacheError("save", "defect"))

      const refusing = yield* Effect.provide(
        SnapshotCache.SnapshotCache,
        over(
          KeyValueStore.layerStorage(() => {
            const refuse = (): never => {
              throw new Error(secret)
            }
            return { length: 0, clear: refuse, getItem: refuse, key: refuse, removeItem: refuse, setItem: refuse }
          })
        )
      )
      const error = yield* Effect.flip(refusing.save(slot, new Uint8Array(1)))
      expect(error).toMatchObject({ operation: "save", reason: "PermissionDenied" })
      expect(`${error} ${JSON.stringify(error)}`).not.toContain(slot)
    })
  )
})

describe("SnapshotCache.layerConfig", () => {
  const configured = (settings: ReadonlyArray<readonly [string, string]>) =>
    SnapshotCache.SnapshotCache.pipe(
      Effect.provide(Layer.provide(SnapshotCache.layerConfig, NodeContext.layer)),
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map(settings)))
    )

  it.effect("keeps nothing while the setting is absent", () =>
    Effect.gen(function* () {
      expect((yield* configured([])).persistent).toBe(false)
    })
  )

  it.scoped("keeps files in the directory that the setting names", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = `${yield* fs.makeTempDirectoryScoped()}/made/on/demand`
      const cache = yield* configured([["AGENT_CONTRACTS_SKILLS_CACHE_DIR", directory]])
      expect(yield* fs.exists(directory)).toBe(false)
      yield* cache.save(slot, new Uint8Array(1))
      expect(yield* fs.readDirectory(directory)).toEqual([`${slot}.record`])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect.each(["", "  "])("fails with INVALID_CONFIG that names the setting when it is blank", (directory) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(configured([["AGENT_CONTRACTS_SKILLS_CACHE_DIR", directory]]))
      expect(error).toMatchObject({ _tag: "INVALID_CONFIG", setting: "AGENT_CONTRACTS_SKILLS_CACHE_DIR" })
    })
  )
})

describe("a sealed record in a cache", () => {
  it.scoped("shows no key in its bytes, in its file's name or in an error", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const cache = yield* Effect.provide(SnapshotCache.SnapshotCache, SnapshotCache.layerFiles({ directory }))
      yield* cache.save(slot, yield* SealedRecords.sealed("r1", 100))
      const names = yield* fs.readDirectory(directory)
      const bytes = Buffer.from(yield* fs.readFile(`${directory}/${names[0]}`))
      yield* fs.remove(`${directory}/${names[0]}`)
      yield* fs.makeDirectory(`${directory}/${names[0]}`)
      const errors = yield* Effect.all([Effect.flip(cache.load(slot)), Effect.flip(cache.save(slot, bytes))])
      for (const encoding of ["utf8", "hex", "base64"] as const) {
        const secret = Buffer.from(Redacted.value(SealedRecords.sealingKey)).toString(encoding)
        expect(bytes.includes(secret)).toBe(false)
        expect(names.join()).not.toContain(secret)
        expect(errors.map((error) => `${error} ${error.stack} ${JSON.stringify(error)}`).join()).not.toContain(secret)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
