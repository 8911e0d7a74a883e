import { get, type IncomingMessage } from "node:http"
import { buffer } from "node:stream/consumers"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as RegistryApi from "../../../src/delivery/RegistryApi.js"
import type { RegistryService } from "../../../src/registry/Registry.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { skillFile } from "../../support/Uploads.js"

const mebibyte = 1024 * 1024

const snapshotOf = (containerId: string) => `/api/v1/learning/containers/${containerId}/skills`

/** More than the sockets between server and client hold, so that whoever does not read keeps the server waiting. */
const large = new Uint8Array(16 * mebibyte).fill(120)

const other = { "other/SKILL.md": skillFile("other") }

/** The head of an answer; its body waits to be read. */
const open = ({ key, url }: HttpRegistry.HttpRegistry, path: string) =>
  Effect.async<IncomingMessage>((resume) => {
    const request = get(url + path, { headers: { "x-api-key": key }, agent: false }, (response) =>
      resume(Effect.succeed(response))
    )
    // Expected, of whoever leaves or is cut off.
    request.on("error", () => {})
    return Effect.sync(() => request.destroy())
  })

const readAll = (response: IncomingMessage) => Effect.promise(() => buffer(response))

/** As if archives of these sizes, in MiB, lay in the store; what is sent of each is `large`. */
const sized = (sizes: Readonly<Record<string, number>>) => (real: RegistryService) => ({
  resolve: (containerId: string, pin?: string) =>
    Effect.map(real.resolve(containerId, pin), (found) => ({
      ...found,
      size: (sizes[containerId] ?? 0) * mebibyte
    })),
  archive: () => Effect.succeed(large)
})

describe("an archive", () => {
  it.scopedLive("is read once for all who are sent it at the same time, and kept for none of them afterwards", () =>
    Effect.gen(function* () {
      let reads = 0
      const registry = yield* HttpRegistry.start({
        override: () => ({
          archive: () =>
            Effect.sync(() => {
              reads++
              return large
            })
        })
      })
      yield* registry.publish("a")
      const [skill] = (yield* registry.registry.listSkills()).items
      const download = `/v1/skills/${skill?.id}/versions/1/content`
      for (const path of [snapshotOf("a"), download]) {
        reads = 0
        const responses = yield* Effect.all(
          Array.from({ length: 8 }, () => open(registry, path)),
          { concurrency: "unbounded" }
        )
        expect(reads).toBe(1)
        for (const response of responses) {
          expect((yield* readAll(response)).equals(large)).toBe(true)
        }
        expect(yield* Effect.flatMap(registry.request(path), HttpRegistry.statusOf)).toBe(200)
        expect(reads).toBe(2)
      }
    })
  )

  it.scopedLive("still comes to the others when whoever asked first has left", () =>
    Effect.gen(function* () {
      const isRead = yield* Effect.makeLatch()
      const go = yield* Effect.makeLatch()
      let resolved = 0
      const registry = yield* HttpRegistry.start({
        override: (real) => ({
          resolve: (containerId, pin) =>
            Effect.suspend(() => {
              resolved++
              return real.resolve(containerId, pin)
            }),
          archive: (sha256) => isRead.open.pipe(Effect.zipRight(go.await), Effect.zipRight(real.archive(sha256)))
        })
      })
      yield* registry.publish("a")
      const first = yield* Effect.fork(open(registry, snapshotOf("a")))
      yield* isRead.await
      const second = yield* Effect.fork(open(registry, snapshotOf("a")))
      yield* Effect.yieldNow().pipe(Effect.repeat({ until: () => resolved === 2 }))
      yield* Fiber.interrupt(first)
      yield* go.open
      expect((yield* Fiber.join(second)).statusCode).toBe(200)
    })
  )
})

