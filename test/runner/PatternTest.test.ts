import { subscribe, unsubscribe } from "node:diagnostics_channel"
import type { Worker } from "node:worker_threads"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Either, Exit, Fiber, TestClock } from "effect"
import * as fc from "fast-check"
import { PatternTest, PatternWorker } from "../../src/runner/index.js"
import { check } from "../support/Seed.js"

const test = (pattern: string, text: string) =>
  Effect.flatMap(PatternTest.PatternTest, (patterns) => patterns.test(pattern, text))

const provided = Effect.provide(PatternWorker.layer)

/** One turn of the event loop. */
const turn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

/** Turns of the event loop until what is awaited is so. */
const until = (holds: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => (holds() ? Effect.void : Effect.zipRight(turn, until(holds))))

/** So many tests have their second running. */
const running = (count: number): Effect.Effect<void> =>
  Effect.flatMap(TestClock.sleeps(), (sleeps) =>
    Chunk.size(sleeps) === count ? Effect.void : Effect.zipRight(turn, running(count))
  )

/** Every thread that is started meanwhile. */
const threads = Effect.acquireRelease(
  Effect.sync(() => {
    const started: Array<Worker> = []
    const listener = (message: unknown) => void started.push((message as { readonly worker: Worker }).worker)
    subscribe("worker_threads", listener)
    return { started, listener }
  }),
  ({ listener }) => Effect.sync(() => unsubscribe("worker_threads", listener))
)

/** A thread that has ended has no id. */
const alive = ({ started }: { readonly started: ReadonlyArray<Worker> }) =>
  started.filter(({ threadId }) => threadId !== -1).length

const endless = ["(a+)+$", `${"a".repeat(100_000)}!`] as const

describe("a pattern is tested as RegExp.test does", () => {
  it("property: any pattern with any text, and one that is none is said to be none", () => {
    const pieces = fc.constantFrom(
      "a",
      "b",
      ".",
      "^",
      "$",
      "(",
      ")",
      "|",
      "*",
      "+",
      "?",
      "[",
      "]",
      "\\d",
      "\\u{61}",
      "{2}",
      "\ud83d"
    )
    const pattern = fc.array(pieces, { maxLength: 6 }).map((parts) => parts.join(""))
    const text = fc.array(fc.constantFrom("a", "b", "1", "\n", "\ud83d", "\ude00", "u"), { maxLength: 6 })
    return check(
      [pattern, text],
      async (pattern, letters) => {
        const outcome = await Effect.runPromiseExit(provided(test(pattern, letters.join(""))))
        let expected: unknown
        try {
          expected = Exit.succeed(new RegExp(pattern).test(letters.join("")))
        } catch {
          expected = Exit.fail(new PatternTest.InvalidPattern())
        }
        expect(outcome).toEqual(expected)
      },
      { numRuns: 40 }
    )
  })

  it.effect("a text of 100,000 units, and a pattern that only looks dangerous", () =>
    Effect.gen(function* () {
      expect(yield* test("(a+)+$", "a".repeat(100_000))).toBe(true)
      expect(yield* test("^(?:a{0,1000}){0,1000}$", "a".repeat(100_000))).toBe(true)
    }).pipe(provided)
  )
})

