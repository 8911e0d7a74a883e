import { describe, expect, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as fc from "fast-check"
import type { InvalidSnapshot, UnsupportedServer } from "../../src/delivery/DeliveryError.js"
import * as Manifest from "../../src/delivery/Manifest.js"
import { turnsDuring } from "../support/Turns.js"

const sha256 = "0123456789abcdef".repeat(4)
const file = (path: string, rest: object = {}) => ({ path, size: 1, sha256, ...rest })
const skill = (name: string, rest: object = {}) => ({
  name,
  description: `About ${name}`,
  files: [file("SKILL.md")],
  ...rest
})
const manifest = (rest: object = {}) => ({ schemaVersion: 1, revision: "r1", skills: [skill("alpha")], ...rest })

const bytesOf = (content: unknown) =>
  content instanceof Uint8Array ? content : Buffer.from(typeof content === "string" ? content : JSON.stringify(content))

const decode = (content: unknown, revision = "r1") =>
  Effect.runSync(Effect.either(Manifest.decode(bytesOf(content), { revision })))

const errorOf = (content: unknown, revision?: string): InvalidSnapshot | UnsupportedServer => {
  const result = decode(content, revision)
  if (Either.isRight(result)) throw new Error("the manifest was accepted")
  return result.left
}

const invalid = (check: string, entry: string) => ({ _tag: "INVALID_SNAPSHOT", check, entry })

describe("Manifest", () => {
  it("decodes skills and files", () => {
    const skills = [skill("alpha", { files: [file("SKILL.md"), file("docs/guide.md", { size: 0 })] }), skill("beta")]
    expect(decode(manifest({ skills }))).toEqual(Either.right({ schemaVersion: 1, revision: "r1", skills }))
  })

  it("accepts a container without skills", () => {
    expect(Either.isRight(decode(manifest({ skills: [] })))).toBe(true)
  })

  it("ignores unknown members at every level", () => {
    const extra = { constructor: "x", $added: { deeply: [null] } }
    const content = JSON.stringify(
      manifest({ ...extra, skills: [skill("alpha", { ...extra, files: [file("SKILL.md", extra)] })] })
    ).replace("{", '{"__proto__":{"schemaVersion":7},')
    expect(decode(content)).toEqual(decode(manifest()))
  })

  describe("encoding", () => {
    it("accepts any strict UTF-8", () => {
      expect(Either.isRight(decode(manifest({ skills: [skill("é\u{10000}\ufeff")] })))).toBe(true)
    })

    it.each([
      ["a byte that is not UTF-8", Buffer.from(JSON.stringify(manifest()).replace("About", "Ab\xffut"), "latin1")],
      [
        "an encoded surrogate",
        Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')])
      ],
      ["a byte order mark", Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytesOf(manifest())])],
      ["UTF-16", Buffer.from(`\ufeff${JSON.stringify(manifest())}`, "utf16le")]
    ])("refuses %s", (_, content) => {
      expect(errorOf(content)).toMatchObject(invalid("manifest-encoding", "manifest.json"))
    })
  })

  it.each(["", "{", "{'a':1}", `${JSON.stringify(manifest())} x`, "[]", "null", "1", '"manifest"'])(
    "refuses %j, which is no JSON object",
    (content) => {
      expect(errorOf(content)).toMatchObject(invalid("manifest-json", "manifest.json"))
    }
  )

  describe("schemaVersion", () => {
    it.each(["1", "1.0", "1e0", "10E-1"])("accepts %s", (version) => {
      const content = JSON.stringify(manifest()).replace('"schemaVersion":1', `"schemaVersion":${version}`)
      expect(Either.isRight(decode(content))).toBe(true)
    })

    it.each([0, 2, -1, 1.5, 1e21])("finds %d unsupported, whatever else the manifest holds", (schemaVersion) => {
      for (const content of [
        manifest({ schemaVersion }),
        { schemaVersion },
        { schemaVersion, revision: 3, skills: {} }
      ]) {
        expect(errorOf(content)).toMatchObject({ _tag: "UNSUPPORTED_SERVER", schemaVersion })
      }
    })

    it("finds a number beyond all bounds unsupported", () => {
      expect(errorOf('{"schemaVersion":1e999}')).toMatchObject({ _tag: "UNSUPPORTED_SERVER" })
    })

    it.each(["1", null, true, [1], {}, undefined])("refuses %j, which is no number", (schemaVersion) => {
      expect(errorOf(manifest({ schemaVersion }))).toMatchObject(
        invalid("manifest-shape", "manifest.json: schemaVersion")
      )
    })
  })

  describe("shape", () => {
    it("accepts the greatest safe size, zero and an empty description", () => {
      const files = [file("SKILL.md", { size: Number.MAX_SAFE_INTEGER }), file("b", { size: 0 })]
      expect(Either.isRight(decode(manifest({ skills: [skill("alpha", { description: "", files })] })))).toBe(true)
    })

    it.each<[string, object]>([
      ["revision", { revision: undefined }],
      ["revision", { revision: 1 }],
      ["skills", { skills: undefined }],
      ["skills", { skills: { alpha: {} } }],
      ["skills[0]", { skills: [null] }],
      ["skills[0].name", { skills: [skill("", { name: 1 })] }],
      ["skills[0].description", { skills: [skill("alpha", { description: undefined })] }],
      ["skills[0].files", { skills: [skill("alpha", { files: "SKILL.md" })] }],
      ["skills[1].files[0]", { skills: [skill("alpha"), skill("beta", { files: [["SKILL.md"]] })] }],
      ["skills[0].files[0].path", { skills: [skill("alpha", { files: [file("", { path: null })] })] }]
    ])("refuses a wrong %s", (at, rest) => {
      expect(errorOf(manifest(rest))).toMatchObject(invalid("manifest-shape", `manifest.json: ${at}`))
    })

    it.each([
      ["revision", { revision: [] }],
      ["skills[0]", { skills: [[]] }],
      ["skills[0].files", { skills: [skill("alpha", { files: {} })] }]
    ])("refuses a wrong %s however deeply it is nested", (at, rest) => {
      const lists = "[".repeat(90_000) + "]".repeat(90_000)
      const content = JSON.stringify(manifest(rest)).replace("[]", lists).replace("{}", `{"a":${lists}}`)
      expect(errorOf(content)).toMatchObject(invalid("manifest-shape", `manifest.json: ${at}`))
    })

    it.each([-1, 1.5, 2 ** 53, "1", null, undefined])("refuses the size %j", (size) => {
      expect(errorOf(manifest({ skills: [skill("alpha", { files: [file("SKILL.md", { size })] })] }))).toMatchObject(
        invalid("manifest-shape", "manifest.json: skills[0].files[0].size")
      )
    })

    it.each([sha256.toUpperCase(), sha256.slice(1), `${sha256}0`, `${sha256.slice(1)}g`, `${sha256}\n`, "", 0])(
      "refuses the digest %j",
      (digest) => {
        const files = [file("SKILL.md", { sha256: digest })]
        expect(errorOf(manifest({ skills: [skill("alpha", { files })] }))).toMatchObject(
          invalid("manifest-shape", "manifest.json: skills[0].files[0].sha256")
        )
      }
    )
  })

  describe("bounds", () => {
    /** As many files in one skill as are asked for. */
    const files = (count: number) =>
      Array.from({ length: count }, (_, index) => file(`f${String(index).padStart(6, "0")}`, { more: [1, { a: [] }] }))
    const skills = (count: number, rest: object = {}) =>
      Array.from({ length: count }, (_, index) => skill(`s${String(index).padStart(6, "0")}`, rest))

    /** Of a text that takes more than one slice, so that other work runs in between. */
    const longErrorOf = (content: unknown) => Effect.runPromise(Effect.flip(Manifest.decode(bytesOf(content))))

    it("accepts as many skills and files as an archive can have beside the manifest, and members unknown today", () => {
      expect(Either.isRight(decode(manifest({ skills: skills(999) })))).toBe(true)
      expect(Either.isRight(decode(manifest({ skills: [skill("alpha", { files: files(999) })] })))).toBe(true)
    })

    it.each([
      ["skills", skills(1000, { files: [] })],
      ["files of one skill", [skill("alpha", { files: files(1000) })]],
      ["files of several skills", [skill("alpha", { files: files(500) }), skill("beta", { files: files(500) })]]
    ])("refuses more %s than an archive can have, before it looks at any", (_, listed) => {
      // The last one is of no shape at all.
      const content = JSON.stringify(manifest({ skills: [{ name: 1 }, ...listed] }))
      expect(errorOf(content)).toMatchObject(invalid("manifest-shape", "manifest.json: skills"))
    })

    it.each([
      ["objects", `[${"{},".repeat(150_000)}0]`],
      ["lists in lists", "[".repeat(150_000) + "]".repeat(150_000)],
      ["members", `{${Array.from({ length: 60_000 }, (_, index) => `"${index}":0`).join(",")}}`]
    ])("refuses a text of too many %s for any manifest before it is parsed", async (_, value) => {
      const content = JSON.stringify(manifest({ more: 0 })).replace('"more":0', `"more":${value}`)
      expect(await longErrorOf(content)).toMatchObject(invalid("manifest-shape", "manifest.json"))
      // Not parsed: it is no JSON.
      expect(await longErrorOf(content.slice(0, -1))).toMatchObject(invalid("manifest-shape", "manifest.json"))
    })

    it("refuses names longer than an entry's can be", async () => {
      const longest = "a".repeat(65_535)
      await Effect.runPromise(
        Manifest.decode(bytesOf(manifest({ skills: [skill(longest, { files: [file(longest)] })] })))
      )
      expect(await longErrorOf(manifest({ skills: [skill(`${longest}a`)] }))).toMatchObject({ check: "skill-name" })
      const content = manifest({ skills: [skill("alpha", { files: [file(`${longest}a`)] })] })
      expect(await longErrorOf(content)).toMatchObject({ check: "file-path" })
    })

    it.live("lets other work run while long names are compared", () =>
      Effect.gen(function* () {
        const common = "a".repeat(60_000)
        const long = Array.from({ length: 100 }, (_, index) => file(`${common}${String(index).padStart(3, "0")}`))
        const bytes = bytesOf(manifest({ skills: [skill("alpha", { files: long })] }))
        const unsafe = bytesOf(manifest({ skills: [skill("..", { files: long })] }))
        const turnsUntilNames = yield* turnsDuring(Effect.either(Manifest.decode(unsafe)))
        expect(yield* turnsDuring(Manifest.decode(bytes))).toBeGreaterThan(turnsUntilNames + 10)
      })
    )
  })

  describe("revision", () => {
    it("takes the manifest's own where none is expected", () => {
      expect(Effect.runSync(Manifest.decode(bytesOf(manifest({ revision: "r9" })))).revision).toBe("r9")
    })

    it("refuses another one than the response's", () => {
      expect(errorOf(manifest({ revision: "r2" }))).toMatchObject(invalid("manifest-revision", "manifest.json"))
      expect(errorOf(manifest({ revision: "R1" }))).toMatchObject(invalid("manifest-revision", "manifest.json"))
    })

    it.each(["", " ", "\t\u3000", "a\ud800"])("refuses %j, blank or not well-formed", (revision) => {
      expect(errorOf(manifest({ revision }), revision)).toMatchObject(
        invalid("manifest-shape", "manifest.json: revision")
      )
    })
  })

  // Cases by what they are, because a path component and a skill's name keep the same rules.
  const badComponents: ReadonlyArray<readonly [string, string]> = [
    ["", ""],
    [".", "."],
    ["..", ".."],
    ["a\\b", "a\\u{5c}b"],
    ["C:", "C:"],
    ["a\u0000", "a\\u{0}"],
    ["a\u007f", "a\\u{7f}"],
    ["a\u0085", "a\\u{85}"],
    ["a\ud800", "a\\u{d800}"],
    ["\udc00a", "\\u{dc00}a"]
  ]
  const goodComponents = [
    "a",
    "...",
    "..a",
    "a.",
    " ",
    "ab:c",
    "1:",
    "é",
    "e\u0301",
    "\ufeffa",
    "\u{10ffff}",
    "SKILL.md",
    "__proto__"
  ]

  describe("skill names", () => {
    it.each(goodComponents)("accepts %j", (name) => {
      expect(Either.isRight(decode(manifest({ skills: [skill(name)] })))).toBe(true)
    })

    it.each([...badComponents, ["a/b", "a/b"] as const, ["/", "/"] as const])("refuses %j", (name, shown) => {
      expect(errorOf(manifest({ skills: [skill(name)] }))).toMatchObject(invalid("skill-name", shown))
    })

    it("accepts the order of their UTF-8 bytes, which is not that of UTF-16", () => {
      expect(
        Either.isRight(
          decode(manifest({ skills: ["B", "a", "a-", "a0", "\ue000", "\u{10000}"].map((name) => skill(name)) }))
        )
      ).toBe(true)
    })

    it.each([
      ["a", "B"],
      ["ab", "a"],
      ["\u{10000}", "\uff5e"],
      ["a", "a"]
    ])("refuses %j before %j", (left, right) => {
      expect(errorOf(manifest({ skills: [skill(left), skill(right)] }))).toMatchObject(invalid("skill-order", right))
    })
  })

  describe("file paths", () => {
    const withPaths = (...paths: ReadonlyArray<string>) =>
      manifest({ skills: [skill("alpha", { files: paths.map((path) => file(path)) })] })

    it.each([...goodComponents, "a/b/c", "a/C:", "docs/SKILL.md"])("accepts %j", (path) => {
      expect(Either.isRight(decode(withPaths(path)))).toBe(true)
    })

    it.each([
      ...badComponents,
      ...badComponents.filter(([path]) => path !== "C:").map(([path, shown]) => [`d/${path}`, `d/${shown}`] as const),
      ["a//b", "a//b"] as const,
      ["/a", "/a"] as const,
      ["a/", "a/"] as const,
      ["a/../b", "a/../b"] as const
    ])("refuses %j", (path, shown) => {
      expect(errorOf(withPaths(path))).toMatchObject(invalid("file-path", `alpha/${shown}`))
    })

    it("accepts the order of their UTF-8 bytes in each skill", () => {
      expect(Either.isRight(decode(withPaths("SKILL.md", "a-b", "a/b", "a0", "\ue000", "\u{10000}")))).toBe(true)
    })

    it.each([
      ["a/b", "a-b"],
      ["\u{10000}", "\uff5e"],
      ["a", "a"]
    ])("refuses %j before %j", (left, right) => {
      expect(errorOf(withPaths(left, right))).toMatchObject(invalid("file-order", `alpha/${right}`))
    })
  })

  it("never throws, whatever the bytes are", () => {
    const options = { seed: 20_260_101, numRuns: 3000 }
    console.log(`fast-check seed ${options.seed}`)
    const valid = Buffer.from(JSON.stringify(manifest({ skills: [skill("alpha"), skill("beta")] })))
    const patched = fc
      .array(fc.tuple(fc.nat(valid.length - 1), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 4 })
      .map((patches) => {
        const bytes = Uint8Array.from(valid)
        for (const [at, byte] of patches) bytes[at] = byte
        return bytes
      })
    const json = fc
      .record({
        schemaVersion: fc.oneof(fc.constant(1), fc.jsonValue()),
        revision: fc.oneof(fc.constant("r1"), fc.jsonValue()),
        skills: fc.oneof(fc.jsonValue(), fc.array(fc.oneof(fc.constant(skill("alpha")), fc.jsonValue())))
      })
      .map(bytesOf)
    fc.assert(
      fc.property(fc.oneof(patched, json, fc.uint8Array()), (bytes) => {
        expect(Either.isEither(decode(bytes))).toBe(true)
      }),
      options
    )
  })
})
