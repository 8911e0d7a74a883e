import { existsSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import { contents, laidOut, skill } from "../support/Material.js"
import { temporaryDirectory, withTimePassing } from "../support/Materializations.js"
import { check } from "../support/Seed.js"

const names = ["pdf", "csv", "docx", "a b", "é"]
const paths = ["a", "b.md", "docs/a", "docs/b/c.md", "x/y/z"]

const files = fc
  .dictionary(fc.constantFrom(...paths), fc.string({ maxLength: 8 }), { maxKeys: 4 })
  .map((files) => ({ "SKILL.md": "# Skill\n", ...files }))
const sets = fc
  .dictionary(fc.constantFrom(...names), files, { maxKeys: 4 })
  .map((skills) => Object.entries(skills).map(([name, files]) => skill(name, files)))

/** What others do to a directory between two passes. */
type Edit = (directory: string) => void

const remove = (path: string) => rmSync(path, { recursive: true, force: true })
const put = (path: string, text: string) => {
  for (let at = dirname(path); at.length > 0 && at !== dirname(at); at = dirname(at)) {
    if (existsSync(at)) {
      if (!lstatSync(at).isDirectory()) remove(at)
      break
    }
  }
  mkdirSync(dirname(path), { recursive: true })
  remove(path)
  writeFileSync(path, text)
}

const place = fc
  .tuple(fc.constantFrom(...names), fc.constantFrom("SKILL.md", "extra", ...paths))
  .map((parts) => parts.join("/"))
const edits: fc.Arbitrary<Edit> = fc.oneof(
  fc.tuple(place, fc.string({ maxLength: 8 })).map(
    ([path, text]): Edit =>
      (directory) =>
        // Only in what is laid out: a directory of one's own with a wanted name is left alone.
        existsSync(join(directory, path.split("/")[0] ?? "")) && put(join(directory, path), text)
  ),
  place.map(
    (path): Edit =>
      (directory) =>
        remove(join(directory, path))
  ),
  fc.constantFrom(...names).map(
    (name): Edit =>
      (directory) =>
        remove(join(directory, name))
  ),
  fc.constantFrom(...names).map(
    (name): Edit =>
      (directory) => {
        const link = join(directory, name, "link")
        remove(link)
        if (existsSync(join(directory, name, "SKILL.md"))) symlinkSync("..", link)
      }
  ),
  // As a crash in the middle of a swap leaves it.
  fc.constantFrom(...names).map(
    (name): Edit =>
      (directory) => {
        if (!existsSync(join(directory, name))) return
        mkdirSync(join(directory, ".materialized.staging-dead/old"), { recursive: true })
        mkdirSync(join(directory, ".materialized.staging-dead/new/half"), { recursive: true })
        renameSync(join(directory, name), join(directory, ".materialized.staging-dead/old", name))
      }
  ),
  fc.constant<Edit>((directory) => writeFileSync(join(directory, ".materialized.lock"), "dead")),
  fc.constant<Edit>((directory) => writeFileSync(join(directory, ".materialized.tmp-dead"), "half"))
)
const steps = fc.array(fc.tuple(sets, fc.array(edits, { maxLength: 3 })), { minLength: 1, maxLength: 4 })

describe("a skills directory", () => {
  it.scopedLive(
    "converges on every set of skills, whatever was laid out before and whatever others did to it",
    () =>
      Effect.gen(function* () {
        const parent = yield* temporaryDirectory
        let run = 0
        yield* Effect.promise(() =>
          check(
            [steps],
            async (steps) => {
              const directory = join(parent, String(run++))
              mkdirSync(join(directory, "mine"), { recursive: true })
              writeFileSync(join(directory, "mine/SKILL.md"), "mine")
              const materialize = (skills: Parameters<typeof SkillMaterializer.materialize>[0]["skills"]) =>
                Effect.runPromise(
                  withTimePassing(SkillMaterializer.materialize({ directory, skills })).pipe(
                    Effect.provide(NodeContext.layer)
                  )
                )
              for (const [skills, edits] of steps) {
                const report = await materialize(skills)
                assert.deepStrictEqual(report.failed, [])
                assert.deepStrictEqual(
                  [...report.written, ...report.kept].map(({ skillId }) => skillId).sort(),
                  skills.map(({ skillId }) => skillId).sort()
                )
                const { "mine/SKILL.md": mine, ...found } = contents(directory)
                assert.strictEqual(mine, "mine")
                assert.deepStrictEqual(found, laidOut(skills))
                // Twice is once.
                assert.lengthOf((await materialize(skills)).kept, skills.length)
                for (const edit of edits) edit(directory)
              }
              assert.isTrue(readdirSync(directory).includes(".materialized"))
            },
            { numRuns: 30 }
          )
        )
      }).pipe(Effect.provide(NodeContext.layer)),
    300_000
  )
})
