import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { FetchHttpClient } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import {
  DeliveryError,
  Manifest,
  RegistryApi,
  RegistryClient,
  SkillArchive,
  Snapshot
} from "effect-agent-contracts/delivery"
import ts from "typescript"
import * as Registry from "../examples/registry.js"
import * as Loopback from "./support/LoopbackRegistry.js"
import { run } from "./support/Program.js"
import * as Skills from "./support/Skills.js"

/** A fenced `ts` block of a page or of a docstring. */
interface Block {
  readonly file: string
  readonly line: number
  readonly code: string
}

const filesIn = (directory: string, extension: string): ReadonlyArray<string> =>
  readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(extension))
    .map((file) => join(directory, file))

const blocksOf = (file: string, text: string): ReadonlyArray<Block> =>
  [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map((match) => ({
    file,
    line: text.slice(0, match.index).split("\n").length,
    code: match[1] ?? ""
  }))

/** The text of the docstrings, every line where it was. */
const docstringsOf = (source: string): string =>
  source.replace(/^.*$/gm, (line) => /^ *\* ?(.*)$/.exec(line)?.[1] ?? "")

const pages = ["README.md", ...filesIn("docs", ".md")]
const sources = filesIn("src", ".ts")
const onPages = pages.flatMap((page) => blocksOf(page, readFileSync(page, "utf8")))
const inDocstrings = sources.flatMap((source) => blocksOf(source, docstringsOf(readFileSync(source, "utf8"))))

const examples = new Set(filesIn("examples", ".ts").map((example) => readFileSync(example, "utf8")))
const otherBlocks = onPages.filter((block) => !examples.has(block.code))

/** What the compiler says of these blocks, each as a file beside the one that it comes from. */
const errorsOf = (blocks: ReadonlyArray<Block>): ReadonlyArray<string> => {
  const config = ts.getParsedCommandLineOfConfigFile("tsconfig.json", undefined, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (diagnostic) => assert.fail(String(diagnostic.messageText))
  })
  // A block shows how something is used; what it only declares is used by its reader.
  const options: ts.CompilerOptions = { ...config?.options, incremental: false, noUnusedLocals: false }
  delete options.tsBuildInfoFile
  const files = new Map(
    blocks.map((block) => {
      // The blocks of a page import what the package's users import.
      const directory = block.file.endsWith(".ts") ? dirname(block.file) : "examples"
      return [resolve(directory, `${basename(block.file)}.line-${block.line}.ts`), block] as const
    })
  )
  const host = ts.createCompilerHost(options)
  const program = ts.createProgram([...files.keys()], options, {
    ...host,
    fileExists: (file) => files.has(file) || host.fileExists(file),
    readFile: (file) => files.get(file)?.code ?? host.readFile(file),
    getSourceFile: (file, version, ...rest) => {
      const code = files.get(file)?.code
      return code === undefined ? host.getSourceFile(file, version, ...rest) : ts.createSourceFile(file, code, version)
    }
  })
  return [...files].flatMap(([file, block]) => {
    const source = program.getSourceFile(file)
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map(
      ({ messageText }) => `${block.file}:${block.line}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`
    )
  })
}

describe("code in the documentation", () => {
  it("is there", () => {
    assert.isAtLeast(onPages.filter((block) => block.file === "README.md").length, 3)
    assert.isAtLeast(inDocstrings.length, 10)
  })

  // The compiler reads this package and its peers anew.
  it("compiles, on every page and in every docstring", { timeout: 300_000 }, () => {
    assert.deepStrictEqual(errorsOf([...onPages, ...inDocstrings]), [])
  })

  it("on the README is one of the examples, which have tests of their own", () => {
    assert.deepStrictEqual(
      otherBlocks.filter((block) => block.file === "README.md"),
      []
    )
  })

  it.scopedLive(
    "on every other page runs",
    () =>
      Effect.gen(function* () {
        const registry = yield* Registry.Registry
        // The skill of `npm run registry` that the guide loads.
        yield* registry.publish("team-skills", "r1", [{ name: "release-notes", ...Skills.greeting.greeting }])
        mkdirSync(".tmp", { recursive: true })
        const directory = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(".tmp", "docs-"))),
          (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
        )
        for (const block of otherBlocks) {
          const program = join(directory, "block.ts")
          writeFileSync(program, block.code)
          const ended = yield* run(program, {
            INTELLIGENCE_API_URL: registry.url,
            CPK_INTELLIGENCE_API_KEY: "key",
            CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "team-skills"
          })
          assert.strictEqual(ended.code, 0, `${block.file}:${block.line}\n${ended.stderr}`)
        }
      }).pipe(Effect.provide(Registry.layer(Redacted.make("key")))),
    // A process for each block, one after another.
    { timeout: 300_000 }
  )
})

