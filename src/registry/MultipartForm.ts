/**
 * `multipart/form-data` (RFC 7578) as the public client and browsers write it: text fields, and files whose names are paths.
 *
 * Written here because the platform's parser decodes names leniently: it loses every part whose file name has a character
 * past U+00FF, and makes U+FFFD of bytes that are not UTF-8, so that two files could come to share a path.
 *
 * @module
 */
import { Effect } from "effect"
import { isUtf8, sliceBytes, yieldToEventLoop } from "#codec"
import * as Upload from "../publishing/Upload.js"
import * as UploadProblem from "../publishing/UploadProblem.js"
import { InvalidRequest } from "./RequestBody.js"

/** A form as it was sent. Files keep the order of their parts. */
export interface MultipartForm {
  readonly fields: ReadonlyMap<string, string>
  readonly files: ReadonlyArray<Upload.UploadedFile>
}

/** A part's head: its headers and the empty line after them. In bytes. */
const maximumHeadBytes = 16 * 1024

/** Of a text field, in bytes. */
const maximumFieldBytes = 64 * 1024

/** How many text fields a form may have. */
const maximumFields = 16

/**
 * The most that a form with an acceptable upload can hold: the files and, for each of them, a boundary and a head. In bytes.
 */
export const maximumBytes = Upload.limits.totalBytes + Upload.limits.members * 1024

/** The boundary that a `Content-Type` header names; nothing for another media type. */
const boundaryOf = (contentType: string | undefined): string | undefined => {
  if (/;\s*boundary=.*;\s*boundary=/i.test(contentType ?? "")) return undefined
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s";,]{1,70}))/i.exec(
    contentType ?? ""
  )
  return match?.[1] ?? match?.[2]
}

const utf8 = new TextEncoder()
const text = new TextDecoder("utf-8", { ignoreBOM: true })

const invalid = (problem: string) => new InvalidRequest({ problem })

/**
 * The form that `body` holds. File bytes are views of `body`, not copies.
 *
 * Fails with `INVALID_REQUEST` for what is no form of files named `files` or `files[]`, and with `INVALID_UPLOAD` for more
 * files than an upload may have, before the rest of them is looked at.
 */
export const parse: (
  body: Uint8Array,
  contentType: string | undefined
) => Effect.Effect<MultipartForm, InvalidRequest | UploadProblem.InvalidUpload> = Effect.fn("MultipartForm.parse")(
  function* (body, contentType) {
    const boundary = boundaryOf(contentType)
    if (boundary === undefined) return yield* invalid("it is not multipart/form-data with a boundary")
    const fields = new Map<string, string>()
    const files: Array<Upload.UploadedFile> = []
    const delimiter = utf8.encode(`\r\n--${boundary}`)
    const findDelimiter = makeSearch(delimiter)

    // The first delimiter may lack the line break that belongs to it.
    const preamble = startsWith(body, delimiter.subarray(2), 0) ? -2 : yield* findDelimiter(body, 0, body.length)
    if (preamble === undefined) return yield* invalid("its form ends early")
    let at = preamble + delimiter.length
    while (true) {
      if (startsWith(body, dashes, at)) return { fields, files }
      const start = afterPadding(body, at)
      if (!startsWith(body, lineBreak, start)) return yield* invalid("its form has a broken boundary")
      const head = yield* findHeadEnd(body, start, Math.min(start + maximumHeadBytes, body.length))
      if (head === undefined) return yield* invalid("its form has a part without a head")
      const end = yield* findDelimiter(body, head + lineBreak.length, body.length)
      if (end === undefined) return yield* invalid("its form ends early")

      const part = parseHead(body.subarray(start + lineBreak.length, head + lineBreak.length))
      if (typeof part === "string") return yield* invalid(part)
      const content = body.subarray(Math.min(head + headEnd.length, end), end)
      if (part.filename !== undefined) {
        if (part.name !== "files" && part.name !== "files[]")
          return yield* invalid("its form has a file that is not named files")
        if (files.length === Upload.limits.members) return yield* tooManyFiles
        files.push({ path: part.filename, bytes: content })
      } else {
        if (fields.size === maximumFields) return yield* invalid("its form has too many fields")
        if (fields.has(part.name)) return yield* invalid("its form has a field twice")
        if (content.length > maximumFieldBytes || !isUtf8(content))
          return yield* invalid("its form has a field that is no short text")
        fields.set(part.name, text.decode(content))
      }
      at = end + delimiter.length
    }
  }
)

const tooManyFiles = new UploadProblem.InvalidUpload({
  problems: [UploadProblem.problem("member-count", `the upload has more than ${Upload.limits.members} files`)]
})

