import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Exit, Fiber, Option, Queue, Scope, Stream } from "effect"
import * as Harness from "../../src/runner/Harness.js"
import * as HarnessFrame from "../../src/runner/HarnessFrame.js"
import * as Hostile from "../support/HostileHarness.js"

const start = Effect.flatMap(Harness.Harness, ({ start }) => start)

/** The processes that the harness tells of. */
const pids = (frames: Stream.Stream<string, unknown>) =>
  frames.pipe(
    Stream.mapEffect(HarnessFrame.decodeMessage),
    Stream.filterMap((message) =>
      message.type === "diagnostic" ? Option.some(Number(message.payload["workerPid"])) : Option.none()
    ),
    Stream.orDie
  )

/** The first ones of these. */
const firstPids = (frames: Stream.Stream<string, unknown>, count: number) => collect(Stream.take(pids(frames), count))

const collect = <A, E>(stream: Stream.Stream<A, E>) => Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)

describe("a harness as a process", () => {
  it.scopedLive("gives its lines, takes lines, and says how it ended", () =>
    Effect.gen(function* () {
      const harness = yield* start
      expect(yield* harness.send("a command\n")).toBe(true)
      expect(yield* collect(harness.frames)).toEqual(["one", "two"])
      expect(yield* harness.exit).toEqual({ exitCode: 7, success: false, signal: null })
      expect(yield* harness.send("another\n")).toBe(false)
    }).pipe(Effect.provide(Hostile.layer(["text:one", "read", "text:two", "exit:7"])))
  )

  it.scopedLive("says which signal ended it", () =>
    Effect.gen(function* () {
      const harness = yield* start
      expect(yield* harness.exit).toEqual({ exitCode: null, success: false, signal: "SIGKILL" })
    }).pipe(Effect.provide(Hostile.layer(["kill"])))
  )

  it.scopedLive("has an environment that is empty but for PATH, and a process group of its own", () =>
    Effect.gen(function* () {
      const harness = yield* start
      const [line = ""] = yield* collect(harness.frames)
      expect(JSON.parse(line)).toEqual({ names: ["PATH"], leads: true })
    }).pipe(
      Effect.provide(
        Hostile.layer([], {
          args: [
            "-e",
            // The fifth field of its status is its process group.
            `const stat = fs.readFileSync("/proc/self/stat", "utf8").split(") ")[1].split(" ")
            console.log(JSON.stringify({ names: Object.keys(process.env), leads: Number(stat[2]) === process.pid }))`
          ]
        })
      )
    )
  )

  it.live("that cannot be started fails with the system's word for it", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.scoped(start))
      expect([error._tag, error.reason]).toEqual(["harness_unavailable", "NotFound"])
    }).pipe(Effect.provide(Hostile.layer([], { command: "there-is-no-such-program" })))
  )

  it.scopedLive("a line of exactly the bound passes; one byte more ends the reading", () =>
    Effect.gen(function* () {
      const harness = yield* start
      const lines: Array<number> = []
      const error = yield* Effect.flip(
        Stream.runForEach(harness.frames, (line) => Effect.sync(() => lines.push(line.length)))
      )
      expect(error._tag).toBe("frame_too_long")
      expect(lines).toEqual([64 * 1024])
      yield* harness.terminate
    }).pipe(Effect.provide(Hostile.layer(["long:65536", "long:65537", "text:after", "stay"])))
  )

  it.scopedLive("a line without end fails as soon as it is too long, and is ended although it writes on", () =>
    Effect.gen(function* () {
      const harness = yield* start
      expect((yield* Effect.flip(collect(harness.frames)))._tag).toBe("frame_too_long")
      yield* harness.terminate
      expect((yield* harness.exit).success).toBe(false)
    }).pipe(Effect.provide(Hostile.layer(["endless"])))
  )

  it.scopedLive("what is no UTF-8 ends the reading", () =>
    Effect.gen(function* () {
      const harness = yield* start
      expect((yield* Effect.flip(collect(harness.frames)))._tag).toBe("frame_unreadable")
    }).pipe(Effect.provide(Hostile.layer([`bytes:${Buffer.from([0xc3, 0x28, 10]).toString("base64")}`])))
  )

  it.scopedLive(
    "floods its standard error without stopping itself, and a line there that is too long is one word",
    () =>
      Effect.gen(function* () {
        const harness = yield* start
        const errors = yield* Effect.fork(collect(harness.errors))
        expect(yield* collect(harness.frames)).toEqual(["done"])
        const lines = yield* Fiber.join(errors)
        expect([lines.length, lines[0], lines[49_999]]).toEqual([50_002, "complaint 1", "complaint 50000"])
        expect(lines.slice(-2)).toEqual(["[harness stderr: A line is longer than 65536 bytes]", "after"])
      }).pipe(Effect.provide(Hostile.layer(["stderr:50000", "stderr-long:200000", "text:done"])))
  )

  it.scopedLive("does not read: commands are refused when too many wait, and the run can go on", () =>
    Effect.gen(function* () {
      const harness = yield* start
      const line = `${"x".repeat(64 * 1024)}\n`
      const taken = yield* Effect.iterate(0, {
        while: (count) => count >= 0 && count < 10_000,
        body: (count) => Effect.map(harness.send(line), (sent) => (sent ? count + 1 : -1))
      })
      expect(taken).toBe(-1)
      yield* harness.terminate
      expect(yield* harness.exit).toEqual({ exitCode: null, success: false, signal: "SIGTERM" })
    }).pipe(Effect.provide(Hostile.layer(["stay"])))
  )

  it.scopedLive("closes its standard input and lives on: writing to it harms nobody", () =>
    Effect.gen(function* () {
      const harness = yield* start
      yield* harness.frames.pipe(Stream.take(1), Stream.runDrain)
      // Until the pipe has said that it is broken.
      yield* Effect.repeat(Effect.zipLeft(harness.send(`${"x".repeat(64 * 1024)}\n`), Effect.yieldNow()), {
        while: (sent) => sent
      })
      yield* harness.terminate
      yield* harness.exit
    }).pipe(Effect.provide(Hostile.layer(["close-stdin", "text:closed", "stay"])))
  )
})

