import { describe, expect, it } from "@effect/vitest"
import { Array as Arr, Effect, Exit, Fiber, Queue, Ref, Stream, TestClock } from "effect"
import { FakeHarness, HarnessFrame, type HarnessScript } from "../../src/runner/index.js"
import * as Recorded from "../support/Recorded.js"

type Steps = HarnessScript.HarnessScript["steps"]

const script = (steps: Steps): HarnessScript.HarnessScript => ({
  schema: "paperclip.fake_harness.script.v1",
  name: "timetable",
  steps
})

const log: HarnessScript.HarnessStep = { kind: "log", stream: "stdout", text: "still here" }
const interrupt: HarnessScript.HarnessStep = { kind: "await_interrupt" }
const question: HarnessScript.HarnessStep = { kind: "await_resolution", request_id: "request-1" }

const command = (type: string, payload: unknown = {}) =>
  HarnessFrame.encodeCommand({ commandId: `command-${type}`, type, payload })

const opening = [command("session.open"), command("turn.start", { turnId: "turn-1" })]

const workers = (spawn: Effect.Effect<number, FakeHarness.WorkerUnavailable> = Effect.succeed(77)) =>
  Effect.provideService(FakeHarness.Workers, { spawn })

const encoder = new TextEncoder()

/** A harness that runs: what it is sent comes in one piece each, what it says is heard one by one. */
const start = Effect.fnUntraced(function* (
  steps: Steps,
  options: FakeHarness.Options & { readonly sent?: ReadonlyArray<string> } = {}
) {
  const sent = yield* Queue.unbounded<Uint8Array>()
  const said = yield* Queue.unbounded<string>()
  const { sent: atOnce = opening, ...rest } = options
  const input = Stream.fromQueue(sent, { maxChunkSize: 1 })
  const harness = yield* FakeHarness.run(script(steps), { input, write: (line) => Queue.offer(said, line) }, rest).pipe(
    workers(),
    Effect.fork
  )
  const send = (...lines: ReadonlyArray<string | Uint8Array>) =>
    Queue.offerAll(
      sent,
      lines.map((line) => (typeof line === "string" ? encoder.encode(line) : line))
    )
  yield* send(...atOnce)
  const heard = Effect.flatMap(Queue.take(said), HarnessFrame.decodeMessage)
  return {
    send,
    /** Its next message. */
    heard,
    /** Its messages up to this event, which must come. */
    heardUntil: (eventType: string) =>
      Effect.repeat(heard, {
        until: (message) => message.type === "event" && message.payload.eventType === eventType
      }),
    /** Its exit code. */
    code: Fiber.join(harness),
    failure: Effect.flip(Fiber.join(harness)),
    isRunning: Effect.map(Fiber.poll(harness), (exit) => exit._tag === "None")
  }
})

/** Runs it to its end over commands that are all there at once. */
const play = Effect.fnUntraced(function* (
  steps: Steps,
  lines: ReadonlyArray<string> = opening,
  options?: FakeHarness.Options
) {
  const said = yield* Ref.make<ReadonlyArray<string>>([])
  const transport = {
    input: Stream.encodeText(Stream.fromIterable(lines)),
    write: (line: string) => Ref.update(said, Arr.append(line))
  }
  const code = yield* FakeHarness.run(script(steps), transport, options).pipe(workers())
  return { code, said: yield* Effect.forEach(yield* Ref.get(said), HarnessFrame.decodeMessage) }
})

/** Its exit code, or why it has none. */
const endingOf = (steps: Steps, lines: ReadonlyArray<string>) =>
  Effect.merge(Effect.map(play(steps, lines), ({ code }) => code))

/** Only what the steps say. */
const messagesOf = (steps: Steps, ...lines: ReadonlyArray<string>) =>
  Effect.map(play(steps, [...opening, ...lines]), ({ said }) =>
    said.slice(4).map(({ payload, type }) => ({ type, payload }))
  )

