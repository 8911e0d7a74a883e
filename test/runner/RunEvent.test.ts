import { describe, expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { RunEvent } from "../../src/runner/index.js"
import * as Documents from "../support/RunDocuments.js"

const issues = (value: unknown) =>
  Effect.map(
    Effect.flip(RunEvent.decode(value)),
    (error) => [error._tag, error.issues.map(({ path }) => path)] as const
  )

const hook = {
  schema: "paperclip.hook.v1",
  hookId: "hook-1",
  event: "stop",
  scope: "session",
  status: "running",
  blocking: true,
  durationMs: null,
  summary: null
}

describe("an event is decoded by itself", () => {
  it.effect("the version is looked at first", () =>
    Effect.gen(function* () {
      expect(yield* issues({ schemaVersion: 2 })).toEqual(["unsupported_required_version", ["/schemaVersion"]])
      expect((yield* issues({ schemaVersion: "2" }))[0]).toBe("schema_validation")
    })
  )

  it.effect("a type that the vocabulary lacks is refused at /eventType", () =>
    Effect.gen(function* () {
      expect(yield* issues(Documents.event(1, "turn.paused"))).toEqual(["schema_validation", ["/eventType"]])
    })
  )

  it.effect("a payload that is bound to a schema is held to it, whichever event of its kind it is", () =>
    Effect.gen(function* () {
      for (const type of ["hook.started", "hook.completed"]) {
        yield* RunEvent.decode(Documents.event(1, type, hook))
        expect(yield* issues(Documents.event(1, type, { ...hook, channel: "final" }))).toEqual([
          "schema_validation",
          ["/payload"]
        ])
      }
      yield* RunEvent.decode(Documents.event(1, "item.started", hook))
    })
  )

  it.effect("a diff that is recorded is complete; a change need not be", () =>
    Effect.gen(function* () {
      const diff = {
        schema: "paperclip.workspace.diff.v1",
        changeSetId: "c1",
        revision: 1,
        source: "runner_verified",
        complete: false,
        files: [],
        totals: { files: 0, additions: null, deletions: null },
        patchArtifactRef: null
      }
      yield* RunEvent.decode(Documents.event(1, "workspace.change.updated", diff))
      expect(yield* issues(Documents.event(1, "workspace.diff.recorded", diff))).toEqual([
        "schema_validation",
        ["/payload/complete"]
      ])
    })
  )

  it.effect("a tool's input is no result; without an envelope it may be anything", () =>
    Effect.gen(function* () {
      yield* RunEvent.decode(Documents.event(1, "mcp_app.tool_input", { anything: 1 }))
      yield* RunEvent.decode(Documents.event(1, "semantic_tool.input", { semantic_tool: Documents.semanticTool() }))
      const swapped = Documents.event(1, "semantic_tool.input", { semantic_tool: Documents.semanticToolResult() })
      expect(yield* issues(swapped)).toEqual(["schema_validation", ["/payload/semantic_tool/phase"]])
    })
  )

  it.effect("every payload's channel is one of five", () =>
    Effect.gen(function* () {
      yield* RunEvent.decode(Documents.event(1, "item.delta", { channel: "detail" }))
      const result = { ...Documents.result, channel: "loud" }
      expect(yield* issues(Documents.event(1, "run.result.proposed", result))).toEqual([
        "schema_validation",
        ["/payload/channel"]
      ])
    })
  )

  it.effect("lengths are counted in characters, not in UTF-16 units", () =>
    Effect.gen(function* () {
      const id = "\u{1f600}".repeat(160)
      yield* RunEvent.decode(Documents.event(1, "turn.started", {}, { turnId: id }))
      expect(yield* issues(Documents.event(1, "turn.started", {}, { turnId: `${id}x` }))).toEqual([
        "schema_validation",
        ["/turnId"]
      ])
    })
  )

  it.effect("times have three digits of a second or none, and end in Z; the calendar is not looked at", () =>
    Effect.gen(function* () {
      for (const emittedAt of ["2026-99-99T99:99:99Z", "2026-01-31T12:00:00.123Z"]) {
        yield* RunEvent.decode(Documents.event(1, "turn.started", {}, { emittedAt }))
      }
      for (const emittedAt of [
        "2026-01-31T12:00:00.1Z",
        "2026-01-31T12:00:00+00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00:00Z\n"
      ]) {
        expect(yield* issues(Documents.event(1, "turn.started", {}, { emittedAt }))).toEqual([
          "schema_validation",
          ["/emittedAt"]
        ])
      }
    })
  )

  it.effect("a source's number is a whole one from 1 to 2^53 - 1", () =>
    Effect.gen(function* () {
      yield* RunEvent.decode(Documents.event(Number.MAX_SAFE_INTEGER, "turn.started"))
      for (const sourceSeq of [0, 1.5, 2 ** 53, "1"]) {
        expect(yield* issues(Documents.event(1, "turn.started", {}, { sourceSeq }))).toEqual([
          "schema_validation",
          ["/sourceSeq"]
        ])
      }
    })
  )

  it("as a Schema it gives the very value too", () => {
    const value = Documents.event(1, "turn.started", {}, JSON.parse('{"later":[1],"__proto__":{"a":1}}'))
    expect(Schema.decodeUnknownSync(RunEvent.RunEvent)(value)).toBe(value)
    expect(Schema.is(RunEvent.RunEvent)({ ...value, priority: 3 })).toBe(false)
  })
})
