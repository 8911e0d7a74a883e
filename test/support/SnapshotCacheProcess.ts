/**
 * A process that saves records to a cache of files: `directory`, how many, and optionally the number of the file
 * operation during which it kills itself.
 */
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Layer } from "effect"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import { layerFiles } from "./KillAt.js"
import * as SealedRecords from "./SealedRecords.js"

const [directory = "", name = "", count = "1", at = "0"] = process.argv.slice(2)

const files = layerFiles(Number(at))

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
