import { describe, it } from "@effect/vitest"
import {
  Cause,
  Context,
  Deferred,
  Effect,
  Either,
  Exit,
  Fiber,
  Layer,
  Option,
  Schema,
  Scope,
  Stream,
  TestClock,
  TestContext
} from "effect"
import * as fc from "fast-check"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import { DeliveryStatus, equals } from "../../src/delivery/DeliveryStatus.js"
import type { SnapshotReply, SnapshotRequest } from "../../src/delivery/RegistryClient.js"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import type { SnapshotResponse, VerifiedSnapshot } from "../../src/delivery/Snapshot.js"
import * as Model from "../support/LifecycleModel.js"
import { check, seed } from "../support/Seed.js"
import * as Skills from "../support/Skills.js"

/** What the registry publishes, by the names that a counterexample shows: `A2` has the revision of `A` but other bytes. */
const published = Object.fromEntries(
  (["A r1", "A2 r1", "B r2", "C r3"] as const).map((key) => {
    const [name = "", revision = ""] = key.split(" ")
    return [name, Skills.response({ [Model.skillName]: { files: { "SKILL.md": `Snapshot ${name}.\n` } } }, revision)]
  })
)
const nameOf = ({ etag, revision }: Model.Published) =>
  Object.entries(published).find(([, one]) => one.etag === etag && one.revision === revision)?.[0] ??
  `${revision} ${etag}`

// ---------------------------------------------------------------------------------------------------------------------
// Commands
// ---------------------------------------------------------------------------------------------------------------------

type Command =
  | { readonly _tag: "Advance"; readonly ms: number }
  /** To a moment at which something changes, or next to it. */
  | { readonly _tag: "AdvanceTo"; readonly moment: "expiry" | "deadline" | "event"; readonly offset: -1 | 0 | 1 }
  /** The clock goes back; only while nothing is asked, for timers do not go back with it. */
  | { readonly _tag: "GoBack"; readonly ms: number }
  /** An acquire, and what the registry answers if it makes a request. A deaf transport does not heed its interruption. */
  | { readonly _tag: "Acquire"; readonly reply: Model.Reply; readonly deaf: boolean }
  /** Interrupts one of the acquires that wait, counted round. */
  | { readonly _tag: "Interrupt"; readonly index: number }

const denials: ReadonlyArray<DeliveryError.DeliveryCode> = [
  "AUTHENTICATION_FAILED",
  "AUTHORIZATION_FAILED",
  "ENTITLEMENT_REQUIRED",
  "DELIVERY_DISABLED",
  "CONTAINER_NOT_FOUND",
  "REVISION_NOT_FOUND",
  "REVISION_REVOKED"
]
const denial = fc.record({ code: fc.constantFrom(...denials), retryable: fc.boolean() })
const failure = fc.record({
  code: fc.constantFrom<DeliveryError.DeliveryCode>(
    "NETWORK_ERROR",
    "TIMEOUT",
    "INVALID_SNAPSHOT",
    "UNSUPPORTED_SERVER",
    "INVALID_CONFIG",
    ...denials
  ),
  retryable: fc.boolean()
})

const snapshot = fc.constantFrom(...Object.values(published).map(({ etag, revision }) => ({ revision, etag })))

const answer: fc.Arbitrary<Model.Answer> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ snapshot }) },
  { weight: 3, arbitrary: fc.constant({ unchanged: "held" } as const) },
  { weight: 2, arbitrary: fc.record({ error: failure }) },
  { weight: 1, arbitrary: fc.record({ unchanged: fc.constantFrom("other revision" as const, "other etag" as const) }) },
  { weight: 1, arbitrary: fc.record({ corrupt: snapshot }) }
)

const replyTo = ({ containers, timeoutMs }: Model.Settings): fc.Arbitrary<Model.Reply> => {
  const after = fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: timeoutMs - 1 }) },
    { weight: 2, arbitrary: fc.constantFrom(timeoutMs - 1, timeoutMs, timeoutMs + 1) }
  )
  return fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        _tag: fc.constant("Answers" as const),
        after,
        answers: fc.array(answer, { minLength: containers.length, maxLength: containers.length })
      })
    },
    { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Fails" as const), after, failure }) },
    {
      weight: 3,
      arbitrary: fc.record(
        {
          _tag: fc.constant("Denied" as const),
          after,
          refined: fc.record({ after, failure: denial })
        },
        { requiredKeys: ["_tag", "after"] }
      )
    },
    { weight: 1, arbitrary: fc.constant<Model.Reply>({ _tag: "Hangs" }) }
  )
}

