import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import * as scripts from "../../scripts/fixtures/runner/scripts.js"
import { HarnessScript } from "../../src/runner/index.js"
import * as Seed from "../support/Seed.js"

const script = (more: object = {}) => ({
  schema: "paperclip.fake_harness.script.v1",
  name: "timetable",
  steps: [{ kind: "exit", code: 0 }],
  ...more
})

const decode = (value: object) => HarnessScript.decode(JSON.stringify(value))

/** Where and why a script is refused. */
const refusal = (value: object) =>
  Effect.map(Effect.flip(decode(value)), ({ _tag, issues }) => ({ _tag, path: issues[0].path }))

/** A script's text, filled up with blanks to so many bytes. */
const ofSize = (bytes: number) => JSON.stringify(script()).padEnd(bytes, " ")

describe("a script", () => {
  it.effect("keeps the members that nobody knows, in it and in its steps", () =>
    Effect.gen(function* () {
      const value = script({ note: 1, steps: [{ kind: "await_interrupt", note: 2 }] })
      expect(yield* decode(value)).toEqual(value)
    })
  )

  it.effect("may leave out an event's ids and payload, or say that there are none", () =>
    Effect.gen(function* () {
      const steps = [
        { kind: "event", event_type: "item.started" },
        { kind: "event", event_type: "item.started", turn_id: null, item_id: null, payload: null }
      ]
      expect((yield* decode(script({ steps }))).steps).toEqual(steps)
    })
  )

  it.effect.each(Array.from(scripts.texts))("of this package loads, and is named as its file: %s", ([path, text]) =>
    Effect.gen(function* () {
      const { name } = yield* HarnessScript.decode(new TextEncoder().encode(text))
      expect(path).toBe(`fixtures/local-runner/scripts/${name}.json`)
    })
  )

  it.effect.each([
    ["a step of a kind that is not known", { steps: [{ kind: "exit", code: 0 }, { kind: "sleep" }] }, "/steps/1/kind"],
    ["a step that is no object", { steps: ["exit"] }, "/steps/0"],
    ["a step without a kind", { steps: [{}] }, "/steps/0"],
    ["a delay without its length", { steps: [{ kind: "delay" }] }, "/steps/0"],
    ["a delay that goes back in time", { steps: [{ kind: "delay", milliseconds: -1 }] }, "/steps/0/milliseconds"],
    ["a request that is not there", { steps: [{ kind: "request" }] }, "/steps/0"],
    ["a result that is not there", { steps: [{ kind: "result" }] }, "/steps/0"],
    ["a terminal that is not there", { steps: [{ kind: "terminal" }] }, "/steps/0"],
    ["an exit code that is no whole number", { steps: [{ kind: "exit", code: 0.5 }] }, "/steps/0/code"],
    ["members in camelCase", { steps: [{ kind: "event", eventType: "turn.failed" }] }, "/steps/0"],
    ["no steps", { steps: [] }, "/steps"],
    ["another schema", { schema: "paperclip.fake_harness.script.v2" }, "/schema"],
    ["a blank name", { name: " \n" }, "/name"]
  ] as const)("with %s does not load", ([, more, path]) =>
    Effect.gen(function* () {
      expect(yield* refusal(script(more))).toEqual({ _tag: "schema_validation", path })
    })
  )

  it.effect("that is no JSON, or no UTF-8, does not load", () =>
    Effect.gen(function* () {
      expect((yield* Effect.flip(HarnessScript.decode("{")))._tag).toBe("invalid_json")
      expect((yield* Effect.flip(HarnessScript.decode(Uint8Array.of(0x22, 0xff, 0x22))))._tag).toBe("invalid_json")
    })
  )
})

describe("the bounds of a script", () => {
  it.effect("its file has at most 1 MiB", () =>
    Effect.gen(function* () {
      const bytes = new TextEncoder().encode(ofSize(1024 * 1024 + 1))
      yield* HarnessScript.decode(bytes.subarray(0, -1))
      yield* HarnessScript.decode(ofSize(1024 * 1024))
      const over = yield* Effect.flip(HarnessScript.decode(bytes))
      expect(over).toMatchObject({ _tag: "schema_validation", issues: [{ path: "/" }] })
      expect(yield* Effect.flip(HarnessScript.decode(ofSize(1024 * 1024 + 1)))).toEqual(over)
    })
  )

  it.effect("its name has at most 160 bytes, however few characters they are", () =>
    Effect.gen(function* () {
      yield* decode(script({ name: "ä".repeat(80) }))
      expect(yield* refusal(script({ name: `${"ä".repeat(80)}a` }))).toMatchObject({ path: "/name" })
    })
  )

  it.effect("it has at most 4096 steps", () =>
    Effect.gen(function* () {
      const steps = Array.from({ length: 4097 }, () => ({ kind: "await_interrupt" }))
      yield* decode(script({ steps: steps.slice(1) }))
      expect(yield* refusal(script({ steps }))).toMatchObject({ path: "/steps" })
    })
  )

  it("whatever the file holds, it loads or is refused, and nothing of it is in the message", () =>
    Seed.check(
      [
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((text) => JSON.stringify(script({ steps: [JSON.parse(text)] })))
        )
      ],
      (text) => {
        const secret = "Rosebud"
        const document = text.replaceAll(/"[^"]{3,}"(?=[,}\]])/g, JSON.stringify(secret))
        const result = Effect.runSync(Effect.either(HarnessScript.decode(document)))
        if (result._tag === "Left") expect(result.left.message).not.toContain(secret)
      }
    ))
})
