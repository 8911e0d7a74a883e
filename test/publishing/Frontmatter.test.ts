import { assert, describe, it, vi } from "@effect/vitest"
import { Either } from "effect"
import * as fc from "fast-check"
import { Composer, Lexer, Parser, stringify } from "yaml"
import * as Frontmatter from "../../src/publishing/Frontmatter.js"
import { check } from "../support/Seed.js"
import { utf8 } from "../support/Uploads.js"

const parse = (text: string | Uint8Array) => Frontmatter.parse(typeof text === "string" ? utf8(text) : text)

/** The keys and values, or the rules that were broken. */
const read = (text: string | Uint8Array): unknown =>
  Either.match(parse(text), {
    onLeft: (findings) => findings.map(({ rule }) => rule),
    onRight: (frontmatter) => Object.fromEntries(frontmatter)
  })

const messages = (text: string) =>
  Either.match(parse(text), { onLeft: (findings) => findings.map(({ message }) => message), onRight: () => [] })

const block = (yaml: string) => `---\n${yaml}\n---\n`

describe("the block", () => {
  const name = { name: "a" }
  const missing = ["frontmatter-missing"]
  const behaviour = (title: string, text: string, expected: unknown) =>
    it(title, () => assert.deepStrictEqual(read(text), expected))

  behaviour("of LF lines", "---\nname: a\n---\ntext\n", name)
  behaviour("of CRLF lines", "---\r\nname: a\r\n---\r\ntext\r\n", name)
  behaviour("behind a byte order mark", "\ufeff---\nname: a\n---\n", name)
  behaviour("whose closing line ends the file", "---\nname: a\n---", name)
  behaviour("whose closing line ends the file with CR", "---\nname: a\n---\r\n", name)
  behaviour("ends at the first closing line", "---\nname: a\n---\nname: b\n---\n", name)
  behaviour("keeps dashes that are not alone in their line", "---\nname: a\nother: b ---\nmore: |\n  ---\n---\n", {
    ...name,
    other: "b ---",
    more: "---\n"
  })
  behaviour("behind another byte order mark", "\ufeff\ufeff---\nname: a\n---\n", missing)
  behaviour("behind an empty line", "\n---\nname: a\n---\n", missing)
  behaviour("behind a space", " ---\nname: a\n---\n", missing)
  behaviour("with four dashes", "----\nname: a\n----\n", missing)
  behaviour("with a space behind the dashes", "--- \nname: a\n---\n", missing)
  behaviour("that nothing closes", "---\nname: a\n", missing)
  behaviour("that a line with half of a CRLF would close", "---\nname: a\n---\r", missing)
  behaviour("that an indented line would close", "---\nname: a\n ---\n", missing)
  behaviour("that a dash too many would close", "---\nname: a\n----\n", missing)
  behaviour("of one line", "---", missing)
  behaviour("of nothing", "", missing)
  behaviour("with lines that end with CR alone", "---\rname: a\r---\r", missing)
  behaviour("that is empty", "---\n---\n", ["frontmatter-yaml"])

  it("is closed within 64 KiB, to the byte", () => {
    const of = (length: number) => {
      const yaml = "---\nname: a\n#"
      return `${yaml}${"x".repeat(length - yaml.length - "\n---".length)}\n---`
    }
    assert.deepStrictEqual(read(of(64 * 1024)), name)
    assert.deepStrictEqual(read(`${of(64 * 1024)}\n`), missing)
    assert.deepStrictEqual(read(of(64 * 1024 + 1)), missing)
    assert.deepStrictEqual(read(`${of(1000)}\n${"text ".repeat(100_000)}`), name)
  })

  it("is UTF-8, whatever follows it", () => {
    const latin1 = (text: string) => Uint8Array.from(Buffer.from(text, "latin1"))
    assert.deepStrictEqual(read(latin1("---\nname: \u00e9\n---\n")), ["skill-file-encoding"])
    assert.deepStrictEqual(read(latin1("---\nname: a\n---\n\u00e9\n")), name)
  })
})