const commandsFor = (settings: Model.Settings): fc.Arbitrary<ReadonlyArray<Command>> => {
  const edges = [settings.windowMs, settings.timeoutMs].flatMap((ms) => [ms - 1, ms, ms + 1]).filter((ms) => ms > 0)
  const command: fc.Arbitrary<Command> = fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        _tag: fc.constant("Acquire" as const),
        reply: replyTo(settings),
        deaf: fc.oneof({ weight: 7, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) })
      })
    },
    {
      weight: 5,
      arbitrary: fc.record({
        _tag: fc.constant("AdvanceTo" as const),
        moment: fc.constantFrom("expiry" as const, "deadline" as const, "event" as const),
        offset: fc.constantFrom(-1 as const, 0 as const, 1 as const)
      })
    },
    {
      weight: 2,
      arbitrary: fc.record({
        _tag: fc.constant("Advance" as const),
        ms: fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 1, max: 2 * settings.timeoutMs }))
      })
    },
    { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Interrupt" as const), index: fc.nat(5) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        _tag: fc.constant("GoBack" as const),
        ms: fc.integer({ min: 1, max: settings.windowMs + 1 })
      })
    }
  )
  return fc.array(command, { maxLength: 25, size: "max" })
}

// ---------------------------------------------------------------------------------------------------------------------
// The registry
// ---------------------------------------------------------------------------------------------------------------------

/** What holds back a scripted answer until the harness lets it through. */
interface Gates {
  readonly head: Deferred.Deferred<void>
  readonly end: Deferred.Deferred<void>
  readonly deaf: boolean
}

const errorOf = ({ code, retryable }: Model.Failure) => DeliveryError.fromCode(code, { retryable })

const blocking = (failure: Model.Failure): DeliveryError.Blocking => {
  const error = errorOf(failure)
  if (!DeliveryError.isBlocking(error)) throw new Error(`${failure.code} does not block`)
  return error
}

const find = ({ etag, revision }: Model.Published): SnapshotResponse => {
  const found = Object.values(published).find((one) => one.etag === etag && one.revision === revision)
  if (found === undefined) throw new Error("not published")
  return found
}

const corrupted = (response: SnapshotResponse): SnapshotResponse => ({
  ...response,
  archive: response.archive.map((byte, index) => (index === 40 ? byte ^ 1 : byte))
})

const replyFor = (answer: Model.Answer, { ifNoneMatch }: SnapshotRequest) => {
  if ("error" in answer) return Either.left(errorOf(answer.error))
  const reply = (reply: SnapshotReply) => Either.right(reply)
  if ("snapshot" in answer) return reply({ _tag: "Snapshot", response: find(answer.snapshot) })
  if ("corrupt" in answer) return reply({ _tag: "Snapshot", response: corrupted(find(answer.corrupt)) })
  const held = Object.values(published).find(({ etag }) => etag === ifNoneMatch)
  return reply({
    _tag: "Unchanged",
    revision: held === undefined || answer.unchanged === "other revision" ? "r9" : held.revision,
    etag: held === undefined || answer.unchanged === "other etag" ? `"${"9".repeat(64)}"` : held.etag
  })
}

/** The reply as a script has it; `onRelease` hears that the request with that number has ended, however it did. */
const scripted = (
  reply: Model.Reply,
  containers: ReadonlyArray<{ readonly id: string }>,
  { deaf, end, head }: Gates,
  script: RegistryScript.RegistryScript["Type"],
  onRelease: (number: number) => void
): RegistryScript.ScriptedReply =>
  Effect.gen(function* () {
    const requests = yield* script.requests
    const request = requests.at(-1)
    if (request === undefined) return yield* Effect.dieMessage("a reply without a request")
    yield* Effect.addFinalizer(() => Effect.sync(() => onRelease(requests.length - 1)))
    const pass = (gate: Deferred.Deferred<void>) =>
      deaf ? Effect.uninterruptible(Deferred.await(gate)) : Deferred.await(gate)

    switch (reply._tag) {
      case "Hangs":
        return yield* Effect.zipRight(pass(end), Effect.never)
      case "Fails":
        return yield* Effect.zipRight(pass(end), Effect.fail(errorOf(reply.failure)))
      case "Denied": {
        const refined = Effect.as(pass(end), blocking(reply.refined?.failure ?? Model.forbidden))
        return yield* Effect.zipRight(pass(head), RegistryScript.denied(blocking(Model.forbidden), refined))
      }
      case "Answers": {
        yield* pass(end)
        const asked = request._tag === "Get" ? [request.request] : request.requests
        const replies = asked.map((one) => {
          const answer = reply.answers[containers.findIndex(({ id }) => id === one.containerId)]
          return answer === undefined ? Either.left(errorOf(Model.forbidden)) : replyFor(answer, one)
        })
        const [only] = replies
        if (request._tag === "Batch" || only === undefined) return yield* RegistryScript.batch(...replies)
        return yield* only
      }
    }
  })

