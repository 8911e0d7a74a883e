/**
 * The publishing surface that the public client `@anthropic-ai/sdk` speaks: `client.beta.skills` and
 * `client.beta.skills.versions`, in the shapes that version 1.14.0 of that package declares (contract, Registry server).
 *
 * @module
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "@effect/platform"
import { DateTime, Schema } from "effect"
import { UploadWarning } from "../publishing/UploadProblem.js"
import { KeyRequired } from "./Authentication.js"
import * as PathSegment from "./PathSegment.js"
import type * as Model from "./RegistryModel.js"

/** What is worth saying of an upload that was accepted: a member of ours, in the answer to it only. */
const warnings = Schema.optionalWith(Schema.Array(UploadWarning), { exact: true })

/** A skill on the wire. `name`, that of its versions, and `warnings` are ours. */
export const SkillBody = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  type: Schema.Literal("skill"),
  created_at: Schema.String,
  updated_at: Schema.String,
  display_name: Schema.String,
  latest_version_id: Schema.String,
  source: Schema.Struct({ type: Schema.Literal("custom") }),
  warnings
})

/** A skill version on the wire. The last four members are ours. */
export const SkillVersionBody = Schema.Struct({
  id: Schema.String,
  type: Schema.Literal("skill_version"),
  skill_id: Schema.String,
  name: Schema.String,
  description: Schema.String,
  created_at: Schema.String,
  version: Schema.String,
  directory: Schema.String,
  sha256: Schema.String,
  warnings
})

const deleted = <Type extends string>(type: Type) => Schema.Struct({ id: Schema.String, type: Schema.Literal(type) })

const pageOf = <A, I>(item: Schema.Schema<A, I>) =>
  Schema.Struct({ data: Schema.Array(item), next_page: Schema.NullOr(Schema.String) })

/** Which part of a list, as the public client asks. */
export const ListParams = Schema.Struct({
  limit: Schema.optional(Schema.NumberFromString),
  page: Schema.optional(Schema.String),
  source: Schema.optional(Schema.String)
})

/** The error envelope of this API. */
export const ErrorBody = Schema.Struct({
  type: Schema.Literal("error"),
  error: Schema.Struct({
    type: Schema.String,
    message: Schema.String,
    details: Schema.Struct({ error_code: Schema.String }, Schema.Record({ key: Schema.String, value: Schema.Unknown }))
  })
})

/** The form of an upload; for documentation, since it is read as a stream. */
const UploadForm = HttpApiSchema.MultipartStream(
  Schema.Struct({ files: Schema.Array(Schema.String), display_name: Schema.optional(Schema.String) })
)

const id = PathSegment.of(Schema.String)
const skillPath = Schema.Struct({ skillId: id })
const versionPath = Schema.Struct({ skillId: id, version: id })

/** The routes under `/v1`. */
export const skills = HttpApiGroup.make("skills")
  .add(HttpApiEndpoint.post("createSkill", "/v1/skills").setPayload(UploadForm).addSuccess(SkillBody))
  .add(HttpApiEndpoint.get("listSkills", "/v1/skills").setUrlParams(ListParams).addSuccess(pageOf(SkillBody)))
  .add(HttpApiEndpoint.get("getSkill", "/v1/skills/:skillId").setPath(skillPath).addSuccess(SkillBody))
  .add(
    HttpApiEndpoint.del("deleteSkill", "/v1/skills/:skillId").setPath(skillPath).addSuccess(deleted("skill_deleted"))
  )
  .add(
    HttpApiEndpoint.post("createVersion", "/v1/skills/:skillId/versions")
      .setPath(skillPath)
      .setPayload(UploadForm)
      .addSuccess(SkillVersionBody)
  )
  .add(
    HttpApiEndpoint.get("listVersions", "/v1/skills/:skillId/versions")
      .setPath(skillPath)
      .setUrlParams(ListParams)
      .addSuccess(pageOf(SkillVersionBody))
  )
  .add(
    HttpApiEndpoint.get("getVersion", "/v1/skills/:skillId/versions/:version")
      .setPath(versionPath)
      .addSuccess(SkillVersionBody)
  )
  .add(
    HttpApiEndpoint.del("deleteVersion", "/v1/skills/:skillId/versions/:version")
      .setPath(versionPath)
      .addSuccess(deleted("skill_version_deleted"))
  )
  .add(
    HttpApiEndpoint.get("downloadVersion", "/v1/skills/:skillId/versions/:version/content")
      .setPath(versionPath)
      .addSuccess(HttpApiSchema.Uint8Array({ contentType: "application/zip" }))
  )
  .addError(ErrorBody, { status: 400 })
  .middleware(KeyRequired)

/** A skill as its clients know it. A skill without a title of its own is shown by its name. */
export const skillBody = (skill: Model.Skill): typeof SkillBody.Type => ({
  id: skill.id,
  name: skill.name,
  type: "skill",
  created_at: DateTime.formatIso(skill.createdAt),
  updated_at: DateTime.formatIso(skill.updatedAt),
  display_name: skill.displayTitle ?? skill.name,
  latest_version_id: skill.latestVersionId,
  source: { type: "custom" }
})

/** A version as its clients know it. */
export const skillVersionBody = (version: Model.SkillVersion): typeof SkillVersionBody.Type => ({
  id: version.id,
  type: "skill_version",
  skill_id: version.skillId,
  name: version.name,
  description: version.description,
  created_at: DateTime.formatIso(version.createdAt),
  version: version.version,
  directory: version.directory,
  sha256: version.sha256
})
