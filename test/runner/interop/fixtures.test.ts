import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { CrossLanguageRun, ProtocolDocument, ReplayFixture, RunEvent } from "../../../src/runner/index.js"
import * as PublicProtocol from "../../support/PublicProtocol.js"

interface Document {
  readonly [member: string]: unknown
}

/** A public document, to be changed. */
const document = (path: string): Document => JSON.parse(PublicProtocol.read(path))
const codes = (value: unknown) =>
  Effect.match(ReplayFixture.decode(value), {
    onFailure: ({ _tag, issues }) => [_tag, issues.map(({ path }) => path)],
    onSuccess: () => ["accepted", []]
  })

const edited = (value: Document, path: ReadonlyArray<string | number>, change: (old: unknown) => unknown): Document => {
  const copy = structuredClone(value)
  const last = path.at(-1) ?? ""
  const parent = path.slice(0, -1).reduce<unknown>((at, step) => Reflect.get(Object(at), step), copy)
  Reflect.set(Object(parent), last, change(Reflect.get(Object(parent), last)))
  return copy
}

describe.skipIf(!PublicProtocol.present)(`the public fixtures${PublicProtocol.note}`, () => {
  it.effect("each is accepted or rejected as the public manifest expects", () =>
    Effect.gen(function* () {
      const replayed = PublicProtocol.fixtures().filter(({ path }) => /^fixtures\/replay\/[^/]+$/.test(path))
      const verdicts = yield* Effect.forEach(replayed, ({ path }) =>
        Effect.map(Effect.isSuccess(ReplayFixture.parse(PublicProtocol.read(path))), (accepted) => ({
          path,
          expectation: accepted ? "accept" : "reject"
        }))
      )
      expect(verdicts).toEqual(replayed.map(({ expectation, path }) => ({ path, expectation })))
      expect(verdicts.map(({ expectation }) => expectation)).toEqual(expect.arrayContaining(["accept", "reject"]))
    })
  )

  it.effect("a later protocol version gives one issue, at /protocolVersion", () =>
    Effect.gen(function* () {
      const rejected = document("fixtures/replay/unsupported-required-version.json")
      expect(yield* codes(rejected)).toEqual(["unsupported_required_version", ["/protocolVersion"]])
    })
  )

  it.effect("the contract's known changes give its known codes and places", () =>
    Effect.gen(function* () {
      const happy = document("fixtures/replay/happy-path.json")
      const events = happy["events"] as ReadonlyArray<Document>
      expect(yield* codes(edited(happy, ["events", 0, "schemaVersion"], () => 2))).toEqual([
        "unsupported_required_version",
        ["/events/0/schemaVersion"]
      ])
      expect(yield* codes(edited(happy, ["result", "summary"], () => "Another."))).toEqual([
        "binding_mismatch",
        ["/result"]
      ])
      const withoutTerminal = events.filter(({ eventType }) => eventType !== "run.terminal")
      expect(yield* codes({ ...happy, events: withoutTerminal })).toEqual(["binding_mismatch", ["/events"]])
      const again = { ...events[2], payload: { other: true } }
      expect(yield* codes({ ...happy, events: [...events.slice(0, 3), again, ...events.slice(3)] })).toEqual([
        "binding_mismatch",
        ["/events/3/sourceEventId"]
      ])
    })
  )

  it.effect("every event of every accepted fixture is an event by itself", () =>
    Effect.gen(function* () {
      for (const { expectation, path } of PublicProtocol.fixtures()) {
        if (expectation === "reject" || !/^fixtures\/replay\/[^/]+$/.test(path)) continue
        const { events } = yield* ReplayFixture.parse(PublicProtocol.read(path))
        for (const event of events) expect(yield* RunEvent.decode(event)).toBe(event)
      }
    })
  )

  it.effect("the cross-language run gives the expected line, byte for byte", () =>
    Effect.gen(function* () {
      const input = yield* ProtocolDocument.parse(PublicProtocol.read("fixtures/conformance-minimal-run.json")).pipe(
        Effect.flatMap(ProtocolDocument.decode(CrossLanguageRun.CrossLanguageInput))
      )
      const expected = PublicProtocol.read("fixtures/conformance-expected-output.json")
      expect(CrossLanguageRun.answer(input)).toBe(expected)
      const output = JSON.parse(expected)
      yield* ProtocolDocument.decode(CrossLanguageRun.CrossLanguageOutput)(output)
      delete output.runIdentity.sessionId
      expect(
        (yield* Effect.flip(ProtocolDocument.decode(CrossLanguageRun.CrossLanguageOutput)(output))).issues
      ).toEqual([{ path: "/runIdentity", message: 'the member "sessionId" is missing' }])
    })
  )
})