// ---------------------------------------------------------------------------------------------------------------------
// What is compared, as text
// ---------------------------------------------------------------------------------------------------------------------

/** JSON with its members in order, so that equal values are equal texts. */
const canonical = (value: unknown) =>
  JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([left], [right]) => (left < right ? -1 : 1)))
      : member
  )

interface Observation {
  readonly acquires: ReadonlyArray<string>
  readonly requests: ReadonlyArray<string>
  readonly status: unknown
  /** What the stream of changes has given, to its last. */
  readonly changes: string
}

const text = ({ acquires, changes, requests, status }: Observation) =>
  [
    ...acquires.map((one, number) => `acquire ${number}: ${one}`),
    ...requests.map((one, number) => `request ${number}: ${one}`),
    `status: ${canonical(status)}`,
    `changes: ${changes}`
  ].join("\n")

const waits = "waits"
const interrupted = "interrupted"
const uptodate = "end with this status, none repeated"

const gave = ({ etag, revision }: Model.Published, skills: ReadonlyArray<string>, sameAs: number) =>
  `${nameOf({ revision, etag })} with ${skills.join(", ")}, the value of acquire ${sameAs}`

const failedWith = ({ code, retryable }: Model.Failure) => `${code}${retryable ? ", retryable" : ""}`

const request = (asked: ReadonlyArray<Model.Asked>, running: boolean) => {
  const one = ({ containerId, ifNoneMatch, revision }: Model.Asked) => {
    const held = Object.entries(published).find(([, { etag }]) => etag === ifNoneMatch)?.[0] ?? ifNoneMatch
    return `${containerId}${revision === undefined ? "" : ` at ${revision}`}${held === undefined ? "" : ` unless ${held}`}`
  }
  return `${asked.map(one).join(", ")}${running ? " (running)" : ""}`
}

const expected = (model: Model.Model, lingering: ReadonlySet<number>) => {
  const { acquires, checks } = model
  const valueOf = ({ result }: (typeof acquires)[number]) =>
    typeof result === "object" && "value" in result ? result.value : undefined
  return text({
    acquires: acquires.map((acquire) => {
      const { result } = acquire
      if (result === undefined) return waits
      if (result === "interrupted") return interrupted
      if ("failure" in result) return failedWith(result.failure)
      const sameAs = acquires.findIndex((other) => valueOf(other) === result.value)
      return gave(result, result.skills, sameAs)
    }),
    requests: checks.map(({ asked, running }, number) => request(asked, running || lingering.has(number))),
    status: Model.status(model),
    changes: uptodate
  })
}

type AcquireExit = Exit.Exit<VerifiedSnapshot, DeliveryError.DeliveryError>

const outcome = (exits: ReadonlyArray<AcquireExit | undefined>, number: number) => {
  const exit = exits[number]
  if (exit === undefined) return waits
  if (Exit.isSuccess(exit)) {
    const sameAs = exits.findIndex(
      (other) => other !== undefined && Exit.isSuccess(other) && other.value === exit.value
    )
    const skills = exit.value.skills.map(({ name }) => name)
    return gave(exit.value, skills, sameAs)
  }
  const failure = Cause.failureOption(exit.cause)
  if (Option.isSome(failure)) return failedWith({ code: failure.value._tag, retryable: failure.value.retryable })
  return Cause.isInterruptedOnly(exit.cause) ? interrupted : Cause.pretty(exit.cause)
}

const withoutMessages = (status: DeliveryStatus): unknown =>
  JSON.parse(JSON.stringify(Schema.encodeSync(DeliveryStatus)(status)), (key, value) =>
    key === "message" ? undefined : value
  )

const reported = (changes: ReadonlyArray<DeliveryStatus>, status: DeliveryStatus) => {
  const repeats = changes.some((one, index) => index > 0 && equals(one, changes[index - 1] ?? one))
  const last = changes.at(-1)
  if (repeats) return "repeat a status"
  return last !== undefined && equals(last, status) ? uptodate : `end with ${canonical(last)}`
}

