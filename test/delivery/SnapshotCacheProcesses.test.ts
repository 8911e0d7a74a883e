import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Option } from "effect"
import { inject } from "vitest"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import * as Processes from "../support/Processes.js"
import * as SealedRecords from "../support/SealedRecords.js"

const temporaryFiles = (directory: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readDirectory(directory)).pipe(
    Effect.map((names) => names.filter((name) => !name.endsWith(".record")))
  )

// The other processes run on Node's codec in any case, so one pass says it all.
describe.skipIf(inject("codec") === "portable")("SnapshotCache.layerFiles and other processes", () => {
  it.scopedLive(
    "a process that is killed during any file operation of a save leaves the old record or the new one, whole",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const program = yield* Processes.bundled("SnapshotCacheProcess")
        const directory = yield* fs.makeTempDirectoryScoped()
        const saving = SnapshotCache.layerFiles({ directory })
        const cache = yield* Effect.provide(SnapshotCache.SnapshotCache, saving)

        const revisions = new Set<string | undefined>()
        let leftovers = 0
        for (let killAt = 1; ; killAt++) {
          yield* cache.save(SealedRecords.slot, yield* SealedRecords.sealed("old"))
          const ending = yield* Processes.ending(yield* Processes.start(program, directory, "new", 1, killAt))
          const record = yield* cache.load(SealedRecords.slot)
          revisions.add(yield* SealedRecords.revisionOf(Option.getOrThrow(record)))
          if (ending === 0) break
          expect(ending).toBe("SIGKILL")
          expect(killAt).toBeLessThan(40)

          // Half an hour later what the dead left is gone with the next save.
          const halfAnHourAgo = new Date((yield* Clock.currentTimeMillis) - 30 * 60_000)
          for (const name of yield* temporaryFiles(directory)) {
            leftovers++
            yield* fs.utimes(join(directory, name), halfAnHourAgo, halfAnHourAgo)
          }
          yield* cache.save(SealedRecords.slot, yield* SealedRecords.sealed("next"))
          expect(yield* fs.readDirectory(directory)).toEqual([`${SealedRecords.slot}.record`])
        }
        expect(revisions).toEqual(new Set(["old", "new0"]))
        expect(leftovers).toBeGreaterThan(0)
      }).pipe(Effect.provide(NodeContext.layer)),
    120_000
  )

  it.scopedLive(
    "two processes save one slot at once while a third reads: every record read is whole",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const program = yield* Processes.bundled("SnapshotCacheProcess")
        const directory = yield* fs.makeTempDirectoryScoped()
        const cache = yield* Effect.provide(SnapshotCache.SnapshotCache, SnapshotCache.layerFiles({ directory }))
        yield* cache.save(SealedRecords.slot, yield* SealedRecords.sealed("first"))

        const writers = yield* Effect.all([
          Processes.start(program, directory, "a", 10),
          Processes.start(program, directory, "b", 10)
        ])
        const endings = yield* Effect.fork(Effect.forEach(writers, Processes.ending, { concurrency: "unbounded" }))
        const seen = new Set<string | undefined>()
        while (endings.unsafePoll() === null) {
          const record = yield* cache.load(SealedRecords.slot)
          seen.add(yield* SealedRecords.revisionOf(Option.getOrThrow(record)))
        }
        expect(yield* endings).toEqual([0, 0])
        const last = yield* cache.load(SealedRecords.slot)
        expect(["a9", "b9"]).toContain(yield* SealedRecords.revisionOf(Option.getOrThrow(last)))
        expect(seen.size).toBeGreaterThan(1)
        expect(yield* temporaryFiles(directory)).toEqual([])
      }).pipe(Effect.provide(NodeContext.layer)),
    120_000
  )
})
