import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"

const files = new Map(
  ["test", "fixtures"].flatMap((directory) =>
    readdirSync(directory, { recursive: true, encoding: "utf8" })
      .filter((file) => !file.includes("node_modules") && /\.(test\.ts|v1\.json)$/.test(file))
      .map((file) => [basename(file), join(directory, file)] as const)
  )
)

/** The tests that a page names: a file in backticks, then parts of its tests' names in quotes. */
const referencesOf = (page: string) =>
  [...readFileSync(page, "utf8").matchAll(/`([\w.]+\.(?:test\.ts|v1\.json))`((?:,? "[^"]+")*)/g)].map(
    ([, file = "", names = ""]) => ({ file, names: [...names.matchAll(/"([^"]+)"/g)].map(([, name = ""]) => name) })
  )

describe.each([
  ["docs/contract-learned-skills.md", 60],
  ["docs/security.md", 20]
])("the tests that %s names", (page, atLeast) => {
  const references = referencesOf(page)

  it("are many enough to have been found", () => {
    assert.isAtLeast(references.flatMap(({ names }) => names).length, atLeast)
  })

  it.each(references)("exist: $file $names", ({ file, names }) => {
    const path = files.get(file)
    assert.isDefined(path)
    const text = readFileSync(path, "utf8")
    assert.deepStrictEqual(
      names.filter((name) => !text.includes(name)),
      []
    )
  })
})
