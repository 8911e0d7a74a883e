/**
 * A process that runs `skills pack`: the skill, where the archive goes, and optionally the number of the operation that writes
 * during which it kills itself.
 */
import * as Terminal from "@effect/platform/Terminal"
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Option } from "effect"
import * as SkillsPack from "../../src/cli/SkillsPack.js"
import { writes } from "./InterceptedFileSystem.js"
import { layerFiles } from "./KillAt.js"
import * as Terminals from "./Terminals.js"

const [source = "", output = "", at = "0"] = process.argv.slice(2)

const files = layerFiles(Number(at), writes)

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