describe("its YAML", () => {
  it("gives text, numbers, booleans, null, arrays and maps by key", () => {
    assert.deepStrictEqual(
      parse(block("a: text\nb: 1\nc: true\nd:\ne: [1, two]\nf: {g: h}\ni: |\n  lines\n  of it\nj: no\nk: 2026-11-30")),
      Either.right(
        new Map<string, unknown>([
          ["a", "text"],
          ["b", 1],
          ["c", true],
          ["d", null],
          ["e", [1, "two"]],
          ["f", new Map([["g", "h"]])],
          ["i", "lines\nof it\n"],
          ["j", "no"],
          ["k", "2026-11-30"]
        ])
      )
    )
  })

  it("gives keys that objects have of themselves", () => {
    assert.deepStrictEqual(
      parse(block("__proto__: a\nconstructor: b")),
      Either.right(
        new Map([
          ["__proto__", "a"],
          ["constructor", "b"]
        ])
      )
    )
  })

  it("takes & * and ! inside of text", () => {
    assert.deepStrictEqual(read(block('a: R&D * 2!\nb: "*x &y !z"\nc: |\n  *x\n  &y\n  !z')), {
      a: "R&D * 2!",
      b: "*x &y !z",
      c: "*x\n&y\n!z\n"
    })
  })

  it("has no aliases, anchors, custom tags and merge keys", () => {
    assert.deepStrictEqual(read(block("a: &x b\nc: *x")), ["frontmatter-alias", "frontmatter-alias"])
    assert.deepStrictEqual(read(block("a: &x b")), ["frontmatter-alias"])
    assert.deepStrictEqual(read(block("description: *important*")), ["frontmatter-alias"])
    assert.deepStrictEqual(read(block("a: !js/function b")), ["frontmatter-tag"])
    assert.deepStrictEqual(read(block("a: !!binary aGk=")), ["frontmatter-tag"])
    assert.deepStrictEqual(read(block("a: !<tag:yaml.org,2002:str> b")), ["frontmatter-tag"])
    assert.deepStrictEqual(read(block("a: !!str 1")), { a: "1" })
    assert.deepStrictEqual(read(block("<<: {name: b}")), { "<<": new Map([["name", "b"]]) })
  })

  it("is one map, without directives and further documents", () => {
    for (const yaml of ["text", "- a", "1", "# comment", "...\na: b", "a: b\n...\nc: d", "%YAML 1.1\n# a", "--- a"]) {
      assert.deepStrictEqual(read(block(yaml)), ["frontmatter-yaml"], yaml)
    }
  })

  it("with a directive is told so", () => {
    assert.include(messages(block("%YAML 1.1\na: b"))[0], "with a directive")
  })

  it("has keys that are text and there once", () => {
    assert.deepStrictEqual(read(block("a: 1\na: 2")), ["frontmatter-yaml"])
    assert.deepStrictEqual(read(block("[a]: 1")), ["frontmatter-yaml"])
    assert.deepStrictEqual(read(block("1: a\ntrue: b")), { "1": "a", true: "b" })
  })

  it("that is broken is answered with the line in the file and what to do", () => {
    assert.deepStrictEqual(messages(block("name: a\ndescription: Use when: asked")), [
      'has a frontmatter that is not valid YAML: put a value that contains ": " in quotes (line 3)'
    ])
    assert.deepStrictEqual(messages("---\r\nname: a\r\n\r\nname: b\r\n---\r\n"), [
      "has a frontmatter that is not valid YAML: a key is there twice (line 4)"
    ])
    assert.include(messages(block("name: [a"))[0], "a bracket is not closed")
    assert.include(messages(block('name: "a'))[0], "a quote, bracket or colon is missing")
    assert.include(messages(block("name: @a"))[0], "starts with a special character")
    assert.include(messages(block("a\nb: c"))[0], "has no colon (line 2)")
    assert.include(messages(block("name: a\n\tb: c"))[0], "(line 3)")
  })

  it("that is broken in several lines is answered for each", () => {
    assert.deepStrictEqual(
      messages(block("a: *x\nb: 1\nc: &y 2\nd: !z 3")).map((message) => /line \d/.exec(message)?.[0]),
      ["line 2", "line 4", "line 5"]
    )
    assert.strictEqual(messages(block("a: 1\na: 2\nb: 1\nb: 2")).length, 2)
  })
})

