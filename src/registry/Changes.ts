/**
 * Writing to a registry: one change after the other, each whole or not at all.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import { Effect } from "effect"
import * as Database from "../store/Database.js"
import type { StoreUnavailable } from "../store/StoreError.js"
import type { LiveView } from "./LiveView.js"

export interface Changes {
  /** Runs `body` as one transaction with its change number, and makes the live view see it. `body` may run more than once. */
  readonly commit: <A, E, R>(
    body: (change: number) => Effect.Effect<A, E, R>
  ) => Effect.Effect<
    A,
    Exclude<E, SqlError> | StoreUnavailable,
    Exclude<Exclude<R, SqlClient.TransactionConnection>, SqlClient.SqlClient>
  >
}

export const make = Effect.fnUntraced(function* (liveView: LiveView) {
  const sql = yield* SqlClient.SqlClient
  // Those that wait for the database's own turn would wait with its connections, and leave none to the live view.
  const turn = yield* Effect.makeSemaphore(1)

  /** Numbers rise in the order of the commits, since transactions take turns. */
  const next = Effect.map(
    sql<{ change: number | string }>`UPDATE registry_state SET change = change + 1 WHERE id = 1 RETURNING change`,
    ([state]) => Number(state?.change)
  )

  const commit: Changes["commit"] = (body) =>
    Effect.flatMap(next, body).pipe(
      Database.transaction,
      turn.withPermits(1),
      // Whatever came of it: of a commit whose answer was lost nobody knows.
      Effect.ensuring(liveView.invalidate),
      Effect.provideService(SqlClient.SqlClient, sql)
    )

  return { commit } satisfies Changes
})
