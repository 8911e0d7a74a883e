/**
 * A harness that does what a script says: it speaks the frames of a real one, and nothing works behind it.
 *
 * @module
 */
import { Context, Duration, Effect, Function, Mailbox, Option, Predicate, Schema, Stream } from "effect"
import * as Frames from "./Frames.js"
import type { HarnessCommand, HarnessMessageBody } from "./HarnessFrame.js"
import * as HarnessFrame from "./HarnessFrame.js"
import type { HarnessScript, HarnessStep } from "./HarnessScript.js"

/** What it calls itself in `ready`. */
export const version = "1.0.0"

/** How many commands wait to be looked at; while they do, no more are read. */
export const maximumQueuedCommands = 256

/** How long it waits for a command. */
const patience = Duration.seconds(10)

/** How long it waits for an answer, which a human may have to give. */
const patienceForAnswers = Duration.minutes(5)

/** The command that the script waits for did not come in time. */
export class CommandTimeout extends Schema.TaggedError<CommandTimeout>()("command_timeout", {
  type: Schema.String,
  seconds: Schema.Number
}) {
  override get message(): string {
    return `No ${this.type} within ${this.seconds} seconds`
  }
}

/** The input ended before the command that the script waits for. */
export class CommandsEnded extends Schema.TaggedError<CommandsEnded>()("commands_ended", { type: Schema.String }) {
  override get message(): string {
    return `The input ended before a ${this.type}`
  }
}

/** The worker could not be started. */
export class WorkerUnavailable extends Schema.TaggedError<WorkerUnavailable>()("worker_unavailable", {
  /** The system's word for it, such as `ENOENT`. */
  reason: Schema.String
}) {
  override get message(): string {
    return `A worker could not be started: ${this.reason}`
  }
}

/** Where `spawn_worker` gets its process from. */
export class Workers extends Context.Tag("effect-agent-contracts/runner/FakeHarness/Workers")<
  Workers,
  {
    /**
     * Starts a process that sleeps for a minute, has no standard streams and belongs to the harness's own process group; gives
     * its id. Nobody ends it: that is what the runner's cleanup is tested with (facts 6).
     */
    readonly spawn: Effect.Effect<number, WorkerUnavailable>
  }
>() {}

/** Where the harness hears and speaks. */
export interface Transport<E> {
  /** Bytes of command lines. Those that carry no command, or have more than 64 KiB, are skipped. */
  readonly input: Stream.Stream<Uint8Array, E>
  /** Writes a message's line, its LF included. The next one waits for it. */
  readonly write: (line: string) => Effect.Effect<unknown, E>
}

export interface Options {
  /** How long every `delay` of the script is, in place of what it says. */
  readonly delay?: Duration.DurationInput
}

/** A process has no other codes. */
const clamp = (code: number) => Math.min(255, Math.max(0, code))

const textOf = (payload: unknown, member: string): Option.Option<string> =>
  Predicate.hasProperty(payload, member) ? Option.liftPredicate(payload[member], Predicate.isString) : Option.none()

const answers =
  (requestId: string) =>
  ({ payload }: HarnessCommand) =>
    Option.contains(textOf(payload, "requestId"), requestId)

const responseOf = (payload: unknown): unknown =>
  (Predicate.hasProperty(payload, "response") ? payload.response : undefined) ?? null

/**
 * Runs a script to its end and gives the exit code of the process that it plays: what the `exit` step says, within 0 to 255,
 * or 0 when the steps run out.
 *
 * It waits 10 seconds for a command, and 5 minutes for an answer. Whatever else comes meanwhile is dropped, as the contract
 * has it (facts 6).
 *
 * @example
 * ```ts
 * import { Console, Effect, Stream } from "effect"
 * import { FakeHarness, HarnessFrame, HarnessScript } from "effect-agent-contracts/runner"
 *
 * const commands = Stream.make(
 *   HarnessFrame.encodeCommand({ commandId: "command-1", type: "session.open", payload: {} }),
 *   HarnessFrame.encodeCommand({ commandId: "command-2", type: "turn.start", payload: {} })
 * )
 * const text = '{"schema":"paperclip.fake_harness.script.v1","name":"brief","steps":[{"kind":"exit","code":3}]}'
 * const program = HarnessScript.decode(text).pipe(
 *   Effect.flatMap((script) =>
 *     FakeHarness.run(script, {
 *       input: Stream.encodeText(commands),
 *       write: (line) => Effect.map(HarnessFrame.decodeMessage(line), ({ type }) => console.log(type)) // ready, then three events
 *     })
 *   ),
 *   Effect.provideService(FakeHarness.Workers, { spawn: Effect.succeed(1) })
 * )
 *
 * Effect.runPromise(program).then(console.log) // 3
 * ```
 */
