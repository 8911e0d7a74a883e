import { SqlClient } from "@effect/sql"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import * as Registry from "../../src/registry/Registry.js"
import type * as Model from "../../src/registry/RegistryModel.js"
import { BlobStore } from "../../src/store/BlobStore.js"
import * as InterceptedStore from "../support/InterceptedStore.js"
import { bundle } from "../support/RegistryStores.js"
import { emptyDirectory, emptyPostgres, layerLibsqlAt, layerPostgresAt } from "../support/Stores.js"

type Store = Layer.Layer<SqlClient.SqlClient | BlobStore>

/** A store that outlives those who open it. */
const kinds = [
  ["libSQL", Effect.map(emptyDirectory, (directory) => Layer.orDie(layerLibsqlAt(directory)))],
  ["PostgreSQL", Effect.map(emptyPostgres, (url) => Layer.orDie(layerPostgresAt(url)))]
] as const

/** Runs as a process of its own: opens the store, makes a registry, and ends. */
const inProcess = <A, E>(
  store: Store,
  use: (registry: Registry.RegistryService) => Effect.Effect<A, E, SqlClient.SqlClient | BlobStore>
) => Effect.flatMap(Registry.Registry, use).pipe(Effect.provide(Layer.provideMerge(Registry.layer, store)))

/** The same, dead from the n-th call to database or blobs on: nothing more gets there, not even a rollback. */
const crashing = <A, E>(store: Store, n: number, use: (registry: Registry.RegistryService) => Effect.Effect<A, E>) =>
  Effect.suspend(() => {
    let calls = 0
    let isArmed = false
    const dying = InterceptedStore.layer(() => Effect.sync(() => isArmed && ++calls >= n))
    return Effect.flatMap(Registry.Registry, (registry) => {
      isArmed = true
      return use(registry)
    }).pipe(Effect.provide(Registry.layer.pipe(Layer.provide(dying), Layer.provide(store))), Effect.exit)
  })

/** All that a registry holds, whole: every row has its archive, proved, and the histories have no gap. */
const contentsOf = (registry: Registry.RegistryService) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const containers = (yield* registry.listContainers({ limit: 1000 })).items
    const skills = (yield* registry.listSkills({ limit: 1000 })).items
    const versions = yield* Effect.forEach(skills, ({ id }) =>
      Effect.map(registry.listVersions(id, { limit: 1000 }), ({ items }) => items)
    )
    for (const { skillId, sha256, version } of versions.flat()) {
      expect((yield* registry.versionArchive(skillId, version)).sha256).toBe(sha256)
    }
    const histories = yield* Effect.forEach(containers, ({ id }) =>
      Effect.map(registry.listRevisions(id, { limit: 1000 }), ({ items }) => items)
    )
    for (const [index, history] of histories.entries()) {
      expect(history.map(({ sequence }) => sequence)).toEqual(history.map((_, at) => history.length - at))
      expect(containers[index]?.latest ?? null).toEqual(history.find(({ revokedAt }) => revokedAt === null) ?? null)
      for (const entry of history) yield* verify(registry, entry)
    }
    const stray = yield* sql`SELECT skill_id FROM skill_versions WHERE skill_id NOT IN (SELECT id FROM skills)`
    expect(stray).toEqual([])
    return { containers, skills, versions, histories, keys: yield* registry.listKeys }
  })

/** The same, as a start finds it: on libSQL without any blob more than it needs. */
const contents = (store: Store, name: string) =>
  inProcess(store, (registry) =>
    Effect.gen(function* () {
      const found = yield* contentsOf(registry)
      const stored = yield* Stream.runCollect((yield* BlobStore).list)
      const needed = [...found.versions.flat(), ...found.histories.flat()].map(({ sha256 }) => sha256)
      // On PostgreSQL an orphan may be another server's for an hour.
      if (name === "libSQL") expect(new Set(stored)).toEqual(new Set(needed))
      return found
    })
  )

