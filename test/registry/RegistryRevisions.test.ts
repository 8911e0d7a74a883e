import { createHash } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Either, Layer, Option, Stream, TestClock } from "effect"
import * as fc from "fast-check"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import { Registry } from "../../src/registry/Registry.js"
import { BlobStore } from "../../src/store/BlobStore.js"
import { bundle, looseBundle, registries } from "../support/RegistryStores.js"
import { check } from "../support/Seed.js"

/** A skill with one version, as a member of a set. */
const member = Effect.fnUntraced(function* (name: string, text?: string) {
  const { createSkill } = yield* Registry
  const { skill } = yield* createSkill({ displayTitle: null, bundle: yield* bundle(name, text), keyId: "k" })
  return { skillId: skill.id, version: "1" }
})

const verifiedArchive = Effect.fnUntraced(function* (containerId: string, pin?: string) {
  const { archive, resolve } = yield* Registry
  const { etag, revision, sha256, size } = yield* resolve(containerId, pin)
  const bytes = yield* archive(sha256)
  expect(bytes.length).toBe(size)
  return yield* Snapshot.verify({ revision, etag, contentType: "application/zip", archive: bytes })
})

for (const [name, registry] of registries) {
  describe(`containers on ${name}`, () => {
    it.effect("a new container delivers an empty first revision; putting it again only renames it", () =>
      Effect.gen(function* () {
        const { getContainer, listContainers, listRevisions, putContainer } = yield* Registry
        const { container, created } = yield* putContainer({ id: "team/a", title: "Team" })
        expect(created).toBe(true)
        expect(container).toMatchObject({
          id: "team/a",
          title: "Team",
          enabled: true,
          latest: { sequence: 1, skills: [] }
        })
        expect(yield* verifiedArchive("team/a")).toMatchObject({ revision: container.latest?.revision, skills: [] })

        expect(yield* putContainer({ id: "team/a", title: "Other" })).toEqual({
          container: { ...container, title: "Other" },
          created: false
        })
        expect((yield* putContainer({ id: "team/a" })).container.title).toBe("Other")
        expect((yield* putContainer({ id: "team/a", title: null })).container.title).toBe(null)
        expect((yield* listRevisions("team/a")).items).toEqual([container.latest])
        yield* putContainer({ id: "b" })
        expect((yield* listContainers({ limit: 1 })).items).toEqual([yield* getContainer("team/a")])
        const { nextPage } = yield* listContainers({ limit: 1 })
        expect(yield* listContainers({ limit: 1, page: nextPage })).toMatchObject({
          items: [{ id: "b" }],
          nextPage: null
        })
      }).pipe(Effect.provide(registry))
    )

    it.effect("an id that no container can have is not found, and none is made with it", () =>
      Effect.gen(function* () {
        const { getContainer, listRevisions, publish, putContainer, resolve, revoke, setEnabled } = yield* Registry
        for (const id of ["", " ", ".", "..", "a\0b", "\ud800", "x".repeat(256)]) {
          expect(yield* Effect.flip(putContainer({ id }))).toMatchObject({ _tag: "INVALID_VALUE" })
          const refusals = [
            getContainer(id),
            listRevisions(id),
            publish({ containerId: id, base: null, skills: [] }),
            resolve(id),
            revoke(id, "r"),
            setEnabled(id, true)
          ]
          for (const refusal of refusals) {
            expect(yield* Effect.flip<unknown, unknown, never>(refusal)).toMatchObject({ _tag: "CONTAINER_NOT_FOUND" })
          }
        }
        yield* putContainer({ id: "a" })
        for (const revision of ["", "\0", "x", "0".repeat(64)]) {
          expect(yield* Effect.flip(resolve("a", revision))).toMatchObject({
            _tag: "REVISION_NOT_FOUND",
            container: "a"
          })
          expect(yield* Effect.flip(revoke("a", revision))).toMatchObject({
            _tag: "REVISION_NOT_FOUND",
            container: "a"
          })
        }
      }).pipe(Effect.provide(registry))
    )

    it.effect("a published set is delivered, verified, under the name of its content", () =>
      Effect.gen(function* () {
        const { archive, publish, putContainer } = yield* Registry
        yield* TestClock.setTime(7_000)
        const { container } = yield* putContainer({ id: "a" })
        const base = container.latest?.revision ?? null
        const greeting = yield* member("greeting")
        const farewell = yield* member("farewell")
        const revision = yield* publish({ containerId: "a", base, skills: [greeting, farewell] })
        expect(revision).toMatchObject({
          sequence: 2,
          revokedAt: null,
          skills: [
            { ...farewell, name: "farewell" },
            { ...greeting, name: "greeting" }
          ]
        })
        expect(revision.createdAt.epochMillis).toBe(7_000)
        const snapshot = yield* verifiedArchive("a")
        expect(snapshot.revision).toBe(revision.revision)
        expect(snapshot.etag).toBe(revision.etag)
        expect(snapshot.skills.map((skill) => [skill.name, skill.files.map(({ path }) => path)])).toEqual([
          ["farewell", ["SKILL.md"]],
          ["greeting", ["SKILL.md"]]
        ])
        // The name: SHA-256 over the canonical manifest without `revision` (contract, Registry server).
        const canonical = {
          schemaVersion: 1,
          skills: snapshot.skills.map(({ description, files, name }) => ({
            name,
            description,
            files: files.map(({ path, sha256, size }) => ({ path, size, sha256 }))
          }))
        }
        expect(revision.revision).toBe(createHash("sha256").update(JSON.stringify(canonical)).digest("hex"))

        yield* putContainer({ id: "b" })
        const other = yield* publish({ containerId: "b", base, skills: [farewell, greeting] })
        expect(other.revision).toBe(revision.revision)
        expect(other.sha256).toBe(revision.sha256)
        expect((yield* archive(other.sha256)).length).toBe(other.size)
      }).pipe(Effect.provide(registry))
    )

    it.effect("a publish over another base than the latest is refused and changes nothing", () =>
      Effect.gen(function* () {
        const { getContainer, publish, putContainer } = yield* Registry
        const base = (yield* putContainer({ id: "a" })).container.latest?.revision ?? null
        const greeting = yield* member("greeting")
        const farewell = yield* member("farewell")
        const first = yield* publish({ containerId: "a", base, skills: [greeting] })
        for (const stale of [base, null, "0".repeat(64)]) {
          expect(
            yield* Effect.flip(publish({ containerId: "a", base: stale, skills: [greeting, farewell] }))
          ).toMatchObject({ _tag: "BASE_MISMATCH", base: stale, latest: first.revision })
        }
        expect((yield* getContainer("a")).latest).toEqual(first)
        // The same again loses nothing, so it may be repeated.
        expect(yield* publish({ containerId: "a", base, skills: [greeting] })).toEqual(first)
      }).pipe(Effect.provide(registry))
    )

    it.effect("an older set becomes latest again as a new entry; a revoked one never does", () =>
      Effect.gen(function* () {
        const { getContainer, listRevisions, publish, putContainer, resolve, revoke } = yield* Registry
        const empty = (yield* putContainer({ id: "a" })).container.latest?.revision ?? ""
        const greeting = yield* member("greeting")
        const farewell = yield* member("farewell")
        const set = (base: string, ...skills: ReadonlyArray<typeof greeting>) =>
          publish({ containerId: "a", base, skills })
        const r1 = yield* set(empty, greeting)
        const r2 = yield* set(r1.revision, greeting, farewell)
        const again = yield* set(r2.revision, greeting)
        expect(again).toEqual({ ...r1, sequence: 4 })
        const back = yield* set(r1.revision)
        expect(back).toMatchObject({ revision: empty, sequence: 5 })
        const history = yield* listRevisions("a")
        expect(history.items.map(({ revision, sequence }) => [sequence, revision])).toEqual([
          [5, empty],
          [4, r1.revision],
          [3, r2.revision],
          [2, r1.revision],
          [1, empty]
        ])
        const page = yield* listRevisions("a", { limit: 2 })
        expect(
          (yield* listRevisions("a", { limit: 2, page: page.nextPage })).items.map((entry) => entry.sequence)
        ).toEqual([3, 2])

        // Latest falls back to the newest entry that is not revoked.
        const revoked = yield* revoke("a", empty)
        expect(revoked.revokedAt).not.toBe(null)
        expect((yield* getContainer("a")).latest).toEqual(again)
        expect((yield* resolve("a")).revision).toBe(r1.revision)
        yield* revoke("a", r1.revision)
        expect((yield* resolve("a")).revision).toBe(r2.revision)
        expect(yield* Effect.flip(resolve("a", r1.revision))).toMatchObject({
          _tag: "REVISION_REVOKED",
          container: "a"
        })
        expect((yield* resolve("a", r2.revision)).revision).toBe(r2.revision)
        expect(yield* Effect.flip(set(r2.revision, greeting))).toMatchObject({
          _tag: "REVOKED_SET",
          revision: r1.revision
        })
        yield* revoke("a", r2.revision)
        expect((yield* getContainer("a")).latest).toBe(null)
        expect(yield* Effect.flip(resolve("a"))).toMatchObject({ _tag: "REVISION_REVOKED", container: "a" })
        expect((yield* listRevisions("a")).items.every(({ revokedAt }) => revokedAt !== null)).toBe(true)

        // Without a latest the base is null, and delivery goes on.
        expect(yield* Effect.flip(set(r2.revision, farewell))).toMatchObject({ _tag: "BASE_MISMATCH", latest: null })
        const next = yield* publish({ containerId: "a", base: null, skills: [farewell] })
        expect(next.sequence).toBe(6)
        expect((yield* resolve("a")).revision).toBe(next.revision)
        // Revoking twice changes nothing, not even the time.
        yield* TestClock.adjust("1 hour")
        expect((yield* revoke("a", empty)).revokedAt).toEqual(revoked.revokedAt)
        expect((yield* getContainer("a")).latest).toEqual(next)
      }).pipe(Effect.provide(registry))
    )

    it.effect("delivery is switched off and on, pins included", () =>
      Effect.gen(function* () {
        const { putContainer, resolve, setEnabled } = yield* Registry
        const { container } = yield* putContainer({ id: "a" })
        const revision = container.latest?.revision ?? ""
        expect((yield* resolve("a", revision)).revision).toBe(revision)
        expect(yield* setEnabled("a", false)).toEqual({ ...container, enabled: false })
        expect(yield* Effect.flip(resolve("a"))).toMatchObject({ _tag: "DELIVERY_DISABLED", container: "a" })
        expect(yield* Effect.flip(resolve("a", revision))).toMatchObject({ _tag: "DELIVERY_DISABLED" })
        yield* putContainer({ id: "a", title: "still off" })
        expect(yield* Effect.flip(resolve("a"))).toMatchObject({ _tag: "DELIVERY_DISABLED" })
        yield* setEnabled("a", true)
        expect((yield* resolve("a")).revision).toBe(revision)
      }).pipe(Effect.provide(registry))
    )

    it.effect(
      "deleting a skill or a version changes no revision; what is deleted is published only by those who have it",
      () =>
        Effect.gen(function* () {
          const { addVersion, deleteSkill, deleteVersion, getContainer, publish, putContainer } = yield* Registry
          const base = (yield* putContainer({ id: "a" })).container.latest?.revision ?? null
          const greeting = yield* member("greeting", "one")
          const farewell = yield* member("farewell")
          yield* addVersion({ skillId: greeting.skillId, bundle: yield* bundle("greeting", "two"), keyId: "k" })
          const revision = yield* publish({ containerId: "a", base, skills: [greeting, farewell] })
          yield* deleteVersion(greeting.skillId, "1")
          yield* deleteSkill(farewell.skillId)
          expect((yield* getContainer("a")).latest).toEqual(revision)
          const both = yield* verifiedArchive("a")
          expect(both.skills.map((skill) => skill.name)).toEqual(["farewell", "greeting"])
          expect(yield* publish({ containerId: "a", base: null, skills: [farewell, greeting] })).toEqual(revision)

          // Something else is published beside them.
          const other = yield* member("other")
          const more = yield* publish({
            containerId: "a",
            base: revision.revision,
            skills: [...revision.skills, other]
          })
          expect(more.skills).toEqual([...revision.skills, { ...other, name: "other" }])
          const snapshot = yield* verifiedArchive("a")
          expect(snapshot.skills.slice(0, 2)).toEqual(both.skills)
          expect(snapshot.skills[0]?.files[0]?.text).toEqual(both.skills[0]?.files[0]?.text)

          // Once it is gone from the latest it does not come back, nor to another container.
          const without = yield* publish({ containerId: "a", base: more.revision, skills: [other] })
          const gone = { _tag: "SKILL_VERSION_NOT_FOUND", version: "1" }
          expect(
            yield* Effect.flip(publish({ containerId: "a", base: without.revision, skills: [greeting] }))
          ).toMatchObject(gone)
          yield* putContainer({ id: "b" })
          expect(yield* Effect.flip(publish({ containerId: "b", base, skills: [greeting] }))).toMatchObject(gone)
          expect(yield* Effect.flip(publish({ containerId: "b", base, skills: [farewell] }))).toMatchObject({
            _tag: "SKILL_NOT_FOUND"
          })
        }).pipe(Effect.provide(registry))
    )

    it.effect("a set is told by its skills, also where others have the same content", () =>
      Effect.gen(function* () {
        const { createSkill, deleteSkill, getContainer, listRevisions, publish, putContainer } = yield* Registry
        const base = (yield* putContainer({ id: "a" })).container.latest?.revision ?? ""
        const upload = yield* bundle("greeting")
        const twin = (keyId: string) =>
          Effect.map(createSkill({ displayTitle: null, bundle: upload, keyId }), ({ skill }) => ({
            skillId: skill.id,
            version: "1"
          }))
        const one = yield* twin("one")
        const two = yield* twin("two")
        const set = (base: string, ...skills: ReadonlyArray<typeof one>) => publish({ containerId: "a", base, skills })
        const first = yield* set(base, one)
        expect(yield* Effect.flip(set(base, two))).toMatchObject({ _tag: "BASE_MISMATCH", latest: first.revision })
        const second = yield* set(first.revision, two)
        expect(second).toEqual({ ...first, sequence: 3, skills: [{ ...two, name: "greeting" }] })
        expect((yield* listRevisions("a")).items.slice(0, 2)).toEqual([second, first])

        yield* deleteSkill(one.skillId)
        const other = yield* member("other")
        const { latest } = yield* getContainer("a")
        const third = yield* set(second.revision, ...(latest?.skills ?? []), other)
        expect(third.skills.map(({ skillId }) => skillId)).toEqual([two.skillId, other.skillId])
      }).pipe(Effect.provide(registry))
    )

    it.effect("a publish over another base stores nothing", () =>
      Effect.gen(function* () {
        const { publish, putContainer } = yield* Registry
        const blobs = yield* BlobStore
        yield* putContainer({ id: "a" })
        const greeting = yield* member("greeting")
        const stored = Stream.runCount(blobs.list)
        const before = yield* stored
        yield* Effect.flip(publish({ containerId: "a", base: "0".repeat(64), skills: [greeting] }))
        expect(yield* stored).toBe(before)
      }).pipe(Effect.provide(registry))
    )

    it.scopedLive("every upload that is accepted is published, or refused with file and rule", () =>
      Effect.gen(function* () {
        const { archive, createSkill, putContainer, publish } = yield* Effect.map(
          Layer.build(registry),
          Context.get(Registry)
        )
        const base = (yield* putContainer({ id: "a" })).container.latest?.revision ?? null
        const segment = fc.oneof(
          fc.constantFrom(
            "c:b",
            "c:",
            "con",
            "a.",
            " ",
            "~",
            "\u00e9",
            "e\u0301",
            "%2e%2e",
            ".git",
            "SKILL.md",
            "skill.md"
          ),
          fc.fullUnicodeString({ minLength: 1, maxLength: 6 })
        )
        const path = fc.array(segment, { minLength: 1, maxLength: 3 }).map((segments) => segments.join("/"))
        const outcomes = new Set<string>()
        yield* Effect.promise(() =>
          check<[Record<string, string>]>(
            [fc.dictionary(path, fc.string({ maxLength: 3 }), { maxKeys: 4 })],
            (files) =>
              Effect.gen(function* () {
                const upload = yield* Effect.option(bundle("greeting", "Hello.", files))
                if (Option.isNone(upload)) return void outcomes.add("not accepted")
                const { skill } = yield* createSkill({ displayTitle: null, bundle: upload.value, keyId: "k" })
                const publishing = publish({ containerId: "a", base, skills: [{ skillId: skill.id, version: "1" }] })
                const result = yield* Effect.either(
                  Effect.catchTag(publishing, "BASE_MISMATCH", ({ latest }) =>
                    publish({ containerId: "a", base: latest, skills: [{ skillId: skill.id, version: "1" }] })
                  )
                )
                outcomes.add(Either.isRight(result) ? "published" : result.left._tag)
                if (Either.isRight(result)) yield* archive(result.right.sha256)
                else expect(result.left).toMatchObject({ problems: [{ skill: "greeting", rule: "file-path" }] })
              }).pipe(Effect.runPromise),
            { numRuns: 40, examples: [[{ "c:b": "x" }]] }
          )
        )
        expect(outcomes).toEqual(new Set(["not accepted", "published", "UNDELIVERABLE_SET"]))
      })
    )

    it.effect("a set that cannot be delivered is refused with every problem: skill, file and rule", () =>
      Effect.gen(function* () {
        const { createSkill, getContainer, publish, putContainer } = yield* Registry
        const { container } = yield* putContainer({ id: "a" })
        const base = container.latest?.revision ?? null
        const create = Effect.fnUntraced(function* (
          skill: string,
          files: Readonly<Record<string, string | Uint8Array>>
        ) {
          const created = yield* createSkill({ displayTitle: null, bundle: looseBundle(skill, files), keyId: "k" })
          return { skillId: created.skill.id, version: "1" }
        })
        const refusal = (...skills: ReadonlyArray<{ readonly skillId: string; readonly version: string }>) =>
          Effect.map(Effect.flip(publish({ containerId: "a", base, skills })), (error) =>
            error._tag === "UNDELIVERABLE_SET"
              ? error.problems.map(({ file, rule, skill }) => [skill, file, rule])
              : error
          )

        const greeting = yield* member("greeting")
        const twin = yield* member("greeting", "Another.")
        const nameless = yield* create("nameless", { "README.md": "no entry point" })
        const binary = yield* create("binary", { "SKILL.md": Uint8Array.of(0xff) })
        expect(yield* refusal(greeting, nameless, twin, binary)).toEqual([
          ["nameless", "SKILL.md", "skill-md-missing"],
          ["greeting", undefined, "skill-order"],
          ["binary", "SKILL.md", "skill-md-encoding"]
        ])
        // A thousand skills are too many before one is loaded, and no skill is loaded twice.
        expect(yield* refusal(...Array.from({ length: 1_000 }, () => nameless))).toEqual([
          ["nameless", undefined, "entry-count"]
        ])
        expect(yield* refusal(nameless, nameless, nameless)).toEqual([
          ["nameless", "SKILL.md", "skill-md-missing"],
          ["nameless", undefined, "skill-order"],
          ["nameless", undefined, "skill-order"]
        ])
        const { skill: broken } = yield* createSkill({
          displayTitle: null,
          bundle: { ...looseBundle("broken", {}), archive: new TextEncoder().encode("no archive") },
          keyId: "k"
        })
        expect(yield* refusal({ skillId: broken.id, version: "1" }, binary)).toEqual([
          ["broken", undefined, "end-record"],
          ["binary", "SKILL.md", "skill-md-encoding"]
        ])
        const many = yield* create(
          "many",
          Object.fromEntries(["SKILL.md", ...Array.from({ length: 997 }, (_, n) => `f/${n}`)].map((path) => [path, ""]))
        )
        expect(yield* refusal(many, greeting, yield* member("farewell"), binary)).toEqual([
          ["farewell", "SKILL.md", "entry-count"]
        ])
        const mebibytes = (count: number) => ({ "SKILL.md": "# Large", data: new Uint8Array(count * 1024 * 1024) })
        const first = yield* create("first", mebibytes(16))
        expect(yield* refusal(first, yield* create("second", mebibytes(17)), binary)).toEqual([
          ["second", "data", "decoded-size"]
        ])
        // With the manifest it is one file's length too long.
        const third = yield* create("third", { "SKILL.md": "", data: new Uint8Array(16 * 1024 * 1024 - 7) })
        expect(yield* refusal(third, first)).toEqual([["first", "data", "decoded-size"]])

        expect((yield* getContainer("a")).latest).toEqual(container.latest)
        // At the bound it is delivered.
        yield* publish({ containerId: "a", base, skills: [many, greeting] })
        expect((yield* verifiedArchive("a")).skills.length).toBe(2)
      }).pipe(Effect.provide(registry))
    )
  })
}
