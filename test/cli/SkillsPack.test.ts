import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { FileSystem, Terminal } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Option } from "effect"
import * as SkillsPack from "../../src/cli/SkillsPack.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import * as InterceptedFileSystem from "../support/InterceptedFileSystem.js"
import * as Processes from "../support/Processes.js"
import * as Terminals from "../support/Terminals.js"
import * as Uploads from "../support/Uploads.js"

/** Writes a skill, and gives where it is with the archive that it is packed as. */
const writeSkill = Effect.fnUntraced(function* (directory: string, name: string) {
  const tree = { [`${name}/SKILL.md`]: Uploads.skillFile(name), [`${name}/notes.md`]: `${name}\n`.repeat(20_000) }
  for (const { bytes, path } of Uploads.loose(tree)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), bytes)
  }
  const { archive } = yield* SkillBundle.fromFiles(Uploads.loose(tree))
  return { source: join(directory, name), archive: Buffer.from(archive) }
})

const pack = (source: string, output: string) =>
  Effect.provideService(
    SkillsPack.run({ source, output: Option.some(output), json: true }),
    Terminal.Terminal,
    Terminals.displaying()
  )

/** Packs until an operation is due; `finish` does the rest. */
const packUntil = Effect.fnUntraced(function* (operation: string, source: string, output: string) {
  const fs = yield* FileSystem.FileSystem
  const reached = yield* Deferred.make<void>()
  // A pack is not interrupted while it writes, so a test that fails must not leave it waiting.
  const goOn = yield* Effect.acquireRelease(Deferred.make<void>(), (goOn) => Deferred.succeed(goOn, undefined))
  const held = InterceptedFileSystem.intercept(fs, (name, effect) =>
    name === operation
      ? Deferred.succeed(reached, undefined).pipe(Effect.zipRight(Deferred.await(goOn)), Effect.zipRight(effect))
      : effect
  )
  const packing = yield* Effect.fork(Effect.provideService(pack(source, output), FileSystem.FileSystem, held))
  yield* Deferred.await(reached)
  return { finish: Effect.zipRight(Deferred.succeed(goOn, undefined), packing) }
})

const places = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  const skills = join(directory, "skills")
  const out = join(directory, "out")
  mkdirSync(out)
  return { skills, out, output: join(out, "out.zip") }
})

describe("skills pack", () => {
  it.scopedLive(
    "killed during any operation that writes leaves the earlier archive or the new one, whole, and the next pack to this place removes what else it left",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("SkillsPackProcess")
        const { out, output, skills } = yield* places
        const skill = yield* writeSkill(skills, "greeting")
        const earlier = Buffer.from(Uploads.zip({ "old/SKILL.md": "" }))
        // Neither is a pack's to this place.
        const others = [`.other.zip.${crypto.randomUUID()}.tmp`, ".out.zip.notes.tmp"]
        for (const name of others) writeFileSync(join(out, name), "")

        const found = new Set<string>()
        let leftovers = 0
        for (let killAt = 1; ; killAt++) {
          writeFileSync(output, earlier)
          const ending = yield* Processes.ending(yield* Processes.start(program, skill.source, output, killAt))
          const archive = readFileSync(output)
          expect([earlier, skill.archive], `killed at ${killAt}`).toContainEqual(archive)
          found.add(archive.equals(earlier) ? "earlier" : "new")
          leftovers += readdirSync(out).length - 1 - others.length
          if (ending === 0) break
          expect(ending).toBe("SIGKILL")
          yield* pack(skill.source, output)
          expect(readFileSync(output).equals(skill.archive)).toBe(true)
          expect(readdirSync(out).sort()).toEqual([...others, basename(output)].sort())
        }
        expect(found).toEqual(new Set(["earlier", "new"]))
        expect(leftovers).toBeGreaterThan(0)
      }).pipe(Effect.provide(NodeContext.layer)),
    120_000
  )

  it.scopedLive.each(["file.writeAll", "file.sync", "rename"])(
    "whose temporary file another pack to this place removes before its %s writes it again, and its archive is whole",
    (operation) =>
      Effect.gen(function* () {
        const { out, output, skills } = yield* places
        const slow = yield* writeSkill(skills, "slow")
        const quick = yield* writeSkill(skills, "quick")
        const packing = yield* packUntil(operation, slow.source, output)
        yield* pack(quick.source, output)
        expect(readFileSync(output).equals(quick.archive)).toBe(true)
        expect(readdirSync(out)).toEqual(["out.zip"])
        yield* packing.finish
        expect(readFileSync(output).equals(slow.archive)).toBe(true)
        expect(readdirSync(out)).toEqual(["out.zip"])
      }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("puts its own archive in place while another pack to this place is half-way", () =>
    Effect.gen(function* () {
      const { out, output, skills } = yield* places
      const first = yield* writeSkill(skills, "first")
      const second = yield* writeSkill(skills, "second")
      const almost = yield* packUntil("rename", first.source, output)
      const halfway = yield* packUntil("file.writeAll", second.source, output)
      yield* almost.finish
      expect(readFileSync(output).equals(first.archive)).toBe(true)
      yield* halfway.finish
      expect(readFileSync(output).equals(second.archive)).toBe(true)
      expect(readdirSync(out)).toEqual(["out.zip"])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("to a place with as long a name as a file can have", () =>
    Effect.gen(function* () {
      const { out, skills } = yield* places
      const skill = yield* writeSkill(skills, "greeting")
      const name = `${"é".repeat(125)}x.zip`
      yield* pack(skill.source, join(out, name))
      expect(readdirSync(out)).toEqual([name])
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
