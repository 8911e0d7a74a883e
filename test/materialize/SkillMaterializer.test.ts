import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { FileSystem, type Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import type { MaterialSkill } from "../../src/materialize/MaterialSkill.js"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import { fold } from "../../src/materialize/TargetDirectory.js"
import { contents, laidOut, marker, skill } from "../support/Material.js"

const pdf = skill("pdf", { "SKILL.md": "# PDF\n", "docs/deep/guide.md": "Read.\n", "run.sh": "#!/bin/sh\n" })
const pdf2 = skill("pdf", { "SKILL.md": "# PDF 2\n", "docs/other.md": "Other.\n" })
const csv = skill("csv", { "SKILL.md": "# CSV\n" })

interface Fixture {
  /** The skills directory, which is not there yet. */
  readonly directory: string
  /** Its parent. */
  readonly parent: string
  readonly materialize: (...skills: ReadonlyArray<MaterialSkill>) => ReturnType<typeof SkillMaterializer.materialize>
}

const behaviour = (
  name: string,
  program: (fixture: Fixture) => Effect.Effect<void, unknown, Scope.Scope | FileSystem.FileSystem | Path.Path>
) =>
  it.scoped(name, () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const parent = yield* fs.realPath(yield* fs.makeTempDirectoryScoped())
      const directory = join(parent, "skills")
      yield* program({
        directory,
        parent,
        materialize: (...skills) => SkillMaterializer.materialize({ directory, skills })
      })
    }).pipe(Effect.provide(NodeContext.layer))
  )

const nothing = { written: [], kept: [], skipped: [], removed: [], restored: [], leftovers: [], failed: [] }
const kept = ({ name, skillId, version }: MaterialSkill) => ({ skillId, directory: name, version })

