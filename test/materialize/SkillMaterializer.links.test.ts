import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import { FileSystem } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import { contents, laidOut, marker, skill } from "../support/Material.js"
import { passOn, prepare, temporaryDirectory } from "../support/Materializations.js"

const pdf = skill("pdf", { "SKILL.md": "# PDF\n", "docs/guide.md": "Read.\n" })
const csv = skill("csv", { "SKILL.md": "# CSV\n" })

/** What lies outside, under the names that a pass works with, so that a step that is led there would change it. */
const precious = {
  ".materialized": marker({ pdf: "1", gone: "1" }),
  "SKILL.md": "precious",
  "a/b.md": "precious",
  "docs/guide.md": "precious",
  "fresh/SKILL.md": "precious",
  "gone/SKILL.md": "precious",
  "new/fresh/SKILL.md": "precious",
  "new/pdf/SKILL.md": "precious",
  "old/pdf/SKILL.md": "precious",
  "pdf/SKILL.md": "precious",
  "removed/gone/SKILL.md": "precious"
}

/** Asserts that nothing outside was written, removed or even touched. */
const assertUntouched = (outside: string, at: string) => {
  assert.deepStrictEqual(contents(outside), precious, at)
  for (const path of Object.keys(precious))
    assert.strictEqual(statSync(join(outside, path)).mtimeMs, 1000, `${at}: ${path}`)
}

const behaviour = (
  name: string,
  program: (place: {
    readonly directory: string
    readonly outside: string
  }) => Effect.Effect<void, unknown, Scope.Scope | NodeContext.NodeContext>
) =>
  it.scoped(
    name,
    () =>
      Effect.gen(function* () {
        const parent = yield* temporaryDirectory
        const outside = join(parent, "outside")
        for (const [path, text] of Object.entries(precious)) {
          mkdirSync(dirname(join(outside, path)), { recursive: true })
          writeFileSync(join(outside, path), text)
          utimesSync(join(outside, path), 1, 1)
        }
        yield* program({ directory: join(parent, "skills"), outside })
        assertUntouched(outside, "at last")
      }).pipe(Effect.provide(NodeContext.layer)),
    300_000
  )

const replaceByLink = (path: string, target: string) => {
  if (existsSync(path)) rmSync(path, { recursive: true })
  symlinkSync(target, path)
}

