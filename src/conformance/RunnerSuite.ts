/**
 * A directory of the runner protocol in the public layout, run as a test: schemas, manifest, replay fixtures with their goldens,
 * questions, scripts, and the run that implementations in different languages agree on.
 *
 * @module
 */
import { Array as Arr, Effect, Option } from "effect"
import * as Digest from "../archive/Digest.js"
import * as CrossLanguageRun from "../runner/CrossLanguageRun.js"
import * as HarnessScript from "../runner/HarnessScript.js"
import * as ProtocolDocument from "../runner/ProtocolDocument.js"
import * as Replay from "../runner/Replay.js"
import * as ReplayFixture from "../runner/ReplayFixture.js"
import * as ReplaySnapshot from "../runner/ReplaySnapshot.js"
import * as ContractFixture from "./ContractFixture.js"
import * as ContractManifest from "./ContractManifest.js"
import * as ContractViolation from "./ContractViolation.js"
import type { File } from "./FixtureManifest.js"
import * as Report from "./Report.js"

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true })

const result = (name: string, expected: string, got: string): Report.CaseResult => ({
  name,
  expected,
  got,
  passed: expected === got
})

/** What became of a document: `accept`, or the code with which it is refused. */
const verdict = <A, E extends { readonly _tag: string }>(decoded: Effect.Effect<A, E>) =>
  Effect.match(decoded, { onSuccess: () => "accept", onFailure: ({ _tag }) => _tag })

/** Of the files that the manifest lists, whether they are there and are the same. */
const listed = (manifest: ContractManifest.ContractManifest, files: ReadonlyMap<string, File>) =>
  Effect.forEach([...manifest.schemas, ...manifest.fixtures], ({ path, sha256 }) =>
    Option.match(Option.fromNullable(files.get(path)), {
      onNone: () => Effect.succeed(result(`manifest: ${path}`, "listed", "missing")),
      onSome: ({ bytes }) =>
        Effect.map(Digest.sha256Hex(bytes), (found) =>
          result(`manifest: ${path}`, "listed", found === sha256 ? "listed" : "changed")
        )
    })
  )

const replayed = Effect.fnUntraced(function* ({ bytes, path }: File) {
  const { expectation } = ContractFixture.purpose(path)
  const got = yield* verdict(ReplayFixture.parse(bytes))
  // Which rule a rejected fixture breaks is part of its case: it asks for a version that nobody has.
  return result(`replay: ${path}`, expectation === "accept" ? "accept" : "unsupported_required_version", got)
})

/** The fixture that a golden belongs to, and what of its replay it shows. */
const golden = /^(fixtures\/replay\/)golden\/([^/]+)\.(snapshot|summary)\.json$/

const compared = Effect.fnUntraced(function* ({ bytes, path }: File, files: ReadonlyMap<string, File>) {
  const [, directory = "", name = "", kind] = golden.exec(path) ?? []
  const fixture = files.get(`${directory}${name}.json`)
  if (fixture === undefined) return result(`golden: ${path}`, "the replay", "no fixture")
  const replay = yield* Effect.option(Effect.map(ReplayFixture.parse(fixture.bytes), Replay.ofFixture))
  const text = Option.map(replay, (state) =>
    ReplaySnapshot.encode(kind === "snapshot" ? Replay.snapshot(state) : Replay.summary(state))
  )
  const same = Option.contains(text, utf8.decode(bytes))
  return result(`golden: ${path}`, "the replay", same ? "the replay" : "another text")
})

/** What an implementation writes of the input is the output, byte for byte. */
const answered = Effect.fnUntraced(function* ({ bytes, path }: File, output: File) {
  const line = yield* ProtocolDocument.parse(bytes).pipe(
    Effect.flatMap(ProtocolDocument.decode(CrossLanguageRun.CrossLanguageInput)),
    Effect.map(CrossLanguageRun.answer),
    Effect.option
  )
  const same = Option.contains(line, utf8.decode(output.bytes))
  return result(`cross-language: ${path}`, "the output", same ? "the output" : "another line")
})

/**
 * Runs every check of the contract on the files of a directory, which `FixtureManifest.readFiles` reads. Never fails for what
 * the files hold: that is in the report. Fails with `FixtureError` where there is no manifest to go by, and with
 * `JsonSchemaUnavailable` where Ajv is not installed.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { FixtureManifest, Report, RunnerSuite } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 *
 * const program = FixtureManifest.readFiles("node_modules/effect-agent-contracts/fixtures/runner").pipe(
 *   Effect.flatMap(RunnerSuite.run),
 *   Effect.map(Report.lines)
 * )
 *
 * Effect.runPromise(program.pipe(Effect.provide(NodeContext.layer))).then((lines) => console.log(lines.join("\n")))
 * ```
 */
export const run = Effect.fn("RunnerSuite.run")(function* (directory: ReadonlyArray<File>) {
  const files = new Map(directory.map((file) => [file.path, file]))
  const found = files.get(ContractManifest.fileName)
  const manifest = yield* ContractManifest.decode(found === undefined ? "" : utf8.decode(found.bytes))
  const matching = (pattern: RegExp) => directory.filter(({ path }) => pattern.test(path))

  const violations = yield* ContractManifest.check(directory)
  const rules = Arr.groupBy(violations, ({ path }) => path)
  const checked = ["manifest.json", ...matching(/^(?:schemas|fixtures)\/.*\.json$/).map(({ path }) => path)].map(
    (path) => result(`rules: ${path}`, "kept", rules[path]?.map(ContractViolation.format).join("; ") ?? "kept")
  )
  const input = files.get(ContractFixture.crossLanguageInput)
  const output = files.get(ContractFixture.crossLanguageOutput)
  return Report.make([
    ...(yield* listed(manifest, files)),
    ...checked,
    ...(yield* Effect.forEach(matching(/^fixtures\/replay\/[^/]+\.json$/), replayed)),
    ...(yield* Effect.forEach(matching(golden), (file) => compared(file, files))),
    ...(yield* Effect.forEach(matching(/^fixtures\/local-runner\/scripts\/[^/]+\.json$/), ({ bytes, path }) =>
      Effect.map(verdict(HarnessScript.decode(bytes)), (got) => result(`script: ${path}`, "accept", got))
    )),
    ...(input === undefined || output === undefined ? [] : [yield* answered(input, output)])
  ])
})
