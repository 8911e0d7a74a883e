import { rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { FileSystem } from "@effect/platform"
import { type PlatformError, SystemError } from "@effect/platform/Error"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, type Scope } from "effect"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import { type Around as At, reads, writes } from "../support/InterceptedFileSystem.js"
import { contents, laidOut, skill } from "../support/Material.js"
import {
  assertSettled,
  assertWhole,
  nextPass,
  pass,
  passOn,
  prepare,
  temporaryDirectory,
  withTimePassing
} from "../support/Materializations.js"
import { after, before } from "../support/MaterialSets.js"

const behaviour = (
  name: string,
  program: (directory: string) => Effect.Effect<void, unknown, Scope.Scope | NodeContext.NodeContext>
) =>
  it.scoped(
    name,
    () =>
      Effect.gen(function* () {
        yield* program(join(yield* temporaryDirectory, "skills"))
      }).pipe(Effect.provide(NodeContext.layer)),
    300_000
  )

const failure = (operation: string, code: string) =>
  new SystemError({
    module: "FileSystem",
    method: operation,
    reason: "Unknown",
    pathOrDescriptor: "/secret/path",
    cause: Object.assign(new Error(code), { code })
  })

/** Runs a pass again and again, each time with something at the next of its operations, until it has no more. */
const atEach = (
  directory: string,
  counts: (operation: string) => boolean,
  run: (around: (at: At) => At) => Effect.Effect<unknown, unknown>,
  stride = 1
) =>
  Effect.gen(function* () {
    const operations: Array<string> = []
    for (let index = 0; ; index += stride) {
      yield* prepare(directory)
      let count = 0
      let hit: string | undefined
      yield* run(
        (at) => (operation, effect) =>
          Effect.suspend(() => {
            if (!counts(operation) || count++ !== index) return effect
            hit = operation
            return at(operation, effect)
          })
      )
      const at = `${index}: ${hit}`
      // A pass that is not killed always leaves the old tree or the new one.
      for (const [name, state] of Object.entries(assertWhole(directory, at))) {
        assert.notStrictEqual(state, "absent", `${at}: ${name}`)
      }
      yield* nextPass(directory)
      assertSettled(directory, at)
      if (hit === undefined) return operations
      operations.push(hit)
    }
  })

describe("a pass of which an operation fails", () => {
  const failing = (around: (at: At) => At) => (directory: string) =>
    Effect.either(
      pass(
        directory,
        around((operation) => Effect.fail(failure(operation, "EIO")))
      )
    )

  behaviour("that writes leaves each skill old or new, and the next pass repairs it", (directory) =>
    Effect.gen(function* () {
      const operations = yield* atEach(directory, writes, (around) => failing(around)(directory))
      assert.isAbove(operations.length, 60)
    })
  )

  // There are hundreds, most of them alike.
  behaviour("that reads, too", (directory) =>
    Effect.gen(function* () {
      const operations = yield* atEach(
        directory,
        (operation) => !writes(operation),
        (around) => failing(around)(directory),
        7
      )
      assert.isAbove(operations.length, 30)
    })
  )

  behaviour("although it was done leaves each skill old or new, and the next pass repairs it", (directory) =>
    // Processes that are killed during each of them leave as much.
    atEach(
      directory,
      writes,
      (around) =>
        Effect.either(
          pass(
            directory,
            around((operation, effect) => Effect.zipRight(effect, Effect.fail(failure(operation, "EIO"))))
          )
        ),
      3
    )
  )

  behaviour(
    "with everything that writes after it, as on a full disk, changes no skill that has not landed",
    (directory) =>
      Effect.gen(function* () {
        for (let healthy = 0; ; healthy++) {
          yield* prepare(directory)
          let count = 0
          const full: At = (operation, effect) =>
            Effect.suspend(() =>
              ["file.writeAll", "makeDirectory"].includes(operation) && count++ >= healthy
                ? Effect.fail(failure(operation, "ENOSPC"))
                : effect
            )
          const ended = yield* Effect.either(pass(directory, full))
          const state = assertWhole(directory, `${healthy}`)
          if (ended._tag === "Left") {
            assert.deepInclude(
              { ...ended.left },
              { _tag: "MATERIALIZE_FAILED", reason: "io", detail: "Unknown (ENOSPC)" }
            )
          } else {
            for (const { detail, directory, reason } of ended.right.failed) {
              assert.deepStrictEqual([reason, detail], ["io", "Unknown (ENOSPC)"])
              assert.strictEqual(state[directory ?? ""], "old")
            }
            if (count <= healthy) break
          }
          yield* nextPass(directory)
          assertSettled(directory, `${healthy}`)
        }
      })
  )

  behaviour("in a directory that cannot be written says so before anything is changed", (directory) =>
    Effect.gen(function* () {
      yield* prepare(directory)
      const readOnly: At = (operation, effect) =>
        writes(operation) ? Effect.fail(failure(operation, "EROFS")) : effect
      const error = yield* Effect.flip(pass(directory, readOnly))
      assert.strictEqual(
        error.message,
        "The skills directory cannot be used: the file system refused: Unknown (EROFS)."
      )
      assert.deepStrictEqual(assertWhole(directory, ""), { pdf: "old", csv: "old", gone: "old", fresh: "old" })
    })
  )

  behaviour("writes nothing at all when everything is in place", (directory) =>
    Effect.gen(function* () {
      yield* prepare(directory)
      yield* pass(directory)
      const operations = new Set<string>()
      yield* pass(directory, (operation, effect) =>
        Effect.suspend(() => {
          operations.add(operation)
          return effect
        })
      )
      assert.deepStrictEqual(
        [...operations].filter((operation) => !reads.has(operation)),
        []
      )
    })
  )
})