const verify = (registry: Registry.RegistryService, { etag, revision, sha256 }: Model.Revision) =>
  Effect.flatMap(registry.archive(sha256), (archive) =>
    Snapshot.verify({ revision, etag, contentType: "application/zip", archive })
  )

/** What is tried, one crash after the other, until it succeeds. `n` makes each try another one. */
const changes: Readonly<
  Record<string, (registry: Registry.RegistryService, n: number, skill: Model.Skill) => Effect.Effect<unknown, unknown>>
> = {
  "creating a container": ({ putContainer }, n) => putContainer({ id: `container ${n}` }),
  "creating a skill": ({ createSkill }, n) =>
    Effect.flatMap(bundle("other", `Try ${n}`), (upload) =>
      createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
    ),
  "adding a version": ({ addVersion }, n, { id }) =>
    Effect.flatMap(bundle("greeting", `Try ${n}`), (upload) => addVersion({ skillId: id, bundle: upload, keyId: "k" })),
  publishing: ({ getContainer, publish }, _, { id, latestVersion }) =>
    Effect.flatMap(getContainer("c"), ({ latest }) =>
      publish({
        containerId: "c",
        base: latest?.revision ?? null,
        skills: latest?.skills.length === 0 ? [{ skillId: id, version: latestVersion }] : []
      })
    ),
  revoking: ({ revoke, getContainer }) =>
    Effect.flatMap(getContainer("c"), ({ latest }) => revoke("c", latest?.revision ?? "")),
  "deleting a skill": ({ deleteSkill }, _, { id }) => deleteSkill(id),
  "issuing a key": ({ issueKey }, n) => issueKey({ name: `key ${n}`, scope: "read", containers: null })
}