describe("a harness that is to end", () => {
  it.live("is gone when the scope is left, although it ignores TERM, and its worker with it", () =>
    Effect.gen(function* () {
      const processes = yield* Effect.scoped(Effect.flatMap(start, ({ frames }) => firstPids(frames, 2)))
      expect(processes).toHaveLength(2)
      yield* Effect.forEach(processes, Hostile.gone)
    }).pipe(Effect.provide(Hostile.layer(["ignore-term", "pid", "worker", "stay"])))
  )

  it.live("takes its worker along when it leaves on TERM", () =>
    Effect.gen(function* () {
      const [processes, exit] = yield* Effect.scoped(
        Effect.gen(function* () {
          const harness = yield* start
          const processes = yield* firstPids(harness.frames, 2)
          yield* harness.terminate
          return [processes, yield* harness.exit] as const
        })
      )
      expect(exit.signal).toBe("SIGTERM")
      yield* Effect.forEach(processes, Hostile.gone)
    }).pipe(Effect.provide(Hostile.layer(["pid", "worker", "stay"])))
  )

  it.scopedLive("takes its worker along when it leaves by itself, and the output ends that the worker held open", () =>
    Effect.gen(function* () {
      for (const code of [0, 3]) {
        const [pid, exit] = yield* Effect.gen(function* () {
          const harness = yield* start
          const [pid = 0] = yield* collect(pids(harness.frames))
          return [pid, yield* harness.exit] as const
        }).pipe(Effect.provide(Hostile.layer(["worker", `exit:${code}`])))
        expect(exit.exitCode).toBe(code)
        yield* Hostile.gone(pid)
      }
    })
  )

  it.scopedLive("leaves a process in another group that holds the output open: the output ends all the same", () =>
    Effect.gen(function* () {
      const harness = yield* start
      const [pid = 0] = yield* Effect.tap(collect(pids(harness.frames)), ([pid]) =>
        Effect.addFinalizer(() => Effect.sync(() => process.kill(pid ?? 0, "SIGKILL")))
      )
      expect(Hostile.isRunning(pid)).toBe(true)
      expect((yield* harness.exit).exitCode).toBe(0)
    }).pipe(Effect.provide(Hostile.layer(["daemon", "exit:0"])))
  )

  it.live("is gone however early its start was interrupted", () =>
    Effect.gen(function* () {
      for (const turns of [0, 1, 2, 3, 5, 8, 13, 21]) {
        const scope = yield* Scope.make()
        const starting = yield* Effect.fork(Scope.extend(start, scope))
        yield* Effect.repeatN(Effect.yieldNow(), turns)
        yield* Fiber.interrupt(starting)
        // Does not come back as long as the process is there.
        yield* Scope.close(scope, Exit.void)
      }
    }).pipe(Effect.provide(Hostile.layer(["ignore-term", "stay"])))
  )

  it.live("is gone when the fiber that reads it is interrupted", () =>
    Effect.gen(function* () {
      const told = yield* Queue.unbounded<number>()
      const reading = yield* start.pipe(
        Effect.flatMap(({ frames }) => Stream.runForEach(pids(frames), (pid) => Queue.offer(told, pid))),
        Effect.scoped,
        Effect.fork
      )
      const processes = [yield* Queue.take(told), yield* Queue.take(told)]
      yield* Fiber.interrupt(reading)
      yield* Effect.forEach(processes, Hostile.gone)
    }).pipe(Effect.provide(Hostile.layer(["ignore-term", "pid", "worker", "stay"])))
  )
})
