import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Replay, ReplayFixture, ReplaySnapshot } from "../../../src/runner/index.js"
import * as PublicProtocol from "../../support/PublicProtocol.js"

describe.skipIf(!PublicProtocol.present)(`the public goldens${PublicProtocol.note}`, () => {
  const goldens = PublicProtocol.present
    ? PublicProtocol.fixtures().filter(({ path }) => path.startsWith("fixtures/replay/golden/"))
    : []

  it("snapshots and summaries are at hand", () => {
    expect(goldens.filter(({ path }) => path.endsWith(".snapshot.json")).length).toBeGreaterThan(0)
    expect(goldens.filter(({ path }) => path.endsWith(".summary.json")).length).toBeGreaterThan(0)
  })

  it.effect.each(goldens)("$path is what its fixture comes to, byte for byte", ({ path }) =>
    Effect.gen(function* () {
      const [, name, kind] = /([^/]+)\.(snapshot|summary)\.json$/.exec(path) ?? []
      const state = Replay.ofFixture(yield* ReplayFixture.parse(PublicProtocol.read(`fixtures/replay/${name}.json`)))
      const text = ReplaySnapshot.encode(kind === "snapshot" ? Replay.snapshot(state) : Replay.summary(state))
      expect(text).toBe(PublicProtocol.read(path))
    })
  )

  it.effect.each(goldens.filter(({ path }) => path.endsWith(".snapshot.json")))(
    "$path is what its fixture comes to one event at a time",
    ({ path }) =>
      Effect.gen(function* () {
        const fixture = yield* ReplayFixture.parse(
          PublicProtocol.read(path.replace("golden/", "").replace(".snapshot", ""))
        )
        const { capabilities, events, identity, name } = fixture
        const begun = Replay.begin({ fixtureName: name, identity, capabilities })
        const state = events.reduce((before, event) => Replay.reduce(before, [event]), begun)
        expect(ReplaySnapshot.encode(Replay.snapshot(state))).toBe(PublicProtocol.read(path))
      })
  )
})
