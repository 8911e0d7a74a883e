import { text } from "node:stream/consumers"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import { Replay, RunJournal } from "../../src/runner/index.js"
import * as Journals from "../support/Journals.js"
import * as Processes from "../support/Processes.js"
import * as Stores from "../support/Stores.js"

const { batches, run, runId } = Journals

const program = Processes.bundled("JournalProcess", "external")

const owned = <A, E>(directory: string, use: (journal: RunJournal.RunJournal["Type"]) => Effect.Effect<A, E>) =>
  Effect.provide(Effect.flatMap(RunJournal.RunJournal, use), Journals.layerAt(directory))

const read = <A, E>(directory: string, use: (journal: RunJournal.RunJournal["Type"]) => Effect.Effect<A, E>) =>
  Effect.provide(Effect.flatMap(RunJournal.RunJournal, use), Journals.layerReaderAt(directory))

/** Sends a run from its last acknowledged event on, as its runner would after a crash, and gives what it comes to. */
const resume = (journal: RunJournal.RunJournal["Type"]) =>
  Effect.gen(function* () {
    yield* journal.open(run)
    const { sources } = yield* journal.acknowledged(runId)
    const from = sources.get("runner:runner-1") ?? 0
    for (const batch of batches) {
      yield* journal.append(
        runId,
        batch.filter(({ sourceSeq }) => sourceSeq > from)
      )
    }
    return Replay.snapshot(yield* journal.replay(runId))
  })

describe("a process that keeps a run", () => {
  it.scopedLive(
    "loses no acknowledged event and doubles none, at whichever statement it is killed",
    () =>
      Effect.gen(function* () {
        const path = yield* program
        const expected = yield* Effect.flatMap(Stores.emptyDirectory, (directory) => owned(directory, resume))
        const kept = new Set<number>()
        for (let killAt = 1; ; killAt++) {
          const directory = yield* Stores.emptyDirectory
          const child = yield* Processes.start(path, directory, "append", killAt)
          const said = yield* Effect.promise(() => text(child.stdout))
          const ending = yield* Processes.ending(child)
          const acknowledged = Number(said.trim().split("\n").at(-1))
          // While nobody owns it.
          const { position } = yield* read(directory, (journal) => journal.acknowledged(runId)).pipe(
            Effect.catchTag("run_not_found", () => Effect.succeed({ position: 0 }))
          )
          expect([0, 2, 3, 5, 7]).toContain(position)
          expect(position).toBeGreaterThanOrEqual(acknowledged)
          kept.add(position)
          expect(yield* owned(directory, resume)).toEqual(expected)
          if (ending === 0) break
          expect(ending).toBe("SIGKILL")
        }
        expect([...kept].toSorted()).toEqual([0, 2, 3, 5, 7])
      }),
    300_000
  )

  it.scopedLive(
    "is not disturbed by those who follow the run, and they miss nothing",
    () =>
      Effect.gen(function* () {
        const directory = yield* Stores.emptyDirectory
        const child = yield* Processes.start(yield* program, directory, "stream")
        yield* Processes.said(child, "started")
        const follow = read(directory, (journal) => Stream.runCollect(journal.follow(runId)))
        const replay = read(directory, (journal) => journal.replay(runId))
        const followers = Effect.replicateEffect(follow, 2, { concurrency: 2 })
        for (const entries of yield* Effect.raceFirst(followers, Effect.forever(replay))) {
          expect(Chunk.toReadonlyArray(entries).map(({ event }) => event.sourceSeq)).toEqual(
            Journals.longRun.map(({ sourceSeq }) => sourceSeq)
          )
        }
        expect(yield* Processes.ending(child)).toBe(0)
      }),
    300_000
  )
})
