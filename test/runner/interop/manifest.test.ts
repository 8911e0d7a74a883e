import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as ContractManifest from "../../../src/conformance/ContractManifest.js"
import * as FixtureManifest from "../../../src/conformance/FixtureManifest.js"
import * as PublicProtocol from "../../support/PublicProtocol.js"

const files = FixtureManifest.readFiles(PublicProtocol.directory).pipe(Effect.provide(NodeContext.layer))

// The value of this file is the public one, its bytes are not (facts page, head).
const otherBytes = "schemas/semantic-tool.schema.json"

describe.skipIf(!PublicProtocol.present)(`the public manifest${PublicProtocol.note}`, () => {
  it.effect(
    "is what the generator makes of the files at hand: places, ids, digests, expectations and cases, in order",
    () =>
      Effect.gen(function* () {
        const published = yield* ContractManifest.decode(PublicProtocol.read("manifest.json"))
        const made = yield* ContractManifest.make(yield* files)
        const atHand = new Set((yield* files).map(({ path }) => path))
        expect(made.fixtures).toEqual(published.fixtures.filter(({ path }) => atHand.has(path)))
        const comparable = (schemas: ContractManifest.ContractManifest["schemas"]) =>
          schemas
            .filter(({ path }) => atHand.has(path))
            .map((entry) => (entry.path === otherBytes ? { ...entry, sha256: "" } : entry))
        expect(comparable(made.schemas)).toEqual(comparable(published.schemas))
        expect(made.schemas).toHaveLength(PublicProtocol.schemas().length)
      })
  )

  it.effect("and nothing is wrong with the files, but for schemas that are not at hand", () =>
    Effect.gen(function* () {
      const found = yield* ContractManifest.check(yield* files)
      const missing = found.filter(({ code }) => code === "missing_schema_validator")
      const crossLanguage = ["fixtures/conformance-expected-output.json", "fixtures/conformance-minimal-run.json"]
      expect(missing.map(({ path }) => path)).toEqual(crossLanguage)
      const others = found.filter((violation) => !missing.includes(violation))
      expect(others.map(({ code }) => code)).toEqual(["manifest_drift"])
    })
  )
})
