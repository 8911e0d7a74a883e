import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as UploadPath from "../../src/publishing/UploadPath.js"
import { check } from "../support/Seed.js"

const member = (path: string, kind: UploadPath.MemberKind = "file"): UploadPath.Member => ({
  path,
  isUtf8: true,
  kind,
  size: 0
})

const component = fc.oneof(
  fc.constantFrom(
    "",
    ".",
    "..",
    "...",
    "a",
    "A",
    "a\\b",
    "..\\a",
    "\0",
    "\ud800",
    "\u{10000}",
    "\u00e9",
    "e\u0301",
    "con",
    "a:b"
  ),
  fc.string({ unit: "binary", maxLength: 3 })
)
const path = fc.array(component, { minLength: 1, maxLength: 4 }).map((components) => components.join("/"))

describe("the problems of a path", () => {
  it("are those of an independent reading of the rules, for any path", { timeout: 60_000 }, () =>
    check(
      [path],
      (some) => {
        const rules = UploadPath.problemsOf(member(some)).map(({ rule }) => rule)
        const slashed = some.split("\\").join("/")
        assert.deepStrictEqual(rules, [
          ...(Buffer.from(some).toString() === some ? [] : ["path-encoding"]),
          ...(some.indexOf("\0") === -1 ? [] : ["path-nul"]),
          ...(slashed === some ? [] : ["path-backslash"]),
          ...(/^\/|\/$|\/\/|^$/.test(slashed) || /(?:^|\/)\.{1,2}(?:\/|$)/.test(slashed) ? ["path-segment"] : [])
        ])
      },
      { numRuns: 5000 }
    )
  )

  it("are none of 65,470 bytes, and one of a byte more, which no ZIP could name with a directory around it", () => {
    assert.deepStrictEqual(UploadPath.problemsOf(member("\u00e9".repeat(32_735))), [])
    assert.deepStrictEqual(
      UploadPath.problemsOf(member(`a${"\u00e9".repeat(32_735)}`)).map(({ rule }) => rule),
      ["path-length"]
    )
  })
})

describe("conflicts", () => {
  it("are found between any members", { timeout: 60_000 }, () => {
    const name = fc.array(fc.constantFrom("a", "b", "a-", "\u{10000}"), { minLength: 1, maxLength: 3 })
    const kind = fc.constantFrom<UploadPath.MemberKind>("file", "directory", "link")
    const members = fc.array(
      fc.tuple(name, kind).map(([components, some]) => member(components.join("/"), some)),
      { maxLength: 6 }
    )
    return check(
      [members],
      (some) => {
        const isDirectory = (one: UploadPath.Member) => one.kind === "directory"
        const expected = new Set<string>()
        for (const [index, left] of some.entries()) {
          for (const right of some.slice(index + 1)) {
            if (left.path === right.path) expected.add(left.path)
            if (!isDirectory(left) && right.path.startsWith(`${left.path}/`)) expected.add(left.path)
            if (!isDirectory(right) && left.path.startsWith(`${right.path}/`)) expected.add(right.path)
          }
        }
        assert.deepStrictEqual(new Set(UploadPath.conflicts(some).map((conflict) => conflict.member.path)), expected)
      },
      { numRuns: 2000 }
    )
  })

  it("are found between ten thousand long and deep paths with one start", () => {
    const start = "a/".repeat(1000)
    const members = Array.from({ length: 10_000 }, (_, index) => member(`${start}${index}`))
    assert.deepStrictEqual(
      UploadPath.conflicts([...members, member(`${start}7`)]).map(({ type }) => type),
      ["duplicate"]
    )
    assert.deepStrictEqual(UploadPath.warningsOf(members), [])
  })
})

describe("warnings of case", () => {
  it("are given exactly where two paths, or directories of theirs, are one to macOS and Windows", {
    timeout: 60_000
  }, () => {
    const name = fc.array(fc.constantFrom("a", "A", "b", "\u00e9", "e\u0301", "\u00c9", "a-"), {
      minLength: 1,
      maxLength: 3
    })
    return check(
      [
        fc.uniqueArray(
          name.map((components) => components.join("/")),
          { maxLength: 6 }
        )
      ],
      (paths) => {
        const spellings = new Map<string, Set<string>>()
        for (const some of paths) {
          const components = some.split("/")
          for (const end of components.keys()) {
            const prefix = components.slice(0, end + 1).join("/")
            const folded = prefix.normalize("NFC").toLowerCase()
            spellings.set(folded, (spellings.get(folded) ?? new Set()).add(prefix))
          }
        }
        const isAmbiguous = [...spellings.values()].some(({ size }) => size > 1)
        const warnings = UploadPath.warningsOf(paths.map((some) => member(some)))
        assert.strictEqual(warnings.length > 0, isAmbiguous)
      },
      { numRuns: 2000 }
    )
  })
})

describe("what macOS adds", () => {
  it("is ignored wherever it lies", () => {
    for (const ignored of [".DS_Store", "a/.DS_Store", "__MACOSX", "__MACOSX/a", "a/__MACOSX/b", "a\\.DS_Store"]) {
      assert.isTrue(UploadPath.isIgnored(ignored), ignored)
    }
    for (const kept of ["a/.DS_Store/b", "a/__MACOSX.md", "a/DS_Store", "a/.ds_store"]) {
      assert.isFalse(UploadPath.isIgnored(kept), kept)
    }
  })
})
