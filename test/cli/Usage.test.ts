import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"
import fc from "fast-check"
import * as Usage from "../../src/cli/Usage.js"

const request = (...args: ReadonlyArray<string>) => Either.getOrThrow(Usage.parse(args))

const problem = (...args: ReadonlyArray<string>) => Either.getOrThrow(Either.flip(Usage.parse(args))).message

const help = (...args: ReadonlyArray<string>) => {
  const asked = request(...args)
  return asked._tag === "Help" ? asked.lines : []
}

describe("what is wrong with a command line is said of the argument at fault", () => {
  it.each([
    [["skills", "verify", "--nope", "good.zip"], "unknown option '--nope'; see agent-contracts skills verify --help"],
    [["skills", "verify", "-x", "good.zip"], "unknown option '-x'; see agent-contracts skills verify --help"],
    [["skills", "verify", "a.zip", "--revison=r"], "unknown option '--revison' (did you mean --revision?)"],
    [["skills", "verify", "--constructor"], "unknown option '--constructor'"],
    [["skills", "constructor"], "unknown command 'constructor'; see agent-contracts skills --help"],
    [["skill", "verify"], "unknown command 'skill' (did you mean skills?); see agent-contracts --help"],
    [["skill", "--help"], "unknown command 'skill'"],
    [["skills", "verify"], "<archive.zip> is missing"],
    [["skills", "check"], "<dir|zip|files> is missing"],
    [["skills", "sync", "--watch"], "--dir <directory> is missing; see agent-contracts skills sync --help"],
    [["skills", "publish", "a"], "--container <id> is missing; see agent-contracts skills publish --help"],
    [["skills", "unpublish", "greeting"], "--container <id> is missing; see agent-contracts skills unpublish --help"],
    [["skills", "unpublish", "--container", "team"], "<name> is missing"],
    [["registry", "key", "create"], "--name <text> is missing; see agent-contracts registry key create --help"],
    [["registry", "container", "enable"], "<container> is missing"],
    [["skills", "pack", "a", "-o"], "-o needs a value"],
    [["skills", "pack", "a", "-o", "b", "--output=c"], "--output is given more than once"],
    [["skills", "verify", "a.zip", "b.zip"], "unexpected argument 'b.zip'"],
    [["conformance", "run", "a.json"], "unexpected argument 'a.json'"],
    [["registry", "revoke", "team"], "<revision> is missing"],
    [["registry", "revoke", "team", "r1", "r2"], "unexpected argument 'r2'"],
    [["skills", "verify", "a.zip", "--revision"], "--revision needs a value"],
    [["skills", "acquire", "--container", "--json"], "--container needs a value"],
    [["skills", "acquire", "--container", ""], "--container has an empty value"],
    [["skills", "acquire", "--revision", "a", "--revision", "b"], "--revision is given more than once"],
    [["skills", "acquire", "--watch=yes"], "--watch takes no value"],
    [["--json", "skills", "verify", "a.zip"], "unknown option '--json'"],
    [["skills", "verify", "a.zip", "--wizard"], "unknown option '--wizard'"],
    [["skills", "acquire", "--log-level", "debug"], "unknown option '--log-level'"],
    [["--completions"], "--completions needs a value"]
  ])("%j", (args, message) => {
    expect(problem(...args)).toContain(message)
  })

  it("without the value of a flag that is none: it may be a key", () => {
    expect(problem("skills", "acquire", "--api-key=secret")).not.toContain("secret")
  })
})

describe("a good command line", () => {
  it.each([
    [["--version"], { _tag: "Version" }],
    [["--completions", "zsh"], { _tag: "Completions", shell: "zsh" }],
    [["skills", "acquire"], { _tag: "Run", args: ["skills", "acquire"], repeated: {} }],
    [
      ["skills", "check", "a", "--json", "b.zip"],
      { _tag: "Run", args: ["skills", "check", "--json", "--", "a", "b.zip"], repeated: {} }
    ],
    [
      ["skills", "pack", "-o", "b.zip", "a"],
      { _tag: "Run", args: ["skills", "pack", "--output", "b.zip", "--", "a"], repeated: {} }
    ],
    // A switch would take the word after it for its value.
    [
      ["skills", "verify", "--json", "true"],
      { _tag: "Run", args: ["skills", "verify", "--json", "--", "true"], repeated: {} }
    ],
    [
      ["skills", "verify", "--revision=-1", "--etag", "e", "--", "--odd.zip"],
      { _tag: "Run", args: ["skills", "verify", "--revision=-1", "--etag", "e", "--", "--odd.zip"], repeated: {} }
    ]
  ] as const)("%j", (args, expected) => {
    expect(request(...args)).toEqual(expected)
  })

  it("keeps every value as it was given, before or after a flag's sign", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 1 })), fc.boolean(), (ids, sign) => {
        const flags = ids.flatMap((id) => (sign || id.startsWith("-") ? [`--container=${id}`] : ["--container", id]))
        const run = request("skills", "acquire", ...flags)
        const repeated = ids.length === 0 ? {} : { container: ids }
        expect(run).toEqual({ _tag: "Run", args: ["skills", "acquire"], repeated })
      })
    )
  })
})

