import { describe, expect, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import * as fc from "fast-check"
import { HarnessFrame } from "../../src/runner/index.js"
import * as Seed from "../support/Seed.js"

const message = (type: string, payload: unknown, more: object = {}) =>
  JSON.stringify({ schema: "paperclip.fake_harness.message.v1", messageSeq: 1, type, payload, ...more })

const refusal = (line: string) =>
  Effect.map(Effect.flip(HarnessFrame.decodeMessage(line)), ({ _tag, issues }) => ({ _tag, path: issues[0].path }))

const json = fc.jsonValue()

describe("a message from a harness", () => {
  const text = fc.string()
  const bodies: fc.Arbitrary<HarnessFrame.HarnessMessageBody> = fc.oneof(
    fc.record({ type: fc.constant("ready" as const), payload: fc.record({ version: text, script: text }) }),
    fc.record({
      type: fc.constant("event" as const),
      payload: fc.record({
        eventType: text,
        turnId: fc.option(text),
        itemId: fc.option(text),
        payload: json
      })
    }),
    fc.record({ type: fc.constant("request" as const), payload: fc.record({ request: json }) }),
    fc.record({ type: fc.constant("result" as const), payload: fc.record({ result: json }) }),
    fc.record({ type: fc.constant("terminal" as const), payload: fc.record({ terminal: json }) }),
    fc.record({ type: fc.constant("log" as const), payload: fc.record({ stream: text, text }) }),
    fc.record({ type: fc.constant("diagnostic" as const), payload: fc.dictionary(fc.string(), json) })
  )

  it("is one line, and comes back from it", () =>
    Seed.check([fc.nat(), bodies], (messageSeq, body) => {
      const line = HarnessFrame.encodeMessage(messageSeq, body)
      expect(line.indexOf("\n")).toBe(line.length - 1)
      expect(JSON.stringify(Effect.runSync(HarnessFrame.decodeMessage(line)))).toBe(line.trimEnd())
    }))

  it.effect("may bring members that nobody knows, a number that is out of order, and what is wrong about the run", () =>
    Effect.gen(function* () {
      const line = message("result", { result: { summary: 1 }, note: 1 }, { messageSeq: 0, note: 2 })
      expect(JSON.stringify(yield* HarnessFrame.decodeMessage(line))).toBe(line)
    })
  )

  it.effect.each([
    ["no JSON", "{", { _tag: "invalid_json", path: "/" }],
    ["blank", "", { _tag: "invalid_json", path: "/" }],
    ["of an unknown type", message("progress", {}), { _tag: "schema_validation", path: "/type" }],
    ["of another schema", message("log", {}, { schema: "other" }), { _tag: "schema_validation", path: "/schema" }],
    ["without what it is about", message("request", {}), { _tag: "schema_validation", path: "/payload" }],
    [
      "without a number",
      message("request", { request: {} }, { messageSeq: "1" }),
      { _tag: "schema_validation", path: "/messageSeq" }
    ]
  ] as const)("that is %s is refused", ([, line, expected]) =>
    Effect.gen(function* () {
      expect(yield* refusal(line)).toEqual(expected)
    })
  )
})

describe("a command to a harness", () => {
  it("is one line, and comes back from it with its id, type and payload", () =>
    Seed.check([fc.string(), fc.string(), json], (commandId, type, payload) => {
      const line = HarnessFrame.encodeCommand({ commandId, type, payload })
      expect(line.indexOf("\n")).toBe(line.length - 1)
      expect(Option.getOrThrow(HarnessFrame.decodeCommand(line))).toMatchObject({ commandId, type })
      expect(JSON.stringify(Option.getOrThrow(HarnessFrame.decodeCommand(line)).payload)).toBe(JSON.stringify(payload))
    }))

  it("without a payload has the payload null", () => {
    expect(JSON.parse(HarnessFrame.encodeCommand({ commandId: "c", type: "session.close" })).payload).toBeNull()
  })

  it.each([
    ["a blank line", ""],
    ["a line of blanks", "   "],
    ["no JSON", "{"],
    ["no object", "null"],
    ["another schema", '{"schema":"paperclip.prp.command.v1","commandId":"c","type":"turn.start"}'],
    ["an id that is no text", '{"schema":"paperclip.fake_harness.command.v1","commandId":7,"type":"turn.start"}'],
    ["arrays in arrays in arrays", `${"[".repeat(30_000)}${"]".repeat(30_000)}`]
  ])("there is none on %s", (_, line) => {
    expect(HarnessFrame.decodeCommand(line)).toEqual(Option.none())
  })
})
