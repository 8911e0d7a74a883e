import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, TestClock } from "effect"
import { Registry } from "../../src/registry/Registry.js"
import { BlobStore } from "../../src/store/BlobStore.js"
import { bundle, registries } from "../support/RegistryStores.js"
import { has } from "../support/Stores.js"

for (const [name, registry] of registries) {
  describe(`skills on ${name}`, () => {
    it.effect("a skill is created with its first version, whose archive comes back as it was uploaded", () =>
      Effect.gen(function* () {
        const { addVersion, createSkill, getSkill, getVersion, versionArchive } = yield* Registry
        yield* TestClock.setTime(1_000)
        const upload = yield* bundle("greeting")
        const { skill, version } = yield* createSkill({ displayTitle: "Greets", bundle: upload, keyId: "k" })
        expect(skill).toMatchObject({ name: "greeting", displayTitle: "Greets", latestVersion: "1" })
        expect(skill.latestVersionId).toBe(version.id)
        expect(skill.createdAt.epochMillis).toBe(1_000)
        expect(version).toMatchObject({
          skillId: skill.id,
          version: "1",
          name: "greeting",
          description: "Description of greeting",
          directory: "greeting",
          sha256: upload.sha256,
          size: upload.archive.length
        })
        expect(yield* getSkill(skill.id)).toEqual(skill)
        expect(yield* getVersion(skill.id, "1")).toEqual(version)
        expect(yield* getVersion(skill.id, version.id)).toEqual(version)
        expect(yield* versionArchive(skill.id, "1")).toEqual({ bytes: upload.archive, sha256: upload.sha256 })

        yield* TestClock.setTime(5_000)
        const second = yield* addVersion({ skillId: skill.id, bundle: yield* bundle("greeting", "Hi."), keyId: "k" })
        expect(second.version).toBe("2")
        const updated = yield* getSkill(skill.id)
        expect(updated).toMatchObject({ latestVersion: "2", latestVersionId: second.id })
        expect(updated.updatedAt.epochMillis).toBe(5_000)
      }).pipe(Effect.provide(registry))
    )

    it.effect("a create repeated with the same bytes, title and key within a minute gives the first", () =>
      Effect.gen(function* () {
        const { createSkill, listSkills } = yield* Registry
        const upload = yield* bundle("greeting")
        const create = (displayTitle: string | null = null, keyId = "k") =>
          Effect.map(createSkill({ displayTitle, bundle: upload, keyId }), ({ skill }) => skill.id)
        const first = yield* create()
        yield* TestClock.adjust(Duration.millis(59_999))
        expect(yield* create()).toBe(first)
        expect(yield* create("Title")).not.toBe(first)
        expect(yield* create(null, "other")).not.toBe(first)
        yield* TestClock.adjust(Duration.millis(1))
        const second = yield* create()
        expect(second).not.toBe(first)
        // The clock goes back: an old create is not a repeated one.
        yield* TestClock.adjust(Duration.hours(1))
        yield* create()
        yield* TestClock.setTime(600_000)
        expect(yield* create()).not.toBe(second)
        expect((yield* listSkills()).items.length).toBe(6)
      }).pipe(Effect.provide(registry))
    )

    it.effect("creates repeated at once give one skill", () =>
      Effect.gen(function* () {
        const { createSkill } = yield* Registry
        const upload = yield* bundle("greeting")
        const created = yield* Effect.replicateEffect(
          createSkill({ displayTitle: null, bundle: upload, keyId: "k" }),
          8,
          {
            concurrency: "unbounded"
          }
        )
        expect(new Set(created.map(({ skill }) => skill.id)).size).toBe(1)
      }).pipe(Effect.provide(registry))
    )

    it.effect("a version repeated within a minute gives the first, unless another came after it", () =>
      Effect.gen(function* () {
        const { addVersion, createSkill } = yield* Registry
        const a = yield* bundle("greeting", "A")
        const b = yield* bundle("greeting", "B")
        const { skill } = yield* createSkill({ displayTitle: null, bundle: a, keyId: "k" })
        const add = (upload: typeof a) =>
          Effect.map(addVersion({ skillId: skill.id, bundle: upload, keyId: "k" }), ({ version }) => version)
        // The first version was the create's.
        expect(yield* add(a)).toBe("2")
        expect(yield* add(a)).toBe("2")
        expect(yield* add(b)).toBe("3")
        expect(yield* add(a)).toBe("4")
        yield* TestClock.adjust(Duration.minutes(1))
        expect(yield* add(a)).toBe("5")
      }).pipe(Effect.provide(registry))
    )

    it.effect("a version with another name is refused and stores nothing", () =>
      Effect.gen(function* () {
        const { addVersion, createSkill, listVersions } = yield* Registry
        const blobs = yield* BlobStore
        const { skill } = yield* createSkill({ displayTitle: null, bundle: yield* bundle("greeting"), keyId: "k" })
        const upload = yield* bundle("farewell")
        const error = yield* Effect.flip(addVersion({ skillId: skill.id, bundle: upload, keyId: "k" }))
        expect(error).toMatchObject({ _tag: "SKILL_NAME_CHANGED", expected: "greeting", actual: "farewell" })
        expect(yield* has(blobs, upload.sha256)).toBe(false)
        expect((yield* listVersions(skill.id)).items.length).toBe(1)
      }).pipe(Effect.provide(registry))
    )

    it.effect("the last version cannot be deleted, and the number of a deleted one is not given again", () =>
      Effect.gen(function* () {
        const { addVersion, createSkill, deleteSkill, deleteVersion, getSkill, getVersion } = yield* Registry
        const { skill } = yield* createSkill({ displayTitle: null, bundle: yield* bundle("greeting", "A"), keyId: "k" })
        expect(yield* Effect.flip(deleteVersion(skill.id, "1"))).toMatchObject({ _tag: "LAST_VERSION" })
        const second = yield* addVersion({ skillId: skill.id, bundle: yield* bundle("greeting", "B"), keyId: "k" })
        expect(yield* deleteVersion(skill.id, second.id)).toEqual(second)
        expect((yield* getSkill(skill.id)).latestVersion).toBe("1")
        expect(yield* Effect.flip(getVersion(skill.id, "2"))).toMatchObject({ _tag: "SKILL_VERSION_NOT_FOUND" })
        const third = yield* addVersion({ skillId: skill.id, bundle: yield* bundle("greeting", "C"), keyId: "k" })
        expect(third.version).toBe("3")
        yield* deleteSkill(skill.id)
        expect(yield* Effect.flip(getSkill(skill.id))).toMatchObject({ _tag: "SKILL_NOT_FOUND" })
        expect(yield* Effect.flip(getVersion(skill.id, "1"))).toMatchObject({ _tag: "SKILL_NOT_FOUND" })
        expect(yield* Effect.flip(deleteSkill(skill.id))).toMatchObject({ _tag: "SKILL_NOT_FOUND" })
      }).pipe(Effect.provide(registry))
    )

    it.effect("an id that no skill can have is not found, whatever is in it", () =>
      Effect.gen(function* () {
        const { addVersion, createSkill, deleteVersion, getSkill, getVersion, versionArchive } = yield* Registry
        const upload = yield* bundle("greeting")
        const { skill } = yield* createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
        for (const id of ["", "skill_1", "\0", "\ud800", "x".repeat(100_000), `${skill.id} `]) {
          expect(yield* Effect.flip(getSkill(id))).toMatchObject({ _tag: "SKILL_NOT_FOUND", skillId: id })
          expect(yield* Effect.flip(addVersion({ skillId: id, bundle: upload, keyId: "k" }))).toMatchObject({
            _tag: "SKILL_NOT_FOUND"
          })
          for (const operation of [getVersion, deleteVersion, versionArchive]) {
            expect(yield* Effect.flip<unknown, unknown, never>(operation(skill.id, id))).toMatchObject({
              _tag: "SKILL_VERSION_NOT_FOUND"
            })
          }
        }
        for (const version of ["0", "01", "1.0", "9007199254740993", "latest"]) {
          expect(yield* Effect.flip(getVersion(skill.id, version))).toMatchObject({ _tag: "SKILL_VERSION_NOT_FOUND" })
        }
      }).pipe(Effect.provide(registry))
    )

    it.effect("lists give every row once, newest first, while others are added and deleted between pages", () =>
      Effect.gen(function* () {
        const { addVersion, createSkill, deleteSkill, listSkills, listVersions } = yield* Registry
        const create = (title: string) =>
          Effect.gen(function* () {
            const upload = yield* bundle("greeting", title)
            return (yield* createSkill({ displayTitle: title, bundle: upload, keyId: "k" })).skill.id
          })
        const ids = yield* Effect.forEach(["a", "b", "c", "d", "e"], create)
        const [a = "", b = "", c = "", d = "", e = ""] = ids
        const first = yield* listSkills({ limit: 2 })
        expect(first.items.map(({ id }) => id)).toEqual([e, d])
        yield* create("f")
        yield* deleteSkill(d)
        const second = yield* listSkills({ limit: 2, page: first.nextPage })
        expect(second.items.map(({ id }) => id)).toEqual([c, b])
        const third = yield* listSkills({ limit: 2, page: second.nextPage })
        expect(third).toMatchObject({ items: [{ id: a }], nextPage: null })
        expect((yield* listSkills({ limit: 5 })).nextPage).toBe(null)
        expect((yield* listSkills({ source: "custom" })).items.length).toBe(5)
        expect((yield* listSkills({ source: "anthropic" })).items).toEqual([])

        for (const text of ["2", "3"]) {
          yield* addVersion({ skillId: a, bundle: yield* bundle("greeting", text), keyId: "k" })
        }
        const versions = yield* listVersions(a, { limit: 2 })
        expect(versions.items.map(({ version }) => version)).toEqual(["3", "2"])
        const rest = yield* listVersions(a, { limit: 2, page: versions.nextPage })
        expect(rest.items.map(({ version }) => version)).toEqual(["1"])
        expect(rest.nextPage).toBe(null)

        for (const limit of [0, -1, 1.5, 1001, Number.NaN]) {
          expect(yield* Effect.flip(listSkills({ limit }))).toMatchObject({ _tag: "INVALID_PAGE", problem: "limit" })
        }
        for (const page of ["", "x", "-1", "1e3", "9".repeat(16)]) {
          expect(yield* Effect.flip(listVersions(a, { page }))).toMatchObject({ _tag: "INVALID_PAGE", problem: "page" })
        }
      }).pipe(Effect.provide(registry))
    )

    it.effect("a title that is no line is refused", () =>
      Effect.gen(function* () {
        const { createSkill } = yield* Registry
        const upload = yield* bundle("greeting")
        for (const displayTitle of ["", " ", "two\nlines", "\0", "\ud800", "x".repeat(256)]) {
          expect(yield* Effect.flip(createSkill({ displayTitle, bundle: upload, keyId: "k" }))).toMatchObject({
            _tag: "INVALID_VALUE"
          })
        }
      }).pipe(Effect.provide(registry))
    )
  })
}
