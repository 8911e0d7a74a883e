/**
 * How a document of the runner protocol is refused. The `_tag` of each error is the contract's code.
 *
 * An issue says where (a JSON pointer, `/` for the document itself, as the contract writes it) and what must be there, never
 * what was found: documents hold what users and agents wrote.
 *
 * @module
 */
import { Schema } from "effect"

/** What is wrong, and where. */
export const ProtocolIssue = Schema.Struct({ path: Schema.String, message: Schema.String })
export type ProtocolIssue = typeof ProtocolIssue.Type

const issues = Schema.NonEmptyArray(ProtocolIssue)

const summary = (what: string, found: ReadonlyArray<ProtocolIssue>): string => {
  const [first] = found
  const rest = found.length > 1 ? `, and ${found.length - 1} more` : ""
  return `${what}: at ${first?.path}, ${first?.message}${rest}`
}

/** The text is no JSON, no UTF-8, or nested too deeply to be looked at. */
export class InvalidJson extends Schema.TaggedError<InvalidJson>()("invalid_json", { issues }) {
  override get message(): string {
    return summary("Not a JSON document", this.issues)
  }
}

/** A version that has to be known is not: nothing else of the document was looked at. */
export class UnsupportedRequiredVersion extends Schema.TaggedError<UnsupportedRequiredVersion>()(
  "unsupported_required_version",
  { issues }
) {
  override get message(): string {
    return summary("A version that this consumer does not support", this.issues)
  }
}

/** The document does not have the shape of its schema. */
export class SchemaValidation extends Schema.TaggedError<SchemaValidation>()("schema_validation", { issues }) {
  override get message(): string {
    return summary("Not what the schema allows", this.issues)
  }
}

/** Each part has its shape, but they contradict each other. */
export class BindingMismatch extends Schema.TaggedError<BindingMismatch>()("binding_mismatch", { issues }) {
  override get message(): string {
    return summary("Parts of the document contradict each other", this.issues)
  }
}

/** Every way in which a document is refused. */
export type ProtocolError = InvalidJson | UnsupportedRequiredVersion | SchemaValidation | BindingMismatch
