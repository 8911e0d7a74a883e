import { assert, describe, inject, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as fc from "fast-check"
import { deflateSync } from "fflate"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as ArchivePath from "../../src/archive/ArchivePath.js"
import * as Digest from "../../src/archive/Digest.js"
import * as Policy from "../../src/publishing/Policy.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import * as SkillPackage from "../../src/publishing/SkillPackage.js"
import { limits } from "../../src/publishing/Upload.js"
import { run } from "../support/Program.js"
import { check } from "../support/Seed.js"
import { greeting, loose, skillFile, type Tree, utf8, verdict, verdictOf, warningsOf, zip } from "../support/Uploads.js"

const oneByte = new Uint8Array(1)

/** The rest of a frontmatter that says this in double quotes. */
const described = (description: string) => `description: ${JSON.stringify(description)}`

/** Loose files, and the problems of uploading them. */
const behaviour = (title: string, tree: Tree, ...problems: ReadonlyArray<string>) =>
  it.effect(title, () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* verdictOf(tree), problems)
    })
  )

describe("the directory of loose files", () => {
  behaviour("files below one directory", greeting, "valid")
  behaviour("nothing", {}, "no-files")
  behaviour("files of two directories", { ...greeting, "other/a.md": "a", "other/b.md": "b" }, "other: one-directory")
  behaviour("a file beside the directory", { ...greeting, "README.md": "a" }, "README.md: one-directory")
  behaviour(
    "two directories without SKILL.md",
    { "a/x": "x", "b/y": "y" },
    "a: one-directory",
    "b: one-directory",
    "skill-file"
  )
  behaviour("SKILL.md at the root and nothing around it", { "SKILL.md": skillFile() }, "valid")
  behaviour("SKILL.md at the root beside a directory", { "SKILL.md": skillFile(), "docs/a.md": "a" }, "valid")
  behaviour("a directory of the skill's name in other case", { "Greeting/SKILL.md": skillFile() }, "valid")
  behaviour("an underscore in place of a hyphen", { "two_words/SKILL.md": skillFile("two-words") }, "valid")
  behaviour("a directory of another name", { "hello/SKILL.md": skillFile() }, "hello/SKILL.md: directory-name")
  behaviour("a second SKILL.md deeper in the skill", { ...greeting, "greeting/examples/SKILL.md": "x" }, "valid")
  behaviour(
    "several skills",
    { "a/SKILL.md": skillFile("a"), "b/SKILL.md": skillFile("b"), "c/d/SKILL.md": "no frontmatter" },
    "several-skills"
  )
  behaviour(
    "a skill at the root and others below it",
    { "SKILL.md": skillFile(), "a/SKILL.md": skillFile("a"), "b/SKILL.md": skillFile("b") },
    "several-skills"
  )
  behaviour(
    "several skills in one directory",
    { "skills/a/SKILL.md": skillFile("a"), "skills/b/SKILL.md": skillFile("b") },
    "several-skills"
  )
  behaviour(
    "a repository around the skill",
    { "repo-main/greeting/SKILL.md": skillFile(), "repo-main/README.md": "x" },
    "repo-main/greeting/SKILL.md: wrapper-directory"
  )
  behaviour(
    "a repository around a skill that has another SKILL.md among its examples",
    { "repo-main/greeting/examples/SKILL.md": "x", "repo-main/greeting/SKILL.md": skillFile() },
    "repo-main/greeting/SKILL.md: wrapper-directory"
  )
  behaviour(
    "a file beside a skill that has another SKILL.md among its examples",
    { ...greeting, "greeting/examples/SKILL.md": "x", "README.md": "a" },
    "README.md: one-directory"
  )
})

