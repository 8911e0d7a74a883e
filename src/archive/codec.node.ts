/**
 * The codec on Node: `node:zlib` and `node:crypto`.
 *
 * @module
 */
import { isUtf8 as isUtf8Native } from "node:buffer"
import { createHash, createHmac, hash } from "node:crypto"
import { createInflateRaw, type InflateRaw, inflateRawSync } from "node:zlib"
import { Effect, Either } from "effect"
import { type Codec, InflateError } from "./Codec.js"

export const sliceBytes: Codec["sliceBytes"] = 1024 * 1024

// Results are plain Uint8Arrays: `slice` of a Buffer would be a view where a caller expects a copy.
const plain = (buffer: Buffer): Uint8Array => new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)

export const sha256Hex: Codec["sha256Hex"] = (bytes) => hash("sha256", bytes, "hex")

export const makeSha256: Codec["makeSha256"] = () => {
  const sha256 = createHash("sha256")
  return {
    update: (bytes) => {
      sha256.update(bytes)
    },
    digest: () => plain(sha256.digest())
  }
}

export const hmacSha256: Codec["hmacSha256"] = (key, message) =>
  plain(createHmac("sha256", key).update(message).digest())

export const isUtf8: Codec["isUtf8"] = (bytes) => isUtf8Native(bytes)

const failure = (reason: InflateError["reason"]) => Either.left(new InflateError({ reason }))

export const inflateSync: Codec["inflateSync"] = (source, size) => {
  try {
    // One chunk with room for a byte too many: zlib stops right there, and a stream that fits fills no second chunk.
    const { buffer, engine } = inflateRawSync(source, {
      chunkSize: Math.max(size + 1, minimumChunk),
      maxOutputLength: size + 1,
      info: true
    }) as unknown as { readonly buffer: Buffer; readonly engine: InflateRaw }
    if (buffer.length > size) return failure("size")
    // zlib stops at the end of the stream, whatever follows it: `bytesWritten` is what it consumed.
    if (engine.bytesWritten !== source.length) return failure("stream")
    return buffer.length === size ? Either.right(plain(buffer)) : failure("size")
  } catch (error) {
    return failure(isTooLarge(error) ? "size" : "stream")
  }
}

/** zlib's own lower bound of `chunkSize`. */
const minimumChunk = 64

const isTooLarge = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE"

export const inflate: Codec["inflate"] = (source, size) =>
  Effect.async<Uint8Array, InflateError>((resume) => {
    const output = new Uint8Array(size)
    let written = 0
    // zlib's stream works on the thread pool; this thread only copies its chunks.
    const stream = createInflateRaw({ chunkSize: streamChunk })
    stream.on("data", (chunk: Buffer) => {
      if (written + chunk.length > size) {
        stream.destroy()
        resume(failure("size"))
        return
      }
      output.set(chunk, written)
      written += chunk.length
    })
    stream.on("error", () => resume(failure("stream")))
    stream.on("end", () => {
      if (stream.bytesWritten !== source.length) resume(failure("stream"))
      else resume(written === size ? Effect.succeed(output) : failure("size"))
    })
    stream.end(source)
    return Effect.sync(() => stream.destroy())
  })

const streamChunk = 256 * 1024

export const yieldToEventLoop: Codec["yieldToEventLoop"] = Effect.async<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

export const decodeBase64: Codec["decodeBase64"] = (text) => {
  const bytes = Buffer.from(text, "base64")
  // Node's decoder skips what it does not know; only canonical text comes back unchanged.
  return bytes.toString("base64") === text ? plain(bytes) : undefined
}
