import { Terminal } from "@effect/platform"
import { Effect } from "effect"

/** A terminal without a keyboard, whose texts go to `display`. */
export const displaying = (display: Terminal.Terminal["display"] = () => Effect.void): Terminal.Terminal =>
  Terminal.Terminal.of({
    columns: Effect.succeed(80),
    rows: Effect.succeed(24),
    isTTY: Effect.succeed(false),
    readInput: Effect.never,
    readLine: Effect.never,
    display
  })
