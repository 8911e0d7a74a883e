/**
 * Lines out of a stream of bytes, each bounded, so that whoever writes them cannot make their reader grow.
 *
 * The bytes before the LF are counted, a CR among them although it is taken off: a line of exactly the bound passes, one byte
 * more does not (facts 6).
 *
 * @module
 */
import { Chunk, Either, Schema, Stream } from "effect"

/** How long a line may be where nobody says otherwise, in bytes. */
export const defaultMaximumBytes = 64 * 1024

/** A line with more bytes than the bound. Its rest is read and forgotten. */
export class FrameTooLong extends Schema.TaggedError<FrameTooLong>()("frame_too_long", {
  maximumBytes: Schema.Number
}) {
  override get message(): string {
    return `A line is longer than ${this.maximumBytes} bytes`
  }
}

/** A line that is no UTF-8, or bytes that could not be read at all. */
export class FrameUnreadable extends Schema.TaggedError<FrameUnreadable>()("frame_unreadable", {}) {
  override get message(): string {
    return "A line could not be read as UTF-8"
  }
}

export type FrameError = FrameTooLong | FrameUnreadable

/** A line without its end, or why it is none. */
export type Frame = Either.Either<string, FrameError>

interface Splitter {
  /** The lines that end in these bytes, and at once the line that has become too long in them. */
  readonly push: (bytes: Uint8Array) => ReadonlyArray<Frame>
  /** The last line, if it has no LF. */
  readonly finish: () => ReadonlyArray<Frame>
}

const lineFeed = 0x0a
const carriageReturn = 0x0d

const makeSplitter = (maximumBytes: number): Splitter => {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
  // Copied, since a line that arrives byte by byte would otherwise hold on to every chunk that a byte of it came in.
  let held = new Uint8Array(0)
  let size = 0
  let draining = false

  const decode = (line: Uint8Array): Frame => {
    try {
      return Either.right(decoder.decode(line.at(-1) === carriageReturn ? line.subarray(0, -1) : line))
    } catch {
      return Either.left(new FrameUnreadable())
    }
  }

  const hold = (part: Uint8Array) => {
    if (size + part.length > held.length) {
      const larger = new Uint8Array(Math.min(maximumBytes, Math.max(2 * held.length, size + part.length, 256)))
      larger.set(held.subarray(0, size))
      held = larger
    }
    held.set(part, size)
    size += part.length
  }

  /** The part that completes a line. */
  const complete = (part: Uint8Array): Frame => {
    if (size === 0) return decode(part)
    hold(part)
    const frame = decode(held.subarray(0, size))
    size = 0
    return frame
  }

  const tooLong = (): Frame => {
    size = 0
    return Either.left(new FrameTooLong({ maximumBytes }))
  }

  return {
    push: (bytes) => {
      const frames: Array<Frame> = []
      for (let start = 0; start < bytes.length; ) {
        const end = bytes.indexOf(lineFeed, start)
        const part = bytes.subarray(start, end === -1 ? bytes.length : end)
        if (!draining) {
          if (size + part.length > maximumBytes) {
            frames.push(tooLong())
            draining = true
          } else if (end === -1) hold(part)
          else frames.push(complete(part))
        }
        if (end === -1) break
        draining = false
        start = end + 1
      }
      return frames
    },
    finish: () => (size === 0 ? [] : [complete(new Uint8Array(0))])
  }
}

/**
 * Splits bytes into lines of at most `maximumBytes`. A line that is too long, or no UTF-8, is one `Left` in its place, and the
 * lines after it go on: a reader to whom it is the end takes it as one.
 *
 * @example
 * ```ts
 * import { Effect, Either, Stream } from "effect"
 * import { Frames } from "effect-agent-contracts/runner"
 *
 * const bytes = Stream.make(new TextEncoder().encode("one\r\na line that is too lo"), new TextEncoder().encode("ng\ntwo"))
 * const program = bytes.pipe(Frames.split(8), Stream.map(Either.getOrElse(({ _tag }) => _tag)), Stream.runCollect)
 *
 * Effect.runPromise(program).then((lines) => console.log([...lines])) // [ 'one', 'frame_too_long', 'two' ]
 * ```
 */
export const split =
  (maximumBytes: number = defaultMaximumBytes) =>
  <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Frame, E, R> =>
    Stream.suspend(() => {
      const splitter = makeSplitter(maximumBytes)
      return bytes.pipe(
        Stream.mapChunks((chunk) => Chunk.unsafeFromArray([...chunk].flatMap(splitter.push))),
        Stream.concat(Stream.suspend(() => Stream.fromIterable(splitter.finish())))
      )
    })