describe("the paths of loose files", () => {
  behaviour("a path from the root", { "/greeting/SKILL.md": skillFile() }, "/greeting/SKILL.md: path-segment")
  behaviour("an empty part", { ...greeting, "greeting//a": "a" }, "greeting//a: path-segment")
  behaviour("a dot", { ...greeting, "greeting/./a": "a" }, "greeting/./a: path-segment")
  behaviour("a parent", { ...greeting, "greeting/../a": "a" }, "greeting/../a: path-segment")
  behaviour("a parent, leaving", { ...greeting, "../a": "a" }, "../a: path-segment")
  behaviour("a slash at the end", { ...greeting, "greeting/a/": "a" }, "greeting/a/: path-segment")
  behaviour("no path at all", { ...greeting, "": "a" }, ": path-segment")
  behaviour("a NUL", { ...greeting, "greeting/a\0b": "a" }, "greeting/a\\u{0}b: path-nul")
  behaviour("half a surrogate pair", { ...greeting, "greeting/\ud800": "a" }, "greeting/\\u{d800}: path-encoding")
  behaviour(
    "backslashes of a Windows tool",
    { "greeting\\SKILL.md": skillFile(), "greeting\\docs\\a.md": "a" },
    "greeting\\u{5c}SKILL.md: path-backslash",
    "greeting\\u{5c}docs\\u{5c}a.md: path-backslash"
  )
  behaviour(
    "backslashes and a parent",
    { ...greeting, "greeting\\..\\a": "a" },
    "greeting\\u{5c}..\\u{5c}a: path-backslash",
    "greeting\\u{5c}..\\u{5c}a: path-segment"
  )
  behaviour("dots that are a name", { ...greeting, "greeting/...": "a", "greeting/..a/b..": "a" }, "valid")
  behaviour(
    "a file with the path of a directory",
    { ...greeting, "greeting/a": "a", "greeting/a/b": "b" },
    "greeting/a: file-and-directory"
  )
  behaviour(
    "a file with the start of another's name",
    { ...greeting, "greeting/a": "a", "greeting/a-b/c": "b" },
    "valid"
  )
})

describe("the SKILL.md of loose files", () => {
  behaviour("none", { "greeting/a.md": "a" }, "greeting: skill-file")
  behaviour("in lower case", { "greeting/skill.md": skillFile() }, "greeting/skill.md: skill-file")
  behaviour("a directory", { "greeting/SKILL.md/a": "a" }, "greeting/SKILL.md: skill-file")
  behaviour(
    "not UTF-8",
    { "greeting/SKILL.md": Buffer.from(skillFile().replace("hello", "h\u00e9llo"), "latin1") },
    "greeting/SKILL.md: skill-file-encoding"
  )
  behaviour(
    "not UTF-8 in its frontmatter",
    { "greeting/SKILL.md": Buffer.from(skillFile("greeting", "description: \u00e9"), "latin1") },
    "greeting/SKILL.md: skill-file-encoding"
  )
  behaviour("without frontmatter", { "greeting/SKILL.md": "# Greeting\n" }, "greeting/SKILL.md: frontmatter-missing")
  behaviour("empty", { "greeting/SKILL.md": "" }, "greeting/SKILL.md: frontmatter-missing")
  behaviour(
    "with nothing in its frontmatter that counts",
    { "greeting/SKILL.md": "---\nkey: value\n---\n" },
    "greeting/SKILL.md: name-missing",
    "greeting/SKILL.md: description-missing"
  )
  behaviour(
    "of unknown keys too",
    { "greeting/SKILL.md": skillFile("greeting", "description: x\nversion: 1\nnested: {a: [1]}") },
    "valid"
  )
  behaviour(
    "with all of it wrong",
    { "greeting/SKILL.md": skillFile(`Claude_${"x".repeat(64)}`, described(`<b>\0${"x".repeat(1024)}`)) },
    "greeting/SKILL.md: name-length",
    "greeting/SKILL.md: name-format",
    "greeting/SKILL.md: description-length",
    "greeting/SKILL.md: description-text",
    "greeting/SKILL.md: description-tags",
    "greeting/SKILL.md: name-reserved",
    "greeting/SKILL.md: directory-name"
  )
})

describe("several problems of loose files", () => {
  behaviour(
    "in paths, in the layout and in SKILL.md",
    {
      "hello/SKILL.md": skillFile("Greeting", "description:"),
      "hello/a\\b": "a",
      "hello/../c": "c",
      "other/d": "d"
    },
    "hello/a\\u{5c}b: path-backslash",
    "hello/../c: path-segment",
    "other: one-directory",
    "hello/SKILL.md: name-format",
    "hello/SKILL.md: description-missing",
    "hello/SKILL.md: directory-name"
  )
})