// ---------------------------------------------------------------------------------------------------------------------
// A run
// ---------------------------------------------------------------------------------------------------------------------

/** Whatever can go on without the clock and without another macrotask has gone on when this ends. */
const macrotask = Effect.async<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** Verification may leave the event loop, so how many turns the service needs is not fixed. */
const patience = 2_000

const run = Effect.fnUntraced(function* (
  settings: Model.Settings,
  options: SkillDelivery.Options,
  commands: ReadonlyArray<Command>
) {
  const scope = yield* Scope.make()
  const layer = Layer.provideMerge(SkillDelivery.layer(options), RegistryScript.layer)
  const context = yield* Layer.buildWithScope(layer, scope)
  const delivery = Context.get(context, SkillDelivery.SkillDelivery)
  const script = Context.get(context, RegistryScript.RegistryScript)

  let model = Model.initial(settings)
  const history: Array<string> = []
  const say = (what: string) => history.push(`${model.now}: ${what}`)

  const fibers: Array<Fiber.RuntimeFiber<VerifiedSnapshot, DeliveryError.DeliveryError>> = []
  const exits: Array<AcquireExit> = []
  /** By request, as those are numbered. */
  const gates: Array<Gates> = []
  const released = new Set<number>()
  const changes: Array<DeliveryStatus> = []
  let closed = false
  yield* Effect.forkDaemon(Stream.runForEach(delivery.changes, (status) => Effect.sync(() => changes.push(status))))

  /** Requests that are over, but whose transport does not heed it. */
  const lingering = () => {
    const isLingering = (number: number) => gates[number]?.deaf === true && !released.has(number)
    return new Set(model.checks.flatMap(({ running }, number) => (!running && isLingering(number) ? [number] : [])))
  }

  const observed = Effect.gen(function* () {
    const requests = yield* script.requests
    const status = yield* delivery.status
    return text({
      acquires: fibers.map((_, number) => outcome(exits, number)),
      requests: requests.map((one, number) =>
        request(one._tag === "Get" ? [one.request] : one.requests, !released.has(number))
      ),
      status: withoutMessages(status),
      // The stream ends with the layer, before what its closing changes.
      changes: closed ? uptodate : reported(changes, status)
    })
  })

  /**
   * Gives the service turns of the event loop until it agrees with the model, and two more to see that it stays so. That
   * nothing is under way even then need not be known: every later comparison would show it.
   */
  const agree = Effect.gen(function* () {
    for (let turn = 0; turn < patience; turn++) {
      yield* macrotask
      if ((yield* observed) === expected(model, lingering())) break
    }
    yield* Effect.repeatN(macrotask, 1)
    const [says, should] = [yield* observed, expected(model, lingering())]
    if (says !== should) {
      const message = [...history, "", "expected", should, "", `got at ${model.now}`, says].join("\n")
      return yield* Effect.die(new Error(message))
    }
  })

  const open = (number: number, gate: "head" | "end") => {
    const opened = gates[number]?.[gate]
    return opened === undefined ? Effect.void : Deferred.succeed(opened, undefined)
  }

  const happen = (event: Model.Event) =>
    Effect.suspend(() => {
      say(`${event.what} of request ${event.check}`)
      model = Model.happen(model, event)
      return event.what === "deadline" ? Effect.void : open(event.check, event.what)
    })

  const setTime = (now: number) =>
    Effect.zipRight(
      TestClock.setTime(now),
      Effect.sync(() => {
        model = Model.at(model, now)
      })
    )

  const answerLate = Effect.suspend(() =>
    Effect.forEach(lingering(), (number) => Effect.zip(open(number, "head"), open(number, "end")), { discard: true })
  )

  const advanceTo = Effect.fnUntraced(function* (time: number) {
    yield* answerLate
    for (let event = Model.next(model); event !== undefined && event.at <= time; event = Model.next(model)) {
      if (event.at !== model.now) yield* setTime(event.at)
      yield* happen(event)
      yield* agree
    }
    if (time !== model.now) yield* setTime(time)
  })

  const moments = ({ moment, offset }: Command & { readonly _tag: "AdvanceTo" }): ReadonlyArray<number> => {
    const { checks, containers } = model
    const all = {
      expiry: containers.flatMap(({ checkedAt }) => (checkedAt === undefined ? [] : checkedAt + settings.windowMs)),
      deadline: checks.flatMap(({ running, startedAt }) => (running ? startedAt + settings.timeoutMs : [])),
      event: [Model.next(model) ?? []].flat().map(({ at }) => at)
    }
    return all[moment].map((time) => time + offset).filter((time) => time > model.now)
  }

  const acquire = Effect.fnUntraced(function* (reply: Model.Reply, deaf: boolean) {
    const gate: Gates = { head: yield* Deferred.make<void>(), end: yield* Deferred.make<void>(), deaf }
    yield* script.clear
    yield* script.enqueue(scripted(reply, settings.containers, gate, script, (number) => released.add(number)))
    const requests = model.checks.length
    model = Model.acquire(model, reply)
    if (model.checks.length > requests) gates[requests] = gate

    const number = fibers.length
    const fiber = yield* Effect.forkDaemon(delivery.acquire)
    fiber.addObserver((exit) => {
      exits[number] = exit
    })
    fibers.push(fiber)
    // The fiber has not run yet, so what is answered after 0 ms waits for nothing.
    for (let event = Model.next(model); event?.at === model.now; event = Model.next(model)) yield* happen(event)
  })

  const interrupt = (number: number) =>
    Effect.suspend(() => {
      const fiber = fibers[number]
      model = Model.interrupt(model, number)
      return fiber === undefined ? Effect.void : Fiber.interruptFork(fiber)
    })

  const apply = (command: Command): Effect.Effect<void> => {
    switch (command._tag) {
      case "Advance":
        return advanceTo(model.now + command.ms)
      case "AdvanceTo": {
        const times = moments(command)
        return times.length === 0 ? Effect.void : advanceTo(Math.min(...times))
      }
      case "GoBack":
        return model.checks.some(({ running }) => running) ? Effect.void : setTime(model.now - command.ms)
      case "Acquire":
        return acquire(command.reply, command.deaf)
      case "Interrupt": {
        const waiting = Model.waiting(model)
        const number = waiting[command.index % waiting.length]
        return number === undefined ? Effect.void : interrupt(number)
      }
    }
  }

  yield* agree
  for (const command of commands) {
    say(JSON.stringify(command))
    yield* apply(command)
    yield* agree
  }

  // Closing the layer interrupts every caller that waits, and the requests with them.
  say("the layer closes")
  for (const number of Model.waiting(model)) model = Model.interrupt(model, number)
  yield* Scope.close(scope, Exit.void)
  closed = true
  yield* agree
  yield* answerLate
  yield* agree
})