describe("what is on its way to readers", () => {
  it.scopedLive("is bounded: more is refused for the moment, until somebody has read or left", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ override: sized({ a: 250, b: 10 }) })
      yield* registry.publish("a")
      yield* registry.publish("b", other)
      const batch = (...containers: ReadonlyArray<string>) =>
        registry.request(RegistryApi.batchRoute, {
          method: "POST",
          body: JSON.stringify({ containers: containers.map((containerId) => ({ containerId })) })
        })
      const granted = Effect.flatMap(registry.request(snapshotOf("b")), HttpRegistry.statusOf).pipe(
        Effect.repeat({ until: (status) => status === 200 })
      )
      for (const end of [readAll, (response: IncomingMessage) => Effect.sync(() => response.destroy())]) {
        const slow = yield* open(registry, snapshotOf("a"))
        const refused = yield* registry.request(snapshotOf("b"))
        expect(refused.headers.get("retry-after")).toBe("1")
        expect(yield* HttpRegistry.refusalOf(refused)).toEqual([503, "NETWORK_ERROR"])
        expect(yield* HttpRegistry.jsonOf(yield* batch("b"))).toMatchObject({
          containers: [{ containerId: "b", error: { code: "NETWORK_ERROR", retryable: true } }]
        })
        // The same archive takes no more room.
        const another = yield* open(registry, snapshotOf("a"))
        another.destroy()
        yield* end(slow)
        yield* granted
      }
    })
  )

  it.scopedLive("is one archive of a batch at a time", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ override: sized({ a: 140, b: 140 }) })
      yield* registry.publish("a")
      yield* registry.publish("b", other)
      // As many as make room for both in the answer.
      const containers = ["a", "b", ...Array.from({ length: 48 }, (_, index) => `absent-${index}`)]
      const response = yield* registry.request(RegistryApi.batchRoute, {
        method: "POST",
        body: JSON.stringify({ containers: containers.map((containerId) => ({ containerId })) })
      })
      const answer = yield* HttpRegistry.jsonOf<{ readonly containers: ReadonlyArray<Record<string, unknown>> }>(
        response
      )
      expect(answer.containers.slice(0, 3)).toMatchObject([
        { containerId: "a", bytesBase64: expect.any(String) },
        { containerId: "b", bytesBase64: expect.any(String) },
        { containerId: "absent-0", error: { code: "CONTAINER_NOT_FOUND" } }
      ])
    })
  )

  it.scopedLive("is let go when the client of a batch cuts it", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ override: sized({ a: 250, b: 10 }) })
      yield* registry.publish("a")
      yield* registry.publish("b", other)
      // As many as make room for the archive in the answer.
      const containers = ["a", ...Array.from({ length: 49 }, (_, index) => `absent-${index}`)]
      const controller = new AbortController()
      const response = yield* registry.request(RegistryApi.batchRoute, {
        method: "POST",
        body: JSON.stringify({ containers: containers.map((containerId) => ({ containerId })) }),
        signal: controller.signal
      })
      expect(response.status).toBe(200)
      const ask = Effect.flatMap(registry.request(snapshotOf("b")), HttpRegistry.statusOf)
      expect(yield* Effect.repeat(ask, { until: (status) => status === 503 })).toBe(503)
      controller.abort()
      expect(yield* Effect.repeat(ask, { until: (status) => status === 200 })).toBe(200)
    })
  )

  it.scopedLive("is let go when the connection of a reader who takes nothing is cut", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ override: sized({ a: 250, b: 10 }) })
      registry.server.timeout = 1000
      yield* registry.publish("a")
      yield* registry.publish("b", other)
      const slow = yield* open(registry, snapshotOf("a"))
      expect(slow.statusCode).toBe(200)
      yield* Effect.flatMap(registry.request(snapshotOf("b")), HttpRegistry.statusOf).pipe(
        Effect.repeat({ until: (status) => status === 200 })
      )
      const received = yield* Effect.either(Effect.tryPromise(() => buffer(slow)))
      expect(received._tag).toBe("Left")
    })
  )
})
