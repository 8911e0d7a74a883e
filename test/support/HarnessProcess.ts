/** The fake harness as a process of its own. */
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { Deferred, Effect } from "effect"
import { HarnessFrame } from "../../src/runner/index.js"
import * as Processes from "./Processes.js"

/** Bundled from the sources, once per scope; gives what plain `node` runs. */
export const program = Processes.bundled("../../src/cli/fakeHarnessMain")

/** A command by its type, with an id made of it. */
export const command = (type: string, payload: unknown = {}) => ({ commandId: `command-${type}`, type, payload })
export type Command = ReturnType<typeof command>

export const opening: ReadonlyArray<Command> = [command("session.open"), command("turn.start", { turnId: "turn-1" })]

export interface Ended {
  /** Its exit code, or the signal that ended it. */
  readonly ending: number | string | null
  readonly stderr: string
}

/** Started, without any environment variables, and killed with the scope. Gives what it says as it says it. */
export const start = Effect.fnUntraced(function* (program: string, args: ReadonlyArray<string>) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(process.execPath, [program, ...args], { env: {}, stdio: "pipe" })),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const problems: Array<string> = []
  child.stderr.setEncoding("utf8").on("data", (text: string) => problems.push(text))
  // Written to after it has left, which a test may do.
  child.stdin.on("error", () => {})
  const ended = yield* Deferred.make<Ended>()
  child.on("close", (code, signal) =>
    Deferred.unsafeDone(ended, Effect.succeed({ ending: signal ?? code, stderr: problems.join("") }))
  )
  return {
    child,
    /** Its messages, to be read once and in one go: to stop early is to close its standard output. */
    messages: (async function* () {
      for await (const line of createInterface(child.stdout)) {
        yield Effect.runSync(HarnessFrame.decodeMessage(line))
      }
    })(),
    send: (command: Command) => {
      child.stdin.write(HarnessFrame.encodeCommand(command))
    },
    /** Nothing more will be sent. */
    end: () => {
      child.stdin.end()
    },
    ended: Deferred.await(ended)
  }
})

export interface Played extends Ended {
  readonly messages: ReadonlyArray<HarnessFrame.HarnessMessage>
}

/**
 * Runs it to its end: opens the session and starts the turn at once, then gives the commands that answer each message, or ends
 * its input.
 */
export const play = (
  program: string,
  args: ReadonlyArray<string>,
  answer: (message: HarnessFrame.HarnessMessage) => ReadonlyArray<Command> | "end" = () => []
): Effect.Effect<Played> =>
  Effect.scoped(
    Effect.gen(function* () {
      const harness = yield* start(program, args)
      opening.forEach(harness.send)
      const messages = yield* Effect.promise(async () => {
        const heard: Array<HarnessFrame.HarnessMessage> = []
        for await (const message of harness.messages) {
          heard.push(message)
          const answered = answer(message)
          if (answered === "end") harness.end()
          else answered.forEach(harness.send)
        }
        return heard
      })
      return { messages, ...(yield* harness.ended) }
    })
  )

/** What a message is, in a word: an event by its type. */
export const kind = (message: HarnessFrame.HarnessMessage): string =>
  message.type === "event" ? message.payload.eventType : message.type
