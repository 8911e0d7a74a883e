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
  /** One letter that may be written in place of its name. */
  readonly alias?: string
  readonly required?: boolean
  readonly repeated?: boolean
  readonly description: string
}

export interface Argument {
  readonly name: string
  /** For the last one only. */
  readonly repeated?: boolean
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

export const check = {
  description:
    "Check skills: every problem that a registry or a container would have with them, and what to know besides.",
  arguments: [
    {
      name: "dir|zip|files",
      repeated: true,
      description: "Directories and ZIP archives, each of which is a skill; or the files of one skill"
    }
  ],
  flags: {
    policy: {
      value: "seed|agent-skills",
      description: "The rules beyond those of every skill (default: seed, the registry's own)"
    },
    json,
    sarif: { description: "Print one SARIF 2.1.0 log, as code hosts take it" }
  },
  commands: {},
  example: "agent-contracts skills check skills/greeting"
} as const satisfies Command

export const pack = {
  description: "Pack a skill as the archive that a registry stores, and print its digest.",
  arguments: [{ name: "dir|zip", description: "The skill's directory, or a ZIP archive of it" }],
  flags: {
    output: {
      value: "file",
      alias: "o",
      description: "Where the archive is written (default: the skill's name and .zip, in the working directory)"
    },
    json
  },
  commands: {},
  example: "agent-contracts skills pack skills/greeting -o greeting.zip"
} as const satisfies Command

/** How the commands that talk to a registry's management find it. */
const connection = {
  flags: {
    "api-url": { value: "url", description: "The registry (default: INTELLIGENCE_API_URL)" },
    "key-file": { value: "file", description: "A file with the API key (default: CPK_INTELLIGENCE_API_KEY)" },
    json
  },
  variables: {
    INTELLIGENCE_API_URL: "The registry",
    CPK_INTELLIGENCE_API_KEY: "The API key, which no flag takes"
  }
} as const

/** How the commands that acquire skills find and ask the registry. */
const delivery = {
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
    "key-file": connection.flags["key-file"],
    timeout: {
      value: "seconds",
      description: "What a check may take, verification included (default: 5); raise it when it ends in TIMEOUT"
    }
  },
  variables: {
    ...connection.variables,
    CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "The container",
    CPK_INTELLIGENCE_SKILLS_REVISION: "The revision to pin that container to; not read with --container",
    AGENT_CONTRACTS_SKILLS_CACHE_DIR: "Where snapshots are kept between runs; nothing is kept without it"
  }
} as const

export const acquire = {
  description: "Acquire skills from a registry: the catalog that a model sees, and the status of the delivery.",
  flags: {
    ...delivery.flags,
    watch: { description: "Check every 5 seconds and print what changes, until interrupted" },
    json
  },
  variables: delivery.variables,
  commands: {},
  example: "agent-contracts skills acquire --container team --watch"
} as const satisfies Command

export const sync = {
  description: "Make a directory hold the skills that a registry delivers, each in a directory of its own.",
  flags: {
    ...delivery.flags,
    dir: { value: "directory", required: true, description: "The skills directory, such as .claude/skills" },
    within: {
      value: "directory",
      description: "Below it no link is followed (default: the working directory, or the parent of a --dir elsewhere)"
    },
    watch: { description: "Go on: ask and prove the directory every 5 seconds, until interrupted" },
    "keep-on-denial": {
      description:
        "Leave the skills in place when the registry denies them, as it does of a wrong --container or --revision (default: remove them)"
    },
    json
  },
  variables: delivery.variables,
  commands: {},
  example: "agent-contracts skills sync --container team --dir .claude/skills"
} as const satisfies Command

export const publish = {
  description: "Publish a skill: upload it, and publish the container with it in place of the one of its name.",
  arguments: [{ name: "dir|zip", description: "The skill's directory, or a ZIP archive of it" }],
  flags: {
    container: { value: "id", required: true, description: "The container to publish; no variable names it" },
    create: { description: "Create the container if the registry has none of this id" },
    skill: {
      value: "id",
      description: "The skill that gets a version (default: the container's of this name, or else a new one)"
    },
    ...connection.flags
  },
  variables: connection.variables,
  commands: {},
  example: "agent-contracts skills publish skills/greeting --container team"
} as const satisfies Command

