import { cp, readdir, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { SqlClient } from "@effect/sql"
import { describe, expect, it } from "@effect/vitest"
import { type Clock, Context, Deferred, Effect, Fiber, Layer, Redacted, Stream, TestClock } from "effect"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import * as Registry from "../../src/registry/Registry.js"
import type * as Model from "../../src/registry/RegistryModel.js"
import { BlobStore, layerFiles, layerSql } from "../../src/store/BlobStore.js"
import * as Database from "../../src/store/Database.js"
import { blackHole } from "../support/BlackHole.js"
import * as InterceptedFileSystem from "../support/InterceptedFileSystem.js"
import * as InterceptedStore from "../support/InterceptedStore.js"
import * as Processes from "../support/Processes.js"
import { bundle } from "../support/RegistryStores.js"
import { emptyDirectory, emptyPostgres, has, layerLibsqlAt, layerPostgresAt } from "../support/Stores.js"

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

const hour = 60 * 60_000

/** The same, and how to change the bytes of an archive in it and to make all of them older by two hours. */
const damageables = {
  libSQL: Effect.map(emptyDirectory, (directory) => {
    const file = (sha256: string) => join(directory, "blobs", sha256)
    return {
      store: Layer.orDie(layerLibsqlAt(directory)),
      damage: (sha256: string) => Effect.promise(() => writeFile(file(sha256), "damaged")),
      age: Effect.promise(async () => {
        const before = new Date(Date.now() - 2 * hour)
        for (const name of await readdir(file(""))) await utimes(file(name), before, before)
      })
    }
  }),
  PostgreSQL: Effect.map(emptyPostgres, (url) => {
    const administer = (statement: string) =>
      Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(statement)).pipe(
        Effect.provide(layerPostgresAt(url)),
        Effect.orDie
      )
    return {
      store: Layer.orDie(layerPostgresAt(url)),
      damage: (sha256: string) => administer(`UPDATE store_blob_part SET bytes = 'damaged' WHERE sha256 = '${sha256}'`),
      age: administer(`UPDATE store_blob SET put_at = put_at - ${2 * hour}`)
    }
  })
}

for (const [name, make] of kinds) {
  const makeDamageable = damageables[name]

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
      "an archive whose bytes were changed is a typed failure, never bytes, and heals when it is uploaded again",
      () =>
        Effect.gen(function* () {
          const { damage, store } = yield* makeDamageable
          yield* inProcess(store, ({ archive, createSkill, publish, putContainer, resolve, versionArchive }) =>
            Effect.gen(function* () {
              const { container } = yield* putContainer({ id: "c" })
              const upload = yield* bundle("greeting")
              const { skill } = yield* createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
              const publishing = (base = container.latest?.revision) =>
                publish({ containerId: "c", base: base ?? null, skills: [{ skillId: skill.id, version: "1" }] })
              yield* damage(upload.sha256)
              const damaged = { _tag: "CORRUPT_BLOB", sha256: upload.sha256 }
              expect(yield* Effect.flip(versionArchive(skill.id, "1"))).toMatchObject(damaged)
              expect(yield* Effect.flip(publishing())).toMatchObject(damaged)
              yield* createSkill({ displayTitle: "again", bundle: upload, keyId: "k" })
              expect((yield* versionArchive(skill.id, "1")).bytes).toEqual(upload.archive)

              const { sha256 } = yield* publishing()
              yield* damage(sha256)
              expect(yield* Effect.flip(archive(sha256))).toMatchObject({ _tag: "CORRUPT_BLOB", sha256 })
              // What needs no archive is answered.
              expect((yield* resolve("c")).sha256).toBe(sha256)
            })
          )
        })
    )

    it.scopedLive("archives beside a new database are not swept: the start is refused until the old one is back", () =>
      Effect.gen(function* () {
        const store = yield* make
        const old = yield* make
        const orphan = (of: Store) =>
          Effect.flatMap(BlobStore, (blobs) => blobs.put(new TextEncoder().encode("kept"))).pipe(Effect.provide(of))
        const sha256 = yield* orphan(store)
        for (let start = 0; start < 2; start++) {
          const failure = yield* Effect.flip(inProcess(store, () => Effect.void))
          expect(failure).toMatchObject({ _tag: "DATABASE_ERROR", problem: "lost" })
          expect(yield* Effect.flatMap(BlobStore, (blobs) => has(blobs, sha256)).pipe(Effect.provide(store))).toBe(true)
        }
        // One that was there before its archives starts.
        yield* inProcess(old, ({ putContainer }) => putContainer({ id: "c" }))
        yield* orphan(old)
        yield* inProcess(old, () => Effect.void)
      })
    )

    it.scoped("an archive to which nothing points is swept while the server runs, and no other", () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.now())
        const { age, store } = yield* makeDamageable
        yield* inProcess(store, ({ archive, putContainer }) =>
          Effect.gen(function* () {
            const blobs = yield* BlobStore
            const { container } = yield* putContainer({ id: "c" })
            const orphan = yield* blobs.put(new TextEncoder().encode("of a refused publish"))
            yield* age
            const fresh = yield* blobs.put(new TextEncoder().encode("about to get its row"))
            yield* TestClock.adjust("1 hour")
            yield* Effect.repeat(has(blobs, orphan), { while: (isThere) => isThere })
            yield* archive(container.latest?.sha256 ?? "")
            expect(yield* has(blobs, fresh)).toBe(true)
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
          const isThere = yield* inProcess(store, () => Effect.flatMap(BlobStore, (blobs) => has(blobs, orphan)))
          expect(isThere).toBe(name === "PostgreSQL")
          yield* contents(store, name)
        })
    )
  })
}

