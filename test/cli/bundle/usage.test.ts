import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as CommandLine from "../../support/CommandLine.js"

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

  it.live("the help of a command names every flag", () =>
    Effect.gen(function* () {
      const { stdout } = yield* CommandLine.run(["skills", "acquire", "--help"])
      for (const flag of ["--api-url", "--container", "--revision", "--watch", "--json"]) expect(stdout).toContain(flag)
    })
  )

  it.live.each(["bash", "zsh", "fish"])("completions for %s", (shell) =>
    Effect.gen(function* () {
      const ended = yield* CommandLine.run(["--completions", shell])
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout).toContain("agent-contracts")
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
    { name: "an unknown command", args: ["skill"], says: "skills" },
    { name: "an unknown flag", args: ["skills", "verify", "x.zip", "--bogus"], says: "--bogus" },
    { name: "a misspelled flag", args: ["skills", "verify", "x.zip", "--jsn"], says: "--jsn" },
    { name: "a flag without its value", args: ["skills", "verify", "x.zip", "--etag"], says: "--etag" },
    { name: "no archive", args: ["skills", "verify"], says: "archive.zip" },
    { name: "two archives", args: ["skills", "verify", "package.json", "package.json"], says: "package.json" },
    { name: "an archive that does not exist", args: ["skills", "verify", "no-such.zip"], says: "no-such.zip: ENOENT" },
    { name: "a directory as archive", args: ["skills", "verify", "src"], says: "src" },
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
      name: "--revision with several containers",
      args: ["skills", "acquire", "--container", "a", "--container", "b", "--revision", "r"],
      env: settings,
      says: "--revision"
    },
    {
      name: "no API key",
      args: ["skills", "acquire", "--container", "a", "--api-url", "http://127.0.0.1:1"],
      says: "INVALID_CONFIG: CPK_INTELLIGENCE_API_KEY"
    },
    {
      name: "a blank API key",
      args: ["skills", "acquire", "--container", "a"],
      env: { ...settings, CPK_INTELLIGENCE_API_KEY: " " },
      says: "INVALID_CONFIG: CPK_INTELLIGENCE_API_KEY"
    },
    {
      name: "no API URL",
      args: ["skills", "acquire", "--container", "a"],
      env: { CPK_INTELLIGENCE_API_KEY: key },
      says: "INVALID_CONFIG: INTELLIGENCE_API_URL"
    },
    {
      name: "an API URL of another scheme",
      args: ["skills", "acquire", "--container", "a", "--api-url", "ftp://127.0.0.1"],
      env: settings,
      says: "INVALID_CONFIG: INTELLIGENCE_API_URL"
    },
    {
      name: "no container",
      args: ["skills", "acquire"],
      env: settings,
      says: "INVALID_CONFIG: CPK_INTELLIGENCE_LEARNING_CONTAINER_ID"
    },
    {
      name: "a blank container",
      args: ["skills", "acquire", "--container", " "],
      env: settings,
      says: "INVALID_CONFIG"
    },
    {
      name: "a container given twice",
      args: ["skills", "acquire", "--container", "a", "--container", "a"],
      env: settings,
      says: "INVALID_CONFIG"
    },
    {
      name: "the API key as a flag",
      args: ["skills", "acquire", "--api-key", "abc"],
      env: settings,
      says: "--api-key"
    }
  ]
  for (const { args, env = {}, name, says } of cases) {
    it.live(name, () =>
      Effect.gen(function* () {
        const ended = yield* CommandLine.run(args, env)
        expect(ended).toMatchObject({ code: 2, stdout: "" })
        expect(ended.stderr).toContain(says)
        expect(ended.stderr).not.toContain(key)
        expect(ended.stderr).not.toContain("    at ")
      })
    )
  }
})
