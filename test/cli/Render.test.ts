import { describe, expect, it } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import * as Render from "../../src/cli/Render.js"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import * as DeliveryStatus from "../../src/delivery/DeliveryStatus.js"
import * as Skills from "../support/Skills.js"

const checked = { lastCheckedAt: DateTime.unsafeMake(0) }

describe("a status", () => {
  it("of one container is one line", () => {
    expect(Render.statusLines({ initialized: false, mode: "latest", stale: false })).toEqual([
      "status: not initialized, latest"
    ])
    const error = new DeliveryError.Timeout({ timeoutMs: 5000 })
    const stale = { initialized: true, revision: "r1", mode: "pinned", ...checked, stale: true } as const
    expect(Render.statusLines({ ...stale, lastError: DeliveryStatus.lastError(error) })).toEqual([
      `status: initialized, revision "r1", pinned, checked 1970-01-01T00:00:00.000Z, stale, last error TIMEOUT: ${error.message}`
    ])
  })

  it("leaves the message of an error that is reported elsewhere out", () => {
    const error = new DeliveryError.Timeout({ timeoutMs: 5000 })
    const status = {
      initialized: false,
      mode: "latest",
      stale: false,
      lastError: DeliveryStatus.lastError(error)
    } as const
    expect(Render.statusLines(status, error)).toEqual(["status: not initialized, latest, last error TIMEOUT"])
  })

  it("begins with what blocks, whether or not a snapshot is held", () => {
    const error = new DeliveryError.RevisionRevoked({ container: "a" })
    const status = {
      initialized: true,
      revision: "r1",
      mode: "latest",
      stale: false,
      lastError: DeliveryStatus.lastError(error)
    } as const
    expect(Render.statusLines({ ...status, containers: [{ ...status, containerId: "a" }] }, error)).toEqual([
      `status: blocked by REVISION_REVOKED, initialized, revision "r1", latest`,
      `  "a": blocked by REVISION_REVOKED, initialized, revision "r1", latest`
    ])
  })

  it("of a list has a line for each container", () => {
    const container = {
      containerId: "a",
      initialized: true,
      revision: "r1",
      mode: "latest",
      ...checked,
      stale: false
    } as const
    expect(
      Render.statusLines({ initialized: true, mode: "latest", ...checked, stale: false, containers: [container] })
    ).toEqual([
      "status: initialized, latest, checked 1970-01-01T00:00:00.000Z",
      `  "a": initialized, revision "r1", latest, checked 1970-01-01T00:00:00.000Z`
    ])
  })
})

it("a list that is held in part says how much of it, as no word would be true", () => {
  const held = {
    containerId: "a",
    initialized: true,
    revision: "r1",
    mode: "latest",
    ...checked,
    stale: false
  } as const
  const cold = { containerId: "b", initialized: false, mode: "latest", stale: false } as const
  const status = { initialized: false, mode: "latest", stale: false } as const
  const [first] = Render.statusLines({ ...status, containers: [held, cold] })
  expect(first).toBe("status: 1 of 2 initialized, latest")
  expect(Render.statusLines({ ...status, containers: [cold] })[0]).toBe("status: not initialized, latest")
})

describe("changes", () => {
  it.effect("are the skills that came, went, or have other files or another description", () =>
    Effect.gen(function* () {
      const file = { files: { "SKILL.md": "" } }
      const before = yield* Skills.verified({ same: file, went: file, described: file, edited: file })
      const after = yield* Skills.verified({
        same: file,
        came: file,
        described: { ...file, description: "Other" },
        edited: { files: { "SKILL.md": "other" } }
      })
      expect(Render.changeLines(before, before)).toEqual([])
      expect(Render.changeLines(before, after)).toEqual([
        `  + "came": "Description of came"`,
        `  ~ "described": "Other"`,
        `  ~ "edited": "Description of edited"`,
        `  - "went"`
      ])
      expect(Render.changeLines(undefined, before)).toHaveLength(4)
      expect(Render.changeLines(before, undefined)).toHaveLength(4)
    })
  )
})

it.effect("quotes names and descriptions as JSON does", () =>
  Effect.gen(function* () {
    const snapshot = yield* Skills.verified({ quoted: { description: `Say "hello" \\o/`, files: { "SKILL.md": "" } } })
    expect(Render.snapshotLines(snapshot)).toContain(`"quoted": "Say \\"hello\\" \\\\o/"`)
    expect(Render.changeLines(undefined, snapshot)).toEqual([`  + "quoted": "Say \\"hello\\" \\\\o/"`])
  })
)

it("an error as JSON has its code, its message and its own members, and no cause", () => {
  const error = new DeliveryError.InvalidSnapshot({ check: "file-size", entry: "a/b", container: "team" })
  expect(Render.errorJson(error)).toEqual({
    code: "INVALID_SNAPSHOT",
    message: error.message,
    check: "file-size",
    entry: "a/b",
    container: "team",
    retryable: false
  })
})
