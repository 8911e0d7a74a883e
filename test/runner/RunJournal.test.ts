import { describe, expect, it } from "@effect/vitest"
import { Chunk, Context, Deferred, Effect, Either, Fiber, Layer, Option, Queue, Stream, TestClock } from "effect"
import * as fc from "fast-check"
import * as Registry from "../../src/registry/Registry.js"
import { Replay, RunEvent, RunJournal } from "../../src/runner/index.js"
import * as Database from "../../src/store/Database.js"
import * as InterceptedStore from "../support/InterceptedStore.js"
import * as Journals from "../support/Journals.js"
import { attributesOf, recorded } from "../support/Recorded.js"
import * as Documents from "../support/RunDocuments.js"
import { check } from "../support/Seed.js"
import * as Stores from "../support/Stores.js"

const { event, run, runId } = Journals

const positions = <E, R>(entries: Stream.Stream<RunJournal.Entry, E, R>) =>
  Effect.map(Stream.runCollect(entries), (all) =>
    Chunk.toReadonlyArray(all).map(({ event, position }) => [position, event.sourceEventId])
  )

const opened = Effect.tap(RunJournal.RunJournal, (journal) => journal.open(run))

it.effect("the events that these tests keep are events", () =>
  Effect.gen(function* () {
    for (const event of Journals.batches.flat()) yield* RunEvent.decode(event)
  })
)

