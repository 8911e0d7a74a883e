import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Sarif from "../../../src/cli/Sarif.js"
import * as CommandLine from "../../support/CommandLine.js"
import * as Uploads from "../../support/Uploads.js"

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "agent-contracts-check-"))
})
afterAll(() => {
  rmSync(directory, { recursive: true, force: true })
})

/** Writes files below a directory of their own, which it gives. */
const write = (name: string, tree: Uploads.Tree) => {
  const root = join(directory, name)
  for (const { bytes, path } of Uploads.loose(tree)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), bytes)
  }
  return root
}

const check = (...args: ReadonlyArray<string>) => CommandLine.run(["skills", "check", ...args])

const bad = { "bad/SKILL.md": "---\nname: bad\n---\n", "bad/.DS_Store": "" }

describe("good skills", () => {
  it.live("a directory, an archive, and both at once", () =>
    Effect.gen(function* () {
      const root = write("good", { ...Uploads.greeting, "greeting.zip": Uploads.zip(Uploads.greeting) })
      const [skill, archive] = [join(root, "greeting"), join(root, "greeting.zip")]
      const valid = (path: string) => `valid     ${path} (2 files)\n`
      expect(yield* check(skill)).toEqual({ code: 0, stdout: valid(skill), stderr: "" })
      expect(yield* check(archive)).toEqual({ code: 0, stdout: valid(archive), stderr: "" })
      expect(yield* check(skill, archive)).toEqual({ code: 0, stdout: valid(skill) + valid(archive), stderr: "" })
    })
  )

  it.live("the files of one, wherever they are named from", () =>
    Effect.gen(function* () {
      const root = write("files", Uploads.greeting)
      const files = Object.keys(Uploads.greeting).map((path) => join(root, path))
      const ended = yield* check(...files, "--json")
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(JSON.parse(ended.stdout)).toMatchObject({
        verdict: "valid",
        policy: "seed",
        name: "greeting",
        directory: "greeting",
        files: [{ path: "SKILL.md" }, { path: "references/tone.md" }],
        problems: [],
        warnings: []
      })
    })
  )

  it.live("an archive among the files of one is a file like any other", () =>
    Effect.gen(function* () {
      const root = write("beside", { ...Uploads.greeting, "greeting/data.zip": Uploads.zip(Uploads.greeting) })
      const files = [...Object.keys(Uploads.greeting), "greeting/data.zip"].map((path) => join(root, path))
      expect((yield* check(...files)).stdout).toMatch(/^valid {5}\S+ \(3 files\)\n$/)
    })
  )

  it.live("are told what to know besides", () =>
    Effect.gen(function* () {
      const root = write("warned", {
        ...Uploads.greeting,
        "greeting/.DS_Store": "",
        "greeting/Tone.md": "",
        "greeting/tone.md": ""
      })
      const skill = join(root, "greeting")
      const ended = yield* check(skill)
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout.split("\n")).toEqual([
        `${skill}/.DS_Store: warning: macOS added this; it is left out [ignored-member]`,
        expect.stringMatching(/tone\.md: warning: differs from .*\[case-collision\]$/),
        `valid     ${skill} (4 files, 2 warnings)`,
        ""
      ])
    })
  )
})

