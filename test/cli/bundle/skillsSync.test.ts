import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as DeliveryError from "../../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../../src/delivery/RegistryApi.js"
import * as CommandLine from "../../support/CommandLine.js"
import * as LoopbackRegistry from "../../support/LoopbackRegistry.js"
import * as Material from "../../support/Material.js"
import * as Program from "../../support/Program.js"
import * as Skills from "../../support/Skills.js"

const key = "key-that-nobody-must-see"
const text = Skills.greeting.greeting.files["SKILL.md"]
const first = Skills.response(Skills.greeting)
const second = Skills.response({ ...Skills.greeting, parting: { files: { "SKILL.md": "Say goodbye.\n" } } }, "r2")

/** A skills directory that is not there yet. */
const skillsDirectory = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "agent-contracts-sync-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  ),
  (parent) => join(parent, "skills")
)

const settings = Effect.map(LoopbackRegistry.LoopbackRegistry, ({ url }) => ({
  INTELLIGENCE_API_URL: url,
  CPK_INTELLIGENCE_API_KEY: key
}))

const sync = Effect.fnUntraced(function* (directory: string, ...args: ReadonlyArray<string>) {
  const given = ["--container", "team", "--dir", directory, ...args]
  const ended = yield* CommandLine.run(["skills", "sync", ...given], yield* settings)
  expect(`${ended.stdout}${ended.stderr}`).not.toContain(key)
  expect(ended.stderr).not.toContain("    at ")
  return ended
})

/** The same in another working directory. */
const syncIn = Effect.fnUntraced(function* (working: string, ...args: ReadonlyArray<string>) {
  const command = [process.execPath, CommandLine.bundle, "skills", "sync", "--container", "team", ...args]
  return yield* Program.execute("env", ["-C", working, ...command], {
    PATH: process.env["PATH"] ?? "",
    ...(yield* settings)
  })
})

const enqueue = (...handlers: ReadonlyArray<LoopbackRegistry.Handler>) =>
  Effect.flatMap(LoopbackRegistry.LoopbackRegistry, (registry) => registry.enqueue(...handlers))

const withRegistry = Effect.provide(LoopbackRegistry.layer)

describe("a sync", () => {
  it.scopedLive("lays the skills out and says what it did, then finds them in place", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      yield* enqueue(
        LoopbackRegistry.snapshot(first),
        LoopbackRegistry.snapshot(second),
        LoopbackRegistry.snapshot(second)
      )
      const status = (revision: string) =>
        expect.stringMatching(`^status: initialized, revision "${revision}", latest, `)

      const written = yield* sync(directory)
      expect(written).toMatchObject({ code: 0, stderr: "" })
      expect(written.stdout.split("\n")).toEqual([
        `synced    ${directory} (1 written, 0 kept, 0 removed, 0 failed)`,
        `  + "greeting": 1 file, ${text.length} bytes`,
        status("r1"),
        ""
      ])
      expect(Material.contents(directory)).toMatchObject({ "greeting/SKILL.md": text })

      const added = yield* sync(directory)
      expect(added.stdout.split("\n")).toEqual([
        `synced    ${directory} (1 written, 1 kept, 0 removed, 0 failed)`,
        `  + "parting": 1 file, 13 bytes`,
        status("r2"),
        ""
      ])

      const kept = yield* sync(directory, "--json")
      expect(kept).toMatchObject({ code: 0, stderr: "" })
      expect(JSON.parse(kept.stdout)).toMatchObject({
        outcome: "synced",
        directory,
        revision: "r2",
        report: { written: [], kept: [{ directory: "greeting" }, { directory: "parting" }], removed: [], failed: [] },
        status: { initialized: true, revision: "r2", stale: false }
      })
    }).pipe(withRegistry)
  )

  it.scopedLive("of a list of containers has the skills of all, each under its own name", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      const other = Skills.response({ parting: { files: { "SKILL.md": "Say goodbye.\n" } } })
      yield* enqueue(
        LoopbackRegistry.batch(RegistryApi.snapshotEntry("team", first), RegistryApi.snapshotEntry("b", other))
      )
      const ended = yield* sync(directory, "--container", "b")
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout).toContain(`  + "team/greeting" in "greeting": 1 file`)
      expect(Material.contents(directory)).toMatchObject({
        "greeting/SKILL.md": text,
        "parting/SKILL.md": "Say goodbye.\n"
      })
    }).pipe(withRegistry)
  )

  it.scopedLive("fails with the skill that cannot be laid out, and lays out the rest", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      mkdirSync(join(directory, "greeting"), { recursive: true })
      writeFileSync(join(directory, "greeting", "mine.md"), "mine")
      yield* enqueue(LoopbackRegistry.snapshot(second))
      const ended = yield* sync(directory)
      expect(ended.code).toBe(1)
      expect(ended.stdout).toContain("(1 written, 0 kept, 0 removed, 1 failed)\n")
      expect(ended.stderr).toMatch(/^agent-contracts: "greeting": at its place is something [^\n]+\n$/)
      expect(Material.contents(directory)).toMatchObject({
        "greeting/mine.md": "mine",
        "parting/SKILL.md": "Say goodbye.\n"
      })
    }).pipe(withRegistry)
  )

  it.scopedLive("does not follow a link in the directory's place", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      mkdirSync(`${directory}-elsewhere`)
      symlinkSync(`${directory}-elsewhere`, directory)
      yield* enqueue(LoopbackRegistry.snapshot(first), LoopbackRegistry.snapshot(first))
      const ended = yield* sync(directory)
      expect(ended.code).toBe(1)
      expect(ended.stdout).toMatch(/^failed {4}\S+\nstatus: initialized, [^\n]+\n$/)
      expect(ended.stderr).toMatch(
        /^agent-contracts: MATERIALIZE_FAILED: The skills directory cannot be used: it is a link/
      )
      const json = yield* sync(directory, "--json")
      expect(JSON.parse(json.stdout)).toMatchObject({
        outcome: "failed",
        error: { code: "MATERIALIZE_FAILED", path: "", reason: "link" },
        status: { revision: "r1" }
      })
      expect(Material.contents(`${directory}-elsewhere`)).toEqual({})
    }).pipe(withRegistry)
  )
})

