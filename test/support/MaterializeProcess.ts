/**
 * A process that lays out one of two sets of skills: `directory`, `before` or `after`, and the number of the operation that
 * writes during which it kills itself as `SIGKILL` would at any moment, with no chance to clean up.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Layer } from "effect"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import * as InterceptedFileSystem from "./InterceptedFileSystem.js"
import { after, before, reads } from "./MaterialSets.js"

const [directory = "", set = "after", killAt = "0"] = process.argv.slice(2)

let operations = 0
const around: InterceptedFileSystem.Around = (operation, effect) =>
  Effect.suspend(() => {
    // An `open` may make a file.
    if (operation !== "open" && reads.has(operation)) return effect
    operations++
    if (operations !== Number(killAt)) return effect
    const kill = Effect.sync(() => process.kill(process.pid, "SIGKILL"))
    // The operation has gone to the thread pool when the process ends.
    return Effect.fork(Effect.interruptible(effect)).pipe(
      Effect.zipRight(Effect.yieldNow()),
      Effect.zipRight(kill),
      Effect.zipRight(Effect.never)
    )
  })

const files = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (fs) => InterceptedFileSystem.intercept(fs, around))
).pipe(Layer.provide(NodeFileSystem.layer))

const skills = set === "before" ? before : set === "after" ? after : []

Effect.runPromise(
  SkillMaterializer.materialize({ directory, skills }).pipe(Effect.provide([files, NodePath.layer]))
).then(
  () => process.exit(0),
  () => process.exit(1)
)
