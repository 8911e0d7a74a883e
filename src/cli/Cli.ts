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
import { isPlatformError } from "@effect/platform/Error"
import * as Path from "@effect/platform/Path"
import { Cause, Effect, Option } from "effect"
import packageJson from "../../package.json" with { type: "json" }
import { type CliError, UsageError } from "./CliError.js"
import type { OwnFixtures } from "./ConformanceRun.js"
import * as InputFile from "./InputFile.js"
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

const check = Command.make(
  "check",
  {
    targets: Args.path({ name: Usage.check.arguments[0].name }).pipe(Args.repeated),
    policy: valued("policy", Usage.check.flags.policy).pipe(Options.optional),
    json: toggle("json", Usage.check.flags.json),
    sarif: toggle("sarif", Usage.check.flags.sarif)
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./SkillsCheck.js")),
      (command) => command.run(options)
    )
).pipe(Command.withDescription(Usage.check.description))

const pack = Command.make(
  "pack",
  {
    source: Args.path({ name: Usage.pack.arguments[0].name }),
    output: valued("output", Usage.pack.flags.output).pipe(
      Options.withAlias(Usage.pack.flags.output.alias),
      Options.optional
    ),
    json: toggle("json", Usage.pack.flags.json)
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./SkillsPack.js")),
      (command) => command.run(options)
    )
).pipe(Command.withDescription(Usage.pack.description))

/** What the commands that acquire skills have in common. */
const delivery = {
  apiUrl: valued("api-url", Usage.acquire.flags["api-url"]).pipe(Options.optional),
  // For completions: its values are those of `repeated`.
  containers: valued("container", Usage.acquire.flags.container).pipe(Options.repeated),
  revision: valued("revision", Usage.acquire.flags.revision).pipe(Options.optional),
  keyFile: valued("key-file", Usage.acquire.flags["key-file"]).pipe(Options.optional),
  timeout: valued("timeout", Usage.acquire.flags.timeout).pipe(Options.optional)
}

const sync = ({ screen }: Environment, repeated: Usage.Repeated) =>
  Command.make(
    "sync",
    {
      ...delivery,
      directory: valued("dir", Usage.sync.flags.dir),
      within: valued("within", Usage.sync.flags.within).pipe(Options.optional),
      watch: toggle("watch", Usage.sync.flags.watch),
      keepOnDenial: toggle("keep-on-denial", Usage.sync.flags["keep-on-denial"]),
      json: toggle("json", Usage.sync.flags.json)
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./SkillsSync.js")),
        (command) => command.run({ ...options, containers: repeated["container"] ?? [] }, screen)
      )
  ).pipe(Command.withDescription(Usage.sync.description))

