import { expect, it } from "@effect/vitest"
import { Cause, Exit, FiberId } from "effect"
import * as CliError from "../../src/cli/CliError.js"
import { InvalidConfig, NetworkError } from "../../src/delivery/DeliveryError.js"

const interrupt = Cause.interrupt(FiberId.none)

it.each<[string, Exit.Exit<unknown, unknown>, number]>([
  ["success", Exit.void, 0],
  ["a failure of the contract", Exit.fail(new NetworkError({})), 1],
  ["results that say what is bad", Exit.fail(new CliError.Unsuccessful()), 1],
  [
    "a registry's answer that the configuration is wrong",
    Exit.fail(new InvalidConfig({ setting: "S", problem: "is wrong" })),
    1
  ],
  ["wrong usage", Exit.fail(new CliError.UsageError({ message: "" })), 2],
  ["a defect", Exit.die("bug"), 70],
  ["an interruption", Exit.failCause(interrupt), 130],
  ["a failure beside an interruption", Exit.failCause(Cause.parallel(interrupt, Cause.fail(new NetworkError({})))), 1],
  ["a reader that is gone", Exit.fail(new CliError.OutputClosed()), 141]
])("the exit code of %s", (_, exit, code) => {
  expect(CliError.toExitCode(exit)).toBe(code)
})

it("only an interruption ends with the code of its signal", () => {
  expect(CliError.toExitCode(Exit.failCause(interrupt), CliError.exitCode.terminated)).toBe(143)
  expect(CliError.toExitCode(Exit.fail(new NetworkError({})), CliError.exitCode.terminated)).toBe(1)
})