it.scopedLive("a stopped registry on libSQL is whole in its database file and its archives alone", () =>
  Effect.gen(function* () {
    const [directory, copy] = yield* Effect.all([emptyDirectory, emptyDirectory])
    const before = yield* inProcess(Layer.orDie(layerLibsqlAt(directory)), (registry) =>
      Effect.zipRight(registry.putContainer({ id: "c" }), contentsOf(registry))
    )
    yield* Effect.promise(async () => {
      for (const name of ["registry.db", "blobs"])
        await cp(join(directory, name), join(copy, name), { recursive: true })
    })
    expect(yield* inProcess(Layer.orDie(layerLibsqlAt(copy)), contentsOf)).toEqual(before)
  })
)

describe("a registry on a full disk", () => {
  for (const [name, fill] of [
    [
      "libSQL",
      (sql: SqlClient.SqlClient) =>
        Effect.gen(function* () {
          // Of the connection, which goes with the failure: then there is room again.
          const [{ page_count = 0 } = {}] = yield* sql<{ page_count?: number }>`PRAGMA page_count`
          yield* sql.unsafe(`PRAGMA max_page_count = ${page_count}`)
          return Effect.void
        })
    ],
    [
      "PostgreSQL",
      (sql: SqlClient.SqlClient) =>
        Effect.gen(function* () {
          yield* sql.unsafe(`
            CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$`)
          yield* sql`CREATE TRIGGER full_disk BEFORE INSERT ON skills EXECUTE FUNCTION full_disk()`
          return Effect.orDie(sql`DROP TRIGGER full_disk ON skills`)
        })
    ]
  ] as const) {
    it.scopedLive(`of its ${name} an upload is a typed failure and leaves nothing; with room again it succeeds`, () =>
      Effect.gen(function* () {
        const store = yield* Effect.flatten(Effect.fromNullable(kinds.find(([kind]) => kind === name)?.[1]))
        yield* inProcess(store, (registry) =>
          Effect.gen(function* () {
            yield* registry.putContainer({ id: "c" })
            const before = yield* contentsOf(registry)
            const makeRoom = yield* fill(yield* SqlClient.SqlClient)
            // Its row alone is longer than the room that a page may have left.
            const upload = yield* bundle("greeting", "Hello.", {}, "long ".repeat(200))
            const create = Effect.forEach(["a", "b", "c", "d", "e", "f"], (displayTitle) =>
              registry.createSkill({ displayTitle, bundle: upload, keyId: "k" })
            )
            expect(yield* Effect.flip(create)).toMatchObject({
              _tag: "STORE_UNAVAILABLE",
              reason: expect.stringMatching(/^(SQLITE_FULL|53100)$/)
            })
            yield* makeRoom
            const partly = yield* contentsOf(registry)
            expect(partly.containers).toEqual(before.containers)
            expect(partly.versions.flat().length).toBe(partly.skills.length)
            yield* create
          })
        )
      })
    )
  }

  it.scopedLive("of its archives an upload and a publish are typed failures and leave nothing", () =>
    Effect.gen(function* () {
      const directory = yield* emptyDirectory
      let isFull = false
      const around: InterceptedFileSystem.Around = (operation, effect) =>
        Effect.suspend(() =>
          isFull && operation === "file.writeAll" ? Effect.fail(InterceptedFileSystem.noSpace(operation)) : effect
        )
      const blobs = layerFiles({ directory: join(directory, "blobs") }).pipe(
        Layer.provide(
          Layer.effect(
            FileSystem.FileSystem,
            Effect.map(FileSystem.FileSystem, (fs) => InterceptedFileSystem.intercept(fs, around))
          )
        ),
        Layer.provide(NodeContext.layer)
      )
      const store = Layer.orDie(Layer.merge(layerLibsqlAt(directory), blobs))
      yield* inProcess(store, (registry) =>
        Effect.gen(function* () {
          const { container } = yield* registry.putContainer({ id: "c" })
          const upload = yield* bundle("greeting")
          const { skill } = yield* registry.createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
          const before = yield* contentsOf(registry)
          const writes: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
            registry.createSkill({ displayTitle: "Other", bundle: upload, keyId: "k" }),
            registry.publish({
              containerId: "c",
              base: container.latest?.revision ?? null,
              skills: [{ skillId: skill.id, version: "1" }]
            })
          ]
          isFull = true
          for (const write of writes) {
            expect(yield* Effect.flip(write)).toMatchObject({ _tag: "STORE_UNAVAILABLE", reason: "ENOSPC" })
          }
          expect(yield* contentsOf(registry)).toEqual(before)
          isFull = false
          for (const write of writes) yield* write
        })
      )
      yield* contents(Layer.orDie(layerLibsqlAt(directory)), "libSQL")
    })
  )
})

