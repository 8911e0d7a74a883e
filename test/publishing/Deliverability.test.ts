import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as fc from "fast-check"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as SkillArchive from "../../src/delivery/SkillArchive.js"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import * as Deliverability from "../../src/publishing/Deliverability.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import { limits } from "../../src/publishing/Upload.js"
import { check } from "../support/Seed.js"
import { greeting, loose, skillFile, type Tree, verdictOf, zip } from "../support/Uploads.js"

const rulesOf = (bundle: SkillBundle.SkillBundle) =>
  Effect.map(Deliverability.check(bundle), (problems) =>
    problems.map(({ file, rule }) => (file === undefined ? rule : `${file}: ${rule}`))
  )

const rules = (tree: Tree) => Effect.flatMap(SkillBundle.fromFiles(loose(tree)), rulesOf)

/**
 * What an agent says of a container of this skill alone, whose revision is named as a registry names it: the length of the
 * archive, or the rule that it breaks.
 */
const delivered = (bundle: SkillBundle.SkillBundle, tree: Tree) => {
  const files = Object.fromEntries(loose(tree).map(({ bytes, path }) => [path.slice("greeting/".length), bytes]))
  return SkillArchive.pack("0".repeat(64), [{ ...bundle, files }]).pipe(
    Effect.flatMap((response) => Effect.as(Snapshot.verify(response), response.archive.length)),
    Effect.catchTag("INVALID_SNAPSHOT", ({ check: broken }) => Effect.succeed(broken))
  )
}

describe("what no container could deliver", () => {
  it.effect("is nothing of a good skill", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* rules(greeting), [])
    })
  )

  it.effect("are paths that delivery refuses and an upload may have", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* rules({ ...greeting, "greeting/c:a": "", "greeting/a\u0007b": "" }), [
        "greeting/a\\u{7}b: delivery-path",
        "greeting/c:a: delivery-path"
      ])
    })
  )

  it.effect("are more than 999 files, the manifest being one of the thousand entries", () =>
    Effect.gen(function* () {
      const many = (count: number) => ({
        "greeting/SKILL.md": skillFile(),
        ...Object.fromEntries(Array.from({ length: count - 1 }, (_, index) => [`greeting/${index}`, ""]))
      })
      assert.deepStrictEqual(yield* rules(many(999)), [])
      assert.deepStrictEqual(yield* rules(many(1000)), ["delivery-entries"])
    })
  )

  it.effect("are names that make the manifest too long beside the content", () =>
    Effect.gen(function* () {
      const of = (count: number): Tree => ({
        "greeting/SKILL.md": skillFile(),
        "greeting/a": new Uint8Array(limits.totalBytes - 1000),
        ...Object.fromEntries(
          Array.from({ length: count }, (_, index) => [`greeting/${index}/${"long".repeat(15_000)}`, ""])
        )
      })
      assert.deepStrictEqual(yield* rules(of(30)), [])
      assert.deepStrictEqual(yield* rules(of(40)), ["delivery-size"])
    })
  )

  /** Bytes that cannot be made smaller. */
  const noise = (length: number) => {
    const words = new Uint32Array(Math.ceil(length / 4))
    let state = 0x9e3779b9
    for (let index = 0; index < words.length; index++) {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      words[index] = state
    }
    return new Uint8Array(words.buffer, 0, length)
  }

  it.effect("is an archive of more than 32 MiB, of files that cannot be made smaller", () =>
    Effect.gen(function* () {
      const names = Array.from({ length: 20 }, (_, index) => `${"long".repeat(14_000)}${index}`)
      const tree: Tree = {
        ...Object.fromEntries(names.map((name) => [name, ""])),
        noise: noise(limits.totalBytes - 1000),
        "SKILL.md": skillFile()
      }
      const files = loose(tree).map(({ bytes, path }) => ({ path, size: bytes.length, sha256: "0".repeat(64) }))
      const entries = loose(tree).map(({ bytes, path }) => ({ name: `greeting/${path}`, content: bytes }))
      const skill = { name: "greeting", description: "Greets people", directory: "greeting", files }
      // Every name is in it twice, and the content once.
      assert.isAbove(limits.totalBytes - 1000 + 2 * names.join("").length, Snapshot.limits.archiveBytes)
      const problems = yield* Deliverability.check({ ...skill, archive: RawZip.build({ entries }) })
      assert.deepStrictEqual(
        problems.map(({ rule }) => rule),
        ["delivery-size"]
      )
    })
  )

  it.effect(
    "is an archive a little longer than 32 MiB, and not one a little shorter",
    () =>
      Effect.gen(function* () {
        const of = (length: number): Tree => ({
          "greeting/SKILL.md": skillFile(),
          ...Object.fromEntries(
            Array.from({ length: 257 }, (_, index) => [`greeting/${index + 100}${"x".repeat(65_000)}`, ""])
          ),
          [`greeting/${"y".repeat(length)}`]: ""
        })
        const bundle = yield* SkillBundle.fromFiles(loose(of(1000)))
        const room = Snapshot.limits.archiveBytes - Number(yield* delivered(bundle, of(1000)))
        for (const more of [-200, 200]) {
          // In the archive every name is there twice.
          const tree = of(1000 + room / 2 + more)
          const near = yield* SkillBundle.fromFiles(loose(tree))
          const problems = yield* rulesOf(near)
          assert.deepStrictEqual(problems, more < 0 ? [] : ["delivery-size"])
          const verdict = yield* delivered(near, tree)
          assert.deepStrictEqual(problems.length === 0, typeof verdict === "number", String(verdict))
        }
      }),
    240_000
  )

  it.effect("is no archive that packs within the bound, however it was uploaded", () =>
    Effect.gen(function* () {
      const tree: Tree = {
        "greeting/SKILL.md": skillFile(),
        "greeting/zeros": new Uint8Array(limits.totalBytes - 100),
        ...Object.fromEntries(
          Array.from({ length: 20 }, (_, index) => [`greeting/${"long".repeat(14_000)}${index}`, ""])
        )
      }
      assert.deepStrictEqual(yield* rulesOf(yield* SkillBundle.fromZip(zip(tree))), [])
    })
  )

  it("is what Snapshot.verify says, of any paths that an upload may have", { timeout: 60_000 }, () => {
    const component = fc.constantFrom("a", "C:", "c:b", "b\u0001", "\u0085", "d:", "con", "..a", "\u{10000}", "\ue000")
    const path = fc.array(component, { minLength: 1, maxLength: 3 }).map((components) => components.join("/"))
    return check([fc.uniqueArray(path, { maxLength: 4 })], async (paths) => {
      const tree: Tree = {
        "greeting/SKILL.md": skillFile(),
        ...Object.fromEntries(paths.map((some) => [`greeting/${some}`, "x"]))
      }
      const bundle = await Effect.runPromise(Effect.either(SkillBundle.fromFiles(loose(tree))))
      fc.pre(Either.isRight(bundle))
      const problems = await Effect.runPromise(Deliverability.check(bundle.right))
      const verified = await Effect.runPromise(delivered(bundle.right, tree))
      assert.strictEqual(problems.length === 0, typeof verified === "number")
    })
  })
})