describe("messages", () => {
  const message = (tree: Tree) =>
    Effect.map(Effect.flip(SkillBundle.fromFiles(loose(tree))), ({ problems }) => problems.map((one) => one.message))

  it.effect("of several skills say how many, and what to do", () =>
    Effect.gen(function* () {
      const five = Object.fromEntries(["a", "b", "c", "d", "e"].map((name) => [`${name}/SKILL.md`, skillFile(name)]))
      assert.deepStrictEqual(yield* message(five), [
        "the upload contains 5 SKILL.md files: upload one skill, or import the directory"
      ])
    })
  )

  it.effect("of a wrapper say which directory to upload", () =>
    Effect.gen(function* () {
      const [said = ""] = yield* message({ "repo-main/skills/greeting/SKILL.md": skillFile() })
      assert.include(said, "upload repo-main/skills/greeting without repo-main around it")
    })
  )

  it.effect("of another directory give both names, and say what a download of a repository did", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* message({ "hello/SKILL.md": skillFile() }), [
        'has a directory whose name is not that of its frontmatter: "greeting", not "hello"'
      ])
      const [said = ""] = yield* message({ "greeting-main/SKILL.md": skillFile() })
      assert.include(said, "Downloads of a repository add a branch or a version to it")
    })
  )

  it.effect("of backslashes say where they come from", () =>
    Effect.gen(function* () {
      const [said = ""] = yield* message({ "greeting\\SKILL.md": skillFile() })
      assert.include(said, "some Windows tools write them")
    })
  )

  it.effect("of the error list every problem, each with file and rule", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(SkillBundle.fromFiles(loose({ "a/x": "x", "b/y": "y" })))
      assert.strictEqual(error._tag, "INVALID_UPLOAD")
      assert.strictEqual(
        error.message,
        "The upload is not valid: " +
          "a: all files must be in one directory, and this is not in one directory [one-directory]; " +
          "b: all files must be in one directory, and this is not in one directory [one-directory]; " +
          "the upload has no SKILL.md [skill-file]"
      )
    })
  )

  it.effect("quote no file content, and escape every path", () =>
    Effect.gen(function* () {
      const tree = {
        "greeting/SKILL.md": skillFile("SECRET ONE", "description: [SECRET\n*SECRET : &SECRET"),
        "greeting/\u001b[31m\\": "a"
      }
      const error = yield* Effect.flip(SkillBundle.fromFiles(loose(tree)))
      assert.isAbove(error.problems.length, 1)
      assert.notInclude(JSON.stringify(error), "SECRET")
      assert.notMatch(error.message, /\p{Cc}/u)
    })
  )
})

describe("bounds", () => {
  it.effect("30 MiB of content pass, a byte more does not", () =>
    Effect.gen(function* () {
      const text = utf8(skillFile())
      const rest = new Uint8Array(limits.totalBytes - text.length)
      assert.strictEqual(limits.totalBytes, 31_457_280)
      assert.deepStrictEqual(yield* verdictOf({ "greeting/SKILL.md": text, "greeting/a": rest }), ["valid"])
      assert.deepStrictEqual(
        yield* verdictOf({ "greeting/SKILL.md": text, "greeting/a": rest, "greeting/b": oneByte }),
        ["total-size"]
      )
    })
  )

  const many = (count: number): Tree => ({
    "greeting/SKILL.md": skillFile(),
    ...Object.fromEntries(Array.from({ length: count - 1 }, (_, index) => [`greeting/${index}`, ""]))
  })

  it.effect("10,000 files pass, one more does not", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* verdictOf(many(10_000)), ["valid"])
      assert.deepStrictEqual(yield* verdictOf(many(10_001)), ["member-count"])
      const last = Object.fromEntries(Object.entries(many(10_001)).toReversed())
      assert.deepStrictEqual(yield* verdictOf(last), ["member-count"])
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(zip(many(10_001)))), ["member-count"])
    })
  )

  it.effect(
    "an archive that declares more than 30 MiB is not decoded, and its SKILL.md is looked at all the same",
    () =>
      Effect.gen(function* () {
        const zeros = { name: "greeting/zeros", content: new Uint8Array(limits.totalBytes), method: 8 }
        const tree = { "greeting/SKILL.md": skillFile("Greeting") }
        assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(zip(tree, [zeros]))), [
          "total-size",
          "greeting/SKILL.md: name-format"
        ])
      })
  )

  it.effect("an archive of more than 64 MiB is not read", () =>
    Effect.gen(function* () {
      const archive = new Uint8Array(limits.archiveBytes + 1)
      archive.set(zip(greeting).subarray(0, 4))
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(archive)), ["archive-size"])
    })
  )

  it.effect("an archive that decodes to more than it declares is stopped there", () =>
    Effect.gen(function* () {
      const bomb = RawZip.build({
        entries: [
          { name: "greeting/SKILL.md", content: utf8(skillFile()) },
          {
            name: "greeting/zeros",
            content: new Uint8Array(1 << 20),
            method: 8,
            central: { size: 1000 },
            local: { size: 1000 }
          }
        ]
      })
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(bomb)), ["greeting/zeros: archive-entry"])
    })
  )
})

