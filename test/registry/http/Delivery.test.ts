import type { HttpClient } from "@effect/platform"
import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Either, Fiber, Layer, Redacted } from "effect"
import { NetworkError } from "../../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../../src/delivery/RegistryApi.js"
import * as RegistryClient from "../../../src/delivery/RegistryClient.js"
import * as SkillDelivery from "../../../src/delivery/SkillDelivery.js"
import { CorruptBlob } from "../../../src/store/BlobStore.js"
import { StoreUnavailable } from "../../../src/store/StoreError.js"
import { httpClients } from "../../support/HttpClients.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { sha256Hex } from "../../support/SnapshotArchive.js"
import { stores } from "../../support/Stores.js"
import { skillFile } from "../../support/Uploads.js"

const farewell = { "farewell/SKILL.md": skillFile("farewell") }

const clientOf = (registry: HttpRegistry.HttpRegistry, key = registry.key) =>
  RegistryClient.make({ apiUrl: registry.url, apiKey: Redacted.make(key) })

/** Bytes that do not compress. */
const noise = (length: number) => {
  let state = 1
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state >>> 24
  })
}

/** The code with which one container is refused. */
const codeOf = <A, E extends { readonly _tag: string }, R>(call: Effect.Effect<A, E, R>) =>
  Effect.match(call, { onFailure: ({ _tag }): string => _tag, onSuccess: () => "delivered" })

const get = (containerId: string, more: Partial<RegistryApi.SnapshotRequest> = {}) => ({ containerId, ...more })

/** Every client, and every store with one of them: neither knows of the other. */
const clientsAndStores = stores.flatMap(([name, store], index) =>
  (index === 0 ? httpClients : httpClients.slice(0, 1)).map(([client, http]) => [client, name, http, store] as const)
)

