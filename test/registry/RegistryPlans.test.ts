import { SqlClient } from "@effect/sql"
import { expect, it } from "@effect/vitest"
import { Array, Effect, Layer, TestClock } from "effect"
import { layer, Registry } from "../../src/registry/Registry.js"
import * as InterceptedStore from "../support/InterceptedStore.js"
import { bundle } from "../support/RegistryStores.js"
import { emptyDirectory, layerLibsqlAt } from "../support/Stores.js"

it.scoped("no request reads a whole table, so that a large registry answers as fast as a small one", () =>
  Effect.gen(function* () {
    const statements = new Set<string>()
    const store = layerLibsqlAt(yield* emptyDirectory)
    const recorded = InterceptedStore.layer((call) =>
      Effect.sync(() => {
        statements.add(call)
        return false
      })
    )
    const plans = yield* Effect.gen(function* () {
      const registry = yield* Registry
      // What the start does, it does once.
      statements.clear()
      const { container } = yield* registry.putContainer({ id: "c", title: "C" })
      yield* registry.putContainer({ id: "c", title: "D" })
      const upload = yield* bundle("greeting")
      const { skill } = yield* registry.createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
      const version = yield* registry.addVersion({
        skillId: skill.id,
        bundle: yield* bundle("greeting", "Hi."),
        keyId: "k"
      })
      const revision = yield* registry.publish({
        containerId: "c",
        base: container.latest?.revision ?? null,
        skills: [{ skillId: skill.id, version: "1" }]
      })
      const { apiKey, key } = yield* registry.issueKey({ name: "agent", scope: "read", containers: null })
      yield* registry.authenticate(key)
      yield* registry.resolve("c")
      yield* registry.resolve("c", revision.revision)
      yield* registry.setEnabled("c", true)
      yield* TestClock.adjust("1 second")
      yield* registry.resolve("c")
      yield* registry.listContainers()
      yield* registry.listRevisions("c")
      yield* registry.listSkills()
      yield* registry.listVersions(skill.id)
      yield* registry.getVersion(skill.id, version.id)
      yield* registry.versionArchive(skill.id, "1")
      yield* registry.deleteVersion(skill.id, "1")
      yield* registry.deleteSkill(skill.id)
      yield* registry.revoke("c", revision.revision)
      yield* registry.revokeKey(apiKey.id)

      const sql = yield* SqlClient.SqlClient
      const queries = [...statements].filter((statement) => /^\s*(SELECT|UPDATE|DELETE)/.test(statement))
      expect(queries.length).toBeGreaterThan(20)
      return yield* Effect.forEach(queries, (query) =>
        Effect.map(
          sql.unsafe<{ readonly detail: string }>(
            `EXPLAIN QUERY PLAN ${query}`,
            Array.makeBy(query.split("?").length - 1, () => null)
          ),
          (rows) => ({ query, steps: rows.map(({ detail }) => detail) })
        )
      )
    }).pipe(Effect.provide(layer.pipe(Layer.provideMerge(recorded), Layer.provide(store))))
    // A scan of an index in order is how a list begins, and it ends at the page's limit. What a set names is a list of its own.
    const scans = plans.filter(({ query, steps }) =>
      steps.some(
        (step) =>
          /^SCAN (?!wanted$|(\d+ )?CONSTANT)/.test(step) && !(query.includes("LIMIT") && step.includes("USING INDEX"))
      )
    )
    expect(scans).toEqual([])
    expect(plans.filter(({ steps }) => steps.some((step) => step.includes("TEMP B-TREE")))).toEqual([])
  })
)

it.scoped("a publish of many skills takes as many statements as one of few, which all others wait for", () =>
  Effect.gen(function* () {
    let statements = 0
    const counted = InterceptedStore.layer(() =>
      Effect.sync(() => {
        statements++
        return false
      })
    )
    const store = layerLibsqlAt(yield* emptyDirectory)
    yield* Effect.gen(function* () {
      const registry = yield* Registry
      const publishing = (count: number) =>
        Effect.gen(function* () {
          const skills = yield* Effect.forEach(Array.range(1, count), (n) =>
            Effect.gen(function* () {
              const upload = yield* bundle(`skill-${count}-${n}`)
              const { skill, version } = yield* registry.createSkill({ displayTitle: null, bundle: upload, keyId: "k" })
              return { skillId: skill.id, version: n % 2 === 0 ? version.version : version.id }
            })
          )
          const { container } = yield* registry.putContainer({ id: `c${count}` })
          statements = 0
          yield* registry.publish({ containerId: `c${count}`, base: container.latest?.revision ?? null, skills })
          // Each archive is read once.
          return statements - count
        })
      expect(yield* publishing(60)).toBe(yield* publishing(2))
    }).pipe(Effect.provide(layer.pipe(Layer.provide(counted), Layer.provide(store))))
  })
)
