import { NodeContext } from "@effect/platform-node"
import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { ContractManifest, FixtureManifest, RunnerSuite } from "../../src/conformance/index.js"

const own = FixtureManifest.readFiles("fixtures/runner")

/** The same files but for one, whose text is another. */
const changed = (files: ReadonlyArray<FixtureManifest.File>, path: string, change: (text: string) => string) =>
  files.map((file) =>
    file.path === path ? { path, bytes: new TextEncoder().encode(change(new TextDecoder().decode(file.bytes))) } : file
  )

/** With the manifest of these files, so that what is found is no drift. */
const withManifest = (files: ReadonlyArray<FixtureManifest.File>) =>
  Effect.map(ContractManifest.make(files), (manifest) =>
    changed(files, "manifest.json", () => ContractManifest.format(manifest))
  )

const failing = (files: ReadonlyArray<FixtureManifest.File>) =>
  Effect.map(RunnerSuite.run(files), ({ results }) =>
    results.filter(({ passed }) => !passed).map(({ expected, got, name }) => [name, expected, got])
  )

it.layer(NodeContext.layer)("a directory in the public layout", (it) => {
  it.effect("of this project passes, with cases of every kind", () =>
    Effect.gen(function* () {
      const { failed, results } = yield* RunnerSuite.run(yield* own)
      expect(failed).toBe(0)
      const kinds = new Set(results.map(({ name }) => name.split(":")[0]))
      expect([...kinds].sort()).toEqual(["cross-language", "golden", "manifest", "replay", "rules", "script"])
    })
  )

  it.effect("with a byte changed is told by the manifest", () =>
    Effect.gen(function* () {
      const path = "fixtures/conformance-minimal-run.json"
      const found = yield* failing(changed(yield* own, path, (text) => `${text} `))
      expect(found).toEqual([
        [`manifest: ${path}`, "listed", "changed"],
        ["rules: manifest.json", "kept", expect.stringMatching(/^manifest_drift: /)]
      ])
    })
  )

  it.effect("with a golden of another replay fails at the golden", () =>
    Effect.gen(function* () {
      const path = "fixtures/replay/golden/happy-path.summary.json"
      const files = yield* withManifest(changed(yield* own, path, (text) => text.replace("succeeded", "failed")))
      expect(yield* failing(files)).toEqual([[`golden: ${path}`, "the replay", "another text"]])
    })
  )

  it.effect("whose fixture contradicts itself fails, though its schema takes it", () =>
    Effect.gen(function* () {
      const path = "fixtures/replay/happy-path.json"
      const files = yield* withManifest(
        changed(yield* own, path, (text) => text.replace(/("events": \[[\s\S]*?"runId": )"[^"]*"/, '$1"another"'))
      )
      const names = (yield* failing(files)).map(([name, , got]) => [name, got])
      expect(names).toContainEqual([`replay: ${path}`, "binding_mismatch"])
    })
  )

  it.effect("whose script is of an unknown kind of step fails", () =>
    Effect.gen(function* () {
      const path = "fixtures/local-runner/scripts/happy-path.json"
      const files = yield* withManifest(changed(yield* own, path, (text) => text.replace('"result"', '"results"')))
      expect(yield* failing(files)).toEqual([[`script: ${path}`, "accept", "schema_validation"]])
    })
  )

  it.effect("whose run is answered otherwise fails", () =>
    Effect.gen(function* () {
      const path = "fixtures/conformance-expected-output.json"
      const files = yield* withManifest(changed(yield* own, path, (text) => text.replace("\n", "\n\n")))
      expect(yield* failing(files)).toEqual([
        ["cross-language: fixtures/conformance-minimal-run.json", "the output", "another line"]
      ])
    })
  )

  it.effect("without a manifest is not run", () =>
    Effect.gen(function* () {
      const files = (yield* own).filter(({ path }) => path !== "manifest.json")
      expect((yield* Effect.flip(RunnerSuite.run(files)))._tag).toBe("FixtureError")
    })
  )
})
