import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as CommandLine from "../../support/CommandLine.js"
import * as Program from "../../support/Program.js"

const key = "key-that-nobody-must-see"

describe("help", () => {
  it.live.each([["--help"], ["skills", "--help"], ["skills", "acquire", "--help"], ["--version"]])(
    "%j prints to standard output without colours",
    (args) =>
      Effect.gen(function* () {
        const ended = yield* CommandLine.run(args)
        expect(ended).toMatchObject({ code: 0, stderr: "" })
        expect(ended.stdout).toMatch(/agent-contracts|^0\.\d+\.\d+/)
        expect(ended.stdout).not.toContain("\u001b")
      })
  )

  it.live.each(["", "skills", "conformance"])("%j alone is used wrongly: its help on standard error", (group) =>
    Effect.gen(function* () {
      const args = group === "" ? [] : [group]
      const { stdout } = yield* CommandLine.run([...args, "--help"])
      const ended = yield* CommandLine.run(args)
      expect(ended).toEqual({ code: 2, stdout: "", stderr: `agent-contracts: a command is missing\n\n${stdout}` })
    })
  )

  it.live.each(["bash", "zsh", "fish"])("completions for %s", (shell) =>
    Effect.gen(function* () {
      const ended = yield* CommandLine.run(["--completions", shell])
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout).toContain("agent-contracts")
      expect(ended.stdout).toContain("etag")
      const lines = ended.stdout.split("\n")
      const naming = (flag: string) => lines.filter((line) => new RegExp(`(?:--|-l )${flag}(?![\\w)])`).test(line))
      expect([...naming("wizard"), ...naming("log-level")]).toEqual([])
      // Those of the command itself, and of no command below it.
      expect(naming("completions")).toHaveLength(1)
      expect(naming("version")).toHaveLength(1)
    })
  )
})

describe("around a command", () => {
  /** Runs it in a shell, as its last words. */
  const shell = (script: string, ...args: ReadonlyArray<string>) =>
    Program.execute("bash", ["--norc", "-c", script, "bash", process.execPath, CommandLine.bundle, ...args], {
      PATH: process.env["PATH"] ?? ""
    })

  it.live("a pipe in place of a file is said to be one, whether or not anybody writes to it", () =>
    Effect.gen(function* () {
      const piped = yield* shell('cat package.json | "$@"', "skills", "verify", "/dev/stdin")
      expect(piped).toEqual({
        code: 2,
        stdout: "",
        stderr: "agent-contracts: cannot read /dev/stdin: is a pipe; save what it gives in a file\n"
      })
      const idle = 'd=$(mktemp -d) && mkfifo "$d/f.zip" && { "$@" "$d/f.zip"; code=$?; rm -r "$d"; exit "$code"; }'
      expect(yield* shell(idle, "skills", "check")).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("is a pipe")
      })
    })
  )

  it.live("a disk that is full is no reader that is gone", () =>
    Effect.gen(function* () {
      expect(yield* shell('exec "$@" > /dev/full', "skills", "--help")).toEqual({
        code: 1,
        stdout: "",
        stderr: "agent-contracts: OUTPUT_FAILED: The standard output cannot be written: ENOSPC.\n"
      })
    })
  )

  it.live("a working directory that was removed is said to be gone", () =>
    Effect.gen(function* () {
      const removed = 'd=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$@"'
      expect(yield* shell(removed, "skills", "check", "greeting")).toEqual({
        code: 2,
        stdout: "",
        stderr: "agent-contracts: the working directory is no longer there\n"
      })
    })
  )

  it.live("the help of a group names each variable once", () =>
    Effect.gen(function* () {
      const { stdout } = yield* CommandLine.run(["registry", "--help"])
      expect(stdout.match(/^ {2}CPK_INTELLIGENCE_API_KEY /gm)).toHaveLength(1)
    })
  )
})

