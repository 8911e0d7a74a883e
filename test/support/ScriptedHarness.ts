import { Cause, Deferred, Effect, Exit, Fiber, Layer, Mailbox, Stream } from "effect"
import * as FakeHarness from "../../src/runner/FakeHarness.js"
import type * as Frames from "../../src/runner/Frames.js"
import * as Harness from "../../src/runner/Harness.js"
import * as HarnessFrame from "../../src/runner/HarnessFrame.js"
import type { HarnessScript } from "../../src/runner/HarnessScript.js"
import type { ProcessExit } from "../../src/runner/TerminalDecision.js"

/** What a harness in memory hears and says; its output is bounded as a pipe is. */
export interface Pipes {
  readonly input: Mailbox.Mailbox<string>
  readonly write: (line: string) => Effect.Effect<unknown>
  readonly say: (message: HarnessFrame.HarnessMessageBody) => Effect.Effect<unknown>
  /** Writes a line to its standard error, which can be read only some time after the process has ended. */
  readonly complain: (line: string) => Effect.Effect<unknown>
  /** Closes its output. */
  readonly mute: Effect.Effect<unknown>
}

const exitOf = (exit: Exit.Exit<number, unknown>, signal: string): ProcessExit => {
  if (Exit.isSuccess(exit)) return { exitCode: exit.value, success: exit.value === 0, signal: null }
  if (Cause.isInterruptedOnly(exit.cause)) return { exitCode: null, success: false, signal }
  return { exitCode: 1, success: false, signal: null }
}

/** Harnesses without processes, for runs by the hundred. They are counted, so that none stays behind unnoticed. */
export const make = (run: (pipes: Pipes) => Effect.Effect<number, unknown>) => {
  let running = 0
  let kill: Effect.Effect<void> = Effect.void

  const start = Effect.gen(function* () {
    const input = yield* Mailbox.make<string>({ capacity: 256, strategy: "dropping" })
    const output = yield* Mailbox.make<string, Frames.FrameError>({ capacity: 4 })
    const left = yield* Deferred.make<ProcessExit>()
    let signal = "SIGTERM"
    running++
    const write = (line: string) => output.offer(line.trimEnd())
    const say = (message: HarnessFrame.HarnessMessageBody) => write(HarnessFrame.encodeMessage(1, message))
    const complaints: Array<string> = []
    const complain = (line: string) => Effect.sync(() => complaints.push(line))
    const fiber = yield* run({ input, write, say, complain, mute: output.end }).pipe(
      Effect.interruptible,
      Effect.onExit((exit) => {
        running--
        return Effect.all([input.shutdown, output.end, Deferred.succeed(left, exitOf(exit, signal))])
      }),
      Effect.forkDaemon
    )
    kill = Effect.suspend(() => {
      signal = "SIGKILL"
      return Effect.asVoid(Fiber.interrupt(fiber))
    })
    const terminate = Effect.zipRight(input.end, Effect.asVoid(Fiber.interrupt(fiber)))
    yield* Effect.addFinalizer(() => terminate)
    return {
      frames: Mailbox.toStream(output),
      errors: Stream.unwrap(
        Deferred.await(left).pipe(
          Effect.zipRight(Effect.repeatN(Effect.yieldNow(), 50)),
          Effect.as(Stream.fromIterable(complaints))
        )
      ),
      send: (line: string) => input.offer(line),
      terminate,
      exit: Deferred.await(left)
    }
  })

  return {
    layer: Layer.succeed(Harness.Harness, {
      driverKind: "fake",
      workingDirectory: "standalone-fixture",
      start: Effect.uninterruptible(start)
    }),
    /** How many run now. */
    running: () => running,
    /** Ends the one that was started last, as a kill from outside would. */
    kill: Effect.suspend(() => kill)
  }
}

/** One that plays a script. */
export const script = (script: HarnessScript, delay = 0) =>
  make(({ input, write }) =>
    FakeHarness.run(script, { input: Stream.encodeText(Mailbox.toStream(input)), write }, { delay }).pipe(
      Effect.provideService(FakeHarness.Workers, { spawn: Effect.succeed(1) })
    )
  )

type Body = HarnessFrame.HarnessMessageBody

/** One that says these messages, or lines that are none, whatever it is told, and leaves with the code. */
export const saying = (code: number, ...said: ReadonlyArray<Body | string>) =>
  make(({ say, write }) =>
    Effect.as(
      Effect.forEach(said, (message) => (typeof message === "string" ? write(message) : say(message))),
      code
    )
  )

export const ready: Body = { type: "ready", payload: { version: "1.0.0", script: "scripted" } }

export const event = (eventType: string, payload: unknown = {}, itemId: string | null = null): Body => ({
  type: "event",
  payload: { eventType, turnId: "turn-1", itemId, payload }
})

export const result = (result: unknown): Body => ({ type: "result", payload: { result } })

export const terminal = (terminal: unknown): Body => ({ type: "terminal", payload: { terminal } })
