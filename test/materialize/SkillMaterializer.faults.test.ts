import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, type Scope } from "effect"
import type * as InterceptedFileSystem from "../support/InterceptedFileSystem.js"
import {
  assertSettled,
  assertWhole,
  pass,
  prepare,
  temporaryDirectory,
  withTimePassing
} from "../support/Materializations.js"
import { reads } from "../support/MaterialSets.js"

const behaviour = (name: string, program: (directory: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
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

type At = InterceptedFileSystem.Around

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
      yield* withTimePassing(pass(directory))
      assertSettled(directory, at)
      if (hit === undefined) return operations
      operations.push(hit)
    }
  })

const writes = (operation: string) => !reads.has(operation) || operation === "open"

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
    atEach(directory, writes, (around) =>
      Effect.either(
        pass(
          directory,
          around((operation, effect) => Effect.zipRight(effect, Effect.fail(failure(operation, "EIO"))))
        )
      )
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
            assert.deepInclude({ ...ended.left }, { _tag: "MATERIALIZE_FAILED", reason: "Unknown (ENOSPC)" })
          } else {
            for (const { detail, directory, reason } of ended.right.failed) {
              assert.deepStrictEqual([reason, detail], ["io", "Unknown (ENOSPC)"])
              assert.strictEqual(state[directory ?? ""], "old")
            }
            if (count <= healthy) break
          }
          yield* withTimePassing(pass(directory))
          assertSettled(directory, `${healthy}`)
        }
      })
  )

  behaviour("in a directory that cannot be written says so before anything is changed", (directory) =>
    Effect.gen(function* () {
      yield* prepare(directory)
      const readOnly: At = (operation, effect) =>
        reads.has(operation) && operation !== "open" ? effect : Effect.fail(failure(operation, "EROFS"))
      const error = yield* Effect.flip(pass(directory, readOnly))
      assert.strictEqual(error.message, "The skills directory cannot be used: Unknown (EROFS).")
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
        assert.deepStrictEqual(hidden, [])
      }).pipe(Effect.provide(NodeContext.layer))
    )
  )
})
