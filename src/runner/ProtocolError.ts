/**
 * How a document of the runner protocol is refused. The `_tag` of each error is the contract's code.
 *
 * @module
 */
import { Schema } from "effect"
import * as ProtocolIssue from "./ProtocolIssue.js"

/** The text is no JSON, no UTF-8, or nested too deeply to be looked at. */
export class InvalidJson extends Schema.TaggedError<InvalidJson>()("invalid_json", { issues: ProtocolIssue.Issues }) {
  override get message(): string {
    return ProtocolIssue.summary("Not a JSON document", this.issues)
  }
}

/** A version that has to be known is not: nothing else of the document was looked at. */
export class UnsupportedRequiredVersion extends Schema.TaggedError<UnsupportedRequiredVersion>()(
  "unsupported_required_version",
  { issues: ProtocolIssue.Issues }
) {
  override get message(): string {
    return ProtocolIssue.summary("A version that this consumer does not support", this.issues)
  }
}

/** The document does not have the shape of its schema. */
export class SchemaValidation extends Schema.TaggedError<SchemaValidation>()("schema_validation", {
  issues: ProtocolIssue.Issues
}) {
  override get message(): string {
    return ProtocolIssue.summary("Not what the schema allows", this.issues)
  }
}

/** Each part has its shape, but they contradict each other. */
export class BindingMismatch extends Schema.TaggedError<BindingMismatch>()("binding_mismatch", {
  issues: ProtocolIssue.Issues
}) {
  override get message(): string {
    return ProtocolIssue.summary("Parts of the document contradict each other", this.issues)
  }
}

/** Every way in which a document is refused. */
export type ProtocolError = InvalidJson | UnsupportedRequiredVersion | SchemaValidation | BindingMismatch
