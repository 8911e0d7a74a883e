import { FileSystem, Path } from "@effect/platform"
import { Effect } from "effect"
import type { SkillArchive } from "effect-agent-contracts/delivery"

/** The skills beside this program, wherever it was started from. */
export const readExamples = Effect.flatMap(Path.Path, (path) =>
  readDirectory(path.join(path.dirname(process.argv[1] ?? ""), "skills"))
)

/** Reads skills from a directory: one directory for each skill, with a `SKILL.md` whose head has its description. */
const readDirectory = Effect.fn("readDirectory")(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const names = yield* fs.readDirectory(directory)
  return yield* Effect.forEach(names, (name) => readSkill(directory, name))
})

const readSkill = Effect.fnUntraced(function* (directory: string, name: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = path.join(directory, name)
  const files: Record<string, Uint8Array> = {}
  for (const file of yield* fs.readDirectory(root, { recursive: true })) {
    const absolute = path.join(root, file)
    if ((yield* fs.stat(absolute)).type === "File") {
      files[file.replaceAll(path.sep, "/")] = yield* fs.readFile(absolute)
    }
  }
  const head = yield* fs.readFileString(path.join(root, "SKILL.md"))
  const description = /^description: (.+)$/m.exec(head)?.[1] ?? ""
  const skill: SkillArchive.SkillSource = { name, description, files }
  return skill
})