describe("a link on the way to the directory", () => {
  /** A working directory whose `.claude` leads elsewhere. */
  const planted = Effect.map(skillsDirectory, (directory) => {
    const working = join(directory, "..", "clone")
    const elsewhere = join(directory, "..", "elsewhere")
    mkdirSync(working)
    mkdirSync(elsewhere)
    symlinkSync(elsewhere, join(working, ".claude"))
    return { working, elsewhere }
  })

  it.scopedLive("below the working directory is not followed, however the directory is given", () =>
    Effect.gen(function* () {
      const { elsewhere, working } = yield* planted
      for (const directory of [".claude/skills", join(working, ".claude", "skills")]) {
        yield* enqueue(LoopbackRegistry.snapshot(first))
        const ended = yield* syncIn(working, "--dir", directory)
        expect(ended.code).toBe(1)
        expect(ended.stderr).toMatch(/^agent-contracts: MATERIALIZE_FAILED: .* a link is on the way to it\.\n$/)
        expect(readdirSync(elsewhere)).toEqual([])
      }
    }).pipe(withRegistry)
  )

  it.scopedLive("below --within is not followed, and is followed above it", () =>
    Effect.gen(function* () {
      const { elsewhere, working } = yield* planted
      yield* enqueue(LoopbackRegistry.snapshot(first), LoopbackRegistry.snapshot(first))
      const refused = yield* sync(join(working, ".claude", "skills"), "--within", working)
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("MATERIALIZE_FAILED") })
      expect(readdirSync(elsewhere)).toEqual([])
      const followed = yield* syncIn(working, "--dir", ".claude/skills", "--within", ".claude")
      expect(followed).toMatchObject({ code: 0, stderr: "" })
      expect(Material.contents(join(elsewhere, "skills"))).toMatchObject({ "greeting/SKILL.md": text })
    }).pipe(withRegistry)
  )
})

describe("the key", () => {
  it.scopedLive("may be in a file", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      const registry = yield* LoopbackRegistry.LoopbackRegistry
      const file = `${directory}-key`
      writeFileSync(file, `${key}-of-file\n`)
      yield* enqueue(LoopbackRegistry.snapshot(first))
      expect(yield* sync(directory, "--key-file", file)).toMatchObject({ code: 0, stderr: "" })
      expect((yield* registry.requests)[0]?.headers.authorization).toBe(`Bearer ${key}-of-file`)
      expect(yield* sync(directory, "--key-file", directory)).toMatchObject({
        code: 2,
        stderr: `agent-contracts: --key-file: cannot read ${directory}: is a directory\n`
      })
    }).pipe(withRegistry)
  )
})

