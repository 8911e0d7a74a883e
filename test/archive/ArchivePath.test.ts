import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import * as ArchivePath from "../../src/archive/ArchivePath.js"
import { check } from "../support/Seed.js"

describe("key", () => {
  it("is the path itself, or something short that no other path is keyed by", () => {
    const long = "a".repeat(16_384)
    expect(ArchivePath.key("a/b")).toBe("a/b")
    const keys = [long, `${long}a`, `${long.slice(1)}b`, `b${long.slice(1)}`].map(ArchivePath.key)
    expect(new Set(keys).size).toBe(4)
    for (const key of keys) {
      expect(key.length).toBeLessThan(100)
      expect(ArchivePath.isSafe(key)).toBe(false)
    }
    expect(ArchivePath.key(long)).toBe(keys[0])
  })
})

describe("isSafe", () => {
  it.each(["a", "a/b", "SKILL.md", ".hidden", "..a", "a..", "...", "a b", "ab:c", "é/\u{10000}", "\uFEFFa", "\u00a0"])(
    "takes %j",
    (path) => {
      expect(ArchivePath.isSafe(path)).toBe(true)
    }
  )

  it.each([
    ["nothing", ""],
    ["a slash", "/"],
    ["a leading slash", "/a"],
    ["a trailing slash", "a/"],
    ["an empty component", "a//b"],
    ["a dot", "."],
    ["a dot component", "a/./b"],
    ["a parent", ".."],
    ["a parent component", "a/.."],
    ["a backslash", "a\\b"],
    ["a drive", "C:"],
    ["a drive with a path", "c:/a"],
    ["a drive without a slash", "z:a"],
    ["a zero byte", "a\u0000"],
    ["the last C0 control", "\u001f"],
    ["delete", "\u007f"],
    ["the last C1 control", "\u009f"],
    ["a lone high surrogate", "a\ud800"],
    ["a high surrogate before a letter", "\ud800a"],
    ["a lone low surrogate", "\udc00a"],
    ["surrogates in the wrong order", "\udc00\ud800"]
  ])("refuses %s", (_, path) => {
    expect(ArchivePath.isSafe(path)).toBe(false)
  })

  it("refuses exactly the strings that are not well-formed, among letters and surrogates", () =>
    check([fc.string({ unit: fc.constantFrom("a", "\ud800", "\udbff", "\udc00", "\udfff"), minLength: 1 })], (path) => {
      expect(ArchivePath.isSafe(path)).toBe(new TextDecoder().decode(new TextEncoder().encode(path)) === path)
    }))
})

describe("isSafeComponent", () => {
  it("takes one component only", () => {
    expect(ArchivePath.isSafeComponent("a")).toBe(true)
    expect(ArchivePath.isSafeComponent("a/b")).toBe(false)
    expect(ArchivePath.isSafeComponent("..")).toBe(false)
    expect(ArchivePath.isSafeComponent("")).toBe(false)
  })
})

describe("compare", () => {
  const encode = (text: string) => Buffer.from(text)
  /** Characters around every boundary at which the two orders could differ, and any other. */
  const text = fc.string({
    unit: fc.oneof(
      fc.constantFrom(
        "a",
        "\u007f",
        "\u0080",
        "\u07ff",
        "\u0800",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\u{10000}",
        "\u{10ffff}"
      ),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 })
    )
  })

  it("puts U+E000 before U+10000, where JavaScript does not", () => {
    expect(ArchivePath.compare("\ue000", "\u{10000}")).toBe(-1)
    expect("\ue000" < "\u{10000}").toBe(false)
  })

  it("is the order of the UTF-8 bytes", () =>
    check(
      [text, text, text],
      (prefix, left, right) => {
        const [a, b] = [prefix + left, prefix + right]
        expect(ArchivePath.compare(a, b)).toBe(Buffer.compare(encode(a), encode(b)))
      },
      { numRuns: 2000 }
    ))

  it("is 0 for equal strings only", () => {
    expect(ArchivePath.compare("a/b", "a/b")).toBe(0)
    expect(ArchivePath.compare("a", "a/b")).toBe(-1)
    expect(ArchivePath.compare("a/b", "a")).toBe(1)
  })
})

describe("display", () => {
  it("keeps what is safe to show", () => {
    expect(ArchivePath.display("docs/grüße \u{1f600}.md")).toBe("docs/grüße \u{1f600}.md")
  })

  it.each([
    ["control characters", "a\u001b[31m\u0085", "a\\u{1b}[31m\\u{85}"],
    ["line separators", "a\n\u2028", "a\\u{a}\\u{2028}"],
    ["characters that turn the direction of text", "\u202egpj", "\\u{202e}gpj"],
    ["invisible characters", "\ufeffa\u200b", "\\u{feff}a\\u{200b}"],
    ["lone surrogates", "\ud800", "\\u{d800}"],
    ["what would end or imitate an escape", '"\\u{1b}', "\\u{22}\\u{5c}u{1b}"]
  ])("escapes %s", (_, path, shown) => {
    expect(ArchivePath.display(path)).toBe(shown)
  })

  it("cuts to 200 code points", () => {
    expect(ArchivePath.display("\u{1f600}".repeat(200))).toBe("\u{1f600}".repeat(200))
    expect(ArchivePath.display("\u{1f600}".repeat(201))).toBe("\u{1f600}".repeat(200))
  })

  it("cuts before an escape that does not fit", () => {
    expect(ArchivePath.display(`${"a".repeat(198)}\u0000b`)).toBe("a".repeat(198))
    expect(ArchivePath.display(`${"a".repeat(195)}\u0000b`)).toBe(`${"a".repeat(195)}\\u{0}`)
  })
})