export const unpublish = {
  description: "Take a skill out of a container: publish it without the skill, which the registry keeps.",
  arguments: [{ name: "name", description: "The skill's name" }],
  flags: {
    container: { value: "id", required: true, description: "The container to publish" },
    ...connection.flags
  },
  variables: connection.variables,
  commands: {},
  example: "agent-contracts skills unpublish greeting --container team"
} as const satisfies Command

export const serve = {
  description: "Run a registry until it is interrupted; running requests are finished then.",
  flags: {
    port: { value: "number", description: "The port (default: 4400); 0 is any free one" },
    host: { value: "address", description: "The address to listen on (default: 127.0.0.1)" },
    data: {
      value: "directory",
      description: "Where all is kept (default: registry-data); with PostgreSQL, where the first admin key is written"
    },
    "database-url": {
      value: "url",
      description: "Keeps all in this PostgreSQL; prefer the variable, since others may see a command line"
    },
    json
  },
  variables: {
    AGENT_CONTRACTS_DATABASE_URL: "The PostgreSQL that keeps all, such as postgres://registry@db/registry"
  },
  commands: {},
  example: "agent-contracts registry serve --data /var/lib/registry"
} as const satisfies Command

export const keyCreate = {
  description: "Issue an API key, which is shown this once.",
  flags: {
    name: { value: "text", required: true, description: "What it is for" },
    scope: { value: "read|publish|admin", description: "What it may do, each with what is before it (default: read)" },
    container: {
      value: "id",
      repeated: true,
      description: "A container that it may read; repeat it for several (default: all)"
    },
    ...connection.flags
  },
  variables: connection.variables,
  commands: {},
  example: "agent-contracts registry key create --name ci --scope publish"
} as const satisfies Command

export const keyList = {
  description: "List the API keys, the revoked ones too.",
  ...connection,
  commands: {},
  example: "agent-contracts registry key list"
} as const satisfies Command

export const keyRevoke = {
  description: "Revoke an API key; every server refuses it within a second.",
  arguments: [{ name: "key-id", description: "The key's id, as it is listed" }],
  ...connection,
  commands: {},
  example: "agent-contracts registry key revoke 1f0a3c5e7b9d2f4a6c"
} as const satisfies Command

export const containerCreate = {
  description: "Create a container, or give one that is there another title.",
  arguments: [{ name: "container", description: "The container's id" }],
  flags: { title: { value: "text", description: "What people read" }, ...connection.flags },
  variables: connection.variables,
  commands: {},
  example: "agent-contracts registry container create team"
} as const satisfies Command

export const containerList = {
  description: "List the containers with their latest revisions.",
  ...connection,
  commands: {},
  example: "agent-contracts registry container list"
} as const satisfies Command

export const containerEnable = {
  description: "Deliver a container's skills again.",
  arguments: [{ name: "container", description: "The container's id" }],
  ...connection,
  commands: {},
  example: "agent-contracts registry container enable team"
} as const satisfies Command

export const containerDisable = {
  description: "Deliver a container's skills to nobody; every server refuses them within a second.",
  arguments: [{ name: "container", description: "The container's id" }],
  ...connection,
  commands: {},
  example: "agent-contracts registry container disable team"
} as const satisfies Command

export const revisions = {
  description: "List a container's revisions, newest first.",
  arguments: [{ name: "container", description: "The container's id" }],
  ...connection,
  commands: {},
  example: "agent-contracts registry revisions team"
} as const satisfies Command

export const revoke = {
  description: "Revoke a revision; every server refuses it within a second.",
  arguments: [
    { name: "container", description: "The container's id" },
    { name: "revision", description: "The revision, as it is listed, or its first digits: eight or more" }
  ],
  ...connection,
  commands: {},
  example: "agent-contracts registry revoke team 6088acbbd926c11d6839f6b6ed45158fe85515a8d3114584c324c2a180d63084"
} as const satisfies Command

