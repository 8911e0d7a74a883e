/**
 * A process that saves records to a cache of files: `directory`, how many, and optionally the number of the file
 * operation during which it kills itself as `SIGKILL` would at any moment, with no chance to clean up.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Layer } from "effect"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import * as InterceptedFileSystem from "./InterceptedFileSystem.js"
import * as SealedRecords from "./SealedRecords.js"

const [directory = "", name = "", count = "1", killAt = "0"] = process.argv.slice(2)

let operations = 0
const around: InterceptedFileSystem.Around = (_, effect) =>
  Effect.suspend(() => {
    operations++
    if (operations !== Number(killAt)) return effect
    const kill = Effect.sync(() => process.kill(process.pid, "SIGKILL"))
    // The operation has gone to the thread pool when the process ends.
    return Effect.fork(effect).pipe(
      Effect.zipRight(Effect.yieldNow()),
      Effect.zipRight(kill),
      Effect.zipRight(Effect.never)
    )
  })

const files = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (fs) => InterceptedFileSystem.intercept(fs, around))
).pipe(Layer.provide(NodeFileSystem.layer))

const program = Effect.gen(function* () {
  const cache = yield* SnapshotCache.SnapshotCache
  for (let index = 0; index < Number(count); index++) {
    yield* cache.save(SealedRecords.slot, yield* SealedRecords.sealed(`${name}${index}`))
  }
}).pipe(Effect.provide(SnapshotCache.layerFiles({ directory }).pipe(Layer.provide([files, NodePath.layer]))))

Effect.runPromise(program).then(
  () => process.exit(0),
  () => process.exit(1)
)
