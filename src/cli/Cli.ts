/**
 * The command line: which commands there are, and what becomes of their failures. What a command does is a module of its
 * own, loaded when it runs, so that `--help` starts fast.
 *
 * @module
 */
import { stripVTControlCharacters } from "node:util"
// From modules, not from the index, which brings the parsers of configuration files along.
import * as Args from "@effect/cli/Args"
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import * as CommandDirective from "@effect/cli/CommandDirective"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Cause, Effect, Option } from "effect"
import packageJson from "../../package.json" with { type: "json" }
import { type CliError, UsageError } from "./CliError.js"
import type { OwnFixtures } from "./ConformanceRun.js"
import * as Output from "./Output.js"
import type { Screen } from "./Progress.js"
import * as Usage from "./Usage.js"

/** What a command line gets from its process. */
export interface Environment {
  /** Where progress is drawn. */
  readonly screen: Screen
  readonly ownFixtures: OwnFixtures
}

/** A flag with a value, as `@effect/cli` knows it: for parsing, and for completions. */
const valued = (name: string, flag: Usage.Flag) => Options.text(name).pipe(Options.withDescription(flag.description))

const toggle = (name: string, flag: Usage.Flag) => Options.boolean(name).pipe(Options.withDescription(flag.description))

const verify = Command.make(
  "verify",
  {
    archive: Args.path({ name: Usage.verify.arguments[0].name }),
    revision: valued("revision", Usage.verify.flags.revision).pipe(Options.optional),
    etag: valued("etag", Usage.verify.flags.etag).pipe(Options.optional),
    json: toggle("json", Usage.verify.flags.json)
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./SkillsVerify.js")),
      (command) => command.run(options)
    )
).pipe(Command.withDescription(Usage.verify.description))

const acquire = ({ screen }: Environment, repeated: Usage.Repeated) =>
  Command.make(
    "acquire",
    {
      apiUrl: valued("api-url", Usage.acquire.flags["api-url"]).pipe(Options.optional),
      // For completions: its values are those of `repeated`.
      containers: valued("container", Usage.acquire.flags.container).pipe(Options.repeated),
      revision: valued("revision", Usage.acquire.flags.revision).pipe(Options.optional),
      timeout: valued("timeout", Usage.acquire.flags.timeout).pipe(Options.optional),
      watch: toggle("watch", Usage.acquire.flags.watch),
      json: toggle("json", Usage.acquire.flags.json)
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./SkillsAcquire.js")),
        (command) => command.run({ ...options, containers: repeated["container"] ?? [] }, screen)
      )
  ).pipe(Command.withDescription(Usage.acquire.description))

const conformance = ({ ownFixtures, screen }: Environment) =>
  Command.make(
    "run",
    {
      snapshots: Options.file("snapshots").pipe(
        Options.withDescription(Usage.conformanceRun.flags.snapshots.description),
        Options.optional
      ),
      lifecycle: Options.file("lifecycle").pipe(
        Options.withDescription(Usage.conformanceRun.flags.lifecycle.description),
        Options.optional
      ),
      json: toggle("json", Usage.conformanceRun.flags.json)
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./ConformanceRun.js")),
        (command) => command.run(options, ownFixtures, screen)
      )
  ).pipe(Command.withDescription(Usage.conformanceRun.description))

/** For completions alone, under names that `@effect/cli` does not have flags of its own for. */
const ownPrefix = "own-"
const rootFlags = {
  completions: Options.choice(`${ownPrefix}completions`, ["bash", "fish", "zsh"]).pipe(
    Options.withDescription(Usage.root.flags.completions.description),
    Options.optional
  ),
  version: toggle(`${ownPrefix}version`, Usage.root.flags.version)
}

const root = (environment: Environment, repeated: Usage.Repeated = {}) =>
  Command.make(Usage.name, rootFlags).pipe(
    Command.withDescription(Usage.root.description),
    Command.withSubcommands([
      Command.make("skills").pipe(
        Command.withDescription(Usage.skills.description),
        Command.withSubcommands([verify, acquire(environment, repeated)])
      ),
      Command.make("conformance").pipe(
        Command.withDescription(Usage.conformance.description),
        Command.withSubcommands([conformance(environment)])
      )
    ])
  )

/** Runs one command line (`process.argv`). What fails is said on standard error. */
export const run = (argv: ReadonlyArray<string>, environment: Environment) =>
  Effect.flatMap(Usage.parse(argv.slice(2)), (request) => {
    switch (request._tag) {
      case "Help":
        return Output.lines(request.lines)
      case "Version":
        return Output.lines([packageJson.version])
      case "Completions":
        return Effect.flatMap(completions(root(environment), request.shell), Output.lines)
      case "Run":
        return execute(root(environment, request.repeated), request.args)
    }
  }).pipe(Effect.tapErrorCause(report))

/** What `Command.run` does, without its own reports and built-in flags. */
const execute = <Name extends string, R, E, A>(command: Command.Command<Name, R, E, A>, args: ReadonlyArray<string>) =>
  CommandDescriptor.parse(command.descriptor, [Usage.name, ...args], CliConfig.defaultConfig).pipe(
    Effect.flatMap((directive) =>
      CommandDirective.isUserDefined(directive)
        ? command.transform(command.handler(directive.value), directive.value)
        : Effect.dieMessage("built-in flags are never passed on")
    )
  )

const completions = <Name extends string, R, E, A>(command: Command.Command<Name, R, E, A>, shell: string) => {
  switch (shell) {
    case "bash":
      return Effect.map(Command.getBashCompletions(command, Usage.name), withoutBuiltIns)
    case "fish":
      return Effect.map(Command.getFishCompletions(command, Usage.name), withoutBuiltIns)
    case "zsh":
      return Effect.map(Command.getZshCompletions(command, Usage.name), withoutBuiltIns)
    default:
      return new UsageError({ message: "--completions takes bash, fish or zsh" })
  }
}

/** `@effect/cli` completes its own flags after every command: a line for each, or words within bash's `opts`. */
const withoutBuiltIns = (lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines
    .filter((line) => !/(?: -l |^\s*'--)(?:completions|log-level|version|wizard)\b/.test(line))
    .map((line) => (/^\s*opts=/.test(line) ? line.replace(/ --(?:completions|log-level|version|wizard)\b/g, "") : line))
    .map((line) => line.replaceAll(ownPrefix, ""))

const report = (cause: Cause.Cause<CliError>): Effect.Effect<void> => {
  if (Cause.isInterruptedOnly(cause)) return Effect.void
  return Option.match(Cause.failureOption(cause), {
    onNone: () => Output.problem(`this is a bug: ${Cause.pretty(cause)}`),
    onSome: (error) => {
      if (ValidationError.isValidationError(error)) {
        const text = stripVTControlCharacters(HelpDoc.toAnsiText(error.error)).trim()
        return Output.problem(
          text.replace(/^Expected path '(.*)' to be a regular file$/s, "cannot read $1: is no file")
        )
      }
      switch (error._tag) {
        case "OutputClosed":
        case "Unsuccessful":
          return Effect.void
        case "UsageError":
          return Output.problem(error.message)
        default:
          return Output.problem(`${error._tag}: ${error.message}`)
      }
    }
  })
}
