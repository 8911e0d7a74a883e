import { chmodSync } from "node:fs"
import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { contents } from "../support/Material.js"
import {
  assertSettled,
  assertWhole,
  nextPass,
  pass,
  prepare,
  temporaryDirectory,
  withTimePassing
} from "../support/Materializations.js"
import * as Processes from "../support/Processes.js"

describe("SkillMaterializer.materialize and other processes", () => {
  it.scopedLive(
    "a process that is killed during any operation that writes leaves each skill old, new or restorable, and the next pass repairs it",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("MaterializeProcess")
        const directory = join(yield* temporaryDirectory, "skills")
        const states = new Set<string>()
        let restored = 0
        for (let killAt = 1; ; killAt++) {
          yield* prepare(directory)
          const ending = yield* Processes.ending(yield* Processes.start(program, directory, "after", killAt))
          const at = `killed at ${killAt}`
          for (const [name, state] of Object.entries(assertWhole(directory, at))) states.add(`${name} ${state}`)
          if (ending === 0) break
          assert.strictEqual(ending, "SIGKILL")
          // The lock of one that was killed goes stale.
          const report = yield* killAt % 20 === 0 ? withTimePassing(pass(directory)) : nextPass(directory)
          assert.deepStrictEqual(report.failed, [], at)
          restored += report.restored.length
          assertSettled(directory, at)
        }
        // Every step was met.
        for (const state of ["pdf old", "pdf absent", "pdf new", "fresh old", "fresh new", "gone old", "gone new"]) {
          assert.include([...states], state)
        }
        assert.isAbove(restored, 0)
      }).pipe(Effect.provide(NodeContext.layer)),
    600_000
  )

  it.scopedLive(
    "passes that are killed one after another, each while it cleans up after the one before, leave nothing that the next cannot repair",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("MaterializeProcess")
        const directory = join(yield* temporaryDirectory, "skills")
        yield* prepare(directory)
        for (const [set, killAt] of [
          ["after", 29],
          ["before", 17],
          ["none", 11],
          ["after", 35],
          ["before", 40],
          ["after", 22]
        ] as const) {
          // A killed process's lock would hold the next one up.
          yield* Effect.ignore(
            Effect.flatMap(FileSystem.FileSystem, (fs) => fs.remove(`${directory}/.materialized.lock`))
          )
          assert.strictEqual(
            yield* Processes.ending(yield* Processes.start(program, directory, set, killAt)),
            "SIGKILL",
            `${set} ${killAt}`
          )
        }
        yield* withTimePassing(pass(directory))
        assertSettled(directory, "at last")
      }).pipe(Effect.provide(NodeContext.layer)),
    600_000
  )

  it.scopedLive(
    "processes with different skills that work in one directory at once take turns, and every skill stays whole",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("MaterializeProcess")
        const directory = join(yield* temporaryDirectory, "skills")
        yield* prepare(directory)
        const children = yield* Effect.forEach(["before", "after", "before", "after"], (set) =>
          Processes.start(program, directory, set)
        )
        const endings = yield* Effect.forEach(children, Processes.ending, { concurrency: "unbounded" })
        assert.deepStrictEqual(endings, [0, 0, 0, 0])
        const state = assertWhole(directory, "")
        assert.include(
          [
            { pdf: "old", csv: "old", gone: "old", fresh: "old" },
            { pdf: "new", csv: "old", gone: "new", fresh: "new" }
          ].map((one) => JSON.stringify(one)),
          JSON.stringify(state)
        )
        yield* pass(directory)
        assertSettled(directory, "")
      }).pipe(Effect.provide(NodeContext.layer)),
    600_000
  )

  it.scopedLive(
    "a process that may not write the directory finds it as wanted, and fails when there is something to do",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("MaterializeProcess")
        const parent = yield* temporaryDirectory
        const directory = join(parent, "skills")
        yield* prepare(directory)
        const before = contents(directory)
        chmodSync(parent, 0o755)
        // Root may write everything, so that one becomes the user `nobody`.
        const user = process.getuid?.() === 0 ? [65_534] : []
        chmodSync(directory, 0o555)
        const run = (set: string) =>
          Effect.flatMap(Processes.start(program, directory, set, 0, ...user), Processes.ending)
        assert.strictEqual(yield* run("before"), 0)
        assert.strictEqual(yield* run("after"), 1)
        chmodSync(directory, 0o755)
        assert.deepStrictEqual(contents(directory), before)
      }).pipe(Effect.provide(NodeContext.layer)),
    600_000
  )
})