describe("a link that is there before a pass", () => {
  const refused = { _tag: "MATERIALIZE_FAILED", reason: "link" } as const

  behaviour("in the directory's place is refused", ({ directory, outside }) =>
    Effect.gen(function* () {
      symlinkSync(outside, directory)
      const error = yield* Effect.flip(SkillMaterializer.materialize({ directory, skills: [pdf] }))
      assert.deepInclude({ ...error }, { ...refused, path: "" })
      assert.strictEqual(
        error.message,
        "The skills directory cannot be used: it is a link, or a link is on the way to it."
      )
      assert.deepInclude({ ...(yield* Effect.flip(SkillMaterializer.materialize({ directory, skills: [] }))) }, refused)
    })
  )

  behaviour("in the directory's place that leads nowhere is refused", ({ directory, outside }) =>
    Effect.gen(function* () {
      symlinkSync(join(outside, "absent"), directory)
      assert.deepInclude(
        { ...(yield* Effect.flip(SkillMaterializer.materialize({ directory, skills: [pdf] }))) },
        refused
      )
    })
  )

  behaviour(
    "above the directory is refused below the trusted one, and is its owner's affair above",
    ({ directory, outside }) =>
      Effect.gen(function* () {
        const workspace = dirname(directory)
        symlinkSync(outside, join(workspace, ".agent"))
        const planted = join(workspace, ".agent/skills")
        const error = yield* Effect.flip(
          SkillMaterializer.materialize({ directory: planted, within: workspace, skills: [pdf] })
        )
        assert.deepInclude({ ...error }, refused)

        mkdirSync(join(workspace, "real"))
        symlinkSync(join(workspace, "real"), join(workspace, "alias"))
        yield* SkillMaterializer.materialize({ directory: join(workspace, "alias/skills"), skills: [pdf] })
        assert.deepStrictEqual(contents(join(workspace, "real/skills")), laidOut([pdf]))
      })
  )

  behaviour(
    "is no matter when the directory is not below the trusted one: that is refused first",
    ({ directory, outside }) =>
      Effect.gen(function* () {
        for (const within of [outside, directory, join(directory, "deeper")]) {
          const error = yield* Effect.flip(SkillMaterializer.materialize({ directory, within, skills: [pdf] }))
          assert.strictEqual(error.reason, "outside")
        }
      })
  )

  behaviour("in a skill's place fails that skill, and is neither followed nor removed", ({ directory, outside }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.materialize({ directory, skills: [pdf, csv] })
      replaceByLink(join(directory, "pdf"), outside)
      const report = yield* SkillMaterializer.materialize({ directory, skills: [pdf, csv] })
      assert.deepStrictEqual(report.failed, [{ skillId: "pdf", directory: "pdf", reason: "link" }])
      assert.lengthOf(report.kept, 1)
      // The marker names what is there; that the place is ours is still known.
      const recorded = contents(directory)
      assert.strictEqual(recorded[".materialized"], marker({ csv: csv.version }))
      assert.include(recorded[".materialized.claims"], '"directory":"pdf"')

      const removal = yield* SkillMaterializer.materialize({ directory, skills: [csv] })
      assert.deepStrictEqual(removal.removed, [])
      assert.deepStrictEqual(removal.failed, [{ skillId: "pdf", directory: "pdf", reason: "link" }])
      assert.isTrue(lstatSync(join(directory, "pdf")).isSymbolicLink())

      // Once it is gone, the directory is as wanted again.
      rmSync(join(directory, "pdf"))
      yield* SkillMaterializer.materialize({ directory, skills: [csv] })
      assert.deepStrictEqual(contents(directory), laidOut([csv]))
    })
  )

  behaviour("inside a skill is replaced with the skill, and what it leads to stays", ({ directory, outside }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.materialize({ directory, skills: [pdf] })
      replaceByLink(join(directory, "pdf/docs"), join(outside, "docs"))
      symlinkSync(outside, join(directory, "pdf/extra"))
      assert.lengthOf((yield* SkillMaterializer.materialize({ directory, skills: [pdf] })).written, 1)
      assert.deepStrictEqual(contents(directory), laidOut([pdf]))
    })
  )

  behaviour("in the place of the lock is nobody's lock, and is removed", ({ directory, outside }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.materialize({ directory, skills: [pdf] })
      symlinkSync(join(outside, "SKILL.md"), join(directory, ".materialized.lock"))
      yield* SkillMaterializer.materialize({ directory, skills: [csv] })
      assert.deepStrictEqual(contents(directory), laidOut([csv]))
    })
  )

  for (const name of [".materialized", ".materialized.claims"]) {
    behaviour(`in the place of ${name} is refused`, ({ directory, outside }) =>
      Effect.gen(function* () {
        yield* SkillMaterializer.materialize({ directory, skills: [pdf] })
        replaceByLink(join(directory, name), join(outside, ".materialized"))
        const error = yield* Effect.flip(SkillMaterializer.materialize({ directory, skills: [csv] }))
        assert.deepInclude({ ...error }, { ...refused, path: name })
        assert.isTrue(existsSync(join(directory, "pdf/SKILL.md")))
      })
    )
  }

  behaviour(
    "in what a crash left is removed, as all that no record names, and what it leads to stays",
    ({ directory, outside }) =>
      Effect.gen(function* () {
        mkdirSync(join(directory, ".materialized.staging-1/old/planted"), { recursive: true })
        writeFileSync(join(directory, ".materialized.staging-1/old/planted/SKILL.md"), "nobody's")
        symlinkSync(outside, join(directory, ".materialized.staging-1/new"))
        symlinkSync(outside, join(directory, ".materialized.staging-1/old/evil"))
        symlinkSync(outside, join(directory, ".materialized.staging-2"))
        symlinkSync(outside, join(directory, ".materialized.tmp-3"))
        const report = yield* SkillMaterializer.materialize({ directory, skills: [pdf] })
        assert.deepStrictEqual(report.restored, [])
        assert.deepStrictEqual(contents(directory), laidOut([pdf]))
      })
  )
})

describe("a directory that is removed", () => {
  behaviour(
    "and that a link takes the place of in the last moment is removed by no recursion",
    ({ directory, outside }) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        let swapped = 0
        let recursions = 0
        const hostile = {
          ...fs,
          remove: (path: string, options?: FileSystem.RemoveOptions) => {
            if (options?.recursive === true) recursions++
            return fs.remove(path, options)
          },
          // Between the last look and the step.
          rename: (from: string, to: string) =>
            Effect.suspend(() => {
              if (from.endsWith(".materialized.empty") && lstatSync(to).isDirectory()) {
                rmSync(to, { recursive: true })
                symlinkSync(outside, to)
                swapped++
              }
              return fs.rename(from, to)
            })
        }
        yield* prepare(directory)
        const report = yield* passOn(hostile, directory)
        assert.isAbove(swapped, 3)
        assert.strictEqual(recursions, 0)
        assert.deepStrictEqual(report.failed, [])
        assert.lengthOf(report.leftovers, 1)
      })
  )

  behaviour("and that a disk is mounted in stays, with what is on the disk", ({ directory }) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      yield* prepare(directory)
      // A mount point can be neither moved nor removed.
      const rename: typeof fs.rename = (from, to) =>
        from.endsWith("/docs")
          ? Effect.fail(
              new SystemError({ module: "FileSystem", method: "rename", reason: "Busy", pathOrDescriptor: from })
            )
          : fs.rename(from, to)
      const report = yield* passOn({ ...fs, rename }, directory)
      assert.deepStrictEqual(report.failed, [])
      assert.deepStrictEqual(
        report.leftovers.map(({ detail }) => detail),
        ["Busy"]
      )
      assert.include(Object.values(contents(directory)), "Read.\n")
    })
  )
})