export const conformanceRun = {
  description: "Run fixture files against this implementation; without any, the project's own.",
  flags: {
    snapshots: { value: "file", description: "A snapshots.v1.json to run" },
    lifecycle: {
      value: "file",
      description: "A lifecycle.v1.json to run; its replies name cases of the snapshot file"
    },
    runner: {
      value: "dir",
      description: "A directory of the runner protocol to run: manifest.json, schemas/ and fixtures/"
    },
    json
  },
  commands: {},
  example: "agent-contracts conformance run --snapshots snapshots.v1.json"
} as const satisfies Command

export const skills = {
  description: "Learned skills: check, pack and publish them, acquire them from a registry, verify its archives.",
  flags: {},
  commands: { check, pack, publish, unpublish, acquire, sync, verify },
  example: verify.example
} as const satisfies Command

export const key = {
  description: "The API keys of a registry.",
  flags: {},
  commands: { create: keyCreate, list: keyList, revoke: keyRevoke },
  example: keyCreate.example
} as const satisfies Command

export const container = {
  description: "The containers of a registry.",
  flags: {},
  commands: { create: containerCreate, list: containerList, enable: containerEnable, disable: containerDisable },
  example: containerCreate.example
} as const satisfies Command

export const registry = {
  description: "A registry of skills: run it, and manage one that runs.",
  flags: {},
  commands: { serve, key, container, revisions, revoke },
  example: serve.example
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
  commands: { skills, registry, conformance },
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
      const unexpected = expected.at(-1)?.repeated === true ? undefined : operands[expected.length]
      if (unexpected !== undefined) return wrong(path, `unexpected argument '${unexpected}'`)
      // After `--` an operand is never taken for a flag, nor for the value of a switch.
      const forced = operands.length === 0 ? [] : ["--", ...operands]
      const absent = Object.entries(command.flags).find(
        ([name, { required = false }]) => required && !flags.some((given) => given.name === name)
      )
      if (absent !== undefined) return wrong(path, `${flagUsage(...absent)} is missing`)
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
      const name = longName(command, flag) ?? flag.replace(/^--/, "")
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

const longName = ({ flags }: Command, short: string): string | undefined =>
  Object.entries(flags).find(([, { alias }]) => alias !== undefined && short === `-${alias}`)?.[0]

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
  "1": "It is bad: an archive, a skill, a case, an acquire or a sync that failed, what a registry refused",
  "2": "The command was used wrongly: a flag, a file, or a setting",
  "70": "A bug of the command",
  "130": "Interrupted (SIGINT), as a watch ends; 143 when terminated (SIGTERM)",
  "141": "Nobody reads the output any more"
}

const help = (path: ReadonlyArray<string>, command: Command): ReadonlyArray<string> => {
  const flags = Object.entries(command.flags).map(([name, flag]) => [flagTerm(name, flag), flag.description] as const)
  const operands =
    command.arguments?.map(
      ({ description, name, repeated = false }) => [`<${name}>${repeated ? "..." : ""}`, description] as const
    ) ?? []
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

const flagTerm = (name: string, flag: Flag): string =>
  flag.alias === undefined ? flagUsage(name, flag) : `-${flag.alias}, ${flagUsage(name, flag)}`

const optional = (usage: string, { repeated, required }: Flag): string =>
  required === true ? usage : `[${usage}]${repeated === true ? "..." : ""}`

type Rows = ReadonlyArray<readonly [string, string]>

/** The commands that run something, by their words after this one's. */
const leaves = ({ commands }: Command): Rows =>
  Object.entries(commands).flatMap(
    ([word, command]): Rows =>
      isLeaf(command)
        ? [[word, command.description]]
        : leaves(command).map(([words, description]) => [`${word} ${words}`, description])
  )

/** Each once, however many commands read it. */
const variables = (command: Command): Rows => {
  const all = (command: Command): Rows => [
    ...Object.entries(command.variables ?? {}),
    ...Object.values(command.commands).flatMap(all)
  ]
  return Arr.dedupeWith(all(command), ([left], [right]) => left === right)
}

const section = (title: string, rows: Rows): ReadonlyArray<string> => {
  const width = Math.max(...rows.map(([term]) => term.length))
  return rows.length === 0 ? [] : ["", title, ...rows.map(([term, text]) => `  ${term.padEnd(width)}  ${text}`)]
}
