/**
 * What a controller asks of a runner.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

/** The commands of version 1. A runner need not support them all; one that it does not is rejected by a receipt. */
export const CommandType = Schema.Literal(
  "run.prepare",
  "run.attach",
  "session.open",
  "turn.start",
  "turn.steer",
  "turn.interrupt",
  "turn.stop",
  "request.resolve",
  "interaction.receipt",
  "semantic_tool.result",
  "session.snapshot",
  "session.close",
  "session.budget.increase",
  "session.destroy",
  "run.cancel",
  "runner.drain",
  "runner.suspend",
  "runner.shutdown"
)
export type CommandType = typeof CommandType.Type

const strings = Constraint.optional(Schema.Array(Schema.String))

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.prp.command.v1"),
  commandId: Constraint.text({ min: 1, max: 160 }),
  controllerSeq: Constraint.integer({ min: 1 }),
  type: CommandType,
  issuedAt: Constraint.dateTime,
  deadlineAt: Constraint.optional(Constraint.dateTime),
  precondition: Constraint.optional(
    Constraint.open({
      runnerState: strings,
      runState: strings,
      sessionState: strings,
      activeTurnId: Constraint.optional(Schema.NullOr(Schema.String))
    })
  ),
  payload: Constraint.JsonObject
})

/** A command: its id makes it idempotent, `controllerSeq` (1, 2, 3, ...) puts it in order. */
export type RunCommand = typeof Fields.Type
export const RunCommand = Constraint.verbatim<RunCommand>(Fields, "RunCommand")
