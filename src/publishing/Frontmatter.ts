/**
 * The YAML block at the head of a `SKILL.md`, read without giving anything in it power: no aliases and anchors (a few lines
 * of them can stand for gigabytes), no custom tags, no merge keys, and bounds on its size, its values and its depth.
 *
 * @module
 */
import { Either } from "effect"
import { Composer, CST, isMap, Lexer, LineCounter, Parser } from "yaml"
import type { Finding } from "./UploadProblem.js"

/** The keys of a frontmatter with their values: text, numbers, booleans, null, arrays, and maps of them. */
export type Frontmatter = ReadonlyMap<string, unknown>

/** Bounds of a frontmatter. A real one has some hundred bytes, a dozen keys and a depth of two. */
export const limits = {
  /** From the opening line to the closing one. */
  bytes: 64 * 1024,
  /**
   * Tokens of YAML: a key with its value takes four to seven, so that there is room for ten times the keys of a real one. Looking
   * for a key that is there twice and gathering comments take the parser time in the square of their number.
   */
  tokens: 1024,
  /** Collections in each other. */
  depth: 32
} as const

/**
 * The frontmatter of a `SKILL.md`: the YAML between a first line `---` and the next line `---`, which may end the file. Lines
 * end with LF or CRLF, and a byte order mark may lead (contract, One skill, one canonical archive). Gives all findings, not
 * only the first; none quotes the text.
 *
 * @example
 * ```ts
 * import { Either } from "effect"
 * import * as Frontmatter from "./Frontmatter.js"
 *
 * const text = "---\nname: greeting\ndescription: Greets people\n---\nSay hello.\n"
 * const frontmatter = Frontmatter.parse(new TextEncoder().encode(text))
 * console.log(Either.isRight(frontmatter) && frontmatter.right.get("name")) // "greeting"
 * ```
 */