describe("before its steps, a harness", () => {
  it.effect("says that it is ready, opens the session, and starts the turn when each is asked for", () =>
    Effect.gen(function* () {
      const harness = yield* start([interrupt], { sent: [] })
      const frame = { schema: "paperclip.fake_harness.message.v1" }
      expect(yield* harness.heard).toEqual({
        ...frame,
        messageSeq: 1,
        type: "ready",
        payload: { version: "1.0.0", script: "timetable" }
      })
      yield* harness.send(command("session.open"))
      expect(yield* harness.heard).toEqual({
        ...frame,
        messageSeq: 2,
        type: "event",
        payload: {
          eventType: "session.started",
          turnId: null,
          itemId: null,
          payload: { driverSessionId: "driver_local_runner_fake" }
        }
      })
      expect(yield* harness.heard).toEqual({
        ...frame,
        messageSeq: 3,
        type: "event",
        payload: { eventType: "runtime.phase.changed", turnId: null, itemId: null, payload: { phase: "executing" } }
      })
      yield* harness.send(command("turn.start", { turnId: "turn-9" }))
      expect(yield* harness.heard).toEqual({
        ...frame,
        messageSeq: 4,
        type: "event",
        payload: { eventType: "turn.started", turnId: "turn-9", itemId: null, payload: {} }
      })
    })
  )

  it.effect.each([
    ["no payload", null],
    ["no id", {}],
    ["an id that is no text", { turnId: 7 }]
  ] as const)("has an id of its own for a turn that is started with %s", ([, payload]) =>
    Effect.gen(function* () {
      const { said } = yield* play([], [command("session.open"), command("turn.start", payload)])
      expect(said.at(-1)?.payload).toMatchObject({ eventType: "turn.started", turnId: "turn_local_runner" })
    })
  )
})

describe("a step", () => {
  it.effect("event speaks of the turn, unless it names another, and of no item unless it names one", () =>
    Effect.gen(function* () {
      expect(
        yield* messagesOf([
          { kind: "event", event_type: "item.started", item_id: "item-1", payload: { kind: "command" } },
          { kind: "event", event_type: "turn.started", turn_id: "turn-2", payload: {} },
          { kind: "event", event_type: "made.up", turn_id: null, item_id: null }
        ])
      ).toEqual([
        {
          type: "event",
          payload: { eventType: "item.started", turnId: "turn-1", itemId: "item-1", payload: { kind: "command" } }
        },
        { type: "event", payload: { eventType: "turn.started", turnId: "turn-2", itemId: null, payload: {} } },
        { type: "event", payload: { eventType: "made.up", turnId: "turn-1", itemId: null, payload: null } }
      ])
    })
  )

  it.effect("log, request, result and terminal say what the script has, right or wrong", () =>
    Effect.gen(function* () {
      expect(
        yield* messagesOf([
          { kind: "log", stream: "stderr", text: "a\nb" },
          { kind: "request", request: { requestId: "request-1", mood: "curious" } },
          { kind: "result", payload: null },
          { kind: "terminal", payload: "finished" },
          { kind: "terminal", payload: {} }
        ])
      ).toEqual([
        { type: "log", payload: { stream: "stderr", text: "a\nb" } },
        { type: "request", payload: { request: { requestId: "request-1", mood: "curious" } } },
        { type: "result", payload: { result: null } },
        { type: "terminal", payload: { terminal: "finished" } },
        { type: "terminal", payload: { terminal: {} } }
      ])
    })
  )

  it.effect("delay waits as long as it says", () =>
    Effect.gen(function* () {
      const harness = yield* start([{ kind: "delay", milliseconds: 250 }, log, interrupt])
      yield* harness.heardUntil("turn.started")
      const next = yield* Effect.fork(harness.heard)
      yield* TestClock.adjust("249 millis")
      expect((yield* Fiber.poll(next))._tag).toBe("None")
      yield* TestClock.adjust("1 millis")
      expect(yield* Fiber.join(next)).toMatchObject({ type: "log" })
    })
  )

  it.effect("delay waits as long as all delays are told to, where they are", () =>
    Effect.gen(function* () {
      const day: HarnessScript.HarnessStep = { kind: "delay", milliseconds: 86_400_000 }
      yield* play([day, day], opening, { delay: 0 })
      const harness = yield* start([{ kind: "delay", milliseconds: 0 }], { delay: "3 seconds" })
      yield* harness.heardUntil("turn.started")
      yield* TestClock.adjust("2999 millis")
      expect(yield* harness.isRunning).toBe(true)
      yield* TestClock.adjust("1 millis")
      expect(yield* harness.code).toBe(0)
    })
  )

  it.effect("spawn_worker says which process it started", () =>
    Effect.gen(function* () {
      expect(yield* messagesOf([{ kind: "spawn_worker" }])).toEqual([
        { type: "diagnostic", payload: { workerPid: 77, purpose: "cleanup_conformance" } }
      ])
    })
  )

  it.effect("spawn_worker that starts none is the end of the script", () =>
    Effect.gen(function* () {
      const unavailable = new FakeHarness.WorkerUnavailable({ reason: "ENOENT" })
      const input = Stream.encodeText(Stream.fromIterable(opening))
      const steps: Steps = [{ kind: "spawn_worker" }, { kind: "exit", code: 3 }]
      const run = FakeHarness.run(script(steps), { input, write: () => Effect.void }).pipe(workers(unavailable))
      expect(yield* Effect.flip(run)).toMatchObject({ _tag: "worker_unavailable", reason: "ENOENT" })
    })
  )

  it.effect.each([
    [0, 0],
    [130, 130],
    [255, 255],
    [256, 255],
    [1e300, 255],
    [-1, 0],
    [-1e300, 0]
  ] as const)("exit %d ends the script with the code %d, and the steps after it are not taken", ([code, expected]) =>
    Effect.gen(function* () {
      expect(yield* play([log, { kind: "exit", code }, log])).toMatchObject({ code: expected, said: { length: 5 } })
    })
  )

  it.effect("that is the last, without an exit, is a good end", () =>
    Effect.gen(function* () {
      expect(yield* play([log])).toMatchObject({ code: 0, said: { length: 5 } })
    })
  )
})