export const run = Effect.fn("FakeHarness.run")(function* <E>(
  script: HarnessScript,
  { input, write }: Transport<E>,
  { delay }: Options = {}
) {
  yield* Effect.annotateCurrentSpan("steps", script.steps.length)
  const workers = yield* Workers
  const commands = yield* input.pipe(
    Frames.split(Frames.defaultMaximumBytes),
    Stream.filterMap(Option.getRight),
    Stream.filterMap(HarnessFrame.decodeCommand),
    Mailbox.fromStream({ capacity: maximumQueuedCommands })
  )

  let messages = 0
  const say = (body: HarnessMessageBody) => write(HarnessFrame.encodeMessage(++messages, body))
  const event = (eventType: string, payload: unknown, turnId: string | null, itemId: string | null = null) =>
    say({ type: "event", payload: { eventType, turnId, itemId, payload } })

  const command = (
    type: string,
    time: Duration.Duration = patience,
    isMeant: (command: HarnessCommand) => boolean = Function.constTrue
  ) =>
    commands.take.pipe(
      Effect.catchTag("NoSuchElementException", () => new CommandsEnded({ type })),
      Effect.repeat({ until: (next) => next.type === type && isMeant(next) }),
      Effect.timeoutFail({
        duration: time,
        onTimeout: () => new CommandTimeout({ type, seconds: Duration.toSeconds(time) })
      })
    )

  const step = Effect.fnUntraced(function* (step: Exclude<HarnessStep, { readonly kind: "exit" }>, turnId: string) {
    switch (step.kind) {
      case "delay":
        return yield* Effect.sleep(delay ?? Duration.millis(step.milliseconds))
      case "log":
        return yield* say({ type: "log", payload: { stream: step.stream, text: step.text } })
      case "event":
        return yield* event(step.event_type, step.payload ?? null, step.turn_id ?? turnId, step.item_id)
      case "request":
        return yield* say({ type: "request", payload: { request: step.request } })
      case "await_resolution": {
        const { payload } = yield* command("request.resolve", patienceForAnswers, answers(step.request_id))
        const resolution = { requestId: step.request_id, response: responseOf(payload) }
        return yield* event("runtime_request.resolved", resolution, turnId)
      }
      case "await_interrupt": {
        const { payload } = yield* command("turn.interrupt")
        const reason = Option.getOrElse(textOf(payload, "reason"), () => "operator")
        return yield* event("turn.interrupted", { reason }, turnId)
      }
      case "result":
        return yield* say({ type: "result", payload: { result: step.payload } })
      case "terminal":
        return yield* say({ type: "terminal", payload: { terminal: step.payload } })
      case "spawn_worker": {
        const workerPid = yield* workers.spawn
        return yield* say({ type: "diagnostic", payload: { workerPid, purpose: "cleanup_conformance" } })
      }
    }
  })

  yield* say({ type: "ready", payload: { version, script: script.name } })
  yield* command("session.open")
  yield* event("session.started", { driverSessionId: "driver_local_runner_fake" }, null)
  yield* event("runtime.phase.changed", { phase: "executing" }, null)
  const turn = yield* command("turn.start")
  const turnId = Option.getOrElse(textOf(turn.payload, "turnId"), () => "turn_local_runner")
  yield* event("turn.started", {}, turnId)
  for (const next of script.steps) {
    if (next.kind === "exit") return clamp(next.code)
    yield* step(next, turnId)
  }
  return 0
}, Effect.scoped)
