#!/usr/bin/env node
// The edge: the only file that touches the process.
import { fileURLToPath } from "node:url"
import { stripVTControlCharacters } from "node:util"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeTerminal from "@effect/platform-node/NodeTerminal"
import { Effect, Logger } from "effect"
import * as Cli from "./Cli.js"
import { exitCode, toExitCode } from "./CliError.js"

// A reader that goes away is found where it is written to; without a listener it would be an uncaught exception.
const ignore = () => {}
process.stdout.on("error", ignore)
process.stderr.on("error", ignore)

/** Two levels above both this file and the bundle. */
const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/${name}`, import.meta.url))

const environment: Cli.Environment = {
  screen: process.stderr,
  ownFixtures: {
    snapshots: fixture("snapshots.v1.json"),
    lifecycle: fixture("lifecycle.v1.json"),
    runner: fixture("runner")
  }
}

/** The logger looks at standard output for whether anybody can see colours, and writes to standard error. */
const withPlainText = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.consoleWith((console) => {
    const plain = (stream: NodeJS.WriteStream, line: unknown) =>
      typeof line === "string" && !(stream.isTTY && stream.hasColors()) ? stripVTControlCharacters(line) : line
    return Effect.withConsole(effect, {
      ...console,
      log: (line) => console.log(plain(process.stdout, line)),
      error: (line) => console.error(plain(process.stderr, line))
    })
  })

const program = Cli.run(process.argv, environment).pipe(
  withPlainText,
  Effect.provide([
    NodeFileSystem.layer,
    NodePath.layer,
    NodeTerminal.layer,
    Logger.replace(Logger.defaultLogger, Logger.prettyLogger({ stderr: true }))
  ])
)

// Both signals interrupt; only the exit code tells them apart. After the first one the system's own way is left, as `runMain`
// leaves it: whoever does not want to wait sends another, of either kind.
let interrupted: number = exitCode.interrupted
const onSignal = (signal: NodeJS.Signals) => {
  process.off("SIGINT", onSignal).off("SIGTERM", onSignal)
  if (signal === "SIGTERM") interrupted = exitCode.terminated
}
process.on("SIGINT", onSignal).on("SIGTERM", onSignal)

NodeRuntime.runMain(program, {
  disableErrorReporting: true,
  disablePrettyLogger: true,
  // Always ends the process, for something that was given up may never end: a save to a cache, a write to a blocked pipe.
  // A result was written whole before the program ended; what standard error still holds is written first.
  teardown: (exit) => process.stderr.write("", () => process.exit(toExitCode(exit, interrupted)))
})