/**
 * Finds where bytes first are between two places. By the algorithm of Knuth, Morris and Pratt, which looks at every byte once
 * whatever the bytes are: their sender chooses them, and the boundary too. Long input gives the event loop its turn.
 */
const makeSearch = (sought: Uint8Array) => {
  /** How much of `sought` still matches where it matched up to an index and no further. */
  const borders = new Uint8Array(sought.length)
  for (let index = 1, matched = 0; index < sought.length; index++) {
    while (matched > 0 && sought[index] !== sought[matched]) matched = borders[matched - 1] ?? 0
    if (sought[index] === sought[matched]) matched++
    borders[index] = matched
  }
  return Effect.fnUntraced(function* (bytes: Uint8Array, from: number, to: number) {
    let matched = 0
    for (let start = from; start < to; start += sliceBytes) {
      if (start > from) yield* yieldToEventLoop
      const end = Math.min(start + sliceBytes, to)
      for (let at = start; at < end; at++) {
        while (matched > 0 && bytes[at] !== sought[matched]) matched = borders[matched - 1] ?? 0
        if (bytes[at] === sought[matched]) matched++
        if (matched === sought.length) return at + 1 - matched
      }
    }
    return undefined
  })
}

const lineBreak = utf8.encode("\r\n")
const headEnd = utf8.encode("\r\n\r\n")
const findHeadEnd = makeSearch(headEnd)
const dashes = utf8.encode("--")

interface PartHead {
  readonly name: string
  readonly filename: string | undefined
}

/** What a part is, or what is wrong with its head. */
const parseHead = (head: Uint8Array): PartHead | string => {
  if (!isUtf8(head)) return "its form has a name that is not UTF-8"
  let part: PartHead | undefined
  for (const line of text.decode(head).split("\r\n")) {
    const [, field = "", value = ""] = /^([^:\s]+):[ \t]*(.*)$/s.exec(line) ?? []
    switch (field.toLowerCase()) {
      case "content-disposition":
        if (part !== undefined) return "its form has a part with two names"
        part = parseDisposition(value)
        if (part === undefined) return "its form has a part without a name"
        break
      case "content-transfer-encoding":
        // Deprecated by RFC 7578: bytes are sent as they are.
        if (!/^(?:binary|8bit|7bit)$/i.test(value)) return "its form has an encoded part"
    }
  }
  return part ?? "its form has a part without a name"
}

const parseDisposition = (value: string): PartHead | undefined => {
  const type = /^form-data[ \t]*/i.exec(value)
  if (type === null) return undefined
  const parameters = new Map<string, string>()
  const parameter = /;[ \t]*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))[ \t]*/gsy
  parameter.lastIndex = type[0].length
  while (parameter.lastIndex < value.length) {
    const match = parameter.exec(value)
    if (match === null) return undefined
    const [, name = "", quoted, plain = ""] = match
    // Whoever reads the other one sees another file.
    if (parameters.has(name.toLowerCase())) return undefined
    parameters.set(name.toLowerCase(), quoted === undefined ? plain : unescape(quoted))
  }
  const name = parameters.get("name")
  const extended = parameters.get("filename*")
  const filename = extended === undefined ? parameters.get("filename") : decodeExtended(extended)
  return name === undefined || (extended !== undefined && filename === undefined) ? undefined : { name, filename }
}

/**
 * Browsers and the public client escape a quote and line breaks, and these alone, as percent triplets (WHATWG, Multipart form
 * data); others write a quote as `\"`. A backslash before anything else stands for itself: Windows tools write paths with it.
 */
const unescape = (quoted: string) =>
  quoted
    .replace(/\\"|%22/g, '"')
    .replace(/%0D/gi, "\r")
    .replace(/%0A/gi, "\n")

/** `UTF-8''` and percent triplets (RFC 5987), as some clients write names that are not ASCII. */
const decodeExtended = (value: string): string | undefined => {
  const [, encoded] = /^utf-8'[^']*'(.*)$/is.exec(value) ?? []
  if (encoded === undefined) return undefined
  try {
    return decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}

const startsWith = (bytes: Uint8Array, sought: Uint8Array, at: number) => {
  for (let index = 0; index < sought.length; index++) {
    if (bytes[at + index] !== sought[index]) return false
  }
  return true
}

/** Past the spaces that a boundary may be padded with. */
const afterPadding = (bytes: Uint8Array, from: number) => {
  let at = from
  while (bytes[at] === 32 || bytes[at] === 9) at++
  return at
}