describe("a pass of which one place fails", () => {
  behaviour("for another pass's work, before it has the lock, looks again with it", (directory) =>
    Effect.gen(function* () {
      let operations: Array<string> = []
      const counting = (index: number): At => {
        operations = []
        return (operation, effect) =>
          Effect.suspend(() => {
            operations.push(operation)
            return operations.length - 1 === index ? Effect.fail(failure(operation, "EIO")) : effect
          })
      }
      yield* prepare(directory)
      yield* pass(directory, counting(-1))
      // From the first look into the directory to the lock, whose place is looked at, opened and written.
      const start = operations.indexOf("readDirectory")
      const end = operations.indexOf("file.writeAll") - 2
      assert.isAbove(end - start, 30)
      for (let index = start; index < end; index++) {
        yield* prepare(directory)
        const report = yield* pass(directory, counting(index))
        assert.deepStrictEqual(report.failed, [], `${index}: ${operations[index]}`)
        assertSettled(directory, `${index}`)
      }
    })
  )

  /** A pass in which what is at `name` is removed during the `index`-th call that looks at it. */
  const losing = (directory: string, name: string, index: number) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      let looks = 0
      const stat: typeof fs.stat = (path) =>
        Effect.suspend(() => {
          if (path === join(directory, name) && looks++ === index) rmSync(path, { recursive: true })
          return fs.stat(path)
        })
      const report = yield* passOn({ ...fs, stat }, directory)
      return { report, isOver: looks <= index }
    })

  behaviour("since another pass's lock goes away while it is looked at takes it for free", (directory) =>
    Effect.gen(function* () {
      yield* prepare(directory)
      writeFileSync(join(directory, ".materialized.lock"), "of a pass that ends")
      yield* withTimePassing(losing(directory, ".materialized.lock", 0))
      assertSettled(directory, "")
    })
  )

  for (const name of ["pdf", "pdf/docs", "gone"]) {
    behaviour(`since ${name} goes away while it is looked at takes it for absent`, (directory) =>
      Effect.gen(function* () {
        for (let index = 0; ; index++) {
          yield* prepare(directory)
          const { isOver, report } = yield* losing(directory, name, index)
          assert.deepStrictEqual([...report.failed, ...report.leftovers], [], `${index}`)
          yield* pass(directory)
          assertSettled(directory, `${index}`)
          if (isOver) break
        }
      })
    )
  }

  behaviour("for good fails that skill alone, wanted or not", (directory) =>
    Effect.gen(function* () {
      yield* prepare(directory)
      const fs = yield* FileSystem.FileSystem
      const unreadable = ["gone", "fresh"]
      const refusing =
        <A>(look: (path: string) => Effect.Effect<A, PlatformError>) =>
        (path: string) =>
          unreadable.includes(basename(path)) ? Effect.fail(failure("stat", "EILSEQ")) : look(path)
      const report = yield* passOn({ ...fs, readLink: refusing(fs.readLink), stat: refusing(fs.stat) }, directory)
      const failed = { reason: "io", detail: "Unknown (EILSEQ)" } as const
      assert.deepStrictEqual(report.failed, [
        { skillId: "fresh", directory: "fresh", ...failed },
        { skillId: "gone", directory: "gone", ...failed }
      ])
      assert.deepStrictEqual(
        report.written.map(({ skillId }) => skillId),
        ["pdf"]
      )
      // It stays recorded, and is removed once it can be looked at.
      yield* pass(directory)
      assertSettled(directory, "")
    })
  )

  behaviour("to be cleared away says so, and is not moved again by every pass", (directory) =>
    Effect.gen(function* () {
      yield* prepare(directory)
      const fs = yield* FileSystem.FileSystem
      const stubborn = {
        ...fs,
        remove: (path: string, options?: FileSystem.RemoveOptions) =>
          basename(path) === "guide.md" ? Effect.fail(failure("remove", "EACCES")) : fs.remove(path, options)
      }
      const first = yield* passOn(stubborn, directory)
      assert.deepStrictEqual(first.failed, [])
      assert.lengthOf(first.leftovers, 1)
      assert.deepInclude({ ...first.leftovers[0] }, { reason: "io", detail: "Unknown (EACCES)" })
      // Only what cannot be removed is there still, and does not move.
      const found = contents(directory)
      assert.lengthOf(
        Object.keys(found).filter((path) => path.startsWith(".materialized.")),
        1
      )
      assert.deepStrictEqual((yield* passOn(stubborn, directory)).leftovers, first.leftovers)
      assert.deepStrictEqual(contents(directory), found)
      // It does not come back, whatever becomes of the skill.
      const denied = yield* SkillMaterializer.materialize({ directory, skills: [] }).pipe(
        Effect.provideService(FileSystem.FileSystem, stubborn)
      )
      assert.deepStrictEqual(denied.restored, [])
      assert.notProperty(contents(directory), "pdf/SKILL.md")
      yield* pass(directory)
      assertSettled(directory, "")
    })
  )
})

