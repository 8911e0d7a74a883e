import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import type * as Frontmatter from "../../src/publishing/Frontmatter.js"
import * as Policy from "../../src/publishing/Policy.js"

const good = { name: "greeting", description: "Greets people" }

/** The rules that a skill with these values breaks. */
const broken = (
  values: Readonly<Record<string, unknown>>,
  { directory = String(values["name"] ?? "greeting"), policy = Policy.seed } = {}
): ReadonlyArray<string> => {
  const frontmatter: Frontmatter.Frontmatter = new Map(Object.entries({ ...good, ...values }))
  return Policy.check(policy, { directory, frontmatter }).map(({ rule }) => rule)
}

describe("every skill", () => {
  it("has a name of 1 to 64 characters of a to z, 0 to 9 and -", () => {
    for (const name of ["a", "0", "-", "a--b-", "x".repeat(64)]) assert.deepStrictEqual(broken({ name }), [], name)
    assert.deepStrictEqual(broken({ name: "x".repeat(65) }), ["name-length"])
    for (const name of ["A", "a_b", "a b", "a.b", "a/b", "\u00e9", "a\n", " a", "a\u0000", "\u{1f600}"]) {
      assert.deepStrictEqual(broken({ name }), ["name-format"], JSON.stringify(name))
    }
    for (const name of ["", " ", undefined, null, 1, true, ["a"], new Map()]) {
      assert.deepStrictEqual(broken({ name }), ["name-missing"], String(name))
    }
  })

  it("counts the characters of names and descriptions in code points, not bytes or UTF-16 units", () => {
    assert.deepStrictEqual(broken({ description: "\u{1f600}".repeat(1024) }), [])
    assert.deepStrictEqual(broken({ description: "\u{1f600}".repeat(1025) }), ["description-length"])
    assert.deepStrictEqual(broken({ description: "\u00e9".repeat(1024) }), [])
    assert.deepStrictEqual(broken({ name: "\u{1f600}".repeat(64) }), ["name-format"])
    assert.deepStrictEqual(broken({ name: "\u{1f600}".repeat(65) }), ["name-length", "name-format"])
  })

  it("has a description of 1 to 1,024 characters", () => {
    assert.deepStrictEqual(broken({ description: "x" }), [])
    assert.deepStrictEqual(broken({ description: "x".repeat(1024) }), [])
    assert.deepStrictEqual(broken({ description: "x".repeat(1025) }), ["description-length"])
    for (const description of ["", "\n", undefined, null, 1, ["a"]]) {
      assert.deepStrictEqual(broken({ description }), ["description-missing"], String(description))
    }
  })

  it("has a description that is valid text without NUL", () => {
    assert.deepStrictEqual(broken({ description: "a\u0000" }), ["description-text"])
    assert.deepStrictEqual(broken({ description: "a\ud800" }), ["description-text"])
    assert.deepStrictEqual(broken({ description: "a\udc00b" }), ["description-text"])
    assert.deepStrictEqual(broken({ description: "\u{1f600} lines\nof it" }), [])
  })

  it("has a description without XML tags, in which a bare < is fine", () => {
    const tags = [
      "<tag>",
      "a</tag>",
      "<a/>",
      "<a href='x'>",
      "<system-reminder>",
      "<A1.b:c>",
      "<\u00e9>",
      "x <b\n> y",
      "<\u0939\u093f\u0928\u094d\u0926\u0940>",
      "<x\u00b7y>",
      "<tag/ >"
    ]
    for (const description of tags) assert.deepStrictEqual(broken({ description }), ["description-tags"], description)
    const fine = [
      "a < b",
      "a < b > c",
      "1<2",
      "<3",
      "-> x",
      "<>",
      "< a>",
      "</ a>",
      "<me@example.org>",
      "<https://a.b>",
      "a <b",
      "b> a"
    ]
    for (const description of fine) assert.deepStrictEqual(broken({ description }), [], description)
  })

  it("may say other things too", () => {
    assert.deepStrictEqual(broken({ license: 1, metadata: ["x"], compatibility: "x".repeat(501), version: 2 }), [])
  })
})

