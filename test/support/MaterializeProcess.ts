/**
 * A process that lays out one of two sets of skills: `directory`, `before` or `after`, the number of the operation that
 * writes during which it kills itself, and the user that it is to be.
 */
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect } from "effect"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import { writes } from "./InterceptedFileSystem.js"
import { layerFiles } from "./KillAt.js"
import { after, before } from "./MaterialSets.js"

const [directory = "", set = "after", at = "0", user] = process.argv.slice(2)

// By now everything is loaded: the user may read none of it.
if (user !== undefined) {
  process.setgroups?.([])
  process.setgid?.(Number(user))
  process.setuid?.(Number(user))
}

const files = layerFiles(Number(at), writes)

const skills = set === "before" ? before : set === "after" ? after : []

Effect.runPromise(
  SkillMaterializer.materialize({ directory, skills }).pipe(Effect.provide([files, NodePath.layer]))
).then(
  () => process.exit(0),
  () => process.exit(1)
)
