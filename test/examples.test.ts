import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FetchHttpClient } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Predicate, Record, Redacted } from "effect"
import { RegistryClient, SkillDelivery } from "effect-agent-contracts/delivery"
import * as Registry from "../examples/registry.js"
import { run, start } from "./support/Program.js"
import * as Skills from "./support/Skills.js"

const key = "key-of-the-examples"

/** The variables with which an example reaches a registry that serves one revision of one container. */
const served = Effect.gen(function* () {
  const { publish, url } = yield* Registry.Registry
  yield* publish("team skills", "r1", [{ name: "greeting", ...Skills.greeting.greeting }])
  return {
    INTELLIGENCE_API_URL: url,
    CPK_INTELLIGENCE_API_KEY: key,
    CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "team skills"
  }
})

const registry = Registry.layer(Redacted.make(key))

describe("npm start", () => {
  it.live("shows every step with its status line and exits 0", () =>
    Effect.gen(function* () {
      const { code, stdout, stderr } = yield* run("examples/main.ts")
      assert.deepStrictEqual([code, stderr], [0, ""])
      const step = (title: string) => stdout.split("\n== ").find((step) => step.startsWith(`${title}\n`)) ?? ""
      const [, published] = /has revision ([0-9a-f]{64}) with 3 skills/.exec(stdout) ?? []
      const status = (answer: number, revision: string, rest: string) =>
        new RegExp(`^answer: ${answer}; status: revision=${revision} .*stale=false${rest}$`, "m")
      assert.match(step("Acquire"), status(200, `${published}`, ""))
      assert.match(step("Unchanged"), status(304, `${published}`, ""))
      assert.match(step("A new revision"), status(200, `(?!${published})[0-9a-f]{64}`, ""))
      assert.match(step("Revoked"), status(200, `${published}`, ""))
      assert.match(step("Denied"), status(403, `${published}`, " lastError=DELIVERY_DISABLED"))
      assert.match(step("Recovered"), status(304, `${published}`, ""))
      for (const text of [
        '{"name":"incident-report",',
        "# Release notes",
        "references/style.md",
        "DELIVERY_DISABLED: "
      ]) {
        assert.include(stdout, text)
      }
    })
  )

  it("ends without a word when nobody reads on", () => {
    const piped = `"${process.execPath}" scripts/run.mjs examples/main.ts | "${process.execPath}" -e ""`
    const { status, stderr } = spawnSync("sh", ["-c", piped], { encoding: "utf8" })
    assert.deepStrictEqual([status, stderr], [0, ""])
  })
})

describe("npm run registry", () => {
  const session = /^```console\n(.*?)^```$/ms.exec(readFileSync("README.md", "utf8"))?.[1] ?? ""
  const [exports, command, output] = [
    [...session.matchAll(/^\$ export (\w+)=(.*)$/gm)].map(([, name = "", value = ""]) => [name, value] as const),
    /^\$ node dist\/bin\/agent-contracts\.js (.*)$/m.exec(session)?.[1] ?? "",
    session.replace(/^\$ .*\n/gm, "")
  ]

  it.scopedLive("serves the example skills, as the console session of the README shows", () =>
    Effect.gen(function* () {
      const { line } = yield* start("examples/serve.ts", ["0"])
      const printed = Object.fromEntries(
        (yield* Effect.all([line, line, line])).map((text) => text.replace("export ", "").split("=", 2))
      )
      const withoutPort = (variables: Readonly<Record<string, string>>) =>
        Object.entries(variables).map(([name, value]) => [name, value.replace(/:\d+$/, "")])
      assert.deepStrictEqual(withoutPort(printed), withoutPort(Object.fromEntries(exports)))

      const { code, stdout, stderr } = yield* run("src/cli/main.ts", printed, command.split(" "))
      const withoutTime = (text: string) => text.replace(/checked \S+Z/, "checked")
      assert.deepStrictEqual([code, stderr, withoutTime(stdout)], [0, "", withoutTime(output)])
    })
  )

  it.scopedLive("publishes, revokes and restores as its standard input says", () =>
    Effect.gen(function* () {
      const { line, problem, write } = yield* start("examples/serve.ts", ["0"])
      const [apiUrl = ""] = (yield* Effect.all([line, line, line])).map((text) => text.split("=")[1] ?? "")
      const check = Effect.either(SkillDelivery.acquire).pipe(
        Effect.map(Either.match({ onLeft: (error) => error._tag, onRight: ({ revision }) => revision })),
        Effect.provide(
          SkillDelivery.layer({ container: "examples" }).pipe(
            Layer.provide(RegistryClient.layer({ apiUrl, apiKey: Redacted.make("example-key") })),
            Layer.provide(FetchHttpClient.layer)
          )
        )
      )
      const steps = [{ said: yield* problem, check: yield* check }]
      for (const command of ["publish", "revoke", "restore", "help"]) {
        yield* write(command)
        steps.push({ said: yield* problem, check: yield* check })
      }
      assert.deepStrictEqual(steps, [
        {
          said: "published r1 with 3 skills; serving until Ctrl-C; type publish, revoke or restore",
          check: "r1"
        },
        { said: "published r2 with 3 skills", check: "r2" },
        { said: "revoked r2", check: "REVISION_REVOKED" },
        { said: "restored r2", check: "r2" },
        { said: "publish, revoke or restore?", check: "r2" }
      ])
    })
  )

  it.scopedLive("says in one line that its port is taken", () =>
    Effect.gen(function* () {
      const { url } = yield* Registry.Registry
      const { port } = new URL(url)
      const ended = yield* run("examples/serve.ts", {}, [port])
      assert.deepStrictEqual([ended.code, ended.stdout], [1, ""])
      assert.match(ended.stderr, /^Port \d+: .*EADDRINUSE.*\n$/)
    }).pipe(Effect.provide(registry))
  )
})