describe("the seed policy", () => {
  it("reserves words anywhere in a name", () => {
    for (const name of ["claude", "anthropic", "my-claude-skill", "claudette", "xanthropicx"]) {
      assert.deepStrictEqual(broken({ name }), ["name-reserved"], name)
    }
    assert.deepStrictEqual(broken({ name: "Claude" }), ["name-format", "name-reserved"])
    assert.deepStrictEqual(broken({ name: "claude-anthropic" }), ["name-reserved", "name-reserved"])
    assert.deepStrictEqual(broken({ name: "cloud" }), [])
  })

  it("compares directory and name without case, and _ as -", () => {
    const name = "two-words"
    for (const directory of ["two-words", "Two-Words", "two_words", "TWO_WORDS"]) {
      assert.deepStrictEqual(broken({ name }, { directory }), [], directory)
    }
    for (const directory of ["two", "twowords", "two words", "two-words "]) {
      assert.deepStrictEqual(broken({ name }, { directory }), ["directory-name"], directory)
    }
  })

  it("says nothing of the directory of a skill without a name, or without a directory", () => {
    assert.deepStrictEqual(broken({ name: undefined }), ["name-missing"])
    const frontmatter = new Map(Object.entries(good))
    assert.deepStrictEqual(Policy.check(Policy.seed, { directory: undefined, frontmatter }), [])
  })
})

describe("the agent-skills policy", () => {
  const policy = Policy.agentSkills

  it("has hyphens only between words", () => {
    for (const name of ["-a", "a-", "a--b", "-"]) {
      assert.deepStrictEqual(broken({ name }, { policy }), ["name-hyphens"], name)
    }
    assert.deepStrictEqual(broken({ name: "a-b-c" }, { policy }), [])
  })

  it("has a directory of exactly the skill's name", () => {
    for (const directory of ["Two-words", "two_words"]) {
      assert.deepStrictEqual(broken({ name: "two-words" }, { directory, policy }), ["directory-name"], directory)
    }
  })

  it("has a license, compatibility of up to 500 characters, metadata of text, and allowed-tools, all optional", () => {
    const full = {
      license: "MIT",
      compatibility: "\u{1f600}".repeat(500),
      metadata: new Map([["version", "1.0"]]),
      "allowed-tools": "Bash(git:*) Read",
      other: 1
    }
    assert.deepStrictEqual(broken(full, { policy }), [])
    assert.deepStrictEqual(broken({ license: 1 }, { policy }), ["license"])
    assert.deepStrictEqual(broken({ license: null }, { policy }), ["license"])
    assert.deepStrictEqual(broken({ compatibility: "x".repeat(501) }, { policy }), ["compatibility"])
    assert.deepStrictEqual(broken({ compatibility: "" }, { policy }), ["compatibility"])
    assert.deepStrictEqual(broken({ metadata: "x" }, { policy }), ["metadata"])
    assert.deepStrictEqual(broken({ metadata: ["x"] }, { policy }), ["metadata"])
    assert.deepStrictEqual(broken({ metadata: new Map([["version", 1]]) }, { policy }), ["metadata"])
    const mixed = new Map<string, unknown>([
      ["author", "me"],
      ["version", 1]
    ])
    assert.deepStrictEqual(broken({ metadata: mixed }, { policy }), ["metadata"])
    assert.deepStrictEqual(broken({ metadata: new Map([["a", new Map()]]) }, { policy }), ["metadata"])
    assert.deepStrictEqual(broken({ "allowed-tools": ["Read"] }, { policy }), ["allowed-tools"])
  })

  it("reserves the words of the seed policy", () => {
    assert.deepStrictEqual(broken({ name: "claude" }, { policy }), ["name-reserved"])
  })
})

describe("policies", () => {
  it("are found by the names that a command line gives", () => {
    assert.deepStrictEqual(Policy.byName("seed"), Option.some(Policy.seed))
    assert.deepStrictEqual(Policy.byName("agent-skills"), Option.some(Policy.agentSkills))
    assert.deepStrictEqual(Policy.byName("other"), Option.none())
  })

  it("of one's own reserve words of their own", () => {
    const policy: Policy.Policy = { name: "ours", rules: [Policy.reservedWords(["acme"])] }
    assert.deepStrictEqual(broken({ name: "acme-claude" }, { policy }), ["name-reserved"])
    assert.deepStrictEqual(broken({ name: "claude" }, { policy }), [])
  })
})
