import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as CommandLine from "../../support/CommandLine.js"

const snapshots = JSON.parse(readFileSync("fixtures/snapshots.v1.json", "utf8"))
const lifecycle = JSON.parse(readFileSync("fixtures/lifecycle.v1.json", "utf8"))

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "agent-contracts-conformance-"))
})
afterAll(() => {
  rmSync(directory, { recursive: true, force: true })
})

const file = (name: string, content: unknown) => {
  const path = join(directory, name)
  writeFileSync(path, JSON.stringify(content))
  return path
}

const run = (...args: ReadonlyArray<string>) => CommandLine.run(["conformance", "run", ...args])

describe("conformance run", () => {
  it.live("runs the project's own files by default and says how many passed", () =>
    Effect.gen(function* () {
      const ended = yield* run()
      const cases = snapshots.cases.length + lifecycle.cases.length
      expect(ended).toEqual({ code: 0, stdout: `${cases} passed, 0 failed\n`, stderr: "" })
    })
  )

  it.live("runs only the files that are named; a lifecycle file alone refers to the project's own snapshots", () =>
    Effect.gen(function* () {
      const ended = yield* run("--lifecycle", file("lifecycle.json", lifecycle))
      expect(ended).toMatchObject({ code: 0, stdout: `${lifecycle.cases.length} passed, 0 failed\n` })
    })
  )

  it.live("a failing case is a line with expected and got, and exits with 1", () =>
    Effect.gen(function* () {
      const [valid] = snapshots.cases.filter((each: { expected: string }) => each.expected === "valid")
      const cases = [valid, { ...valid, name: "hostile\u001b[2J", expected: "REVISION_REVOKED" }]
      const ended = yield* run("--snapshots", file("snapshots.json", { ...snapshots, cases }))
      expect(ended.code).toBe(1)
      expect(ended.stdout).toBe(
        `FAIL "hostile\\u001b[2J": expected "REVISION_REVOKED", got "valid"\n1 passed, 1 failed\n`
      )
    })
  )

  it.live("as JSON: every case and the totals", () =>
    Effect.gen(function* () {
      const ended = yield* run(
        "--json",
        "--snapshots",
        file("json.json", { ...snapshots, cases: snapshots.cases.slice(0, 2) })
      )
      expect(ended.code).toBe(0)
      expect(JSON.parse(ended.stdout)).toMatchObject({
        passed: 2,
        failed: 0,
        results: snapshots.cases.slice(0, 2).map(({ name }: { name: string }) => ({ name, passed: true }))
      })
    })
  )

  it.live("a file without cases proves nothing: used wrongly", () =>
    Effect.gen(function* () {
      const ended = yield* run("--snapshots", file("empty.json", { ...snapshots, cases: [] }))
      expect(ended.code).toBe(2)
      expect(ended.stderr).toContain("no cases")
    })
  )
})