describe("the files of a skill", () => {
  const many = [
    skill("many", Object.fromEntries(["SKILL.md", ..."abcdefghijklmnopqrs"].map((name) => [name, name]))),
    skill("one", { "SKILL.md": "# One\n" }),
    skill("two", { "SKILL.md": "# Two\n" })
  ]

  behaviour("are proved eight at once, and skills are reported in their order", (directory) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.materialize({ directory, skills: many })
      const fs = yield* FileSystem.FileSystem
      const others = yield* Effect.makeLatch()
      const full = yield* Effect.makeLatch()
      let open = 0
      let most = 0
      const opening: typeof fs.open = (path, options) =>
        Effect.gen(function* () {
          if (!path.includes("/many/"))
            return yield* Effect.tap(fs.open(path, options), () => path.includes("/two/") && others.open)
          yield* Effect.acquireRelease(
            Effect.sync(() => {
              most = Math.max(most, ++open)
            }),
            () =>
              Effect.sync(() => {
                open--
              })
          )
          // The first ones wait for one another, and all for the skills after theirs.
          if (open === 8) yield* full.open
          yield* full.await
          yield* others.await
          return yield* fs.open(path, options)
        })
      const report = yield* SkillMaterializer.materialize({ directory, skills: many }).pipe(
        Effect.provideService(FileSystem.FileSystem, { ...fs, open: opening })
      )
      assert.strictEqual(most, 8)
      assert.deepStrictEqual(
        report.kept.map(({ skillId }) => skillId),
        ["many", "one", "two"]
      )
    })
  )
})

describe("passes with different skills in one directory", () => {
  it.scopedLive(
    "that work at once take turns, and none of them fails for the others",
    () =>
      Effect.gen(function* () {
        const directory = join(yield* temporaryDirectory, "skills")
        for (let round = 0; round < 5; round++) {
          yield* prepare(directory)
          const reports = yield* Effect.forEach(
            [before, after, before, after, before],
            (skills) => SkillMaterializer.materialize({ directory, skills }),
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(
            reports.flatMap(({ failed, leftovers }) => [...failed, ...leftovers]),
            []
          )
          yield* pass(directory)
          assert.deepStrictEqual(contents(directory), {
            ...laidOut(after),
            "mine/SKILL.md": "mine",
            "README.md": "notes"
          })
        }
      }).pipe(Effect.provide(NodeContext.layer)),
    300_000
  )
})

describe("a pass that is interrupted", () => {
  behaviour("before any operation leaves each skill old or new, and nothing else behind", (directory) =>
    atEach(directory, writes, (around) =>
      Effect.gen(function* () {
        const reached = yield* Deferred.make<void>()
        const goOn = yield* Deferred.make<void>()
        const waiting: At = (_, effect) =>
          Deferred.succeed(reached, undefined).pipe(Effect.zipRight(Deferred.await(goOn)), Effect.zipRight(effect))
        const fiber = yield* Effect.fork(pass(directory, around(waiting)))
        yield* Effect.raceFirst(Deferred.await(reached), Fiber.await(fiber))
        yield* Fiber.interruptFork(fiber)
        yield* Deferred.succeed(goOn, undefined)
        yield* Fiber.await(fiber)
        const fs = yield* FileSystem.FileSystem
        const hidden = (yield* fs.readDirectory(directory)).filter((name) => name.startsWith(".materialized."))
        assert.isEmpty(hidden.filter((name) => name !== ".materialized.empty"))
      }).pipe(Effect.provide(NodeContext.layer))
    )
  )
})
