/**
 * What the contracts need from a platform: hashes and HMAC, inflating, UTF-8 validation, base64 and a way to let other work run.
 *
 * The package's `imports` map resolves `#codec` to `codec.node.ts` on Node and to `codec.portable.ts` elsewhere, so there
 * is nothing for a caller to configure. Both modules export exactly the members of {@link Codec}.
 *
 * @module
 */
import { Data, type Effect, type Either } from "effect"

/** An incremental SHA-256. Neither method may be called after `digest`. */
export interface Sha256 {
  readonly update: (bytes: Uint8Array) => void
  readonly digest: () => Uint8Array
}

/**
 * A raw deflate stream that is not what its entry declares: `stream` when it is malformed, ends early or ends before its
 * source does; `size` when it decodes to more or fewer bytes than declared (contract, Archive).
 */
export class InflateError extends Data.TaggedError("InflateError")<{ readonly reason: "stream" | "size" }> {}

/** The exports of a codec module. */
export interface Codec {
  /**
   * How many bytes of input and output a caller should process between two `yieldToEventLoop`: a few milliseconds of work
   * on this codec. A count of bytes, so that the same input always takes the same steps.
   */
  readonly sliceBytes: number
  /** Lower-case hex SHA-256 of `bytes`, at once. */
  readonly sha256Hex: (bytes: Uint8Array) => string
  readonly makeSha256: () => Sha256
  readonly hmacSha256: (key: Uint8Array, message: Uint8Array) => Uint8Array
  /** Whether `bytes` are strict UTF-8 (no surrogates, no overlong forms). Allocates no string. */
  readonly isUtf8: (bytes: Uint8Array) => boolean
  /**
   * Inflates a whole raw deflate stream that must decode to exactly `size` bytes and end exactly at the end of `source`.
   * Never allocates more than `size` plus one buffer. Blocks: for input and output of at most `sliceBytes`.
   */
  readonly inflateSync: (source: Uint8Array, size: number) => Either.Either<Uint8Array, InflateError>
  /** The same for streams of any length, leaving the event loop free; interruptible. */
  readonly inflate: (source: Uint8Array, size: number) => Effect.Effect<Uint8Array, InflateError>
  /** The verdict of `inflate`, in memory that does not grow with `size`: what is decoded is dropped. */
  readonly checkInflate: (source: Uint8Array, size: number) => Effect.Effect<void, InflateError>
  /** Lets the event loop run its other work, I/O included (`Effect.yieldNow` only lets other fibers run). */
  readonly yieldToEventLoop: Effect.Effect<void>
  /** The bytes of canonical standard base64 (padded, no white space, unused bits zero); `undefined` for any other text. */
  readonly decodeBase64: (text: string) => Uint8Array | undefined
}
