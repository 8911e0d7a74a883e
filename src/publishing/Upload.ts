/**
 * What is uploaded, and how much of it.
 *
 * @module
 */

/** One uploaded file: a path with `/` between its components, as its sender gave it, and its bytes. */
export interface UploadedFile {
  readonly path: string
  readonly bytes: Uint8Array
}

/** The bounds of the contract (One skill, one canonical archive). */
export const limits = {
  /** Bytes of an upload's files together, uncompressed. */
  totalBytes: 30 * 1024 * 1024,
  /** Files of an upload; members of an archive, directories included. */
  members: 10_000,
  /** Bytes of a path. A ZIP gives the length of a name in 16 bits, and a path may still get a directory of 64 characters and a `/`. */
  pathBytes: 0xffff - 65,
  /** Compressed bytes of an archive. */
  archiveBytes: 64 * 1024 * 1024,
  /** Bytes that an archive may decode to when it is extracted. */
  extractBytes: 1024 * 1024 * 1024
} as const
