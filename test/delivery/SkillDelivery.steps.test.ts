import { setImmediate } from "node:timers/promises"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Context, Effect, Either, Exit, Fiber, FiberId, Layer, type Scheduler, Scope } from "effect"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import type { DeliveryStatus } from "../../src/delivery/DeliveryStatus.js"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import { entry, r1, r2, snapshot } from "../support/Script.js"

/** A yield takes this many operations itself: with fewer, a fiber would do nothing else. */
const operationsOfYield = 10

/** Runs fibers to where they wait, or operation by operation. */
class Stepper implements Scheduler.Scheduler {
  readonly #tasks: Array<() => void> = []
  #stepping = false

  shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    return this.#stepping && fiber.currentOpCount > operationsOfYield ? 0 : false
  }

  scheduleTask(task: () => void): void {
    this.#tasks.push(task)
  }

  /** Runs an effect to its end; it may wait for other fibers, and for nothing outside. */
  run<A, E>(effect: Effect.Effect<A, E>): A {
    const fiber = Effect.runFork(effect, { scheduler: this })
    for (let task = this.#tasks.shift(); task !== undefined; task = this.#tasks.shift()) task()
    const exit = fiber.unsafePoll()
    if (exit === null) throw new Error("waits for something outside")
    return Exit.getOrElse(exit, (cause) => {
      throw new Error(Cause.pretty(cause))
    })
  }

  /** Starts an effect, and runs it and what it starts for so many operations. */
  start<A, E>(effect: Effect.Effect<A, E>, steps: number): Fiber.RuntimeFiber<A, E> {
    this.#stepping = true
    const fiber = Effect.runFork(effect, { scheduler: this })
    this.step(steps)
    return fiber
  }

  /** Runs what waits to run for so many operations; whether anything is left. */
  step(steps: number): boolean {
    this.#stepping = true
    for (let step = 0; step < steps; step++) this.#tasks.shift()?.()
    this.#stepping = false
    return this.#tasks.length > 0
  }
}

const partsOf = (status: DeliveryStatus) =>
  (status.containers ?? [status]).map(({ lastError, revision }) => ({ revision, code: lastError?.code }))

const open = (options: SkillDelivery.Options, cache: Context.Context<never>, scope: Scope.Scope) =>
  Effect.gen(function* () {
    const layer = Layer.provideMerge(SkillDelivery.layer(options), RegistryScript.layer)
    const context = yield* Layer.buildWithScope(Layer.provide(layer, Layer.succeedContext(cache)), scope)
    return {
      ...Context.get(context, SkillDelivery.SkillDelivery),
      ...Context.get(context, RegistryScript.RegistryScript)
    }
  }).pipe(Effect.orDie)

/**
 * Interrupts an acquire after more and more of its operations (`stride` at a time), each time with a delivery of its own, and gives the
 * different states that were left, from the earliest interruption to none, as `<revision> <code>` of each container.
 */
const interruptedAnywhere = async (
  stride: number,
  options: SkillDelivery.Options,
  replies: { readonly first?: RegistryScript.ScriptedReply; readonly second: RegistryScript.ScriptedReply }
): Promise<ReadonlyArray<string>> => {
  const left: Array<string> = []
  const finals = new Set<string>()
  for (let steps = 0; ; steps += stride) {
    await setImmediate()
    const stepper = new Stepper()
    const scope = stepper.run(Scope.make())
    const cache = stepper.run(Layer.buildWithScope(SnapshotCache.layerMemory, scope))
    const skills = stepper.run(open(options, cache, scope))
    if (replies.first !== undefined) stepper.run(Effect.zipRight(skills.enqueue(replies.first), skills.acquire))

    let running = 0
    const watched = Effect.acquireRelease(
      Effect.sync(() => running++),
      () => Effect.sync(() => running--)
    ).pipe(Effect.zipRight(replies.second))
    stepper.run(skills.enqueue(watched))
    const fiber = stepper.start(skills.acquire, steps)
    const finished = fiber.unsafePoll() !== null
    stepper.run(Fiber.interruptFork(fiber))

    // Nobody hangs, and of the check nothing runs on.
    expect(fiber.unsafePoll()).not.toBe(null)
    expect(running).toBe(0)
    const parts = partsOf(stepper.run(skills.status))
    const state = parts.map(({ code, revision }) => `${revision ?? "nothing"} ${code ?? "good"}`).join(", ")
    if (left.at(-1) !== state) {
      // A later interruption does not undo what an earlier one has left.
      expect(left).not.toContain(state)
      left.push(state)
    }

    // Another process finds the same in the cache.
    const restarted = stepper.run(open(options, cache, scope))
    stepper.run(restarted.enqueue(Effect.fail(new DeliveryError.NetworkError())))
    stepper.run(Effect.exit(restarted.acquire))
    expect(partsOf(stepper.run(restarted.status))).toEqual(
      parts.map(({ code, revision }) => ({ revision, code: code ?? "NETWORK_ERROR" }))
    )

    // The next acquire asks if this one came to no end, and ends as this one would have.
    stepper.run(skills.clear)
    stepper.run(skills.enqueue(replies.second))
    stepper.run(Effect.exit(skills.acquire))
    finals.add(JSON.stringify(partsOf(stepper.run(skills.status))))
    stepper.run(Scope.close(scope, Exit.void))
    if (finished) {
      expect(finals.size).toBe(1)
      return left
    }
  }
}