describe.each(clientsAndStores)("delivery to RegistryClient over %s, on %s", (_client, _store, http, store) => {
  const overHttp = <A, E, R>(effect: Effect.Effect<A, E, R | HttpClient.HttpClient>) => Effect.provide(effect, http)

  it.scopedLive("gives a published container as it verifies, and 304 for what is held", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const revision = yield* registry.publish("team skills/é")
      const client = yield* clientOf(registry)
      const skills = SkillDelivery.layer({ container: "team skills/é", freshness: 0 }).pipe(
        Layer.provide(RegistryClient.layer({ apiUrl: registry.url, apiKey: Redacted.make(registry.key) }))
      )
      const delivery = Context.get(yield* Layer.build(skills), SkillDelivery.SkillDelivery)
      const snapshot = yield* delivery.acquire
      expect(snapshot.revision).toBe(revision)
      expect(snapshot.skills.map(({ name }) => name)).toEqual(["greeting"])
      expect(yield* delivery.acquire).toBe(snapshot)

      const held = get("team skills/é", { ifNoneMatch: snapshot.etag })
      expect(yield* client.get(held)).toEqual({ _tag: "Unchanged", revision, etag: snapshot.etag })
      expect(yield* client.get({ ...held, revision })).toEqual({ _tag: "Unchanged", revision, etag: snapshot.etag })
      const next = yield* registry.publish("team skills/é", farewell)
      expect(yield* client.get(held)).toMatchObject({ _tag: "Snapshot", response: { revision: next } })
      expect(yield* client.get({ ...held, revision })).toMatchObject({ _tag: "Unchanged", revision })
      expect((yield* delivery.acquire).skills.map(({ name }) => name)).toEqual(["farewell"])
    }).pipe(overHttp)
  )

  it.scopedLive("delivers a container that was only created as an empty one", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      yield* registry.registry.putContainer({ id: "new" })
      const skills = SkillDelivery.layer({ container: "new" }).pipe(
        Layer.provide(RegistryClient.layer({ apiUrl: registry.url, apiKey: Redacted.make(registry.key) }))
      )
      const delivery = Context.get(yield* Layer.build(skills), SkillDelivery.SkillDelivery)
      expect((yield* delivery.acquire).skills).toEqual([])
    }).pipe(overHttp)
  )

  it.scopedLive("denies with the code of the reason, held or not", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const client = yield* clientOf(registry)
      const first = yield* registry.publish("a")
      const second = yield* registry.publish("a", farewell)
      yield* registry.publish("off")
      yield* registry.registry.setEnabled("off", false)
      yield* registry.registry.revoke("a", second)

      for (const held of [{}, { ifNoneMatch: `"${"0".repeat(64)}"` }]) {
        expect(yield* codeOf(client.get(get("absent", held)))).toBe("CONTAINER_NOT_FOUND")
        expect(yield* codeOf(client.get(get("a", { revision: "absent", ...held })))).toBe("REVISION_NOT_FOUND")
        expect(yield* client.get(get("a", { revision: second, ...held }))).toMatchObject({
          _tag: "Denied",
          denial: { _tag: "AUTHORIZATION_FAILED" }
        })
        const revoked = yield* client.get(get("a", { revision: second, ...held }))
        expect(revoked._tag === "Denied" && (yield* revoked.refined)._tag).toBe("REVISION_REVOKED")
        const off = yield* client.get(get("off", held))
        expect(off._tag === "Denied" && (yield* off.refined)._tag).toBe("DELIVERY_DISABLED")
        expect(yield* client.get(get("a", held))).toMatchObject({ _tag: "Snapshot", response: { revision: first } })
        const stranger = yield* clientOf(registry, "ask_nobody_secret")
        expect(yield* codeOf(stranger.get(get("a", held)))).toBe("AUTHENTICATION_FAILED")
        expect(yield* codeOf(stranger.get(get("absent", held)))).toBe("AUTHENTICATION_FAILED")
      }
    }).pipe(overHttp)
  )

  it.scopedLive("answers many containers at once, each for itself", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      yield* registry.publish("large", { ...farewell, "farewell/noise.bin": noise(200_000) })
      yield* registry.publish("held")
      yield* registry.publish("closed")
      const client = yield* clientOf(registry)
      const held = yield* client.get(get("held"))
      const etag = held._tag === "Snapshot" ? held.response.etag : ""

      const reader = yield* clientOf(registry, yield* registry.issue("read", ["large", "held", 'é"\\']))
      const reply = yield* reader.batch([
        get("large"),
        get("held", { ifNoneMatch: etag }),
        get("closed"),
        get('é"\\'),
        get("held2")
      ])
      if (reply._tag !== "Batch") return expect.fail("denied")
      const outcomes = reply.replies.map((one) =>
        Either.match(one, { onLeft: ({ _tag }): string => _tag, onRight: ({ _tag }) => _tag })
      )
      expect(outcomes).toEqual([
        "Snapshot",
        "Unchanged",
        "AUTHORIZATION_FAILED",
        "CONTAINER_NOT_FOUND",
        "AUTHORIZATION_FAILED"
      ])
      const [first] = reply.replies
      if (first === undefined || Either.isLeft(first) || first.right._tag !== "Snapshot")
        return expect.fail("no archive")
      const { archive, etag: sent } = first.right.response
      expect(sent).toBe(`"${sha256Hex(archive)}"`)
      expect(archive.length).toBeGreaterThan(100_000)
    }).pipe(overHttp)
  )

  it.scopedLive("says that it cannot answer when the store is away, and never sends a damaged archive", () =>
    Effect.gen(function* () {
      let away = false
      const registry = yield* HttpRegistry.start({
        store,
        override: (real) => ({
          resolve: (id, pin) =>
            Effect.suspend(() => (away ? new StoreUnavailable({ reason: "secret detail" }) : real.resolve(id, pin))),
          archive: (sha256) => new CorruptBlob({ sha256 })
        })
      })
      yield* registry.publish("a")
      const client = yield* clientOf(registry)
      const damaged = yield* Effect.flip(client.get(get("a")))
      expect(damaged).toMatchObject({ _tag: "INVALID_SNAPSHOT", retryable: false })
      const inBatch = yield* client.batch([get("a")])
      expect(inBatch).toMatchObject({ replies: [{ left: { _tag: "INVALID_SNAPSHOT" } }] })
      expect((yield* registry.request("/api/v1/learning/containers/a/skills")).status).toBe(500)

      away = true
      expect(yield* Effect.flip(client.get(get("a")))).toMatchObject({ _tag: "NETWORK_ERROR", retryable: true })
      expect(yield* client.batch([get("a")])).toMatchObject({
        replies: [{ left: new NetworkError({ container: "a" }) }]
      })
      const response = yield* registry.request("/api/v1/learning/containers/a/skills")
      expect(response.status).toBe(503)
      expect(response.headers.get("retry-after")).toBe("1")
      expect(yield* Effect.promise(() => response.text())).not.toContain("secret detail")
    }).pipe(overHttp)
  )
})

