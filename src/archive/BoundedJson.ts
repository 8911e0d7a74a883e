/**
 * JSON from outside, parsed at a bounded cost.
 *
 * @module
 */
import { Data, Effect } from "effect"
import { sliceBytes, yieldToEventLoop } from "#codec"
import * as Utf8 from "./Utf8.js"

/**
 * The most `{`, `[`, `,` and `:` outside of strings in a text. Each of them opens or parts a value or a name, so this
 * bounds how many there can be.
 *
 * `JSON.parse` takes a text in one go, and a value of two bytes costs many times their memory: a few kilobytes that inflate to
 * 32 MiB of `{},` would hold the event loop for seconds and could fill the heap. The most that the contract needs are some
 * 15,000, by a manifest of 999 skills of one file each; the rest is for members that it does not know yet. Measured on
 * Node 20, parsing a text at the bound takes 2 to 35 ms beyond what its strings take.
 */
export const structureLimit = 100_000

/**
 * The most bytes of a member's name, as written. V8 tells strings of more than 16,383 characters apart by their length alone until
 * it compares them, so that parsing takes time in the square of the number of such names: 2,000 of them, 43 KB deflated, hold the event
 * loop for 4 seconds. The longest name that the contract knows has 13.
 */
export const nameLimit = 1024

/** `structure` when the text is past {@link structureLimit} or {@link nameLimit}, `syntax` when it is no JSON. */
export class BoundedJsonError extends Data.TaggedError("BoundedJsonError")<{
  readonly reason: "structure" | "syntax"
}> {}

/**
 * The JSON value that `bytes` hold in UTF-8, a byte order mark aside; bytes that are not UTF-8 become U+FFFD. Counts and
 * decodes in slices between which the event loop runs its other work, and counts before it parses. `bytes` must not change
 * while this runs.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as BoundedJson from "./BoundedJson.js"
 *
 * const program = BoundedJson.parse(new TextEncoder().encode(`{"schemaVersion":1}`))
 * Effect.runPromise(program).then(console.log) // { schemaVersion: 1 }
 * ```
 */
export const parse: (bytes: Uint8Array) => Effect.Effect<unknown, BoundedJsonError> = Effect.fnUntraced(
  function* (bytes) {
    const count = makeCounter()
    for (let start = 0; start < bytes.length; start += sliceBytes) {
      if (start > 0) yield* yieldToEventLoop
      if (count(bytes.subarray(start, start + sliceBytes)) > structureLimit) {
        return yield* new BoundedJsonError({ reason: "structure" })
      }
    }
    let text = ""
    for (let start = 0; start < bytes.length; ) {
      if (start > 0) yield* yieldToEventLoop
      const end = Utf8.characterStart(bytes, start + sliceBytes)
      // Node decodes a stream several times slower. Only at the start of the text is a byte order mark none of it.
      text += new TextDecoder("utf-8", { ignoreBOM: start > 0 }).decode(bytes.subarray(start, end))
      start = end
    }
    return yield* Effect.try({
      try: (): unknown => JSON.parse(text),
      // The parser's own message quotes the text, so it is dropped.
      catch: () => new BoundedJsonError({ reason: "syntax" })
    })
  }
)

/** Takes a text slice by slice and gives the count so far, which is past every limit once a name was too long. */
const makeCounter = () => {
  let structure = 0
  let inString = false
  /** Of the last string and its closing quote, as far as they have been read. */
  let stringBytes = 0
  /** Where to go on in the next slice: behind its first byte when the last one ended with the `\` of an escape. */
  let index = 0
  return (slice: Uint8Array): number => {
    while (index < slice.length) {
      const start = index
      const byte = slice[index++]
      if (inString) {
        if (byte === backslash) index++
        else if (byte === quote) inString = false
        // Most of a text is inside its strings.
        else while (index < slice.length && slice[index] !== quote && slice[index] !== backslash) index++
        stringBytes += index - start
      } else if (byte === quote) {
        inString = true
        stringBytes = 0
      } else if (byte === openBrace || byte === openBracket || byte === comma || byte === colon) {
        structure += byte === colon && stringBytes > nameLimit + 1 ? Number.POSITIVE_INFINITY : 1
      }
    }
    index -= slice.length
    return structure
  }
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const openBrace = 0x7b