describe("SkillDelivery and a model of the Lifecycle section agree", () => {
  const agrees = (name: string, settings: Model.Settings, options: SkillDelivery.Options, numRuns: number) =>
    // Concurrent, for each spends most of its time waiting for timers of TestClock.
    it.concurrent(`${name} (seed ${seed}, ${numRuns} runs)`, { timeout: 600_000 }, () =>
      check(
        [commandsFor(settings)],
        (commands) => Effect.runPromise(Effect.provide(run(settings, options, commands), TestContext.TestContext)),
        // A bound against hanging only; shrinking ends in time to show the smallest counterexample found.
        { numRuns, interruptAfterTimeLimit: 500_000, markInterruptAsFailure: true }
      )
    )

  const byDefault = { windowMs: 5_000, timeoutMs: 5_000 }

  agrees("one container", { ...byDefault, list: false, containers: [{ id: "team" }] }, { container: "team" }, 60)
  agrees(
    "one container, pinned, with a window shorter than the timeout",
    { list: false, containers: [{ id: "team", pin: "r1" }], windowMs: 800, timeoutMs: 3_000 },
    { container: "team", revision: "r1", freshness: 800, timeout: 3_000 },
    60
  )
  agrees(
    "one container, no window",
    { list: false, containers: [{ id: "team" }], windowMs: 0, timeoutMs: 1_000 },
    { container: "team", freshness: 0, timeout: "1 second" },
    60
  )
  agrees("a list of one", { ...byDefault, list: true, containers: [{ id: "team/ä" }] }, { containers: ["team/ä"] }, 40)
  agrees(
    "a list of two with a window longer than the timeout",
    { list: true, containers: [{ id: "a" }, { id: "b" }], windowMs: 4_000, timeoutMs: 1_500 },
    { containers: ["a", "b"], freshness: 4_000, timeout: 1_500 },
    90
  )
  agrees(
    "a list of three, one pinned",
    { list: true, containers: [{ id: "a" }, { id: "b", pin: "r1" }, { id: "c" }], windowMs: 900, timeoutMs: 1_200 },
    { containers: ["a", { container: "b", revision: "r1" }, "c"], freshness: 900, timeout: 1_200 },
    90
  )
})
