/**
 * What the commands are called and take: the texts of `--help`, and the check of a command line before it is parsed.
 *
 * `@effect/cli` parses and completes. Of a flag that it does not know it says nothing, but refuses the argument after it; and
 * its help leaves out the parents of a command. So both are done here, from one description.
 *
 * @module
 */
import * as AutoCorrect from "@effect/cli/AutoCorrect"
import * as CliConfig from "@effect/cli/CliConfig"
import { Array as Arr, Either, Order, Record } from "effect"
import { UsageError } from "./CliError.js"

export interface Flag {
  /** What stands for its value in a help text; a flag without is a switch. */
  readonly value?: string
  readonly repeated?: boolean
  readonly description: string
}

export interface Argument {
  readonly name: string
  readonly description: string
}

export interface Command {
  readonly description: string
  /** All are required. */
  readonly arguments?: ReadonlyArray<Argument>
  readonly flags: Readonly<Record<string, Flag>>
  readonly variables?: Readonly<Record<string, string>>
  readonly commands: Readonly<Record<string, Command>>
  readonly example: string
}

const json: Flag = { description: "Print JSON, one value a line" }

export const verify = {
  description: "Verify an archive: the verdict, and its skills and files with their sizes and SHA-256 digests.",
  arguments: [{ name: "archive.zip", description: "The archive to verify" }],
  flags: {
    revision: { value: "id", description: "The revision that the archive must be of" },
    etag: {
      value: "sha256",
      description: "The ETag that the archive must have: 64 lower-case hex digits, with or without its quotes"
    },
    json
  },
  commands: {},
  example: "agent-contracts skills verify skills.zip --revision r7"
} as const satisfies Command

export const acquire = {
  description: "Acquire skills from a registry: the catalog that a model sees, and the status of the delivery.",
  flags: {
    "api-url": { value: "url", description: "The registry (default: INTELLIGENCE_API_URL)" },
    container: {
      value: "id",
      repeated: true,
      description: "A container; repeat it for a list (default: CPK_INTELLIGENCE_LEARNING_CONTAINER_ID)"
    },
    revision: {
      value: "id",
      description:
        "Pins the one container to a revision (default: CPK_INTELLIGENCE_SKILLS_REVISION, without --container only)"
    },
    timeout: {
      value: "seconds",
      description: "What a check may take, verification included (default: 5); raise it when it ends in TIMEOUT"
    },
    watch: { description: "Check every 5 seconds and print what changes, until interrupted" },
    json
  },
  variables: {
    INTELLIGENCE_API_URL: "The registry",
    CPK_INTELLIGENCE_API_KEY: "The API key, which no flag takes",
    CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "The container",
    CPK_INTELLIGENCE_SKILLS_REVISION: "The revision to pin that container to; not read with --container",
    AGENT_CONTRACTS_SKILLS_CACHE_DIR: "Where snapshots are kept between runs; nothing is kept without it"
  },
  commands: {},
  example: "agent-contracts skills acquire --container team --watch"
} as const satisfies Command

export const conformanceRun = {
  description: "Run fixture files against this implementation; without any, the project's own.",
  flags: {
    snapshots: { value: "file", description: "A snapshots.v1.json to run" },
    lifecycle: {
      value: "file",
      description: "A lifecycle.v1.json to run; its replies name cases of the snapshot file"
    },
    json
  },
  commands: {},
  example: "agent-contracts conformance run --snapshots snapshots.v1.json"
} as const satisfies Command

export const skills = {
  description: "Learned skills: verify an archive, acquire from a registry.",
  flags: {},
  commands: { verify, acquire },
  example: verify.example
} as const satisfies Command

export const conformance = {
  description: "Language-neutral fixtures of the contracts.",
  flags: {},
  commands: { run: conformanceRun },
  example: conformanceRun.example
} as const satisfies Command

export const root = {
  description: "The contracts that an agent runtime keeps.",
  flags: {
    completions: { value: "bash|fish|zsh", description: "Print the completions of a shell" },
    version: { description: "Print the version" }
  },
  commands: { skills, conformance },
  example: "agent-contracts skills verify skills.zip"
} as const satisfies Command

export const name = "agent-contracts"

