import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { type ProtocolError, ReplayFixture } from "../../src/runner/index.js"
import * as Documents from "../support/RunDocuments.js"

const { event } = Documents
const proposed = event(1, "run.result.proposed", Documents.result)
const terminal = event(2, "run.terminal", Documents.terminal)

/** The code, and the places. */
const verdict = (decoded: Effect.Effect<unknown, ProtocolError.ProtocolError>) =>
  Effect.match(decoded, {
    onFailure: ({ _tag, issues }) => [_tag, issues.map(({ path }) => path)] as const,
    onSuccess: () => ["accepted", []] as const
  })

const refused = (value: unknown) => verdict(ReplayFixture.decode(value))

describe("a fixture is decoded in the contract's stages", () => {
  it.effect("a good one comes back as the very value that was given", () =>
    Effect.gen(function* () {
      const value = Documents.fixture()
      expect(yield* ReplayFixture.decode(value)).toBe(value)
    })
  )

  it.effect("members that nobody knows are kept, one called __proto__ and their order too", () =>
    Effect.gen(function* () {
      const text = JSON.stringify(Documents.fixture({ later: { b: 1, a: [null] } })).replace(
        '"identity":{',
        '"identity":{"__proto__":{"companyId":"x"},"zz":1,'
      )
      expect(JSON.stringify(yield* ReplayFixture.parse(text))).toBe(text)
    })
  )

  it.effect("what is no JSON is invalid_json at /", () =>
    Effect.gen(function* () {
      for (const text of [
        "{",
        "",
        "\ufeff{}",
        "{} {}",
        new Uint8Array([0x22, 0xff, 0x22]),
        new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d])
      ]) {
        expect(yield* verdict(ReplayFixture.parse(text))).toEqual(["invalid_json", ["/"]])
      }
    })
  )

  it.effect("a document nested a million deep is refused", () =>
    Effect.gen(function* () {
      const text = `${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`
      expect(yield* verdict(ReplayFixture.parse(text))).toEqual(["invalid_json", ["/"]])
      const member = `${'{"a":'.repeat(1_000_000)}1${"}".repeat(1_000_000)}`
      expect(yield* verdict(ReplayFixture.parse(member))).toEqual(["invalid_json", ["/"]])
    })
  )

  it.effect("every version that is another number is reported, and nothing else is looked at", () =>
    Effect.gen(function* () {
      const semantic_tool = { schemaVersion: 2 }
      const value = {
        fixtureVersion: 2,
        protocolVersion: 0,
        events: [{ schemaVersion: 1.5, payload: { semantic_tool, stopReason: { schemaVersion: 3 } } }, 7, null],
        capabilities: { semanticTools: { schemaVersion: 2 } }
      }
      expect(yield* refused(value)).toEqual([
        "unsupported_required_version",
        [
          "/fixtureVersion",
          "/protocolVersion",
          "/events/0/schemaVersion",
          "/events/0/payload/semantic_tool/schemaVersion",
          "/events/0/payload/stopReason/schemaVersion",
          "/capabilities/semanticTools/schemaVersion"
        ]
      ])
    })
  )

  it.effect("a version that is missing or no number fails the schema", () =>
    Effect.gen(function* () {
      const { protocolVersion: _, ...without } = Documents.fixture()
      expect(yield* refused(without)).toEqual(["schema_validation", ["/"]])
      expect(yield* refused(Documents.fixture({ protocolVersion: "1" }))).toEqual([
        "schema_validation",
        ["/protocolVersion"]
      ])
    })
  )

  it.effect("every place where the schema is broken is reported", () =>
    Effect.gen(function* () {
      const value = Documents.fixture({
        name: "",
        capabilities: { ...Documents.capabilities, driver: { kind: 1 } },
        events: [event(1, "plan.updated", { "a/b~c": 1 })]
      })
      const [tag, paths] = yield* refused(value)
      expect(tag).toBe("schema_validation")
      expect(paths).toEqual(
        expect.arrayContaining(["/name", "/capabilities/driver/kind", "/capabilities/driver", "/events/0/payload"])
      )
    })
  )

  it.effect("no message holds what was found", () =>
    Effect.gen(function* () {
      const secret = "sk-secret"
      const error = yield* Effect.flip(
        ReplayFixture.decode(
          Documents.fixture({ name: "", description: [secret], result: { ...Documents.result, summary: { secret } } })
        )
      )
      expect(JSON.stringify(error)).not.toContain(secret)
      expect(error.message).not.toContain(secret)
    })
  )
})