describe("an archive", () => {
  it.effect("that has the canonical form is kept byte for byte", () =>
    Effect.gen(function* () {
      const archive = zip({ "greeting/": "", ...greeting, "greeting/empty/": "" })
      const bundle = yield* SkillBundle.fromZip(archive)
      assert.deepStrictEqual(bundle.archive, archive)
      assert.strictEqual(bundle.sha256, Digest.sha256HexSync(archive))
      assert.deepStrictEqual(bundle.warnings, [])
      assert.deepStrictEqual(
        bundle.files.map(({ path }) => path),
        ["SKILL.md", "references/tone.md"]
      )
      const packed = yield* SkillBundle.fromFiles(loose(greeting))
      assert.notStrictEqual(packed.sha256, bundle.sha256)
      assert.deepStrictEqual(packed.files, bundle.files)
    })
  )

  it.effect("is taken for one by its magic when it is the only file, whatever its name", () =>
    Effect.gen(function* () {
      const archive = zip(greeting)
      const bundle = yield* SkillBundle.fromFiles([{ path: "upload.bin", bytes: archive }])
      assert.deepStrictEqual(bundle.archive, archive)
    })
  )

  it.effect("is a file like any other beside SKILL.md", () =>
    Effect.gen(function* () {
      const bundle = yield* SkillBundle.fromFiles(loose({ ...greeting, "greeting/assets/a.zip": zip(greeting) }))
      assert.strictEqual(bundle.files.length, 3)
    })
  )

  it.effect("of a Buffer is kept as plain bytes", () =>
    Effect.gen(function* () {
      const bundle = yield* SkillBundle.fromZip(Buffer.from(zip(greeting)))
      assert.strictEqual(Object.getPrototypeOf(bundle.archive), Uint8Array.prototype)
    })
  )

  it.effect("with what macOS adds is packed again without it", () =>
    Effect.gen(function* () {
      const bundle = yield* SkillBundle.fromZip(
        zip({
          ...greeting,
          "greeting/.DS_Store": "x",
          "__MACOSX/": "",
          "__MACOSX/greeting/._SKILL.md": "x"
        })
      )
      assert.deepStrictEqual(warningsOf(bundle), [
        "repacked",
        "greeting/.DS_Store: ignored-member",
        "__MACOSX: ignored-member",
        "__MACOSX/greeting/._SKILL.md: ignored-member"
      ])
      assert.deepStrictEqual(bundle.archive, (yield* SkillBundle.fromFiles(loose(greeting))).archive)
    })
  )

  it.effect("with something to ignore in the skill's own directory is packed again too", () =>
    Effect.gen(function* () {
      const bundle = yield* SkillBundle.fromZip(zip({ ...greeting, "greeting/.DS_Store": "x" }))
      assert.deepStrictEqual(warningsOf(bundle), ["repacked", "greeting/.DS_Store: ignored-member"])
      assert.deepStrictEqual(bundle.archive, (yield* SkillBundle.fromFiles(loose(greeting))).archive)
    })
  )

  it.effect("without a directory gets one of the skill's name", () =>
    Effect.gen(function* () {
      const bundle = yield* SkillBundle.fromZip(
        zip({ "SKILL.md": skillFile(), "references/tone.md": "Warm, short.\n" })
      )
      assert.deepStrictEqual(warningsOf(bundle), ["directory-added", "repacked"])
      assert.strictEqual(bundle.directory, "greeting")
      const packed = yield* SkillBundle.fromFiles(loose(greeting))
      assert.deepStrictEqual(bundle.archive, packed.archive)
      assert.deepStrictEqual(bundle.files, packed.files)
    })
  )

  it.effect("with an empty directory beside the skill is packed again without it", () =>
    Effect.gen(function* () {
      const bundle = yield* SkillBundle.fromZip(zip({ ...greeting, "other/": "" }))
      assert.deepStrictEqual(warningsOf(bundle), ["repacked"])
      assert.deepStrictEqual(bundle.archive, (yield* SkillBundle.fromFiles(loose(greeting))).archive)
    })
  )

  const text = utf8("Say hello, and hello again.\n")
  const unicodePath = RawZip.extraField(0x7075, utf8("\u0001\u0000\u0000\u0000\u0000../../evil.md"))
  const hidden = zip({ "../evil.md": "evil" }).subarray(0, 44)
  const more = (entry: Partial<RawZip.RawEntry>): RawZip.RawArchive => ({
    entries: [
      { name: "greeting/SKILL.md", content: utf8(skillFile()), method: 8 },
      { name: "greeting/more.md", content: text, method: 8, ...entry }
    ]
  })
  /** Its sizes are those of the text and of its deflate stream. */
  const otherDescriptor = Uint8Array.of(
    0x50,
    0x4b,
    7,
    8,
    1,
    2,
    3,
    4,
    deflateSync(text, { level: 6, mem: 4 }).length,
    0,
    0,
    0,
    text.length,
    0,
    0,
    0
  )
  const seenOtherwise: Readonly<Record<string, RawZip.RawArchive>> = {
    "another name in the central header": more({ central: { extra: unicodePath } }),
    "another name in the local header": more({ local: { extra: unicodePath } }),
    "an extra field that nobody knows": more({ central: { extra: RawZip.extraField(0x4141, text) } }),
    "an extra field that runs past its end": more({ local: { extra: Uint8Array.of(0x55, 0x54, 9, 0, 1) } }),
    "a name outside of ASCII that is not said to be UTF-8": more({ name: "greeting/gr\u00fc\u00dfe.md" }),
    "a flag that changes what the data are": more({ flags: 0x0020 }),
    "another CRC-32 in the local header": more({ local: { crc: 1 } }),
    "another CRC-32 in the data descriptor": more({ descriptor: otherDescriptor }),
    "a CRC-32 before the data and one behind them": more({ descriptor: "signed", local: { crc: 1 } }),
    "compressed sizes before the data and behind them": more({ descriptor: "unsigned", local: { compressedSize: 1 } }),
    "sizes before the data and behind them": more({ descriptor: "unsigned", local: { size: 1 } }),
    "stored data of which only a descriptor tells the end": more({ descriptor: "signed", method: 0 }),
    "an entry between two others that the directory does not list": more({ gap: hidden }),
    "an entry behind the last": { ...more({}), beforeDirectory: hidden },
    "an entry before the first": { ...more({}), prefix: hidden },
    "a comment behind its members": { ...more({}), comment: text },
    "a comment of a member": more({ central: { comment: text } }),
    "rights of its owner for whoever runs it": more({ mode: 0o104755 }),
    "data of a directory": more({
      name: "greeting/more/",
      content: new Uint8Array(0),
      data: deflateSync(new Uint8Array(0))
    }),
    "a directory for DOS, a file for others": more({ central: { externalAttributes: 0x10 } }),
    "a directory for Unix, a file for others": more({ content: new Uint8Array(0), method: 0, mode: 0o040755 })
  }
  for (const [what, raw] of Object.entries(seenOtherwise)) {
    it.effect(`with ${what} is packed again, so that all readers see what was validated`, () =>
      Effect.gen(function* () {
        const archive = RawZip.build(raw)
        const bundle = yield* SkillBundle.fromZip(archive)
        assert.deepStrictEqual(warningsOf(bundle), ["repacked"])
        const { files } = yield* SkillPackage.extract(archive)
        const again = files.map(({ bytes, path }) => ({ path: `greeting/${path}`, bytes }))
        assert.deepStrictEqual(bundle.archive, (yield* SkillBundle.fromFiles(again)).archive)
      })
    )
  }

  it.effect("with what all readers see alike is kept byte for byte", () =>
    Effect.gen(function* () {
      const times = RawZip.extraField(0x5455, Uint8Array.of(3, 0, 0, 0, 0, 0, 0, 0, 0))
      const owners = RawZip.extraField(0x7875, Uint8Array.of(1, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0))
      const alike: ReadonlyArray<RawZip.RawArchive> = [
        more({}),
        more({ local: { extra: RawZip.concat([times, owners]) }, central: { extra: RawZip.concat([times, owners]) } }),
        more({ zip64: true }),
        more({ name: "greeting/gr\u00fc\u00dfe.md", flags: 0x0800 }),
        more({ flags: 0x0006 }),
        more({ descriptor: "signed", local: { size: text.length } }),
        { ...more({}), directoryOrder: [1, 0] },
        ...(["signed", "unsigned", "signed64", "unsigned64"] as const).map((kind) => more({ descriptor: kind }))
      ]
      for (const [index, raw] of alike.entries()) {
        const archive = RawZip.build(raw)
        const bundle = yield* SkillBundle.fromZip(archive)
        assert.deepStrictEqual(warningsOf(bundle), [], String(index))
        assert.deepStrictEqual(bundle.archive, archive, String(index))
      }
    })
  )

  it.effect("whose local header has another name, or another flag for it, is refused", () =>
    Effect.gen(function* () {
      for (const local of [{ name: "greeting/evil.md" }, { flags: 0x0800 }, { method: 0 }]) {
        const { entries } = more({ local })
        assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(RawZip.build({ entries }))), [
          "greeting/more.md: archive-format"
        ])
      }
    })
  )

  const member = (entry: RawZip.RawEntry) => verdict(SkillBundle.fromZip(zip(greeting, [entry])))

  it.effect("with links and devices names each of them", () =>
    Effect.gen(function* () {
      const link = { name: "greeting/link", content: utf8("/etc/passwd"), mode: 0o120777 }
      const fifo = { name: "greeting/fifo", mode: 0o010644 }
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(zip(greeting, [link, fifo]))), [
        "greeting/link: link",
        "greeting/fifo: special-file"
      ])
    })
  )

  it.effect("whose SKILL.md is a link says that it must be a file", () =>
    Effect.gen(function* () {
      const archive = zip({ "greeting/a.md": "a" }, [
        { name: "greeting/SKILL.md", content: utf8("a.md"), mode: 0o120777 }
      ])
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(archive)), [
        "greeting/SKILL.md: link",
        "greeting/SKILL.md: skill-file"
      ])
    })
  )

  it.effect("with a name that is not UTF-8, or is there twice, says so", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* member({ name: Uint8Array.from([...utf8("greeting/"), 0xe9]) }), [
        "greeting/\ufffd: path-encoding"
      ])
      assert.deepStrictEqual(yield* member({ name: "greeting/SKILL.md", content: utf8("x") }), [
        "greeting/SKILL.md: duplicate-path"
      ])
      assert.deepStrictEqual(yield* member({ name: "greeting/SKILL.md/" }), ["greeting/SKILL.md: file-and-directory"])
    })
  )

  it.effect("with hostile names is refused, in ignored directories too", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* member({ name: "__MACOSX/../../a" }), ["__MACOSX/../../a: path-segment"])
      assert.deepStrictEqual(yield* member({ name: "greeting/../../a/" }), ["greeting/../../a: path-segment"])
    })
  )

  it.effect("that is damaged names the file", () =>
    Effect.gen(function* () {
      const content = utf8("Say hello. ".repeat(20))
      assert.deepStrictEqual(yield* member({ name: "greeting/a", content, method: 8, data: utf8("no deflate") }), [
        "greeting/a: archive-entry"
      ])
      assert.deepStrictEqual(yield* member({ name: "greeting/a", content, central: { crc: 1 } }), [
        "greeting/a: archive-entry"
      ])
      assert.deepStrictEqual(yield* member({ name: "greeting/a", flags: 1 }), ["greeting/a: archive-format"])
    })
  )

  it.effect("that is cut short, or is none, says so", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(zip(greeting).subarray(0, 100))), ["archive-format"])
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromZip(utf8("hello"))), ["archive-format"])
    })
  )

  it("of any bytes behind the magic gets a verdict", { timeout: 60_000 }, () => {
    const original = zip({ ...greeting, "greeting/.DS_Store": "x" })
    return check(
      [fc.array(fc.tuple(fc.nat(original.length - 5), fc.nat(255)), { minLength: 1, maxLength: 4 })],
      async (changes) => {
        const archive = original.slice()
        for (const [at, byte] of changes) archive[4 + at] = byte
        // A defect would reject the promise.
        await Effect.runPromise(Effect.either(SkillBundle.fromZip(archive)))
      },
      { numRuns: 1000 }
    )
  })
})

