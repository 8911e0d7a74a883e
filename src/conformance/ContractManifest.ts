/**
 * `manifest.json` of a directory of the runner protocol, in the public layout: the SHA-256 of every schema and fixture, and
 * what each fixture is for.
 *
 * @module
 */
import { Array as Arr, Effect, Schema } from "effect"
import * as Digest from "../archive/Digest.js"
import * as ProtocolDocument from "../runner/ProtocolDocument.js"
import * as ContractFixture from "./ContractFixture.js"
import * as ContractViolation from "./ContractViolation.js"
import type { File } from "./File.js"
import * as FixtureFile from "./FixtureFile.js"
import * as JsonSchemaSet from "./JsonSchemaSet.js"

/** The manifest's own name; it does not list itself. */
export const fileName = "manifest.json"

const sha256 = Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/))

/** Both lists are in code-unit order of the paths, which are relative to the manifest and separated by `/`. */
export const ContractManifest = Schema.Struct({
  schema: Schema.Literal("paperclip.prp.contract_manifest.v1"),
  protocolVersion: Schema.Literal(1),
  fixtureVersion: Schema.Literal(1),
  generatedFrom: Schema.Array(Schema.String),
  schemas: Schema.Array(Schema.Struct({ path: Schema.String, id: Schema.String, sha256 })),
  fixtures: Schema.Array(
    Schema.Struct({
      path: Schema.String,
      sha256,
      expectation: ContractFixture.Expectation,
      compatibilityCase: Schema.String
    })
  )
})
export type ContractManifest = typeof ContractManifest.Type

/** Text of a manifest -> manifest. Fails with `FixtureError`, which names the member at fault; so does a later version. */
export const decode = (text: string): Effect.Effect<ContractManifest, FixtureFile.FixtureError> =>
  FixtureFile.decode(ContractManifest, text)

/** Manifest -> text, as the public one is written. */
export const format = (self: ContractManifest): string => `${JSON.stringify(self, null, 2)}\n`

const below = (directory: string, files: ReadonlyArray<File>): ReadonlyArray<File> =>
  files
    .filter(({ path }) => path.startsWith(`${directory}/`) && path.endsWith(".json"))
    .sort((left, right) => (left.path < right.path ? -1 : 1))

const declaredId = ({ bytes, path }: File) =>
  ProtocolDocument.parse(bytes).pipe(
    Effect.mapError((error) => ContractViolation.make("invalid_json", path, error.message)),
    Effect.filterOrFail(Schema.is(Schema.Struct({ $id: Schema.String })), () =>
      ContractViolation.make("invalid_schema_id", path, "$id must be a string")
    ),
    Effect.map(({ $id }) => $id)
  )

/**
 * The manifest of the files below `schemas` and `fixtures`, which it tells apart by their paths. Fails with `ContractError`
 * where a schema file has no id.
 *
 * @example
 * ```ts
 * import { ContractManifest } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 *
 * const bytes = new TextEncoder().encode("{}")
 * const program = ContractManifest.make([{ path: "fixtures/replay/unsupported-required-version.json", bytes }])
 *
 * Effect.runPromise(program).then(({ fixtures }) => console.log(fixtures[0]?.expectation)) // reject
 * ```
 */
export const make = Effect.fn("ContractManifest.make")(function* (files: ReadonlyArray<File>) {
  const schemas = yield* Effect.forEach(below("schemas", files), (file) =>
    Effect.either(
      Effect.all({
        path: Effect.succeed(file.path),
        id: declaredId(file),
        sha256: Digest.sha256Hex(file.bytes)
      })
    )
  )
  const violations = Arr.getLefts(schemas)
  if (Arr.isNonEmptyReadonlyArray(violations)) return yield* new ContractViolation.ContractError({ violations })
  const fixtures = yield* Effect.forEach(below("fixtures", files), ({ bytes, path }) =>
    Effect.map(Digest.sha256Hex(bytes), (sha256) => ({ path, sha256, ...ContractFixture.purpose(path) }))
  )
  return ContractManifest.make({
    schema: "paperclip.prp.contract_manifest.v1",
    protocolVersion: 1,
    fixtureVersion: 1,
    // Part of the layout: it is where the public files come from, relative to their package.
    generatedFrom: ["protocol/schemas", "protocol/fixtures"],
    schemas: Arr.getRights(schemas),
    fixtures
  })
})

type Violations = ReadonlyArray<ContractViolation.ContractViolation>

/**
 * Everything that is wrong with a directory: schemas that do not compile or refer to what is not there, fixtures that break
 * the contract's rules or their schemas, and a manifest that is not that of the files. Empty when nothing is.
 *
 * Fails with `JsonSchemaUnavailable` where Ajv is not installed.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { ContractManifest, FixtureManifest } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 *
 * const program = FixtureManifest.readFiles("node_modules/effect-agent-contracts/fixtures/runner").pipe(
 *   Effect.flatMap(ContractManifest.check)
 * )
 *
 * Effect.runPromise(program.pipe(Effect.provide(NodeContext.layer))).then(console.log) // []
 * ```
 */
export const check = Effect.fn("ContractManifest.check")(function* (files: ReadonlyArray<File>) {
  const contents = yield* JsonSchemaSet.make(below("schemas", files)).pipe(
    Effect.flatMap((schemas) => ContractFixture.check(schemas, below("fixtures", files))),
    Effect.catchTag("ContractError", ({ violations }) => Effect.succeed<Violations>(violations))
  )
  // A manifest that is not there counts as an empty one (facts 5).
  const found = files.find(({ path }) => path === fileName)?.bytes ?? new Uint8Array()
  const drift = yield* make(files).pipe(
    Effect.map(
      (manifest): Violations =>
        format(manifest) === new TextDecoder("utf-8", { ignoreBOM: true }).decode(found)
          ? []
          : [ContractViolation.make("manifest_drift", fileName, "it must be the manifest of the files: write it anew")]
    ),
    // What keeps a manifest from being made is among the violations of the schemas.
    Effect.catchTag("ContractError", () => Effect.succeed<Violations>([]))
  )
  return [...contents, ...drift]
})