for (const [name, make] of kinds) {
  describe(`a registry on ${name} that dies at its n-th call`, () => {
    for (const [change, run] of Object.entries(changes)) {
      it.scopedLive(`${change} is done whole or not at all`, () =>
        Effect.gen(function* () {
          const store = yield* make
          const skill = yield* inProcess(store, ({ addVersion, createSkill, getSkill, putContainer }) =>
            Effect.gen(function* () {
              yield* putContainer({ id: "c" })
              const upload = yield* bundle("greeting")
              const { skill } = yield* createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
              yield* addVersion({ skillId: skill.id, bundle: yield* bundle("greeting", "Hi."), keyId: "k" })
              return yield* getSkill(skill.id)
            })
          )
          const before = yield* contents(store, name)
          for (let n = 1; ; n++) {
            const exit = yield* crashing(store, n, (registry) => run(registry, n, skill))
            const after = yield* contents(store, name)
            if (exit._tag === "Success") {
              expect(after).not.toEqual(before)
              expect(n).toBeGreaterThan(4)
              break
            }
            expect(after).toEqual(before)
          }
        })
      )
    }

    it.scopedLive("its first start is whole or not at all", () =>
      Effect.gen(function* () {
        const store = yield* make
        for (let n = 1; ; n++) {
          let calls = 0
          const exit = yield* Effect.exit(
            Effect.scoped(
              Layer.build(
                Registry.layer.pipe(
                  Layer.provide(InterceptedStore.layer(() => Effect.sync(() => ++calls >= n))),
                  Layer.provide(store)
                )
              )
            )
          )
          if (calls < n) {
            expect(exit._tag).toBe("Success")
            break
          }
          expect(exit._tag).toBe("Failure")
        }
        yield* inProcess(store, ({ putContainer }) => putContainer({ id: "c" }))
        yield* contents(store, name)
      })
    )
  })

  describe(`a registry on ${name} whose caller is interrupted at the n-th call`, () => {
    it.scopedLive("a publish is done whole or not at all, and the next one finds its way free", () =>
      Effect.gen(function* () {
        const store = yield* make
        const state = { calls: 0, n: Number.POSITIVE_INFINITY }
        let pause: Effect.Effect<unknown> = Effect.void
        const paused = InterceptedStore.layer(() =>
          Effect.as(
            Effect.suspend(() => (++state.calls === state.n ? pause : Effect.void)),
            false
          )
        )
        yield* Effect.gen(function* () {
          const registry = yield* Registry.Registry
          yield* registry.putContainer({ id: "c" })
          const upload = yield* bundle("greeting")
          const { skill } = yield* registry.createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
          const set = [{ skillId: skill.id, version: "1" }]
          const toggle = Effect.flatMap(registry.getContainer("c"), ({ latest }) =>
            registry.publish({
              containerId: "c",
              base: latest?.revision ?? null,
              skills: latest?.skills.length === 0 ? set : []
            })
          )
          for (let n = 1; ; n++) {
            const before = yield* contentsOf(registry)
            const atCall = yield* Deferred.make<void>()
            const goOn = yield* Deferred.make<void>()
            pause = Effect.zipRight(Deferred.succeed(atCall, undefined), Deferred.await(goOn))
            state.calls = 0
            state.n = n
            const publishing = yield* Effect.fork(toggle)
            const ended = yield* Effect.race(
              Effect.as(Deferred.await(atCall), false),
              Effect.as(Fiber.await(publishing), true)
            )
            state.n = Number.POSITIVE_INFINITY
            // What cannot be interrupted, as a COMMIT, goes on first.
            const interrupting = yield* Effect.fork(Fiber.interrupt(publishing))
            yield* Effect.yieldNow()
            yield* Deferred.succeed(goOn, undefined)
            const exit = yield* Fiber.join(interrupting)
            const after = yield* contentsOf(registry)
            if (ended) {
              expect(exit._tag).toBe("Success")
              expect(n).toBeGreaterThan(4)
              break
            }
            const entries = after.histories[0]?.length ?? 0
            expect(entries - (before.histories[0]?.length ?? 0)).toBeLessThanOrEqual(1)
            if (after.histories[0]?.length === before.histories[0]?.length) expect(after).toEqual(before)
          }
        }).pipe(Effect.provide(Registry.layer.pipe(Layer.provideMerge(paused), Layer.provide(store))))
        yield* contents(store, name)
      })
    )
  })

  describe(`a damaged store on ${name}`, () => {
    it.scopedLive("an archive that is damaged or gone is a typed failure, never bytes; publishing it is refused", () =>
      Effect.gen(function* () {
        const store = yield* make
        yield* inProcess(store, ({ archive, createSkill, publish, putContainer, versionArchive }) =>
          Effect.gen(function* () {
            const blobs = yield* BlobStore
            const { container } = yield* putContainer({ id: "c" })
            const upload = yield* bundle("greeting")
            const { skill } = yield* createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
            yield* blobs.remove(upload.sha256)
            const gone = { _tag: "CORRUPT_BLOB", sha256: upload.sha256 }
            expect(yield* Effect.flip(versionArchive(skill.id, "1"))).toMatchObject(gone)
            expect(yield* Effect.flip(archive(upload.sha256))).toMatchObject(gone)
            const publishing = publish({
              containerId: "c",
              base: container.latest?.revision ?? null,
              skills: [{ skillId: skill.id, version: "1" }]
            })
            expect(yield* Effect.flip(publishing)).toMatchObject(gone)
            // The same upload once more heals it.
            yield* createSkill({ displayTitle: "again", bundle: upload, keyId: "k" })
            yield* publishing
          })
        )
      })
    )

    it.scopedLive(
      "an archive to which nothing points is swept at a start, one of another server's publish is not",
      () =>
        Effect.gen(function* () {
          const store = yield* make
          const orphan = yield* inProcess(store, ({ putContainer }) =>
            Effect.gen(function* () {
              yield* putContainer({ id: "c" })
              return yield* (yield* BlobStore).put(new TextEncoder().encode("left by a crash"))
            })
          )
          const isThere = yield* inProcess(store, () => Effect.flatMap(BlobStore, (blobs) => blobs.has(orphan)))
          expect(isThere).toBe(name === "PostgreSQL")
          yield* contents(store, name)
        })
    )
  })
}