/** What a command line asks for. */
export type Request =
  | { readonly _tag: "Help"; readonly lines: ReadonlyArray<string> }
  | { readonly _tag: "Version" }
  | { readonly _tag: "Completions"; readonly shell: string }
  /**
   * The arguments in a form that has one meaning only, without the flags that may be repeated: of those `@effect/cli` drops
   * a value that looks like a flag.
   */
  | { readonly _tag: "Run"; readonly args: ReadonlyArray<string>; readonly repeated: Repeated }

/** The values of each flag that may be repeated, by its name. */
export type Repeated = Readonly<Record<string, ReadonlyArray<string>>>

/** Arguments after the program's name -> what they ask for, or the first that is wrong. */
export const parse = (args: ReadonlyArray<string>): Either.Either<Request, UsageError> => {
  let command: Command = root
  const path = [name]
  const rest = [...args]
  for (let word = rest[0]; word !== undefined && !isFlag(word) && !isLeaf(command); word = rest[0]) {
    const next: Command | undefined = own(command.commands, word)
    if (next === undefined) return wrong(path, `unknown command '${word}'${suggestion(word, command.commands, "")}`)
    command = next
    path.push(word)
    rest.shift()
  }
  const [before] = Arr.span(rest, (word) => word !== "--")
  if (before.includes("--help") || before.includes("-h")) {
    return Either.right({ _tag: "Help", lines: help(path, command) })
  }
  return Either.flatMap(readFlags(path, command, rest), ({ flags, operands }): Either.Either<Request, UsageError> => {
    if (isLeaf(command)) {
      const { arguments: expected = [] } = command
      const missing = expected[operands.length]
      if (missing !== undefined) return wrong(path, `<${missing.name}> is missing`)
      const unexpected = operands[expected.length]
      if (unexpected !== undefined) return wrong(path, `unexpected argument '${unexpected}'`)
      // After `--` an operand is never taken for a flag, nor for the value of a switch.
      const forced = operands.length === 0 ? [] : ["--", ...operands]
      const [single, repeated] = Arr.partition(flags, ({ name }) => own(command.flags, name)?.repeated === true)
      return Either.right({
        _tag: "Run",
        args: [...path.slice(1), ...single.flatMap(formatFlag), ...forced],
        repeated: valuesOf(repeated)
      })
    }
    for (const { name, value } of flags) {
      if (name === "version") return Either.right({ _tag: "Version" })
      if (value !== undefined) return Either.right({ _tag: "Completions", shell: value })
    }
    return Either.left(new UsageError({ message: ["a command is missing", "", ...help(path, command)].join("\n") }))
  })
}

interface GivenFlag {
  readonly name: string
  readonly value: string | undefined
}

interface Given {
  readonly flags: ReadonlyArray<GivenFlag>
  readonly operands: ReadonlyArray<string>
}

const readFlags = (
  path: ReadonlyArray<string>,
  command: Command,
  args: ReadonlyArray<string>
): Either.Either<Given, UsageError> => {
  const flags: Array<GivenFlag> = []
  const operands: Array<string> = []
  const rest = [...args]
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--") {
      operands.push(...rest.splice(0))
    } else if (!isFlag(word)) {
      operands.push(word)
    } else {
      const equals = word.indexOf("=")
      // What follows the sign is not shown: it may be a key that somebody tried to give.
      const flag = equals === -1 ? word : word.slice(0, equals)
      const name = flag.replace(/^--/, "")
      const known = own(command.flags, name)
      if (known === undefined) return wrong(path, `unknown option '${flag}'${suggestion(name, command.flags, "--")}`)
      if (known.repeated !== true && flags.some((given) => given.name === name)) {
        return wrong(path, `${flag} is given more than once`)
      }
      let value = equals === -1 ? undefined : word.slice(equals + 1)
      if (known.value === undefined) {
        if (value !== undefined) return wrong(path, `${flag} takes no value`)
      } else if (value === undefined) {
        value = rest[0] === undefined || isFlag(rest[0]) ? undefined : rest.shift()
        if (value === undefined) return wrong(path, `${flag} needs a value`)
      }
      // An unset variable of a shell: what the environment says instead must not be taken for what was asked.
      if (value === "") return wrong(path, `${flag} has an empty value`)
      flags.push({ name, value })
    }
  }
  return Either.right({ flags, operands })
}