describe("examples/compose.ts", () => {
  it.scopedLive("answers with a skill of the registry that the environment names", () =>
    Effect.gen(function* () {
      const { code, stdout, stderr } = yield* run("examples/compose.ts", yield* served)
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.include(stdout, "I follow")
      assert.include(stdout, "Say hello.")
    }).pipe(Effect.provide(registry))
  )

  it.scopedLive("gives its own answer when the revision is revoked", () =>
    Effect.gen(function* () {
      const variables = yield* served
      yield* (yield* Registry.Registry).revoke("team skills", "r1")
      const { code, stdout } = yield* run("examples/compose.ts", variables)
      assert.strictEqual(code, 0)
      assert.include(stdout, "Our skills were withdrawn")
    }).pipe(Effect.provide(registry))
  )
})

describe.each(["examples/compose.ts", "examples/trace.ts"])("%s", (program) => {
  it.live("names the missing setting in one line and exits with 1", () =>
    Effect.gen(function* () {
      const { code, stdout, stderr } = yield* run(program)
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(stderr, /^INVALID_CONFIG: (CPK_)?INTELLIGENCE_\w+: is not set\n$/)
    })
  )
})

describe("examples/swap-layers.ts", () => {
  it.live("passes", () =>
    Effect.map(run("examples/swap-layers.ts"), (ended) =>
      assert.deepStrictEqual(ended, { code: 0, stdout: "passed\n", stderr: "" })
    )
  )
})

describe("examples/trace.ts", () => {
  it.scopedLive("prints the spans of both refreshes, each under its invocation, and no key", () =>
    Effect.gen(function* () {
      const { code, stdout, stderr } = yield* run("examples/trace.ts", yield* served)
      assert.deepStrictEqual([code, stderr], [0, ""])
      for (const span of [
        "first invocation > SkillDelivery.check > RegistryClient.get",
        "second invocation > SkillDelivery.check > RegistryClient.get",
        '"skills.outcome":"snapshot"',
        '"skills.outcome":"unchanged"'
      ]) {
        assert.include(stdout, span)
      }
      assert.notInclude(stdout, key)
    }).pipe(Effect.provide(registry))
  )
})

