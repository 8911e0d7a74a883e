import { NodeContext } from "@effect/platform-node"
import { Layer } from "effect"
import type * as Replay from "../../src/runner/Replay.js"
import type { RunEvent } from "../../src/runner/RunEvent.js"
import * as RunJournal from "../../src/runner/RunJournal.js"
import * as Database from "../../src/store/Database.js"
import * as Documents from "./RunDocuments.js"

export const { runId } = Documents.identity

export const run: Replay.Run = {
  fixtureName: "A kept run",
  identity: Documents.identity,
  capabilities: Documents.capabilities
}

/** An event of the run; its tests say which are valid. */
export const event = (...args: Parameters<typeof Documents.event>): RunEvent =>
  Documents.event(...args) as unknown as RunEvent

/** A whole run, as it may be sent: two batches with an event again, a gap that is filled, the end. */
export const batches: ReadonlyArray<ReadonlyArray<RunEvent>> = [
  [event(1, "session.started"), event(2, "turn.started", {}, { turnId: "turn-1" })],
  [event(2, "turn.started", {}, { turnId: "turn-1" }), event(4, "item.delta", { text: "b" }, { itemId: "item-1" })],
  [event(3, "item.started", { text: "a" }, { itemId: "item-1" }), event(5, "turn.completed")],
  [event(6, "run.result.proposed", Documents.result), event(7, "run.terminal", Documents.terminal)]
]

/** Enough for the owner's log to be written back to the file several times while somebody reads. */
export const longRun: ReadonlyArray<RunEvent> = [
  ...Array.from({ length: 600 }, (_, index) => event(index + 1, "item.delta", { text: "x".repeat(20_000) })),
  event(601, "run.terminal", Documents.terminal)
]

const journal = (directory: string) => ({ directory, name: "journal" })

/** The journal of a directory, owned. */
export const layerAt = (directory: string) =>
  RunJournal.layer.pipe(Layer.provide(Database.layerLibsql(journal(directory))), Layer.provide(NodeContext.layer))

/** The journal of a directory, as somebody sees it who only reads. */
export const layerReaderAt = (directory: string) =>
  RunJournal.layerReader.pipe(
    Layer.provide(Database.layerLibsqlReader(journal(directory))),
    Layer.provide(NodeContext.layer)
  )
