/**
 * Which commands a run has taken: what makes a repeated one harmless, and one that is out of turn known.
 *
 * @module
 */
import * as CanonicalJson from "./CanonicalJson.js"
import type { RunCommand } from "./RunCommand.js"

/** Only a command that is new is to be carried out. */
export type Verdict =
  | { readonly status: "new" }
  | { readonly status: "duplicate" }
  | { readonly status: "rejected"; readonly detail: string }

export interface CommandLedger {
  /**
   * Judges a command and, if it is new, takes its id and its number, whatever becomes of it. A known id with the same content
   * is a duplicate, with another it is rejected; a number that is not the next one is rejected and stays free (facts 6).
   */
  readonly judge: (command: RunCommand) => Verdict
}

export const make = (): CommandLedger => {
  const known = new Map<string, string>()
  return {
    judge: (command) => {
      const content = CanonicalJson.stringify(command)
      const before = known.get(command.commandId)
      if (before !== undefined) {
        return before === content
          ? { status: "duplicate" }
          : { status: "rejected", detail: "another command has this id" }
      }
      const next = known.size + 1
      if (command.controllerSeq !== next) return { status: "rejected", detail: `the next controllerSeq is ${next}` }
      known.set(command.commandId, content)
      return { status: "new" }
    }
  }
}
