/**
 * A process that runs `skills pack`: the skill, where the archive goes, and optionally the number of the operation that writes
 * during which it kills itself.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Terminal from "@effect/platform/Terminal"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Layer, Option } from "effect"
import * as SkillsPack from "../../src/cli/SkillsPack.js"
import * as InterceptedFileSystem from "./InterceptedFileSystem.js"
import { killAt } from "./KillAt.js"
import { reads } from "./MaterialSets.js"
import * as Terminals from "./Terminals.js"

const [source = "", output = "", at = "0"] = process.argv.slice(2)

const counted = killAt(Number(at))

// An `open` may make a file.
const around: InterceptedFileSystem.Around = (operation, effect) =>
  operation !== "open" && reads.has(operation) ? effect : counted(effect)

const files = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (fs) => InterceptedFileSystem.intercept(fs, around))
).pipe(Layer.provide(NodeFileSystem.layer))

Effect.runPromise(
  SkillsPack.run({ source, output: Option.some(output), json: true }).pipe(
    Effect.provideService(Terminal.Terminal, Terminals.displaying()),
    Effect.provide([files, NodePath.layer])
  )
).then(
  () => process.exit(0),
  (error) => {
    console.error(String(error))
    process.exit(1)
  }
)