describe("warnings", () => {
  it.effect("are given together with problems too", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        SkillBundle.fromFiles(loose({ ...greeting, "greeting/.DS_Store": "", "greeting/con": "", "other/a": "" }))
      )
      assert.deepStrictEqual(warningsOf(error), ["greeting/.DS_Store: ignored-member", "greeting/con: windows-name"])
    })
  )

  const warned = (...paths: ReadonlyArray<string>) =>
    Effect.map(
      SkillBundle.fromFiles(
        loose({ ...greeting, ...Object.fromEntries(paths.map((path) => [`greeting/${path}`, ""])) })
      ),
      warningsOf
    )

  it.effect("name files and directories that differ only by case or Unicode form", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* warned("a.md", "A.md"), ["greeting/A.md: case-collision"])
      assert.deepStrictEqual(yield* warned("docs/a", "Docs/b"), ["greeting/Docs: case-collision"])
      assert.deepStrictEqual(yield* warned("\u00e9", "e\u0301"), ["greeting/e\u0301: case-collision"])
      assert.deepStrictEqual(yield* warned("a", "A/b"), ["greeting/A: case-collision"])
      assert.deepStrictEqual(yield* warned("a", "ab", "a-b"), [])
    })
  )

  it.effect("name what Windows has no files for", () =>
    Effect.gen(function* () {
      const names = ["con", "docs/AUX.md", "com1", "a:b", "what?", "end.", "end ", "line\nbreak"]
      assert.deepStrictEqual(
        (yield* warned(...names, "console", "com", "a.b", ".hidden", "com10")).toSorted(),
        names.map((name) => `greeting/${ArchivePath.display(name)}: windows-name`).toSorted()
      )
    })
  )
})

