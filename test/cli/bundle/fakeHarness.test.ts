import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as scripts from "../../../scripts/fixtures/runner/scripts.js"
import type { HarnessFrame } from "../../../src/runner/index.js"
import * as CommandLine from "../../support/CommandLine.js"
import * as HarnessProcess from "../../support/HarnessProcess.js"
import * as HostileHarness from "../../support/HostileHarness.js"
import * as Program from "../../support/Program.js"

const program = join(dirname(CommandLine.bundle), "agent-contracts-fake-harness.js")

/** A file that is there for the test. */
const file = (content: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "fake-harness-"))),
      (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
    ),
    (directory) => {
      const path = join(directory, "script.json")
      writeFileSync(path, content)
      return path
    }
  )

const scriptOf = (...steps: ReadonlyArray<object>) =>
  file(JSON.stringify({ schema: "paperclip.fake_harness.script.v1", name: "timetable", steps }))

/** A script of this package. */
const own = (name: string) => file(scripts.texts.get(`fixtures/local-runner/scripts/${name}.json`) ?? "")

const run = (...args: ReadonlyArray<string>) => Program.execute(process.execPath, [program, ...args])

const workerOf = (messages: ReadonlyArray<HarnessFrame.HarnessMessage>): number => {
  const said = messages.find(({ type }) => type === "diagnostic")
  return said?.type === "diagnostic" ? Number(said.payload["workerPid"]) : Number.NaN
}

describe("the fake harness as a program", () => {
  it.scopedLive("says how it is used", () =>
    Effect.gen(function* () {
      const ended = yield* run("--help")
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout).toMatch(/^Usage: agent-contracts-fake-harness --script PATH \[--delay-ms N\]\n/)
    })
  )

  it.scopedLive.each([
    ["no script", [], "--script is missing; usage:"],
    ["a flag that it does not know", ["--scrip", "x"], "usage:"],
    ["an argument", ["script.json"], "usage:"],
    ["a delay that is no number", ["--script", "x", "--delay-ms", "1s"], "--delay-ms must be a whole number"],
    ["a script that is not there", ["--script", "/nowhere/x.json"], "cannot read /nowhere/x.json: ENOENT"]
  ] as const)("exits with 1 and says why, with %s", ([, args, why]) =>
    Effect.gen(function* () {
      const ended = yield* run(...args)
      expect(ended).toMatchObject({ code: 1, stdout: "" })
      expect(ended.stderr.startsWith(`fake-harness: ${why}`)).toBe(true)
      expect(ended.stderr.trimEnd()).not.toContain("\n")
    })
  )

  it.scopedLive.each([
    ["{", "Not a JSON document: at /, the text must be JSON"],
    ['{"steps":[{"kind":"Rosebud"}]}', 'Not what the schema allows: at /, the member "schema" is missing, and 2 more'],
    [" ".repeat(1024 * 1024 + 1), "Not what the schema allows: at /, the file must have at most 1048576 bytes"]
  ] as const)("exits with 1 and says where a script is wrong, and nothing of what it holds: %#", ([text, why]) =>
    Effect.gen(function* () {
      const ended = yield* run("--script", yield* file(text))
      expect(ended).toEqual({ code: 1, stdout: "", stderr: `fake-harness: ${why}\n` })
    })
  )

  it.scopedLive("exits with 1 and says which command did not come", () =>
    Effect.gen(function* () {
      const played = yield* HarnessProcess.play(program, ["--script", yield* own("interrupted")], (message) =>
        HarnessProcess.kind(message) === "item.started" ? "end" : []
      )
      expect(played).toMatchObject({ ending: 1, stderr: "fake-harness: The input ended before a turn.interrupt\n" })
    })
  )

  it.scopedLive.each([
    ["happy-path", 0],
    ["error", 7],
    ["interrupted", 130],
    ["permission-input", 0],
    ["structured-input", 0],
    ["duplicate-terminal", 0],
    ["duplicate-result", 0],
    ["no-result", 0],
    ["contradicted-success", 7],
    ["contradicted-failure", 0],
    ["malformed-proposals", 0]
  ] as const)("plays this package's %s and exits with %d", ([name, code]) =>
    Effect.gen(function* () {
      const script = yield* own(name)
      const played = yield* HarnessProcess.play(program, ["--script", script], (message) => {
        if (message.type === "request") {
          const { requestId } = message.payload.request as { readonly requestId: string }
          return [HarnessProcess.command("request.resolve", { requestId })]
        }
        return HarnessProcess.kind(message) === "item.started" && name === "interrupted"
          ? [HarnessProcess.command("turn.interrupt")]
          : []
      })
      expect(played).toMatchObject({ ending: code, stderr: "" })
      expect(played.messages[0]?.payload).toEqual({ version: "1.0.0", script: name })
    })
  )

  it.scopedLive("says a line that is longer than a runner takes, and what stands after it", () =>
    Effect.gen(function* () {
      const played = yield* HarnessProcess.play(program, ["--script", yield* own("oversized-line"), "--delay-ms", "0"])
      const sizes = played.messages.map((message) => Buffer.byteLength(JSON.stringify(message)))
      expect(sizes.map((size) => size > 65_536)).toEqual([false, false, false, false, false, true, false])
      expect(played.ending).toBe(0)
    })
  )

  it.scopedLive("does not wait through the delays of a script that it is told not to wait for", () =>
    Effect.gen(function* () {
      const script = yield* scriptOf({ kind: "delay", milliseconds: 86_400_000 }, { kind: "exit", code: 5 })
      expect(yield* HarnessProcess.play(program, ["--script", script, "--delay-ms", "0"])).toMatchObject({ ending: 5 })
    })
  )

  it.scopedLive("leaves its worker alive, in its own process group, and says which it is", () =>
    Effect.gen(function* () {
      const played = yield* HarnessProcess.play(program, ["--script", yield* own("orphaned-worker")])
      const worker = workerOf(played.messages)
      yield* Effect.addFinalizer(() => Effect.sync(() => process.kill(worker, "SIGKILL")))
      expect(played.ending).toBe(0)
      expect(HostileHarness.isRunning(worker)).toBe(true)
      const { stdout } = yield* Program.execute("ps", ["-o", "pgid=,args=", "-p", String(worker)], {
        PATH: process.env["PATH"] ?? ""
      })
      const ours = yield* Program.execute("ps", ["-o", "pgid=", "-p", String(process.pid)], {
        PATH: process.env["PATH"] ?? ""
      })
      expect(stdout.trim()).toBe(`${ours.stdout.trim()} sleep 60`)
    })
  )

  it.scopedLive("leaves by the signal that it is sent", () =>
    Effect.gen(function* () {
      const harness = yield* HarnessProcess.start(program, ["--script", yield* own("interrupted")])
      const first = yield* Effect.promise(() => harness.messages.next())
      expect(first.value).toMatchObject({ type: "ready" })
      harness.child.kill("SIGTERM")
      expect(yield* harness.ended).toEqual({ ending: "SIGTERM", stderr: "" })
    })
  )

  it.scopedLive("whose reader has gone exits with 1 and says so", () =>
    Effect.gen(function* () {
      const harness = yield* HarnessProcess.start(program, ["--script", yield* own("happy-path")])
      yield* Effect.promise(() => harness.messages.next())
      yield* Effect.promise(() => new Promise((resolve) => harness.child.stdout.once("close", resolve).destroy()))
      HarnessProcess.opening.forEach(harness.send)
      expect(yield* harness.ended).toEqual({
        ending: 1,
        stderr: "fake-harness: standard output cannot be written\n"
      })
    })
  )
})
