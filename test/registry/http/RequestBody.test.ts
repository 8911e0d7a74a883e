import Anthropic, { toFile } from "@anthropic-ai/sdk"
import { HttpServerRequest } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, TestClock } from "effect"
import * as ByteBudget from "../../../src/registry/ByteBudget.js"
import * as MultipartForm from "../../../src/registry/MultipartForm.js"
import * as RequestBody from "../../../src/registry/RequestBody.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import * as RawConnection from "../../support/RawConnection.js"
import { skillFile } from "../../support/Uploads.js"

const head = (key: string, path: string, ...more: ReadonlyArray<string>) =>
  [`POST ${path} HTTP/1.1`, "Host: x", `X-Api-Key: ${key}`, ...more, "", ""].join("\r\n")

const multipart = "Content-Type: multipart/form-data; boundary=b"
const chunked = "Transfer-Encoding: chunked"
const partHead = '--b\r\nContent-Disposition: form-data; name="files[]"; filename="s/SKILL.md"\r\n\r\n'

const chunk = (bytes: Uint8Array | string) =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), Buffer.from(bytes), Buffer.from("\r\n")])

const block = chunk(new Uint8Array(256 * 1024).fill(120))

/** A server that still answers has lost nothing to whoever went before. */
const answers = (registry: HttpRegistry.HttpRegistry) =>
  Effect.map(registry.request("/v1/skills"), ({ status }) => expect(status).toBe(200))

describe("the body of an upload", () => {
  it.scopedLive("that never ends is refused while it streams, and its connection closed", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const connection = yield* RawConnection.open(registry.url)
      yield* connection.write(head(registry.key, "/v1/skills", multipart, chunked))
      yield* connection.write(chunk(partHead))
      const writing = yield* Effect.fork(Effect.forever(connection.write(block)))
      const answer = yield* connection.receive("request_too_large")
      expect(answer).toMatch(/^HTTP\/1\.1 413 /)
      yield* connection.closed
      yield* Fiber.interrupt(writing)
      yield* answers(registry)
    })
  )

  it.scopedLive("that declares too much is refused before it comes", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const connection = yield* RawConnection.open(registry.url)
      yield* connection.write(
        head(registry.key, "/v1/skills", multipart, `Content-Length: ${MultipartForm.maximumBytes + 1}`)
      )
      expect(yield* connection.receive("request_too_large")).toMatch(/^HTTP\/1\.1 413 /)
      yield* connection.closed
      yield* answers(registry)
    })
  )

  it.scopedLive("that breaks off leaves nothing running", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      for (let round = 0; round < 8; round++) {
        const connection = yield* RawConnection.open(registry.url)
        yield* connection.write(head(registry.key, "/v1/skills", multipart, "Content-Length: 5000"))
        yield* connection.write(partHead)
        yield* connection.destroy
      }
      // More than there are places for uploads: each has given its place back.
      const client = new Anthropic({ apiKey: registry.key, baseURL: registry.url, maxRetries: 0 })
      const files = [yield* Effect.promise(() => toFile(Buffer.from(skillFile()), "greeting/SKILL.md"))]
      expect((yield* Effect.promise(() => client.beta.skills.create({ files }))).type).toBe("skill")
    })
  )

  it.scopedLive("that is shorter than its form is refused", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const connection = yield* RawConnection.open(registry.url)
      yield* connection.write(head(registry.key, "/v1/skills", multipart, `Content-Length: ${partHead.length}`))
      yield* connection.write(partHead)
      const answer = yield* connection.receive("INVALID_REQUEST")
      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(answer).toContain("its form ends early")
    })
  )

  it.scoped("that stops arriving is given up, under the clock", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const connection = yield* RawConnection.open(registry.url)
      yield* connection.write(head(registry.key, "/v1/skills", multipart, "Content-Length: 5000"))
      yield* connection.write(partHead)
      const answer = yield* Effect.fork(connection.receive("REQUEST_STALLED"))
      // Until the server has come to wait; how soon that is only the server knows.
      const status = yield* Effect.fork(
        Effect.forever(
          Effect.zipRight(
            TestClock.adjust("30 seconds"),
            Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
          )
        )
      )
      expect(yield* Fiber.join(answer)).toMatch(/^HTTP\/1\.1 408 /)
      yield* connection.closed
      yield* Fiber.interrupt(status)
    })
  )

  it.scoped("that comes too slowly is given up, however long it goes on, under the clock", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const connection = yield* RawConnection.open(registry.url)
      yield* connection.write(head(registry.key, "/v1/skills", multipart, chunked))
      const writing = yield* Effect.fork(
        Effect.forever(Effect.zipRight(connection.write(chunk("a")), TestClock.adjust("10 seconds")))
      )
      expect(yield* connection.receive("REQUEST_STALLED")).toMatch(/^HTTP\/1\.1 408 /)
      yield* Fiber.interrupt(writing)
    })
  )

  it.scopedLive("that comes slowly keeps no other from publishing", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const upload = () => {
        const body = new FormData()
        body.append("files[]", new File([skillFile()], "greeting/SKILL.md"))
        return Effect.flatMap(registry.request("/v1/skills", { method: "POST", body }), HttpRegistry.statusOf)
      }
      const slow = yield* Effect.replicateEffect(RawConnection.open(registry.url), 6)
      for (const connection of slow) {
        yield* connection.write(head(registry.key, "/v1/skills", multipart, chunked))
        yield* connection.write(chunk(partHead))
      }
      expect(yield* upload()).toBe(200)
    })
  )

  it.effect("takes its part of what all bodies together may hold, until its request is over", () =>
    Effect.gen(function* () {
      const budget = ByteBudget.make(100_000)
      const read = (length: number) => {
        const request = new Request("http://x", { method: "POST", body: new Uint8Array(length) })
        return RequestBody.read(80_000, budget).pipe(
          Effect.provideService(HttpServerRequest.HttpServerRequest, HttpServerRequest.fromWeb(request)),
          Effect.match({ onFailure: ({ _tag }): unknown => _tag, onSuccess: ({ length }) => length })
        )
      }
      yield* Effect.scoped(
        Effect.gen(function* () {
          expect(yield* read(70_000)).toBe(70_000)
          expect(yield* Effect.scoped(read(20_000))).toBe(20_000)
          expect(yield* Effect.scoped(read(40_000))).toBe("SERVER_BUSY")
          expect(yield* Effect.scoped(read(90_000))).toBe("REQUEST_TOO_LARGE")
        })
      )
      expect(yield* Effect.scoped(read(40_000))).toBe(40_000)
    })
  )

  it.scopedLive("waits for its turn, but not behind any number of others", () =>
    Effect.gen(function* () {
      const go = yield* Effect.makeLatch()
      const registry = yield* HttpRegistry.start({
        override: (real) => ({ createSkill: (options) => Effect.zipRight(go.await, real.createSkill(options)) })
      })
      const upload = Effect.suspend(() => {
        const body = new FormData()
        body.append("files[]", new File([skillFile()], "greeting/SKILL.md"))
        return Effect.flatMap(registry.request("/v1/skills", { method: "POST", body }), HttpRegistry.statusOf)
      })
      const all = yield* Effect.forEach(Array.from({ length: 33 }), () => Effect.fork(upload))
      const [refused] = yield* Effect.raceAll(
        all.map((fiber) => Effect.map(Fiber.join(fiber), (status) => [status] as const))
      ).pipe(Effect.disconnect)
      expect(refused).toBe(503)
      yield* go.open
    })
  )

  it.scopedLive("of 45 MB is a refusal that the public client sees, not a broken connection", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const client = new Anthropic({ apiKey: registry.key, baseURL: registry.url, maxRetries: 0 })
      const files = [yield* Effect.promise(() => toFile(new Uint8Array(45_000_000), "greeting/large.bin"))]
      const error = yield* Effect.promise(() =>
        client.beta.skills.create({ files }).then(
          () => "accepted",
          (error) => (error instanceof Anthropic.APIError ? [error.status, error.type, error.errorCode] : error)
        )
      )
      expect(error).toEqual([413, "request_too_large", "REQUEST_TOO_LARGE"])
    })
  )

  it.scopedLive("may take its time between the parts it comes in", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const connection = yield* RawConnection.open(registry.url)
      const parts = [
        head(registry.key, "/v1/skills", multipart, chunked),
        ...Array.from(`${partHead.replace("s/", "greeting/")}${skillFile()}\r\n--b--\r\n`, (letter) => chunk(letter)),
        "0\r\n\r\n"
      ]
      for (const part of parts) yield* connection.write(part)
      expect(yield* connection.receive("latest_version_id")).toMatch(/^HTTP\/1\.1 200 /)
    })
  )
})

