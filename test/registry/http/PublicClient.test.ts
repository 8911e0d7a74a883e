import Anthropic, { toFile } from "@anthropic-ai/sdk"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as SkillPackage from "../../../src/publishing/SkillPackage.js"
import * as HttpRegistry from "../../support/HttpRegistry.js"
import { sha256Hex } from "../../support/SnapshotArchive.js"
import { type Store, stores } from "../../support/Stores.js"
import { skillFile } from "../../support/Uploads.js"

const filesOf = (name: string, more: Readonly<Record<string, string>> = {}) =>
  Promise.all([
    toFile(Buffer.from(skillFile(name)), `${name}/SKILL.md`),
    ...Object.entries(more).map(([path, text]) => toFile(Buffer.from(text), `${name}/${path}`))
  ])

const startOn = (store: Store) =>
  Effect.gen(function* () {
    const registry = yield* HttpRegistry.start({ store })
    const client = new Anthropic({ apiKey: yield* registry.issue("publish"), baseURL: registry.url, maxRetries: 0 })
    return { ...registry, skills: client.beta.skills }
  })

const run = <A>(call: () => PromiseLike<A>) => Effect.promise(async () => call())

const refused = (call: () => PromiseLike<unknown>) =>
  Effect.promise(() =>
    Promise.resolve(call()).then(
      () => "not refused",
      (error) => (error instanceof Anthropic.APIError ? [error.status, error.type, error.errorCode] : error)
    )
  )

describe.each(stores)("the public client, of a registry on %s", (_, store) => {
  const start = startOn(store)

  it.scopedLive("publishes, retrieves, lists, downloads and deletes", () =>
    Effect.gen(function* () {
      const { skills } = yield* start
      const files = yield* run(() => filesOf("greeting", { "docs/日本 é.md": "Hello" }))
      const skill = yield* run(() => skills.create({ files, display_name: "Greeting people" }))
      expect(skill).toMatchObject({ type: "skill", display_name: "Greeting people", source: { type: "custom" } })
      expect(skill.created_at).toBe(new Date(skill.created_at).toISOString())
      expect(yield* run(() => skills.retrieve(skill.id))).toEqual(skill)

      const first = yield* run(() => skills.versions.retrieve(skill.latest_version_id, { skill_id: skill.id }))
      expect(first).toMatchObject({
        type: "skill_version",
        id: skill.latest_version_id,
        skill_id: skill.id,
        name: "greeting",
        description: "Greets people"
      })
      const more = yield* run(() => filesOf("greeting", { "docs/more.md": "More" }))
      const second = yield* run(() => skills.versions.create(skill.id, { files: more }))
      expect((yield* run(() => skills.retrieve(skill.id))).latest_version_id).toBe(second.id)

      const downloaded = yield* run(() => skills.versions.download(first.id, { skill_id: skill.id }))
      expect(downloaded.headers.get("content-type")).toBe("application/zip")
      const archive = new Uint8Array(yield* run(() => downloaded.arrayBuffer()))
      expect(downloaded.headers.get("x-skill-archive-sha256")).toBe(sha256Hex(archive))
      const extracted = yield* SkillPackage.extract(archive)
      expect(extracted.files.map((file) => file.path).sort()).toEqual(["SKILL.md", "docs/日本 é.md"].sort())

      expect(yield* run(() => skills.versions.delete(first.id, { skill_id: skill.id }))).toEqual({
        id: first.id,
        type: "skill_version_deleted"
      })
      expect(yield* refused(() => skills.versions.delete(second.id, { skill_id: skill.id }))).toEqual([
        400,
        "invalid_request_error",
        "LAST_VERSION"
      ])
      expect(yield* run(() => skills.delete(skill.id))).toEqual({ id: skill.id, type: "skill_deleted" })
      expect(yield* refused(() => skills.retrieve(skill.id))).toEqual([404, "not_found_error", "SKILL_NOT_FOUND"])
    })
  )

  it.scopedLive("pages through skills and versions", () =>
    Effect.gen(function* () {
      const { skills } = yield* start
      const created: Array<string> = []
      for (const name of ["one", "two", "three", "four", "five"]) {
        const files = yield* run(() => filesOf(name))
        created.unshift((yield* run(() => skills.create({ files }))).id)
      }
      const first = yield* run(() => skills.list({ limit: 2 }))
      expect(first.data.length).toBe(2)
      const listed = yield* run(async () => {
        const ids: Array<string> = []
        for await (const skill of skills.list({ limit: 2 })) ids.push(skill.id)
        return ids
      })
      expect([...listed].sort()).toEqual([...created].sort())
      expect((yield* run(() => skills.list({ source: "anthropic" }))).data).toEqual([])

      const [skillId = ""] = created
      for (const text of ["a", "b"]) {
        const files = yield* run(() => filesOf("five", { "more.md": text }))
        yield* run(() => skills.versions.create(skillId, { files }))
      }
      const versions = yield* run(async () => {
        const ids = new Set<string>()
        for await (const version of skills.versions.list(skillId, { limit: 1 })) ids.add(version.id)
        return ids
      })
      expect(versions.size).toBe(3)
      expect(yield* refused(() => skills.list({ limit: 2, page: "made up" }))).toEqual([
        400,
        "invalid_request_error",
        "INVALID_PAGE"
      ])
    })
  )

  it.scopedLive("gets every problem of an upload, and no refusal that it would try again", () =>
    Effect.gen(function* () {
      const { skills } = yield* start
      const bad = yield* run(() =>
        Promise.all([
          toFile(Buffer.from("no frontmatter"), "greeting/SKILL.md"),
          toFile(Buffer.from("x"), "greeting/../../escape.md")
        ])
      )
      expect(yield* refused(() => skills.create({ files: bad }))).toEqual([
        400,
        "invalid_request_error",
        "INVALID_UPLOAD"
      ])
      const files = yield* run(() => filesOf("greeting"))
      const { id } = yield* run(() => skills.create({ files }))
      const renamed = yield* run(() => filesOf("farewell"))
      expect(yield* refused(() => skills.versions.create(id, { files: renamed }))).toEqual([
        400,
        "invalid_request_error",
        "SKILL_NAME_CHANGED"
      ])
      expect(yield* refused(() => skills.create({ files, display_name: "two\nlines" }))).toEqual([
        400,
        "invalid_request_error",
        "INVALID_VALUE"
      ])
    })
  )

  it.scopedLive("gives the first skill again when a create is repeated with the same bytes", () =>
    Effect.gen(function* () {
      const { skills } = yield* start
      const files = yield* run(() => filesOf("greeting"))
      const first = yield* run(() => skills.create({ files }))
      expect((yield* run(() => skills.create({ files }))).id).toBe(first.id)
    })
  )

  it.scopedLive("may present its key as a bearer token", () =>
    Effect.gen(function* () {
      const { key, url } = yield* start
      const client = new Anthropic({ authToken: key, apiKey: null, baseURL: url, maxRetries: 0 })
      expect((yield* run(() => client.beta.skills.list())).data).toEqual([])
      const stranger = new Anthropic({ authToken: "ask_no_key", apiKey: null, baseURL: url, maxRetries: 0 })
      expect(yield* refused(() => stranger.beta.skills.list())).toEqual([
        401,
        "authentication_error",
        "AUTHENTICATION_FAILED"
      ])
    })
  )
})