describe.each(Stores.stores)("a journal on %s", (_, store) => {
  const journaled = <A, E>(title: string, test: () => Effect.Effect<A, E, RunJournal.RunJournal>) =>
    it.effect(title, () => test().pipe(Effect.provide(Layer.provide(RunJournal.layer, store))))

  journaled("keeps events in the order of their arrival, and gives them back as they were", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const odd = event(
        1,
        "turn.started",
        { text: "\u0001 \ud83d\ude00 'quoted'" },
        JSON.parse('{"__proto__":{"a":1},"z":1}')
      )
      yield* journal.append(runId, [event(9, "session.started"), odd])
      const entries = Chunk.toReadonlyArray(yield* Stream.runCollect(journal.read(runId)))
      expect(entries.map(({ position }) => position)).toEqual([1, 2])
      expect(JSON.stringify(entries[1]?.event)).toBe(JSON.stringify(odd))
    })
  )

  journaled("acknowledges what is kept without a gap, and a gap is closed by the event that was missing", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const acknowledged = (...events: ReadonlyArray<RunEvent.RunEvent>) =>
        Effect.map(journal.append(runId, events), ({ position, sources }) => [position, [...sources]])
      const source = "runner:runner-1"
      expect(yield* acknowledged(event(1, "session.started"), event(2, "turn.started"))).toEqual([2, [[source, 2]]])
      expect(yield* acknowledged(event(4, "item.delta"), event(6, "item.delta"))).toEqual([4, [[source, 2]]])
      const other = event(1, "runner.diagnostic", {}, { sourceEventId: "c1", sourceKind: "control_plane" })
      expect(yield* acknowledged(other)).toEqual([
        5,
        [
          ["control_plane:runner-1", 1],
          [source, 2]
        ]
      ])
      expect(yield* acknowledged(event(3, "item.started"))).toEqual([
        6,
        [
          ["control_plane:runner-1", 1],
          [source, 4]
        ]
      ])
      const { position, sources } = yield* journal.acknowledged(runId)
      expect([position, [...sources]]).toEqual([
        6,
        [
          ["control_plane:runner-1", 1],
          [source, 4]
        ]
      ])
    })
  )

  journaled("acknowledges a long run of numbers at once, however they came", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const numbers = Array.from({ length: 1203 }, (_, index) => index + 2)
      const { sources: before } = yield* journal.append(
        runId,
        numbers.reverse().map((seq) => event(seq, "item.delta"))
      )
      const { sources } = yield* journal.append(runId, [event(1, "session.started")])
      expect([[...before.values()], [...sources.values()]]).toEqual([[0], [1204]])
    })
  )

  journaled("takes what it has already as no change, in the same batch too", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const first = event(1, "session.started", { a: 1, b: 2 })
      const again = Object.fromEntries(
        Object.entries({ ...first, payload: { b: 2, a: 1 } }).reverse()
      ) as unknown as typeof first
      yield* journal.append(runId, [first, again])
      const { position } = yield* journal.append(runId, [again])
      expect(position).toBe(1)
      expect(yield* positions(journal.read(runId))).toEqual([[1, "event-1"]])
    })
  )

  journaled("refuses a batch with an event that is another than before, or of another run, and keeps none of it", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      yield* journal.append(runId, [event(1, "session.started")])
      const changed = event(1, "session.started", { secret: "s" })
      const refusals = [
        [event(2, "turn.started"), changed],
        [event(2, "turn.started"), event(2, "turn.started", { secret: "s" })],
        [event(2, "turn.started"), event(3, "turn.started", {}, { runId: "run-2" })]
      ]
      const errors = yield* Effect.forEach(refusals, (batch) => Effect.flip(journal.append(runId, batch)))
      expect(
        errors.map((error) => (error._tag === "binding_mismatch" ? error.issues.map(({ path }) => path) : error._tag))
      ).toEqual([["/1/sourceEventId"], ["/1/sourceEventId"], ["/1/runId"]])
      expect(errors.join()).not.toContain("secret")
      expect(yield* positions(journal.read(runId))).toEqual([[1, "event-1"]])
    })
  )

  journaled("takes nothing new after the terminal, and still acknowledges what it has", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      for (const batch of Journals.batches) yield* journal.append(runId, batch)
      const late = event(8, "item.delta")
      expect((yield* Effect.flip(journal.append(runId, [late])))._tag).toBe("run_ended")
      for (const batch of Journals.batches) expect((yield* journal.append(runId, batch)).position).toBe(7)
      const [entry] = Chunk.toReadonlyArray(yield* Stream.runCollect(journal.runs))
      expect(entry).toMatchObject({ runId, name: run.fixtureName, events: 7 })
      expect(Option.isSome(entry?.endedAt ?? Option.none())).toBe(true)
    })
  )

  journaled("refuses a batch in which something follows the terminal", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const batch = [event(1, "run.terminal", Documents.terminal), event(2, "item.delta")]
      expect((yield* Effect.flip(journal.append(runId, batch)))._tag).toBe("run_ended")
      expect(yield* positions(journal.read(runId))).toEqual([])
    })
  )

  journaled("knows a run by its header: the same again is no change, another is refused", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const identity = JSON.parse(JSON.stringify({ later: { x: 1 }, ...Documents.identity, runId: "run-2" }))
      yield* journal.open({ ...run, identity })
      yield* journal.open({
        ...run,
        identity: Object.fromEntries(Object.entries(identity).reverse()) as typeof identity
      })
      expect((yield* Effect.flip(journal.open({ ...run, fixtureName: "Another" })))._tag).toBe("run_conflict")
      expect(JSON.stringify((yield* journal.header("run-2")).identity)).toBe(JSON.stringify(identity))
      const ids = Chunk.toReadonlyArray(yield* Stream.runCollect(journal.runs)).map(({ runId }) => runId)
      expect(ids).toEqual(["run-2", "run-1"])
    })
  )

  journaled("does not know a run that was not opened", () =>
    Effect.gen(function* () {
      const journal = yield* RunJournal.RunJournal
      const errors = yield* Effect.all([
        Effect.flip(journal.append("run-9", [])),
        Effect.flip(journal.acknowledged("run-9")),
        Effect.flip(journal.replay("run-9")),
        Effect.flip(Stream.runDrain(journal.read("run-9"))),
        Effect.flip(Stream.runDrain(journal.follow("run-9")))
      ])
      expect(errors.map(({ _tag }) => _tag)).toEqual(Array(5).fill("run_not_found"))
    })
  )

  journaled("takes an event of 1 MiB, and none that is larger", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const sized = (bytes: number) => {
        const rest = new TextEncoder().encode(JSON.stringify(event(1, "item.delta", { text: "" }))).length
        return event(1, "item.delta", { text: "x".repeat(bytes - rest) })
      }
      const error = yield* Effect.flip(journal.append(runId, [sized(RunJournal.maximumEventBytes + 1)]))
      expect(error).toMatchObject({ _tag: "event_too_large", bytes: RunJournal.maximumEventBytes + 1 })
      yield* journal.append(runId, [sized(RunJournal.maximumEventBytes)])
    })
  )

  journaled("tells sources and events apart by ids of any characters", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const ids = ["\u0000", "\ud800", "\ud801", "\ufffd", '"\\', "é", "e\u0301"]
      const events = ids.map((id) => event(1, "item.delta", {}, { sourceEventId: id, sourceInstanceId: id }))
      yield* journal.append(runId, events)
      const { position, sources } = yield* journal.append(runId, events)
      expect([position, new Set(sources.keys())]).toEqual([ids.length, new Set(ids.map((id) => `runner:${id}`))])
      expect((yield* positions(journal.read(runId))).map(([, id]) => id)).toEqual(ids)
    })
  )

  journaled("takes 4096 events at once, and no more", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const events = Array.from({ length: RunJournal.maximumBatchEvents + 1 }, (_, index) =>
        event(index + 1, "item.delta")
      )
      const error = yield* Effect.flip(journal.append(runId, events))
      expect(error).toMatchObject({ _tag: "batch_too_large", events: 4097 })
      expect((yield* journal.append(runId, events.slice(1))).position).toBe(4096)
    })
  )

  journaled("reads pages from a position on, and follows a run that is over to its end", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const events = Array.from({ length: 200 }, (_, index) => event(index + 1, "item.delta"))
      yield* journal.append(runId, events)
      const expected = events.map(({ sourceEventId, sourceSeq }) => [sourceSeq, sourceEventId])
      expect(yield* positions(journal.read(runId))).toEqual(expected)
      for (const after of [63, 64, 128, 199, 200]) {
        expect(yield* positions(journal.read(runId, { after }))).toEqual(expected.slice(after))
      }
      yield* journal.append(runId, [event(201, "run.terminal", Documents.terminal)])
      expect(yield* positions(journal.follow(runId))).toEqual([...expected, [201, "event-201"]])
    })
  )

  journaled("is followed to the terminal: what is there, then what comes", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const [first = [], ...rest] = Journals.batches
      yield* journal.append(runId, first)
      const caughtUp = yield* Deferred.make<void>()
      const follower = yield* journal.follow(runId).pipe(
        Stream.tap(({ position }) => (position === 2 ? Deferred.succeed(caughtUp, undefined) : Effect.void)),
        positions,
        Effect.fork
      )
      yield* Deferred.await(caughtUp)
      for (const batch of rest) yield* journal.append(runId, batch)
      const ids = ["event-1", "event-2", "event-4", "event-3", "event-5", "event-6", "event-7"]
      expect(yield* Fiber.join(follower)).toEqual(ids.map((id, index) => [index + 1, id]))
      expect(yield* positions(journal.follow(runId, { after: 6 }))).toEqual([[7, "event-7"]])
      expect(yield* positions(journal.follow(runId, { after: 7 }))).toEqual([])
    })
  )

  journaled("replays a run to the snapshot of its events, each counted once", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      for (const batch of Journals.batches) {
        yield* journal.append(runId, batch)
        yield* journal.append(runId, batch)
      }
      const arrived = [1, 2, 4, 3, 5, 6, 7].flatMap((seq) =>
        Journals.batches
          .flat()
          .filter(({ sourceSeq }) => sourceSeq === seq)
          .slice(0, 1)
      )
      const expected = arrived.reduce((state, event) => Replay.reduce(state, [event]), Replay.begin(run))
      const snapshot = Replay.snapshot(yield* journal.replay(runId))
      expect(snapshot).toEqual(Replay.snapshot(expected))
      expect([snapshot.outOfOrderEventIds, snapshot.timeline.length]).toEqual([["event-3"], 6])
    })
  )

  const journalBehind = (before: InterceptedStore.Before) =>
    Effect.provide(RunJournal.RunJournal, Layer.provide(RunJournal.layer, InterceptedStore.layerSql(before)))

  it.effect("keeps a batch whole or not at all, at whichever statement the database fails", () =>
    Effect.gen(function* () {
      const [first = [], second = []] = Journals.batches
      let left = Number.POSITIVE_INFINITY
      const failing = yield* journalBehind(() => Effect.sync(() => left-- === 0))
      const journal = yield* Effect.provide(opened, RunJournal.layer)
      yield* journal.append(runId, first)
      for (let n = 0; ; n++) {
        left = n
        const result = yield* Effect.either(failing.append(runId, second))
        const { position } = yield* journal.acknowledged(runId)
        if (Either.isRight(result)) {
          expect(position).toBe(3)
          expect(n).toBeGreaterThan(6)
          break
        }
        expect([result.left._tag, position]).toEqual(["STORE_UNAVAILABLE", 2])
      }
    }).pipe(Effect.provide(store))
  )

  it.effect("keeps a batch whole or not at all, at whichever statement it is interrupted", () =>
    Effect.gen(function* () {
      const [first = [], second = []] = Journals.batches
      let left = Number.POSITIVE_INFINITY
      let reached = yield* Deferred.make<void>()
      let goOn = yield* Deferred.make<void>()
      const waiting = yield* journalBehind(() =>
        Effect.suspend(() =>
          --left === 0 ? Effect.zipRight(Deferred.succeed(reached, undefined), Deferred.await(goOn)) : Effect.void
        ).pipe(Effect.as(false))
      )
      const journal = yield* Effect.provide(opened, RunJournal.layer)
      yield* journal.append(runId, first)
      for (let n = 1; ; n++) {
        left = n
        reached = yield* Deferred.make<void>()
        goOn = yield* Deferred.make<void>()
        const fiber = yield* Effect.fork(waiting.append(runId, second))
        yield* Effect.raceFirst(Deferred.await(reached), Fiber.await(fiber))
        const interruption = yield* Effect.fork(Fiber.interrupt(fiber))
        yield* Effect.yieldNow()
        yield* Deferred.succeed(goOn, undefined)
        yield* Fiber.join(interruption)
        const { position } = yield* journal.acknowledged(runId)
        if (position === 3) {
          expect(n).toBeGreaterThan(6)
          break
        }
        expect(position).toBe(2)
      }
    }).pipe(Effect.provide(store))
  )

  journaled("appends that come at once take turns", () =>
    Effect.gen(function* () {
      const journal = yield* opened
      const batches = Array.from({ length: 20 }, (_, index) => [
        event(2 * index + 1, "item.delta"),
        event(2 * index + 2, "item.delta")
      ])
      yield* Effect.forEach(batches, (batch) => journal.append(runId, batch), { concurrency: "unbounded" })
      const { position, sources } = yield* journal.acknowledged(runId)
      expect([position, [...sources.values()]]).toEqual([40, [40]])
    })
  )

  it.effect("shares its database with a registry", () =>
    Effect.gen(function* () {
      yield* opened
      yield* (yield* Registry.Registry).putContainer({ id: "team-skills" })
    }).pipe(Effect.provide(Layer.mergeAll(RunJournal.layer, Registry.layer).pipe(Layer.provide(store))))
  )
})