describe("a JSON body", () => {
  const path = "/api/v1/learning/skills/batch"

  it.scopedLive("that never ends is refused", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const connection = yield* RawConnection.open(registry.url)
      yield* connection.write(head(registry.key, path, "Content-Type: application/json", chunked))
      const writing = yield* Effect.fork(Effect.forever(connection.write(block)))
      expect(yield* connection.receive("REQUEST_TOO_LARGE")).toMatch(/^HTTP\/1\.1 413 /)
      yield* connection.closed
      yield* Fiber.interrupt(writing)
      yield* answers(registry)
    })
  )

  it.scopedLive("in chunks of one byte is read in larger pieces", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      let pieces = 0
      registry.server.prependListener("request", (request) => {
        const read = request.read.bind(request)
        request.read = (size?: number) => {
          const piece = read(size)
          if (piece !== null) pieces++
          return piece
        }
      })
      const connection = yield* RawConnection.open(registry.url)
      yield* connection.write(head(registry.key, path, "Content-Type: application/json", chunked))
      yield* connection.write(`${"1\r\na\r\n".repeat(50_000)}0\r\n\r\n`)
      expect(yield* connection.receive("INVALID_REQUEST")).toMatch(/^HTTP\/1\.1 400 /)
      expect(pieces).toBeLessThan(5_000)
    })
  )

  it.scopedLive.each([
    ["", "its body is not JSON"],
    ["[".repeat(200_000), "its body is not JSON"],
    [`{"containers":1}`, `"containers" is missing or not valid`],
    [
      `{"containers":[{"containerId":"a"},{"containerId":"secret\\n"}]}`,
      `"containers.1.containerId" is missing or not valid`
    ],
    ["7", "it has another shape"],
    [`{"containers":${"[".repeat(3000)}${"]".repeat(3000)}}`, `"containers.0" is missing or not valid`]
  ] as const)("%# that is not what the route takes is refused, and not quoted", ([body, problem]) =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const response = yield* registry.request(path, { method: "POST", body })
      const text = yield* Effect.promise(() => response.text())
      expect(response.status).toBe(400)
      expect(JSON.parse(text).error.message).toBe(`The request is not valid: ${problem}.`)
      expect(text).not.toContain("secret")
    })
  )
})
