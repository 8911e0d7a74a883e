import Anthropic, { toFile } from "@anthropic-ai/sdk"
import { describe, expect, it } from "@effect/vitest"
import { Array, Effect, Layer, Redacted, TestClock } from "effect"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { emptyPostgres, layerPostgresAt } from "../../support/Stores.js"
import { skillFile } from "../../support/Uploads.js"

/** Two servers on one PostgreSQL, as behind a balancer: each with connections and memory of its own, and one key. */
const servers = Effect.gen(function* () {
  const store = Layer.orDie(layerPostgresAt(yield* emptyPostgres))
  const first = yield* HttpRegistry.start({ store })
  const second = yield* HttpRegistry.start({ store })
  return [first, { ...second, key: first.key }] as const
})

/** Uploads a skill with the public client and gives what a set has of it. */
const upload = ({ key, url }: HttpRegistry.HttpRegistry, name: string) =>
  Effect.promise(async () => {
    const { skills } = new Anthropic({ apiKey: key, baseURL: url, maxRetries: 0 }).beta
    const skill = await skills.create({ files: [await toFile(Buffer.from(skillFile(name)), `${name}/SKILL.md`)] })
    return { skillId: skill.id, version: skill.latest_version_id }
  })

const connect = (registry: HttpRegistry.HttpRegistry) => HttpRegistry.connect(registry, registry.key)

const path = { containerId: "team" }

describe("two servers on one PostgreSQL", () => {
  it.scoped("what is published, revoked and switched off at one is so at the other within a second", () =>
    Effect.gen(function* () {
      const [first, second] = yield* servers
      const atFirst = yield* connect(first)
      const created = yield* atFirst.containers.putContainer({ path, payload: {} })
      const empty = created.latest?.revision ?? ""
      const here = yield* HttpRegistry.deliver(first, { container: "team" })
      const there = yield* HttpRegistry.deliver(second, { container: "team" })
      expect((yield* there.acquire).skills).toEqual([])

      const skills = [yield* upload(first, "greeting")]
      // A balancer that sends the same upload once more sends it anywhere.
      expect(yield* upload(second, "greeting")).toEqual(skills[0])
      const published = yield* atFirst.containers.publish({ path, payload: { base: empty, skills } })
      yield* TestClock.adjust("1 second")
      const snapshot = yield* there.acquire
      expect([snapshot.revision, snapshot.etag]).toEqual([published.revision, published.etag])
      expect(snapshot.skills.map(({ name }) => name)).toEqual(["greeting"])

      // The other way round, over the base that the first one made.
      const more = [...skills, yield* upload(second, "farewell")]
      const atSecond = yield* connect(second)
      const next = yield* atSecond.containers.publish({ path, payload: { base: published.revision, skills: more } })
      yield* TestClock.adjust("1 second")
      expect((yield* here.acquire).skills.map(({ name }) => name)).toEqual(["farewell", "greeting"])

      yield* atFirst.containers.revoke({ path: { ...path, revision: next.revision } })
      yield* TestClock.adjust("1 second")
      expect((yield* there.acquire).revision).toBe(published.revision)
      const pinned = yield* HttpRegistry.deliver(second, { container: "team", revision: next.revision })
      expect(yield* Effect.flip(pinned.acquire)).toMatchObject({ _tag: "REVISION_REVOKED" })

      yield* atFirst.containers.setEnabled({ path, payload: { enabled: false } })
      yield* TestClock.adjust("1 second")
      expect(yield* Effect.flip(there.acquire)).toMatchObject({ _tag: "DELIVERY_DISABLED" })
    })
  )

  it.scoped("a key that is revoked at one opens no route of the other a second later", () =>
    Effect.gen(function* () {
      const [first, second] = yield* servers
      yield* first.publish("team")
      const { containers, keys } = yield* connect(first)
      const etag = (yield* containers.getContainer({ path })).latest?.etag ?? ""
      const { apiKey, key } = yield* keys.issueKey({ payload: { name: "ci", scope: "admin" } })
      const headers = { "x-api-key": Redacted.value(key) }
      const batch = { method: "POST", body: JSON.stringify({ containers: [path] }) }
      const statuses = Effect.forEach(
        [
          second.request("/api/v1/learning/containers/team/skills", { headers }),
          second.request("/api/v1/learning/containers/team/skills", { headers: { ...headers, "if-none-match": etag } }),
          second.request("/api/v1/learning/skills/batch", { ...batch, headers }),
          second.request("/api/v1/learning/containers/team", { headers }),
          second.request("/v1/skills", { headers })
        ],
        Effect.flatMap(HttpRegistry.statusOf)
      )
      expect(yield* statuses).toEqual([200, 304, 200, 200, 200])
      yield* keys.revokeKey({ path: { keyId: apiKey.id } })
      yield* TestClock.adjust("1 second")
      expect(yield* statuses).toEqual([401, 401, 401, 401, 401])
    })
  )

  it.scopedLive("publishers at both at once lose nothing", () =>
    Effect.gen(function* () {
      const both = yield* servers
      const clients = [yield* connect(both[0]), yield* connect(both[1])] as const
      yield* clients[0].containers.putContainer({ path, payload: {} })
      /** Adds one skill to the set, again over what is latest then when somebody else was quicker. */
      const add = (name: string, at: 0 | 1) =>
        Effect.gen(function* () {
          const member = yield* upload(both[at], name)
          const { containers } = clients[at]
          const publish = Effect.gen(function* () {
            const { latest } = yield* containers.getContainer({ path })
            const skills = [...(latest?.skills ?? []), member]
            return yield* containers.publish({ path, payload: { base: latest?.revision ?? null, skills } })
          })
          return yield* Effect.retry(publish, { while: ({ _tag }) => _tag === "BASE_MISMATCH" })
        })
      const names = Array.makeBy(6, (index) => `skill-${index}`)
      const published = yield* Effect.forEach(names, (name, index) => add(name, index % 2 === 0 ? 0 : 1), {
        concurrency: "unbounded"
      })
      // Whoever was told of success has its skill in the revision that it was told of, and in every later one.
      for (const [index, name] of names.entries()) {
        expect(published[index]?.skills.map((skill) => skill.name)).toContain(name)
      }
      for (const [index, { containers }] of clients.entries()) {
        const { items } = yield* containers.listRevisions({ path, urlParams: {} })
        expect(items.map(({ sequence, skills }) => [sequence, skills.length])).toEqual(
          Array.makeBy(7, (at) => [7 - at, 6 - at])
        )
        // The pin: what the other one published last may be a second away.
        const revision = items[0]?.revision ?? ""
        const delivery = yield* HttpRegistry.deliver(both[index === 0 ? 0 : 1], { container: "team", revision })
        expect((yield* delivery.acquire).skills.map(({ name }) => name)).toEqual(names)
      }
    })
  )
})
