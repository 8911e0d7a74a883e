/**
 * SHA-256 digests and ETags.
 *
 * @module
 */
import { Effect } from "effect"
import { makeSha256, sha256Hex as sha256HexAtOnce, sliceBytes, yieldToEventLoop } from "#codec"

/**
 * Hashing is several times faster than inflating, which `sliceBytes` allows for. Between slices V8 also marks garbage, and
 * more slices let it take more of a hash's time.
 */
const hashSliceBytes = 2 * sliceBytes

/** Lower-case hex SHA-256 of a short input, at once. */
export const sha256HexSync = (bytes: Uint8Array): string => sha256HexAtOnce(bytes)

/**
 * Lower-case hex SHA-256 of `bytes`. Long input is hashed in slices between which the event loop runs its other work, and
 * where the effect can be interrupted.
 *
 * `bytes` must not change while this runs.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as Digest from "./Digest.js"
 *
 * const program = Digest.sha256Hex(new TextEncoder().encode("abc"))
 * // "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
 * Effect.runPromise(program).then(console.log)
 * ```
 */
export const sha256Hex = Effect.fnUntraced(function* (bytes: Uint8Array) {
  if (bytes.length <= hashSliceBytes) return sha256HexAtOnce(bytes)
  const sha256 = makeSha256()
  for (let start = 0; start < bytes.length; start += hashSliceBytes) {
    // Before the first one too: long input comes out of long work.
    yield* yieldToEventLoop
    sha256.update(bytes.subarray(start, start + hashSliceBytes))
  }
  return toHex(sha256.digest())
})

/** A strong ETag: 64 lower-case hex digits in double quotes. */
export const etagPattern = /^"[0-9a-f]{64}"$/

/** The strong ETag of an archive: its hex SHA-256 in double quotes (contract, Archive). */
export const etag = (archive: Uint8Array): Effect.Effect<string> =>
  Effect.map(sha256Hex(archive), (digest) => `"${digest}"`)

const toHex = (bytes: Uint8Array): string => {
  let hex = ""
  for (const byte of bytes) hex += byte.toString(16).padStart(2, "0")
  return hex
}
