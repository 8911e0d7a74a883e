/**
 * A process that lays out one of two sets of skills: `directory`, `before` or `after`, the number of the operation that
 * writes during which it kills itself, and the user that it is to be.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Layer } from "effect"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import * as InterceptedFileSystem from "./InterceptedFileSystem.js"
import { killAt } from "./KillAt.js"
import { after, before, reads } from "./MaterialSets.js"

const [directory = "", set = "after", at = "0", user] = process.argv.slice(2)

// By now everything is loaded: the user may read none of it.
if (user !== undefined) {
  process.setgroups?.([])
  process.setgid?.(Number(user))
  process.setuid?.(Number(user))
}

const counted = killAt(Number(at))

// An `open` may make a file.
const around: InterceptedFileSystem.Around = (operation, effect) =>
  operation !== "open" && reads.has(operation) ? effect : counted(effect)

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
