import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import ts from "typescript"

const testsIn = (directory: string) =>
  readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((file) => !file.includes("node_modules") && /\.(test\.ts|v1\.json)$/.test(file))
    .map((file) => join(directory, file))

/** What names a test or a group of them: vitest's functions, and helpers of test files that hand a name on. */
const naming = new Set(["describe", "it", "behaviour", "bound", "journaled", "scripted"])

/** `it` of `it.scoped.each(...)(...)`. */
const calledName = (callee: ts.Expression): string =>
  ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)
    ? calledName(callee.expression)
    : callee.getText()

/** The titles of a test file as they stand there, each behind those of its groups. */
const titlesOf = (path: string): ReadonlyArray<string> => {
  const titles: Array<string> = []
  const visit = (node: ts.Node, group: string): void => {
    let inside = group
    if (ts.isCallExpression(node) && naming.has(calledName(node.expression))) {
      const [title] = node.arguments
      if (title !== undefined && (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title))) {
        inside = `${group} ${title.getText().slice(1, -1)}`.trimStart()
        titles.push(inside)
      }
    }
    ts.forEachChild(node, (child) => visit(child, inside))
  }
  visit(ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.ESNext, true), "")
  return titles
}

const caseNamesOf = (path: string): ReadonlyArray<string> => {
  const { cases }: { cases: ReadonlyArray<{ name: string }> } = JSON.parse(readFileSync(path, "utf8"))
  return cases.map(({ name }) => name)
}

/** Of each test file and fixture file, its titles or the names of its cases. */
const names = new Map(
  [...testsIn("test"), ...testsIn("fixtures")].map((path) => [
    basename(path),
    path.endsWith(".json") ? caseNamesOf(path) : titlesOf(path)
  ])
)

/** The tests that a page names: a file in backticks, then parts of its tests' titles in quotes. */
const referencesOf = (page: string) =>
  [...readFileSync(page, "utf8").matchAll(/`([\w.]+\.(?:test\.ts|v1\.json))`((?:,? "[^"]+")*)/g)].map(
    ([, file = "", parts = ""]) => ({ file, parts: [...parts.matchAll(/"([^"]+)"/g)].map(([, part = ""]) => part) })
  )

const pages = [
  "docs/contract-learned-skills.md",
  "docs/contract-runner-protocol.md",
  "docs/materialize.md",
  "docs/registry.md",
  "docs/security.md",
  "docs/skill-publishing.md"
]

describe.each(pages)("the tests that %s names", (page) => {
  const references = referencesOf(page)

  it("are many enough to have been found", () => {
    assert.isAtLeast(references.flatMap(({ parts }) => parts).length, 30)
  })

  it.each(references)("exist: $file $parts", ({ file, parts }) => {
    const inFile = names.get(file)
    assert.isDefined(inFile)
    assert.deepStrictEqual(
      parts.filter((part) => !inFile.some((name) => name.includes(part))),
      []
    )
  })

  it("are named by more than a word, which another test could have too", () => {
    assert.deepStrictEqual(
      references.flatMap(({ parts }) => parts).filter((part) => !/\S\s/.test(part)),
      []
    )
  })
})

it("every test file of a part of the contract is named", () => {
  const named = new Set(pages.flatMap(referencesOf).map(({ file }) => file))
  assert.deepStrictEqual(
    [
      "test/archive",
      "test/delivery",
      "test/materialize",
      "test/publishing",
      "test/registry",
      "test/runner",
      "test/toolkit"
    ]
      .flatMap(testsIn)
      .filter((file) => !named.has(basename(file))),
    []
  )
})
