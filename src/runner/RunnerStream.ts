/**
 * What a runner says to its controller: the lines of its standard output.
 *
 * @module
 */
import type { RunEvent } from "./RunEvent.js"

/** What became of a command. It follows the events that the command itself made. */
export interface CommandReceipt {
  readonly commandId: string
  readonly controllerSeq: number
  /** `duplicate`: the same command, known already, which has no effect. */
  readonly status: "accepted" | "duplicate" | "rejected"
  /** Why it was rejected. */
  readonly detail: string | null
}

export type RunnerMessage =
  | { readonly kind: "event"; readonly event: RunEvent }
  | ({ readonly kind: "command_receipt" } & CommandReceipt)
  /** Something that belongs to no command and is no event of the run. */
  | { readonly kind: "diagnostic"; readonly level: "warning" | "error"; readonly message: string }

/** One line, with its end. */
export const encode = (message: RunnerMessage): string =>
  `${JSON.stringify({ schema: "paperclip.runner.stream.v1", message })}\n`
