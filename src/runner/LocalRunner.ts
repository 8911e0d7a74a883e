/**
 * Runs one harness on this machine: takes commands, says what happens, and decides how the run ended.
 *
 * @module
 */
import {
  Context,
  Deferred,
  Duration,
  Effect,
  Either,
  Exit,
  Fiber,
  Layer,
  Mailbox,
  Option,
  Predicate,
  Queue,
  Schema,
  Scope,
  Stream
} from "effect"
import * as CommandLedger from "./CommandLedger.js"
import * as EventSource from "./EventSource.js"
import * as Frames from "./Frames.js"
import { Harness, type HarnessProcess } from "./Harness.js"
import * as HarnessFrame from "./HarnessFrame.js"
import * as LogTail from "./LogTail.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import type { SchemaValidation } from "./ProtocolError.js"
import * as RunCommand from "./RunCommand.js"
import type { EventType, RunEvent } from "./RunEvent.js"
import type { CommandReceipt, RunnerMessage } from "./RunnerStream.js"
import * as RunnerStream from "./RunnerStream.js"
import type { RunResult } from "./RunResult.js"
import * as RunTrace from "./RunTrace.js"
import * as TerminalDecision from "./TerminalDecision.js"

/** One run: from its first command to its terminal. */
export interface Run {
  /**
   * Gives the run a command, and waits for what became of it. One that is known already is a `duplicate` and does nothing; one
   * that is out of turn is `rejected` and does not count. After the terminal every command is rejected.
   */
  readonly send: (command: RunCommand.RunCommand) => Effect.Effect<CommandReceipt>
  /** The same for a line that should be one. What cannot be answered by a receipt is answered by a diagnostic. */
  readonly receive: (line: Frames.Frame) => Effect.Effect<void>
  /** The controller leaves: the harness is ended and the run cancelled, unless it has ended already. Does not wait. */
  readonly close: Effect.Effect<void>
  /**
   * What the runner says, in order; to be read by one reader. Nothing is lost on a slow one: the run waits for it, and with
   * it the commands. Ends after `run.terminal`, also when the scope was left, and without one if the run was never prepared.
   */
  readonly messages: Stream.Stream<RunnerMessage>
  /** The events alone, for who takes the receipts from `send`: instead of `messages`. */
  readonly events: Stream.Stream<RunEvent>
}

/** Whose run it is, and what is kept of it. */
export interface Options extends EventSource.Options {
  readonly logBounds?: LogTail.Bounds
  /** So many messages wait for their reader before the run does; 256 by default. */
  readonly maximumWaiting?: number
  /** How long the harness has to say that it is ready; two seconds by default (facts 6). */
  readonly readyWithin?: Duration.DurationInput
}

/**
 * Starts runs, each on a harness of its own. A run lives until its scope closes. To leave the scope is to leave the run as a
 * controller does, and waits until nothing of the harness is left.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { Effect, Layer, Stream } from "effect"
 * import { Harness, LocalRunner } from "effect-agent-contracts/runner"
 *
 * const program = Effect.gen(function* () {
 *   const { start } = yield* LocalRunner.LocalRunner
 *   const run = yield* start({ identity: { runId: "run-1", runnerInstanceId: "runner-1" } })
 *   yield* run.send({
 *     schema: "paperclip.prp.command.v1",
 *     commandId: "prepare-1",
 *     controllerSeq: 1,
 *     type: "run.prepare",
 *     issuedAt: "2026-01-31T12:00:00Z",
 *     payload: {}
 *   })
 *   return yield* run.events.pipe(Stream.map(({ eventType }) => eventType), Stream.runCollect)
 * })
 *
 * // A harness that leaves without a word.
 * const harness = Harness.layer({ command: "true" }).pipe(Layer.provide(NodeContext.layer))
 * const runner = LocalRunner.layer.pipe(Layer.provide(harness))
 *
 * Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(runner))).then((types) => console.log([...types].slice(-2))) // [ 'harness.exited', 'run.terminal' ]
 * ```
 */