describe("the registry of the examples", () => {
  /** What two acquires in a row give, each of which checks. */
  const acquireTwice = (options: SkillDelivery.Options, apiKey = key) =>
    Effect.gen(function* () {
      const { INTELLIGENCE_API_URL: apiUrl } = yield* served
      const delivery = SkillDelivery.layer({ ...options, freshness: 0 }).pipe(
        Layer.provide(RegistryClient.layer({ apiUrl, apiKey: Redacted.make(apiKey) })),
        Layer.provide(FetchHttpClient.layer)
      )
      return yield* Effect.provide(Effect.zip(SkillDelivery.acquire, SkillDelivery.acquire), delivery)
    }).pipe(Effect.provide(registry))

  it.live("answers the batch route for the containers that a list names", () =>
    Effect.gen(function* () {
      const [first, second] = yield* acquireTwice({ containers: ["team skills"] })
      assert.deepStrictEqual(
        first.skills.map((skill) => skill.name),
        ["team%20skills/greeting"]
      )
      assert.strictEqual(first, second)
    })
  )

  it.live("publishes nothing that no runtime would take", () =>
    Effect.gen(function* () {
      const { publish } = yield* Registry.Registry
      const error = yield* Effect.flip(publish("team skills", "r1", [{ name: "a/b", description: "", files: {} }]))
      assert.strictEqual(error._tag, "INVALID_SNAPSHOT")
    }).pipe(Effect.provide(registry))
  )

  it.live.each([
    { code: "CONTAINER_NOT_FOUND", options: { container: "absent" } },
    { code: "CONTAINER_NOT_FOUND", options: { container: "constructor" } },
    { code: "CONTAINER_NOT_FOUND", options: { containers: ["team skills", "absent"] } },
    { code: "REVISION_NOT_FOUND", options: { container: "team skills", revision: "r0" } },
    { code: "AUTHENTICATION_FAILED", options: { container: "team skills" }, apiKey: "another-key" }
  ])("refuses with $code: $options", ({ code, options, apiKey }) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(acquireTwice(options, apiKey))
      assert.strictEqual(error._tag, code)
    })
  )
})

describe("the JSON of the command line", () => {
  const readme = readFileSync("README.md", "utf8")
  const [, valid, invalid, acquired, conformance] = [...readme.matchAll(/^```json\n(.*?)^```$/gms)].map(
    ([, text = ""]): unknown => JSON.parse(text)
  )

  /** The members and the types of their values; of a list those of its first element. */
  const shape = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.slice(0, 1).map(shape)
    return Predicate.isRecord(value) ? Record.map(value, shape) : typeof value
  }
  const printed = (args: ReadonlyArray<string>, variables?: Readonly<Record<string, string>>) =>
    Effect.map(run("src/cli/main.ts", variables, [...args, "--json"]), ({ stdout }) => shape(JSON.parse(stdout)))

  const temporary = Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "agent-contracts-json-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
  )

  it.scopedLive("has the members that the README shows", () =>
    Effect.gen(function* () {
      const directory = yield* temporary
      const { archive, etag, revision } = Skills.response(Skills.greeting)
      const good = join(directory, "good.zip")
      writeFileSync(good, archive)
      assert.deepStrictEqual(yield* printed(["skills", "verify", good]), shape(valid))

      const tampered = Buffer.from(archive)
      tampered.write("Sag", tampered.indexOf("Say"))
      const bad = join(directory, "bad.zip")
      writeFileSync(bad, tampered)
      assert.deepStrictEqual(yield* printed(["skills", "verify", bad]), shape(invalid))

      const variables = {
        // A port of nobody.
        INTELLIGENCE_API_URL: yield* Effect.provide(
          Effect.map(Registry.Registry, ({ url }) => url),
          registry
        ),
        CPK_INTELLIGENCE_API_KEY: key
      }
      assert.deepStrictEqual(
        yield* printed(["skills", "acquire", "--container", "examples"], variables),
        shape(acquired)
      )

      const fixture = join(directory, "snapshots.json")
      const archiveBase64 = Buffer.from(archive).toString("base64")
      const failing = { name: "failing", archiveBase64, revision, etag, expected: "TIMEOUT" }
      writeFileSync(fixture, JSON.stringify({ contract: "copilotkit-learned-skills-v1", cases: [failing] }))
      assert.deepStrictEqual(yield* printed(["conformance", "run", "--snapshots", fixture]), shape(conformance))
    })
  )
})

describe("scripts/run.mjs", () => {
  it.live("says that there is no such file", () =>
    Effect.map(run("nothere.ts"), (ended) =>
      assert.deepStrictEqual(ended, { code: 2, stdout: "", stderr: "nothere.ts: no such file\n" })
    )
  )
})

it("every program of the examples is run here", () => {
  const parts = ["model.ts", "registry.ts", "skills.ts"]
  const programs = readdirSync("examples").filter((file) => file.endsWith(".ts") && !parts.includes(file))
  assert.sameMembers(programs, ["main.ts", "compose.ts", "serve.ts", "swap-layers.ts", "trace.ts"])
})
