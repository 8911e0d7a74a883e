/**
 * Safe relative paths, their order, and how they are shown.
 *
 * @module
 */
import { sha256Hex } from "#codec"

/**
 * Whether `path` is a safe relative path (contract, Archive): not empty, well-formed Unicode, without `\`, control
 * characters and a drive prefix such as `C:`, and without empty, `.` and `..` components.
 *
 * @example
 * ```ts
 * import * as ArchivePath from "./ArchivePath.js"
 *
 * ArchivePath.isSafe("docs/guide.md") // true
 * ArchivePath.isSafe("../guide.md") // false
 * ```
 */
export const isSafe = (path: string): boolean => hasSafeCharacters(path) && !hasDrive(path) && hasNamedComponents(path)

/**
 * Whether `path` stays below the directory that it is joined to, on every system that takes `/` and no `\` as separator: a
 * safe path, but for control characters other than NUL and for a drive prefix, which uploads may have (contract, Publishing).
 */
export const isRelative = (path: string): boolean => !/[\0\\\p{Surrogate}]/u.test(path) && hasNamedComponents(path)

/** Whether Windows would take the first component for a drive. */
export const hasDrive = (path: string): boolean => drivePrefix.test(path)

/** No component is empty, `.` or `..`. */
const hasNamedComponents = (path: string): boolean => {
  let start = 0
  for (;;) {
    const slash = path.indexOf("/", start)
    const end = slash === -1 ? path.length : slash
    if (!isComponent(path, start, end)) return false
    if (slash === -1) return true
    start = end + 1
  }
}

/** Whether `name` is a safe path with one component, as a skill's name must be (contract, Archive). */
export const isSafeComponent = (name: string): boolean => !name.includes("/") && isSafe(name)

/**
 * The order of two well-formed strings by their UTF-8 bytes, which is the order of their code points. It differs from
 * JavaScript's own order, by UTF-16 units, where U+E000 to U+FFFF meet characters above U+FFFF (contract, Archive).
 */
export const compare = (left: string, right: string): -1 | 0 | 1 => {
  const length = Math.min(left.length, right.length)
  for (let index = 0; index < length; index++) {
    const a = left.charCodeAt(index)
    const b = right.charCodeAt(index)
    if (a !== b) return codePointRank(a) < codePointRank(b) ? -1 : 1
  }
  return left.length === right.length ? 0 : left.length < right.length ? -1 : 1
}

/**
 * What stands for `path` as the key of a `Map` or in a `Set`. V8 hashes a string of more than 16,383 characters by its length
 * alone, so that looking up many long ones of one length takes time in the square of their number. A long path is keyed by
 * its digest instead, behind a NUL, which no safe path has.
 */
export const key = (path: string): string =>
  path.length <= 16_383 ? path : `\u0000${sha256Hex(new TextEncoder().encode(path))}`

/** The most code points that {@link display} gives (contract, Wire). */
const displayLimit = 200

/**
 * `path` made safe to show on a terminal or in a log: control and format characters, line separators, lone surrogates,
 * private characters, `"` and `\` are escaped, and the result is cut to 200 code points, never inside an escape.
 */
export const display = (path: string): string => {
  let shown = ""
  let length = 0
  for (const character of path) {
    const escaped = unsafeToShow.test(character)
    const piece = escaped ? `\\u{${character.codePointAt(0)?.toString(16)}}` : character
    length += escaped ? piece.length : 1
    if (length > displayLimit) break
    shown += piece
  }
  return shown
}

const drivePrefix = /^[A-Za-z]:/

const unsafeToShow = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}"\\]/u

const isComponent = (path: string, start: number, end: number): boolean => {
  const length = end - start
  if (length === 0) return false
  if (path.charCodeAt(start) !== dot) return true
  return !(length === 1 || (length === 2 && path.charCodeAt(start + 1) === dot))
}

const dot = 0x2e
const backslash = 0x5c

const hasSafeCharacters = (path: string): boolean => {
  for (let index = 0; index < path.length; index++) {
    const unit = path.charCodeAt(index)
    if (unit === backslash || isControl(unit)) return false
    if (isSurrogate(unit)) {
      // A high surrogate and a low one, or the string is not well-formed.
      if (unit >= 0xdc00 || (path.charCodeAt(index + 1) & 0xfc00) !== 0xdc00) return false
      index++
    }
  }
  return true
}

/** Unicode's category Cc: C0, DEL and C1. */
const isControl = (unit: number): boolean => unit < 0x20 || (unit >= 0x7f && unit < 0xa0)

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xe000

/** Moves surrogates, the units of the highest code points, above all other units. */
const codePointRank = (unit: number): number => (isSurrogate(unit) ? unit + 0x10000 : unit)
