import { createHash, createHmac } from "node:crypto"
import { inspect } from "node:util"
import { FetchHttpClient, type HttpClient } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import {
  Cause,
  Effect,
  Exit,
  Fiber,
  Layer,
  Metric,
  Option,
  Redacted,
  Schema,
  type Scope,
  TestClock,
  type Tracer
} from "effect"
import * as ZipWriter from "../../src/archive/ZipWriter.js"
import * as DeliveryError from "../../src/delivery/DeliveryError.js"
import { DeliveryStatus } from "../../src/delivery/DeliveryStatus.js"
import * as RegistryApi from "../../src/delivery/RegistryApi.js"
import * as RegistryClient from "../../src/delivery/RegistryClient.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import type { SnapshotResponse } from "../../src/delivery/Snapshot.js"
import * as SnapshotCache from "../../src/delivery/SnapshotCache.js"
import { httpClients } from "../support/HttpClients.js"
import { deliver, held } from "../support/HttpDelivery.js"
import * as Loopback from "../support/LoopbackRegistry.js"
import { attributesOf, recorded } from "../support/Recorded.js"
import { apiKey, opaque } from "../support/RegistryConnection.js"
import * as Skills from "../support/Skills.js"

/** In every file of every skill. */
const content = "CONTENT-OF-A-FILE-f3a91"
/** In every word of a server that is not an id, a code or a number. */
const spoken = "SPOKEN-BY-THE-SERVER-7c20"

const good = (revision: string) =>
  Skills.response(
    {
      greeting: {
        description: spoken,
        files: { "SKILL.md": `# Greeting\n${content}\n`, "logo.bin": Buffer.from(`\xff${content}`, "latin1") }
      }
    },
    revision
  )
const r1 = good("r1")
const r2 = good("r2")

// ---------------------------------------------------------------------------------------------------------------------
// What must not be seen, in whatever form
// ---------------------------------------------------------------------------------------------------------------------

/** The base64 of a text inside a longer one: three texts, one for each place in a group of three bytes. */
const base64Within = (text: string) =>
  [0, 1, 2].map((offset) => {
    const encoded = Buffer.from("x".repeat(offset) + text).toString("base64")
    // The first and the last characters depend on what stands before and behind.
    return encoded.slice(offset === 0 ? 0 : 4, Math.floor(((offset + text.length) * 4) / 3) - 1)
  })

const formsOf = (text: string): ReadonlyArray<string> => [
  text,
  encodeURIComponent(text),
  JSON.stringify(text).slice(1, -1),
  Buffer.from(text).toString("hex"),
  [...Buffer.from(text)].join(","),
  ...base64Within(text),
  ...base64Within(text).map((encoded) => encoded.replaceAll("+", "-").replaceAll("/", "_"))
]

/** The seal of cached records, and what a hash would make of the key. */
const derived = [
  createHash("sha256").update(apiKey).digest(),
  createHmac("sha256", apiKey).update("effect-agent-contracts: seal of learned-skill records, version 1").digest()
]

/** A part of the key is a secret too. */
const parts = (text: string, length: number) =>
  Array.from({ length: text.length - length + 1 }, (_, start) => text.slice(start, start + length))

const forbidden: ReadonlyArray<string> = [
  ...formsOf(apiKey),
  ...parts(apiKey, 12),
  ...derived.flatMap((bytes) => [bytes.toString("hex"), bytes.toString("base64"), [...bytes].join(",")]),
  ...formsOf(content),
  ...formsOf(spoken)
]

const leaks = (seen: string) => forbidden.filter((form) => seen.includes(form))

/** A value in every way in which it may be shown. */
const shown = (value: unknown): ReadonlyArray<string> => [
  inspect(value, { depth: 20, showHidden: true, maxStringLength: null, maxArrayLength: null }),
  String(value),
  JSON.stringify(value, (_, member) => (typeof member === "bigint" ? String(member) : member)) ?? ""
]

/** A span as a tracer gives it is written to; Effect's own can be read as well. */
const eventsOf = (span: Tracer.Span) => ("events" in span ? span.events : undefined)