describe("the delivery wire", () => {
  const path = "/api/v1/learning/containers/a/skills"

  it.scopedLive.each(stores)("carries the headers of the contract on %s", ([, store]) =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({ store })
      const revision = yield* registry.publish("a")
      const whole = yield* registry.request(path)
      const archive = new Uint8Array(yield* Effect.promise(() => whole.arrayBuffer()))
      const etag = `"${sha256Hex(archive)}"`
      expect(whole.status).toBe(200)
      expect(Object.fromEntries(whole.headers)).toMatchObject({
        "content-type": "application/zip",
        "content-length": String(archive.length),
        "cache-control": "private, no-cache",
        "x-copilotkit-skills-revision": revision,
        etag
      })
      for (const held of [etag, `"other", ${etag}`, `${etag},"other"`, `W/${etag}`, "*"]) {
        const unchanged = yield* registry.request(path, { headers: { "if-none-match": held } })
        expect(unchanged.status).toBe(304)
        expect(Object.fromEntries(unchanged.headers)).toMatchObject({
          "cache-control": "private, no-cache",
          "x-copilotkit-skills-revision": revision,
          etag
        })
      }
      for (const held of ['"other"', `"other", "${"0".repeat(64)}"`]) {
        const other = yield* registry.request(path, { headers: { "if-none-match": held } })
        expect(yield* HttpRegistry.statusOf(other)).toBe(200)
      }
    })
  )

  it.scopedLive.each([
    ["an id that is no UTF-8", "/api/v1/learning/containers/%FF/skills", 400, "INVALID_CONFIG"],
    ["a broken escape", "/api/v1/learning/containers/%2/skills", 400, "INVALID_CONFIG"],
    ["the pin of an id that is no UTF-8", "/api/v1/learning/containers/%FF/skills?revision=a", 400, "INVALID_CONFIG"],
    ["a control character", "/api/v1/learning/containers/a%0Ab/skills", 400, "INVALID_CONFIG"],
    ["a blank pin", `${path}?revision=%20`, 400, "INVALID_CONFIG"],
    ["an unknown container", "/api/v1/learning/containers/b/skills", 404, "CONTAINER_NOT_FOUND"],
    ["a path below a container's", "/api/v1/learning/containers/a/b/skills", 404, "ROUTE_NOT_FOUND"]
  ] as const)("refuses %s", ([, url, status, code]) =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      yield* registry.publish("a")
      for (const headers of [{}, { "if-none-match": '"x"' }]) {
        const response = yield* registry.request(url, { headers })
        expect(yield* HttpRegistry.refusalOf(response)).toEqual([status, code])
      }
    })
  )

  it.scopedLive.each([
    ["no JSON", "{", "INVALID_REQUEST"],
    ["no containers", `{"containers":[]}`, "INVALID_REQUEST"],
    ["a container twice", `{"containers":[{"containerId":"a"},{"containerId":"a"}]}`, "INVALID_REQUEST"],
    [
      "fifty-one containers",
      JSON.stringify({ containers: Array.from({ length: 51 }, (_, index) => ({ containerId: `c${index}` })) }),
      "INVALID_REQUEST"
    ]
  ] as const)("refuses a batch with %s", ([, body, code]) =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start()
      const response = yield* registry.request(RegistryApi.batchRoute, { method: "POST", body })
      expect(yield* HttpRegistry.refusalOf(response)).toEqual([400, code])
    })
  )
})

