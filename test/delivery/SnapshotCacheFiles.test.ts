import { execFileSync } from "node:child_process"
import { FileSystem } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Either, Exit, Fiber, Layer, Option, Runtime, type Scope, TestClock } from "effect"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import * as SnapshotRecord from "../../src/delivery/SnapshotRecord.js"
import * as InterceptedFileSystem from "../support/InterceptedFileSystem.js"
import * as SealedRecords from "../support/SealedRecords.js"

const { slot } = SealedRecords

interface Fixture {
  readonly fs: FileSystem.FileSystem
  readonly directory: string
  /** Where the record of `slot` lies. */
  readonly file: string
  readonly cache: SnapshotCache.SnapshotCacheService
}

const openCache = (directory: string, around?: InterceptedFileSystem.Around) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const files = around === undefined ? fs : InterceptedFileSystem.intercept(fs, around)
    return yield* Effect.provide(
      SnapshotCache.SnapshotCache,
      Layer.provide(SnapshotCache.layerFiles({ directory }), Layer.succeed(FileSystem.FileSystem, files))
    )
  }).pipe(Effect.provide(NodeContext.layer))

const behaviour = (
  name: string,
  program: (fixture: Fixture) => Effect.Effect<void, unknown, Scope.Scope | NodeContext.NodeContext>
) =>
  it.scoped(name, () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = `${yield* fs.makeTempDirectoryScoped()}/cache`
      const cache = yield* openCache(directory)
      yield* program({ fs, directory, file: `${directory}/${slot}.record`, cache })
    }).pipe(Effect.provide(NodeContext.layer))
  )

const mode = (fs: FileSystem.FileSystem, path: string) => Effect.map(fs.stat(path), (info) => info.mode & 0o777)

const revisionIn = (cache: SnapshotCache.SnapshotCacheService) =>
  Effect.flatMap(cache.load(slot), (record) => SealedRecords.revisionOf(Option.getOrThrow(record)))

const cacheError = (operation: "load" | "save", reason: string) =>
  Either.left(new SnapshotCache.SnapshotCacheError({ operation, reason }))

