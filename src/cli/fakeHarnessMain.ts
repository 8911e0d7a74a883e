#!/usr/bin/env node
// The edge of the fake harness: the only file of it that touches the process.
import { spawn } from "node:child_process"
import { parseArgs } from "node:util"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Data, Duration, Effect, Exit, Layer, Option } from "effect"
import * as FakeHarness from "../runner/FakeHarness.js"
import * as HarnessScript from "../runner/HarnessScript.js"
import { UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"

const usage = "agent-contracts-fake-harness --script PATH [--delay-ms N]"

const help = `Usage: ${usage}

Plays a harness: reads commands from standard input and writes messages to standard output, both JSON lines, and does what a
script says in between.

  --script PATH    The script: a JSON file with the schema paperclip.fake_harness.script.v1
  --delay-ms N     How long every delay of the script is, in milliseconds, in place of what it says
  --help           This text

The exit code is the script's own, or 0 when its steps run out. A script that cannot be read or played, and a command line that
is none, exit with 1 and say why on standard error.
`

/** Standard input or output failed; whoever reads or writes the other end is gone. */
class TransportFailed extends Data.TaggedError("TransportFailed")<{ readonly message: string }> {}

interface Arguments {
  readonly script: string
  readonly delay: Option.Option<Duration.Duration>
}

const parse: Effect.Effect<Option.Option<Arguments>, UsageError> = Effect.gen(function* () {
  const { values } = yield* Effect.try({
    try: () =>
      parseArgs({
        options: { script: { type: "string" }, "delay-ms": { type: "string" }, help: { type: "boolean" } }
      }),
    catch: () => new UsageError({ message: `usage: ${usage}` })
  })
  if (values.help === true) return Option.none()
  const { script, "delay-ms": delay } = values
  if (script === undefined) return yield* new UsageError({ message: `--script is missing; usage: ${usage}` })
  if (delay !== undefined && !/^\d+$/.test(delay)) {
    return yield* new UsageError({ message: "--delay-ms must be a whole number of milliseconds" })
  }
  return Option.some({
    script,
    delay: Option.map(Option.fromNullable(delay), (milliseconds) => Duration.millis(Number(milliseconds)))
  })
})

// Not detached: it is to be in the harness's own process group.
const workers = Layer.succeed(FakeHarness.Workers, {
  spawn: Effect.async<number, FakeHarness.WorkerUnavailable>((resume) => {
    const worker = spawn("sleep", ["60"], { stdio: "ignore" })
    worker.once("error", (error: NodeJS.ErrnoException) =>
      resume(new FakeHarness.WorkerUnavailable({ reason: error.code ?? "unknown reason" }))
    )
    worker.once("spawn", () => {
      worker.unref()
      if (worker.pid !== undefined) resume(Effect.succeed(worker.pid))
    })
  })
})

const transport: FakeHarness.Transport<TransportFailed> = {
  input: NodeStream.fromReadable(
    () => process.stdin,
    () => new TransportFailed({ message: "standard input cannot be read" })
  ),
  write: (line) =>
    Effect.async((resume) => {
      process.stdout.write(line, (error) =>
        resume(error ? new TransportFailed({ message: "standard output cannot be written" }) : Effect.void)
      )
    })
}

const play = Effect.fnUntraced(function* ({ delay, script }: Arguments) {
  const bytes = yield* InputFile.bytes(script, HarnessScript.maximumBytes + 1)
  const options = Option.match(delay, { onNone: () => ({}), onSome: (delay) => ({ delay }) })
  return yield* FakeHarness.run(yield* HarnessScript.decode(bytes), transport, options)
})

const program = Effect.flatMap(
  parse,
  Option.match({ onNone: () => Effect.as(transport.write(help), 0), onSome: play })
).pipe(
  Effect.catchAll(({ message }) =>
    Effect.sync(() => {
      process.stderr.write(`fake-harness: ${message}\n`)
      return 1
    })
  ),
  Effect.provide([NodeFileSystem.layer, workers])
)

// Found where it is written to; without a listener it would be an uncaught exception.
process.stdout.on("error", () => {})
process.stderr.on("error", () => {})

// No signal is listened to: a harness that is told to leave leaves by the signal, as the runner reports it.
Effect.runCallback(program, {
  onExit: (exit) => {
    if (Exit.isFailure(exit)) process.stderr.write(`fake-harness: ${exit.cause}\n`)
    process.exit(Exit.getOrElse(exit, () => 1))
  }
})