export class LocalRunner extends Context.Tag("effect-agent-contracts/runner/LocalRunner")<
  LocalRunner,
  {
    /** Fails only where no valid event could be made for this identity. */
    readonly start: (options: Options) => Effect.Effect<Run, SchemaValidation, Scope.Scope>
  }
>() {}

/** How long a harness may go on once it can say nothing more: one that never leaves would keep its run for ever. */
const leavesWithin = Duration.seconds(5)

/** So much is read ahead of what is being dealt with. */
const inboxSize = 16

interface Asked {
  readonly _tag: "Asked"
  readonly command: Pick<RunCommand.RunCommand, "commandId" | "controllerSeq">
  readonly reply: Deferred.Deferred<CommandReceipt>
}

/** What the run's one fiber deals with, one after the other. */
type Input =
  | Asked
  | { readonly _tag: "Garbled"; readonly message: string }
  | { readonly _tag: "Said"; readonly line: string }
  | { readonly _tag: "Violated"; readonly message: string }
  /** The time in which the harness had to be ready is over. */
  | { readonly _tag: "Late" }
  | { readonly _tag: "Left"; readonly exit: TerminalDecision.ProcessExit }
  | { readonly _tag: "Closed" }

type Answer = (status: CommandReceipt["status"], detail?: string) => Effect.Effect<void>

/** Only the runner says these: a harness that did could take over the run's end. */
const reserved: ReadonlySet<string> = new Set([
  "run.terminal",
  "run.result.proposed",
  "harness.starting",
  "harness.ready",
  "harness.exited"
])

/** The commands that the harness is told, and what each means for the run's end. */
const forwarded: Partial<Record<RunCommand.CommandType, { readonly intent?: TerminalDecision.Intent }>> = {
  "session.open": {},
  "turn.start": {},
  "request.resolve": {},
  "session.close": {},
  "turn.interrupt": { intent: "interrupted" },
  "turn.stop": { intent: "interrupted" },
  "run.cancel": { intent: "cancelled" }
}

const decodeCommand = ProtocolDocument.decode(RunCommand.RunCommand)
const isReceivable = Schema.is(Schema.Struct({ commandId: Schema.String, controllerSeq: Schema.Number }))

