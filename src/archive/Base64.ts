/**
 * Canonical base64 of long content: standard alphabet, padded, no white space, unused bits zero.
 *
 * @module
 */
import { Effect, Option } from "effect"
import { decodeBase64, sliceBytes, yieldToEventLoop } from "#codec"

/**
 * What is coded between two turns of the event loop, in groups of three bytes or four characters. Whole groups, so that slices
 * put together are the coding of the whole.
 */
const sliceGroups = Math.floor(sliceBytes / 3)

/**
 * The text of `bytes`, which must not change while this runs.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as Base64 from "./Base64.js"
 *
 * Effect.runPromise(Base64.encode(Uint8Array.of(1, 2))).then(console.log) // "AQI="
 * ```
 */
export const encode: (bytes: Uint8Array) => Effect.Effect<string> = Effect.fnUntraced(function* (bytes) {
  const texts: Array<string> = []
  for (let start = 0; start < bytes.length; start += sliceGroups * 3) {
    if (start > 0) yield* yieldToEventLoop
    texts.push(encodeSlice(bytes.subarray(start, start + sliceGroups * 3)))
  }
  return texts.join("")
})

/**
 * The bytes of canonical text, in a buffer of their own and of their length; none for any other text. Whoever bounds the
 * bytes bounds the text.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as Base64 from "./Base64.js"
 *
 * Effect.runPromise(Base64.decode("AQI=")).then(console.log) // Option.some(Uint8Array.of(1, 2))
 * ```
 */
export const decode: (text: string) => Effect.Effect<Option.Option<Uint8Array>> = Effect.fnUntraced(function* (text) {
  if (text.length % 4 !== 0) return Option.none()
  const paddings = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0
  const bytes = new Uint8Array((text.length / 4) * 3 - paddings)
  for (let group = 0; group * 4 < text.length; group += sliceGroups) {
    if (group > 0) yield* yieldToEventLoop
    const slice = decodeBase64(text.slice(group * 4, (group + sliceGroups) * 4))
    // Padding inside the text makes a slice shorter than its place.
    if (slice?.length !== Math.min(sliceGroups * 3, bytes.length - group * 3)) return Option.none()
    bytes.set(slice, group * 3)
  }
  return Option.some(bytes)
})

const alphabet = new TextEncoder().encode("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
const padding = 61
const ascii = new TextDecoder()

/** Written here because Effect's own `Encoding.encodeBase64` appends to a string for each character. */
const encodeSlice = (bytes: Uint8Array): string => {
  const text = new Uint8Array(Math.ceil(bytes.length / 3) * 4).fill(padding)
  const at = (index: number) => bytes[index] ?? 0
  const digit = (group: number, shift: number) => alphabet[(group >> shift) & 63] ?? padding
  for (let from = 0, to = 0; from < bytes.length; from += 3, to += 4) {
    const group = (at(from) << 16) | (at(from + 1) << 8) | at(from + 2)
    text[to] = digit(group, 18)
    text[to + 1] = digit(group, 12)
    if (from + 1 < bytes.length) text[to + 2] = digit(group, 6)
    if (from + 2 < bytes.length) text[to + 3] = digit(group, 0)
  }
  return ascii.decode(text)
}