describe("links in the documentation", () => {
  it("lead to files of the repository", () => {
    const links = pages.flatMap((page) =>
      [...readFileSync(page, "utf8").matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map((link) =>
        join(dirname(page), link[1] ?? "")
      )
    )
    assert.isAtLeast(links.length, 5)
    assert.deepStrictEqual(
      links.filter((link) => !existsSync(link)),
      []
    )
  })
})

describe("the wire format page", () => {
  const page = readFileSync("docs/wire-format.md", "utf8")
  const fenced = (language: string) =>
    [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, text = ""]) => text)
  const [manifest, batchRequest, batchResponse, envelope, ...more] = fenced("json").map((text) => JSON.parse(text))
  const decode = <A, I>(schema: Schema.Schema<A, I>) => Schema.decodeUnknownSync(schema, { onExcessProperty: "error" })

  /** The head of a message, its first line aside, by header. */
  const headers = (message: string) =>
    Object.fromEntries(
      message
        .trim()
        .split("\n")
        .slice(1)
        .map((line) => line.split(/: (.*)/, 2))
    )
  const packed = SkillArchive.pack("r1", [
    {
      name: "greeting",
      description: "Greets people",
      files: { "SKILL.md": "Say hello.\n", "references/tone.md": "Warm, short.\n" }
    }
  ])

  it.effect("shows the archive, its manifest and its ETag as they are packed", () =>
    Effect.gen(function* () {
      const response = yield* packed
      const { skills } = decode(Manifest.Manifest)(manifest)
      const snapshot = yield* Snapshot.verify(response)
      assert.deepStrictEqual(
        skills,
        snapshot.skills.map((skill) => ({
          ...skill,
          files: skill.files.map(({ path, sha256, size }) => ({ path, size, sha256 }))
        }))
      )
      assert.deepStrictEqual(fenced("text")[0]?.trim().split("\n"), [
        ...skills.flatMap((skill) => skill.files.map((file) => Manifest.memberPath(skill, file))),
        Manifest.path
      ])
      const [, answer = "", unchanged = ""] = fenced("http")
      assert.deepStrictEqual(headers(answer), RegistryApi.snapshotHeaders(response))
      assert.deepStrictEqual(headers(unchanged), RegistryApi.unchangedHeaders("r1", response.etag))
    })
  )

  it.effect("shows a batch and an error as a server writes them", () =>
    Effect.gen(function* () {
      const response = yield* packed
      assert.deepStrictEqual(more, [])
      assert.strictEqual(decode(RegistryApi.BatchRequest)(batchRequest).containers.length, 3)
      assert.deepStrictEqual(decode(RegistryApi.BatchResponse)(batchResponse), {
        containers: [
          RegistryApi.snapshotEntry("team-skills", response),
          RegistryApi.unchangedEntry("held", "r1", response.etag),
          RegistryApi.errorEntry("absent", new DeliveryError.ContainerNotFound({}))
        ]
      })
      assert.deepStrictEqual(
        decode(RegistryApi.ErrorEnvelope)(envelope),
        RegistryApi.errorEnvelope(new DeliveryError.RevisionRevoked({}))
      )
    })
  )

  it.scopedLive("shows both requests as a client sends them", () =>
    Effect.gen(function* () {
      const { requests, url } = yield* Loopback.LoopbackRegistry
      const layer = RegistryClient.layer({ apiUrl: url, apiKey: Redacted.make("<key>") })
      const client = yield* Effect.provide(RegistryClient.RegistryClient, Layer.provide(layer, FetchHttpClient.layer))
      // Nothing is queued, so both fail; what was asked is recorded all the same.
      yield* Effect.either(
        client.get({ containerId: "team-skills", revision: "r1", ifNoneMatch: `"${"0".repeat(64)}"` })
      )
      yield* Effect.either(client.batch(decode(RegistryApi.BatchRequest)(batchRequest).containers))
      const [get, , , batch] = fenced("http")
      for (const [index, shown] of [get ?? "", batch ?? ""].entries()) {
        const sent = (yield* requests)[index]
        assert.strictEqual(shown.split("\n")[0], `${sent?.method} ${sent?.url}`)
        for (const [name, value] of Object.entries(headers(shown))) assert.strictEqual(sent?.headers[name], value)
      }
    }).pipe(Effect.provide(Loopback.layer))
  )

  it("explains every check as its message does", () => {
    const rows = [...page.matchAll(/^\| `([\w-]+)` +\| (.*?) +\|$/gm)].map(([, check, meaning]) => [check, meaning])
    assert.deepStrictEqual(rows, Object.entries(DeliveryError.checkMeanings))
    const error = new DeliveryError.InvalidSnapshot({ check: "end-record", entry: "x" })
    assert.strictEqual(
      error.message,
      `The snapshot is not valid: end-record (${DeliveryError.checkMeanings["end-record"]}) at "x".`
    )
  })
})