describe("several registries on PostgreSQL", () => {
  const server = (store: Store, clock?: Clock.Clock) => {
    const built = Effect.map(Layer.build(Layer.fresh(Layer.provideMerge(Registry.layer, store))), (context) => ({
      ...Context.get(context, Registry.Registry),
      blobs: Context.get(context, BlobStore)
    }))
    return clock === undefined ? built : Effect.withClock(built, clock)
  }

  it.scopedLive("connections that are lost without a word hold up writes and reads no longer than their silence", () =>
    Effect.gen(function* () {
      const { swallow, url } = yield* blackHole(yield* emptyPostgres)
      const store = Layer.provideMerge(layerSql, Database.layerPostgres({ url, maximumSilence: "2 seconds" }))
      const registry = yield* server(Layer.orDie(store))
      // As many as there are.
      yield* Effect.replicateEffect(registry.listContainers(), 20, { concurrency: "unbounded" })
      yield* registry.putContainer({ id: "c" })
      yield* registry.resolve("c")
      yield* swallow
      const writes = yield* Effect.forEach(["d", "e", "f"], (id) => Effect.fork(registry.putContainer({ id })))
      for (const writing of writes) yield* Fiber.await(writing)
      const untilAnswered = <A, E>(effect: Effect.Effect<A, E>) => Effect.retry(effect, { times: 20 })
      expect((yield* untilAnswered(registry.putContainer({ id: "g" }))).created).toBe(true)
      yield* untilAnswered(registry.resolve("c"))
      yield* untilAnswered(registry.listContainers())
    })
  )

  it.scoped("clocks that differ, and one that goes back, lose no archive, no order and no revocation", () =>
    Effect.gen(function* () {
      const store = Layer.orDie(layerPostgresAt(yield* emptyPostgres))
      yield* TestClock.setTime(Date.now())
      const clock = yield* Effect.clock
      const off = (millis: number): Clock.Clock =>
        Object.assign(Object.create(clock), {
          unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis() + millis,
          currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + millis),
          unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos(),
          currentTimeNanos: clock.currentTimeNanos
        })
      const clocks = [off(0), off(-3 * hour), off(3 * hour)]
      const servers = yield* Effect.forEach(clocks, (clock) =>
        Effect.map(server(store, clock), (of) => ({ clock, of }))
      )
      const [first] = servers
      if (first === undefined) throw new Error("no server")
      const { apiKey, key } = yield* first.of.issueKey({ name: "agent", scope: "read", containers: null })
      let base = (yield* first.of.putContainer({ id: "c" })).container.latest?.revision ?? ""
      const names: Array<string> = []
      for (const [round, at] of [0, 1, 2, 0, 1].entries()) {
        const { clock, of } = servers[at] ?? first
        const upload = yield* bundle(`skill-${round}`)
        // Put, and not yet pointed at, while another server starts.
        yield* Effect.withClock(of.blobs.put(upload.archive), clock)
        yield* Effect.scoped(server(store))
        yield* Effect.gen(function* () {
          const { skill } = yield* of.createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
          const { latest } = yield* of.getContainer("c")
          const skills = [...(latest?.skills ?? []), { skillId: skill.id, version: "1" }]
          base = (yield* of.publish({ containerId: "c", base, skills })).revision
        }).pipe(Effect.withClock(clock))
        names.push(upload.name)
        expect(yield* has(of.blobs, upload.sha256)).toBe(true)
        // The wall clock of all goes back as well, and time goes on.
        yield* TestClock.adjust("1 second")
        for (const { of } of servers) {
          expect((yield* of.resolve("c")).revision).toBe(base)
          const { items } = yield* of.listRevisions("c")
          expect(items.map(({ sequence }) => sequence)).toEqual(items.map((_, index) => items.length - index))
          expect(items[0]?.skills.map(({ name }) => name)).toEqual(names)
        }
      }
      yield* first.of.revokeKey(apiKey.id)
      yield* first.of.revoke("c", base)
      yield* TestClock.setTime(clock.unsafeCurrentTimeMillis() - hour)
      yield* TestClock.adjust("1 second")
      for (const { of } of servers) {
        expect(yield* Effect.flip(of.authenticate(key))).toMatchObject({ _tag: "AUTHENTICATION_FAILED" })
        expect((yield* of.resolve("c")).revision).not.toBe(base)
      }
    })
  )
})

