import { describe, expect, it } from "@effect/vitest"
import { Array, Context, Effect, Layer } from "effect"
import * as fc from "fast-check"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import * as Registry from "../../src/registry/Registry.js"
import { bundle } from "../support/RegistryStores.js"
import { check } from "../support/Seed.js"
import { stores } from "../support/Stores.js"

const server = Effect.map(Layer.build(Layer.fresh(Registry.layer)), (context) =>
  Context.get(context, Registry.Registry)
)

interface Member {
  readonly skillId: string
  readonly version: string
}

/** Adds one skill to the container as the command line does: reads the latest, publishes over it, and again when it lost. */
const add = (
  registry: Registry.RegistryService,
  containerId: string,
  member: Member
): Effect.Effect<ReadonlyArray<string>, unknown> =>
  Effect.gen(function* () {
    const { latest } = yield* registry.getContainer(containerId)
    const skills = [...(latest?.skills ?? []), member]
    const revision = yield* registry.publish({ containerId, base: latest?.revision ?? null, skills })
    return revision.skills.map(({ skillId }) => skillId)
  }).pipe(
    Effect.retry({
      while: (error: { readonly _tag: string }) => error._tag === "BASE_MISMATCH"
    })
  )

for (const [name, store] of stores) {
  describe(`several publishers on ${name}`, () => {
    it.live("no publish is lost or mixed with another, whichever server each goes through", () =>
      Effect.promise(() =>
        check(
          [
            fc.array(fc.tuple(fc.integer({ min: 0, max: 1 }), fc.integer({ min: 0, max: 1 })), {
              minLength: 2,
              maxLength: 8
            })
          ],
          (publishers) =>
            Effect.gen(function* () {
              const servers = yield* Effect.all([server, server])
              const containers = ["first", "second"] as const
              for (const id of containers) yield* servers[0].putContainer({ id })
              const members = yield* Effect.forEach(publishers, (_, index) =>
                Effect.gen(function* () {
                  const upload = yield* bundle(`skill-${index}`)
                  const { skill } = yield* servers[0].createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
                  return { skillId: skill.id, version: "1" }
                })
              )
              const results = yield* Effect.forEach(
                Array.zip(publishers, members),
                ([[at, container], member]) =>
                  add(servers[at === 0 ? 0 : 1], containers[container === 0 ? 0 : 1], member),
                { concurrency: "unbounded" }
              )
              // Whoever was told of success has its skill in the revision that it was told of.
              for (const [index, skills] of results.entries()) expect(skills).toContain(members[index]?.skillId)

              for (const [index, id] of containers.entries()) {
                const mine = members.filter((_, at) => publishers[at]?.[1] === index)
                const { items } = yield* servers[1].listRevisions(id, { limit: 100 })
                // One entry for each publish and the empty first, in one order, each with one skill more.
                expect(items.map(({ sequence, skills }) => [sequence, skills.length])).toEqual(
                  Array.makeBy(mine.length + 1, (at) => [mine.length + 1 - at, mine.length - at])
                )
                expect(new Set(items[0]?.skills.map(({ skillId }) => skillId))).toEqual(
                  new Set(mine.map(({ skillId }) => skillId))
                )
                for (const { etag, revision, sha256, skills } of items) {
                  const archive = yield* servers[1].archive(sha256)
                  const snapshot = yield* Snapshot.verify({ revision, etag, contentType: "application/zip", archive })
                  expect(snapshot.skills.map((skill) => skill.name)).toEqual(skills.map((skill) => skill.name))
                }
              }
            }).pipe(Effect.scoped, Effect.provide(Layer.fresh(store)), Effect.runPromise),
          { numRuns: 5 }
        )
      )
    )
  })
}
