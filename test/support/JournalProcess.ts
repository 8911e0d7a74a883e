/**
 * Another process on the journal of a directory: what it does, and the number of the database call during which it kills itself.
 *
 * `append` keeps the events of `Journals.batches` and says after each batch up to where they are acknowledged. `stream` keeps
 * `Journals.longRun`, one event at a time, and says so after the first one; it fails at the first thing that goes wrong.
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { Console, Effect, Layer } from "effect"
import * as RunJournal from "../../src/runner/RunJournal.js"
import * as Database from "../../src/store/Database.js"
import * as Journals from "./Journals.js"
import { killAt } from "./KillAt.js"

const [directory = "", action = "", at = "0"] = process.argv.slice(2)

/** Nothing is counted before the action itself: what it needs to start is not of it. */
let counted = killAt(0)

const count = <A, E, R>(call: Effect.Effect<A, E, R>) => Effect.suspend(() => counted(call))

const intercepted = (connection: Connection): Connection => ({
  execute: (...args) => count(connection.execute(...args)),
  executeRaw: (...args) => count(connection.executeRaw(...args)),
  executeUnprepared: (...args) => count(connection.executeUnprepared(...args)),
  executeValues: (...args) => count(connection.executeValues(...args)),
  executeStream: (...args) => connection.executeStream(...args)
})

const database = Layer.effect(
  SqlClient.SqlClient,
  Effect.map(SqlClient.SqlClient, (sql) => Object.assign(sql, { reserve: Effect.map(sql.reserve, intercepted) }))
).pipe(
  Layer.provide(Database.layerLibsql({ directory, name: "journal" })),
  Layer.provide(Layer.merge(NodeFileSystem.layer, NodePath.layer))
)

const actions: Record<string, Effect.Effect<unknown, unknown, RunJournal.RunJournal>> = {
  append: Effect.gen(function* () {
    const journal = yield* RunJournal.RunJournal
    counted = killAt(Number(at))
    yield* journal.open(Journals.run)
    for (const batch of Journals.batches) {
      const { position } = yield* journal.append(Journals.runId, batch)
      yield* Console.log(String(position))
    }
  }),
  stream: Effect.gen(function* () {
    const journal = yield* RunJournal.RunJournal
    yield* journal.open(Journals.run)
    for (const event of Journals.longRun) {
      const { position } = yield* journal.append(Journals.runId, [event])
      if (position === 1) yield* Console.log("started")
    }
  })
}

Effect.runPromise(
  (actions[action] ?? Effect.dieMessage(action)).pipe(Effect.provide(Layer.provide(RunJournal.layer, database)))
).then(
  () => process.exit(0),
  (error) => {
    console.error(String(error))
    process.exit(1)
  }
)
