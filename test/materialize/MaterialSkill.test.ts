import { createHash } from "node:crypto"
import { join } from "node:path"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as MaterialSkill from "../../src/materialize/MaterialSkill.js"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import { contents, marker } from "../support/Material.js"
import { temporaryDirectory } from "../support/Materializations.js"
import * as Skills from "../support/Skills.js"

const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex")
const bytes = (text: string) => new TextEncoder().encode(text)

describe("MaterialSkill.fromSnapshot", () => {
  it.effect("takes the name as delivered for the id, and a version of the files alone", () =>
    Effect.gen(function* () {
      const snapshot = yield* Skills.verified({
        pdf: { description: "one", files: { "b.md": "b", "SKILL.md": "# PDF\n" } }
      })
      const [skill] = MaterialSkill.fromSnapshot(snapshot)
      const expected = [
        ["SKILL.md", 6, sha256("# PDF\n")],
        ["b.md", 1, sha256("b")]
      ]
      assert.strictEqual(skill?.skillId, "pdf")
      assert.strictEqual(skill?.name, "pdf")
      assert.strictEqual(skill?.version, sha256(JSON.stringify(expected)))

      const other = yield* Skills.verified(
        {
          pdf: { description: "two", files: { "SKILL.md": "# PDF\n", "b.md": "b" } },
          csv: { files: { "SKILL.md": "" } }
        },
        "r2"
      )
      assert.strictEqual(MaterialSkill.fromSnapshot(other)[1]?.version, skill?.version)
    })
  )

  it("gives another version for another path, size, digest or set of files", () => {
    const file = { path: "a", size: 1, sha256: "0" }
    const versions = [
      [],
      [file],
      [{ ...file, path: "b" }],
      [{ ...file, size: 2 }],
      [{ ...file, sha256: "1" }],
      [file, { ...file, path: "b" }]
    ].map(MaterialSkill.contentVersion)
    assert.strictEqual(new Set(versions).size, versions.length)
  })

  it("takes the bare name for the directory, whatever the container's id", () => {
    assert.strictEqual(MaterialSkill.bareName("pdf"), "pdf")
    assert.strictEqual(MaterialSkill.bareName(`${encodeURIComponent("team/a b")}/pdf`), "pdf")
  })
})

describe("MaterialSkill.fromArchive", () => {
  const archive = Effect.map(
    SkillBundle.fromFiles([
      { path: "greeting/SKILL.md", bytes: bytes("---\nname: greeting\ndescription: Greets\n---\nHello.\n") },
      { path: "greeting/docs/tone.md", bytes: bytes("Warm.\n") }
    ]),
    (bundle) => bundle.archive
  )
  const options = { skillId: "skill_01", version: "3", name: "greeting" }
  const inChunks = (archive: Uint8Array) => Stream.fromIterable([archive.subarray(0, 7), archive.subarray(7)])

  it.scoped("lays a stored archive out, held to the digest recorded for it", () =>
    Effect.gen(function* () {
      const directory = join(yield* temporaryDirectory, "skills")
      const stored = yield* archive
      const { skill, verified } = yield* MaterialSkill.fromArchive({
        ...options,
        archive: inChunks(stored),
        sha256: sha256(stored).toUpperCase()
      })
      assert.isTrue(verified)
      yield* SkillMaterializer.materialize({ directory, skills: [skill] })
      const { ".materialized.claims": _, ...found } = contents(directory)
      assert.deepStrictEqual(found, {
        ".materialized": marker({ skill_01: "3" }),
        "greeting/SKILL.md": "---\nname: greeting\ndescription: Greets\n---\nHello.\n",
        "greeting/docs/tone.md": "Warm.\n"
      })
      assert.lengthOf((yield* SkillMaterializer.materialize({ directory, skills: [skill] })).kept, 1)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("says when no digest was recorded, and refuses another one", () =>
    Effect.gen(function* () {
      const stored = yield* archive
      const unrecorded = yield* MaterialSkill.fromArchive({ ...options, archive: inChunks(stored), sha256: "" })
      assert.isFalse(unrecorded.verified)
      const error = yield* Effect.flip(
        MaterialSkill.fromArchive({ ...options, archive: inChunks(stored), sha256: "0".repeat(64) })
      )
      assert.strictEqual(error._tag, "DIGEST_MISMATCH")
    })
  )

  it.scoped("never writes links and special files out, and reports them", () =>
    Effect.gen(function* () {
      const directory = join(yield* temporaryDirectory, "skills")
      const hostile = RawZip.build({
        entries: [
          { name: "greeting/SKILL.md", content: bytes("# Hello\n") },
          { name: "greeting/passwd", content: bytes("/etc/passwd"), mode: 0o120777 },
          { name: "greeting/pipe", mode: 0o010644 },
          { name: "greeting/run.sh", content: bytes("#!/bin/sh\n"), mode: 0o104755 }
        ]
      })
      const { skill } = yield* MaterialSkill.fromArchive({ ...options, archive: Stream.make(hostile), sha256: "" })
      const report = yield* SkillMaterializer.materialize({ directory, skills: [skill] })
      assert.deepStrictEqual(report.skipped, [
        { skillId: "skill_01", path: "passwd", reason: "link" },
        { skillId: "skill_01", path: "pipe", reason: "special-file" }
      ])
      assert.deepStrictEqual(
        Object.keys(contents(directory)).filter((path) => path.startsWith("greeting/")),
        ["greeting/SKILL.md", "greeting/run.sh"]
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  const slips = ["greeting/../../evil", "../evil", "/evil", "greeting/./evil", "C:/evil", "greeting//evil"]
  for (const name of slips) {
    it.effect(`refuses the whole archive for the member ${name}`, () =>
      Effect.gen(function* () {
        const hostile = RawZip.build({
          entries: [
            { name: "greeting/SKILL.md", content: bytes("# Hello\n") },
            { name, content: bytes("evil") }
          ]
        })
        const error = yield* Effect.flip(
          MaterialSkill.fromArchive({ ...options, archive: Stream.make(hostile), sha256: "" })
        )
        assert.strictEqual(error._tag, "INVALID_ARCHIVE")
      })
    )
  }
})