describe("a harness that waits for an answer", () => {
  const resolve = (requestId: unknown, more: object = {}) => command("request.resolve", { requestId, ...more })

  it.effect("takes the one to its request, and drops those to others", () =>
    Effect.gen(function* () {
      const harness = yield* start([question, question])
      yield* harness.heardUntil("turn.started")
      yield* harness.send(
        resolve("request-2"),
        resolve(1),
        command("request.resolve", null),
        resolve("request-1", { response: ["a"] })
      )
      expect(yield* harness.heard).toMatchObject({
        type: "event",
        payload: {
          eventType: "runtime_request.resolved",
          turnId: "turn-1",
          payload: { requestId: "request-1", response: ["a"] }
        }
      })
      // An answer answers once.
      yield* TestClock.adjust("1 minutes")
      expect(yield* harness.isRunning).toBe(true)
    })
  )

  it.effect("says of an answer without a response that there was none", () =>
    Effect.gen(function* () {
      expect(yield* messagesOf([question], resolve("request-1"))).toMatchObject([
        { payload: { payload: { requestId: "request-1", response: null } } }
      ])
    })
  )

  it.effect("gives up after five minutes", () =>
    Effect.gen(function* () {
      const harness = yield* start([question])
      yield* harness.heardUntil("turn.started")
      yield* TestClock.adjust("299999 millis")
      expect(yield* harness.isRunning).toBe(true)
      yield* TestClock.adjust("1 millis")
      expect(yield* harness.failure).toEqual(new FakeHarness.CommandTimeout({ type: "request.resolve", seconds: 300 }))
    })
  )
})

