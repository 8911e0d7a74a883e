/**
 * A strict inflate (RFC 1951) for the portable codec: into a buffer of the declared size or, where only the verdict is asked
 * for, into a window that slides.
 *
 * `fflate` is the writer's deflate, but its inflate cannot keep this contract: it takes bytes after the end of a stream,
 * stored blocks whose lengths disagree and impossible Huffman codes, and what it allocates is what the stream says. Used
 * through its streaming API in pushes small enough to bound that, and twice to find the end, it is about ten times slower
 * than this. The verdict here is zlib's on every stream, which a test holds on mutated ones.
 *
 * @module
 */
import { Either } from "effect"
import { InflateError } from "./Codec.js"

/**
 * Inflates `source` into exactly `size` bytes and yields after each `sliceBytes` of work, so that a caller decides whether
 * to block. Allocates `size` bytes and the code tables of one block.
 */
export function* steps(
  source: Uint8Array,
  size: number,
  sliceBytes: number
): Generator<void, Either.Either<Uint8Array, InflateError>> {
  return yield* run(source, size, new Uint8Array(size), sliceBytes)
}

/**
 * The verdict of {@link steps} on a stream of any size: what it decodes to is dropped. Allocates a window, some slices long at
 * most, and the code tables of one block.
 */
export function* verdict(
  source: Uint8Array,
  size: number,
  sliceBytes: number
): Generator<void, Either.Either<void, InflateError>> {
  const window = new Uint8Array(Math.min(size, 2 * longestDistance + longestStep(sliceBytes)))
  return Either.map(yield* run(source, size, window, sliceBytes), () => undefined)
}

/** How far back a stream can refer. */
const longestDistance = 32 * 1024

/** What is written between two looks at the room that is left: a slice and one match more, or a stored block. */
const longestStep = (sliceBytes: number) => Math.max(sliceBytes + 258, 0xffff)

function* run(
  source: Uint8Array,
  size: number,
  output: Uint8Array,
  sliceBytes: number
): Generator<void, Either.Either<Uint8Array, InflateError>> {
  const stream: Stream = { source, position: 0, bits: 0, bitCount: 0, output, size, written: 0 }
  let dropped = 0
  const makeRoom = () => {
    if (stream.size <= output.length || output.length - stream.written >= longestStep(sliceBytes)) return
    const drop = stream.written - longestDistance
    output.copyWithin(0, drop, stream.written)
    stream.written = longestDistance
    stream.size -= drop
    dropped += drop
  }
  let nextPause = sliceBytes
  let tableWork = 0
  for (let isFinal = false; !isFinal; ) {
    makeRoom()
    isFinal = takeBits(stream, 1) === 1
    const type = takeBits(stream, 2)
    if (type === storedBlock) {
      const outcome = copyStored(stream)
      if (outcome !== "end") return fail(outcome)
    } else {
      const codes = type === fixedBlock ? fixedCodes : type === dynamicBlock ? readCodes(stream) : undefined
      if (codes === undefined) return fail("stream")
      // Hostile streams can ask for new tables every few bytes.
      tableWork += codes.literals.length + codes.distances.length
      for (;;) {
        const outcome = inflateCodes(stream, codes, stream.written + sliceBytes)
        if (outcome === "end") break
        if (outcome !== "pause") return fail(outcome)
        makeRoom()
        yield
      }
    }
    const work = stream.position + dropped + stream.written + tableWork
    if (work >= nextPause) {
      nextPause = work + sliceBytes
      yield
    }
  }
  // Whole bytes that were taken into the bit buffer and not used lie behind the end of the stream.
  if (stream.position - (stream.bitCount >> 3) !== source.length) return fail("stream")
  return stream.written === stream.size ? Either.right(output) : fail("size")
}

const fail = (reason: InflateError["reason"]) => Either.left(new InflateError({ reason }))

interface Stream {
  readonly source: Uint8Array
  /** The next byte of `source`. */
  position: number
  /** Bits taken from `source` and not used yet, the next one lowest; at most 31, so that this stays a small integer. */
  bits: number
  bitCount: number
  readonly output: Uint8Array
  /** Where in `output` the content has to end: behind its own end as long as more comes than it has room for. */
  size: number
  /** How much of `output` is written. */
  written: number
}

/** How a block went: to its end, or what is wrong with it. */
type Outcome = "end" | InflateError["reason"]

const storedBlock = 0
const fixedBlock = 1
const dynamicBlock = 2

const maxCodeLength = 15