const acquire = ({ screen }: Environment, repeated: Usage.Repeated) =>
  Command.make(
    "acquire",
    {
      ...delivery,
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
      runner: Options.directory("runner").pipe(
        Options.withDescription(Usage.conformanceRun.flags.runner.description),
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

/** Where the commands about a running registry find it. */
const connection = {
  apiUrl: valued("api-url", Usage.revisions.flags["api-url"]).pipe(Options.optional),
  keyFile: valued("key-file", Usage.revisions.flags["key-file"]).pipe(Options.optional),
  json: toggle("json", Usage.revisions.flags.json)
}

const publish = ({ screen }: Environment) =>
  Command.make(
    "publish",
    {
      source: Args.path({ name: Usage.publish.arguments[0].name }),
      container: valued("container", Usage.publish.flags.container),
      create: toggle("create", Usage.publish.flags.create),
      skill: valued("skill", Usage.publish.flags.skill).pipe(Options.optional),
      ...connection
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./SkillsPublish.js")),
        (command) => command.run(options, screen)
      )
  ).pipe(Command.withDescription(Usage.publish.description))

const unpublish = ({ screen }: Environment) =>
  Command.make(
    "unpublish",
    {
      name: Args.text({ name: Usage.unpublish.arguments[0].name }),
      container: valued("container", Usage.unpublish.flags.container),
      ...connection
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./SkillsUnpublish.js")),
        (command) => command.run(options, screen)
      )
  ).pipe(Command.withDescription(Usage.unpublish.description))

const serve = Command.make(
  "serve",
  {
    port: valued("port", Usage.serve.flags.port).pipe(Options.optional),
    host: valued("host", Usage.serve.flags.host).pipe(Options.optional),
    data: valued("data", Usage.serve.flags.data).pipe(Options.optional),
    databaseUrl: valued("database-url", Usage.serve.flags["database-url"]).pipe(Options.optional),
    json: toggle("json", Usage.serve.flags.json)
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./RegistryServe.js")),
      (command) => command.run(options)
    )
).pipe(Command.withDescription(Usage.serve.description))

const keyCreate = (repeated: Usage.Repeated) =>
  Command.make(
    "create",
    {
      name: valued("name", Usage.keyCreate.flags.name),
      scope: valued("scope", Usage.keyCreate.flags.scope).pipe(Options.optional),
      // For completions: its values are those of `repeated`.
      containers: valued("container", Usage.keyCreate.flags.container).pipe(Options.repeated),
      ...connection
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./RegistryKeys.js")),
        (command) => command.create({ ...options, containers: repeated["container"] ?? [] })
      )
  ).pipe(Command.withDescription(Usage.keyCreate.description))

const keyList = Command.make("list", connection, (options) =>
  Effect.flatMap(
    Effect.promise(() => import("./RegistryKeys.js")),
    (command) => command.list(options)
  )
).pipe(Command.withDescription(Usage.keyList.description))

const keyRevoke = Command.make(
  "revoke",
  { id: Args.text({ name: Usage.keyRevoke.arguments[0].name }), ...connection },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./RegistryKeys.js")),
      (command) => command.revoke(options)
    )
).pipe(Command.withDescription(Usage.keyRevoke.description))

const containerCreate = Command.make(
  "create",
  {
    id: Args.text({ name: Usage.containerCreate.arguments[0].name }),
    title: valued("title", Usage.containerCreate.flags.title).pipe(Options.optional),
    ...connection
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./RegistryContainers.js")),
      (command) => command.create(options)
    )
).pipe(Command.withDescription(Usage.containerCreate.description))

const containerList = Command.make("list", connection, (options) =>
  Effect.flatMap(
    Effect.promise(() => import("./RegistryContainers.js")),
    (command) => command.list(options)
  )
).pipe(Command.withDescription(Usage.containerList.description))

const containerSwitch = (word: "enable" | "disable", usage: (typeof Usage.container.commands)["enable" | "disable"]) =>
  Command.make(word, { id: Args.text({ name: usage.arguments[0].name }), ...connection }, (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./RegistryContainers.js")),
      (command) => command.setEnabled({ ...options, enabled: word === "enable" })
    )
  ).pipe(Command.withDescription(usage.description))

const revisions = Command.make(
  "revisions",
  { container: Args.text({ name: Usage.revisions.arguments[0].name }), ...connection },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./RegistryContainers.js")),
      (command) => command.revisions(options)
    )
).pipe(Command.withDescription(Usage.revisions.description))

const revoke = Command.make(
  "revoke",
  {
    container: Args.text({ name: Usage.revoke.arguments[0].name }),
    revision: Args.text({ name: Usage.revoke.arguments[1].name }),
    ...connection
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./RegistryContainers.js")),
      (command) => command.revoke(options)
    )
).pipe(Command.withDescription(Usage.revoke.description))

const registry = (repeated: Usage.Repeated) =>
  Command.make("registry").pipe(
    Command.withDescription(Usage.registry.description),
    Command.withSubcommands([
      serve,
      Command.make("key").pipe(
        Command.withDescription(Usage.key.description),
        Command.withSubcommands([keyCreate(repeated), keyList, keyRevoke])
      ),
      Command.make("container").pipe(
        Command.withDescription(Usage.container.description),
        Command.withSubcommands([
          containerCreate,
          containerList,
          containerSwitch("enable", Usage.containerEnable),
          containerSwitch("disable", Usage.containerDisable)
        ])
      ),
      revisions,
      revoke
    ])
  )

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
        Command.withSubcommands([
          check,
          pack,
          publish(environment),
          unpublish(environment),
          acquire(environment, repeated),
          sync(environment, repeated),
          verify
        ])
      ),
      registry(repeated),
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
        return Effect.zipRight(requireWorkingDirectory, execute(root(environment, request.repeated), request.args))
    }
  }).pipe(Effect.tapErrorCause(report))

/** Every path is resolved from it; of one that was removed the system says nothing but that. */
const requireWorkingDirectory = Effect.flatMap(Path.Path, (path) =>
  Effect.try({
    try: () => path.resolve(),
    catch: () => new UsageError({ message: "the working directory is no longer there" })
  })
)

/** What `Command.run` does, without its own reports and built-in flags. */
const execute = <Name extends string, R, E, A>(command: Command.Command<Name, R, E, A>, args: ReadonlyArray<string>) =>
  CommandDescriptor.parse(command.descriptor, [Usage.name, ...args], CliConfig.defaultConfig).pipe(
    // It looks whether a path exists, and dies of every other answer than yes or no.
    Effect.catchSomeDefect((defect) =>
      isPlatformError(defect) ? Option.some(Effect.fail(InputFile.unusable(defect))) : Option.none()
    ),
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