describe("an upload that is to be deliverable", () => {
  const strict = (tree: Tree) => verdictOf(tree, { deliverable: true })

  it.effect("fails for what no container could deliver", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* strict(greeting), ["valid"])
      assert.deepStrictEqual(yield* strict({ ...greeting, "greeting/a\u0001b": "" }), [
        "greeting/a\\u{1}b: delivery-path"
      ])
      const content = { "greeting/SKILL.md": skillFile(), "greeting/a": new Uint8Array(limits.totalBytes - 1000) }
      const names = Array.from({ length: 40 }, (_, index) => [`greeting/${index}/${"long".repeat(15_000)}`, ""])
      assert.deepStrictEqual(yield* strict({ ...content, ...Object.fromEntries(names) }), ["delivery-size"])
    })
  )

  it.effect("is told so together with its other problems, and of no path twice", () =>
    Effect.gen(function* () {
      const many = Array.from({ length: 1000 }, (_, index) => [`greeting/${index}`, ""])
      assert.deepStrictEqual(
        yield* strict({
          ...Object.fromEntries(many),
          "greeting/SKILL.md": skillFile("greeting", "description:"),
          "greeting/c:a": "",
          "greeting/a\\b": "",
          "greeting/a\u0001b": ""
        }),
        [
          "greeting/a\\u{5c}b: path-backslash",
          "greeting/SKILL.md: description-missing",
          "delivery-entries",
          "greeting/c:a: delivery-path",
          "greeting/a\\u{1}b: delivery-path"
        ]
      )
    })
  )

  it.effect("is told of a control character where nobody can tell the skill's directory", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* strict({ "a/\u0001": "", "b/SKILL.md": skillFile("b") }), [
        "a: one-directory",
        "a/\\u{1}: delivery-path"
      ])
    })
  )
})
