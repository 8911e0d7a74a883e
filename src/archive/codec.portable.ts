/**
 * The codec for every other runtime: `@noble/hashes` and an inflate of its own, no `node:` module.
 *
 * @module
 */
import { hmac } from "@noble/hashes/hmac.js"
import { sha256 } from "@noble/hashes/sha2.js"
import { Effect, type Either } from "effect"
import type { Codec, InflateError } from "./Codec.js"
import * as RawInflate from "./RawInflate.js"

export const sliceBytes: Codec["sliceBytes"] = 256 * 1024

export const sha256Hex: Codec["sha256Hex"] = (bytes) => {
  let hex = ""
  for (const byte of sha256(bytes)) hex += byte.toString(16).padStart(2, "0")
  return hex
}

export const makeSha256: Codec["makeSha256"] = () => {
  const hash = sha256.create()
  return {
    update: (bytes) => {
      hash.update(bytes)
    },
    digest: () => hash.digest()
  }
}

export const hmacSha256: Codec["hmacSha256"] = (key, message) => hmac(sha256, key, message)

export const isUtf8: Codec["isUtf8"] = (bytes) => {
  const end = bytes.length
  let index = 0
  while (index < end) {
    const lead = byteAt(bytes, index)
    if (lead < 0x80) {
      index++
      continue
    }
    // The second byte's range is narrower where a lead byte could start an overlong form (E0, F0), a surrogate (ED) or a
    // value above U+10FFFF (F4). Past the end `byteAt` gives 0, which is no continuation byte.
    const second = byteAt(bytes, index + 1)
    if (lead >= 0xc2 && lead < 0xe0) {
      if (!isContinuation(second)) return false
      index += 2
    } else if (lead >= 0xe0 && lead < 0xf0) {
      const low = lead === 0xe0 ? 0xa0 : 0x80
      const high = lead === 0xed ? 0x9f : 0xbf
      if (second < low || second > high || !isContinuation(byteAt(bytes, index + 2))) return false
      index += 3
    } else if (lead >= 0xf0 && lead < 0xf5) {
      const low = lead === 0xf0 ? 0x90 : 0x80
      const high = lead === 0xf4 ? 0x8f : 0xbf
      if (second < low || second > high) return false
      if (!isContinuation(byteAt(bytes, index + 2)) || !isContinuation(byteAt(bytes, index + 3))) return false
      index += 4
    } else {
      return false
    }
  }
  return true
}

const byteAt = (bytes: Uint8Array, index: number): number => bytes[index] ?? 0

const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80

export const inflateSync: Codec["inflateSync"] = (source, size) => {
  const steps = RawInflate.steps(source, size, sliceBytes)
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

export const inflate: Codec["inflate"] = (source, size) => inSlices(RawInflate.steps(source, size, sliceBytes))

export const checkInflate: Codec["checkInflate"] = (source, size) =>
  inSlices(RawInflate.verdict(source, size, sliceBytes))

const inSlices = Effect.fnUntraced(function* <A>(steps: Generator<void, Either.Either<A, InflateError>>) {
  for (;;) {
    const step = steps.next()
    if (step.done) return yield* step.value
    yield* yieldToEventLoop
  }
})

export const yieldToEventLoop: Codec["yieldToEventLoop"] = Effect.async<void>((resume) => {
  // A message is delivered by the event loop at once; browsers make nested timers wait four milliseconds.
  const { port1, port2 } = new MessageChannel()
  const onMessage = () => {
    port1.close()
    resume(Effect.void)
  }
  port1.addEventListener("message", onMessage, { once: true })
  port1.start()
  port2.postMessage(undefined)
  return Effect.sync(() => {
    port1.removeEventListener("message", onMessage)
    port1.close()
  })
})

export const decodeBase64: Codec["decodeBase64"] = (text) => {
  const length = text.length
  if (length % 4 !== 0) return undefined
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0
  const bytes = new Uint8Array((length / 4) * 3 - padding)
  let at = 0
  for (let index = 0; index < length; index += 4) {
    const isLast = index + 4 === length
    const a = sextet(text.charCodeAt(index))
    const b = sextet(text.charCodeAt(index + 1))
    const c = isLast && padding === 2 ? 0 : sextet(text.charCodeAt(index + 2))
    const d = isLast && padding > 0 ? 0 : sextet(text.charCodeAt(index + 3))
    if ((a | b | c | d) === invalidSextet) return undefined
    bytes[at++] = (a << 2) | (b >> 4)
    bytes[at++] = (b << 4) | (c >> 2)
    bytes[at++] = (c << 6) | d
    if (isLast && ((padding === 2 && b & 0x0f) || (padding === 1 && c & 0x03))) return undefined
  }
  return bytes
}

/** All bits set, so that it survives being or-ed with valid values. */
const invalidSextet = -1

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

const sextets = new Int8Array(128).fill(invalidSextet)
for (let value = 0; value < alphabet.length; value++) sextets[alphabet.charCodeAt(value)] = value

const sextet = (unit: number): number => sextets[unit] ?? invalidSextet
