import { existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { contents } from "../support/Material.js"
import { assertSettled, pass, prepare, temporaryDirectory, withTimePassing } from "../support/Materializations.js"

const behaviour = (
  name: string,
  program: (place: { readonly directory: string; readonly lock: string }) => Effect.Effect<void, unknown, Scope.Scope>
) =>
  it.scopedLive(name, () =>
    Effect.gen(function* () {
      const directory = join(yield* temporaryDirectory, "skills")
      yield* prepare(directory)
      yield* program({ directory, lock: join(directory, ".materialized.lock") })
    }).pipe(Effect.provide(NodeContext.layer))
  )

describe("the lock of a skills directory", () => {
  behaviour("is gone after a pass", ({ directory }) =>
    Effect.gen(function* () {
      const held: Array<string> = []
      yield* pass(directory, (operation, effect) =>
        Effect.suspend(() => {
          if (operation === "makeDirectory") held.push(readFileSync(join(directory, ".materialized.lock"), "utf8"))
          return effect
        })
      )
      assert.match(held[0] ?? "", /^[0-9a-f-]{36}$/)
      assert.strictEqual(new Set(held).size, 1)
      assert.throws(() => readFileSync(join(directory, ".materialized.lock")))
    })
  )

  behaviour("is taken over when nobody touches it any longer, whatever its time says", ({ directory, lock }) =>
    Effect.gen(function* () {
      for (const [content, time] of [
        ["of a process that was killed", 0],
        ["", 1],
        ["of a clock far ahead", 10_000_000_000]
      ] as const) {
        yield* prepare(directory)
        writeFileSync(lock, content)
        utimesSync(lock, time, time)
        yield* withTimePassing(pass(directory))
        assertSettled(directory, content)
      }
    })
  )

  behaviour("makes a pass give up when its holder is alive and does not end", ({ directory, lock }) =>
    Effect.gen(function* () {
      writeFileSync(lock, "held")
      let touches = 0
      const error = yield* Effect.flip(
        withTimePassing(
          pass(directory, (operation, effect) =>
            Effect.suspend(() => {
              if (operation === "realPath") utimesSync(lock, ++touches, touches)
              return effect
            })
          )
        )
      )
      assert.deepInclude({ ...error }, { path: ".materialized.lock", reason: "busy" })
      assert.strictEqual(
        error.message,
        '".materialized.lock" in the skills directory cannot be used: another pass is at work in it.'
      )
      assert.strictEqual(readFileSync(lock, "utf8"), "held")
    })
  )

  behaviour("is given back when it changed hands while it was taken over", ({ directory, lock }) =>
    Effect.gen(function* () {
      writeFileSync(lock, "stale")
      let renames = 0
      const afterwards: Array<string> = []
      yield* withTimePassing(
        pass(directory, (operation, effect) =>
          Effect.suspend(() => {
            if (operation === "rename" && ++renames === 1) writeFileSync(lock, "of another")
            if (operation === "open" && renames === 1 && afterwards.length === 0) return effect
            return effect
          }).pipe(
            Effect.tap(() => {
              if (operation === "link") afterwards.push(readFileSync(lock, "utf8"))
            })
          )
        )
      )
      assert.deepStrictEqual(afterwards, ["of another"])
      // In time that one went stale too.
      assertSettled(directory, "")
    })
  )

  behaviour("is given back by a pass that cannot be interrupted", ({ directory, lock }) =>
    Effect.gen(function* () {
      for (const within of [
        Effect.uninterruptible(pass(directory)),
        Effect.scoped(Effect.acquireRelease(pass(directory), () => Effect.void))
      ]) {
        yield* prepare(directory)
        yield* within
        assertSettled(directory, "")
        assert.isFalse(existsSync(lock))
      }
    })
  )

  behaviour("that another pass took over stops this one, which writes nothing more", ({ directory, lock }) =>
    Effect.gen(function* () {
      // At each of its steps, as a process that was stopped there and goes on.
      let stopped = 0
      for (let index = 0; ; index++) {
        yield* prepare(directory)
        let steps = 0
        let found: Record<string, string> | undefined
        const ended = yield* Effect.either(
          pass(directory, (operation, effect) =>
            Effect.suspend(() => {
              if (operation === "rename" && steps++ === index && readFileSync(lock, "utf8") !== "of another") {
                writeFileSync(lock, "of another")
                // The step itself is under way; what comes after it is not to be.
                return Effect.tap(effect, () => {
                  found = contents(directory)
                })
              }
              return effect
            })
          )
        )
        if (found === undefined) break
        assert.strictEqual(readFileSync(lock, "utf8"), "of another")
        const marker = contents(directory)[".materialized"]
        assert.strictEqual(marker, found[".materialized"], `${index}`)
        // After the last of its record it only clears up.
        if (ended._tag === "Right") continue
        stopped++
        assert.deepInclude({ ...ended.left }, { path: ".materialized.lock", reason: "busy" })
        yield* withTimePassing(pass(directory))
        assertSettled(directory, `${index}`)
      }
      assert.isAbove(stopped, 5)
    })
  )

  behaviour("that is a directory is moved away in time", ({ directory, lock }) =>
    Effect.gen(function* () {
      mkdirSync(lock)
      yield* withTimePassing(pass(directory))
      yield* pass(directory)
      assertSettled(directory, "")
    })
  )
})