/** What an exporter can send of a span. Of a success that is nothing: its value stays in the process. */
const spanShown = (span: Tracer.Span): ReadonlyArray<string> => {
  const { attributes, links, name, status } = span
  const cause = status._tag === "Ended" && Exit.isFailure(status.exit) ? status.exit.cause : undefined
  const linked = links.map((link) => link.attributes)
  return [
    name,
    ...shown([[...attributes], eventsOf(span), linked]),
    ...(cause === undefined ? [] : [Cause.pretty(cause, { renderErrorCause: true }), ...shown(cause)])
  ]
}

const exitShown = (exit: Exit.Exit<unknown, DeliveryError.DeliveryError>): ReadonlyArray<string> => {
  if (Exit.isSuccess(exit)) return []
  const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
  return [
    Cause.pretty(exit.cause, { renderErrorCause: true }),
    ...shown(exit.cause),
    ...shown(failure),
    ...shown(failure?.message),
    ...shown(failure?.stack),
    ...shown(failure?.cause)
  ]
}

const statusShown = (status: DeliveryStatus) => [...shown(status), ...shown(Schema.encodeSync(DeliveryStatus)(status))]

// ---------------------------------------------------------------------------------------------------------------------
// Deliveries
// ---------------------------------------------------------------------------------------------------------------------

const envelope = (code: string) =>
  JSON.stringify({ error: { code, message: spoken, category: spoken, retryable: true }, more: spoken })

const headers = { "x-odd": spoken, "www-authenticate": `Bearer realm="${spoken}"`, server: spoken }

/** An archive that is what its ETag says, and no snapshot. */
const archived = (manifest: unknown) =>
  opaque(
    ZipWriter.write([
      { path: "manifest.json", bytes: Buffer.from(typeof manifest === "string" ? manifest : JSON.stringify(manifest)) },
      { path: "greeting/SKILL.md", bytes: Buffer.from(content) }
    ])
  )

const withMetadata = (metadata: Record<string, string>) =>
  Loopback.respond(200, { ...RegistryApi.snapshotHeaders(r1), ...headers, ...metadata }, r1.archive)

const tampered: SnapshotResponse = { ...r1, archive: r1.archive.map((byte, index) => (index === 60 ? byte ^ 1 : byte)) }

const html = `<!doctype html><title>${spoken}</title>`

/** Answers to one container, each with what the acquire after it ends with. */
const answers: ReadonlyArray<readonly [outcome: string, handler: Loopback.Handler]> = [
  ["r1", withMetadata({})],
  ["INVALID_SNAPSHOT", Loopback.snapshot(tampered)],
  ["INVALID_SNAPSHOT", Loopback.snapshot(opaque(Buffer.from(`${content}${spoken}`)))],
  ["INVALID_SNAPSHOT", Loopback.snapshot(archived(`{"${spoken}`))],
  ["INVALID_SNAPSHOT", Loopback.snapshot(archived({ schemaVersion: 1, revision: spoken, skills: spoken }))],
  ["UNSUPPORTED_SERVER", Loopback.snapshot(archived({ schemaVersion: 2, revision: "r1", skills: spoken }))],
  ["INVALID_SNAPSHOT", withMetadata({ etag: `W/"${spoken}"` })],
  ["INVALID_SNAPSHOT", withMetadata({ [RegistryApi.metadataHeaders.revision]: spoken })],
  ["INVALID_SNAPSHOT", withMetadata({ "content-type": `text/${spoken}` })],
  ["INVALID_SNAPSHOT", Loopback.respond(304, { ...headers, ...RegistryApi.unchangedHeaders("r1", spoken) })],
  ["UNSUPPORTED_SERVER", Loopback.respond(302, { ...headers, location: `/${spoken}` }, spoken)],
  ["UNSUPPORTED_SERVER", Loopback.respond(500, { ...headers, "content-type": "text/html" }, html)],
  ["UNSUPPORTED_SERVER", Loopback.respond(404, headers, envelope(spoken))],
  ["NETWORK_ERROR", Loopback.respond(503, headers, envelope("NETWORK_ERROR"))],
  [
    "NETWORK_ERROR",
    Loopback.sequence(Loopback.head(200, { ...RegistryApi.snapshotHeaders(r1), ...headers }), ({ reset }) => reset)
  ],
  ["NETWORK_ERROR", ({ hangUp, raw }) => Effect.zipRight(raw(`HTTP/1.1 ${spoken}\r\n\r\n`), hangUp)],
  ["AUTHENTICATION_FAILED", Loopback.respond(401, headers, envelope("CONTAINER_NOT_FOUND"))],
  ["AUTHORIZATION_FAILED", Loopback.respond(403, headers, html)],
  ["ENTITLEMENT_REQUIRED", Loopback.respond(403, headers, envelope("ENTITLEMENT_REQUIRED"))],
  ["CONTAINER_NOT_FOUND", Loopback.respond(404, headers, envelope("CONTAINER_NOT_FOUND"))],
  ["INVALID_CONFIG", Loopback.respond(400, headers, envelope("INVALID_CONFIG"))],
  ["REVISION_REVOKED", Loopback.respond(410, headers, envelope("REVISION_REVOKED"))]
]

