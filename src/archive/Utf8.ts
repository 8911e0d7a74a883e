/**
 * Whether bytes are text.
 *
 * @module
 */
import { Effect } from "effect"
import { isUtf8, sliceBytes, yieldToEventLoop } from "#codec"

/** A binary file mostly shows itself in its first bytes; it need not be read to its end then. */
const headBytes = 4 * 1024

/** Whether a short input is strict UTF-8, at once. */
export const isValidSync = (bytes: Uint8Array): boolean => {
  const head = characterStart(bytes, headBytes)
  return isUtf8(bytes.subarray(0, head)) && isUtf8(bytes.subarray(head))
}

/**
 * Whether `bytes` are strict UTF-8. Long input is read in slices between which the event loop runs its other work, and
 * where the effect can be interrupted.
 *
 * `bytes` must not change while this runs.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as Utf8 from "./Utf8.js"
 *
 * Effect.runPromise(Utf8.isValid(new TextEncoder().encode("é"))).then(console.log) // true
 * ```
 */
export const isValid: (bytes: Uint8Array) => Effect.Effect<boolean> = Effect.fnUntraced(function* (bytes) {
  if (bytes.length <= sliceBytes) return isValidSync(bytes)
  for (let start = 0; start < bytes.length; ) {
    const end = characterStart(bytes, start + sliceBytes)
    if (!isValidSync(bytes.subarray(start, end))) return false
    start = end
    yield* yieldToEventLoop
  }
  return true
})

/**
 * Where to cut near `index`: back to where a character starts, which in valid text is at most three continuation bytes away.
 * Text is valid exactly when both sides of the cut are.
 */
export const characterStart = (bytes: Uint8Array, index: number): number => {
  if (index >= bytes.length) return bytes.length
  let start = index
  while (start > index - 3 && isContinuation(bytes[start])) start--
  return start
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80
