/**
 * How much a server keeps in memory for requests that may take their time, however many there are.
 *
 * @module
 */
import { Effect, Schema, type Scope } from "effect"

/** The server holds as much as it may for others. It has room again soon. */
export class ServerBusy extends Schema.TaggedError<ServerBusy>()("SERVER_BUSY", {}) {
  override get message(): string {
    return "The registry has too much to do. Ask again."
  }
}

export interface ByteBudget {
  /** Takes bytes out of the budget until the scope closes. Nobody waits for them, since who has them may wait for more. */
  readonly reserve: (bytes: number) => Effect.Effect<void, ServerBusy, Scope.Scope>
}

/** A budget of so many bytes at once. */
export const make = (maximumBytes: number): ByteBudget => {
  let reserved = 0
  return {
    reserve: (bytes) =>
      Effect.acquireRelease(
        Effect.suspend(() => {
          if (reserved + bytes > maximumBytes) return new ServerBusy()
          reserved += bytes
          return Effect.void
        }),
        () =>
          Effect.sync(() => {
            reserved -= bytes
          })
      )
  }
}