describe("a record that was forged", () => {
  behaviour("names nothing outside the directory, and no file of a pass's own", ({ directory }) =>
    Effect.gen(function* () {
      const escapes = ["../outside", "..", ".", "", "../outside/pdf", ".materialized", "/"]
      yield* SkillMaterializer.materialize({ directory, skills: [pdf] })
      for (const escape of escapes) {
        writeFileSync(
          join(directory, ".materialized"),
          marker({ pdf: pdf.version, [escape]: "1", [`team/${escape}`]: "1", [`../outside/${escape}`]: "1" })
        )
        writeFileSync(
          join(directory, ".materialized.claims"),
          JSON.stringify({ v: 1, claims: [{ skill_id: "evil", directory: escape }] })
        )
        assert.deepStrictEqual((yield* SkillMaterializer.materialize({ directory, skills: [pdf] })).removed, [])
        assert.deepStrictEqual(contents(directory), laidOut([pdf]), escape)
      }
    })
  )
})

describe("a link that is planted during a pass", () => {
  const staging = (directory: string) =>
    readdirSync(directory)
      .filter((name) => /^\.materialized\.(?:staging|discarded)-/.test(name))
      .map((name) => join(directory, name))

  const plants: Readonly<Record<string, (directory: string) => ReadonlyArray<string>>> = {
    "the directory": (directory) => [directory],
    "the staging directory": staging,
    "a part of the staging directory": (directory) =>
      staging(directory).flatMap((path) => ["new", "old", "removed"].map((part) => join(path, part))),
    "a staged skill": (directory) => staging(directory).map((path) => join(path, "new/fresh")),
    "a tree that is being removed": (directory) =>
      staging(directory)
        .filter((path) => path.includes(".discarded-") && lstatSync(path).isDirectory())
        .flatMap((path) => readdirSync(path).map((name) => join(path, name))),
    "a skill": (directory) => ["pdf", "gone"].map((name) => join(directory, name)),
    "the lock": (directory) => [join(directory, ".materialized.lock")],
    "the marker": (directory) => [join(directory, ".materialized")],
    "the claims": (directory) => [join(directory, ".materialized.claims")],
    "a file that is about to be renamed": (directory) =>
      readdirSync(directory)
        .filter((name) => name.startsWith(".materialized.tmp-"))
        .map((name) => join(directory, name))
  }
  const isFile = (path: string) => lstatSync(path, { throwIfNoEntry: false })?.isFile() === true
  for (const [name, paths] of Object.entries(plants)) {
    behaviour(`in the place of ${name}, before whatever step, leads to nothing outside`, ({ directory, outside }) =>
      Effect.gen(function* () {
        let planted = 0
        // Every step is preceded by several looks.
        for (let index = 0; ; index += 2) {
          rmSync(`${directory}.moved`, { recursive: true, force: true })
          yield* prepare(directory)
          const fs = yield* FileSystem.FileSystem
          let looks = 0
          /** Plants what this look at `path` can see; between a look and its step nobody can. */
          const plant = (path: string) =>
            Effect.sync(() => {
              // Steps on a file begin with a look at its directory.
              const seen = paths(directory).filter(
                (place) => path === place || path.startsWith(`${place}/`) || (path === dirname(place) && isFile(place))
              )
              if (seen.length === 0 || looks++ !== index) return
              for (const place of seen) {
                if (!existsSync(place) || lstatSync(place).isSymbolicLink()) continue
                const target = isFile(place) ? join(outside, "SKILL.md") : outside
                mkdirSync(`${directory}.moved`, { recursive: true })
                renameSync(place, join(`${directory}.moved`, String(planted++)))
                symlinkSync(target, place)
              }
            })
          const planting = {
            ...fs,
            readLink: (path: string) => Effect.zipRight(plant(path), fs.readLink(path)),
            realPath: (path: string) => Effect.zipRight(plant(path), fs.realPath(path))
          }
          yield* Effect.either(passOn(planting, directory))
          assertUntouched(outside, `at ${index}`)
          if (looks <= index) break
        }
        assert.isAbove(planted, 1)
      })
    )
  }
})
