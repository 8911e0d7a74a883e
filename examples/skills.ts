import { FileSystem, Path } from "@effect/platform"
import { Effect } from "effect"
import type { SkillArchive } from "effect-agent-contracts/delivery"

/** The directories of the skills beside this program, wherever it was started from. */
export const exampleDirectories = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = path.join(path.dirname(process.argv[1] ?? ""), "skills")
  return (yield* fs.readDirectory(directory)).map((name) => path.join(directory, name))
})

const readSkill = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const files: Record<string, Uint8Array> = {}
  for (const file of yield* fs.readDirectory(root, { recursive: true })) {
    const absolute = path.join(root, file)
    if ((yield* fs.stat(absolute)).type === "File") {
      files[file.replaceAll(path.sep, "/")] = yield* fs.readFile(absolute)
    }
  }
  const head = yield* fs.readFileString(path.join(root, "SKILL.md"))
  const description = /^description: (.+)$/m.exec(head)?.[1] ?? ""
  const skill: SkillArchive.SkillSource = { name: path.basename(root), description, files }
  return skill
})

/** Those skills, read: each has a `SKILL.md` whose head has its description. */
export const readExamples = Effect.flatMap(exampleDirectories, Effect.forEach(readSkill))