/** The next `count` bits (at most 16); `early`, which no bits can be, where the source has fewer. */
const takeBits = (stream: Stream, count: number): number => {
  while (stream.bitCount < count) {
    const byte = stream.source[stream.position]
    if (byte === undefined) return early
    stream.position++
    stream.bits |= byte << stream.bitCount
    stream.bitCount += 8
  }
  const value = stream.bits & ((1 << count) - 1)
  stream.bits >>= count
  stream.bitCount -= count
  return value
}

const early = -1

const copyStored = (stream: Stream): Outcome => {
  // Back to a byte boundary: drop the rest of the byte, give back whole bytes.
  const start = stream.position - (stream.bitCount >> 3)
  stream.bits = 0
  stream.bitCount = 0
  stream.position = start
  const length = takeBits(stream, 16)
  const complement = takeBits(stream, 16)
  if (complement === early || length !== (complement ^ 0xffff)) return "stream"
  const { output, position, size, source, written } = stream
  if (length > source.length - position) return "stream"
  if (length > size - written) return "size"
  output.set(source.subarray(position, position + length), written)
  stream.position += length
  stream.written += length
  return "end"
}

/**
 * A Huffman code as a table: the next bits of the stream, as many as the longest code has, give the symbol and the length
 * of its code as `symbol << 4 | length`, or 0 where no code starts like that.
 */
type CodeTable = Uint16Array

interface Codes {
  readonly literals: CodeTable
  readonly distances: CodeTable
}

function makeCodes(literalLengths: Uint8Array, distanceLengths: Uint8Array): Codes | undefined {
  const literals = makeTable(literalLengths, true)
  const distances = makeTable(distanceLengths, true)
  return literals === undefined || distances === undefined ? undefined : { literals, distances }
}

/** `undefined` for lengths that are no code: too many codes of a length, or bits that mean nothing. */
function makeTable(lengths: Uint8Array, mayBeIncomplete: boolean): CodeTable | undefined {
  const counts = new Uint16Array(maxCodeLength + 1)
  for (const length of lengths) counts[length] = (counts[length] ?? 0) + 1
  counts[0] = 0

  let longest = 0
  let unused = 1
  const nextCodes = new Uint16Array(maxCodeLength + 1)
  for (let length = 1, code = 0; length <= maxCodeLength; length++) {
    const count = counts[length] ?? 0
    nextCodes[length] = code
    code = (code + count) << 1
    unused = (unused << 1) - count
    if (unused < 0) return undefined
    if (count > 0) longest = length
  }
  // RFC 1951, 3.2.7: one distance code of one bit is the incomplete code there is, and no distance code at all is one too.
  if (unused > 0 && !(mayBeIncomplete && longest <= 1)) return undefined

  const table = new Uint16Array(1 << longest)
  for (let symbol = 0; symbol < lengths.length; symbol++) {
    const length = lengths[symbol] ?? 0
    if (length === 0) continue
    const code = nextCodes[length] ?? 0
    nextCodes[length] = code + 1
    // Codes are packed from their highest bit on.
    for (let at = reverse(code, length); at < table.length; at += 1 << length) table[at] = (symbol << 4) | length
  }
  return table
}

const reverse = (code: number, length: number): number => {
  let reversed = 0
  for (let bit = 0; bit < length; bit++) reversed |= ((code >> bit) & 1) << (length - 1 - bit)
  return reversed
}

/** The order in which a dynamic block gives the lengths of the code for lengths. */
const lengthOrder = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

/** The codes at the start of a dynamic block. */
const readCodes = (stream: Stream): Codes | undefined => {
  const literalCount = takeBits(stream, 5) + 257
  const distanceCount = takeBits(stream, 5) + 1
  const lengthCount = takeBits(stream, 4) + 4
  if (literalCount > 286 || distanceCount > 30) return undefined
  const codeLengths = new Uint8Array(19)
  for (const symbol of lengthOrder.slice(0, lengthCount)) {
    const length = takeBits(stream, 3)
    if (length === early) return undefined
    codeLengths[symbol] = length
  }
  const table = makeTable(codeLengths, false)
  if (table === undefined) return undefined

  const lengths = new Uint8Array(literalCount + distanceCount)
  for (let at = 0; at < lengths.length; ) {
    const symbol = takeSymbol(stream, table)
    if (symbol < 16) {
      if (symbol === early) return undefined
      lengths[at++] = symbol
      continue
    }
    if (symbol === 16 && at === 0) return undefined
    const length = symbol === 16 ? (lengths[at - 1] ?? 0) : 0
    const extra = takeBits(stream, symbol === 16 ? 2 : symbol === 17 ? 3 : 7)
    const end = at + extra + (symbol === 18 ? 11 : 3)
    if (extra === early || end > lengths.length) return undefined
    lengths.fill(length, at, end)
    at = end
  }
  if (lengths[endOfBlock] === 0) return undefined
  return makeCodes(lengths.subarray(0, literalCount), lengths.subarray(literalCount))
}

