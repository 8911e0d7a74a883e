/**
 * The ways in which a registry refuses, beside those that delivery and the store already have. The `_tag` is the code.
 *
 * Every message is safe to show: ids are the sender's own, file names are escaped, and nothing of a key or of a file's
 * content is in it.
 *
 * @module
 */
import { Schema } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import { SnapshotCheck } from "../delivery/DeliveryError.js"

const quoted = (text: string) => `"${ArchivePath.display(text)}"`

/** The registry has no such skill. */
export class SkillNotFound extends Schema.TaggedError<SkillNotFound>()("SKILL_NOT_FOUND", {
  skillId: Schema.String
}) {
  override get message(): string {
    return `The registry has no skill ${quoted(this.skillId)}.`
  }
}

/** The skill has no such version, or no longer has it. */
export class SkillVersionNotFound extends Schema.TaggedError<SkillVersionNotFound>()("SKILL_VERSION_NOT_FOUND", {
  skillId: Schema.String,
  version: Schema.String
}) {
  override get message(): string {
    return `The skill ${quoted(this.skillId)} has no version ${quoted(this.version)}.`
  }
}

/** A skill always has a version (contract, Registry server). */
export class LastVersion extends Schema.TaggedError<LastVersion>()("LAST_VERSION", {
  skillId: Schema.String,
  version: Schema.String
}) {
  override get message(): string {
    return `${quoted(this.version)} is the only version of the skill ${quoted(this.skillId)}. Delete the skill instead.`
  }
}

/** Every version of a skill has the same name (contract, Registry server). */
export class SkillNameChanged extends Schema.TaggedError<SkillNameChanged>()("SKILL_NAME_CHANGED", {
  skillId: Schema.String,
  /** The skill's. */
  expected: Schema.String,
  /** The upload's. */
  actual: Schema.String
}) {
  override get message(): string {
    return `The skill ${quoted(this.skillId)} is named ${quoted(this.expected)}, the upload ${quoted(this.actual)}. Create another skill, or keep the name.`
  }
}

/** The latest revision is not the one that the publisher saw last. Read it and publish again (contract, Registry server). */
export class BaseMismatch extends Schema.TaggedError<BaseMismatch>()("BASE_MISMATCH", {
  containerId: Schema.String,
  base: Schema.NullOr(Schema.String),
  latest: Schema.NullOr(Schema.String)
}) {
  override get message(): string {
    const latest = this.latest === null ? "none" : quoted(this.latest)
    return `The latest revision of ${quoted(this.containerId)} is ${latest}, not the base that was given. Read it and publish again.`
  }
}

/** Revoked content does not come back by republishing (contract, Registry server). */
export class RevokedSet extends Schema.TaggedError<RevokedSet>()("REVOKED_SET", {
  containerId: Schema.String,
  revision: Schema.String
}) {
  override get message(): string {
    return `This set is the revision ${quoted(this.revision)} of ${quoted(this.containerId)}, which was revoked.`
  }
}

/** What no agent could take of a set. */
export const SetProblem = Schema.Struct({
  /** The skill's name. */
  skill: Schema.String,
  /** Its path in the skill, escaped. */
  file: Schema.optionalWith(Schema.String, { exact: true }),
  /** The rule of delivery that it breaks. */
  rule: SnapshotCheck,
  message: Schema.String
})
export type SetProblem = typeof SetProblem.Type

/** One bad publish must not break every agent of a container, so a set that breaks a delivery rule is refused. */
export class UndeliverableSet extends Schema.TaggedError<UndeliverableSet>()("UNDELIVERABLE_SET", {
  containerId: Schema.String,
  problems: Schema.NonEmptyArray(SetProblem)
}) {
  override get message(): string {
    const lines = this.problems.map(
      ({ file, message, rule, skill }) => `${skill}${file === undefined ? "" : `/${file}`}: ${message} (${rule})`
    )
    return `The set cannot be delivered: ${lines.join("; ")}`
  }
}

/** The registry has no such key. */
export class KeyNotFound extends Schema.TaggedError<KeyNotFound>()("KEY_NOT_FOUND", {
  keyId: Schema.String
}) {
  override get message(): string {
    return `The registry has no key ${quoted(this.keyId)}.`
  }
}

/** The page token is none that this list gave, or the limit is out of range. */
export class InvalidPage extends Schema.TaggedError<InvalidPage>()("INVALID_PAGE", {
  problem: Schema.Literal("page", "limit")
}) {
  override get message(): string {
    return this.problem === "page" ? "This page was never given out." : "The limit must be 1 to 1000."
  }
}

/** A title or an id that the registry cannot hold, or containers for a key that is not limited to any. */
export class InvalidValue extends Schema.TaggedError<InvalidValue>()("INVALID_VALUE", {
  field: Schema.String
}) {
  override get message(): string {
    if (this.field === "containers") return "Only a key of scope read may be for some containers."
    return `${this.field} must be one line of well-formed Unicode, not blank and at most 255 characters long.`
  }
}