describe("a pattern that does not end is refused", () => {
  it.effect("after one second; the event loop goes on meanwhile, and the thread is gone afterwards", () =>
    Effect.gen(function* () {
      const all = yield* threads
      const fiber = yield* Effect.fork(Effect.flip(test(...endless)))
      yield* running(1)
      expect(alive(all)).toBe(1)
      yield* Effect.repeatN(turn, 1000)
      yield* TestClock.adjust("999 millis")
      expect(Chunk.size(yield* TestClock.sleeps())).toBe(1)
      yield* TestClock.adjust("1 millis")
      expect(yield* Fiber.join(fiber)).toEqual(new PatternTest.PatternUndecided({ reason: "time" }))
      expect([all.started.length, alive(all)]).toEqual([1, 0])
    }).pipe(Effect.scoped, provided)
  )

  it.effect("whoever is interrupted leaves no thread behind, while one starts as while one runs", () =>
    Effect.gen(function* () {
      const all = yield* threads
      const starting = yield* Effect.fork(test(...endless))
      yield* until(() => all.started.length === 1)
      yield* Fiber.interrupt(starting)
      expect(alive(all)).toBe(0)
      const fiber = yield* Effect.fork(test(...endless))
      yield* running(1)
      yield* Fiber.interrupt(fiber)
      expect([all.started.length, alive(all)]).toEqual([2, 0])
    }).pipe(Effect.scoped, provided)
  )

  it.effect("many at once take turns on four threads, and one that is interrupted in the queue never starts", () =>
    Effect.gen(function* () {
      const all = yield* threads
      const fibers = yield* Effect.forEach(Array(6), () => Effect.fork(Effect.flip(test(...endless))))
      yield* running(PatternWorker.maximumThreads)
      yield* Effect.repeatN(turn, 100)
      expect(alive(all)).toBe(PatternWorker.maximumThreads)
      yield* Fiber.interrupt(fibers[5] as (typeof fibers)[number])
      yield* TestClock.adjust("1 second")
      yield* running(1)
      yield* TestClock.adjust("1 second")
      const refused = yield* Effect.forEach(fibers.slice(0, 5), Fiber.join)
      expect(refused.map((error) => error.message)).toEqual(
        Array(5).fill(new PatternTest.PatternUndecided({ reason: "time" }).message)
      )
      expect([all.started.length, alive(all)]).toEqual([5, 0])
    }).pipe(Effect.scoped, provided)
  )
})

describe("a pattern that is too large is refused", () => {
  it.effect("whatever it makes the engine compile, there is an answer", () =>
    Effect.gen(function* () {
      const all = yield* threads
      const nested = (wrap: (inner: string) => string, levels: number) => {
        let pattern = "a"
        for (let level = 0; level < levels; level++) pattern = wrap(pattern)
        return pattern
      }
      const text = "a".repeat(1000)
      const bombs = [
        nested((inner) => `(?:${inner}){3}`, 140),
        nested((inner) => `(${inner}){9}`, 160),
        nested((inner) => `(?:${inner}){1,9999}`, 80),
        nested((inner) => `(?=${inner}){9}`, 140),
        nested((inner) => `(?:${inner}|b)*`, 140),
        "(?:(?:(?:a{1,1000}){1,1000}){1,1000}){1,1000}b",
        "[^]{0,99999999}".repeat(60)
      ]
      const fibers = yield* Effect.forEach(bombs, (pattern) => Effect.fork(Effect.either(test(pattern, text))))
      while (fibers.some((fiber) => fiber.unsafePoll() === null)) {
        yield* turn
        // The second of whoever is running by now.
        yield* TestClock.adjust("1 second")
      }
      for (const outcome of yield* Fiber.join(Fiber.all(fibers))) {
        expect(Either.isRight(outcome) ? typeof outcome.right : outcome.left._tag).toMatch(
          /^boolean$|^pattern_undecided$/
        )
      }
      expect([all.started.length, alive(all)]).toEqual([bombs.length, 0])
    }).pipe(Effect.scoped, provided)
  )

  it.live("one that the engine will not compile is undecided, not a text that does not match", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(test("a".repeat(2_000_000), "b"))
      expect(error).toEqual(new PatternTest.PatternUndecided({ reason: "memory" }))
    }).pipe(provided)
  )

  it.effect("a thread that cannot be started is a refusal, not a defect", () =>
    Effect.gen(function* () {
      // What cannot be handed to a thread stands for a system that has none left.
      const error = yield* Effect.flip(test("a", (() => "a") as unknown as string))
      expect(error).toEqual(new PatternTest.PatternUndecided({ reason: "thread" }))
    }).pipe(provided)
  )
})
