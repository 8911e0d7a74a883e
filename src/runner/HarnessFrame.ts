/**
 * What a local runner and its harness say to each other: JSON lines, commands to the harness and messages from it.
 *
 * What a message carries (an event's payload, a request, a result, a terminal) is any JSON here: a harness may be wrong about
 * it, and the runner judges that, not the frame (facts 6).
 *
 * @module
 */
import { Effect, Option, Schema } from "effect"
import * as Constraint from "./Constraint.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import type { InvalidJson, SchemaValidation } from "./ProtocolError.js"

const CommandFields = Constraint.open({
  schema: Schema.Literal("paperclip.fake_harness.command.v1"),
  commandId: Schema.String,
  type: Schema.String,
  payload: Constraint.optional(Schema.Unknown)
})

/** What the runner forwards: id, type and payload are those of the run's command. A payload left out is `null`. */
export type HarnessCommand = typeof CommandFields.Type
export const HarnessCommand = Constraint.verbatim<HarnessCommand>(CommandFields, "HarnessCommand")

const message = <Type extends string, Payload extends Schema.Schema.AnyNoContext>(type: Type, payload: Payload) =>
  Constraint.open({
    type: Schema.Literal(type),
    schema: Schema.Literal("paperclip.fake_harness.message.v1"),
    messageSeq: Constraint.integer({ min: 0 }),
    payload
  })

const idOrNull = Constraint.optional(Schema.NullOr(Schema.String))

const Messages = Schema.Union(
  message("ready", Constraint.open({ version: Schema.String, script: Schema.String })),
  message(
    "event",
    Constraint.open({ eventType: Schema.String, turnId: idOrNull, itemId: idOrNull, payload: Constraint.json })
  ),
  message("request", Constraint.open({ request: Constraint.json })),
  message("result", Constraint.open({ result: Constraint.json })),
  message("terminal", Constraint.open({ terminal: Constraint.json })),
  message("log", Constraint.open({ stream: Schema.String, text: Schema.String })),
  message("diagnostic", Constraint.JsonObject)
)

/** What a harness says, told apart by `type`. `messageSeq` counts from 1; nobody has to check it. */
export type HarnessMessage = typeof Messages.Type
export const HarnessMessage = Constraint.verbatim<HarnessMessage>(Messages, "HarnessMessage")

/** A message without its number and discriminator. */
export type HarnessMessageBody = {
  readonly [Type in HarnessMessage["type"]]: {
    readonly type: Type
    readonly payload: Extract<HarnessMessage, { readonly type: Type }>["payload"]
  }
}[HarnessMessage["type"]]

/** The line that carries a frame, its LF included. */
const toLine = (frame: HarnessCommand | HarnessMessage): string => `${JSON.stringify(frame)}\n`

/**
 * A command as a line with its LF.
 *
 * @example
 * ```ts
 * import { Option } from "effect"
 * import { HarnessFrame } from "effect-agent-contracts/runner"
 *
 * const line = HarnessFrame.encodeCommand({ commandId: "command-1", type: "session.open", payload: {} })
 * console.log(Option.map(HarnessFrame.decodeCommand(line), ({ type }) => type)) // { _id: 'Option', _tag: 'Some', value: 'session.open' }
 * ```
 */
export const encodeCommand = ({ commandId, payload, type }: Omit<HarnessCommand, "schema">): string =>
  toLine({ schema: "paperclip.fake_harness.command.v1", commandId, type, payload: payload ?? null })

const isCommand = Schema.is(HarnessCommand)

/** The command on a line, with or without its LF; none on a line that is blank, no JSON or anything else: a harness skips those. */
export const decodeCommand = (line: string): Option.Option<HarnessCommand> =>
  ProtocolDocument.parse(line).pipe(Effect.option, Effect.runSync, Option.filter(isCommand))

/** A message, with its number, as a line with its LF. */
export const encodeMessage = (messageSeq: number, body: HarnessMessageBody): string =>
  toLine({ schema: "paperclip.fake_harness.message.v1", messageSeq, ...body })

const decodeMessageValue = ProtocolDocument.decode(HarnessMessage)

/** The message on a line. A harness that writes anything else breaks the protocol, so this fails. */
export const decodeMessage = (line: string): Effect.Effect<HarnessMessage, InvalidJson | SchemaValidation> =>
  Effect.flatMap(ProtocolDocument.parse(line), decodeMessageValue)