describe("bombs", () => {
  const laughs = [
    "a: &a [x,x]",
    ...Array.from("bcdefgh", (key, index) => `${key}: &${key} [*${"abcdefg"[index]},*${"abcdefg"[index]}]`)
  ]
  const cases: Readonly<Record<string, string>> = {
    "billion laughs": laughs.join("\n"),
    "an alias of itself": "a: &a [*a]",
    "sequences in sequences": `a: ${"[".repeat(30_000)}`,
    "closed sequences in sequences": `a: ${"[".repeat(1000)}${"]".repeat(1000)}`,
    "maps in maps": `a: ${"{a: ".repeat(10_000)}`,
    "block sequences in block sequences": `a:\n  ${"- ".repeat(20_000)}`,
    "explicit keys in explicit keys": "? ".repeat(20_000),
    "maps indented by ever more": Array.from({ length: 100 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n"),
    "many keys": Array.from({ length: 8000 }, (_, index) => `k${index}: `).join("\n"),
    "many equal keys": "a: 1\n".repeat(12_000),
    "many values": `a: [${"a,".repeat(30_000)}]`,
    "many lines": "\n".repeat(60_000),
    "many comments": "#\n".repeat(30_000),
    "many documents": "...\n".repeat(15_000),
    "many tags": `a: ${"!a ".repeat(20_000)}`
  }
  for (const [what, yaml] of Object.entries(cases)) {
    it(`${what} are refused before they cost anything`, () => {
      const rules = read(block(yaml))
      assert.isArray(rules)
      assert.isNotEmpty(
        (rules as ReadonlyArray<string>).filter((rule) => /^frontmatter-(alias|size|tag|yaml)$/.test(rule))
      )
    })
  }

  /** So many keys, and the number of tokens that YAML's own lexer finds. */
  const keys = (count: number) => {
    const yaml = Array.from({ length: count }, (_, index) => `k${index}: v`).join("\n")
    return { tokens: [...new Lexer().lex(`${yaml}\n`)].length, text: block(yaml) }
  }

  it("have 1,024 tokens as their bound, which are more than a hundred keys, and say so", () => {
    const counts = Array.from({ length: 300 }, (_, index) => index + 1)
    const most = counts.findLast((count) => keys(count).tokens <= 1024) ?? 0
    assert.isAbove(most, 100)
    assert.isNotArray(read(keys(most).text))
    assert.deepStrictEqual(messages(keys(most + 1).text), ["has a frontmatter with more than 1,024 tokens of YAML"])
  })

  it("are parsed no further than to their bound, and composed not at all", () => {
    const parsed = vi.spyOn(Parser.prototype, "next")
    const composed = vi.spyOn(Composer.prototype, "compose")
    const work = (text: string) => {
      parsed.mockClear()
      composed.mockClear()
      parse(text)
      return [parsed.mock.calls.length, composed.mock.calls.length]
    }
    const good = keys(10)
    assert.deepStrictEqual(work(good.text), [good.tokens, 1])
    for (const yaml of [
      `a: {${Array.from({ length: 2000 }, (_, index) => `k${index}`).join(",")}}`,
      `${"#\n".repeat(4080)}a: 1`,
      "a: 1\n".repeat(8000)
    ]) {
      assert.deepStrictEqual(work(block(yaml)), [1024, 0])
    }
    vi.restoreAllMocks()
  })

  it("have a depth of 32 as their bound", () => {
    const nested = (depth: number) => block(`a: ${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}`)
    assert.isNotArray(read(nested(32)))
    assert.deepStrictEqual(read(nested(33)), ["frontmatter-size"])
  })
})

describe("any frontmatter", () => {
  it("that a YAML library writes is read back", { timeout: 60_000 }, () => {
    const text = fc.string({
      unit: fc.oneof(
        fc.constantFrom(..." \n\t:-#&*!|>'\"{}[],%@`?<\u0000\u0007\u0085\u2028"),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 })
      ),
      maxLength: 40
    })
    const value = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), fc.array(text, { maxLength: 3 }))
    const values = fc.dictionary(text, value, { minKeys: 1, maxKeys: 6, noNullPrototype: true })
    return check(
      [values],
      (some) => {
        const yaml = stringify(some, { aliasDuplicateObjects: false })
        // A line of dashes inside of text would close the block; a leading mark is taken for the file's, as the library does.
        fc.pre(!/^---\r?$/m.test(yaml) && !yaml.startsWith("\ufeff"))
        const frontmatter = parse(`---\n${yaml}---\n`)
        assert.deepStrictEqual(frontmatter, Either.right(new Map(Object.entries(some))))
      },
      { numRuns: 1000 }
    )
  })

  it("gets a verdict, whatever its text is, that quotes nothing of it", { timeout: 60_000 }, () => {
    const piece = fc.constantFrom(
      "a: ",
      "- ",
      "? ",
      "[",
      "]",
      "{",
      "}",
      ", ",
      ": ",
      "\n",
      "\n  ",
      "&a ",
      "*a",
      "!b ",
      "!!str ",
      "|\n",
      ">-\n",
      "'",
      '"',
      "\\",
      "#",
      "%YAML 1.1\n",
      "---",
      "...",
      "\r\n",
      "\t",
      "\u0000",
      "\ufeff",
      "<<",
      "\u001f",
      "\u0002",
      "\u0018",
      "~",
      "SECRET"
    )
    return check(
      [fc.array(piece, { maxLength: 30 })],
      (pieces) => {
        const result = parse(block(pieces.join("")))
        if (Either.isLeft(result)) assert.notInclude(JSON.stringify(result.left), "SECRET")
        else assert.instanceOf(result.right, Map)
      },
      { numRuns: 5000 }
    )
  })
})
