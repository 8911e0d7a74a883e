/**
 * What a fake harness does: a file of steps, one after the other.
 *
 * The members are in snake_case, unlike the protocol's own (facts 6). Payloads, requests and results are any JSON: a script
 * may well be one that gets them wrong, to see what a runner makes of it.
 *
 * @module
 */
import { Effect, Schema } from "effect"
import * as Constraint from "./Constraint.js"
import * as ProtocolDocument from "./ProtocolDocument.js"
import { type InvalidJson, SchemaValidation } from "./ProtocolError.js"

/** How large the file of a script may be, in bytes. */
export const maximumBytes = 1024 * 1024

/** How long its name may be, in bytes of UTF-8. */
export const maximumNameBytes = 160

/** How many steps it may have. */
export const maximumSteps = 4096

const byteLength = (text: string) => new TextEncoder().encode(text).length

const idOrNull = Constraint.optional(Schema.NullOr(Schema.String))

const Steps = Schema.Union(
  Constraint.open({ kind: Schema.Literal("delay"), milliseconds: Constraint.integer({ min: 0 }) }),
  Constraint.open({ kind: Schema.Literal("log"), stream: Schema.String, text: Schema.String }),
  Constraint.open({
    kind: Schema.Literal("event"),
    event_type: Schema.String,
    turn_id: idOrNull,
    item_id: idOrNull,
    payload: Constraint.optional(Schema.Unknown)
  }),
  Constraint.open({ kind: Schema.Literal("request"), request: Constraint.json }),
  Constraint.open({ kind: Schema.Literal("await_resolution"), request_id: Schema.String }),
  Constraint.open({ kind: Schema.Literal("await_interrupt") }),
  Constraint.open({ kind: Schema.Literal("result"), payload: Constraint.json }),
  Constraint.open({ kind: Schema.Literal("terminal"), payload: Constraint.json }),
  Constraint.open({ kind: Schema.Literal("spawn_worker") }),
  Constraint.open({ kind: Schema.Literal("exit"), code: Constraint.integer() })
)

/** A step, told apart by `kind`. Of a kind that is not known the whole script is refused. */
export type HarnessStep = typeof Steps.Type
export const HarnessStep = Constraint.verbatim<HarnessStep>(Steps, "HarnessStep")

const name = Schema.String.pipe(
  Schema.filter((value) => value.trim() !== "" && byteLength(value) <= maximumNameBytes, {
    description: `a name of at most ${maximumNameBytes} bytes that is not blank`
  })
)

const Fields = Constraint.open({
  schema: Schema.Literal("paperclip.fake_harness.script.v1"),
  name,
  steps: Constraint.items(HarnessStep, { min: 1, max: maximumSteps })
})

/** A script. `exit` ends it, wherever it stands. */
export type HarnessScript = typeof Fields.Type
export const HarnessScript = Constraint.verbatim<HarnessScript>(Fields, "HarnessScript")

const decodeValue = ProtocolDocument.decode(HarnessScript)

/**
 * The script in a file's text or bytes. Refuses what is no JSON, what is over a bound, and steps that it does not know;
 * members that it does not know are let be.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { HarnessScript } from "effect-agent-contracts/runner"
 *
 * const text = '{"schema":"paperclip.fake_harness.script.v1","name":"nap","steps":[{"kind":"sleep"}]}'
 * const program = Effect.flip(HarnessScript.decode(text))
 *
 * Effect.runPromise(program).then(({ issues }) => console.log(issues[0].path)) // /steps/0/kind
 * ```
 */
export const decode = (document: string | Uint8Array): Effect.Effect<HarnessScript, InvalidJson | SchemaValidation> =>
  (typeof document === "string" ? byteLength(document) : document.length) > maximumBytes
    ? Effect.fail(
        new SchemaValidation({ issues: [{ path: "/", message: `the file must have at most ${maximumBytes} bytes` }] })
      )
    : Effect.flatMap(ProtocolDocument.parse(document), decodeValue)