describe("an acquire that fails exits with 1", () => {
  const revoked = LoopbackRegistry.failure(403, new DeliveryError.RevisionRevoked())

  it.scopedLive("a denial removes the skills", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      yield* enqueue(LoopbackRegistry.snapshot(first), revoked)
      yield* sync(directory)
      const ended = yield* sync(directory)
      expect(ended.code).toBe(1)
      expect(ended.stdout).toContain(
        [
          `denied    ${directory} (0 written, 0 kept, 1 removed, 0 failed)`,
          `  - "greeting": REVISION_REVOKED`,
          "status: blocked by REVISION_REVOKED, not initialized, latest",
          ""
        ].join("\n")
      )
      expect(ended.stderr).toMatch(/^agent-contracts: REVISION_REVOKED: [^\n]+\n$/)
      expect(existsSync(join(directory, "greeting"))).toBe(false)
    }).pipe(withRegistry)
  )

  it.scopedLive("but not with --keep-on-denial", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      yield* enqueue(LoopbackRegistry.snapshot(first), revoked, revoked)
      yield* sync(directory)
      const ended = yield* sync(directory, "--keep-on-denial")
      expect(ended.code).toBe(1)
      expect(ended.stdout).toContain(`denied    ${directory} (left as it is)\n`)
      const json = yield* sync(directory, "--keep-on-denial", "--json")
      expect(json.code).toBe(1)
      const value = JSON.parse(json.stdout)
      expect(value).toMatchObject({ outcome: "denied", error: { code: "REVISION_REVOKED" } })
      expect(value).not.toHaveProperty("report")
      expect(Material.contents(directory)).toMatchObject({ "greeting/SKILL.md": text })
    }).pipe(withRegistry)
  )

  it.scopedLive("trouble leaves the directory as it is", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      yield* enqueue(LoopbackRegistry.snapshot(first), LoopbackRegistry.respond(502))
      yield* sync(directory)
      const ended = yield* sync(directory)
      expect(ended).toMatchObject({
        code: 1,
        stdout: `unavailable ${directory} (left as it is)\nstatus: not initialized, latest, last error UNSUPPORTED_SERVER\n`
      })
      expect(ended.stderr).toMatch(/^agent-contracts: UNSUPPORTED_SERVER: /)
      expect(Material.contents(directory)).toMatchObject({ "greeting/SKILL.md": text })
    }).pipe(withRegistry)
  )
})

describe("--watch", () => {
  const start = Effect.fnUntraced(function* (directory: string, ...args: ReadonlyArray<string>) {
    const given = ["skills", "sync", "--watch", "--container", "team", "--dir", directory, ...args]
    return yield* CommandLine.start(given, yield* settings)
  })

  it.scopedLive("prints what each pass changes, goes on through failures, and ends with 130 on SIGINT", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      const unchanged = LoopbackRegistry.unchanged("r1", first.etag)
      yield* enqueue(
        LoopbackRegistry.snapshot(first),
        // Nothing to say of this one.
        unchanged,
        LoopbackRegistry.snapshot(second),
        LoopbackRegistry.failure(403, new DeliveryError.RevisionRevoked())
      )
      const watch = yield* start(directory, "--json")
      expect(JSON.parse(yield* watch.line)).toMatchObject({
        outcome: "synced",
        revision: "r1",
        report: { written: [{}] }
      })
      expect(Material.contents(directory)).toMatchObject({ "greeting/SKILL.md": text })
      expect(JSON.parse(yield* watch.line)).toMatchObject({
        outcome: "synced",
        revision: "r2",
        report: { written: [{ directory: "parting" }], kept: [{ directory: "greeting" }] }
      })
      expect(JSON.parse(yield* watch.line)).toMatchObject({
        outcome: "denied",
        error: { code: "REVISION_REVOKED" },
        report: { removed: [{}, {}] }
      })
      expect(existsSync(join(directory, "greeting"))).toBe(false)
      yield* watch.signal("SIGINT")
      expect(yield* watch.ended).toBe(130)
    }).pipe(withRegistry)
  )

  it.scopedLive("says when each pass was, and ends with 143 on SIGTERM", () =>
    Effect.gen(function* () {
      const directory = yield* skillsDirectory
      yield* enqueue(LoopbackRegistry.snapshot(first))
      const watch = yield* start(directory)
      expect(yield* watch.line).toMatch(
        /^\d{4}-\d\d-\d\dT\S+Z synced {4}\S+ \(1 written, 0 kept, 0 removed, 0 failed\)$/
      )
      yield* watch.signal("SIGTERM")
      expect(yield* watch.ended).toBe(143)
    }).pipe(withRegistry)
  )
})

describe("a sync that is used wrongly exits with 2 and asks nobody", () => {
  it.live.each([
    ["no directory", ["--container", "team"], "--dir <directory> is missing"],
    [
      "a directory outside of --within",
      ["--container", "team", "--dir", "skills", "--within", "skills"],
      "--dir has to be below --within"
    ],
    [
      "no registry",
      ["--container", "team", "--dir", "skills"],
      "INVALID_CONFIG: set INTELLIGENCE_API_URL or give --api-url"
    ],
    [
      "a pin of several",
      ["--container", "a", "--container", "b", "--revision", "r", "--dir", "skills"],
      "--revision pins one"
    ]
  ] as const)("%s", ([, args, says]) =>
    Effect.gen(function* () {
      const ended = yield* CommandLine.run(["skills", "sync", ...args])
      expect(ended).toMatchObject({ code: 2, stdout: "" })
      expect(ended.stderr).toContain(says)
      expect(existsSync("skills")).toBe(false)
    })
  )
})
