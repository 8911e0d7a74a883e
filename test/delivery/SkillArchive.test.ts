import { assert, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import * as SkillArchive from "../../src/delivery/SkillArchive.js"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import * as Skills from "../support/Skills.js"

const skills: ReadonlyArray<SkillArchive.SkillSource> = [
  { name: "\u{10000}", description: "Second", files: { "SKILL.md": "" } },
  { name: "\uE000", description: "First", files: { "b.bin": new Uint8Array([0xff, 0]), "SKILL.md": "text", "10": "" } }
]

it.effect("what is packed verifies, and holds what was packed in the contract's order", () =>
  Effect.gen(function* () {
    const snapshot = yield* Effect.flatMap(SkillArchive.pack("r1", skills), Snapshot.verify)
    assert.strictEqual(snapshot.revision, "r1")
    assert.deepStrictEqual(
      snapshot.skills.map(({ name, description, files }) => ({
        name,
        description,
        files: files.map(({ path, bytes }) => [path, [...bytes]])
      })),
      [
        {
          name: "\uE000",
          description: "First",
          files: [
            ["10", []],
            ["SKILL.md", [...Buffer.from("text")]],
            ["b.bin", [0xff, 0]]
          ]
        },
        { name: "\u{10000}", description: "Second", files: [["SKILL.md", []]] }
      ]
    )
  })
)

it.effect("the same skills give the same bytes in any order", () =>
  Effect.gen(function* () {
    const backwards = skills.toReversed().map((skill) => ({
      ...skill,
      files: Object.fromEntries(Object.entries(skill.files).reverse())
    }))
    assert.deepStrictEqual(yield* SkillArchive.pack("r1", backwards), yield* SkillArchive.pack("r1", skills))
  })
)

it.effect("no skills make a valid, empty snapshot", () =>
  Effect.gen(function* () {
    const snapshot = yield* Effect.flatMap(SkillArchive.pack("r1", []), Snapshot.verify)
    assert.deepStrictEqual(snapshot.skills, [])
  })
)

it.effect("an unsafe path is a defect", () =>
  Effect.gen(function* () {
    const exit = yield* Effect.exit(
      SkillArchive.pack("r1", [{ name: "..", description: "", files: { "SKILL.md": "" } }])
    )
    assert.isTrue(Exit.isFailure(exit) && exit.cause._tag === "Die")
  })
)

it.effect("gives the archive that another packer of the same skills gives", () =>
  Effect.gen(function* () {
    const { greeting } = Skills.greeting
    const packed = yield* SkillArchive.pack("r1", [{ name: "greeting", ...greeting }])
    assert.deepStrictEqual(Buffer.from(packed.archive), Buffer.from(Skills.response(Skills.greeting).archive))
    assert.strictEqual(packed.etag, Skills.response(Skills.greeting).etag)
  })
)