describe("what is revoked while an archive is read", () => {
  /** A server whose archives are read when `go` is open; `isRead` when the first is asked for. */
  const held = Effect.gen(function* () {
    const isRead = yield* Effect.makeLatch()
    const go = yield* Effect.makeLatch()
    const registry = yield* HttpRegistry.start({
      override: (real) => ({
        archive: (sha256) => isRead.open.pipe(Effect.zipRight(go.await), Effect.zipRight(real.archive(sha256)))
      })
    })
    return { registry, isRead, go }
  })
  const path = "/api/v1/learning/containers/a/skills"
  const batch = {
    method: "POST",
    body: JSON.stringify({ containers: [{ containerId: "a" }] })
  }

  it.scopedLive("is not delivered: of a key or of a revision", () =>
    Effect.gen(function* () {
      for (const [asked, init] of [
        [path, {}],
        [RegistryApi.batchRoute, batch]
      ] as const) {
        const { go, isRead, registry } = yield* held
        const first = yield* registry.publish("a")
        const second = yield* registry.publish("a", farewell)
        const { apiKey, key } = yield* registry.registry.issueKey({ name: "agent", scope: "read", containers: null })
        const headers = { "x-api-key": Redacted.value(key) }
        const ask = Effect.flatMap(registry.request(asked, { ...init, headers }), (response) =>
          Effect.promise(() => response.text())
        )
        const running = yield* Effect.fork(ask)
        yield* isRead.await
        yield* registry.registry.revokeKey(apiKey.id)
        yield* go.open
        expect(yield* Fiber.join(running)).toContain("AUTHENTICATION_FAILED")

        const pinned = { containers: [{ containerId: "a", revision: second }] }
        yield* go.close
        yield* isRead.close
        const other = yield* Effect.fork(
          Effect.flatMap(
            asked === path
              ? registry.request(`${path}?revision=${second}`)
              : registry.request(asked, { ...init, body: JSON.stringify(pinned) }),
            (response) => Effect.promise(() => response.text())
          )
        )
        yield* isRead.await
        yield* registry.registry.revoke("a", second)
        yield* go.open
        expect(yield* Fiber.join(other)).toContain("REVISION_REVOKED")
        // Whoever asked for the latest gets the one that is.
        expect(yield* Effect.orDie(registry.registry.resolve("a"))).toMatchObject({ revision: first })
      }
    })
  )

  it.scopedLive("ends a batch whose key it was: the rest of its entries are refusals", () =>
    Effect.gen(function* () {
      const { go, isRead, registry } = yield* held
      yield* registry.publish("a")
      yield* registry.publish("b", farewell)
      const { apiKey, key } = yield* registry.registry.issueKey({ name: "agent", scope: "read", containers: null })
      const running = yield* Effect.fork(
        registry.request(RegistryApi.batchRoute, {
          method: "POST",
          headers: { "x-api-key": Redacted.value(key) },
          body: JSON.stringify({ containers: ["a", "b", "absent"].map((containerId) => ({ containerId })) })
        })
      )
      yield* isRead.await
      yield* registry.registry.revokeKey(apiKey.id)
      yield* go.open
      const answer = yield* HttpRegistry.jsonOf<{ readonly containers: ReadonlyArray<unknown> }>(
        yield* Fiber.join(running)
      )
      const refused = { status: "error", error: { code: "AUTHENTICATION_FAILED", retryable: false } }
      expect(answer.containers).toEqual(["a", "b", "absent"].map((containerId) => ({ containerId, ...refused })))
    })
  )

  it.scopedLive("gives way to the one that is latest then", () =>
    Effect.gen(function* () {
      const { go, isRead, registry } = yield* held
      const first = yield* registry.publish("a")
      const second = yield* registry.publish("a", farewell)
      const running = yield* Effect.fork(registry.request(path))
      yield* isRead.await
      yield* registry.registry.revoke("a", second)
      yield* go.open
      const response = yield* Fiber.join(running)
      expect(response.headers.get("x-copilotkit-skills-revision")).toBe(first)
      const archive = new Uint8Array(yield* Effect.promise(() => response.arrayBuffer()))
      expect(response.headers.get("etag")).toBe(`"${sha256Hex(archive)}"`)
    })
  )
})

describe("a batch", () => {
  it.scopedLive("sends no more than its client reads, and the rest the next time", () =>
    Effect.gen(function* () {
      const registry = yield* HttpRegistry.start({
        override: (real) => ({
          resolve: (containerId, pin) =>
            Effect.map(real.resolve(containerId, pin), (found) => ({ ...found, size: 40 * 1024 * 1024 }))
        })
      })
      yield* registry.publish("a")
      yield* registry.publish("b", farewell)
      const ask = (...asked: ReadonlyArray<RegistryApi.SnapshotRequest>) =>
        Effect.flatMap(
          registry.request(RegistryApi.batchRoute, { method: "POST", body: JSON.stringify({ containers: asked }) }),
          (response) => HttpRegistry.jsonOf<{ readonly containers: ReadonlyArray<{ readonly etag: string }> }>(response)
        )
      const first = yield* ask(get("a"), get("b"))
      expect(first.containers).toMatchObject([
        { status: "snapshot" },
        { status: "error", error: { code: "NETWORK_ERROR", retryable: true } }
      ])
      const etag = first.containers[0]?.etag ?? ""
      expect((yield* ask(get("a", { ifNoneMatch: etag }), get("b"))).containers).toMatchObject([
        { status: "unchanged" },
        { status: "snapshot" }
      ])
    })
  )
})