describe("a journal against a model", () => {
  const sent = fc.record({
    seq: fc.integer({ min: 1, max: 12 }),
    source: fc.constantFrom("a", "b"),
    version: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 1)
  })
  const steps = fc.array(
    fc.record({
      batch: fc.array(sent, { maxLength: 8 }),
      /** The statement at which the database fails; 0 for none. */
      failsAt: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 14 }))
    }),
    { maxLength: 8 }
  )

  const toEvent = (source: string, seq: number, version: number) =>
    event(seq, "item.delta", { version }, { sourceInstanceId: source, sourceEventId: `${source}-${seq}` })

  it(
    "keeps the first delivery of every event, whatever is sent, split, sent again, and lost with the database",
    () =>
      check(
        [steps],
        (steps) =>
          Effect.gen(function* () {
            const store = Stores.layerLibsqlAt(yield* Stores.emptyDirectory)
            let left = 0
            /** By a process of its own, as it were: everything is opened anew. */
            const inJournal = <A, E>(use: (journal: RunJournal.RunJournal["Type"]) => Effect.Effect<A, E>) =>
              Effect.flatMap(opened, use).pipe(
                Effect.provide(
                  RunJournal.layer.pipe(
                    Layer.provide(InterceptedStore.layerSql(() => Effect.sync(() => --left === 0))),
                    Layer.provide(store)
                  )
                )
              )
            const kept = new Map<string, RunEvent.RunEvent>()
            for (const { batch, failsAt } of steps) {
              const events = batch.map(({ seq, source, version }) => toEvent(source, seq, version))
              const next = new Map(kept)
              for (const one of events) if (!next.has(one.sourceEventId)) next.set(one.sourceEventId, one)
              const isChanged = events.some(
                (one) => JSON.stringify(next.get(one.sourceEventId)) !== JSON.stringify(one)
              )
              const acknowledged = yield* inJournal((journal) =>
                Effect.gen(function* () {
                  left = failsAt
                  const result = yield* Effect.either(journal.append(runId, events))
                  left = 0
                  if (isChanged) expect(Either.isLeft(result)).toBe(true)
                  else if (Either.isLeft(result)) expect(result.left._tag).toBe("STORE_UNAVAILABLE")
                  if (Either.isRight(result)) expect(result.right).toEqual(yield* journal.acknowledged(runId))
                  else expect((yield* journal.acknowledged(runId)).position).toBe(kept.size)
                  return isChanged ? undefined : yield* journal.append(runId, events)
                })
              )
              if (acknowledged === undefined) continue
              for (const [id, one] of next) kept.set(id, one)
              expect(acknowledged.position).toBe(kept.size)
              for (const source of ["a", "b"]) {
                let upTo = 0
                while (kept.has(`${source}-${upTo + 1}`)) upTo++
                expect(acknowledged.sources.get(`runner:${source}`) ?? 0).toBe(upTo)
              }
            }
            const expected = [...kept.values()].reduce((state, one) => Replay.reduce(state, [one]), Replay.begin(run))
            yield* inJournal((journal) =>
              Effect.gen(function* () {
                const ids = [...kept.keys()].map((id, index) => [index + 1, id])
                expect(yield* positions(journal.read(runId))).toEqual(ids)
                expect(Replay.snapshot(yield* journal.replay(runId))).toEqual(Replay.snapshot(expected))
              })
            )
          }).pipe(Effect.scoped, Effect.runPromise),
        { numRuns: 40 }
      ),
    120_000
  )
})