describe("a process that is killed while it publishes", () => {
  for (const [name, kind] of [
    ["libSQL", "libsql"],
    ["PostgreSQL", "postgres"]
  ] as const) {
    it.scopedLive(
      `on ${name} has published whole or not at all, at whatever call`,
      () =>
        Effect.gen(function* () {
          const program = yield* Processes.bundled("StoreProcess", "external")
          const directory = yield* emptyDirectory
          const url = yield* emptyPostgres
          const storeAt = (place: string) =>
            Layer.orDie(kind === "libsql" ? layerLibsqlAt(place) : layerPostgresAt(Redacted.make(place)))
          const template = kind === "libsql" ? join(directory, "template") : Redacted.value(url)
          // Of every call a test above has the failure; a process for each would take long.
          const calls = [3, 8, 13, 18, 23]
          const skillId = yield* inProcess(storeAt(template), ({ createSkill, putContainer }) =>
            Effect.gen(function* () {
              for (const n of [...calls, 0]) yield* putContainer({ id: `c${n}` })
              const upload = yield* bundle("greeting")
              return (yield* createSkill({ displayTitle: null, bundle: upload, keyId: "k" })).skill.id
            })
          )
          const endings = yield* Effect.forEach(
            [...calls, 0],
            (n) =>
              Effect.gen(function* () {
                const place = kind === "libsql" ? join(directory, `copy-${n}`) : template
                if (kind === "libsql") yield* Effect.promise(() => cp(template, place, { recursive: true }))
                const process = yield* Processes.start(program, kind, place, "publish", n, `c${n}`, skillId)
                return { n, place, ending: yield* Processes.ending(process) }
              }),
            { concurrency: 2 }
          )
          const outcomes = new Set<number>()
          for (const { ending, n, place } of endings) {
            const { histories, containers } = yield* contents(storeAt(place), name)
            const published = histories[containers.findIndex(({ id }) => id === `c${n}`)]?.length ?? 0
            expect(published).toBeLessThanOrEqual(2)
            if (ending === 0) expect(published).toBe(2)
            else expect(ending).toBe("SIGKILL")
            outcomes.add(published)
          }
          expect(endings.filter(({ ending }) => ending === "SIGKILL").length).toBeGreaterThan(2)
          expect(outcomes).toEqual(new Set([1, 2]))
        }),
      120_000
    )
  }

  it.scopedLive(
    "and two that publish to one container at once on PostgreSQL lose no skill",
    () =>
      Effect.gen(function* () {
        const program = yield* Processes.bundled("StoreProcess", "external")
        const url = yield* emptyPostgres
        const store = Layer.orDie(layerPostgresAt(url))
        const skillIds = yield* inProcess(store, ({ createSkill, putContainer }) =>
          Effect.gen(function* () {
            yield* putContainer({ id: "c" })
            return yield* Effect.forEach(["a", "b", "c", "d", "e", "f", "g", "h"], (name) =>
              Effect.map(
                Effect.flatMap(bundle(name), (upload) =>
                  createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
                ),
                ({ skill }) => skill.id
              )
            )
          })
        )
        const processes = yield* Effect.forEach([skillIds.slice(0, 4), skillIds.slice(4)], (mine) =>
          Processes.start(program, "postgres", Redacted.value(url), "publish", 0, "c", ...mine)
        )
        for (const process of processes) expect(yield* Processes.ending(process)).toBe(0)
        const { histories } = yield* contents(store, "PostgreSQL")
        expect(histories[0]?.map(({ skills }) => skills.length)).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0])
        expect(new Set(histories[0]?.[0]?.skills.map(({ skillId }) => skillId))).toEqual(new Set(skillIds))
      }),
    60_000
  )
})
