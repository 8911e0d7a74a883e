/**
 * A file in memory.
 *
 * @module
 */

/** Its path is relative to the directory that it was read from, and separated by `/`. */
export interface File {
  readonly path: string
  readonly bytes: Uint8Array
}