export const parse = (skillFile: Uint8Array): Either.Either<Frontmatter, ReadonlyArray<Finding>> => {
  const block = findBlock(skillFile)
  if (block === undefined) return Either.left([notFound(skillFile)])
  const text = decode(block)
  if (text === undefined) return Either.left([{ rule: "skill-file-encoding", message: "is not valid UTF-8" }])
  return parseYaml(text)
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
const dash = 0x2d

/** The bytes between the two lines; `undefined` where one of them is missing. */
const findBlock = (bytes: Uint8Array): Uint8Array | undefined => {
  const head = bytes.subarray(startOf(bytes), startOf(bytes) + limits.bytes)
  const isWhole = startOf(bytes) + head.length === bytes.length
  const first = nextLine(head, 0)
  if (first === undefined || !isFence(head.subarray(0, first))) return undefined
  for (let start = first; ; ) {
    const next = nextLine(head, start)
    // Where the bound cuts a line nobody knows how it goes on.
    const end = next ?? (isWhole ? head.length : undefined)
    if (end === undefined) return undefined
    if (isFence(head.subarray(start, end))) return head.subarray(first, start)
    if (next === undefined) return undefined
    start = next
  }
}

/** Behind a byte order mark. */
const startOf = (bytes: Uint8Array): number => (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0)

/** Where the line behind the one at `start` starts. */
const nextLine = (bytes: Uint8Array, start: number): number | undefined => {
  const end = bytes.indexOf(lineFeed, start)
  return end === -1 ? undefined : end + 1
}

/** Whether a line, its end included, is `---`. */
const isFence = (line: Uint8Array): boolean => {
  let length = line.length
  if (line[length - 1] === lineFeed) length--
  if (line.length > length && line[length - 1] === carriageReturn) length--
  return length === 3 && line[0] === dash && line[1] === dash && line[2] === dash
}

const notFound = (bytes: Uint8Array): Finding => {
  const head = bytes.subarray(startOf(bytes))
  const first = nextLine(head, 0)
  const isOpened = isFence(head.subarray(0, first ?? head.length))
  return {
    rule: "frontmatter-missing",
    message: isOpened
      ? `has a frontmatter that no line "---" closes within ${limits.bytes} bytes`
      : 'does not start with a frontmatter: its first line is not "---"'
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const decode = (bytes: Uint8Array): string | undefined => {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

/** The tags that only say what plain YAML says too. */
const plainTags = new Set(["!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq"])

const parseYaml = (text: string): Either.Either<Frontmatter, ReadonlyArray<Finding>> => {
  const lines = new LineCounter()
  /** In the file, whose first line is the opening one. */
  const lineOf = (offset: number) => lines.linePos(offset).line + 1
  const parser = new Parser(lines.addNewLine)
  const tokens: Array<CST.Token> = []
  const findings = new Map<string, Finding>()
  const find = (rule: Finding["rule"], offset: number, message: string) => {
    const line = lineOf(offset)
    const key = `${rule} ${line}`
    if (!findings.has(key)) findings.set(key, { rule, message: `${message} (line ${line})` })
  }

  lines.addNewLine(0)
  let count = 0
  let offset = 0
  let isScalar = false
  for (const lexeme of new Lexer().lex(text)) {
    if (++count > limits.tokens)
      return Either.left([tooMuch(`more than ${limits.tokens.toLocaleString("en-US")} tokens of YAML`)])
    for (const token of parser.next(lexeme)) tokens.push(token)
    const type: CST.TokenType | null = isScalar ? null : CST.tokenType(lexeme)
    isScalar = type === "scalar"
    if (type === "alias" || type === "anchor") {
      find("frontmatter-alias", offset, "has an alias or anchor in its frontmatter: put text with * or & in quotes")
    } else if (type === "tag" && !plainTags.has(lexeme)) {
      find("frontmatter-tag", offset, "has a custom tag in its frontmatter: put text with ! in quotes")
    } else if (type === "doc-start" || type === "doc-end" || type === "directive-line") {
      find("frontmatter-yaml", offset, "has a frontmatter with a directive or of more than one document")
    }
    if (type !== "scalar" && type !== "doc-mode" && type !== "flow-error-end") offset += lexeme.length
  }
  for (const token of parser.end()) tokens.push(token)
  if (tokens.some(isTooDeep)) return Either.left([tooMuch(`collections more than ${limits.depth} deep`)])
  if (findings.size > 0) return Either.left([...findings.values()])

  const [document] = new Composer({
    customTags: null,
    logLevel: "silent",
    merge: false,
    prettyErrors: false,
    resolveKnownTags: false,
    schema: "core",
    stringKeys: true,
    version: "1.2"
  }).compose(tokens)
  for (const { code, pos } of [...(document?.errors ?? []), ...(document?.warnings ?? [])]) {
    find("frontmatter-yaml", pos[0], `has a frontmatter that is not valid YAML: ${meanings[code] ?? otherMeaning}`)
  }
  if (findings.size > 0) return Either.left([...findings.values()])
  if (!isMap(document?.contents)) {
    return Either.left([{ rule: "frontmatter-yaml", message: "has a frontmatter that is no list of keys and values" }])
  }
  return Either.right(document.toJS({ mapAsMap: true, maxAliasCount: 0 }))
}

const tooMuch = (what: string): Finding => ({ rule: "frontmatter-size", message: `has a frontmatter with ${what}` })

/** What people's frontmatters go wrong with. The parser's own messages would quote the text. */
const meanings: Readonly<Record<string, string>> = {
  BAD_DQ_ESCAPE: "a backslash in double quotes starts no escape",
  BAD_INDENT: "a line is not indented as it must be, or a bracket is not closed",
  BAD_SCALAR_START: "put a value that starts with a special character in quotes",
  BLOCK_AS_IMPLICIT_KEY: 'put a value that contains ": " in quotes',
  DUPLICATE_KEY: "a key is there twice",
  MISSING_CHAR: "a quote, bracket or colon is missing",
  MULTILINE_IMPLICIT_KEY: "a key goes over several lines, or has no colon",
  NON_STRING_KEY: "a key is not text",
  TAB_AS_INDENT: "a tab is used to indent",
  UNEXPECTED_TOKEN: "something stands where it cannot, text behind a closing quote for example"
}

const otherMeaning = "check its indentation and quotes"

/** By hand and not by recursion, which the depth of a hostile text would overflow. */
const isTooDeep = (root: CST.Token): boolean => {
  const stack: Array<readonly [token: CST.Token | null | undefined, depth: number]> = [[root, 0]]
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    const [token, depth] = top
    if (token?.type === "document") stack.push([token.value, depth])
    if (!CST.isCollection(token)) continue
    if (depth === limits.depth) return true
    for (const { key, value } of token.items) stack.push([key, depth + 1], [value, depth + 1])
  }
  return false
}