describe("the parts of a fixture are bound together", () => {
  const bound = (name: string, more: object, paths: ReadonlyArray<string>) =>
    it.effect(name, () =>
      Effect.gen(function* () {
        expect(yield* refused(Documents.fixture(more))).toEqual(["binding_mismatch", paths])
      })
    )

  bound("an event of another run", { events: [proposed, { ...terminal, runId: "run-2" }] }, ["/events/1/runId"])
  bound("an event of another session", { events: [proposed, { ...terminal, normalizedSessionId: "session-2" }] }, [
    "/events/1/normalizedSessionId"
  ])
  bound(
    "an event that is delivered again with another content",
    { events: [proposed, terminal, { ...terminal, priority: 0 }] },
    ["/events/2/sourceEventId"]
  )
  bound("a result that is not the one proposed", { result: { ...Documents.result, summary: "Another." } }, ["/result"])
  bound("no result", { events: [event(1, "run.terminal", Documents.terminal)] }, ["/events"])
  bound("a second result", { events: [proposed, { ...proposed, sourceEventId: "event-9" }, terminal] }, ["/events"])
  bound("no terminal", { events: [proposed] }, ["/events"])
  bound("a second terminal", { events: [proposed, terminal, { ...terminal, sourceEventId: "event-9" }] }, ["/events"])
  bound(
    "commands out of their order",
    { commands: [Documents.command(2, "run.prepare"), Documents.command(2, "session.open")] },
    ["/commands/0/controllerSeq"]
  )

  it.effect("a redelivery may have its members in another order", () =>
    Effect.gen(function* () {
      const again = Object.fromEntries(Object.entries(terminal).reverse())
      const events = [proposed, terminal, again, proposed]
      expect((yield* ReplayFixture.decode(Documents.fixture({ events }))).events).toHaveLength(4)
    })
  )

  it.effect("an event need not name its session", () =>
    Effect.gen(function* () {
      const { normalizedSessionId: _, ...without } = terminal
      yield* ReplayFixture.decode(Documents.fixture({ events: [proposed, without] }))
    })
  )

  it.effect("the instance that sends an event need not be the identity's", () =>
    Effect.gen(function* () {
      const events = [proposed, { ...terminal, sourceInstanceId: "runner-2" }]
      yield* ReplayFixture.decode(Documents.fixture({ events }))
    })
  )
})

describe("a call of a semantic tool is one input and one result", () => {
  const about = { turnId: "turn-1", itemId: "item-1" }
  const input = (tool: object = Documents.semanticTool()) =>
    event(3, "semantic_tool.input", { semantic_tool: tool }, about)
  const output = (tool: object = Documents.semanticToolResult()) =>
    event(4, "semantic_tool.result", { semantic_tool: tool }, about)
  const events = (...calls: ReadonlyArray<object>) => Documents.fixture({ events: [...calls, proposed, terminal] })

  it.effect("a pair is accepted, delivered again too", () =>
    ReplayFixture.decode(events(input(), output(), input(), output()))
  )

  it.effect("its correlation is the event's", () =>
    Effect.gen(function* () {
      const correlation = { runId: "run-2", normalizedSessionId: "session-2", turnId: "turn-2", itemId: "item-2" }
      const at = "/events/0/payload/semantic_tool/correlation"
      expect(yield* refused(events(input(Documents.semanticTool({ correlation })), output()))).toEqual([
        "binding_mismatch",
        [`${at}/runId`, `${at}/normalizedSessionId`, `${at}/turnId`, `${at}/itemId`]
      ])
    })
  )

  it.effect("one without its result, or with two, is refused", () =>
    Effect.gen(function* () {
      const at = "/events/0/payload/semantic_tool/callId"
      expect(yield* refused(events(input()))).toEqual(["binding_mismatch", [at]])
      const second = { ...output(), sourceEventId: "event-5", sourceSeq: 5 }
      expect(yield* refused(events(input(), output(), second))).toEqual(["binding_mismatch", [at]])
      const again = { ...input(), sourceEventId: "event-5", sourceSeq: 5 }
      expect(yield* refused(events(input(), again))).toEqual(["binding_mismatch", [at]])
    })
  )

  it.effect("both halves have one operation and one idempotency key", () =>
    Effect.gen(function* () {
      const other = Documents.semanticToolResult({ operationId: "task.write", idempotencyKey: null })
      expect(yield* refused(events(input(), output(other)))).toEqual([
        "binding_mismatch",
        ["/events/1/payload/semantic_tool/operationId", "/events/1/payload/semantic_tool/idempotencyKey"]
      ])
    })
  )
})
