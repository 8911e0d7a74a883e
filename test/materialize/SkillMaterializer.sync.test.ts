import { rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Either, Fiber, Logger, Option, Queue, Redacted, type Scope, TestClock } from "effect"

import { NetworkError, RevisionRevoked } from "../../src/delivery/DeliveryError.js"
import { RegistryClient } from "../../src/delivery/RegistryClient.js"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import type { MaterializeError } from "../../src/materialize/MaterializeError.js"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import { contents } from "../support/Material.js"
import { temporaryDirectory } from "../support/Materializations.js"
import * as Skills from "../support/Skills.js"

const revision = (name: string, files: Readonly<Record<string, string>>) =>
  RegistryScript.snapshot(
    Skills.response(
      Object.fromEntries(Object.entries(files).map(([skill, text]) => [skill, { files: { "SKILL.md": text } }])),
      name
    )
  )

const r1 = revision("r1", { pdf: "one", csv: "csv" })
const r2 = revision("r2", { pdf: "two", fresh: "fresh" })
const revoked = Effect.fail(new RevisionRevoked({}))
const unreachable = Effect.fail(new NetworkError({}))

type Outcome = Either.Either<SkillMaterializer.SyncOutcome, MaterializeError>

interface Fixture {
  readonly directory: string
  readonly delivery: SkillDelivery.SkillDelivery["Type"]
  /** What the registry answers from now on. */
  readonly answer: (reply: RegistryScript.ScriptedReply) => Effect.Effect<void>
  readonly requests: () => number
}

