import { join } from "node:path"
import { describe, expect, it, layer } from "@effect/vitest"
import { Context, Effect, Layer, Predicate } from "effect"
import type { HarnessFrame } from "../../../src/runner/index.js"
import * as HarnessProcess from "../../support/HarnessProcess.js"
import * as PublicProtocol from "../../support/PublicProtocol.js"

class FakeHarnessProgram extends Context.Tag("test/FakeHarnessProgram")<FakeHarnessProgram, string>() {}

const prologue = ["ready", "session.started", "runtime.phase.changed", "turn.started"]

/** What each script makes the harness say after the turn has started, and its exit code (facts 6, Expected traces). */
const traces = {
  "happy-path": {
    heard: [
      "item.started",
      ...Array.from({ length: 5 }, () => "log"),
      "item.delta",
      "item.completed",
      "item.started",
      "item.completed",
      "result",
      "turn.completed",
      "session.closed",
      "terminal"
    ],
    exit: 0
  },
  error: { heard: ["log", "item.failed", "result", "turn.failed", "session.failed", "terminal"], exit: 7 },
  interrupted: {
    heard: ["item.started", "log", "turn.interrupted", "item.failed", "result", "session.closed", "terminal"],
    exit: 130
  },
  "permission-input": {
    heard: [
      "request",
      "runtime_request.resolved",
      "request",
      "runtime_request.resolved",
      "item.started",
      "item.completed",
      "result",
      "turn.completed",
      "session.closed",
      "terminal"
    ],
    exit: 0
  },
  "duplicate-terminal": { heard: ["result", "turn.completed", "session.closed", "terminal", "terminal"], exit: 0 }
} as const

/** A controller that grants every request, and interrupts what says that it waits for that. */
const controller = (message: HarnessFrame.HarnessMessage): ReadonlyArray<HarnessProcess.Command> => {
  if (message.type === "request" && Predicate.hasProperty(message.payload.request, "requestId")) {
    const { requestId } = message.payload.request
    return [HarnessProcess.command("request.resolve", { requestId, response: { granted: true } })]
  }
  return message.type === "log" && message.payload.text === "waiting for interruption"
    ? [HarnessProcess.command("turn.interrupt")]
    : []
}

const script = (name: string) => `fixtures/local-runner/scripts/${name}.json`

describe.skipIf(!PublicProtocol.present)(`the public harness scripts, unchanged${PublicProtocol.note}`, () => {
  const program = Layer.scoped(FakeHarnessProgram, HarnessProcess.program)

  layer(program, { excludeTestServices: true })((it) => {
    it.effect.each(Object.entries(traces))("%s plays as the contract has it", ([name, { exit, heard }]) =>
      Effect.gen(function* () {
        const path = join(PublicProtocol.directory, script(name))
        const played = yield* HarnessProcess.play(yield* FakeHarnessProgram, ["--script", path], controller)
        expect(played.messages.map(HarnessProcess.kind)).toEqual([...prologue, ...heard])
        expect(played).toMatchObject({ ending: exit, stderr: "" })
        expect(played.messages.map(({ messageSeq }) => messageSeq)).toEqual(
          played.messages.map((_, index) => index + 1)
        )
        expect(played.messages[0]?.payload).toEqual({ version: "1.0.0", script: name })
      })
    )

    it.effect("what a script proposes and asks is passed on as it stands in the file", () =>
      Effect.gen(function* () {
        const path = join(PublicProtocol.directory, script("permission-input"))
        const played = yield* HarnessProcess.play(yield* FakeHarnessProgram, ["--script", path], controller)
        const passedOn = played.messages.flatMap(({ payload, type }) =>
          type === "request"
            ? [payload.request]
            : type === "result"
              ? [payload.result]
              : type === "terminal"
                ? [payload.terminal]
                : []
        )
        const { steps } = JSON.parse(PublicProtocol.read(script("permission-input")))
        expect(passedOn).toEqual(
          steps.flatMap((step: { kind: string; request: unknown; payload: unknown }) =>
            step.kind === "request" ? [step.request] : ["result", "terminal"].includes(step.kind) ? [step.payload] : []
          )
        )
      })
    )
  })

  it("every script at hand has its trace here", () => {
    const names = PublicProtocol.fixtures().flatMap(({ path }) => /scripts\/(.*)\.json$/.exec(path)?.[1] ?? [])
    expect(Object.keys(traces).sort()).toEqual(names.sort())
  })
})