describe("SnapshotCache.layerFiles", () => {
  behaviour("makes the directory when first saving, for this user only", ({ cache, directory, file, fs }) =>
    Effect.gen(function* () {
      expect(yield* cache.load(slot)).toEqual(Option.none())
      expect(yield* fs.exists(directory)).toBe(false)
      yield* cache.save(slot, new Uint8Array(1))
      expect(yield* mode(fs, directory)).toBe(0o700)
      expect(yield* mode(fs, file)).toBe(0o600)
    })
  )

  behaviour("makes a record private that was readable by others", ({ cache, directory, file, fs }) =>
    Effect.gen(function* () {
      yield* fs.makeDirectory(directory)
      yield* fs.writeFile(file, new Uint8Array(1), { mode: 0o644 })
      yield* cache.save(slot, new Uint8Array(2))
      expect(yield* mode(fs, file)).toBe(0o600)
    })
  )

  behaviour("outlives the process that saved: another cache of the directory loads it", ({ cache, directory }) =>
    Effect.gen(function* () {
      yield* cache.save(slot, yield* SealedRecords.sealed("r1"))
      expect(yield* revisionIn(yield* openCache(directory))).toBe("r1")
    })
  )

  behaviour(
    "replaces a link at the record's place and leaves what it points to alone",
    ({ cache, directory, file, fs }) =>
      Effect.gen(function* () {
        const victim = `${directory}/victim`
        yield* fs.makeDirectory(directory)
        yield* fs.writeFileString(victim, "precious")
        yield* fs.symlink(victim, file)
        yield* cache.save(slot, yield* SealedRecords.sealed("r1"))
        expect(yield* fs.readFileString(victim)).toBe("precious")
        expect(yield* revisionIn(cache)).toBe("r1")
        expect(Exit.isFailure(yield* Effect.exit(fs.readLink(file)))).toBe(true)
      })
  )

  behaviour("writes under a name that cannot be foreseen, and never into a file that is there", ({ directory }) =>
    Effect.gen(function* () {
      const opened: Array<string> = []
      const fs = yield* FileSystem.FileSystem
      const cache = yield* Effect.provide(
        SnapshotCache.SnapshotCache,
        Layer.provide(
          SnapshotCache.layerFiles({ directory }),
          Layer.succeed(FileSystem.FileSystem, {
            ...fs,
            open: (path, options) => {
              if (options?.flag !== undefined) opened.push(`${options.flag} ${path}`)
              return fs.open(path, options)
            }
          })
        )
      )
      yield* cache.save(slot, new Uint8Array(1))
      yield* cache.save(slot, new Uint8Array(1))
      expect(new Set(opened).size).toBe(2)
      for (const entry of opened) expect(entry).toMatch(new RegExp(`^wx ${directory}/${slot}\\.[0-9a-f-]{36}\\.tmp$`))
    })
  )

  behaviour(
    "refuses to read a pipe, a device or a directory, and does not wait for them",
    ({ cache, directory, file, fs }) =>
      Effect.gen(function* () {
        yield* fs.makeDirectory(directory)
        yield* Effect.sync(() => execFileSync("mkfifo", [file]))
        expect(yield* Effect.either(cache.load(slot))).toEqual(cacheError("load", "type"))
        yield* fs.remove(file)
        yield* fs.symlink("/dev/zero", file)
        expect(yield* Effect.either(cache.load(slot))).toEqual(cacheError("load", "type"))
        yield* fs.remove(file)
        yield* fs.makeDirectory(file)
        expect(yield* Effect.either(cache.load(slot))).toEqual(cacheError("load", "type"))
      })
  )

  behaviour("refuses a file larger than a record without reading it", ({ directory, file, fs }) =>
    Effect.gen(function* () {
      const operations: Array<string> = []
      const cache = yield* openCache(directory, (operation, effect) => {
        operations.push(operation)
        return effect
      })
      yield* fs.makeDirectory(directory)
      yield* fs.writeFile(file, new Uint8Array(0))
      yield* fs.truncate(file, 1024 ** 4)
      expect(yield* Effect.either(cache.load(slot))).toEqual(cacheError("load", "size"))
      expect(operations).not.toContain("file.read")
      yield* fs.truncate(file, SnapshotRecord.maxBytes)
      expect(Option.getOrThrow(yield* cache.load(slot)).length).toBe(SnapshotRecord.maxBytes)
    })
  )

  behaviour("gives what there is of a file that is cut while it is read", ({ cache, directory, file, fs }) =>
    Effect.gen(function* () {
      yield* cache.save(slot, yield* SealedRecords.sealed("r1"))
      const cut = yield* openCache(directory, (operation, effect) =>
        operation === "file.read" ? Effect.zipRight(fs.truncate(file, 100), effect) : effect
      )
      const record = Option.getOrThrow(yield* cut.load(slot))
      expect(record.length).toBe(100)
      expect(yield* Effect.flip(SealedRecords.revisionOf(record))).toMatchObject({ reason: "format" })
    })
  )

  behaviour("reads on when a read gives less than was asked for", ({ cache, directory, fs }) =>
    Effect.gen(function* () {
      yield* cache.save(slot, yield* SealedRecords.sealed("r1", 10_000))
      const short = yield* Effect.provide(
        SnapshotCache.SnapshotCache,
        Layer.provide(
          SnapshotCache.layerFiles({ directory }),
          Layer.succeed(FileSystem.FileSystem, {
            ...fs,
            open: (...args) =>
              Effect.map(
                fs.open(...args),
                (file) =>
                  ({
                    ...file,
                    stat: file.stat,
                    read: (buffer: Uint8Array) => file.read(buffer.subarray(0, 700))
                  }) as FileSystem.File
              )
          })
        )
      )
      expect(yield* revisionIn(short)).toBe("r1")
    })
  )

  behaviour("names neither the path nor the system's words when the directory cannot be used", ({ directory, fs }) =>
    Effect.gen(function* () {
      yield* fs.writeFileString(directory, "a file where the directory should be")
      const cache = yield* openCache(directory)
      const errors = yield* Effect.all([
        Effect.flip(cache.load(slot)),
        Effect.flip(cache.save(slot, new Uint8Array(1)))
      ])
      expect(errors.map((error) => error.reason)).toEqual(["BadResource (ENOTDIR)", "AlreadyExists (EEXIST)"])
      for (const error of errors) expect(`${error} ${JSON.stringify(error)} ${error.stack}`).not.toContain(directory)
    })
  )

  behaviour("removes what a crash left, and nothing that may be another's", ({ cache, directory, file, fs }) =>
    Effect.gen(function* () {
      const now = 1_700_000_000_000
      yield* TestClock.setTime(now)
      const uuid = "3b241101-e2bb-4255-8caf-4136c566a962"
      const minutes = { old: 11, recent: 9 }
      const names = {
        old: [`${slot}.${uuid}.tmp`, `${"0".repeat(64)}.${uuid}.tmp`],
        recent: [`${slot}.${uuid.replace("3", "4")}.tmp`],
        foreign: ["notes.tmp", `${slot}.tmp`, `${"0".repeat(64)}.record`, `${slot}.${uuid}.tmp.bak`]
      }
      yield* fs.makeDirectory(directory)
      for (const [age, group] of Object.entries(names)) {
        const at = new Date(now - (age === "recent" ? minutes.recent : minutes.old) * 60_000)
        for (const name of group) {
          yield* fs.writeFileString(`${directory}/${name}`, "half a record")
          yield* fs.utimes(`${directory}/${name}`, at, at)
        }
      }
      yield* cache.save(slot, new Uint8Array(1))
      expect((yield* fs.readDirectory(directory)).sort()).toEqual(
        [...names.recent, ...names.foreign, `${slot}.record`].sort()
      )
      expect(yield* fs.exists(file)).toBe(true)
    })
  )
})

