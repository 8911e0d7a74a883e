/**
 * Writing to a registry: one change after the other, each whole or not at all.
 *
 * @module
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import { Cause, Effect, Exit, FiberRef, Option } from "effect"
import { AuthenticationFailed } from "../delivery/DeliveryError.js"
import * as Database from "../store/Database.js"
import { StoreUnavailable } from "../store/StoreError.js"
import { actingKey } from "./ActingKey.js"
import type { LiveView } from "./LiveView.js"

export interface Changes {
  /**
   * Runs `body` as one transaction with its change number, and makes the live view see it. `body` may run more than once. Fails
   * when the key for which the fiber writes is revoked.
   */
  readonly commit: <A, E, R>(
    body: (change: number) => Effect.Effect<A, E, R>
  ) => Effect.Effect<
    A,
    Exclude<E, SqlError> | AuthenticationFailed | StoreUnavailable,
    Exclude<Exclude<R, SqlClient.TransactionConnection>, SqlClient.SqlClient>
  >
}

export const make = Effect.fnUntraced(function* (liveView: LiveView) {
  const sql = yield* SqlClient.SqlClient
  // Those that wait for the database's own turn would wait with its connections, and leave none to the live view.
  const turn = yield* Effect.makeSemaphore(1)

  /** Numbers rise in the order of the commits, since transactions take turns. */
  const next = Effect.map(
    sql<{ change: Database.Integer }>`UPDATE registry_state SET change = change + 1 WHERE id = 1 RETURNING change`,
    ([state]) => Number(state?.change)
  )

  /** In the transaction, since a revocation comes before a write or after it. */
  const checkKey = Effect.flatMap(FiberRef.get(actingKey), (keyId) => {
    if (Option.isNone(keyId)) return Effect.void
    const rows = sql`SELECT id FROM api_keys WHERE id = ${keyId.value} AND revoked_at IS NULL`
    return Effect.filterOrFail(
      rows,
      ({ length }) => length > 0,
      () => new AuthenticationFailed({})
    )
  })

  const commit: Changes["commit"] = (body) =>
    next.pipe(
      Effect.zipLeft(checkKey),
      Effect.flatMap(body),
      Database.transaction,
      turn.withPermits(1),
      Effect.onExit((exit) => (isRefusal(exit) ? Effect.void : liveView.invalidate)),
      Effect.provideService(SqlClient.SqlClient, sql)
    )

  return { commit } satisfies Changes
})

/** Whether a write has left nothing for certain. Of a commit whose answer was lost nobody knows. */
const isRefusal = <A, E>(exit: Exit.Exit<A, E>) =>
  Exit.isFailure(exit) && Cause.isFailType(exit.cause) && !(exit.cause.error instanceof StoreUnavailable)