/** The same for a list of two. */
const batches: ReadonlyArray<readonly [outcome: string, handler: Loopback.Handler]> = [
  ["multi", Loopback.batch(RegistryApi.snapshotEntry("a", r1), RegistryApi.snapshotEntry("b", r2))],
  ["INVALID_SNAPSHOT", Loopback.json(200, { containers: [{ containerId: spoken, status: spoken }, spoken] })],
  ["INVALID_SNAPSHOT", Loopback.respond(200, { ...headers, "content-type": "application/json" }, `{"${spoken}`)],
  ["INVALID_SNAPSHOT", Loopback.batch(RegistryApi.snapshotEntry("a", tampered), RegistryApi.snapshotEntry("b", r2))],
  [
    "DELIVERY_DISABLED",
    Loopback.json(200, {
      containers: [
        { containerId: "a", status: "error", error: { code: "DELIVERY_DISABLED", retryable: false, message: spoken } },
        { containerId: "b", status: "error", error: { code: "TIMEOUT", retryable: true, message: spoken } }
      ]
    })
  ],
  ["AUTHORIZATION_FAILED", Loopback.respond(403, headers, html)]
]

/** What was seen of one acquire, and what it ended with. */
const acquired = (delivery: SkillDelivery.SkillDelivery["Type"]) =>
  Effect.gen(function* () {
    const {
      exit: outer,
      logs,
      spans
    } = yield* recorded(delivery.acquire.pipe(Effect.tapErrorCause(Effect.logError), Effect.withSpan("caller")))
    const status = yield* delivery.status
    const seen = [...spans.flatMap(spanShown), ...logs.flatMap(shown), ...exitShown(outer), ...statusShown(status)]
    return { exit: outer, seen: seen.join("\n"), spans, logs, status }
  })

const outcomeOf = (exit: Exit.Exit<{ readonly revision: string }, DeliveryError.DeliveryError>) =>
  Exit.match(exit, {
    onSuccess: ({ revision }) => revision.split(":", 1)[0],
    onFailure: (cause) => Option.getOrUndefined(Cause.failureOption(cause))?._tag
  })

/** How many checks have ended so, in this process. */
const counted = (outcome: string) =>
  Effect.map(Metric.value(Metric.tagged(SkillDelivery.checks, "outcome", outcome)), (state) => state.count)

const metrics = Effect.map(Metric.snapshot, (snapshot) => {
  const text = shown(snapshot).join("\n")
  expect(text).toContain("effect_agent_contracts_delivery_checks")
  return text
})