const behaviour = (
  name: string,
  program: (
    fixture: Fixture
  ) => Effect.Effect<void, unknown, Scope.Scope | SkillDelivery.SkillDelivery | NodeContext.NodeContext>,
  options: SkillDelivery.Options = { container: "team", freshness: 0 }
) =>
  it.scoped(name, () =>
    Effect.gen(function* () {
      let reply: RegistryScript.ScriptedReply = r1
      let requests = 0
      const ask = Effect.suspend(() => {
        requests++
        return reply
      })
      const client = RegistryClient.of({
        apiUrl: "https://registry.example",
        sealingKey: Redacted.make(new Uint8Array(32)),
        get: () =>
          Effect.flatMap(ask, (reply) =>
            reply._tag === "Batch" ? Effect.dieMessage("a batch") : Effect.succeed(reply)
          ),
        batch: () =>
          Effect.flatMap(ask, (reply) =>
            reply._tag === "Batch" || reply._tag === "Denied" ? Effect.succeed(reply) : Effect.dieMessage("no batch")
          )
      })
      const delivery = yield* Effect.provideService(SkillDelivery.make(options), RegistryClient, client)
      yield* Effect.provideService(
        program({
          directory: join(yield* temporaryDirectory, "skills"),
          delivery,
          answer: (next) =>
            Effect.sync(() => {
              reply = next
            }),
          requests: () => requests
        }),
        SkillDelivery.SkillDelivery,
        delivery
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

const skillsIn = (directory: string) =>
  Object.fromEntries(Object.entries(contents(directory)).filter(([path]) => path !== ".materialized"))

/** Starts a sync and gives the outcome of its next pass, for which time goes on if need be. */
const start = (options: SkillMaterializer.SyncOptions) =>
  Effect.gen(function* () {
    const outcomes = yield* Queue.unbounded<Outcome>()
    const fiber = yield* Effect.forkScoped(
      SkillMaterializer.sync({ ...options, onOutcome: (outcome) => Queue.offer(outcomes, outcome) })
    )
    /** The next one that comes by itself, without the clock. */
    const news = Queue.take(outcomes)
    /** One that comes in time. It may have begun before the test's last change; the one after it has not. */
    const next = Effect.gen(function* () {
      yield* Queue.takeAll(outcomes)
      for (;;) {
        yield* TestClock.adjust("5 seconds")
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        const outcome = yield* Queue.poll(outcomes)
        if (Option.isSome(outcome)) return outcome.value
      }
    })
    return { fiber, news, next, waiting: Queue.size(outcomes) }
  })

const tag = (outcome: Outcome) =>
  Either.match(outcome, { onLeft: (error) => error.reason, onRight: ({ _tag }) => _tag })

describe("SkillMaterializer.syncOnce", () => {
  behaviour("lays out the snapshot that the delivery gives", ({ answer, directory }) =>
    Effect.gen(function* () {
      const outcome = yield* SkillMaterializer.syncOnce({ directory })
      assert.deepInclude({ ...outcome }, { _tag: "Synced", revision: "r1" })
      assert.deepStrictEqual(skillsIn(directory), { "csv/SKILL.md": "csv", "pdf/SKILL.md": "one" })
      yield* answer(r2)
      yield* SkillMaterializer.syncOnce({ directory })
      assert.deepStrictEqual(skillsIn(directory), { "fresh/SKILL.md": "fresh", "pdf/SKILL.md": "two" })
    })
  )

  behaviour("rewrites with a new revision only what changed", ({ answer, directory }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.syncOnce({ directory })
      yield* answer(revision("r3", { pdf: "two", csv: "csv" }))
      const outcome = yield* SkillMaterializer.syncOnce({ directory })
      assert(outcome._tag === "Synced")
      assert.deepStrictEqual(
        outcome.report.written.map(({ skillId }) => skillId),
        ["pdf"]
      )
      assert.deepStrictEqual(
        outcome.report.kept.map(({ skillId }) => skillId),
        ["csv"]
      )
    })
  )

  behaviour("removes on a denial what the marker names, and says why", ({ answer, directory }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.syncOnce({ directory })
      writeFileSync(join(directory, "notes"), "mine")
      yield* answer(revoked)
      const outcome = yield* SkillMaterializer.syncOnce({ directory })
      assert(outcome._tag === "Denied")
      assert.strictEqual(outcome.error._tag, "REVISION_REVOKED")
      const { removed } = Option.getOrThrow(outcome.report)
      assert.deepStrictEqual(
        removed.map(({ directory, reason }) => [directory, reason]),
        [
          ["csv", "REVISION_REVOKED"],
          ["pdf", "REVISION_REVOKED"]
        ]
      )
      assert.deepStrictEqual(skillsIn(directory), { notes: "mine" })
      yield* answer(r1)
      yield* SkillMaterializer.syncOnce({ directory })
      assert.deepStrictEqual(skillsIn(directory), { "csv/SKILL.md": "csv", "pdf/SKILL.md": "one", notes: "mine" })
    })
  )

  behaviour("says on a denial that a marker which is none names nothing to remove", ({ answer, directory }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.syncOnce({ directory })
      writeFileSync(join(directory, ".materialized"), "{")
      yield* answer(revoked)
      const error = yield* Effect.flip(SkillMaterializer.syncOnce({ directory }))
      assert.deepInclude({ ...error }, { path: ".materialized", reason: "type" })
    })
  )

  behaviour("keeps them on a denial when it is told to", ({ answer, directory }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.syncOnce({ directory })
      const before = contents(directory)
      yield* answer(revoked)
      const outcome = yield* SkillMaterializer.syncOnce({ directory, keepOnDenial: true })
      assert(outcome._tag === "Denied")
      assert.isTrue(Option.isNone(outcome.report))
      assert.deepStrictEqual(contents(directory), before)
    })
  )

  behaviour("makes no directory to say that skills are denied", ({ answer, directory }) =>
    Effect.gen(function* () {
      yield* answer(revoked)
      assert.strictEqual((yield* SkillMaterializer.syncOnce({ directory }))._tag, "Denied")
      assert.throws(() => contents(directory))
    })
  )

  behaviour("changes nothing on a transient failure, with a snapshot held or without", ({ answer, directory }) =>
    Effect.gen(function* () {
      yield* SkillMaterializer.materialize({ directory, skills: [] })
      yield* SkillMaterializer.syncOnce({ directory })
      const before = contents(directory)
      yield* answer(unreachable)
      assert.deepInclude({ ...(yield* SkillMaterializer.syncOnce({ directory })) }, { _tag: "Synced", revision: "r1" })
      assert.deepStrictEqual(contents(directory), before)
      // Another process, which holds nothing yet.
      const cold = yield* Effect.provideServiceEffect(
        SkillMaterializer.syncOnce({ directory }),
        SkillDelivery.SkillDelivery,
        Effect.provide(
          Effect.zipRight(
            Effect.flatMap(RegistryScript.RegistryScript, (script) => script.enqueue(unreachable)),
            SkillDelivery.make({ container: "team" })
          ),
          RegistryScript.layer
        )
      )
      assert.deepInclude({ ...cold }, { _tag: "Unavailable" })
      assert.deepStrictEqual(contents(directory), before)
    })
  )

  behaviour(
    "lays a list of containers out by bare names, and fails both of two equal ones",
    ({ answer, directory }) =>
      Effect.gen(function* () {
        const entry = (name: string, files: Readonly<Record<string, string>>) =>
          Either.right({
            _tag: "Snapshot" as const,
            response: Skills.response(
              Object.fromEntries(
                Object.entries(files).map(([skill, text]) => [skill, { files: { "SKILL.md": text } }])
              ),
              name
            )
          })
        yield* answer(
          RegistryScript.batch(entry("a1", { csv: "of a", PDF: "of a" }), entry("b1", { docx: "of b", pdf: "of b" }))
        )
        const outcome = yield* SkillMaterializer.syncOnce({ directory })
        assert(outcome._tag === "Synced")
        assert.deepStrictEqual(outcome.report.failed, [
          { skillId: "team%2Fa/PDF", directory: "PDF", reason: "name-conflict" },
          { skillId: "b/pdf", directory: "pdf", reason: "name-conflict" }
        ])
        assert.deepStrictEqual(skillsIn(directory), { "csv/SKILL.md": "of a", "docx/SKILL.md": "of b" })
      }),
    { containers: ["team/a", "b"], freshness: 0 }
  )
})