describe("bad skills exit with 1, and every problem is a line with its file and rule", () => {
  it.live("of a directory, where they are on disk", () =>
    Effect.gen(function* () {
      const skill = join(write("bad", bad), "bad")
      symlinkSync("SKILL.md", join(skill, "link"))
      expect(yield* check(skill)).toEqual({
        code: 1,
        stdout: [
          `${skill}/link: a link cannot be packed: put the file itself here [link]`,
          `${skill}/SKILL.md: has no description in its frontmatter [description-missing]`,
          `invalid   ${skill} (2 problems)`,
          ""
        ].join("\n"),
        stderr: ""
      })
    })
  )

  it.live("of an archive, by their members", () =>
    Effect.gen(function* () {
      const root = write("bad-zip", { "bad.zip": Uploads.zip(bad), "none.zip": "not an archive" })
      const [archive, none] = [join(root, "bad.zip"), join(root, "none.zip")]
      const ended = yield* check(archive, none)
      expect(ended).toMatchObject({ code: 1, stderr: "" })
      expect(ended.stdout.split("\n")).toEqual([
        `${archive}: bad/SKILL.md: has no description in its frontmatter [description-missing]`,
        `invalid   ${archive} (1 problem)`,
        `${none}: the upload does not start as a ZIP archive does [archive-format]`,
        `invalid   ${none} (1 problem)`,
        ""
      ])
    })
  )

  it.live("of files, as they were named", () =>
    Effect.gen(function* () {
      const root = write("bad-files", bad)
      const [skillFile, other] = [join(root, "bad/SKILL.md"), join(root, "bad/.DS_Store")]
      expect((yield* check(skillFile, other)).stdout).toContain(
        `${skillFile}: has no description in its frontmatter [description-missing]\n`
      )
    })
  )

  it.live("of a good one beside them too, as JSON, a value for each", () =>
    Effect.gen(function* () {
      const root = write("both", { ...bad, ...Uploads.greeting })
      const ended = yield* check(join(root, "bad"), join(root, "greeting"), "--json")
      expect(ended).toMatchObject({ code: 1, stderr: "" })
      const [first, second, ...more] = ended.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line))
      expect(first).toEqual({
        verdict: "invalid",
        target: join(root, "bad"),
        policy: "seed",
        problems: [
          {
            rule: "description-missing",
            file: "bad/SKILL.md",
            path: join(root, "bad/SKILL.md"),
            message: "has no description in its frontmatter"
          }
        ],
        warnings: []
      })
      expect([second.verdict, more]).toEqual(["valid", []])
    })
  )

  it.live("by the rules of the policy", () =>
    Effect.gen(function* () {
      const skill = join(
        write("policy", { "two--hyphens/SKILL.md": Uploads.skillFile("two--hyphens") }),
        "two--hyphens"
      )
      expect((yield* check(skill)).code).toBe(0)
      expect((yield* check(skill, "--policy", "seed")).code).toBe(0)
      const ended = yield* check(skill, "--policy", "agent-skills")
      expect(ended.code).toBe(1)
      expect(ended.stdout).toContain("[name-hyphens]")
    })
  )

  it.live("also those that only a container has with them", () =>
    Effect.gen(function* () {
      const skill = join(write("undeliverable", { ...Uploads.greeting, "greeting/a\u0001b.md": "" }), "greeting")
      const ended = yield* check(skill)
      expect(ended.code).toBe(1)
      // The escaped name is none of a file on disk.
      expect(ended.stdout).toMatch(
        /greeting: greeting\/a\\u\{1\}b\.md: .*\[delivery-path\]\n.*\ninvalid .* \(3 files, 1 problem, 1 warning\)/
      )
    })
  )

  it.live("more than 30 MiB of files are not read to their end", () =>
    Effect.gen(function* () {
      const root = write("long", {
        "long/SKILL.md": Uploads.skillFile("long"),
        "long/a": new Uint8Array(31 * 1024 ** 2)
      })
      const ended = yield* check(join(root, "long/a"), join(root, "long/SKILL.md"))
      expect(ended.stdout).toMatch(/^[^\n]*\[total-size\]\ninvalid [^\n]*\(1 problem\)\n$/)
    })
  )

  it.live("a hostile name steers no terminal and forges no verdict", () =>
    Effect.gen(function* () {
      const root = write("hostile", { "x\u001b[2J\nvalid     other/SKILL.md": "" })
      const ended = yield* check(join(root, "x\u001b[2J\nvalid     other"))
      expect(ended.code).toBe(1)
      expect(ended.stdout).not.toContain("\u001b")
      expect(ended.stdout).not.toMatch(/^valid/m)
    })
  )
})