/** Runs a save again and again, each time with something at the next of its operations, until it has no more. */
const atEachOperation = (
  fixture: Fixture,
  run: (context: {
    readonly operation: () => string
    readonly saving: (
      at: <A, R>(effect: Effect.Effect<A, PlatformError, R>, operation: string) => Effect.Effect<A, PlatformError, R>
    ) => Effect.Effect<SnapshotCache.SnapshotCacheService>
  }) => Effect.Effect<void, unknown, Scope.Scope>
) =>
  Effect.gen(function* () {
    const operations: Array<string> = []
    for (let index = 0; ; index++) {
      yield* fixture.cache.save(slot, yield* SealedRecords.sealed("old"))
      let count = 0
      let hit: string | undefined
      yield* run({
        operation: () => hit ?? "none",
        saving: (at) =>
          openCache(fixture.directory, (operation, effect) =>
            Effect.suspend(() => {
              if (count++ !== index) return effect
              hit = operation
              return at(effect, operation)
            })
          )
      })
      // Whatever happened: the old record or the new one, whole, and nothing beside it.
      expect(["old", "new"]).toContain(yield* revisionIn(fixture.cache))
      expect(yield* fixture.fs.readDirectory(fixture.directory), `after ${hit}`).toEqual([`${slot}.record`])
      if (hit === undefined) return operations
      operations.push(hit)
    }
  })

const saveOperations = [
  "makeDirectory",
  "readDirectory",
  "open",
  "file.writeAll",
  "file.writeAll",
  "file.sync",
  "close",
  "rename",
  "open",
  "file.sync",
  "close"
]

describe("a save to files that fails", () => {
  // What may fail without harm: tidying up, and making the rename survive a power failure.
  const harmless = new Set([1, 8, 9, 10])

  behaviour("at any operation keeps the previous record and says why", (fixture) =>
    Effect.gen(function* () {
      let index = 0
      const operations = yield* atEachOperation(fixture, ({ operation, saving }) =>
        Effect.gen(function* () {
          const cache = yield* saving((_, operation) => Effect.fail(InterceptedFileSystem.ioError(operation)))
          const result = yield* Effect.either(cache.save(slot, yield* SealedRecords.sealed("new")))
          const at = `${index}: ${operation()}`
          if (operation() === "none" || harmless.has(index)) {
            expect(result, at).toEqual(Either.void)
            expect(yield* revisionIn(fixture.cache), at).toBe("new")
          } else {
            expect(result, at).toEqual(cacheError("save", operation() === "close" ? "defect" : "Unknown (EIO)"))
            expect(yield* revisionIn(fixture.cache), at).toBe("old")
          }
          index++
        })
      )
      expect(operations).toEqual(saveOperations)
    })
  )

  behaviour("after an operation was done all the same leaves one record whole", (fixture) =>
    Effect.gen(function* () {
      const operations = yield* atEachOperation(fixture, ({ saving }) =>
        Effect.gen(function* () {
          const cache = yield* saving((effect, operation) =>
            Effect.zipRight(effect, Effect.fail(InterceptedFileSystem.ioError(operation)))
          )
          yield* Effect.either(cache.save(slot, yield* SealedRecords.sealed("new")))
        })
      )
      expect(operations).toEqual(saveOperations)
    })
  )

  behaviour("because the disk is gone for good fails too, and a later save tidies up", (fixture) =>
    Effect.gen(function* () {
      for (let healthy = 0; healthy < 8; healthy++) {
        yield* fixture.cache.save(slot, yield* SealedRecords.sealed("old"))
        let count = 0
        const cache = yield* openCache(fixture.directory, (operation, effect) =>
          Effect.suspend(() => (count++ < healthy ? effect : Effect.fail(InterceptedFileSystem.ioError(operation))))
        )
        expect(Either.isLeft(yield* Effect.either(cache.save(slot, yield* SealedRecords.sealed("new"))))).toBe(true)
        expect(yield* revisionIn(fixture.cache)).toBe("old")
      }
      const { directory, fs } = fixture
      const names = yield* fs.readDirectory(directory)
      expect(names.length).toBeGreaterThan(1)
      for (const name of names) yield* fs.utimes(`${directory}/${name}`, 0, 0)
      yield* TestClock.setTime(60 * 60_000)
      yield* fixture.cache.save(slot, yield* SealedRecords.sealed("new"))
      expect(yield* fs.readDirectory(directory)).toEqual([`${slot}.record`])
    })
  )

  behaviour("keeps a directory at the record's place, and leaves nothing behind", ({ cache, directory, file, fs }) =>
    Effect.gen(function* () {
      yield* fs.makeDirectory(file, { recursive: true })
      expect(yield* Effect.either(cache.save(slot, new Uint8Array(1)))).toEqual(
        cacheError("save", "BadResource (EISDIR)")
      )
      expect(yield* fs.readDirectory(directory)).toEqual([`${slot}.record`])
    })
  )
})

