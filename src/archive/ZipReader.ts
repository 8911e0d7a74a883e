import { type Effect, Schema } from "effect"

/** The rule of the archive that was broken. */
export const ZipCheck = Schema.Literal(
  "archive-size",
  "entry-count",
  "decoded-size",
  "end-record",
  "archive-comment",
  "central-directory",
  "zip64",
  "split-archive",
  "encrypted",
  "method",
  "entry-name",
  "entry-path",
  "duplicate-entry",
  "file-and-directory",
  "entry-type",
  "directory-bytes",
  "local-header",
  "overlap",
  "deflate-stream",
  "entry-size"
)
export type ZipCheck = typeof ZipCheck.Type

/** The archive broke a rule. `entry` is the escaped name of the entry, cut to 200 code points. */
export class ZipError extends Schema.TaggedError<ZipError>()("ZipError", {
  check: ZipCheck,
  entry: Schema.optionalWith(Schema.String, { exact: true })
}) {}

export interface ZipLimits {
  readonly archiveBytes: number
  readonly decodedBytes: number
  readonly entries: number
}

export interface ZipEntry {
  /** The name as stored; a directory's ends with `/`. */
  readonly path: string
  readonly isDirectory: boolean
  /** The decoded bytes; empty for a directory. */
  readonly bytes: Uint8Array
}

/**
 * Reads the whole archive strictly. The caller owns `archive` and must not change it while this runs; stored entries may
 * be views into it.
 */
export declare const read: (archive: Uint8Array, limits: ZipLimits) => Effect.Effect<ReadonlyArray<ZipEntry>, ZipError>