describe("--sarif", () => {
  it.live("is one log, whose results lie where the files are and whose rules are all described", () =>
    Effect.gen(function* () {
      const root = write("sarif", {
        ...bad,
        "warned/SKILL.md": Uploads.skillFile("warned"),
        "warned/.DS_Store": "",
        "a b.zip": Uploads.zip(bad)
      })
      const ended = yield* check(join(root, "bad"), join(root, "warned"), "--sarif")
      expect(ended).toMatchObject({ code: 1, stderr: "" })
      const log = JSON.parse(ended.stdout)
      expect(log).toMatchObject({ version: "2.1.0", runs: [{ tool: { driver: { name: "effect-agent-contracts" } } }] })
      const [{ results, tool }] = log.runs
      const at = (path: string) => [
        {
          physicalLocation: {
            artifactLocation: { uri: pathToFileURL(join(root, path)).href },
            region: { startLine: 1 }
          }
        }
      ]
      expect(results).toEqual([
        {
          ruleId: "description-missing",
          ruleIndex: expect.any(Number),
          level: "error",
          message: { text: "has no description in its frontmatter" },
          locations: at("bad/SKILL.md")
        },
        {
          ruleId: "ignored-member",
          ruleIndex: expect.any(Number),
          level: "warning",
          message: { text: "macOS added this; it is left out" },
          locations: at("warned/.DS_Store")
        }
      ])
      for (const { ruleId, ruleIndex } of results) expect(tool.driver.rules[ruleIndex].id).toBe(ruleId)

      const zipped = JSON.parse((yield* check(join(root, "a b.zip"), "--sarif")).stdout)
      expect(zipped.runs[0].results).toMatchObject([
        { message: { text: "bad/SKILL.md: has no description in its frontmatter" }, locations: at("a b.zip") }
      ])
    })
  )

  it.live(
    "names files below the working directory as in the repository, and the whole of a skill by its SKILL.md",
    () =>
      Effect.gen(function* () {
        mkdirSync(".tmp", { recursive: true })
        const root = mkdtempSync(join(".tmp", "check #1-"))
        yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(root, { recursive: true })))
        const ended = yield* check(root, "--sarif")
        expect(ended.code).toBe(1)
        expect(JSON.parse(ended.stdout).runs[0].results).toMatchObject([
          {
            ruleId: "no-files",
            locations: [
              {
                physicalLocation: {
                  artifactLocation: {
                    uri: `.tmp/${encodeURIComponent(basename(root))}/SKILL.md`,
                    uriBaseId: "%SRCROOT%"
                  }
                }
              }
            ]
          }
        ])
      }).pipe(Effect.scoped)
  )

  it.live("of good skills has no results", () =>
    Effect.gen(function* () {
      const ended = yield* check(join(write("sarif-good", Uploads.greeting), "greeting"), "--sarif")
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(JSON.parse(ended.stdout).runs[0].results).toEqual([])
    })
  )

  it("describes each rule as its page does", () => {
    const page = readFileSync("docs/skill-publishing.md", "utf8").split("\n## Problems\n")[1] ?? ""
    const rows = [...page.matchAll(/^\| `([\w-]+)` +\| (.*?) +\|$/gm)].map(([, rule, text]) => [rule, text])
    expect(rows).toEqual(Object.entries(Sarif.rules))
  })
})

describe("a check that is used wrongly exits with 2 and prints no result", () => {
  const cases: ReadonlyArray<readonly [string, ReadonlyArray<string>, string]> = [
    ["nothing to check", [], "<dir|zip|files> is missing"],
    ["what does not exist", ["no-such-skill"], "cannot read no-such-skill: ENOENT"],
    ["an empty path", [""], 'cannot read "": ENOENT'],
    ["a directory beside files", ["src", "package.json"], "not both"],
    ["a policy that is none", ["src", "--policy", "ours"], "--policy takes seed or agent-skills"],
    ["two formats", ["src", "--json", "--sarif"], "--json or --sarif"]
  ]
  for (const [name, args, says] of cases) {
    it.live(name, () =>
      Effect.gen(function* () {
        const ended = yield* check(...args)
        expect(ended).toMatchObject({ code: 2, stdout: "" })
        expect(ended.stderr).toMatch(/^agent-contracts: [^\n]+\n$/)
        expect(ended.stderr).toContain(says)
      })
    )
  }
})
