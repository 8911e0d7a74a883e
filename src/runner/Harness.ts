/**
 * The process that does the work of a run: it is told commands and says what happens, one JSON document a line.
 *
 * @module
 */
import { Command, CommandExecutor } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import {
  Config,
  type ConfigError,
  Context,
  Deferred,
  Duration,
  Effect,
  Either,
  Layer,
  Mailbox,
  Option,
  Schema,
  type Scope,
  Stream
} from "effect"
import * as Frames from "./Frames.js"
import type { ProcessExit } from "./TerminalDecision.js"

/** The process could not be started. */
export class HarnessUnavailable extends Schema.TaggedError<HarnessUnavailable>()("harness_unavailable", {
  /** The platform's word for it, such as `NotFound`. */
  reason: Schema.String
}) {
  override get message(): string {
    return `The harness could not be started: ${this.reason}`
  }
}

/** A harness that runs. */
export interface HarnessProcess {
  /**
   * The lines of its standard output, in order and each once; to be read by one reader. Ends when nothing more can come, even
   * where a process that it left behind holds the output open. Fails at a line that is too long or no UTF-8, and reads no
   * further then.
   */
  readonly frames: Stream.Stream<string, Frames.FrameError>
  /** The lines of its standard error; what is no line is said in its place. To be read, or the harness waits. */
  readonly errors: Stream.Stream<string>
  /** Gives it a line, with its LF. `false` if it is not taken: the harness does not read, or has left. */
  readonly send: (line: string) => Effect.Effect<boolean>
  /** Ends it and all processes of its group: asked first, then forced. Done when it has left. */
  readonly terminate: Effect.Effect<void>
  /** How it ended; when this is known, nothing of its process group is left. */
  readonly exit: Effect.Effect<ProcessExit>
}

/**
 * What runs harnesses. One that is started is ended, with its process group, when the scope closes.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Effect, Layer, Stream } from "effect"
 * import { Harness } from "effect-agent-contracts/runner"
 *
 * const program = Effect.gen(function* () {
 *   const { start } = yield* Harness.Harness
 *   const harness = yield* start
 *   return [...(yield* Stream.runCollect(harness.frames)), (yield* harness.exit).exitCode]
 * })
 *
 * const layer = Harness.layer({ command: "node", args: ["-p", "1 + 1"] }).pipe(Layer.provide(NodeContext.layer))
 * Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(layer))).then(console.log) // [ '2', 0 ]
 * ```
 */
export class Harness extends Context.Tag("effect-agent-contracts/runner/Harness")<
  Harness,
  {
    /** What drives the agent, as `harness.starting` says it. */
    readonly driverKind: string
    /** Where it works, as `workspace.ready` says it. */
    readonly workingDirectory: string
    readonly start: Effect.Effect<HarnessProcess, HarnessUnavailable, Scope.Scope>
  }
>() {}

/** A program to be run as a harness. */
export interface Options {
  readonly command: string
  readonly args?: ReadonlyArray<string>
  /** `fake` by default, the driver that version 1 of the protocol is tested with. */
  readonly driverKind?: string
  /** Where it runs; by default where this process does, which events then call `standalone-fixture`. */
  readonly workingDirectory?: string
  /** How long a line of its output may be, in bytes; 64 KiB by default. */
  readonly maximumLineBytes?: number
  /** How long it has to leave when it is asked to; 100 ms by default. */
  readonly grace?: Duration.DurationInput
}

/** So many commands wait for a harness that does not read. */
const maximumCommands = 256

/** Between two looks at whether something has arrived. */
const interval = Duration.millis(5)

const signalOf = (error: PlatformError): string | null => {
  // The platform says which signal it was only in words.
  const { description } = error
  return /signal: (SIG[A-Z0-9]+)$/.exec(description ?? "")?.[1] ?? null
}

const exitOf = (process: CommandExecutor.Process): Effect.Effect<ProcessExit> =>
  Effect.match(process.exitCode, {
    onSuccess: (exitCode) => ({ exitCode, success: exitCode === 0, signal: null }),
    onFailure: (error) => ({ exitCode: null, success: false, signal: signalOf(error) })
  })

/**
 * Ends a stream of a process that has left once nothing has come for that long: a process that it put into a group of its own
 * can hold the stream open for ever. In steps, so that a thread that was busy all the time still gets to look.
 */
const endsAfter = (left: Effect.Effect<unknown>, silence: Duration.Duration) => {
  const steps = Math.ceil(Duration.toMillis(silence) / Duration.toMillis(interval))
  const silent = Effect.zipRight(left, Effect.repeatN(Effect.sleep(interval), steps))
  return <A, E>(stream: Stream.Stream<A, E>): Stream.Stream<A, E> =>
    Stream.unwrapScoped(
      Effect.map(Stream.toPull(stream), (pull) =>
        Stream.repeatEffectChunkOption(Effect.raceFirst(pull, Effect.zipRight(silent, Effect.fail(Option.none<E>()))))
      )
    )
}

