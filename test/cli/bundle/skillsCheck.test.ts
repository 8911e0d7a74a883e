import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
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
const write = (name: string, tree: Uploads.Tree) => Uploads.layOut(join(directory, name), tree)

const check = (...args: ReadonlyArray<string>) => CommandLine.run(["skills", "check", ...args])

const bad = { "bad/SKILL.md": "---\nname: bad\n---\n" }

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
      const root = write("bad-files", { ...bad, "bad/.DS_Store": "" })
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
        /greeting: greeting\/a\\u\{1\}b\.md: .*\[delivery-path\]\n.*\ninvalid .* \(1 problem, 1 warning\)/
      )
    })
  )

  it.live("all of them at once, whoever they are a problem of", () =>
    Effect.gen(function* () {
      const skill = join(write("both-rules", { ...bad, "bad/.DS_Store": "", "bad/a\u0001b.md": "" }), "bad")
      expect((yield* check(skill)).stdout.split("\n")).toEqual([
        expect.stringContaining("[description-missing]"),
        expect.stringContaining("[delivery-path]"),
        expect.stringContaining("[ignored-member]"),
        expect.stringContaining("[windows-name]"),
        expect.stringMatching(/^invalid .* \(2 problems, 2 warnings\)$/),
        ""
      ])
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

  it.live("keeps the rules of SARIF 2.1.0, whatever the members of an archive are called", () =>
    Effect.gen(function* () {
      const link = "[see {0}](https://example.org/x)"
      const root = write("sarif-hostile", {
        "a.zip": Uploads.zip({
          "greeting/SKILL.md": Uploads.skillFile("greeting", "description:"),
          [`greeting/${link}.md`]: "",
          [`greeting/${link}\\.md`]: "",
          [`greeting/[ok] {1}\u0001/${link}.md`]: ""
        }),
        [`${link}/x`]: ""
      })
      const ended = yield* check(join(root, "a.zip"), join(root, link), "--sarif")
      const { $schema, runs, version } = JSON.parse(ended.stdout)
      expect([$schema, version]).toEqual(["https://json.schemastore.org/sarif-2.1.0.json", "2.1.0"])
      expect(runs).toHaveLength(1)
      const [{ results, tool }] = runs
      const { rules } = tool.driver
      // Each reporting descriptor is there once (3.19.23).
      expect(new Set(rules.map(({ id }: { readonly id: string }) => id)).size).toBe(rules.length)
      const texts: Array<string> = rules.map(({ shortDescription }: typeof rules) => shortDescription.text)
      expect(results.length).toBeGreaterThan(4)
      for (const { level, locations, message, ruleId, ruleIndex } of results) {
        // 3.27.5 to 3.27.7 and 3.27.10.
        expect(rules[ruleIndex].id).toBe(ruleId)
        expect(["error", "warning"]).toContain(level)
        texts.push(message.text)
        expect(locations).toHaveLength(1)
        const { artifactLocation, region } = locations[0].physicalLocation
        // A region has a line, from 1 on (3.30.5); a URI is valid (3.4.3), and a relative one has what it is relative to (3.4.4).
        expect(region.startLine).toBeGreaterThan(0)
        expect(artifactLocation.uri).toMatch(/^(?:[\w.!~*'()/:-]|%[0-9A-F]{2})+$/)
        expect(artifactLocation.uri.startsWith("file:///") || "uriBaseId" in artifactLocation).toBe(true)
      }
      for (const text of texts) {
        // No placeholder without its argument (3.11.5), and no link (3.11.6).
        expect(text).toMatch(/^(?:[^{}]|\{\{|\}\})+$/)
        expect(text).not.toContain("](")
      }
      expect(texts.join("\n")).toContain(
        "greeting/[see {{0}}]\\u{{28}}https://example.org/x).md: the path has an empty"
      )
    })
  )

  it.live("shows a file whose name is cut off where it is shown at the skill's SKILL.md", () =>
    Effect.gen(function* () {
      const name = `greeting/${"x".repeat(187)}`
      const root = write("sarif-cut", { ...Uploads.greeting, [`${name}\u0001.md`]: "" })
      const { runs } = JSON.parse((yield* check(join(root, "greeting"), "--sarif")).stdout)
      expect(runs[0].results).toHaveLength(2)
      for (const { locations, message } of runs[0].results) {
        expect(message.text.startsWith(`${name}: `)).toBe(true)
        expect(locations[0].physicalLocation.artifactLocation.uri).toBe(
          pathToFileURL(join(root, "greeting/SKILL.md")).href
        )
      }
    })
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
  it.live("an archive beside another skill, and the files of two skills: it says how to give several", () =>
    Effect.gen(function* () {
      const root = write("several", {
        "a/SKILL.md": Uploads.skillFile("a"),
        "a/examples/SKILL.md": "",
        "a/data.zip": "",
        "b/SKILL.md": Uploads.skillFile("b"),
        "b.zip": "not an archive"
      })
      const at = (...paths: ReadonlyArray<string>) => paths.map((path) => join(root, path))
      for (const paths of [
        at("b.zip", "a/SKILL.md"),
        at("a/SKILL.md", "b.zip"),
        at("a/SKILL.md", "a/data.zip", "b/SKILL.md")
      ]) {
        const ended = yield* check(...paths)
        expect(ended).toMatchObject({ code: 2, stdout: "" })
        expect(ended.stderr).toMatch(/: give several skills as directories or archives: \S+ is not in \S+\n$/)
      }
      expect((yield* check(...at("a/examples/SKILL.md", "a/data.zip", "a/SKILL.md"))).code).toBe(0)
    })
  )

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
