/**
 * What changed in a workspace: the payload of `workspace.change.updated` and `workspace.diff.recorded`.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const lines = Schema.NullOr(Constraint.integer({ min: 0 }))

const ChangedFile = Constraint.closed({
  path: Constraint.workspacePath,
  operation: Schema.Literal("create", "modify", "delete", "rename", "mode_change"),
  previousPath: Schema.NullOr(Constraint.workspacePath),
  additions: lines,
  deletions: lines,
  binary: Schema.Boolean,
  diff: Schema.NullOr(Constraint.text({ max: 262_144 }))
})

const Fields = Constraint.closed({
  schema: Schema.Literal("paperclip.workspace.diff.v1"),
  changeSetId: Constraint.text({ min: 1, max: 200 }),
  revision: Constraint.integer({ min: 1 }),
  source: Schema.Literal("harness_reported", "runner_verified"),
  complete: Schema.Boolean,
  files: Constraint.items(ChangedFile, { max: 2000 }),
  totals: Constraint.closed({ files: Constraint.integer({ min: 0 }), additions: lines, deletions: lines }),
  patchArtifactRef: Schema.NullOr(Constraint.text({ max: 2048 }))
})

/** At most 2,000 files, each with its lines and, where they are told, the difference itself. */
export type WorkspaceDiff = typeof Fields.Type
export const WorkspaceDiff = Constraint.verbatim<WorkspaceDiff>(Fields, "WorkspaceDiff")
