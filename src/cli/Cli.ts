/**
 * The command line: which commands there are, and what becomes of their failures. What a command does is a module of its
 * own, loaded when it runs, so that `--help` starts fast.
 *
 * @module
 */
// From modules, not from the index, which brings the parsers of configuration files along.
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Cause, Effect, Option } from "effect"
import packageJson from "../../package.json" with { type: "json" }
import type { CliError } from "./CliError.js"
import type { OwnFixtures } from "./ConformanceRun.js"
import * as Output from "./Output.js"
import type { Screen } from "./Progress.js"

/** What a command line gets from its process. */
export interface Environment {
  /** Where progress is drawn. */
  readonly screen: Screen
  readonly ownFixtures: OwnFixtures
}

const json = Options.boolean("json").pipe(Options.withDescription("Print JSON, one value a line"))

const verify = Command.make(
  "verify",
  {
    archive: Args.file({ name: "archive.zip" }).pipe(Args.withDescription("The archive to verify")),
    revision: Options.text("revision").pipe(
      Options.withDescription("The revision that the archive must be of"),
      Options.optional
    ),
    etag: Options.text("etag").pipe(
      Options.withDescription("The ETag that the archive must have, with its quotes"),
      Options.optional
    ),
    json
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./SkillsVerify.js")),
      (command) => command.run(options)
    )
).pipe(
  Command.withDescription(
    "Verify an archive: the verdict, and its skills and files with their sizes and SHA-256 digests."
  )
)

const acquire = ({ screen }: Environment) =>
  Command.make(
    "acquire",
    {
      apiUrl: Options.text("api-url").pipe(
        Options.withDescription("The registry (default: INTELLIGENCE_API_URL)"),
        Options.optional
      ),
      containers: Options.text("container").pipe(
        Options.withDescription("A container; repeat it for a list (default: CPK_INTELLIGENCE_LEARNING_CONTAINER_ID)"),
        Options.repeated
      ),
      revision: Options.text("revision").pipe(
        Options.withDescription(
          "Pins the one container to a revision (default: CPK_INTELLIGENCE_SKILLS_REVISION, which a list ignores)"
        ),
        Options.optional
      ),
      watch: Options.boolean("watch").pipe(
        Options.withDescription("Check every 5 seconds and print what changes, until interrupted")
      ),
      json
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./SkillsAcquire.js")),
        (command) => command.run(options, screen)
      )
  ).pipe(
    Command.withDescription(
      "Acquire skills from a registry: the catalog that a model sees, and the status of the delivery. The API key comes from CPK_INTELLIGENCE_API_KEY alone."
    )
  )

const conformance = ({ ownFixtures }: Environment) =>
  Command.make(
    "run",
    {
      snapshots: Options.file("snapshots").pipe(
        Options.withDescription("A snapshots.v1.json to run"),
        Options.optional
      ),
      lifecycle: Options.file("lifecycle").pipe(
        Options.withDescription("A lifecycle.v1.json to run; its replies name cases of the snapshot file"),
        Options.optional
      ),
      json
    },
    (options) =>
      Effect.flatMap(
        Effect.promise(() => import("./ConformanceRun.js")),
        (command) => command.run(options, ownFixtures)
      )
  ).pipe(Command.withDescription("Run fixture files against this implementation; without any, the project's own."))

const root = (environment: Environment) =>
  Command.make("agent-contracts").pipe(
    Command.withDescription(
      "The contracts that an agent runtime keeps. Exits with 0 when what was checked is good, 1 when it is bad, 2 when the command was used wrongly, 130 when it was interrupted."
    ),
    Command.withSubcommands([
      Command.make("skills").pipe(
        Command.withDescription("Learned skills: verify an archive, acquire from a registry."),
        Command.withSubcommands([verify, acquire(environment)])
      ),
      Command.make("conformance").pipe(
        Command.withDescription("Language-neutral fixtures of the contracts."),
        Command.withSubcommands([conformance(environment)])
      )
    ])
  )

/** Runs one command line (`process.argv`). What fails is said on standard error. */
export const run = (argv: ReadonlyArray<string>, environment: Environment) =>
  Command.run(root(environment), {
    name: "agent-contracts",
    version: packageJson.version,
    executable: "agent-contracts"
  })(argv).pipe(Effect.tapErrorCause(report))

const report = (cause: Cause.Cause<CliError>): Effect.Effect<void> => {
  if (Cause.isInterruptedOnly(cause)) return Effect.void
  return Option.match(Cause.failureOption(cause), {
    onNone: () => Output.problem(`this is a bug: ${Cause.pretty(cause)}`),
    onSome: (error) => {
      // `@effect/cli` has already said what it found wrong.
      if (ValidationError.isValidationError(error)) return Effect.void
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
