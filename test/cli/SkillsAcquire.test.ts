import { Terminal } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Queue, TestClock } from "effect"
import * as SkillsAcquire from "../../src/cli/SkillsAcquire.js"
import { NetworkError, RevisionRevoked } from "../../src/delivery/DeliveryError.js"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import * as Skills from "../support/Skills.js"
import * as Terminals from "../support/Terminals.js"

const r1 = Skills.response({ kept: { files: { "SKILL.md": "1" } }, removed: { files: { "SKILL.md": "1" } } }, "r1")
const r2 = Skills.response({ kept: { files: { "SKILL.md": "2" } }, added: { files: { "SKILL.md": "2" } } }, "r2")
const unchanged = RegistryScript.unchanged(r1.revision, r1.etag)

/** Starts a watch over these replies; each step gives what the check printed, the first one included. */
const watching = Effect.fnUntraced(function* (json: boolean, ...replies: ReadonlyArray<RegistryScript.ScriptedReply>) {
  const script = yield* RegistryScript.RegistryScript
  yield* script.enqueue(...replies)
  const printed = yield* Queue.unbounded<string>()
  const checked = yield* Queue.unbounded<void>()
  const terminal = Terminals.displaying((text) => Queue.offer(printed, text))
  const observe = Effect.zipLeft(SkillsAcquire.observation, Queue.offer(checked, undefined))
  yield* Effect.forkScoped(Effect.provideService(SkillsAcquire.watch(observe, json), Terminal.Terminal, terminal))
  const text = Effect.map(Queue.takeAll(printed), (texts) => [...texts].join(""))
  /** What the check that is due prints, once the watch waits for the next one. */
  const step = Queue.take(checked).pipe(Effect.zipRight(TestClock.adjust(0)), Effect.zipRight(text))
  return { first: step, next: Effect.zipRight(TestClock.adjust("5 seconds"), step), requests: script.requests }
})

const delivery = SkillDelivery.layer({ container: "team", freshness: 0 }).pipe(Layer.provideMerge(RegistryScript.layer))

describe("a watch", () => {
  it.scoped("checks every 5 seconds and prints only what changed", () =>
    Effect.gen(function* () {
      const watch = yield* watching(false, RegistryScript.snapshot(r1), unchanged, RegistryScript.snapshot(r2))
      expect(yield* watch.first).toMatch(
        /\nstatus: initialized, revision "r1", latest, checked 1970-01-01T00:00:00.000Z\n$/
      )
      yield* TestClock.adjust("4999 millis")
      expect(yield* watch.requests).toHaveLength(1)
      yield* TestClock.adjust("1 millis")
      expect(yield* watch.first).toBe("")
      expect(yield* watch.requests).toHaveLength(2)
      expect(yield* watch.next).toBe(
        [
          `1970-01-01T00:00:10.000Z status: initialized, revision "r2", latest, checked 1970-01-01T00:00:10.000Z`,
          `  + "added": "Description of added"`,
          `  ~ "kept": "Description of kept"`,
          `  - "removed"`,
          ""
        ].join("\n")
      )
    }).pipe(Effect.provide(delivery))
  )

  it.scoped("says on standard error what failed, and on standard output only that it did", () =>
    Effect.gen(function* () {
      const revoked = new RevisionRevoked({ container: "team" })
      const errors: Array<string> = []
      const console = yield* Effect.consoleWith(Effect.succeed)
      const watch = yield* Effect.withConsole(
        watching(false, RegistryScript.snapshot(r1), RegistryScript.denied(revoked)),
        { ...console, error: (line) => Effect.sync(() => errors.push(line)) }
      )
      yield* watch.first
      expect(errors).toEqual([])
      expect(yield* watch.next).toMatch(
        /^\S+ status: blocked by REVISION_REVOKED, [^\n]*\n {2}- "kept"\n {2}- "removed"\n$/
      )
      expect(errors).toEqual([`agent-contracts: REVISION_REVOKED: ${revoked.message}`])
    }).pipe(Effect.provide(delivery))
  )

  it.scoped("goes on through failures and denials, which are changes", () =>
    Effect.gen(function* () {
      const revoked = new RevisionRevoked({ container: "team" })
      const watch = yield* watching(
        true,
        Effect.fail(new NetworkError({ reason: "ECONNREFUSED" })),
        RegistryScript.snapshot(r1),
        Effect.fail(new NetworkError({ reason: "ECONNRESET" })),
        RegistryScript.denied(revoked),
        unchanged
      )
      expect(JSON.parse(yield* watch.first)).toMatchObject({
        error: { code: "NETWORK_ERROR", reason: "ECONNREFUSED" },
        status: { initialized: false }
      })
      expect(JSON.parse(yield* watch.next)).toMatchObject({ snapshot: { revision: "r1" }, status: { stale: false } })
      expect(JSON.parse(yield* watch.next)).toMatchObject({
        snapshot: { revision: "r1" },
        status: { stale: true, lastError: { code: "NETWORK_ERROR" } }
      })
      expect(JSON.parse(yield* watch.next)).toMatchObject({
        error: { code: "REVISION_REVOKED", message: revoked.message, retryable: false },
        status: { stale: false, lastError: { code: "REVISION_REVOKED" } }
      })
      const recovered = JSON.parse(yield* watch.next)
      expect(recovered).toMatchObject({ snapshot: { revision: "r1" }, status: { initialized: true, stale: false } })
      expect(recovered.status).not.toHaveProperty("lastError")
    }).pipe(Effect.provide(delivery))
  )
})