describe("policies", () => {
  it.effect("agent-skills asks for the very name of the directory, and hyphens between words", () =>
    Effect.gen(function* () {
      const strict = (tree: Tree) => verdictOf(tree, { policy: Policy.agentSkills })
      assert.deepStrictEqual(yield* strict(greeting), ["valid"])
      assert.deepStrictEqual(yield* strict({ "Greeting/SKILL.md": skillFile() }), ["Greeting/SKILL.md: directory-name"])
      assert.deepStrictEqual(yield* strict({ "a--b/SKILL.md": skillFile("a--b") }), ["a--b/SKILL.md: name-hyphens"])
      assert.deepStrictEqual(yield* verdictOf({ "a--b/SKILL.md": skillFile("a--b") }), ["valid"])
    })
  )

  it.effect("of one's own add their rules", () =>
    Effect.gen(function* () {
      const policy: Policy.Policy = {
        name: "ours",
        rules: [({ directory }) => (directory === "greeting" ? [{ rule: "policy", message: "no greetings" }] : [])]
      }
      assert.deepStrictEqual(yield* verdictOf(greeting, { policy }), ["greeting/SKILL.md: policy"])
      // The rules that every skill keeps are kept under it too; the reserved words were not its own.
      assert.deepStrictEqual(yield* verdictOf({ "x/SKILL.md": skillFile("Claude") }, { policy }), [
        "x/SKILL.md: name-format"
      ])
      assert.deepStrictEqual(yield* verdictOf({ "x/SKILL.md": skillFile("claude") }, { policy }), ["valid"])
    })
  )
})