describe("SkillMaterializer.sync", () => {
  behaviour("lays out at once, then follows the delivery", ({ answer, directory }) =>
    Effect.gen(function* () {
      const { news, next } = yield* start({ directory })
      assert.strictEqual(tag(yield* news), "Synced")
      assert.deepStrictEqual(skillsIn(directory), { "csv/SKILL.md": "csv", "pdf/SKILL.md": "one" })
      yield* answer(r2)
      yield* next
      yield* next
      assert.deepStrictEqual(skillsIn(directory), { "fresh/SKILL.md": "fresh", "pdf/SKILL.md": "two" })
      yield* answer(revoked)
      yield* next
      yield* next
      assert.deepStrictEqual(skillsIn(directory), {})
      yield* answer(unreachable)
      assert.strictEqual(tag(yield* next), "Denied")
      yield* answer(r1)
      yield* next
      yield* next
      assert.deepStrictEqual(skillsIn(directory), { "csv/SKILL.md": "csv", "pdf/SKILL.md": "one" })
    })
  )

  behaviour("puts right what others change in the directory", ({ directory }) =>
    Effect.gen(function* () {
      const { news, next } = yield* start({ directory })
      yield* news
      writeFileSync(join(directory, "pdf/SKILL.md"), "two")
      yield* next
      yield* next
      assert.strictEqual(skillsIn(directory)["pdf/SKILL.md"], "one")
    })
  )

  behaviour("follows what another caller's acquire brought without waiting", ({ answer, delivery, directory }) =>
    Effect.gen(function* () {
      const { news } = yield* start({ directory })
      yield* news
      yield* answer(r2)
      yield* delivery.acquire
      yield* news
      assert.strictEqual(skillsIn(directory)["pdf/SKILL.md"], "two")
      yield* answer(revoked)
      yield* Effect.either(delivery.acquire)
      yield* news
      assert.deepStrictEqual(skillsIn(directory), {})
    })
  )

  behaviour("lays out what came during a pass right after it", ({ answer, delivery, directory }) =>
    Effect.gen(function* () {
      const outcomes = yield* Queue.unbounded<string>()
      let passes = 0
      yield* Effect.forkScoped(
        SkillMaterializer.sync({
          directory,
          onOutcome: () =>
            Effect.gen(function* () {
              if (passes++ === 0) {
                yield* answer(r2)
                yield* delivery.acquire
              }
              yield* Queue.offer(outcomes, skillsIn(directory)["pdf/SKILL.md"] ?? "")
            })
        })
      )
      assert.strictEqual(yield* Queue.take(outcomes), "one")
      assert.strictEqual(yield* Queue.take(outcomes), "two")
    })
  )

  behaviour("does not forget that it is time for a pass when news come that it knows", ({ delivery, directory }) =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const outcomes = yield* Queue.unbounded<void>()
      yield* Effect.forkScoped(
        SkillMaterializer.sync({
          directory,
          onOutcome: () =>
            Deferred.succeed(reached, undefined).pipe(
              Effect.zipRight(Deferred.await(goOn)),
              Effect.zipRight(Queue.offer(outcomes, undefined))
            )
        })
      )
      yield* Deferred.await(reached)
      // Both in one pass's time; the second changes no more than the time of the last check.
      yield* TestClock.adjust("5 seconds")
      yield* delivery.acquire
      yield* Effect.repeatN(
        Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
        20
      )
      yield* Deferred.succeed(goOn, undefined)
      yield* Queue.take(outcomes)
      yield* Queue.take(outcomes)
    })
  )

  behaviour("does not take its own check for news", ({ directory, requests }) =>
    Effect.gen(function* () {
      const { news, waiting } = yield* start({ directory })
      yield* news
      yield* Effect.repeatN(
        Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
        100
      )
      assert.strictEqual(yield* waiting, 0)
      assert.strictEqual(requests(), 1)
    })
  )

  behaviour("outlives a directory that cannot be used for a while", ({ directory }) =>
    Effect.gen(function* () {
      symlinkSync(".", directory)
      const { news, next } = yield* start({ directory })
      assert.strictEqual(tag(yield* news), "link")
      rmSync(directory)
      yield* next
      yield* next
      assert.strictEqual(skillsIn(directory)["pdf/SKILL.md"], "one")
    })
  )

  behaviour("ends with its caller's own failure, and when it is interrupted", ({ directory }) =>
    Effect.gen(function* () {
      const failed = yield* Effect.flip(
        SkillMaterializer.sync({ directory, onOutcome: () => Effect.fail("enough" as const) })
      )
      assert.strictEqual(failed, "enough")
      const { fiber, news } = yield* start({ directory })
      yield* news
      yield* Fiber.interrupt(fiber)
    })
  )
})

describe("the log of a sync", () => {
  behaviour("says once what goes on, with counts and codes and no names", ({ answer, directory }) =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const recording = Logger.make(({ logLevel, message }) => {
        lines.push(`${logLevel.label} ${message}`)
      })
      yield* Effect.gen(function* () {
        yield* answer(revoked)
        const { news, next } = yield* start({ directory })
        yield* news
        yield* next
        yield* next
        yield* answer(r1)
        yield* next
        yield* next
        yield* next
      }).pipe(Effect.provide(Logger.replace(Logger.defaultLogger, recording)))
      assert.deepStrictEqual(lines, [
        "WARN Skills directory: denied with REVISION_REVOKED",
        "INFO Skills directory: 2 written, 0 removed, 0 failed",
        "INFO Skills directory: 0 written, 0 removed, 0 failed"
      ])
    })
  )
})

describe("an interruption of a sync", () => {
  behaviour("while it waits for the registry ends it at once", ({ answer, directory }) =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      yield* answer(Effect.zipRight(Deferred.succeed(asked, undefined), Effect.never))
      const { fiber } = yield* start({ directory })
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
      assert.throws(() => contents(directory))
    })
  )
})