describe("SkillMaterializer.materialize", () => {
  behaviour("lays skills out in an absent directory, with a marker and nothing else", ({ directory, materialize }) =>
    Effect.gen(function* () {
      const report = yield* materialize(pdf, csv)
      assert.deepStrictEqual(contents(directory), laidOut([pdf, csv]))
      assert.deepStrictEqual(report, {
        ...nothing,
        written: [
          { ...kept(pdf), files: 3, bytes: 22 },
          { ...kept(csv), files: 1, bytes: 6 }
        ]
      })
    })
  )

  behaviour("keeps what is in place and writes nothing", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf, csv)
      const before = statSync(directory).mtimeMs
      assert.deepStrictEqual(yield* materialize(csv, pdf), { ...nothing, kept: [kept(csv), kept(pdf)] })
      assert.strictEqual(statSync(directory).mtimeMs, before)
    })
  )

  behaviour("replaces a skill whole: files that the new version dropped do not linger", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf, csv)
      const report = yield* materialize(pdf2, csv)
      assert.deepStrictEqual(contents(directory), laidOut([pdf2, csv]))
      assert.deepStrictEqual(report, {
        ...nothing,
        written: [{ ...kept(pdf2), files: 2, bytes: 15 }],
        kept: [kept(csv)]
      })
    })
  )

  behaviour("writes files as 0644 and directories as 0755, and no execute bits", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf)
      const mode = (path: string) => statSync(join(directory, path)).mode & 0o7777
      assert.strictEqual(mode("pdf"), 0o755)
      assert.strictEqual(mode("pdf/docs/deep"), 0o755)
      assert.strictEqual(mode("pdf/run.sh"), 0o644)
      assert.strictEqual(mode(".materialized"), 0o644)
    })
  )

  describe("proves content, not presence:", () => {
    const edits: Readonly<Record<string, (at: (path: string) => string) => void>> = {
      "an edit of the same size": (at) => writeFileSync(at("SKILL.md"), "# PDX\n"),
      "a file that grew": (at) => writeFileSync(at("SKILL.md"), "# PDF\nmore"),
      "an emptied file": (at) => writeFileSync(at("SKILL.md"), ""),
      "a deleted file": (at) => rmSync(at("docs/deep/guide.md")),
      "a deleted directory": (at) => rmSync(at("docs"), { recursive: true }),
      "an extra file": (at) => writeFileSync(at("docs/extra.md"), ""),
      "an extra directory": (at) => mkdirSync(at("docs/extra")),
      "a file where a directory was": (at) => {
        rmSync(at("docs"), { recursive: true })
        writeFileSync(at("docs"), "")
      },
      "a directory where a file was": (at) => {
        rmSync(at("SKILL.md"))
        mkdirSync(at("SKILL.md"))
      },
      "a link to a file of the same content": (at) => {
        writeFileSync(at("../../same"), "# PDF\n")
        rmSync(at("SKILL.md"))
        symlinkSync(at("../../same"), at("SKILL.md"))
      },
      "a pipe": (at) => {
        rmSync(at("SKILL.md"))
        execFileSync("mkfifo", [at("SKILL.md")])
      },
      "the whole directory": (at) => rmSync(at("."), { recursive: true }),
      "a file in the directory's place": (at) => {
        rmSync(at("."), { recursive: true })
        writeFileSync(at("."), "")
      }
    }
    for (const [name, edit] of Object.entries(edits)) {
      behaviour(`${name} is put right, and reported as written`, ({ directory, materialize }) =>
        Effect.gen(function* () {
          yield* materialize(pdf, csv)
          edit((path) => join(directory, "pdf", path))
          const report = yield* materialize(pdf, csv)
          assert.deepStrictEqual(
            report.written.map((kept) => kept.skillId),
            ["pdf"]
          )
          assert.deepStrictEqual(report.kept, [kept(csv)])
          assert.deepStrictEqual(contents(directory), laidOut([pdf, csv]))
        })
      )
    }

    behaviour("an older version under a marker that was forged to name the new one", ({ directory, materialize }) =>
      Effect.gen(function* () {
        yield* materialize(pdf)
        writeFileSync(join(directory, ".materialized"), marker({ pdf: pdf2.version }))
        assert.lengthOf((yield* materialize(pdf2)).written, 1)
        assert.deepStrictEqual(contents(directory), laidOut([pdf2]))
      })
    )
  })

  const named = [
    { skill_id: "csv", version: csv.version },
    { skill_id: "pdf", version: pdf2.version }
  ]
  for (const [name, old] of Object.entries({
    "the bare array of the first generation": JSON.stringify(named),
    "an older generation": JSON.stringify({ v: 1, skills: named }),
    "a newer generation": JSON.stringify({ v: 3, skills: named })
  })) {
    behaviour(
      `materializes again over the marker of ${name}, and removes nothing by it`,
      ({ directory, materialize }) =>
        Effect.gen(function* () {
          yield* materialize(pdf, csv)
          writeFileSync(join(directory, ".materialized"), old)
          assert.deepStrictEqual((yield* materialize(pdf2)).removed, [])
          assert.deepStrictEqual(contents(directory), { ...laidOut([pdf2]), "csv/SKILL.md": "# CSV\n" })
        })
    )
  }

  behaviour(
    "keeps a directory of its user's that has the wanted content already, and never claims it",
    ({ directory, materialize }) =>
      Effect.gen(function* () {
        const { ".materialized": _, ...mine } = laidOut([skill("pdf", { "SKILL.md": "# PDF\n" })])
        const same = skill("pdf", { "SKILL.md": "# PDF\n" })
        mkdirSync(join(directory, "pdf"), { recursive: true })
        writeFileSync(join(directory, "pdf", "SKILL.md"), "# PDF\n")
        assert.deepStrictEqual(yield* materialize(same), { ...nothing, kept: [kept(same)] })
        assert.deepStrictEqual(contents(directory), { ...laidOut([]), ...mine })
        // Another version does not replace it, and no removal removes it.
        assert.deepStrictEqual((yield* materialize(pdf2)).failed, [
          { skillId: "pdf", directory: "pdf", reason: "occupied" }
        ])
        assert.deepStrictEqual((yield* materialize()).removed, [])
        assert.deepStrictEqual(contents(directory), { ...laidOut([]), ...mine })
      })
  )

  behaviour("removes a skill that the marker names and that is wanted no longer", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf, csv)
      assert.deepStrictEqual(yield* materialize(csv), {
        ...nothing,
        kept: [kept(csv)],
        removed: [{ skillId: "pdf", directory: "pdf", reason: "unwanted" }]
      })
      assert.deepStrictEqual(contents(directory), laidOut([csv]))
    })
  )

  behaviour("leaves alone what the marker does not name", ({ directory, materialize }) =>
    Effect.gen(function* () {
      mkdirSync(join(directory, "mine"), { recursive: true })
      writeFileSync(join(directory, "mine", "SKILL.md"), "mine")
      writeFileSync(join(directory, "README.md"), "notes")
      const mine = { "mine/SKILL.md": "mine", "README.md": "notes" }
      yield* materialize(pdf)
      assert.deepStrictEqual(contents(directory), { ...laidOut([pdf]), ...mine })
      yield* materialize()
      assert.deepStrictEqual(contents(directory), { ...laidOut([]), ...mine })
    })
  )

  behaviour("does not replace a directory of its user's that has a wanted name", ({ directory, materialize }) =>
    Effect.gen(function* () {
      mkdirSync(join(directory, "pdf"), { recursive: true })
      writeFileSync(join(directory, "pdf", "SKILL.md"), "mine")
      const report = yield* materialize(pdf, csv)
      assert.deepStrictEqual(report.failed, [{ skillId: "pdf", directory: "pdf", reason: "occupied" }])
      assert.deepStrictEqual(contents(directory), { ...laidOut([csv]), "pdf/SKILL.md": "mine" })
      // Nor is it removed later.
      yield* materialize(csv)
      assert.deepStrictEqual(contents(directory), { ...laidOut([csv]), "pdf/SKILL.md": "mine" })
    })
  )

  for (const [where, name] of Object.entries({
    "lies in another directory": "old-name",
    "lies in the directory of its id": "",
    "lies in one of the same name in another case": "PDF"
  })) {
    behaviour(
      `does not replace a directory of its user's by a skill that ${where} and is renamed to it`,
      ({ directory, materialize }) =>
        Effect.gen(function* () {
          const old = { ...pdf, skillId: "skill_01", version: "7", name }
          yield* materialize(old)
          // A disk that does not tell the cases apart has no such directory of its user's.
          if (existsSync(join(directory, "pdf"))) return
          mkdirSync(join(directory, "pdf"))
          writeFileSync(join(directory, "pdf", "work.txt"), "mine")
          const before = contents(directory)
          const report = yield* materialize({ ...pdf2, skillId: "skill_01", version: "8" })
          assert.deepStrictEqual(report, {
            ...nothing,
            failed: [{ skillId: "skill_01", directory: "pdf", reason: "occupied" }]
          })
          assert.deepStrictEqual(contents(directory), before)
        })
    )
  }

  behaviour("lays stored skills out by their names, and finds them again by their ids", ({ directory, materialize }) =>
    Effect.gen(function* () {
      const stored = { ...pdf, skillId: "skill_01", version: "7" }
      const other = { ...csv, skillId: "skill_02", version: "1" }
      yield* materialize(stored, other)
      const { ".materialized.claims": claims, ...rest } = contents(directory)
      assert.deepStrictEqual(rest, laidOut([stored, other]))
      assert.isString(claims)
      assert.deepStrictEqual(yield* materialize(stored, other), { ...nothing, kept: [kept(stored), kept(other)] })

      // A new version of one; the other is deleted.
      const next = { ...pdf2, skillId: "skill_01", version: "8" }
      assert.deepStrictEqual((yield* materialize(next)).removed, [
        { skillId: "skill_02", directory: "csv", reason: "unwanted" }
      ])
      const { ".materialized.claims": _, ...after } = contents(directory)
      assert.deepStrictEqual(after, laidOut([next]))
      yield* materialize()
      assert.deepStrictEqual(contents(directory), laidOut([]))
    })
  )

  behaviour("replaces what the reference laid out, whose marker knows no directories", ({ directory, materialize }) =>
    Effect.gen(function* () {
      mkdirSync(join(directory, "pdf"), { recursive: true })
      writeFileSync(join(directory, "pdf", "SKILL.md"), "older")
      writeFileSync(join(directory, ".materialized"), marker({ skill_01: "6" }))
      const stored = { ...pdf, skillId: "skill_01", version: "7" }
      assert.lengthOf((yield* materialize(stored)).written, 1)
      const { ".materialized.claims": _, ...rest } = contents(directory)
      assert.deepStrictEqual(rest, laidOut([stored]))
    })
  )

  behaviour(
    "names the directory by the id when the name is none, and fails when neither is one",
    ({ directory, materialize }) =>
      Effect.gen(function* () {
        const report = yield* materialize(
          { ...pdf, name: "", skillId: "skill_01" },
          { ...csv, name: "../csv", skillId: "../../csv" },
          { ...csv, name: ".Materialized.staging-x", skillId: ".." }
        )
        assert.deepStrictEqual(
          report.written.map(({ directory }) => directory),
          ["skill_01"]
        )
        assert.deepStrictEqual(report.failed, [
          { skillId: "../../csv", reason: "name-unusable" },
          { skillId: "..", reason: "name-unusable" }
        ])
        assert.deepStrictEqual(Object.keys(contents(directory)).sort(), [
          ".materialized",
          "skill_01/SKILL.md",
          "skill_01/docs/deep/guide.md",
          "skill_01/run.sh"
        ])
      })
  )

  behaviour(
    "fails both of two skills with the same directory, also by case, and keeps what was there",
    ({ directory, materialize }) =>
      Effect.gen(function* () {
        const ofA = { ...pdf, skillId: "a/pdf" }
        const ofB = { ...pdf2, skillId: "b/PDF", name: "PDF" }
        yield* materialize(ofA)
        const report = yield* materialize(ofA, csv, ofB)
        assert.deepStrictEqual(report.failed, [
          { skillId: "a/pdf", directory: "pdf", reason: "name-conflict" },
          { skillId: "b/PDF", directory: "PDF", reason: "name-conflict" }
        ])
        assert.deepStrictEqual(contents(directory), laidOut([ofA, csv]))
        // Nothing more to do, so nothing is written.
        const before = statSync(directory).mtimeMs
        yield* materialize(ofA, csv, ofB)
        assert.strictEqual(statSync(directory).mtimeMs, before)
        // When the conflict is over, what was kept is still known.
        yield* materialize(csv)
        assert.deepStrictEqual(contents(directory), laidOut([csv]))
      })
  )

  behaviour("fails both of two skills with the same id", ({ materialize }) =>
    Effect.gen(function* () {
      const report = yield* materialize({ ...pdf, skillId: "one" }, { ...csv, skillId: "one" })
      assert.deepStrictEqual(
        report.failed.map(({ reason }) => reason),
        ["name-conflict", "name-conflict"]
      )
    })
  )

  behaviour("hands a directory from one id to another without rewriting it", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf)
      const listed = { ...pdf, skillId: "team/pdf" }
      assert.deepStrictEqual(yield* materialize(listed), { ...nothing, kept: [kept(listed)] })
      assert.deepStrictEqual(contents(directory), laidOut([listed]))
    })
  )

  const broken: Readonly<Record<string, readonly [MaterialSkill, object]>> = {
    "a skill without a SKILL.md at its root": [skill("bad", { "docs/SKILL.md": "" }), { reason: "skill-md-missing" }],
    "a path that leads out": [
      skill("bad", { "SKILL.md": "", "../evil": "" }),
      { reason: "path-unsafe", detail: "../evil" }
    ],
    "an absolute path": [skill("bad", { "SKILL.md": "", "/evil": "" }), { reason: "path-unsafe", detail: "/evil" }],
    "a file where another needs a directory": [
      skill("bad", { "SKILL.md": "", a: "", "a/b": "" }),
      { reason: "path-conflict", detail: "a/b" }
    ],
    "a directory where another is a file": [
      skill("bad", { "SKILL.md": "", "a/b": "", a: "" }),
      { reason: "path-conflict", detail: "a" }
    ],
    "a name that no file can have": [
      skill("bad", { "SKILL.md": "", ["x".repeat(256)]: "" }),
      { reason: "io", detail: "Unknown (ENAMETOOLONG)" }
    ],
    "content that is not what its metadata say": [
      {
        ...skill("bad", { "SKILL.md": "" }),
        files: skill("bad", { "SKILL.md": "good" }).files.map((file) => ({ ...file, bytes: Buffer.from("evil") }))
      },
      { reason: "content", detail: "SKILL.md" }
    ]
  }
  for (const [name, [bad, failure]] of Object.entries(broken)) {
    behaviour(`reports and skips ${name}; the rest lands`, ({ directory, materialize }) =>
      Effect.gen(function* () {
        const report = yield* materialize(bad, csv)
        assert.deepStrictEqual(report.failed, [{ skillId: "bad", directory: "bad", ...failure }] as never)
        assert.deepStrictEqual(contents(directory), laidOut([csv]))
      })
    )
  }

  behaviour("leaves the version before when the next one cannot be laid out", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf, csv)
      const bad = { ...skill("pdf", { "SKILL.md": "", ["x".repeat(256)]: "" }), version: "9" }
      assert.lengthOf((yield* materialize(bad, csv)).failed, 1)
      assert.deepStrictEqual(contents(directory), laidOut([pdf, csv]))
      yield* materialize(csv)
      assert.deepStrictEqual(contents(directory), laidOut([csv]))
    })
  )

  const long = "x".repeat(256)
  for (const [name, next] of Object.entries({
    "cannot be laid out there": { ...skill("new", { "SKILL.md": "", [long]: "" }), version: "8" },
    "would share that with another skill": { ...pdf2, name: "CSV", version: "8" },
    "can have none": { ...pdf2, name: "../new", version: "8" }
  })) {
    behaviour(
      `leaves a skill where it is when it is to have another directory and ${name}`,
      ({ directory, materialize }) =>
        Effect.gen(function* () {
          const old = { ...pdf, skillId: "../01", version: "7", name: "old" }
          yield* materialize(old, csv)
          const before = contents(directory)
          const report = yield* materialize({ ...next, skillId: "../01" }, csv)
          assert.include(
            report.failed.map(({ skillId }) => skillId),
            "../01"
          )
          assert.deepStrictEqual(report.removed, [])
          assert.deepStrictEqual(contents(directory), before)
          // Once it has landed, its old directory goes.
          yield* materialize({ ...next, ...pdf2, skillId: "../01", name: "new" }, csv)
          const { ".materialized": _, ".materialized.claims": __, ...found } = contents(directory)
          assert.deepStrictEqual(Object.keys(found).sort(), ["csv/SKILL.md", "new/SKILL.md", "new/docs/other.md"])
        })
    )
  }

  behaviour("removes the directory of a skill whose name changes its case", ({ directory, materialize }) =>
    Effect.gen(function* () {
      const listed = { skillId: "team/pdf", version: "7" }
      yield* materialize({ ...pdf, ...listed, name: "PDF" })
      yield* materialize({ ...pdf, ...listed, name: "pdf" })
      const { ".materialized.claims": _, ...found } = contents(directory)
      assert.deepStrictEqual(found, laidOut([{ ...pdf, ...listed }]))
      yield* materialize()
      assert.deepStrictEqual(contents(directory), laidOut([]))
    })
  )

  behaviour(
    "replaces the directory of a skill whose name changes its case on a disk that takes no notice of it",
    ({ directory, parent }) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        /** The entry that such a disk finds. */
        const find = (path: string): string => {
          if (!path.startsWith(`${parent}/`)) return path
          const above = find(dirname(path))
          const names = existsSync(above) ? readdirSync(above) : []
          return join(above, names.find((name) => fold(name) === fold(basename(path))) ?? basename(path))
        }
        const folding: FileSystem.FileSystem = {
          ...fs,
          makeDirectory: (path, options) => fs.makeDirectory(find(path), options),
          open: (path, options) => fs.open(find(path), options),
          readDirectory: (path) => fs.readDirectory(find(path)),
          readLink: (path) => fs.readLink(find(path)),
          realPath: (path) => Effect.as(fs.realPath(find(path)), path),
          remove: (path, options) => fs.remove(find(path), options),
          rename: (from, to) => fs.rename(find(from), find(to)),
          stat: (path) => fs.stat(find(path)),
          utimes: (path, ...times) => fs.utimes(find(path), ...times)
        }
        const materialize = (...skills: ReadonlyArray<MaterialSkill>) =>
          Effect.provideService(SkillMaterializer.materialize({ directory, skills }), FileSystem.FileSystem, folding)
        const listed = { skillId: "team/pdf", version: "7" }
        yield* materialize({ ...pdf, ...listed, name: "PDF" })
        // The same files: the entry keeps its name, and is still known as ours.
        assert.lengthOf((yield* materialize({ ...pdf, ...listed })).kept, 1)
        assert.property(contents(directory), "PDF/SKILL.md")
        const report = yield* materialize({ ...pdf2, ...listed })
        assert.deepStrictEqual([report.removed, report.failed], [[], []])
        assert.deepStrictEqual(contents(directory), laidOut([{ ...pdf2, ...listed }]))
        yield* materialize()
        assert.deepStrictEqual(contents(directory), laidOut([]))
      })
  )

  behaviour("does not name a version whose files were edited and cannot be put right", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf, csv)
      writeFileSync(join(directory, "pdf", "SKILL.md"), "edited")
      const evil = { ...pdf, files: pdf.files.map((file) => ({ ...file, bytes: Buffer.from("evil") })) }
      assert.deepStrictEqual(
        (yield* materialize(evil, csv)).failed.map(({ reason }) => reason),
        ["content"]
      )
      const found = contents(directory)
      assert.strictEqual(found["pdf/SKILL.md"], "edited")
      assert.strictEqual(found[".materialized"], marker({ csv: csv.version }))
      // It is known as ours all the same.
      assert.lengthOf((yield* materialize(csv)).removed, 1)
      assert.deepStrictEqual(contents(directory), laidOut([csv]))
    })
  )

  behaviour("claims what is as wanted when the marker is none, since that named it", ({ directory, materialize }) =>
    Effect.gen(function* () {
      yield* materialize(pdf, csv)
      writeFileSync(join(directory, ".materialized"), "{")
      assert.deepStrictEqual(yield* materialize(pdf, csv), { ...nothing, kept: [kept(pdf), kept(csv)] })
      assert.deepStrictEqual(contents(directory), laidOut([pdf, csv]))
      assert.lengthOf((yield* materialize()).removed, 2)
    })
  )

  behaviour("makes the directories above it too, or says why there can be none", ({ materialize, parent }) =>
    Effect.gen(function* () {
      const deep = join(parent, "a/b/skills")
      yield* SkillMaterializer.materialize({ directory: deep, skills: [csv] })
      assert.deepStrictEqual(contents(deep), laidOut([csv]))
      yield* materialize()
      if (!existsSync("/proc/self")) return
      const error = yield* Effect.flip(SkillMaterializer.materialize({ directory: "/proc/x/y", skills: [csv] }))
      assert.deepInclude({ ...error }, { path: "", reason: "io", detail: "NotFound (ENOENT)" })
    })
  )

  behaviour("does not make a directory for nothing", ({ directory, materialize }) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* materialize(), nothing)
      assert.isFalse(yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.exists(directory)))
    })
  )
})