describe("what is looked for", () => {
  it.effect("is the key in every form, and what the client makes of it", () =>
    Effect.gen(function* () {
      const { sealingKey } = yield* RegistryClient.make({ apiUrl: "http://localhost", apiKey: Redacted.make(apiKey) })
      expect(leaks(Buffer.from(Redacted.value(sealingKey)).toString("base64"))).not.toEqual([])
      for (const before of ["", "a", "ab", "abc"]) {
        expect(leaks(Buffer.from(`${before}${apiKey}after`).toString("base64"))).not.toEqual([])
      }
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.effect("is found wherever it can be written", () =>
    Effect.gen(function* () {
      class Leaky extends Error {
        readonly detail = { deep: [content] }
      }
      const refused = Effect.fail(new DeliveryError.InvalidConfig({ setting: apiKey, problem: "" }))
      const event = Effect.map(Effect.currentSpan, (span) => span.event("answer", 0n, { body: content }))
      const leaky: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
        Effect.annotateCurrentSpan(spoken, 1),
        Effect.annotateCurrentSpan("headers", { server: [spoken] }),
        event,
        Effect.die(new Leaky()),
        refused
      ]
      const { logs, spans } = yield* recorded(
        Effect.forEach(leaky, (leak) => leak.pipe(Effect.withSpan("leaky"), Effect.exit)).pipe(
          Effect.zipRight(Effect.log("fine").pipe(Effect.annotateLogs("body", spoken))),
          Effect.zipRight(Effect.log({ deep: [apiKey] }))
        )
      )
      expect(spans.map((span) => leaks(spanShown(span).join("\n")).length > 0)).toEqual(leaky.map(() => true))
      expect(logs.map((line) => leaks(shown(line).join("\n")).length > 0)).toEqual([true, true])
      expect(leaks(exitShown(yield* Effect.exit(refused)).join("\n"))).toContain(apiKey)
    })
  )
})

describe.each(httpClients)("over %s", (_, http) => {
  const overHttp = <A, E>(
    effect: Effect.Effect<A, E, Loopback.LoopbackRegistry | HttpClient.HttpClient | Scope.Scope>
  ) => Effect.provide(effect, Layer.merge(Loopback.layer, http))

  describe("neither the key nor a file nor a word of the server is in a span, a log, a metric, an error or a status", () => {
    it.scoped("of one container, with nothing held", () =>
      Effect.gen(function* () {
        for (const [outcome, handler] of answers) {
          const skills = yield* deliver({ container: "team" })
          yield* skills.enqueue(handler)
          const { exit, seen, spans } = yield* acquired(skills)
          expect(outcomeOf(exit)).toBe(outcome)
          expect(spans.map((span) => span.name)).toContain("RegistryClient.get")
          expect(leaks(seen), outcome).toEqual([])
        }
        expect(leaks(yield* metrics)).toEqual([])
      }).pipe(overHttp)
    )

    it.scoped("of one container, with a snapshot held", () =>
      Effect.gen(function* () {
        const skills = yield* deliver({ container: "team", freshness: 0 })
        for (const [outcome, handler] of answers) {
          yield* skills.enqueue(handler)
          const { seen, status } = yield* acquired(skills)
          expect(status.lastError?.code ?? status.revision).toBe(outcome)
          expect(leaks(seen), outcome).toEqual([])
        }
        expect(yield* Effect.map(skills.requests, (requests) => requests.length)).toBe(answers.length)
        expect(leaks(yield* metrics)).toEqual([])
      }).pipe(overHttp)
    )

    it.scoped("of a list", () =>
      Effect.gen(function* () {
        for (const [outcome, handler] of batches) {
          const skills = yield* deliver({ containers: ["a", "b"] })
          yield* skills.enqueue(handler)
          const { exit, seen, spans } = yield* acquired(skills)
          expect(outcomeOf(exit)).toBe(outcome)
          expect(spans.map((span) => span.name)).toContain("RegistryClient.batch")
          expect(leaks(seen), outcome).toEqual([])
        }
        expect(leaks(yield* metrics)).toEqual([])
      }).pipe(overHttp)
    )

    it.scoped("of a check that times out and of one that is interrupted", () =>
      Effect.gen(function* () {
        const skills = yield* deliver({ container: "team" })
        const half = Loopback.sequence(Loopback.head(403, headers), ({ write }) => write(spoken))
        const [slow, abandoned] = [yield* Loopback.watched(half), yield* Loopback.watched(half)]
        yield* skills.enqueue(slow.handler, abandoned.handler)

        const waiting = yield* Effect.fork(acquired(skills))
        yield* slow.reached
        yield* skills.headArrived
        yield* TestClock.adjust(5_000)
        const timedOut = yield* Fiber.join(waiting)
        expect(outcomeOf(timedOut.exit)).toBe("AUTHORIZATION_FAILED")
        expect(leaks(timedOut.seen)).toEqual([])

        // The caller gives up; what is seen of that is still asked for.
        const impatient = Effect.raceFirst(skills.acquire, Effect.zipRight(abandoned.reached, Effect.interrupt))
        const left = yield* acquired({ ...skills, acquire: impatient })
        yield* abandoned.closed
        expect(Exit.isInterrupted(left.exit)).toBe(true)
        expect(leaks(left.seen)).toEqual([])
      }).pipe(overHttp)
    )

    it.scoped("of deliveries over a cache, sound, tampered with and broken", () =>
      Effect.gen(function* () {
        const records = new Map<string, Uint8Array>()
        const broken = (): never => {
          throw new Error(`${spoken} ${apiKey} ${content}`)
        }
        const stores = {
          sound: (slot: string) => Option.fromNullable(records.get(slot)),
          tampered: (slot: string) =>
            Option.map(Option.fromNullable(records.get(slot)), (record) =>
              record.map((byte, i) => (i === 90 ? byte ^ 1 : byte))
            ),
          foreign: () => Option.some(Buffer.from(`${spoken}${content}${apiKey}`)),
          broken
        }
        const seenOf = Effect.fnUntraced(function* (
          load: (slot: string) => Option.Option<Uint8Array>,
          handler: Loopback.Handler
        ) {
          const cache = Layer.succeed(
            SnapshotCache.SnapshotCache,
            SnapshotCache.make({
              load: (slot) => Effect.sync(() => load(slot)),
              save: (slot, record) => Effect.sync(() => (load === broken ? broken() : void records.set(slot, record)))
            })
          )
          // Closing the layer waits for what it saves, and what that reports is seen as well.
          const { exit, logs, spans } = yield* recorded(
            Effect.scoped(
              Effect.gen(function* () {
                const skills = yield* deliver({ container: "team" }, cache)
                yield* skills.enqueue(handler)
                return yield* acquired(skills)
              })
            )
          )
          const one = yield* exit
          expect(spans.map((span) => span.name)).toContain("SnapshotCache.load")
          const seen = [one.seen, ...spans.flatMap(spanShown), ...logs.flatMap(shown)].join("\n")
          expect(leaks(seen)).toEqual([])
          return { ...one, reports: [...one.logs, ...logs].length }
        })

        const filled = yield* seenOf(stores.sound, withMetadata({}))
        expect([outcomeOf(filled.exit), filled.reports]).toEqual(["r1", 0])
        const restarted = yield* seenOf(stores.sound, Loopback.respond(500, headers, html))
        expect([outcomeOf(restarted.exit), restarted.status.stale]).toEqual(["r1", true])
        const denied = yield* seenOf(stores.sound, Loopback.respond(410, headers, envelope("REVISION_REVOKED")))
        expect(outcomeOf(denied.exit)).toBe("REVISION_REVOKED")
        for (const load of [stores.tampered, stores.foreign, stores.broken]) {
          const { exit, reports } = yield* seenOf(load, Loopback.respond(500, headers, html))
          // Nothing was restored, and that was reported.
          expect(outcomeOf(exit)).toBe("UNSUPPORTED_SERVER")
          expect(reports).toBeGreaterThan(1)
        }
        expect(leaks(yield* metrics)).toEqual([])
      }).pipe(overHttp)
    )
  })

  describe("the span of a check", () => {
    it.scoped("is the child of the caller that started it, and callers that join are linked", () =>
      Effect.gen(function* () {
        const skills = yield* deliver({ container: "team" })
        const answer = yield* held(Loopback.snapshot(r1))
        yield* skills.enqueue(answer.handler)
        const { spans } = yield* recorded(
          Effect.gen(function* () {
            const first = yield* Effect.fork(Effect.withSpan(skills.acquire, "first"))
            yield* answer.arrived
            const others = yield* Effect.forEach(["second", "third"], (name) =>
              Effect.fork(Effect.withSpan(skills.acquire, name))
            )
            const unseen = yield* Effect.fork(skills.acquire)
            yield* Effect.yieldNow()
            yield* answer.open
            yield* Fiber.joinAll([first, ...others, unseen])
          })
        )
        const named = (name: string) => spans.filter((span) => span.name === name)
        const [check, ...more] = named("SkillDelivery.check")
        expect(more).toEqual([])
        expect(check && Option.getOrUndefined(check.parent)).toBe(named("first")[0])
        expect(check?.links.map((link) => link.span)).toEqual([...named("second"), ...named("third")])
        expect(check && attributesOf(check)).toEqual({
          "skills.containers": ["team"],
          "skills.outcomes": ["snapshot"]
        })
      }).pipe(overHttp)
    )

    it.scoped("does not exist for an acquire inside the window", () =>
      Effect.gen(function* () {
        const skills = yield* deliver({ container: "team" })
        yield* skills.enqueue(Loopback.snapshot(r1), Loopback.snapshot(r1))
        yield* skills.acquire
        yield* TestClock.adjust(4_999)
        const inside = yield* recorded(Effect.withSpan(skills.acquire, "caller"))
        expect(inside.spans.map((span) => span.name)).toEqual(["caller"])
        yield* TestClock.adjust(1)
        const outside = yield* recorded(Effect.withSpan(skills.acquire, "caller"))
        expect(outside.spans.map((span) => span.name)).toContain("SkillDelivery.check")
      }).pipe(overHttp)
    )

    it.scoped("continues the caller's trace to the server, without a span of the HTTP client", () =>
      Effect.gen(function* () {
        const skills = yield* deliver({ container: "team" })
        yield* skills.enqueue(Loopback.snapshot(r1))
        const { spans } = yield* recorded(Effect.withSpan(skills.acquire, "caller"))
        const [request] = yield* skills.requests

        const sent = spans.find((span) => span.name === "RegistryClient.get")
        expect(request?.headers["traceparent"]).toBe(`00-${sent?.traceId}-${sent?.spanId}-01`)
        const ancestors: Array<string> = []
        for (
          let span: Tracer.AnySpan | undefined = sent;
          span?._tag === "Span";
          span = Option.getOrUndefined(span.parent)
        ) {
          ancestors.push(span.name)
        }
        expect(ancestors).toEqual(["RegistryClient.get", "SkillDelivery.check", "caller"])
        expect(spans.filter((span) => span.kind === "client").map((span) => span.name)).toEqual([])
        expect(spans.map((span) => span.name).filter((name) => name.startsWith("http"))).toEqual([])
      }).pipe(overHttp)
    )
  })

  it.scoped("checks are counted by outcome, one for each container that was asked for", () =>
    Effect.gen(function* () {
      const outcomes = ["snapshot", "unchanged", "interrupted", "TIMEOUT", "UNSUPPORTED_SERVER", "REVISION_REVOKED"]
      const before = yield* Effect.forEach(outcomes, counted)
      const single = yield* deliver({ container: "team", freshness: 0 })
      const abandoned = yield* Loopback.watched(() => Effect.void)
      const slow = yield* Loopback.watched(() => Effect.void)
      yield* single.enqueue(
        Loopback.snapshot(r1),
        Loopback.unchanged("r1", r1.etag),
        Loopback.unchanged("r1", r1.etag),
        Loopback.respond(500),
        Loopback.failure(410, new DeliveryError.RevisionRevoked()),
        abandoned.handler,
        slow.handler
      )
      yield* Effect.repeatN(Effect.exit(single.acquire), 4)
      const leaving = yield* Effect.fork(single.acquire)
      yield* abandoned.reached
      yield* Fiber.interrupt(leaving)
      const waiting = yield* Effect.fork(Effect.exit(single.acquire))
      yield* slow.reached
      yield* TestClock.adjust(5_000)
      yield* Fiber.join(waiting)

      const list = yield* deliver({ containers: ["a", "b"] })
      yield* list.enqueue(Loopback.batch(RegistryApi.snapshotEntry("a", r1), RegistryApi.snapshotEntry("b", r2)))
      yield* list.acquire
      // Inside the window nothing is checked, and nothing is counted.
      yield* list.acquire

      const after = yield* Effect.forEach(outcomes, counted)
      const grown = after.map((count, index) => count - (before[index] ?? 0))
      expect(Object.fromEntries(outcomes.map((outcome, index) => [outcome, grown[index]]))).toEqual({
        snapshot: 3,
        unchanged: 2,
        interrupted: 1,
        TIMEOUT: 1,
        UNSUPPORTED_SERVER: 1,
        REVISION_REVOKED: 1
      })
    }).pipe(overHttp)
  )
})
