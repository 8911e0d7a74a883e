/**
 * A file of the workspace that an agent points at: the payload of `workspace.file.referenced`.
 *
 * @module
 */
import { Schema } from "effect"
import * as Constraint from "./Constraint.js"

const Fields = Constraint.closed({
  schema: Schema.Literal("paperclip.workspace.file_reference.v1"),
  referenceId: Constraint.text({ min: 1, max: 240 }),
  source: Schema.Literal("harness_reported", "runner_verified"),
  path: Constraint.workspacePath,
  displayName: Constraint.text({ min: 1, max: 255 }),
  mediaType: Schema.NullOr(Constraint.text({ max: 160 })),
  presentation: Schema.Literal("document", "code", "image", "generic"),
  line: Schema.NullOr(Constraint.integer({ min: 1 })),
  preview: Schema.NullOr(Constraint.text({ max: 262_144 })),
  previewTruncated: Schema.Boolean,
  contentDigest: Schema.NullOr(Constraint.sha256)
})

/** A path relative to the workspace, and what to show of the file. */
export type WorkspaceFileReference = typeof Fields.Type
export const WorkspaceFileReference = Constraint.verbatim<WorkspaceFileReference>(Fields, "WorkspaceFileReference")
