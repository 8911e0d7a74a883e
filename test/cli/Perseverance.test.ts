import { describe, expect, it } from "@effect/vitest"
import { Console, Effect, Fiber, Ref, TestClock } from "effect"
import { Passing, persevere } from "../../src/cli/Perseverance.js"
import { type RegistryFailure, Unavailable } from "../../src/cli/RegistryFailure.js"

const unavailable = new Unavailable({ url: "http://registry", status: 503 })
const passing = (retryAfter = 0) => new Passing({ error: unavailable, retryAfter })

/** Asks until nothing is left of `failures`. What was said, how often it was asked and, in seconds, when it ended. */
const asked = Effect.fnUntraced(function* (failures: ReadonlyArray<RegistryFailure | Passing>, seconds: number) {
  const attempts = yield* Ref.make(0)
  const said: Array<string> = []
  const request = Effect.flatMap(
    Ref.getAndUpdate(attempts, (count) => count + 1),
    (attempt) => {
      const failure = failures[attempt]
      return failure === undefined ? Effect.succeed("answer") : Effect.fail(failure)
    }
  )
  const console = yield* Console.consoleWith(Effect.succeed)
  const listening = { ...console, error: (line: unknown) => Effect.sync(() => void said.push(String(line))) }
  const fiber = yield* Effect.fork(Effect.either(Console.withConsole(persevere(request), listening)))
  yield* TestClock.adjust(`${seconds} seconds`)
  const ended = yield* Fiber.poll(fiber)
  yield* Fiber.interrupt(fiber)
  return { ended, said, attempts: yield* Ref.get(attempts) }
})

const answered = { _tag: "Some", value: { _tag: "Success", value: { _tag: "Right", right: "answer" } } }
const failed = (error: unknown) => ({ _tag: "Some", value: { _tag: "Success", value: { _tag: "Left", left: error } } })

describe("what a registry cannot answer at the moment", () => {
  it.effect("is asked again after half a second, then after twice as long each time, and each time that is said", () =>
    Effect.gen(function* () {
      const { attempts, ended, said } = yield* asked([passing(), passing(), passing()], 3.5)
      expect(ended).toMatchObject(answered)
      expect(attempts).toBe(4)
      const line = (waits: string) =>
        `agent-contracts: NETWORK_ERROR: The registry at http://registry cannot answer at the moment (HTTP status 503). Trying again in ${waits}.`
      expect(said).toEqual([line("0.5 s (1 of 5)"), line("1 s (2 of 5)"), line("2 s (3 of 5)")])
    })
  )

  it.effect("is left alone for as long as the registry says", () =>
    Effect.gen(function* () {
      expect(yield* asked([passing(7)], 6)).toMatchObject({ ended: { _tag: "None" }, attempts: 1 })
      expect(yield* asked([passing(7)], 7)).toMatchObject({ ended: answered, attempts: 2 })
    })
  )

  it.effect("is asked six times at most", () =>
    Effect.gen(function* () {
      const given = yield* asked(
        Array.from({ length: 9 }, () => passing()),
        30
      )
      expect(given).toMatchObject({ ended: failed(unavailable), attempts: 6 })
      expect(given.said).toHaveLength(5)
    })
  )

  it.effect("is waited for half a minute in all, and not at all when that would not do", () =>
    Effect.gen(function* () {
      expect(yield* asked([passing(20), passing(11)], 20)).toMatchObject({ ended: failed(unavailable), attempts: 2 })
      expect(yield* asked([passing(31)], 0)).toMatchObject({ ended: failed(unavailable), attempts: 1, said: [] })
    })
  )
})

describe("what will not pass", () => {
  it.effect("is asked once", () =>
    Effect.gen(function* () {
      expect(yield* asked([unavailable], 0)).toMatchObject({ ended: failed(unavailable), attempts: 1, said: [] })
    })
  )
})
