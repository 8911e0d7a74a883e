/**
 * `manifest.json`: the SHA-256 of every fixture file, so that who copies the files to another implementation can tell that
 * they are the ones published here.
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import { Effect, Schema } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import * as ContractFixture from "./ContractFixture.js"
import type { File } from "./File.js"
import * as FixtureFile from "./FixtureFile.js"

export type { File } from "./File.js"

/** The manifest's own name; it does not list itself. */
export const fileName = "manifest.json"

/**
 * The files in UTF-8 byte order of their paths, which are relative to the manifest and separated by `/`. Those of the runner
 * protocol say whether a consumer takes them, and which case of compatibility they are.
 */
export const FixtureManifest = Schema.Struct({
  files: Schema.Array(
    Schema.Struct({
      path: Schema.String,
      sha256: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/)),
      expectation: Schema.optionalWith(ContractFixture.Expectation, { exact: true }),
      compatibilityCase: Schema.optionalWith(Schema.String, { exact: true })
    })
  )
})
export type FixtureManifest = typeof FixtureManifest.Type

/** How the files differ from the manifest. */
export interface Difference {
  readonly path: string
  readonly problem: "changed" | "missing" | "unlisted"
}

/** Text of a manifest -> manifest. Fails with `FixtureError`, which names the member at fault. */
export const decode = (text: string): Effect.Effect<FixtureManifest, FixtureFile.FixtureError> =>
  FixtureFile.decode(FixtureManifest, text)

/** Manifest -> text, one file a line. */
export const format = (self: FixtureManifest): string => FixtureFile.format({}, "files", self.files)

/** Where the fixtures of the runner protocol are, in the public layout. */
const runnerFixture = /^runner\/(?=fixtures\/)/

const purpose = (path: string) =>
  runnerFixture.test(path) ? ContractFixture.purpose(path.replace(runnerFixture, "")) : {}

/** The manifest of these files; its own, where it is among them, is left out. */
export const make = Effect.fn("FixtureManifest.make")(function* (files: ReadonlyArray<File>) {
  const others = files.filter(({ path }) => path !== fileName)
  const listed = yield* Effect.forEach(others, ({ bytes, path }) =>
    Effect.map(Digest.sha256Hex(bytes), (sha256) => ({ path, sha256, ...purpose(path) }))
  )
  return FixtureManifest.make({ files: listed.sort((left, right) => ArchivePath.compare(left.path, right.path)) })
})

/** Every file below the directory, the manifest itself too. */
export const readFiles = Effect.fn("FixtureManifest.readFiles")(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const found = yield* fs.readDirectory(directory, { recursive: true })
  const files = yield* Effect.filter(found, (name) =>
    Effect.map(fs.stat(path.join(directory, name)), (info) => info.type === "File")
  )
  return yield* Effect.forEach(files, (name) =>
    Effect.map(
      fs.readFile(path.join(directory, name)),
      (bytes): File => ({ path: name.split(path.sep).join("/"), bytes })
    )
  )
})

/**
 * Compares the files with the manifest; an empty result means that they are exactly those listed.
 *
 * @example
 * ```ts
 * import { NodeContext } from "@effect/platform-node"
 * import { FixtureManifest } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 * import { readFile } from "node:fs/promises"
 *
 * const directory = "node_modules/effect-agent-contracts/fixtures"
 * const program = Effect.gen(function* () {
 *   const text = yield* Effect.promise(() => readFile(`${directory}/manifest.json`, "utf8"))
 *   const files = yield* FixtureManifest.readFiles(directory)
 *   return yield* FixtureManifest.check(yield* FixtureManifest.decode(text), files)
 * })
 *
 * Effect.runPromise(program.pipe(Effect.provide(NodeContext.layer))).then(console.log) // []
 * ```
 */
export const check = Effect.fn("FixtureManifest.check")(function* (self: FixtureManifest, files: ReadonlyArray<File>) {
  const actual = (yield* make(files)).files
  const digests = new Map(actual.map(({ path, sha256 }) => [path, sha256]))
  const listed = new Set(self.files.map(({ path }) => path))
  return [
    ...self.files.flatMap(({ path, sha256 }): ReadonlyArray<Difference> => {
      const found = digests.get(path)
      return found === sha256 ? [] : [{ path, problem: found === undefined ? "missing" : "changed" }]
    }),
    ...actual.filter(({ path }) => !listed.has(path)).map(({ path }): Difference => ({ path, problem: "unlisted" }))
  ]
})
