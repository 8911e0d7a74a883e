/**
 * What is wrong with a directory of schemas and fixtures of the runner protocol, in the contract's codes.
 *
 * @module
 */
import { Schema } from "effect"

/** The contract's codes (facts 5), and `manifest_drift` for a manifest that lists something else than the files. */
export const ContractCode = Schema.Literal(
  "invalid_json",
  "unsupported_schema_dialect",
  "invalid_schema_id",
  "duplicate_schema_id",
  "missing_schema_title",
  "unresolved_schema_reference",
  "unresolved_schema_fragment",
  "missing_schema_validator",
  "unsupported_required_schema",
  "unsupported_required_version",
  "invalid_fixture",
  "schema_validation_failed",
  "invalid_codex_question_fixture",
  "unsupported_provider",
  "conformance_identity_mismatch",
  "invalid_conformance_event",
  "conformance_result_mismatch",
  "manifest_drift"
)
export type ContractCode = typeof ContractCode.Type

/** One thing that is wrong: which rule, which file, and what must be there. Nothing of what the file holds. */
export const ContractViolation = Schema.Struct({ code: ContractCode, path: Schema.String, problem: Schema.String })
export type ContractViolation = typeof ContractViolation.Type

export const make = (code: ContractCode, path: string, problem: string): ContractViolation => ({ code, path, problem })

/** A line that starts with the code and a colon, as the contract has it. */
export const format = ({ code, path, problem }: ContractViolation): string => `${code}: ${path}: ${problem}`

/** The files cannot be used: the message has a line for everything that is wrong. */
export class ContractError extends Schema.TaggedError<ContractError>()("ContractError", {
  violations: Schema.NonEmptyArray(ContractViolation)
}) {
  override get message(): string {
    return this.violations.map(format).join("\n")
  }
}