/**
 * Only after a sign does `@effect/cli` take a value that looks like a flag, and only as a word of its own one with line
 * breaks.
 */
const formatFlag = ({ name, value }: GivenFlag): ReadonlyArray<string> => {
  if (value === undefined) return [`--${name}`]
  return isFlag(value) ? [`--${name}=${value}`] : [`--${name}`, value]
}

const valuesOf = (flags: ReadonlyArray<GivenFlag>): Repeated =>
  Record.map(
    Arr.groupBy(flags, ({ name }) => name),
    (given) => given.flatMap(({ value = [] }) => value)
  )

const isFlag = (word: string): boolean => word.length > 1 && word.startsWith("-")

const isLeaf = ({ commands }: Command): boolean => Object.keys(commands).length === 0

const own = <A>(members: Readonly<Record<string, A>>, key: string): A | undefined =>
  Object.hasOwn(members, key) ? members[key] : undefined

const wrong = (path: ReadonlyArray<string>, problem: string): Either.Either<never, UsageError> =>
  Either.left(new UsageError({ message: `${problem}; see ${path.join(" ")} --help` }))

/** The name that was probably meant. */
const suggestion = (word: string, names: Readonly<Record<string, unknown>>, prefix: string): string => {
  const distance = (name: string) => AutoCorrect.levensteinDistance(word, name, CliConfig.defaultConfig)
  const [nearest] = Arr.sortWith(Object.keys(names), distance, Order.number)
  return nearest !== undefined && distance(nearest) <= CliConfig.defaultConfig.autoCorrectLimit
    ? ` (did you mean ${prefix}${nearest}?)`
    : ""
}

const exitCodes: Readonly<Record<string, string>> = {
  "0": "What was checked is good; a stale snapshot too",
  "1": "It is bad: an archive, a case, or an acquire that failed",
  "2": "The command was used wrongly: a flag, a file, or a setting",
  "70": "A bug of the command",
  "130": "Interrupted (SIGINT), as a watch ends; 143 when terminated (SIGTERM)",
  "141": "Nobody reads the output any more"
}

const help = (path: ReadonlyArray<string>, command: Command): ReadonlyArray<string> => {
  const flags = Object.entries(command.flags).map(([name, flag]) => [flagUsage(name, flag), flag.description] as const)
  const operands = command.arguments?.map(({ description, name }) => [`<${name}>`, description] as const) ?? []
  const usage = isLeaf(command)
    ? [
        ...Object.entries(command.flags).map(([name, flag]) => optional(flagUsage(name, flag), flag)),
        ...operands.map(([term]) => term)
      ]
    : ["<command>"]
  return [
    command.description,
    "",
    "USAGE",
    `  $ ${[...path, ...usage].join(" ")}`,
    ...section("COMMANDS", leaves(command)),
    ...section("ARGUMENTS", operands),
    ...section("OPTIONS", [...flags, ["-h, --help", "Print this help"]]),
    ...section("ENVIRONMENT", variables(command)),
    ...section("EXIT CODES", Object.entries(exitCodes)),
    "",
    "EXAMPLE",
    `  $ ${command.example}`
  ]
}

const flagUsage = (name: string, { value }: Flag): string => `--${name}${value === undefined ? "" : ` <${value}>`}`

const optional = (usage: string, { repeated }: Flag): string => `[${usage}]${repeated === true ? "..." : ""}`

type Rows = ReadonlyArray<readonly [string, string]>

/** The commands that run something, by their words after this one's. */
const leaves = ({ commands }: Command): Rows =>
  Object.entries(commands).flatMap(
    ([word, command]): Rows =>
      isLeaf(command)
        ? [[word, command.description]]
        : leaves(command).map(([words, description]) => [`${word} ${words}`, description])
  )

const variables = (command: Command): Rows => [
  ...Object.entries(command.variables ?? {}),
  ...Object.values(command.commands).flatMap(variables)
]

const section = (title: string, rows: Rows): ReadonlyArray<string> => {
  const width = Math.max(...rows.map(([term]) => term.length))
  return rows.length === 0 ? [] : ["", title, ...rows.map(([term, text]) => `  ${term.padEnd(width)}  ${text}`)]
}
