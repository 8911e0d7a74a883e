import type { Effect } from "effect"
import { Data } from "effect"

/** An incremental SHA-256. */
export interface Sha256 {
  readonly update: (bytes: Uint8Array) => void
  readonly digest: () => Uint8Array
}
export declare const makeSha256: () => Sha256
export declare const hmacSha256: (key: Uint8Array, message: Uint8Array) => Uint8Array
/** Strict UTF-8 (no surrogates, no overlong forms); allocates no string. */
export declare const isUtf8: (bytes: Uint8Array) => boolean
/** The bytes of a raw deflate stream did not end exactly at the end of `source`, or did not give exactly `size` bytes. */
export class InflateError extends Data.TaggedError("InflateError")<{ readonly reason: "stream" | "size" }> {}
/** Inflates a whole raw deflate stream into exactly `size` bytes, never allocating more than `size` plus one buffer. */
export declare const inflate: (source: Uint8Array, size: number) => Effect.Effect<Uint8Array, InflateError>
/** Lets the event loop run its other work. */
export declare const yieldToEventLoop: Effect.Effect<void>
/** Bytes of canonical standard base64 (padding, no white space, zero trailing bits), or undefined. */
export declare const decodeBase64: (text: string) => Uint8Array | undefined
