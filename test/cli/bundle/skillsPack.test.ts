import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as SkillBundle from "../../../src/publishing/SkillBundle.js"
import * as CommandLine from "../../support/CommandLine.js"
import * as Program from "../../support/Program.js"
import * as Uploads from "../../support/Uploads.js"

let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "agent-contracts-pack-"))
})
afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

/** Writes files below a directory of their own, which it gives. */
const write = (name: string, tree: Uploads.Tree) => Uploads.layOut(join(root, name), tree)

const pack = (...args: ReadonlyArray<string>) => CommandLine.run(["skills", "pack", ...args])

/** The same in another working directory. */
const packIn = (directory: string, ...args: ReadonlyArray<string>) =>
  Program.execute("env", ["-C", directory, process.execPath, CommandLine.bundle, "skills", "pack", ...args], {
    PATH: process.env["PATH"] ?? ""
  })

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

describe("packs", () => {
  it.live("a directory as the archive that a registry would store, and prints its digest", () =>
    Effect.gen(function* () {
      const directory = write("directory", Uploads.greeting)
      const output = join(directory, "out.zip")
      const ended = yield* pack(join(directory, "greeting"), "-o", output)
      const bundle = yield* SkillBundle.fromFiles(Uploads.loose(Uploads.greeting))
      expect(ended).toEqual({
        code: 0,
        stdout: `packed    ${output} (2 files, ${bundle.archive.length} bytes)\nsha256    ${bundle.sha256}\n`,
        stderr: ""
      })
      expect(readFileSync(output).equals(bundle.archive)).toBe(true)
      expect(readdirSync(directory).sort()).toEqual(["greeting", "out.zip"])
    })
  )

  it.live("to the skill's name in the working directory, over an earlier archive", () =>
    Effect.gen(function* () {
      const directory = write("working", { ...Uploads.greeting, "greeting.zip": Uploads.zip({ "old/SKILL.md": "" }) })
      const ended = yield* packIn(directory, "greeting", "--json")
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      const archive = readFileSync(join(directory, "greeting.zip"))
      expect(JSON.parse(ended.stdout)).toEqual({
        archive: "greeting.zip",
        archiveBytes: archive.length,
        name: "greeting",
        description: "Greets people",
        directory: "greeting",
        sha256: sha256(archive),
        files: [
          {
            path: "SKILL.md",
            size: expect.any(Number),
            sha256: sha256(Uploads.utf8(Uploads.greeting["greeting/SKILL.md"]))
          },
          { path: "references/tone.md", size: 13, sha256: expect.any(String) }
        ],
        problems: [],
        warnings: []
      })
    })
  )

  it.live("an archive of the canonical form byte for byte, any other anew, which is a warning", () =>
    Effect.gen(function* () {
      const canonical = Uploads.zip(Uploads.greeting)
      const directory = write("archive", {
        "canonical.zip": canonical,
        "other.zip": Uploads.zip({ ...Uploads.greeting, "__MACOSX/a": "" })
      })
      const output = join(directory, "out.zip")
      expect(yield* pack(join(directory, "canonical.zip"), "--output", output)).toMatchObject({ code: 0, stderr: "" })
      expect(readFileSync(output).equals(canonical)).toBe(true)
      const other = yield* pack(join(directory, "other.zip"), "-o", output)
      expect(other.code).toBe(0)
      expect(other.stderr).toContain("other.zip: warning: the archive has not the canonical form")
      expect(other.stdout).toContain(sha256(readFileSync(output)))
    })
  )

  it.live("what no container could deliver, and says so as a problem, not as a warning", () =>
    Effect.gen(function* () {
      const directory = write("undeliverable", { ...Uploads.greeting, "greeting/a\u0001b.md": "" })
      const ended = yield* pack(join(directory, "greeting"), "-o", join(directory, "out.zip"), "--json")
      expect(ended.code).toBe(0)
      const [problem, warning] = ended.stderr.split("\n")
      expect(problem).toMatch(/^agent-contracts: [^\n]+: a path with [^\n]+ is not delivered \[delivery-path\]$/)
      expect(warning).toMatch(/: warning: [^\n]+ \[windows-name\]$/)
      expect(JSON.parse(ended.stdout)).toMatchObject({
        problems: [{ rule: "delivery-path" }],
        warnings: [{ rule: "windows-name" }]
      })
    })
  )
})

