import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as CommandLine from "../../support/CommandLine.js"
import * as Program from "../../support/Program.js"
import * as Skills from "../../support/Skills.js"

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "agent-contracts-verify-"))
})
afterAll(() => {
  rmSync(directory, { recursive: true, force: true })
})

const sources: Skills.SkillSources = {
  "release-notes": {
    description: "Writes release notes",
    files: { "SKILL.md": "# Notes\n", "data.bin": new Uint8Array([255]) }
  }
}
const { archive, etag } = Skills.response(sources, "r7")

const file = (name: string, bytes: Uint8Array) => {
  const path = join(directory, name)
  writeFileSync(path, bytes)
  return path
}

const verify = (...args: ReadonlyArray<string>) => CommandLine.run(["skills", "verify", ...args])

describe("a valid archive", () => {
  it.live("verdict, identity, skills, files, sizes and digests", () =>
    Effect.gen(function* () {
      const path = file("valid.zip", archive)
      const ended = yield* verify(path, "--revision", "r7", "--etag", etag)
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout.split("\n")).toEqual([
        `valid     ${path} (${archive.length} bytes)`,
        `revision  "r7"`,
        `etag      ${etag}`,
        "skills    1 (2 files, 9 bytes)",
        "",
        `"release-notes": "Writes release notes"`,
        expect.stringMatching(/^ {2}[0-9a-f]{64} {9}8 {2}"SKILL.md"$/),
        expect.stringMatching(/^ {2}[0-9a-f]{64} {9}1 {2}"data.bin"$/),
        ""
      ])
    })
  )

  it.live("its ETag may be given as the digest that sha256sum prints", () =>
    Effect.map(verify(file("digest.zip", archive), "--etag", etag.replaceAll('"', "")), (ended) =>
      expect(ended).toMatchObject({ code: 0, stderr: "" })
    )
  )

  it.live("the same as JSON", () =>
    Effect.gen(function* () {
      const path = file("valid.json.zip", archive)
      const ended = yield* verify(path, "--json")
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(JSON.parse(ended.stdout)).toEqual({
        verdict: "valid",
        archive: path,
        archiveBytes: archive.length,
        revision: "r7",
        etag,
        skills: [
          {
            name: "release-notes",
            description: "Writes release notes",
            files: [
              { path: "SKILL.md", size: 8, sha256: expect.stringMatching(/^[0-9a-f]{64}$/), isText: true },
              { path: "data.bin", size: 1, sha256: expect.stringMatching(/^[0-9a-f]{64}$/), isText: false }
            ]
          }
        ]
      })
    })
  )

  it.live("what steers a terminal comes out escaped, as text and as JSON", () =>
    Effect.gen(function* () {
      const description = "\u001b[2J\u009b31m\u202egnp\u2028\nvalid     other.zip"
      const hostile = Skills.archive(
        { "a\u202eb": { description, files: { "SKILL.md": "", "c\u200ed": "" } } },
        "r\u001b[1m\n"
      )
      const path = file("hostile.zip", hostile)
      const text = yield* verify(path)
      expect(text.code).toBe(0)
      expect(text.stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
      expect(text.stdout.match(/^valid/gm)).toHaveLength(1)
      const json = yield* verify(path, "--json")
      expect(json.stdout.trimEnd()).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
      expect(JSON.parse(json.stdout).skills[0].description).toBe(description)
    })
  )

  it.live("the name of the file cannot forge a verdict", () =>
    Effect.gen(function* () {
      const name = "x.zip\nvalid     other.zip"
      const good = yield* verify(file(name, archive))
      expect(good.code).toBe(0)
      expect(good.stdout.match(/^valid/gm)).toHaveLength(1)
      const bad = yield* verify(file(name, new Uint8Array()))
      expect(bad.code).toBe(1)
      expect(bad.stdout).toMatch(/^invalid {3}.*x\.zip\\u\{a\}valid {5}other\.zip\n$/)
      const missing = yield* verify(`${name}.none`)
      expect(missing).toMatchObject({ code: 2, stdout: "" })
      expect(missing.stderr).not.toMatch(/^valid/m)
    })
  )

  it.live("a reader that leaves early ends it quietly", () =>
    Effect.gen(function* () {
      const files = Object.fromEntries(Array.from({ length: 990 }, (_, index) => [`file-${index}`, ""]))
      const path = file("many.zip", Skills.archive({ many: { files: { "SKILL.md": "", ...files } } }))
      const command = `"${process.execPath}" "${CommandLine.bundle}" skills verify "${path}" --json | head -c 1; echo " \${PIPESTATUS[0]}"`
      const ended = yield* Program.execute("bash", ["--norc", "-c", command], { PATH: process.env["PATH"] ?? "" })
      expect(ended).toEqual({ code: 0, stdout: "{ 141\n", stderr: "" })
    })
  )
})

