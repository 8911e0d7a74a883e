import { execFile } from "node:child_process"
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { drift, write } from "../../scripts/fixtures/files.js"
import * as Fixtures from "../support/Fixtures.js"

const exec = promisify(execFile)

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** The script as `npm run fixtures` starts it. */
const script = (parameters: ReadonlyArray<string>, env: Record<string, string> = {}): Promise<Ended> =>
  exec(process.execPath, ["scripts/run.mjs", "scripts/fixtures.ts", ...parameters], {
    env: { ...process.env, ...env }
  }).then(
    ({ stderr, stdout }) => ({ code: 0, stdout, stderr }),
    ({ code, stderr, stdout }: Ended) => ({ code, stdout, stderr })
  )

const copyOfFixtures = Effect.acquireRelease(
  Effect.promise(async () => {
    const directory = await mkdtemp(join(tmpdir(), "fixtures-"))
    await cp(Fixtures.directory, directory, { recursive: true })
    return directory
  }),
  (directory) => Effect.promise(() => rm(directory, { recursive: true }))
)

const edit = (path: string, change: (text: string) => string) =>
  Effect.promise(async () => writeFile(path, change(await readFile(path, "utf8"))))

describe("the generator of the fixture files", () => {
  it.live("finds the repository's own files up to date in any time zone and language", () =>
    Effect.gen(function* () {
      const elsewhere = { TZ: "Pacific/Kiritimati", LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8" }
      expect(yield* Effect.promise(() => script(["--check"], elsewhere))).toEqual({
        code: 0,
        stdout: "fixtures is up to date\n",
        stderr: ""
      })
    })
  )

  it.scopedLive("names each file that differs, with its first case that does, and writes it anew", () =>
    Effect.gen(function* () {
      const directory = yield* copyOfFixtures
      yield* edit(join(directory, "lifecycle.v1.json"), (text) =>
        text.replace(/("freshness: window checks".*)"r1"/, '$1"r9"')
      )
      yield* edit(join(directory, "snapshots.v1.json"), (text) => `\ufeff${text}`)
      yield* edit(join(directory, "runner/schemas/usage.schema.json"), (text) => text.replace("US dollars", "Euros"))
      yield* edit(join(directory, "manifest.json"), (text) => ` ${text}`)
      yield* Effect.promise(() => writeFile(join(directory, "extra.json"), "{}"))
      expect(yield* drift(directory)).toEqual([
        'lifecycle.v1.json: line 5 (case "freshness: window checks") differs',
        "snapshots.v1.json: line 1 differs",
        "runner/schemas/usage.schema.json: line 94 differs",
        "manifest.json: line 1 differs",
        "extra.json: is not generated"
      ])

      const written = yield* write(directory)
      expect(written).toEqual(
        expect.arrayContaining(["lifecycle.v1.json", "runner/manifest.json", "snapshots.v1.json", "manifest.json"])
      )
      for (const name of written) {
        const read = (from: string) => Effect.promise(() => readFile(join(from, name)))
        expect((yield* read(directory)).equals(yield* read(Fixtures.directory))).toBe(true)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("fails in the shell on a changed byte, naming file and case", () =>
    Effect.gen(function* () {
      const directory = yield* copyOfFixtures
      yield* edit(join(directory, "snapshots.v1.json"), (text) =>
        text.replace(/("etag: empty".*"archiveBase64":"UEsDBB)Q/, "$1R")
      )
      const { code, stderr } = yield* Effect.promise(() => script(["--check", directory]))
      expect(code).toBe(1)
      expect(stderr).toMatch(/^.*snapshots\.v1\.json: line \d+ \(case "etag: empty"\) differs\n.*npm run fixtures\n$/)
    })
  )

  it.live("fails in the shell with one line when it is used wrongly", () =>
    Effect.gen(function* () {
      expect(yield* Effect.promise(() => script(["--chekc"]))).toEqual({
        code: 1,
        stdout: "",
        stderr: "usage: npm run fixtures [-- [--check] [directory]]\n"
      })
    })
  )
})