describe("writes nothing", () => {
  it.live("of a skill that is not valid: every problem on standard error, and as JSON", () =>
    Effect.gen(function* () {
      const directory = write("bad", { "bad/SKILL.md": "---\nname: Bad\n---\n" })
      const skill = join(directory, "bad")
      const ended = yield* pack(skill, "-o", join(directory, "out.zip"))
      expect(ended).toEqual({
        code: 1,
        stdout: "",
        stderr: [
          `agent-contracts: INVALID_UPLOAD: ${skill} is not a valid skill, and nothing is written`,
          `${skill}/SKILL.md: has a name with other characters than a to z, 0 to 9 and - [name-format]`,
          `${skill}/SKILL.md: has no description in its frontmatter [description-missing]`,
          ""
        ].join("\n")
      })
      const json = yield* pack(skill, "-o", join(directory, "out.zip"), "--json")
      expect(json.code).toBe(1)
      expect(JSON.parse(json.stdout)).toMatchObject({
        error: {
          code: "INVALID_UPLOAD",
          problems: [
            { rule: "name-format", file: "bad/SKILL.md" },
            { rule: "description-missing", file: "bad/SKILL.md" }
          ]
        }
      })
      expect(readdirSync(directory)).toEqual(["bad"])
    })
  )

  const refused: ReadonlyArray<readonly [string, string, string]> = [
    ["over a file that is no archive", "notes.txt", "notes.txt: is there already, and is no ZIP archive\n"],
    ["over a directory", "greeting", "greeting: is a directory\n"],
    ["over a link", "link.zip", "link.zip: is a link\n"],
    [
      "into the skill",
      "greeting/out.zip",
      "out.zip: is in the skill, and would be packed with it; choose another place with -o\n"
    ],
    ["where there is no directory", "none/out.zip", "none/out.zip: ENOENT: no such file or directory\n"]
  ]
  for (const [index, [name, output, says]] of refused.entries()) {
    it.live(name, () =>
      Effect.gen(function* () {
        const directory = write(`refused-${index}`, {
          ...Uploads.greeting,
          "notes.txt": "keep",
          "old.zip": Uploads.zip({ a: "" })
        })
        symlinkSync("old.zip", join(directory, "link.zip"))
        const before = readdirSync(directory, { recursive: true })
        const ended = yield* pack(join(directory, "greeting"), "-o", join(directory, output))
        expect(ended).toMatchObject({ code: 2, stdout: "" })
        expect(ended.stderr).toMatch(/^agent-contracts: cannot write /)
        expect(ended.stderr).toContain(says)
        expect(readdirSync(directory, { recursive: true })).toEqual(before)
        expect(readFileSync(join(directory, "notes.txt"), "utf8")).toBe("keep")
      })
    )
  }

  it.live("over the archive that is packed, also by another name for it", () =>
    Effect.gen(function* () {
      const archive = Uploads.zip(Uploads.greeting)
      const directory = write("itself", { "greeting.zip": archive })
      symlinkSync(".", join(directory, "again"))
      for (const source of ["greeting.zip", "again/greeting.zip"]) {
        const ended = yield* packIn(directory, source)
        expect(ended).toMatchObject({ code: 2, stdout: "" })
        expect(ended.stderr).toContain("greeting.zip: is what is packed; choose another place with -o\n")
      }
      expect(readFileSync(join(directory, "greeting.zip")).equals(archive)).toBe(true)
    })
  )

  it.live("into a directory that is the skill's working directory, without -o", () =>
    Effect.gen(function* () {
      const directory = join(write("inside", Uploads.greeting), "greeting")
      expect((yield* packIn(directory, ".")).stderr).toContain("greeting.zip: is in the skill")
      expect(readdirSync(directory).sort()).toEqual(["SKILL.md", "references"])
    })
  )

  it.live("where there is no room for it: what was there stays, and nothing else is left", () =>
    Effect.gen(function* () {
      const earlier = Uploads.zip({ "old/SKILL.md": "" })
      const directory = write("full", { ...Uploads.greeting, "out.zip": earlier })
      // No file of this process may get longer than 0 bytes.
      const command = 'ulimit -f 0 && exec "$@"'
      const args = [CommandLine.bundle, "skills", "pack", join(directory, "greeting"), "-o", join(directory, "out.zip")]
      const ended = yield* Program.execute("bash", ["--norc", "-c", command, "bash", process.execPath, ...args])
      expect(ended).toMatchObject({ code: 2, stdout: "" })
      expect(ended.stderr).toMatch(/^agent-contracts: cannot write \S+out\.zip: EFBIG: [^\n]+\n$/)
      expect(readdirSync(directory).sort()).toEqual(["greeting", "out.zip"])
      expect(readFileSync(join(directory, "out.zip")).equals(earlier)).toBe(true)
    })
  )

  it.live("of what cannot be read", () =>
    Effect.gen(function* () {
      const ended = yield* pack("no-such-skill")
      expect(ended).toMatchObject({ code: 2, stdout: "" })
      expect(ended.stderr).toBe("agent-contracts: cannot read no-such-skill: ENOENT: no such file or directory\n")
    })
  )
})