const makeRun = Effect.fnUntraced(function* (
  harness: Harness["Type"],
  options: Options
): Effect.fn.Return<Run, SchemaValidation, Scope.Scope> {
  const source = yield* EventSource.make(options)
  const ledger = CommandLedger.make()
  const append = LogTail.append(options.logBounds)

  const inbox = yield* Queue.bounded<Input>(inboxSize)
  const output = yield* Mailbox.make<RunnerMessage>()
  const room = yield* Effect.makeSemaphore(options.maximumWaiting ?? 256)
  const closed = yield* Deferred.make<void>()
  const ended = yield* Deferred.make<void>()
  const processScope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
  const trace = yield* RunTrace.make(options.identity.runId)

  // Only the run's one fiber changes what follows, so that numbers have no gaps and nothing overtakes anything.
  let phase: "unprepared" | "preparing" | "ready" | "ended" = "unprepared"
  let process: HarnessProcess | undefined
  /** Answers `run.prepare`, once the harness is ready. */
  let answerPrepare: Answer = () => Effect.void
  /** What was asked meanwhile. */
  let held: ReadonlyArray<Asked> = []
  let intent: TerminalDecision.Intent | undefined
  let result: RunResult | undefined
  let proposal: Option.Option<unknown> = Option.none()
  let terminal: TerminalDecision.DecidedTerminal | undefined
  /** Whether what the harness says counts no longer. */
  let deaf = false
  // Standard error is read beside it.
  let log = LogTail.empty

  const note = (line: string) => {
    log = append(log, line)
  }

  const say = (message: RunnerMessage) =>
    Effect.zipRight(
      room.take(1),
      Effect.sync(() => output.unsafeOffer(message))
    )

  const emit = Effect.fnUntraced(function* (
    eventType: string,
    payload: unknown,
    references: EventSource.References = {}
  ) {
    const event = yield* source.next(eventType, payload, references)
    yield* trace.event(event)
    yield* say({ kind: "event", event })
    return event
  })

  /** An event of the runner's own making, which is therefore valid. */
  const tell = (eventType: EventType, payload: object, references?: EventSource.References) =>
    Effect.asVoid(Effect.orDie(emit(eventType, payload, references)))

  /** Beside the loop, which goes on reading: a harness that waits for its reader cannot leave. */
  const terminate = Effect.suspend(() =>
    process === undefined ? Effect.void : Effect.forkIn(process.terminate, processScope)
  )

  const violate = Effect.fnUntraced(function* (message: string) {
    if (deaf) return
    deaf = true
    note(`stdout: [${message}]`)
    // One that is being ended may well be cut off in the middle of a line.
    if (intent !== "controller_closed") intent = "protocol_violation"
    yield* terminate
  })

  const end = Effect.fnUntraced(function* (processExit: TerminalDecision.ProcessExit) {
    terminal = TerminalDecision.decide({ intent, processExit, result, proposal: Option.getOrNull(proposal) })
    yield* tell("run.terminal", terminal)
    phase = "ended"
  })

  /** Everything that the harness says goes to the inbox in order, and after it how it left. */
  const listen = Effect.fnUntraced(function* (harness: HarnessProcess) {
    const errors = yield* harness.errors.pipe(
      Stream.runForEach((line) => Effect.sync(() => note(`stderr: ${line}`))),
      Effect.forkIn(processScope)
    )
    yield* harness.frames.pipe(
      Stream.runForEach((line) => Queue.offer(inbox, { _tag: "Said", line })),
      Effect.catchAll(({ message }) => Queue.offer(inbox, { _tag: "Violated", message }))
    )
    yield* Effect.timeoutOption(harness.exit, leavesWithin)
    yield* harness.terminate
    yield* Fiber.await(errors)
    yield* Queue.offer(inbox, { _tag: "Left", exit: yield* harness.exit })
  })

  const prepare = Effect.fnUntraced(function* (answer: Answer) {
    if (phase !== "unprepared") return yield* answer("rejected", "the run is prepared already")
    phase = "preparing"
    answerPrepare = answer
    const { driverKind, workingDirectory } = harness
    yield* tell("runtime.phase.changed", { phase: "workspace_preparing" })
    yield* tell("workspace.ready", { workingDirectory })
    yield* tell("harness.starting", { driverKind, transport: "stdio_jsonl" })
    const started = yield* harness.start.pipe(Scope.extend(processScope), Effect.either)
    if (Either.isLeft(started)) {
      yield* answer("rejected", started.left.message)
      return yield* end({ exitCode: null, success: false, signal: null })
    }
    process = started.right
    yield* Effect.forkIn(listen(process), processScope)
    yield* Queue.offer(inbox, { _tag: "Late" }).pipe(
      Effect.delay(options.readyWithin ?? "2 seconds"),
      Effect.forkIn(processScope)
    )
  })

  /** The harness is ready, or will never be. */
  const prepared = Effect.fnUntraced(function* (...outcome: Parameters<Answer>) {
    phase = "ready"
    yield* answerPrepare(...outcome)
    const asked = held
    held = []
    yield* Effect.forEach(asked, ask, { discard: true })
  })

  const forward = Effect.fnUntraced(function* (
    { commandId, payload, type }: RunCommand.RunCommand,
    means: TerminalDecision.Intent | undefined,
    answer: Answer
  ) {
    if (process === undefined) return yield* answer("rejected", "the run is not prepared")
    const turnId = type === "turn.start" && Predicate.isString(payload["turnId"]) ? payload["turnId"] : undefined
    if (turnId !== undefined && (turnId === "" || [...turnId].length > 160)) {
      return yield* answer("rejected", "a turnId has 1 to 160 characters")
    }
    if (!(yield* process.send(HarnessFrame.encodeCommand({ commandId, type, payload })))) {
      return yield* answer("rejected", "the harness takes no more commands")
    }
    intent = means ?? intent
    if (type === "session.open") yield* tell("session.starting", {})
    if (type === "turn.start") {
      const text = Predicate.isString(payload["text"]) ? payload["text"] : null
      yield* tell("turn.submitted", { text }, turnId === undefined ? {} : { turnId })
    }
    yield* answer("accepted")
  })

  const ask = ({ command: asked, reply }: Asked): Effect.Effect<void> =>
    Effect.gen(function* () {
      const decoded = yield* Effect.either(decodeCommand(asked))
      const span = yield* trace.command(Either.isRight(decoded) ? decoded.right : { commandId: asked.commandId })
      const answer: Answer = Effect.fnUntraced(function* (status, detail) {
        const { commandId, controllerSeq } = asked
        const receipt: CommandReceipt = { commandId, controllerSeq, status, detail: detail ?? null }
        yield* span(receipt)
        yield* say({ kind: "command_receipt", ...receipt })
        yield* Deferred.succeed(reply, receipt)
      })

      if (Either.isLeft(decoded)) return yield* answer("rejected", decoded.left.message)
      const command = decoded.right
      const verdict = ledger.judge(command)
      if (verdict.status === "duplicate") return yield* answer("duplicate")
      if (verdict.status === "rejected") return yield* answer("rejected", verdict.detail)
      if (command.type === "run.prepare") return yield* prepare(answer)
      const passed = forwarded[command.type]
      return yield* passed === undefined
        ? answer("rejected", "this runner does not support the command")
        : forward(command, passed.intent, answer)
    })

  const hear = Effect.fnUntraced(function* (message: HarnessFrame.HarnessMessage) {
    if (phase === "preparing") {
      if (message.type !== "ready") return yield* violate("the harness spoke before it was ready")
      const { driverKind } = harness
      yield* tell("harness.ready", { driverKind, driverVersion: message.payload.version, transport: "stdio_jsonl" })
      return yield* prepared("accepted")
    }
    switch (message.type) {
      case "ready":
        return yield* say({ kind: "diagnostic", level: "warning", message: "the harness said again that it is ready" })
      case "event": {
        const { eventType, itemId, payload, turnId } = message.payload
        if (reserved.has(eventType)) return yield* violate("the harness sent an event that is the runner's")
        yield* emit(eventType, payload, {
          ...(Predicate.isNotNullable(turnId) ? { turnId } : {}),
          ...(Predicate.isNotNullable(itemId) ? { itemId } : {})
        })
        return
      }
      case "request":
        return yield* tell("runtime_request.created", { request: message.payload.request })
      case "result": {
        const { result: proposed } = message.payload
        if (result !== undefined) {
          return yield* tell("harness.diagnostic", { code: "duplicate_semantic_result_ignored" })
        }
        const event = yield* emit("run.result.proposed", proposed)
        if (event.eventType === "run.result.proposed") result = event.payload
        return
      }
      case "terminal":
        if (Option.isSome(proposal)) return yield* tell("harness.diagnostic", { code: "duplicate_terminal_ignored" })
        proposal = Option.some(message.payload.terminal)
        return
      case "log":
        return note(`${message.payload.stream}: ${message.payload.text}`)
      case "diagnostic":
        return note(`diagnostic: ${JSON.stringify(message.payload)}`)
    }
  })

  const leave = Effect.fnUntraced(function* (exit: TerminalDecision.ProcessExit) {
    if (phase === "preparing") yield* prepared("rejected", "the harness ended before it was ready")
    // Nothing of the harness is left when its end is told.
    yield* Scope.close(processScope, Exit.void)
    yield* tell("harness.exited", { processExit: exit, semanticResultObserved: result !== undefined, logs: log })
    yield* end(exit)
  })

  const handle = (input: Input): Effect.Effect<unknown> => {
    switch (input._tag) {
      case "Asked":
        if (phase !== "preparing") return ask(input)
        held = [...held, input]
        return Effect.void
      case "Garbled":
        return say({ kind: "diagnostic", level: "error", message: input.message })
      case "Said":
        if (deaf) return Effect.void
        return HarnessFrame.decodeMessage(input.line).pipe(
          Effect.flatMap(hear),
          Effect.catchAll((error) => violate(error.message))
        )
      case "Violated":
        return violate(input.message)
      case "Late":
        return phase === "preparing" ? violate("the harness was not ready in time") : Effect.void
      case "Left":
        return leave(input.exit)
      case "Closed": {
        if (phase === "unprepared") {
          phase = "ended"
          const message = "the controller left before the run was prepared"
          return say({ kind: "diagnostic", level: "error", message })
        }
        intent = "controller_closed"
        return terminate
      }
    }
  }

  const loop = yield* Queue.take(inbox).pipe(
    Effect.flatMap(handle),
    Effect.repeat({ until: () => phase === "ended" }),
    Effect.onExit((exit) =>
      Effect.all([trace.end(terminal), output.done(Exit.asVoid(exit)), Deferred.succeed(ended, undefined)])
    ),
    Effect.forkScoped
  )
  yield* Deferred.await(closed).pipe(Effect.zipRight(Queue.offer(inbox, { _tag: "Closed" })), Effect.forkScoped)

  const close = Effect.asVoid(Deferred.succeed(closed, undefined))
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      // The reader may be gone, so nothing waits for it any more; what is still to be said is little, since the harness is not heard.
      deaf = true
      return Effect.all([room.release(Number.MAX_SAFE_INTEGER), close, Fiber.await(loop)])
    })
  )

  const messages = Mailbox.toStream(output).pipe(
    Stream.mapChunksEffect((chunk) => Effect.as(room.release(chunk.length), chunk))
  )

  const send = Effect.fnUntraced(function* (command: Asked["command"]) {
    const reply = yield* Deferred.make<CommandReceipt>()
    const { commandId, controllerSeq } = command
    const over = Effect.flatMap(Deferred.await(ended), () =>
      Effect.flatMap(
        Deferred.poll(reply),
        Option.getOrElse(() =>
          Effect.succeed<CommandReceipt>({ commandId, controllerSeq, status: "rejected", detail: "the run has ended" })
        )
      )
    )
    return yield* Effect.raceFirst(
      Effect.zipRight(Queue.offer(inbox, { _tag: "Asked", command, reply }), Deferred.await(reply)),
      over
    )
  })

  const garbled = (message: string) =>
    Effect.raceFirst(Effect.asVoid(Queue.offer(inbox, { _tag: "Garbled", message })), Deferred.await(ended))

  return {
    send,
    receive: (line) =>
      Effect.matchEffect(Effect.flatMap(line, ProtocolDocument.parse), {
        onFailure: ({ message }) => garbled(message),
        onSuccess: (value) =>
          isReceivable(value) ? Effect.asVoid(send(value)) : garbled("A command has a commandId and a controllerSeq")
      }),
    close,
    messages,
    events: Stream.filterMap(messages, (message) =>
      message.kind === "event" ? Option.some(message.event) : Option.none()
    )
  }
})

export const layer: Layer.Layer<LocalRunner, never, Harness> = Layer.effect(
  LocalRunner,
  Effect.map(Harness, (harness) => LocalRunner.of({ start: (options) => makeRun(harness, options) }))
)

/**
 * A run as a filter: commands in, one a line, and out the lines of `paperclip.runner.stream.v1`. Input that ends, or cannot be
 * read, is the controller leaving.
 */
export const serve =
  (options: Options & { readonly maximumLineBytes?: number }) =>
  <R>(input: Stream.Stream<Uint8Array, unknown, R>): Stream.Stream<string, SchemaValidation, LocalRunner | R> =>
    Stream.unwrapScoped(
      Effect.gen(function* () {
        const { start } = yield* LocalRunner
        const run = yield* start(options)
        yield* input.pipe(
          Frames.split(options.maximumLineBytes),
          Stream.runForEach(run.receive),
          Effect.ensuring(run.close),
          Effect.ignore,
          Effect.forkScoped
        )
        return Stream.map(run.messages, RunnerStream.encode)
      })
    )