const both = { containers: ["a", "b"] }
const held = RegistryScript.batch(Either.right(entry(r1)), Either.right(entry(r1)))
const denial = new DeliveryError.EntitlementRequired()

describe("an interruption of the last caller anywhere in a check, verification and install included, leaves", () => {
  it("nothing or the whole of a cold snapshot", { timeout: 60_000 }, async () => {
    const left = await interruptedAnywhere(13, { container: "team" }, { second: snapshot(r1) })
    expect(left).toEqual(["nothing good", "r1 good"])
  })

  it("what was held or the whole replacement of all containers of a list", { timeout: 60_000 }, async () => {
    const replaced = RegistryScript.batch(Either.right(entry(r2)), Either.right(entry(r2)))
    const left = await interruptedAnywhere(29, { ...both, freshness: 0 }, { first: held, second: replaced })
    expect(left).toEqual(["r1 good, r1 good", "r2 good, r2 good"])
  })

  it("of a batch that denies one container the denial first, and its good part only when all are settled", {
    timeout: 60_000
  }, async () => {
    const mixed = RegistryScript.batch(Either.right(entry(r2)), Either.left(denial))
    const left = await interruptedAnywhere(29, { ...both, freshness: 0 }, { first: held, second: mixed })
    expect(left).toEqual(["r1 good, r1 good", "r1 good, r1 ENTITLEMENT_REQUIRED", "r2 good, r1 ENTITLEMENT_REQUIRED"])
  })

  it("a denial from its head on, the more exact one once it is known", { timeout: 60_000 }, async () => {
    const forbidden = RegistryScript.denied(
      new DeliveryError.AuthorizationFailed(),
      Effect.as(Effect.yieldNow(), denial)
    )
    const left = await interruptedAnywhere(
      5,
      { container: "team", freshness: 0 },
      { first: snapshot(r1), second: forbidden }
    )
    expect(left).toEqual(["r1 good", "r1 AUTHORIZATION_FAILED", "r1 ENTITLEMENT_REQUIRED"])
  })

  it("no trace of trouble that was not yet the check's result", { timeout: 60_000 }, async () => {
    const trouble = Effect.fail(new DeliveryError.NetworkError())
    const left = await interruptedAnywhere(
      5,
      { container: "team", freshness: 0 },
      { first: snapshot(r1), second: trouble }
    )
    expect(left).toEqual(["r1 good", "r1 NETWORK_ERROR"])
  })
})

describe("an acquire that comes as the last caller of a check leaves, anywhere in it,", () => {
  // So many operations after the interruption.
  it.each([0, 1, 2, 3, 4, 5, 6, 8, 10])(
    "is never interrupted with it (%i steps later)",
    {
      timeout: 60_000
    },
    async (later) => {
      for (let steps = 0, isRunning = true; isRunning; steps += 3) {
        await setImmediate()
        const stepper = new Stepper()
        const scope = stepper.run(Scope.make())
        // The denial of the first check is being written for ever.
        const cache = Context.make(SnapshotCache.SnapshotCache, {
          persistent: true,
          load: () => Effect.succeedNone,
          save: () => Effect.never
        })
        const skills = stepper.run(open({ container: "team", freshness: 0 }, cache, scope))
        stepper.run(skills.enqueue(Effect.fail(denial), Effect.fail(denial)))
        const first = stepper.start(skills.acquire, steps)
        isRunning = stepper.step(0)
        first.unsafeInterruptAsFork(FiberId.none)
        stepper.step(later)
        const second = stepper.start(skills.acquire, 0)
        stepper.run(Effect.void)
        // It waits for the write of its denial, or has an answer.
        const exit = second.unsafePoll()
        expect(exit === null || !Exit.isInterrupted(exit)).toBe(true)
      }
    }
  )
})