/** Reads at once, since what nobody reads is gone when the process is, and not too far ahead of who takes it. */
const readAhead = Effect.fnUntraced(function* <A, E>(stream: Stream.Stream<A, E>) {
  const mailbox = yield* Mailbox.make<A, E>({ capacity: 64 })
  yield* Stream.runForEachChunk(stream, (chunk) => mailbox.offerAll(chunk)).pipe(
    Mailbox.into(mailbox),
    Effect.interruptible,
    Effect.forkScoped
  )
  return mailbox
})

const makeStart = (
  executor: CommandExecutor.CommandExecutor,
  command: Command.Command,
  { maximumLineBytes, grace }: { readonly maximumLineBytes: number; readonly grace: Duration.Duration }
): Effect.Effect<HarnessProcess, HarnessUnavailable, Scope.Scope> =>
  Effect.uninterruptible(
    Effect.gen(function* () {
      const left = yield* Deferred.make<ProcessExit>()
      const input = yield* Mailbox.make<string>({ capacity: maximumCommands, strategy: "dropping" })
      const process = yield* Effect.mapError(
        executor.start(command),
        (error) => new HarnessUnavailable({ reason: error._tag === "SystemError" ? error.reason : error._tag })
      )

      // Interrupted only when the process is gone: a write that fails while nobody writes is an error that nobody catches.
      yield* Mailbox.toStream(input).pipe(
        Stream.encodeText,
        Stream.run(process.stdin),
        Effect.ignore,
        Effect.ensuring(input.shutdown),
        Effect.interruptible,
        Effect.forkScoped
      )

      // Whatever the process has left behind in its group goes with it (facts 6), at once, while the group's number is its own.
      const killGroup = Effect.ignore(process.kill("SIGKILL"))
      yield* exitOf(process).pipe(
        Effect.tap(killGroup),
        Effect.tap(input.shutdown),
        Effect.flatMap((exit) => Deferred.succeed(left, exit)),
        Effect.forkScoped
      )

      const ends = endsAfter(Deferred.await(left), grace)
      const frames = yield* process.stdout.pipe(
        Stream.mapError(() => new Frames.FrameUnreadable()),
        ends,
        Frames.split(maximumLineBytes),
        Stream.mapEffect((frame) => frame),
        readAhead
      )
      const errors = yield* process.stderr.pipe(
        Stream.catchAll(() => Stream.empty),
        ends,
        Frames.split(maximumLineBytes),
        Stream.map(Either.getOrElse((error) => `[harness stderr: ${error.message}]`)),
        readAhead
      )

      const terminate = Effect.gen(function* () {
        yield* input.end
        if (yield* Deferred.isDone(left)) return
        yield* process.kill("SIGTERM").pipe(Effect.interruptible, Effect.ignore, Effect.timeoutOption(grace))
        yield* killGroup
        yield* Deferred.await(left)
      })
      // The last, so that it is the first when the scope closes: nobody who is to serve the process is gone before it.
      yield* Effect.addFinalizer(() => terminate)

      return {
        frames: Mailbox.toStream(frames),
        errors: Mailbox.toStream(errors),
        send: (line) => input.offer(line),
        terminate,
        exit: Deferred.await(left)
      }
    })
  )

/**
 * Harnesses that are child processes: each in a process group of its own, with an environment that is empty but for `PATH`.
 * To end one is to close its input, to send TERM to the group and, after the grace, KILL; KILL goes to the group also when the
 * process has left by itself, so that no worker of it stays.
 */
export const layer = (
  options: Options
): Layer.Layer<Harness, ConfigError.ConfigError, CommandExecutor.CommandExecutor> =>
  Layer.effect(
    Harness,
    Effect.gen(function* () {
      const executor = yield* CommandExecutor.CommandExecutor
      const PATH = yield* Config.option(Config.string("PATH"))
      const { args = [], driverKind = "fake", grace = "100 millis", workingDirectory } = options
      const command = Command.make(options.command, ...args).pipe(
        Command.env(Option.match(PATH, { onNone: () => ({}), onSome: (PATH) => ({ PATH }) }), { extendEnv: false }),
        workingDirectory === undefined ? (self) => self : Command.workingDirectory(workingDirectory)
      )
      return Harness.of({
        driverKind,
        workingDirectory: workingDirectory ?? "standalone-fixture",
        start: makeStart(executor, command, {
          maximumLineBytes: options.maximumLineBytes ?? Frames.defaultMaximumBytes,
          grace: Duration.decode(grace)
        })
      })
    })
  )
