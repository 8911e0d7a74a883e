import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import * as UploadProblem from "../../src/publishing/UploadProblem.js"
import { loose, skillFile } from "../support/Uploads.js"

describe("InvalidUpload", () => {
  it.effect("is the same error behind JSON", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(SkillBundle.fromFiles(loose({ "a/SKILL.md": skillFile(), "b\\c": "x" })))
      const text = yield* Schema.encode(Schema.parseJson(UploadProblem.InvalidUpload))(error)
      const decoded = yield* Schema.decode(Schema.parseJson(UploadProblem.InvalidUpload))(text)
      assert.instanceOf(decoded, UploadProblem.InvalidUpload)
      assert.deepStrictEqual(decoded.problems, error.problems)
      assert.strictEqual(decoded.message, error.message)
    })
  )

  it("cuts a path that is shown to 200 code points", () => {
    const { file } = UploadProblem.problemAt("link", "\u{1f600}".repeat(300), "x")
    assert.strictEqual(file, "\u{1f600}".repeat(200))
  })
})

describe("the publishing page", () => {
  it("explains every rule and every warning", () => {
    const page = readFileSync("docs/skill-publishing.md", "utf8")
    const rows = (heading: string) =>
      [...(page.split(`## ${heading}\n`)[1]?.split("\n## ")[0] ?? "").matchAll(/^\| `([\w-]+)` +\|/gm)].map(
        ([, rule]) => rule
      )
    assert.deepStrictEqual(rows("Problems"), [...UploadProblem.UploadRule.literals])
    assert.deepStrictEqual(rows("Warnings"), [...UploadProblem.UploadWarningRule.literals])
  })
})