describe("the canonical archive", () => {
  const sample: Tree = {
    "greeting/SKILL.md": skillFile(),
    "greeting/docs/gr\u00fc\u00dfe.md": "Guten Tag. ".repeat(200),
    "greeting/10": "ten",
    "greeting/9": "",
    "greeting/__proto__": "just a name",
    "greeting/\u{10000}": "after U+E000",
    "greeting/\ue000": "before U+10000",
    "greeting/line\nbreak": "a name that no container delivers",
    "greeting/random.bin": Uint8Array.from({ length: 5000 }, (_, index) => (index * index * 31) >> 3)
  }
  /** For good: stored archives and their digests hang on this. */
  const golden = "fa71947895b67195a76aa45e03f4b415d1bb3c829b590a21cbf8e0a3b0b0f855"

  it.effect(`has these bytes for good, on the ${inject("codec")} codec`, () =>
    Effect.gen(function* () {
      const first = yield* SkillBundle.fromFiles(loose(sample))
      const second = yield* SkillBundle.fromFiles(loose(sample).toReversed())
      assert.strictEqual(first.sha256, golden)
      assert.deepStrictEqual(second.archive, first.archive)
      assert.strictEqual(Digest.sha256HexSync(first.archive), golden)
    })
  )

  it("is the same in any order of the parts", { timeout: 60_000 }, () => {
    const all = loose(sample)
    const orders = fc.shuffledSubarray([...all.keys()], { minLength: all.length })
    return check([orders], async (order) => {
      const shuffled = order.flatMap((index) => all.slice(index, index + 1))
      assert.strictEqual((await Effect.runPromise(SkillBundle.fromFiles(shuffled))).sha256, golden)
    })
  })

  it.live("is the same in another time zone", () =>
    Effect.gen(function* () {
      const { stdout } = yield* run("test/support/PackProcess.ts", { TZ: "America/St_Johns" })
      const { sha256 } = yield* SkillBundle.fromFiles(loose(greeting))
      assert.strictEqual(stdout, `210 ${sha256}`)
    })
  )

  it("extracts to the files that it was packed of", { timeout: 60_000 }, () => {
    const component = fc
      .string({
        unit: fc.oneof(
          fc.constantFrom("a", "b", ".", "\u{10000}"),
          fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 })
        ),
        minLength: 1,
        maxLength: 5
      })
      .filter((some) => !/[/\\\0]/.test(some) && some !== "." && some !== "..")
    const path = fc.array(component, { minLength: 1, maxLength: 3 }).map((components) => components.join("/"))
    const content = fc.oneof(
      fc.uint8Array({ maxLength: 100 }),
      fc.tuple(fc.nat(255), fc.nat(2000)).map(([byte, length]) => new Uint8Array(length).fill(byte))
    )
    return check(
      [fc.uniqueArray(fc.record({ path, bytes: content }), { maxLength: 8, selector: (file) => file.path })],
      async (some) => {
        const files = [{ path: "SKILL.md", bytes: utf8(skillFile()) }, ...some]
        const uploaded = files.map((file) => ({ ...file, path: `greeting/${file.path}` }))
        const bundle = await Effect.runPromise(Effect.either(SkillBundle.fromFiles(uploaded)))
        fc.pre(Either.isRight(bundle) && !files.some((file) => ArchivePath.hasDrive(file.path)))
        const extracted = await Effect.runPromise(SkillPackage.extract(bundle.right.archive))
        assert.deepStrictEqual(
          extracted.files.map((file) => ({ ...file, bytes: new Uint8Array(file.bytes) })),
          files.toSorted((left, right) => Buffer.compare(Buffer.from(left.path), Buffer.from(right.path)))
        )
        assert.deepStrictEqual(
          bundle.right.files,
          extracted.files.map((file) => ({
            path: file.path,
            size: file.bytes.length,
            sha256: Digest.sha256HexSync(file.bytes)
          }))
        )
      }
    )
  })
})