describe("a harness that waits for an interruption", () => {
  it.effect.each([
    ["the operator's, where none is given", {}, "operator"],
    ["the operator's, where it is no text", { reason: 1 }, "operator"],
    ["the one given", { reason: "out of time" }, "out of time"]
  ] as const)("says why: %s", ([, payload, reason]) =>
    Effect.gen(function* () {
      expect(yield* messagesOf([interrupt], command("turn.interrupt", payload))).toEqual([
        {
          type: "event",
          payload: { eventType: "turn.interrupted", turnId: "turn-1", itemId: null, payload: { reason } }
        }
      ])
    })
  )

  it.effect("takes neither a stop nor a cancellation for one", () =>
    Effect.gen(function* () {
      const harness = yield* start([interrupt])
      yield* harness.heardUntil("turn.started")
      yield* harness.send(command("turn.stop"), command("run.cancel"), command("session.close"))
      yield* TestClock.adjust("9999 millis")
      expect(yield* harness.isRunning).toBe(true)
      yield* harness.send(command("turn.interrupt"))
      expect(yield* harness.code).toBe(0)
    })
  )
})

describe("commands", () => {
  it.effect.each([
    ["session.open", [], [interrupt]],
    ["turn.start", opening.slice(0, 1), [interrupt]],
    ["turn.interrupt", opening, [interrupt]]
  ] as const)("a %s that does not come in ten seconds is the end", ([type, sent, steps]) =>
    Effect.gen(function* () {
      const harness = yield* start([...steps], { sent })
      yield* TestClock.adjust("9 seconds")
      // Others do not make it wait longer.
      yield* harness.send(command("session.snapshot"))
      yield* TestClock.adjust("999 millis")
      expect(yield* harness.isRunning).toBe(true)
      yield* TestClock.adjust("1 millis")
      expect(yield* harness.failure).toEqual(new FakeHarness.CommandTimeout({ type, seconds: 10 }))
    })
  )

  it.effect("that come before they are waited for are dropped by whatever is waited for first", () =>
    Effect.gen(function* () {
      const early = [command("turn.interrupt"), ...opening]
      expect(yield* endingOf([interrupt], early)).toEqual(new FakeHarness.CommandsEnded({ type: "turn.interrupt" }))
    })
  )

  it.effect("that come while nothing is waited for are there when it is", () =>
    Effect.gen(function* () {
      const harness = yield* start([{ kind: "delay", milliseconds: 20_000 }, interrupt])
      yield* harness.heardUntil("turn.started")
      yield* harness.send(command("turn.interrupt"))
      yield* TestClock.adjust("20 seconds")
      expect(yield* harness.code).toBe(0)
    })
  )

  it.effect("that were sent before the input ended are all taken; after them there is nothing to wait for", () =>
    Effect.gen(function* () {
      expect(yield* endingOf([interrupt], [...opening, command("turn.interrupt")])).toBe(0)
      expect(yield* endingOf([interrupt], opening)).toEqual(new FakeHarness.CommandsEnded({ type: "turn.interrupt" }))
      expect(yield* endingOf([], [])).toEqual(new FakeHarness.CommandsEnded({ type: "session.open" }))
    })
  )

  /** A turn.interrupt whose line has so many bytes before its LF. */
  const ofSize = (bytes: number) => `${command("turn.interrupt").trimEnd().padEnd(bytes, " ")}\n`

  it.effect("stand on lines of at most 64 KiB; others are skipped", () =>
    Effect.gen(function* () {
      const sent = (bytes: number, ...more: ReadonlyArray<string>) =>
        endingOf([interrupt], [...opening, ofSize(bytes), ...more])
      expect(yield* sent(65_536)).toBe(0)
      expect(yield* sent(65_537)).toEqual(new FakeHarness.CommandsEnded({ type: "turn.interrupt" }))
      expect(yield* sent(65_537, command("turn.interrupt"))).toBe(0)
    })
  )

  it.effect("are found between lines that are none: blank, broken, of another schema, no UTF-8, and in pieces", () =>
    Effect.gen(function* () {
      const harness = yield* start([interrupt], { sent: [] })
      const open = command("session.open")
      yield* harness.send(
        "\n",
        "  \r\n",
        "{]\n",
        Uint8Array.of(0xff, 0x0a),
        '{"schema":"other","type":"session.open"}\n'
      )
      yield* harness.send(
        open.slice(0, 20),
        `${open.slice(20).trimEnd()}\r\n${command("turn.start")}${command("turn.interrupt").trimEnd()}`,
        "\n"
      )
      expect(yield* harness.code).toBe(0)
    })
  )

  it.effect("that nobody waits for are read 256 ahead, and no further", () =>
    Effect.gen(function* () {
      const read = yield* Ref.make(0)
      const full = yield* Queue.unbounded<number>()
      const lines = [
        ...opening,
        ...Array.from({ length: 1000 }, () => command("session.snapshot")),
        command("turn.interrupt")
      ]
      const input = Stream.fromIterable(lines).pipe(
        Stream.rechunk(1),
        Stream.encodeText,
        Stream.tap(() =>
          Effect.flatMap(
            Ref.updateAndGet(read, (count) => count + 1),
            (count) => Queue.offer(full, count)
          )
        )
      )
      const steps: Steps = [{ kind: "delay", milliseconds: 1000 }, interrupt]
      const harness = yield* FakeHarness.run(script(steps), { input, write: () => Effect.void }).pipe(
        workers(),
        Effect.fork
      )
      // Two are taken, 256 wait, and one is in the reader's hand.
      yield* Effect.repeat(Queue.take(full), { until: (count) => count === 259 })
      yield* TestClock.adjust("999 millis")
      expect(yield* Ref.get(read)).toBe(259)
      yield* TestClock.adjust("1 millis")
      expect(yield* Fiber.join(harness)).toBe(0)
    })
  )
})

