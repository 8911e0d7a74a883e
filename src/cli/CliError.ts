/**
 * How a command ends when it does not end well, and the exit code of each end.
 *
 * @module
 */
import * as ValidationError from "@effect/cli/ValidationError"
import { Cause, Data, Exit, Option, Predicate } from "effect"
import type { DeliveryError } from "../delivery/DeliveryError.js"
import type { MaterializeError } from "../materialize/MaterializeError.js"
import type { DatabaseError, DatabaseInUse, StoreUnavailable } from "../store/StoreError.js"
import type { RegistryFailure } from "./RegistryFailure.js"

/** The command was used wrongly: nothing was checked. */
export class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

/** What was checked is bad, and the results already say why. */
export class Unsuccessful extends Data.TaggedError("Unsuccessful") {}

/** Whoever read the standard output is gone (`| head`): nobody wants the rest. */
export class OutputClosed extends Data.TaggedError("OutputClosed") {}

/** The standard output takes no more, as on a full disk. `reason` is the code of the system. */
export class OutputFailed extends Data.TaggedError("OUTPUT_FAILED")<{ readonly reason: string }> {
  override get message(): string {
    return `The standard output cannot be written: ${this.reason}.`
  }
}

/** A server cannot have this address. `reason` is the code of the system. */
export class CannotListen extends Data.TaggedError("CANNOT_LISTEN")<{
  readonly host: string
  readonly port: number
  readonly reason: string
}> {
  override get message(): string {
    return `Port ${this.port} of ${JSON.stringify(this.host)} cannot be listened on: ${this.reason}. Choose others with --port and --host.`
  }
}

/** The key of a first start cannot be kept, so there is none. `reason` is the code of the system. */
export class AdminKeyNotWritten extends Data.TaggedError("ADMIN_KEY_NOT_WRITTEN")<{
  readonly file: string
  readonly reason: string
}> {
  override get message(): string {
    return `The admin key of the first start cannot be written to ${JSON.stringify(this.file)}: ${this.reason}.`
  }
}

/** Nothing is to be taken out of a container: the skill is not in it. */
export class SkillNotPublished extends Data.TaggedError("SKILL_NOT_PUBLISHED")<{
  readonly container: string
  readonly name: string
}> {
  override get message(): string {
    return `The latest revision of ${JSON.stringify(this.container)} has no skill ${JSON.stringify(this.name)}.`
  }
}

export type CliError =
  | UsageError
  | Unsuccessful
  | OutputClosed
  | OutputFailed
  | AdminKeyNotWritten
  | CannotListen
  | DatabaseError
  | DatabaseInUse
  | DeliveryError
  | MaterializeError
  | RegistryFailure
  | SkillNotPublished
  | StoreUnavailable
  | ValidationError.ValidationError

/** 0 and 1 are about what was checked, 2 about how the command was used; the rest follows shells and sysexits. */
export const exitCode = {
  good: 0,
  bad: 1,
  usage: 2,
  bug: 70,
  interrupted: 130,
  outputClosed: 141,
  terminated: 143
} as const

const isUsage = Predicate.or(ValidationError.isValidationError, Predicate.isTagged("UsageError"))

/** The exit code of a finished command; `interrupted` is that of the signal, if one interrupted it. */
export const toExitCode = (exit: Exit.Exit<unknown, unknown>, interrupted: number = exitCode.interrupted): number =>
  Exit.match(exit, {
    onSuccess: () => exitCode.good,
    onFailure: (cause) =>
      Option.match(Cause.failureOption(cause), {
        onNone: () => (Cause.isInterruptedOnly(cause) ? interrupted : exitCode.bug),
        onSome: (error) => {
          if (isUsage(error)) return exitCode.usage
          return Predicate.isTagged(error, "OutputClosed") ? exitCode.outputClosed : exitCode.bad
        }
      })
  })
