/**
 * The publishing surface over HTTP: uploads, lists, downloads and deletions of skills (contract, Registry server).
 *
 * @module
 */
import { HttpApiBuilder, HttpServerRequest, HttpServerResponse } from "@effect/platform"
import { Effect, Option } from "effect"
import type { Policy } from "../publishing/Policy.js"
import * as SkillBundle from "../publishing/SkillBundle.js"
import * as SkillPackage from "../publishing/SkillPackage.js"
import * as Authentication from "./Authentication.js"
import * as ByteBudget from "./ByteBudget.js"
import * as MultipartForm from "./MultipartForm.js"
import { OutgoingArchives, slices } from "./OutgoingArchives.js"
import * as Refusal from "./Refusal.js"
import { Registry } from "./Registry.js"
import { RegistryHttpApi } from "./RegistryHttpApi.js"
import * as RequestBody from "./RequestBody.js"
import * as SkillsHttpApi from "./SkillsHttpApi.js"

/** How many uploads are packed and stored at once, which takes a few times the memory that they come in. */
const concurrentUploads = 4

/** How many of them there are with those that wait for their turn. */
const maximumUploads = 32

/** Of all uploads on their way or waiting, in bytes: four of the largest, or thousands of what people publish. */
const maximumBodyBytes = 4 * MultipartForm.maximumBytes

const answered = <A, R>(
  effect: Effect.Effect<A, Refusal.Failure, R>
): Effect.Effect<A | HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.catchAll(effect, Refusal.answering(Refusal.skillsAnswer))

/** `/v1/skills`. Uploads are held to `policy`. */
export const skills = (policy: Policy) =>
  HttpApiBuilder.group(RegistryHttpApi, "skills", (handlers) =>
    Effect.gen(function* () {
      const registry = yield* Registry
      const archives = yield* OutgoingArchives
      const places = yield* Effect.makeSemaphore(maximumUploads)
      const turns = yield* Effect.makeSemaphore(concurrentUploads)
      const budget = ByteBudget.make(maximumBodyBytes)

      const parse = Effect.fnUntraced(function* (body: Uint8Array) {
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        const { fields, files } = yield* MultipartForm.parse(body, headers["content-type"])
        return { title: fields.get("display_name") ?? null, bundle: yield* SkillBundle.fromFiles(files, { policy }) }
      })
      /** Nobody has a turn before the whole body is there: who sends slowly keeps no other from publishing. */
      const uploading = <A, E, R>(
        store: (upload: Effect.Effect.Success<ReturnType<typeof parse>>) => Effect.Effect<A, E, R>
      ) =>
        Effect.gen(function* () {
          const body = yield* RequestBody.read(MultipartForm.maximumBytes, budget)
          const stored = turns.withPermits(1)(Effect.flatMap(parse(body), store))
          const done = yield* places.withPermitsIfAvailable(1)(stored)
          return Option.isSome(done) ? done.value : yield* new ByteBudget.ServerBusy()
        })
      const publisher = Authentication.requireScope("publish")

      return handlers
        .handleRaw("createSkill", () =>
          Effect.gen(function* () {
            const key = yield* publisher
            return yield* uploading(({ bundle, title }) =>
              Effect.map(
                registry.createSkill({ displayTitle: title, bundle, keyId: key.id }),
                ({ skill }): typeof SkillsHttpApi.SkillBody.Type => ({
                  ...SkillsHttpApi.skillBody(skill),
                  ...warningsOf(bundle)
                })
              )
            )
          }).pipe(answered)
        )
        .handleRaw("listSkills", ({ urlParams }) =>
          Effect.gen(function* () {
            yield* publisher
            const { items, nextPage } = yield* registry.listSkills(urlParams)
            return { data: items.map(SkillsHttpApi.skillBody), next_page: nextPage }
          }).pipe(answered)
        )
        .handleRaw("getSkill", ({ path }) =>
          publisher.pipe(
            Effect.zipRight(registry.getSkill(path.skillId)),
            Effect.map(SkillsHttpApi.skillBody),
            answered
          )
        )
        .handleRaw("deleteSkill", ({ path }) =>
          publisher.pipe(
            Effect.zipRight(registry.deleteSkill(path.skillId)),
            Effect.as({ id: path.skillId, type: "skill_deleted" } as const),
            answered
          )
        )
        .handleRaw("createVersion", ({ path }) =>
          Effect.gen(function* () {
            const key = yield* publisher
            // Before the upload is read: it would be in vain.
            yield* registry.getSkill(path.skillId)
            return yield* uploading(({ bundle }) =>
              Effect.map(
                registry.addVersion({ skillId: path.skillId, bundle, keyId: key.id }),
                (version): typeof SkillsHttpApi.SkillVersionBody.Type => ({
                  ...SkillsHttpApi.skillVersionBody(version),
                  ...warningsOf(bundle)
                })
              )
            )
          }).pipe(answered)
        )
        .handleRaw("listVersions", ({ path, urlParams }) =>
          Effect.gen(function* () {
            yield* publisher
            const { items, nextPage } = yield* registry.listVersions(path.skillId, urlParams)
            return { data: items.map(SkillsHttpApi.skillVersionBody), next_page: nextPage }
          }).pipe(answered)
        )
        .handleRaw("getVersion", ({ path }) =>
          publisher.pipe(
            Effect.zipRight(registry.getVersion(path.skillId, path.version)),
            Effect.map(SkillsHttpApi.skillVersionBody),
            answered
          )
        )
        .handleRaw("deleteVersion", ({ path }) =>
          publisher.pipe(
            Effect.zipRight(registry.deleteVersion(path.skillId, path.version)),
            Effect.map(({ id }) => ({ id, type: "skill_version_deleted" }) as const),
            answered
          )
        )
        .handleRaw("downloadVersion", ({ path, request }) =>
          Effect.gen(function* () {
            yield* publisher
            const find = registry.getVersion(path.skillId, path.version)
            const found = yield* find
            const bytes = yield* archives.get(found).pipe(
              // Deleted in between, perhaps.
              Effect.tapErrorTag("CORRUPT_BLOB", () => find)
            )
            yield* Authentication.confirm(registry, request)
            return HttpServerResponse.stream(slices(bytes), {
              contentType: "application/zip",
              contentLength: bytes.length,
              headers: {
                [SkillPackage.digestHeader]: found.sha256,
                // A name is lower-case letters, digits and hyphens by the rules, and nothing else may stand in a header.
                "content-disposition": `attachment; filename="${found.name.replace(/[^a-z0-9-]/g, "_")}.zip"`
              }
            })
          }).pipe(answered)
        )
    })
  )

const warningsOf = ({ warnings }: SkillBundle.SkillBundle) => (warnings.length === 0 ? {} : { warnings })