describe("the ends of a harness", () => {
  it.effect("input that fails is the end of a script that waits", () =>
    Effect.gen(function* () {
      const input = Stream.concat(Stream.encodeText(Stream.fromIterable(opening)), Stream.fail("broken"))
      const run = FakeHarness.run(script([log, interrupt]), { input, write: () => Effect.void })
      expect(yield* Effect.flip(run.pipe(workers()))).toBe("broken")
    })
  )

  it.effect("output that fails is the end of any script, and nothing is said after it", () =>
    Effect.gen(function* () {
      const said = yield* Ref.make(0)
      const write = () =>
        Effect.flatMap(
          Ref.updateAndGet(said, (count) => count + 1),
          (count) => (count === 5 ? Effect.fail("gone") : Effect.void)
        )
      const run = FakeHarness.run(script([log, log]), { input: Stream.encodeText(Stream.fromIterable(opening)), write })
      expect(yield* Effect.flip(run.pipe(workers()))).toBe("gone")
      expect(yield* Ref.get(said)).toBe(5)
    })
  )

  it.effect.each(["its end", "an interruption"])("the input is let go at %s", (end) =>
    Effect.gen(function* () {
      const open = yield* Ref.make(false)
      const held = Effect.acquireRelease(Ref.set(open, true), () => Ref.set(open, false))
      const input = Stream.scoped(held).pipe(
        Stream.flatMap(() => Stream.concat(Stream.encodeText(Stream.fromIterable(opening)), Stream.never))
      )
      const said = yield* Queue.unbounded<string>()
      const steps: Steps = end === "its end" ? [log] : [log, interrupt]
      const harness = yield* FakeHarness.run(script(steps), { input, write: (line) => Queue.offer(said, line) }).pipe(
        workers(),
        Effect.fork
      )
      yield* Effect.repeatN(Queue.take(said), 4)
      const exit = end === "its end" ? yield* Fiber.await(harness) : yield* Fiber.interrupt(harness)
      expect(Exit.isInterrupted(exit)).toBe(end !== "its end")
      expect(yield* Ref.get(open)).toBe(false)
    })
  )

  it.effect("its span has the number of steps and nothing of what they say", () =>
    Effect.gen(function* () {
      const { spans } = yield* Recorded.recorded(play([log, log]))
      const [span, ...others] = spans.filter(({ name }) => name.startsWith("FakeHarness"))
      expect(others).toEqual([])
      expect(span && Recorded.attributesOf(span)).toEqual({ steps: 2 })
    })
  )
})