describe("help", () => {
  const commands: ReadonlyArray<readonly [ReadonlyArray<string>, Usage.Command]> = [
    [["skills", "check"], Usage.check],
    [["skills", "pack"], Usage.pack],
    [["skills", "acquire"], Usage.acquire],
    [["skills", "sync"], Usage.sync],
    [["skills", "verify"], Usage.verify],
    [["skills", "publish"], Usage.publish],
    [["skills", "unpublish"], Usage.unpublish],
    [["registry", "serve"], Usage.serve],
    [["registry", "key", "create"], Usage.keyCreate],
    [["registry", "key", "list"], Usage.keyList],
    [["registry", "key", "revoke"], Usage.keyRevoke],
    [["registry", "container", "create"], Usage.containerCreate],
    [["registry", "container", "list"], Usage.containerList],
    [["registry", "container", "enable"], Usage.containerEnable],
    [["registry", "container", "disable"], Usage.containerDisable],
    [["registry", "revisions"], Usage.revisions],
    [["registry", "revoke"], Usage.revoke],
    [["conformance", "run"], Usage.conformanceRun]
  ]
  it.each(commands)(
    "of %j: its whole name, every flag and variable, the exit codes and an example",
    (path, command) => {
      const lines = help(...path, "--help")
      expect(lines.find((line) => line.startsWith("  $ "))).toContain(`  $ agent-contracts ${path.join(" ")} `)
      const terms = [
        ...Object.entries(command.flags).map(([name, { alias }]) =>
          alias === undefined ? `  --${name} ` : `  -${alias}, --${name} `
        ),
        ...Object.keys(command.variables ?? {})
      ]
      for (const term of [...terms, "  130  Interrupted"]) {
        expect(
          lines.filter((line) => line.trimStart().startsWith(term.trimStart())),
          term
        ).toHaveLength(1)
      }
      expect(lines.slice(-2)).toEqual(["EXAMPLE", `  $ ${command.example}`])
      expect(help("-h")).toContainEqual(expect.stringContaining(command.description))
    }
  )

  it("shows what may be left out in brackets, and what may be repeated", () => {
    expect(help("skills", "acquire", "--help")).toContain(
      "  $ agent-contracts skills acquire [--api-url <url>] [--container <id>]... [--revision <id>] [--key-file <file>] [--timeout <seconds>] [--watch] [--json]"
    )
    expect(help("skills", "verify", "--help")).toContain(
      "  $ agent-contracts skills verify [--revision <id>] [--etag <sha256>] [--json] <archive.zip>"
    )
    expect(help("skills", "check", "--help")).toContain(
      "  $ agent-contracts skills check [--policy <seed|agent-skills>] [--json] [--sarif] <dir|zip|files>..."
    )
    expect(help("skills", "publish", "--help")).toContainEqual(expect.stringContaining(" --container <id> [--create] "))
    expect(help("registry", "key", "create", "--help")).toContainEqual(
      expect.stringContaining(" --name <text> [--scope ")
    )
    expect(help("skills", "sync", "--help")).toContainEqual(
      expect.stringContaining(" --dir <directory> [--within <directory>] [--watch] ")
    )
  })

  it("wins over whatever else is wrong, but not after --", () => {
    expect(help("skills", "verify", "--nope", "--help")).not.toEqual([])
    expect(request("skills", "verify", "--", "--help")).toMatchObject({ _tag: "Run" })
  })

  it.each([[], ["skills"], ["conformance"]])("of %j is the problem's text when the command is missing", (...path) => {
    expect(problem(...path)).toBe(["a command is missing", "", ...help(...path, "--help")].join("\n"))
  })

  it("examples are good command lines", () => {
    for (const [, { example }] of commands) {
      const [, ...args] = example.split(" ")
      expect(request(...args)).toMatchObject({ _tag: "Run" })
    }
  })
})