it.effect("spans say which run, how many events and up to where, and nothing of an event", () =>
  Effect.gen(function* () {
    const { spans } = yield* recorded(
      Effect.gen(function* () {
        const journal = yield* opened
        yield* journal.append(runId, [event(1, "item.delta", { text: "secret" })])
        yield* Effect.flip(journal.append(runId, [event(1, "item.delta", { text: "another secret" })]))
        yield* journal.replay(runId)
      })
    )
    const appends = spans.filter(({ name }) => name === "RunJournal.append").map(attributesOf)
    expect(appends).toEqual([
      { "run.id": runId, "run.events": 1, "run.position": 1 },
      { "run.id": runId, "run.events": 1 }
    ])
    expect(JSON.stringify(spans.map(attributesOf))).not.toContain("secret")
  }).pipe(Effect.provide(Layer.provide(RunJournal.layer, Stores.libsql)))
)

/** Somebody who writes a run and somebody who reads it, each over connections of their own. */
const pairs = {
  libSQL: Effect.map(Stores.emptyDirectory, (directory) => ({
    writer: Journals.layerAt(directory),
    reader: Journals.layerReaderAt(directory)
  })),
  PostgreSQL: Effect.map(Stores.emptyPostgres, (url) => {
    const journal = () => Layer.provide(RunJournal.layer, Database.layerPostgres({ url }))
    return { writer: journal(), reader: journal() }
  })
}

