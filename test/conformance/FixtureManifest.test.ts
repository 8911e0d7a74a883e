import { NodeContext } from "@effect/platform-node"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as FixtureManifest from "../../src/conformance/FixtureManifest.js"
import * as Fixtures from "../support/Fixtures.js"

const file = (path: string, text: string) => ({ path, bytes: new TextEncoder().encode(text) })
const files = [file("b.json", "b"), file("a.json", "a"), file("runner/c.json", "c")]

describe("FixtureManifest", () => {
  it.effect("lists the digest of every file in byte order of the paths, but not itself", () =>
    Effect.gen(function* () {
      const manifest = yield* FixtureManifest.make([...files, file("manifest.json", "{}")])
      expect(manifest.files.map(({ path }) => path)).toEqual(["a.json", "b.json", "runner/c.json"])
      // printf a | sha256sum
      expect(manifest.files[0]?.sha256).toBe("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")
      expect(yield* FixtureManifest.decode(FixtureManifest.format(manifest))).toEqual(manifest)
    })
  )

  it.effect("says of the runner protocol's fixtures whether they are accepted, and which case they are", () =>
    Effect.gen(function* () {
      const replay = "runner/fixtures/replay"
      const { files } = yield* FixtureManifest.make([
        file(`${replay}/unknown-optional-fields.json`, "a"),
        file(`${replay}/unsupported-required-version.json`, "b"),
        file("runner/schemas/event.schema.json", "c")
      ])
      expect(files.map(({ compatibilityCase, expectation }) => [expectation, compatibilityCase])).toEqual([
        ["accept", "additive-optional-fields"],
        ["reject", "unknown-required-version"],
        [undefined, undefined]
      ])
    })
  )

  it.effect("finds nothing where nothing differs", () =>
    Effect.gen(function* () {
      expect(yield* FixtureManifest.check(yield* FixtureManifest.make(files), files)).toEqual([])
    })
  )

  it.effect("names what is changed, missing and unlisted", () =>
    Effect.gen(function* () {
      const manifest = yield* FixtureManifest.make(files)
      const found = [file("a.json", "A"), file("b.json", "b"), file("d.json", "d"), file("manifest.json", "{}")]
      expect(yield* FixtureManifest.check(manifest, found)).toEqual([
        { path: "a.json", problem: "changed" },
        { path: "runner/c.json", problem: "missing" },
        { path: "d.json", problem: "unlisted" }
      ])
    })
  )

  it.effect("names the member of a malformed manifest", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(FixtureManifest.decode('{"files":[{"path":"a.json","sha256":"A"}]}'))
      expect(error.message).toContain("files[0].sha256: ")
    })
  )

  it.effect("fixtures/manifest.json has the digest of every file in fixtures", () =>
    Effect.gen(function* () {
      const found = yield* FixtureManifest.readFiles(Fixtures.directory)
      const own = found.find(({ path }) => path === FixtureManifest.fileName)
      const manifest = yield* FixtureManifest.decode(new TextDecoder().decode(own?.bytes))
      expect(manifest.files.map(({ path }) => path)).toEqual(
        expect.arrayContaining(["lifecycle.v1.json", "runner/manifest.json", "snapshots.v1.json"])
      )
      expect(yield* FixtureManifest.check(manifest, found)).toEqual([])
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
