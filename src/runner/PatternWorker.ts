/**
 * Patterns tested in threads of Node that are killed when they take too long.
 *
 * @module
 */
import type { Worker } from "node:worker_threads"
import { Deferred, Duration, Effect, Layer, Predicate } from "effect"
import { InvalidPattern, PatternTest, PatternUndecided } from "./PatternTest.js"

/** How long a test may take, from when its thread runs: the contract's own figure (facts 7). */
export const timeLimit: Duration.Duration = Duration.seconds(1)

/** Tests that run at once; more wait. One that is made to take long keeps a core busy until it is killed. */
export const maximumThreads = 4

/** In MiB. The engine keeps what it goes back to outside this memory, and has a bound of its own for that. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 4, stackSizeMb: 4 }

/**
 * What a thread runs: a text, so that there is no file to be found beside a bundle. The constructor only reads the pattern;
 * what is too large for the engine fails in the test.
 */
const source = `
const { parentPort, workerData } = require("node:worker_threads")
const verdict = () => {
  let expression
  try {
    expression = new RegExp(workerData.pattern)
  } catch {
    return "invalid"
  }
  try {
    return expression.test(workerData.text)
  } catch {
    return "memory"
  }
}
parentPort.postMessage(verdict())
`

type Verdict = Effect.Effect<boolean, InvalidPattern | PatternUndecided>

const undecided = (reason: PatternUndecided["reason"]) => Effect.fail(new PatternUndecided({ reason }))

const verdictOf = (message: unknown): Verdict => {
  if (message === "invalid") return Effect.fail(new InvalidPattern())
  return message === "memory" ? undecided("memory") : Effect.succeed(message === true)
}

const isOutOfMemory = (error: unknown) =>
  Predicate.hasProperty(error, "code") && error.code === "ERR_WORKER_OUT_OF_MEMORY"

/** A thread that listens to all that can happen to it: an `error` that nobody listens to would end the process. */
const start = (Thread: typeof Worker, workerData: { readonly pattern: string; readonly text: string }) =>
  Effect.gen(function* () {
    const running = yield* Deferred.make<void>()
    const verdict = yield* Deferred.make<boolean, InvalidPattern | PatternUndecided>()
    const end = (outcome: Verdict) => {
      Deferred.unsafeDone(verdict, outcome)
      Deferred.unsafeDone(running, Effect.void)
    }
    const worker = yield* Effect.try({
      // With nothing of this process: neither its environment nor its options, and not its output.
      try: () =>
        new Thread(source, {
          eval: true,
          workerData,
          resourceLimits,
          env: {},
          argv: [],
          execArgv: [],
          stdout: true,
          stderr: true
        }),
      catch: () => new PatternUndecided({ reason: "thread" })
    })
    worker.on("online", () => Deferred.unsafeDone(running, Effect.void))
    worker.on("message", (message) => end(verdictOf(message)))
    worker.on("error", (error) => end(undecided(isOutOfMemory(error) ? "memory" : "thread")))
    worker.on("exit", () => end(undecided("thread")))
    return { worker, running, verdict }
  })

/**
 * Tests every pattern in a thread of its own, which has ended when the test has, however that did. Starting one takes some tens
 * of milliseconds, which do not count.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { PatternTest, PatternWorker } from "effect-agent-contracts/runner"
 *
 * const program = Effect.gen(function* () {
 *   const patterns = yield* PatternTest.PatternTest
 *   console.log(yield* patterns.test("^v\\d+$", "v12")) // true
 *   const error = yield* Effect.flip(patterns.test("(a+)+$", `${"a".repeat(100_000)}!`)) // after a second
 *   console.log(error.message) // The pattern takes too long to test: simplify it, nested repetitions above all
 * })
 *
 * Effect.runPromise(Effect.provide(program, PatternWorker.layer))
 * ```
 */
export const layer: Layer.Layer<PatternTest> = Layer.effect(
  PatternTest,
  Effect.gen(function* () {
    // Not at the top: whoever imports this module for its neighbours need not be on Node.
    const { Worker } = yield* Effect.promise(() => import("node:worker_threads"))
    const threads = yield* Effect.makeSemaphore(maximumThreads)
    return {
      test: Effect.fn("PatternTest.test")((pattern: string, text: string) =>
        Effect.acquireUseRelease(
          start(Worker, { pattern, text }),
          ({ running, verdict }) =>
            Effect.zipRight(
              Deferred.await(running),
              Effect.timeoutFail(Deferred.await(verdict), {
                duration: timeLimit,
                onTimeout: () => new PatternUndecided({ reason: "time" })
              })
            ),
          ({ worker }) => Effect.promise(() => worker.terminate())
        ).pipe(threads.withPermits(1))
      )
    }
  })
)