describe("a command that is used wrongly exits with 2, says so on standard error and prints no result", () => {
  const settings = { INTELLIGENCE_API_URL: "http://127.0.0.1:1", CPK_INTELLIGENCE_API_KEY: key }
  const cases: ReadonlyArray<{
    readonly name: string
    readonly args: ReadonlyArray<string>
    readonly env?: Readonly<Record<string, string>>
    readonly says: string
  }> = [
    { name: "an unknown command", args: ["skill"], says: "unknown command 'skill' (did you mean skills?)" },
    {
      name: "an unknown flag",
      args: ["skills", "verify", "x.zip", "--bogus"],
      says: "unknown option '--bogus'; see agent-contracts skills verify --help"
    },
    {
      name: "an unknown flag before the archive",
      args: ["skills", "verify", "--nope", "package.json"],
      says: "unknown option '--nope'"
    },
    { name: "a misspelled flag", args: ["skills", "verify", "x.zip", "--jsn"], says: "(did you mean --json?)" },
    { name: "a flag without its value", args: ["skills", "verify", "x.zip", "--etag"], says: "--etag needs a value" },
    {
      name: "a flag in place of a value",
      args: ["skills", "acquire", "--api-url", "--json"],
      says: "--api-url needs a value"
    },
    { name: "no archive", args: ["skills", "verify"], says: "archive.zip" },
    { name: "two archives", args: ["skills", "verify", "package.json", "package.json"], says: "package.json" },
    { name: "an archive that does not exist", args: ["skills", "verify", "no-such.zip"], says: "no-such.zip: ENOENT" },
    { name: "an empty path", args: ["skills", "verify", ""], says: 'cannot read "": ENOENT' },
    { name: "a directory as archive", args: ["skills", "verify", "src"], says: "cannot read src: is a directory\n" },
    {
      name: "a directory as fixture file",
      args: ["conformance", "run", "--snapshots", "src"],
      says: "cannot read src: is no file\n"
    },
    {
      name: "an ETag that cannot be one",
      args: ["skills", "verify", "package.json", "--etag", "abc"],
      says: "--etag takes 64 lower-case hex digits"
    },
    {
      name: "a weak ETag",
      args: ["skills", "verify", "package.json", "--etag", `W/"${"0".repeat(64)}"`],
      says: "--etag takes 64 lower-case hex digits"
    },
    {
      name: "a fixture file that does not exist",
      args: ["conformance", "run", "--snapshots", "no.json"],
      says: "no.json"
    },
    {
      name: "a fixture file that is none",
      args: ["conformance", "run", "--snapshots", "package.json"],
      says: "contract"
    },
    {
      name: "a fixture file that is not JSON",
      args: ["conformance", "run", "--lifecycle", "LICENSE"],
      says: "not JSON"
    },
    {
      name: "a lifecycle file as snapshot file",
      args: ["conformance", "run", "--snapshots", "fixtures/lifecycle.v1.json"],
      says: "fixtures/lifecycle.v1.json is a lifecycle file, not a snapshot file: give it with --lifecycle\n"
    },
    {
      name: "a snapshot file as lifecycle file",
      args: ["conformance", "run", "--lifecycle", "fixtures/snapshots.v1.json"],
      says: "fixtures/snapshots.v1.json is a snapshot file, not a lifecycle file: give it with --snapshots\n"
    },
    {
      name: "--revision with several containers",
      args: ["skills", "acquire", "--container", "a", "--container", "b", "--revision", "r"],
      env: settings,
      says: "--revision"
    },
    {
      name: "no settings",
      args: ["skills", "acquire"],
      says: "INVALID_CONFIG: set INTELLIGENCE_API_URL or give --api-url; set CPK_INTELLIGENCE_API_KEY or give --key-file; set CPK_INTELLIGENCE_LEARNING_CONTAINER_ID or give --container\n"
    },
    {
      name: "no API key",
      args: ["skills", "acquire", "--container", "a", "--api-url", "http://127.0.0.1:1"],
      says: "INVALID_CONFIG: set CPK_INTELLIGENCE_API_KEY or give --key-file\n"
    },
    {
      name: "a blank API key",
      args: ["skills", "acquire", "--container", "a"],
      env: { ...settings, CPK_INTELLIGENCE_API_KEY: " " },
      says: "INVALID_CONFIG: CPK_INTELLIGENCE_API_KEY: is empty, or has a space"
    },
    {
      name: "no API URL",
      args: ["skills", "acquire", "--container", "a"],
      env: { CPK_INTELLIGENCE_API_KEY: key },
      says: "INVALID_CONFIG: set INTELLIGENCE_API_URL or give --api-url\n"
    },
    {
      name: "an API URL of another scheme",
      args: ["skills", "acquire", "--container", "a", "--api-url", "ftp://127.0.0.1"],
      env: settings,
      says: "INVALID_CONFIG: --api-url: "
    },
    {
      name: "an API URL of another scheme in the environment",
      args: ["skills", "acquire", "--container", "a"],
      env: { ...settings, INTELLIGENCE_API_URL: "ftp://127.0.0.1" },
      says: "INVALID_CONFIG: INTELLIGENCE_API_URL: "
    },
    {
      name: "no container",
      args: ["skills", "acquire"],
      env: settings,
      says: "INVALID_CONFIG: set CPK_INTELLIGENCE_LEARNING_CONTAINER_ID or give --container\n"
    },
    {
      name: "a blank container",
      args: ["skills", "acquire", "--container", " "],
      env: settings,
      says: "INVALID_CONFIG: --container: "
    },
    {
      name: "an empty container, where the environment has one",
      args: ["skills", "acquire", "--container", ""],
      env: { ...settings, CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "other" },
      says: "--container"
    },
    {
      name: "an empty container behind a sign",
      args: ["skills", "acquire", "--container="],
      env: { ...settings, CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "other" },
      says: "--container"
    },
    {
      name: "a container given twice",
      args: ["skills", "acquire", "--container", "a", "--container", "a"],
      env: settings,
      says: "INVALID_CONFIG: --container: "
    },
    {
      name: "the API key as a flag",
      args: ["skills", "acquire", `--api-key=${key}`],
      env: settings,
      says: "unknown option '--api-key'"
    },
    {
      name: "a revision that cannot be one",
      args: ["skills", "acquire", "--container", "a", "--revision", " "],
      env: settings,
      says: "INVALID_CONFIG: --revision: "
    },
    {
      name: "an empty revision in the environment",
      args: ["skills", "acquire"],
      env: {
        ...settings,
        CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "a",
        CPK_INTELLIGENCE_SKILLS_REVISION: ""
      },
      says: "; correct it or unset it\n"
    },
    {
      name: "an API URL without its scheme",
      args: ["skills", "acquire", "--container", "a", "--api-url", "127.0.0.1:4400"],
      env: settings,
      says: "INVALID_CONFIG: --api-url: must begin with http:// or https://\n"
    },
    ...["0", "-1", "5s"].map((seconds) => ({
      name: `a timeout of ${seconds}`,
      args: ["skills", "acquire", "--container", "a", `--timeout=${seconds}`],
      env: settings,
      says: "--timeout takes a number of seconds above 0"
    }))
  ]
  for (const { args, env = {}, name, says } of cases) {
    it.live(name, () =>
      Effect.gen(function* () {
        const ended = yield* CommandLine.run(args, env)
        expect(ended).toMatchObject({ code: 2, stdout: "" })
        expect(ended.stderr).toContain(says)
        expect(ended.stderr).toMatch(/^agent-contracts: .*[^\n]\n$/s)
        expect(ended.stderr).not.toContain(key)
        expect(ended.stderr).not.toContain("    at ")
      })
    )
  }
})