const built = <E, R>(layer: Layer.Layer<RunJournal.RunJournal, E, R>) =>
  Effect.map(Layer.build(layer), Context.get(RunJournal.RunJournal))

describe.each(Object.entries(pairs))("a follower of what another process writes on %s", (_, pair) => {
  it.scoped("looks again every 250 milliseconds, and ends with the run", () =>
    Effect.gen(function* () {
      const { reader, writer } = yield* pair
      const owned = yield* built(writer)
      yield* owned.open(run)
      const { acknowledged, follow } = yield* built(reader)
      const entries = yield* Queue.unbounded<number>()
      const follower = yield* follow(runId).pipe(
        Stream.runForEach(({ position }) => Queue.offer(entries, position)),
        Effect.fork
      )
      let kept = 0
      for (const batch of Journals.batches) {
        const { position } = yield* owned.append(runId, batch)
        const turning = yield* Effect.fork(
          Effect.forever(Effect.zipRight(TestClock.adjust("250 millis"), Effect.yieldNow()))
        )
        while (kept < position) expect(yield* Queue.take(entries)).toBe(++kept)
        yield* Fiber.interrupt(turning)
        expect(yield* acknowledged(runId)).toEqual(yield* owned.acknowledged(runId))
      }
      yield* Fiber.join(follower)
    })
  )
})

it.scoped("a reader of a libSQL journal can read everything and write nothing", () =>
  Effect.gen(function* () {
    const { reader, writer } = yield* pairs.libSQL
    const owned = yield* built(writer)
    yield* owned.open(run)
    yield* owned.append(runId, [event(1, "session.started")])
    const read = yield* built(reader)
    const refused = yield* Effect.all([
      Effect.flip(read.open(run)),
      Effect.flip(read.append(runId, [event(2, "turn.started")]))
    ])
    const readOnly = new Database.StoreUnavailable({ reason: "SQLITE_READONLY" })
    expect(refused).toEqual([readOnly, readOnly])
    expect(yield* positions(read.read(runId))).toEqual([[1, "event-1"]])
    expect(Replay.snapshot(yield* read.replay(runId))).toEqual(Replay.snapshot(yield* owned.replay(runId)))
    expect(yield* Stream.runCollect(read.runs)).toEqual(yield* Stream.runCollect(owned.runs))
    expect((yield* owned.append(runId, [event(2, "turn.started")])).position).toBe(2)
  })
)