describe("a save to files that is interrupted", () => {
  behaviour("before any operation leaves the old record or the new one, and nothing else", (fixture) =>
    Effect.gen(function* () {
      const operations = yield* atEachOperation(fixture, ({ saving }) =>
        Effect.gen(function* () {
          const reached = yield* Deferred.make<void>()
          const goOn = yield* Deferred.make<void>()
          const cache = yield* saving((effect) =>
            Deferred.succeed(reached, undefined).pipe(Effect.zipRight(Deferred.await(goOn)), Effect.zipRight(effect))
          )
          const record = yield* SealedRecords.sealed("new")
          const fiber = yield* Effect.fork(cache.save(slot, record))
          yield* Effect.raceFirst(Deferred.await(reached), Fiber.await(fiber))
          yield* Fiber.interruptFork(fiber)
          yield* Deferred.succeed(goOn, undefined)
          yield* Fiber.await(fiber)
        })
      )
      expect(operations).toEqual(saveOperations)
    })
  )

  behaviour("waits for a system call that is under way: nothing is written, synced or renamed later", (fixture) =>
    Effect.gen(function* () {
      const operations = yield* atEachOperation(fixture, ({ operation, saving }) =>
        Effect.gen(function* () {
          const started = yield* Deferred.make<void>()
          const finish = yield* Deferred.make<void>()
          const cache = yield* saving(
            <A, R>(effect: Effect.Effect<A, PlatformError, R>): Effect.Effect<A, PlatformError, R> =>
              Effect.flatMap(Effect.runtime<R>(), (runtime) =>
                // As a system call is: deaf to interruption.
                Effect.promise(async () => {
                  Deferred.unsafeDone(started, Effect.void)
                  await Effect.runPromise(Deferred.await(finish))
                  return Runtime.runPromiseExit(runtime)(effect)
                })
              ).pipe(Effect.flatten)
          )
          const record = yield* SealedRecords.sealed("new")
          const fiber = yield* Effect.fork(cache.save(slot, record))
          yield* Effect.raceFirst(Deferred.await(started), Fiber.await(fiber))
          yield* Fiber.interruptFork(fiber)
          // Far more turns of the disk than closing and removing a file take.
          yield* Effect.repeatN(fixture.fs.stat(fixture.directory), 50)
          const waits = fiber.unsafePoll() === null
          yield* Deferred.succeed(finish, undefined)
          const exit = yield* Fiber.await(fiber)
          if (["file.writeAll", "file.sync", "rename"].includes(operation())) {
            expect(waits, operation()).toBe(true)
            expect(Exit.isInterrupted(exit), operation()).toBe(true)
          }
        })
      )
      expect(operations).toEqual(saveOperations)
    })
  )
})

describe("a load from files that fails", () => {
  behaviour("at any operation says why, and the record is there the next time", ({ cache, directory }) =>
    Effect.gen(function* () {
      yield* cache.save(slot, yield* SealedRecords.sealed("old"))
      const operations = ["stat", "open", "file.stat", "file.read", "close"]
      for (const failing of operations) {
        const broken = yield* openCache(directory, (operation, effect) =>
          operation === failing ? Effect.fail(InterceptedFileSystem.ioError(operation)) : effect
        )
        const reason = failing === "close" ? "defect" : "Unknown (EIO)"
        expect(yield* Effect.either(broken.load(slot))).toEqual(cacheError("load", reason))
        expect(yield* revisionIn(cache)).toBe("old")
      }
    })
  )
})