/** The next symbol; `early` when the source ends before it does, or when no code starts like this. */
const takeSymbol = (stream: Stream, table: CodeTable): number => {
  while (stream.bitCount < maxCodeLength) {
    const byte = stream.source[stream.position]
    if (byte === undefined) break
    stream.position++
    stream.bits |= byte << stream.bitCount
    stream.bitCount += 8
  }
  const entry = table[stream.bits & (table.length - 1)] ?? 0
  const length = entry & 15
  if (length === 0 || length > stream.bitCount) return early
  stream.bits >>= length
  stream.bitCount -= length
  return entry >> 4
}

const endOfBlock = 256

/** For each length symbol from 257 on: its extra bits, and the length that it stands for without them. */
const lengthExtra = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0)
const lengthBase = bases(lengthExtra, 3)
lengthBase[28] = 258

/** The same for each distance symbol. */
const distanceExtra = Uint8Array.from({ length: 30 }, (_, symbol) => Math.max(0, (symbol >> 1) - 1))
const distanceBase = bases(distanceExtra, 1)

function bases(extra: Uint8Array, first: number): Uint16Array {
  let base = first
  return Uint16Array.from(extra, (bits) => {
    const current = base
    base += 1 << bits
    return current
  })
}

const fixedLengths = new Uint8Array(288).fill(8).fill(9, 144, 256).fill(7, 256, 280)
const fixedDistances = new Uint8Array(32).fill(5)
const fixedCodes = makeCodes(fixedLengths, fixedDistances)

/** Decodes symbols to the end of the block, or until `pauseAt` bytes are written. */
const inflateCodes = (stream: Stream, { distances, literals }: Codes, pauseAt: number): Outcome | "pause" => {
  const { output, size, source } = stream
  const sourceEnd = source.length
  const literalMask = literals.length - 1
  const distanceMask = distances.length - 1
  // The state lives in local variables while this loop runs: it is where all the time goes.
  let { bitCount, bits, position, written } = stream
  let outcome: Outcome | "pause" | undefined
  while (outcome === undefined) {
    while (bitCount < 24 && position < sourceEnd) {
      bits |= (source[position++] ?? 0) << bitCount
      bitCount += 8
    }
    const entry = literals[bits & literalMask] ?? 0
    const codeLength = entry & 15
    if (codeLength === 0 || codeLength > bitCount) {
      outcome = "stream"
      break
    }
    bits >>= codeLength
    bitCount -= codeLength
    const symbol = entry >> 4
    if (symbol < endOfBlock) {
      if (written === size) outcome = "size"
      else output[written++] = symbol
    } else if (symbol === endOfBlock) {
      outcome = "end"
    } else if (symbol > 285) {
      outcome = "stream"
    } else {
      const extraLength = lengthExtra[symbol - 257] ?? 0
      const length = (lengthBase[symbol - 257] ?? 0) + (bits & ((1 << extraLength) - 1))
      bits >>= extraLength
      bitCount -= extraLength
      while (bitCount < 24 && position < sourceEnd) {
        bits |= (source[position++] ?? 0) << bitCount
        bitCount += 8
      }
      const distanceEntry = distances[bits & distanceMask] ?? 0
      const distanceLength = distanceEntry & 15
      const distanceSymbol = distanceEntry >> 4
      if (distanceLength === 0 || distanceLength > bitCount || distanceSymbol > 29) {
        outcome = "stream"
        break
      }
      bits >>= distanceLength
      bitCount -= distanceLength
      while (bitCount < 24 && position < sourceEnd) {
        bits |= (source[position++] ?? 0) << bitCount
        bitCount += 8
      }
      const extraDistance = distanceExtra[distanceSymbol] ?? 0
      const distance = (distanceBase[distanceSymbol] ?? 0) + (bits & ((1 << extraDistance) - 1))
      bits >>= extraDistance
      bitCount -= extraDistance
      if (bitCount < 0 || distance > written) {
        outcome = "stream"
      } else if (length > size - written) {
        outcome = "size"
      } else {
        for (const end = written + length; written < end; written++) output[written] = output[written - distance] ?? 0
      }
    }
    if (written >= pauseAt) outcome ??= "pause"
  }
  stream.bitCount = bitCount
  stream.bits = bits
  stream.position = position
  stream.written = written
  return outcome
}