it.live("a reader that has stopped reading keeps nobody from interrupting", () =>
  Effect.gen(function* () {
    const long = { long: { description: "x".repeat(3 * 1024 * 1024), files: { "SKILL.md": "" } } }
    const path = file("long.zip", Skills.archive(long))
    const code = yield* Effect.async<number | null>((resume) => {
      const child = spawn(process.execPath, [CommandLine.bundle, "skills", "verify", path], {
        stdio: ["ignore", "pipe", "inherit"]
      })
      // The first bytes are here, and there are far more than fit into the pipe; none is ever read.
      child.stdout.once("readable", () => child.kill("SIGINT"))
      child.once("exit", (code) => resume(Effect.succeed(code)))
      return Effect.sync(() => child.kill("SIGKILL"))
    })
    expect(code).toBe(130)
  })
)

describe("a bad archive exits with 1, says why on standard error, and the verdict is the result", () => {
  const expectInvalid = (ended: Program.Ended, check: string) => {
    expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(1)
    expect(ended.stdout).toMatch(/^invalid {3}\S+\n$/)
    expect(ended.stderr).toMatch(/^agent-contracts: INVALID_SNAPSHOT: /)
    expect(ended.stderr).toContain(check)
  }

  it.live("a file that is no archive", () =>
    Effect.map(verify("package.json"), (ended) => expectInvalid(ended, "end-record"))
  )

  it.live("an empty file", () =>
    Effect.map(verify(file("empty.zip", new Uint8Array())), (ended) => expectInvalid(ended, "end-record"))
  )

  it.live("half an archive", () =>
    Effect.map(verify(file("half.zip", archive.subarray(0, archive.length / 2))), (ended) =>
      expectInvalid(ended, "end-record")
    )
  )

  it.live("another revision", () =>
    Effect.map(verify(file("revision.zip", archive), "--revision", "r8"), (ended) =>
      expectInvalid(ended, 'manifest-revision (--revision is "r8", the manifest says another one)')
    )
  )

  it.live("another ETag", () =>
    Effect.map(verify(file("etag.zip", archive), "--etag", `"${"0".repeat(64)}"`), (ended) =>
      expectInvalid(ended, "etag-mismatch")
    )
  )

  it.live("a file of 8 GiB, of which no more than the bound is read", () =>
    Effect.gen(function* () {
      const path = file("large.zip", archive)
      truncateSync(path, 8 * 1024 ** 3)
      expectInvalid(yield* verify(path), "archive-size")
    })
  )

  it.live("as JSON the check and the escaped entry have members of their own", () =>
    Effect.gen(function* () {
      // The sizes differ from the manifest's: the only place where an entry is named.
      const tampered = Buffer.from(archive)
      tampered.write("Notez", tampered.indexOf("Notes"))
      const ended = yield* verify(file("tampered.zip", tampered), "--json")
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(1)
      expect(JSON.parse(ended.stdout)).toMatchObject({
        verdict: "invalid",
        error: { code: "INVALID_SNAPSHOT", check: "file-digest", entry: "release-notes/SKILL.md", retryable: false }
      })
    })
  )
})
