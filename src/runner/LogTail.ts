/**
 * The end of a log that may be endless: its last lines, at most so many and of so many bytes, and how many went.
 *
 * @module
 */
export interface Bounds {
  readonly maximumLines: number
  /** Of the lines' UTF-8, without line ends. */
  readonly maximumBytes: number
}

/** What a runner keeps where nobody says otherwise (facts 6). */
export const defaultBounds: Bounds = { maximumLines: 32, maximumBytes: 16_384 }

/** As `harness.exited` has it. */
export interface LogTail {
  /** The oldest first. */
  readonly lines: ReadonlyArray<string>
  readonly retainedBytes: number
  readonly droppedLines: number
}

export const empty: LogTail = { lines: [], retainedBytes: 0, droppedLines: 0 }

const encoder = new TextEncoder()

/** As much of the line as fits, cut where a character starts, and its bytes. */
const fitting = (line: string, maximumBytes: number) => {
  const { read, written } = encoder.encodeInto(line, new Uint8Array(Math.min(maximumBytes, 3 * line.length)))
  return { text: line.slice(0, read), bytes: written }
}

/**
 * Adds a line. The oldest lines go to make room for it, and a line that is longer than all the room is cut.
 *
 * @example
 * ```ts
 * import { LogTail } from "effect-agent-contracts/runner"
 *
 * const add = LogTail.append({ maximumLines: 2, maximumBytes: 8 })
 * console.log(["one", "two", "three"].reduce(add, LogTail.empty)) // { lines: [ 'two', 'three' ], retainedBytes: 8, droppedLines: 1 }
 * ```
 */
export const append =
  (bounds: Bounds = defaultBounds) =>
  (tail: LogTail, line: string): LogTail => {
    const { bytes, text } = fitting(line, bounds.maximumBytes)
    const lines = [...tail.lines, text]
    let retainedBytes = tail.retainedBytes + bytes
    let dropped = 0
    while (retainedBytes > bounds.maximumBytes || lines.length - dropped > bounds.maximumLines) {
      retainedBytes -= encoder.encode(lines[dropped]).length
      dropped++
    }
    return { lines: lines.slice(dropped), retainedBytes, droppedLines: tail.droppedLines + dropped }
  }
