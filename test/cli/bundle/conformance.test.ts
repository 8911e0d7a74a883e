import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs"
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
      const { passed } = JSON.parse((yield* run("--json", "--runner", "fixtures/runner")).stdout)
      const ended = yield* run()
      const cases = snapshots.cases.length + lifecycle.cases.length + passed
      expect(passed).toBeGreaterThan(50)
      expect(ended).toEqual({ code: 0, stdout: `${cases} passed, 0 failed\n`, stderr: "" })
    })
  )

  it.live("runs only the files that are named; a lifecycle file alone refers to the project's own snapshots", () =>
    Effect.gen(function* () {
      const ended = yield* run("--lifecycle", file("lifecycle.json", lifecycle))
      expect(ended).toMatchObject({ code: 0, stdout: `${lifecycle.cases.length} passed, 0 failed\n` })
    })
  )

  it.live(
    "runs a directory of the runner protocol, and exits with 1 when a file in it is not what its manifest lists",
    () =>
      Effect.gen(function* () {
        const copy = join(directory, "runner")
        cpSync("fixtures/runner", copy, { recursive: true })
        expect((yield* run("--runner", copy)).code).toBe(0)
        appendFileSync(join(copy, "fixtures/replay/happy-path.json"), " ")
        const ended = yield* run("--runner", copy)
        expect(ended.code).toBe(1)
        expect(ended.stdout).toContain(
          'FAIL "manifest: fixtures/replay/happy-path.json": expected "listed", got "changed"\n'
        )
      })
  )

  it.live("a directory without the manifest is used wrongly", () =>
    Effect.gen(function* () {
      const ended = yield* run("--runner", "docs")
      expect(ended).toMatchObject({ code: 2, stdout: "" })
      expect(ended.stderr).toContain("docs has no manifest.json of the runner protocol")
    })
  )

  it.live("a failing case is a line with expected and got, and exits with 1", () =>
    Effect.gen(function* () {
      const [valid] = snapshots.cases.filter((each: { expected: string }) => each.expected === "valid")
      const cases = [valid, { ...valid, name: "hostile\u001b[2J", expected: "REVISION_REVOKED" }]
      const ended = yield* run("--snapshots", file("snapshots.json", { ...snapshots, cases }))
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(1)
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
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(0)
      expect(JSON.parse(ended.stdout)).toMatchObject({
        passed: 2,
        failed: 0,
        results: snapshots.cases.slice(0, 2).map(({ name }: { name: string }) => ({ name, passed: true }))
      })
    })
  )

  it.live("of a file that is far too long no more is read than shows it", () =>
    Effect.gen(function* () {
      const path = file("long.json", snapshots)
      truncateSync(path, 8 * 1024 ** 3)
      const ended = yield* run("--snapshots", path)
      expect(ended).toMatchObject({ code: 2, stdout: "" })
      expect(ended.stderr).toContain("is longer than")
    })
  )

  it.live("a file that is nested too deeply, or is no object, is used wrongly and said so in short", () =>
    Effect.gen(function* () {
      const deep = file("deep.json", [])
      writeFileSync(deep, `{"contract":${"[".repeat(100_000)}${"]".repeat(100_000)}}`)
      for (const path of [deep, file("list.json", []), file("null.json", null)]) {
        const ended = yield* run("--snapshots", path)
        expect(ended).toMatchObject({ code: 2, stdout: "" })
        expect(ended.stderr.length).toBeLessThan(500)
      }
    })
  )

  it.live("an outcome that nobody knows is one line that lists those there are", () =>
    Effect.gen(function* () {
      const cases = [{ ...snapshots.cases[0], name: "odd", expected: "FOO" }]
      const ended = yield* run("--snapshots", file("odd.json", { ...snapshots, cases }))
      expect(ended).toMatchObject({ code: 2, stdout: "" })
      expect(ended.stderr).toMatch(/: case "odd": expected: expected one of valid, INVALID_CONFIG, .*, got "FOO"\n$/)
      expect(ended.stderr.trimEnd()).not.toContain("\n")
    })
  )

  it.live("of many problems the first five are said, and how many more there are", () =>
    Effect.gen(function* () {
      const cases = Array.from({ length: 312 }, () => ({ ...snapshots.cases[0], expected: "FOO" }))
      const ended = yield* run("--snapshots", file("many.json", { ...snapshots, cases }))
      expect(ended).toMatchObject({ code: 2, stdout: "" })
      const lines = ended.stderr.trimEnd().split("\n")
      expect(lines[0]).toContain("many.json is not a snapshot file: case ")
      expect(lines.slice(5)).toEqual(["... and 307 more"])
    })
  )

  it.live("a file without cases proves nothing: used wrongly", () =>
    Effect.gen(function* () {
      const ended = yield* run("--snapshots", file("empty.json", { ...snapshots, cases: [] }))
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(2)
      expect(ended.stderr).toContain("no cases")
    })
  )
})
