import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { deflateRawSync } from "node:zlib"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Either, Exit, Fiber, Ref, Stream } from "effect"
import * as fc from "fast-check"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as Digest from "../../src/archive/Digest.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import * as SkillPackage from "../../src/publishing/SkillPackage.js"
import { limits } from "../../src/publishing/Upload.js"
import { run } from "../support/Program.js"
import { check } from "../support/Seed.js"
import { greeting, loose, type Tree, utf8, zip } from "../support/Uploads.js"

const archive = zip(greeting)
const digest = Digest.sha256HexSync(archive)

describe("digest, key, header and magic", () => {
  it.effect("are those of the contract", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* SkillPackage.digest(utf8("abc")),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
      )
      assert.strictEqual(SkillPackage.blobKey("skill_01", "1759178010641129"), "skills/skill_01/1759178010641129.zip")
      assert.strictEqual(SkillPackage.digestHeader, "x-skill-archive-sha256")
    })
  )

  it("a ZIP is what starts with a local header's magic, and nothing shorter", () => {
    assert.isTrue(SkillPackage.isZip(archive))
    assert.isTrue(SkillPackage.isZip(utf8("PK\u0003\u0004")))
    for (const other of ["", "PK\u0003", "PK\u0005\u0006", "PK\u0007\u0008", " PK\u0003\u0004", "pk\u0003\u0004"]) {
      assert.isFalse(SkillPackage.isZip(utf8(other)), JSON.stringify(other))
    }
  })
})

describe("readArchive", () => {
  const inChunks = (bytes: Uint8Array, size: number) =>
    Stream.fromIterable(
      Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size)
      )
    )

  it.effect("gives bytes whose digest was recorded, in whatever case", () =>
    Effect.gen(function* () {
      for (const expected of [digest, digest.toUpperCase()]) {
        const read = yield* SkillPackage.readArchive(inChunks(archive, 7), expected)
        assert.deepStrictEqual(read, { bytes: archive, verified: true })
      }
    })
  )

  it.effect("says of bytes without a recorded digest that they are not verified", () =>
    Effect.gen(function* () {
      const read = yield* SkillPackage.readArchive(Stream.make(archive), "")
      assert.deepStrictEqual(read, { bytes: archive, verified: false })
      assert.deepStrictEqual(yield* SkillPackage.readArchive(Stream.empty, ""), {
        bytes: new Uint8Array(0),
        verified: false
      })
    })
  )

  it.effect("refuses every other expectation, malformed ones too", () =>
    Effect.gen(function* () {
      for (const expected of [digest.slice(1), `${digest} `, "0".repeat(64), " ", "sha256"]) {
        const error = yield* Effect.flip(SkillPackage.readArchive(Stream.make(archive), expected))
        assert.strictEqual(error._tag, "DIGEST_MISMATCH")
        assert.include(error.message, digest)
      }
    })
  )

  const chunk = new Uint8Array(1 << 20)

  it.effect("takes 64 MiB and closes the stream at a byte more", () =>
    Effect.gen(function* () {
      const pulled = yield* Ref.make(0)
      const closed = yield* Deferred.make<void>()
      const endless = Stream.repeatEffect(
        Effect.as(
          Ref.update(pulled, (count) => count + 1),
          chunk
        )
      ).pipe(Stream.ensuring(Deferred.succeed(closed, undefined)))
      const whole = yield* SkillPackage.readArchive(Stream.take(endless, 64), "")
      assert.strictEqual(whole.bytes.length, limits.archiveBytes)

      yield* Ref.set(pulled, 0)
      const error = yield* Effect.flip(SkillPackage.readArchive(endless, ""))
      assert.strictEqual(error._tag, "ARCHIVE_TOO_LARGE")
      assert.isTrue(yield* Deferred.isDone(closed))
      assert.strictEqual(yield* Ref.get(pulled), 65)
      const more = Stream.concat(Stream.take(endless, 64), Stream.make(new Uint8Array(1)))
      assert.strictEqual((yield* Effect.flip(SkillPackage.readArchive(more, "")))._tag, "ARCHIVE_TOO_LARGE")
    })
  )

  it.effect("hands on what the store fails with", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        SkillPackage.readArchive(Stream.concat(Stream.make(archive), Stream.fail("gone")), "")
      )
      assert.strictEqual(error, "gone")
    })
  )

  it.effect("closes the stream when it is interrupted", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const closed = yield* Deferred.make<void>()
      const hanging = Stream.fromEffect(Effect.zipRight(Deferred.succeed(started, undefined), Effect.never)).pipe(
        Stream.ensuring(Deferred.succeed(closed, undefined))
      )
      const fiber = yield* Effect.fork(SkillPackage.readArchive(hanging, ""))
      yield* Deferred.await(started)
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
      assert.isTrue(yield* Deferred.isDone(closed))
    })
  )

  it.effect("does not give what happens to the stream's chunks later", () =>
    Effect.gen(function* () {
      const reused = Uint8Array.of(1, 2, 3)
      const { bytes } = yield* SkillPackage.readArchive(Stream.make(reused), "")
      reused.fill(0)
      assert.deepStrictEqual(bytes, Uint8Array.of(1, 2, 3))
    })
  )

  it.effect("gives what was read where it was read to, and no copy, which would be as much again", () =>
    Effect.gen(function* () {
      const { bytes } = yield* SkillPackage.readArchive(Stream.take(Stream.repeatValue(chunk), 33), "")
      assert.strictEqual(bytes.length, 33 * chunk.length)
      assert.strictEqual(bytes.buffer.byteLength, limits.archiveBytes)
    })
  )
})

const extracted = (bytes: Uint8Array, within?: SkillPackage.ExtractLimits) =>
  Effect.map(Effect.either(SkillPackage.extract(bytes, within)), (result) =>
    Either.match(result, {
      onLeft: ({ check: broken, entry }): unknown => (entry === undefined ? broken : `${entry}: ${broken}`),
      onRight: ({ files }) => files.map(({ path }) => path)
    })
  )

describe("extract strips", () => {
  const behaviour = (title: string, tree: Tree, paths: ReadonlyArray<string>) =>
    it.effect(title, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* extracted(zip(tree)), paths)
      })
    )

  behaviour("the one directory of all members", greeting, ["SKILL.md", "references/tone.md"])
  behaviour("it with its own entry", { "greeting/": "", ...greeting, "greeting/empty/": "" }, [
    "SKILL.md",
    "references/tone.md"
  ])
  behaviour("one level of several", { "a/b/c": "", "a/b/d": "" }, ["b/c", "b/d"])
  behaviour("nothing of a flat archive", { "SKILL.md": "", b: "" }, ["SKILL.md", "b"])
  behaviour("nothing of a single file", { "SKILL.md": "" }, ["SKILL.md"])
  behaviour("nothing of several roots", { "a/b": "", "c/d": "" }, ["a/b", "c/d"])
  behaviour("nothing of a file beside the directory", { "a/b": "", ab: "" }, ["a/b", "ab"])
  behaviour("nothing of an empty directory beside the other", { "a/b": "", "c/": "" }, ["a/b"])
  behaviour("nothing of nothing", {}, [])

  it.effect("nothing where a link lies beside the directory", () =>
    Effect.gen(function* () {
      const beside = zip(greeting, [{ name: "link", content: utf8("/"), mode: 0o120777 }])
      assert.deepStrictEqual(yield* extracted(beside), Object.keys(greeting))
    })
  )
})

describe("extract", () => {
  it.effect("gives the bytes of stored and deflated members", () =>
    Effect.gen(function* () {
      const { files, skipped } = yield* SkillPackage.extract(
        zip(greeting, [{ name: "greeting/stored", content: Uint8Array.of(1, 2, 3) }])
      )
      assert.deepStrictEqual(
        files.map(({ bytes, path }) => [path, new Uint8Array(bytes)]),
        [
          ["SKILL.md", utf8(greeting["greeting/SKILL.md"])],
          ["references/tone.md", utf8(greeting["greeting/references/tone.md"])],
          ["stored", Uint8Array.of(1, 2, 3)]
        ]
      )
      assert.deepStrictEqual(skipped, [])
    })
  )

  it.effect("skips links, FIFOs and devices, and says so", () =>
    Effect.gen(function* () {
      const types = { link: 0o120777, fifo: 0o010644, character: 0o020644, block: 0o060644, socket: 0o140644 }
      const { files, skipped } = yield* SkillPackage.extract(
        zip(
          greeting,
          Object.entries(types).map(([name, mode]) => ({
            name: `greeting/${name}`,
            content: utf8("/etc/passwd"),
            mode
          }))
        )
      )
      assert.deepStrictEqual(
        files.map(({ path }) => path),
        ["SKILL.md", "references/tone.md"]
      )
      assert.deepStrictEqual(skipped, [
        { path: "link", reason: "link" },
        { path: "fifo", reason: "special-file" },
        { path: "character", reason: "special-file" },
        { path: "block", reason: "special-file" },
        { path: "socket", reason: "special-file" }
      ])
    })
  )

  it.effect("takes no directory for a file, whatever its name ends with", () =>
    Effect.gen(function* () {
      const odd = zip(greeting, [{ name: "greeting/docs", mode: 0o040755 }])
      assert.deepStrictEqual(yield* extracted(odd), ["SKILL.md", "references/tone.md"])
    })
  )

  const hostile: ReadonlyArray<readonly [what: string, name: string | Uint8Array, broken: string]> = [
    ["a parent", "../evil", "entry-path"],
    ["a parent in the middle", "greeting/../../evil", "entry-path"],
    ["a parent at the end", "greeting/..", "entry-path"],
    ["a parent as directory", "greeting/../", "entry-path"],
    ["a path from the root", "/etc/evil", "entry-path"],
    ["a path from the root, twice over", "//server/share", "entry-path"],
    ["a backslash", "greeting\\..\\..\\evil", "entry-path"],
    ["a path of a Windows server", "\\\\server\\share", "entry-path"],
    ["a drive", "C:/evil", "entry-path"],
    ["a drive without a slash", "c:evil", "entry-path"],
    ["a dot", "./evil", "entry-path"],
    ["an empty part", "greeting//evil", "entry-path"],
    ["no name", "", "entry-path"],
    ["a slash", "/", "entry-path"],
    ["a NUL", "greeting/evil\0.md", "entry-path"],
    ["bytes that are not UTF-8", Uint8Array.of(0x2e, 0xc0, 0xae, 0x2f, 0x61), "entry-name"],
    ["an encoded surrogate", Uint8Array.of(0xed, 0xa0, 0x80), "entry-name"],
    ["a name that is there already", "greeting/SKILL.md", "duplicate-entry"],
    ["a directory of a file's name", "greeting/SKILL.md/", "file-and-directory"],
    ["a file below a file", "greeting/SKILL.md/a", "file-and-directory"],
    ["a file of a directory's name", "greeting/references", "file-and-directory"]
  ]
  const modes = [
    ["file", undefined],
    ["link", 0o120777]
  ] as const
  for (const [what, name, broken] of hostile) {
    for (const [kind, mode] of modes) {
      it.effect(`refuses the whole archive for one ${kind} with ${what}`, () =>
        Effect.gen(function* () {
          const entry = mode === undefined || String(name).endsWith("/") ? { name } : { name, mode }
          const result = yield* Effect.flip(SkillPackage.extract(zip(greeting, [entry])))
          assert.strictEqual(result._tag, "INVALID_ARCHIVE")
          assert.strictEqual(result.check, broken)
        })
      )
    }
  }

  it("gives no path that leaves the directory it is joined to, of any names", { timeout: 60_000 }, () => {
    const component = fc.constantFrom("..", ".", "", "a", "C:", "c:x", "\\", "a\\..", "\0", "...", "\u{10000}", "..\\")
    const name = fc.array(component, { minLength: 1, maxLength: 4 }).map((components) => components.join("/"))
    return check([fc.uniqueArray(name, { minLength: 1, maxLength: 4 })], async (names) => {
      const built = RawZip.build({ entries: names.map((some) => ({ name: some })) })
      const result = await Effect.runPromise(Effect.either(SkillPackage.extract(built)))
      const isHostile = (some: string) =>
        some.includes("\\") ||
        some.includes("\0") ||
        some.split("/").some((part) => part === ".." || part === "." || part === "")
      if (Either.isLeft(result)) return
      assert.deepStrictEqual(result.right.files.map(({ path }) => path).filter(isHostile), [])
      const isDrive = (some: string) => /^[a-z]:/i.test(some)
      const archived = names.map((some) => some.replace(/\/$/, ""))
      assert.deepStrictEqual(
        archived.filter((some) => isHostile(some) || isDrive(some)),
        []
      )
    })
  })

  it.effect("takes whatever an upload may be called below its directory", () =>
    Effect.gen(function* () {
      const tree = {
        ...greeting,
        "greeting/a:b": "1",
        "greeting/con": "2",
        "greeting/end.": "3",
        "greeting/a\u0001": "4"
      }
      const { archive: packed } = yield* SkillBundle.fromFiles(loose(tree))
      assert.deepStrictEqual(yield* extracted(packed), [
        "SKILL.md",
        "a\u0001",
        "a:b",
        "con",
        "end.",
        "references/tone.md"
      ])
    })
  )

  it.effect("refuses more than 10,000 members, whatever they are", () =>
    Effect.gen(function* () {
      const of = (count: number) =>
        RawZip.build({
          entries: Array.from({ length: count }, (_, index) => ({ name: `a/${index}${index % 2 ? "/" : ""}` }))
        })
      assert.strictEqual(yield* extracted(of(10_001)), "entry-count")
      assert.strictEqual((yield* SkillPackage.extract(of(10_000))).files.length, 5000)
    })
  )

  it.effect("counts what is produced, not what is declared", () =>
    Effect.gen(function* () {
      const within = { members: 10, bytes: 1000 }
      const zeros = (declared: number, length: number): RawZip.RawEntry => ({
        name: "a",
        content: new Uint8Array(length),
        method: 8,
        central: { size: declared },
        local: { size: declared }
      })
      const one = (entry: RawZip.RawEntry) => extracted(RawZip.build({ entries: [entry] }), within)
      assert.deepStrictEqual(yield* one(zeros(1000, 1000)), ["a"])
      assert.strictEqual(yield* one(zeros(1001, 1001)), "a: decoded-size")
      assert.strictEqual(yield* one(zeros(10, 1001)), "a: entry-size")
      assert.strictEqual(yield* one(zeros(0, 1)), "a: entry-size")
      assert.strictEqual(yield* one(zeros(1000, 999)), "a: entry-size")
      assert.strictEqual(
        yield* extracted(zip({ "a/a": new Uint8Array(600), "a/b": new Uint8Array(600) }), within),
        "b: decoded-size"
      )
      // A link is not decoded, and so does not count.
      const link = { name: "a/link", content: new Uint8Array(1000), mode: 0o120777 }
      assert.deepStrictEqual(yield* extracted(zip({ "a/a": new Uint8Array(600) }, [link]), within), ["a"])
    })
  )

  const mebibyte = 1024 * 1024
  const bombs = (): ReadonlyArray<readonly [what: string, archive: RawZip.RawArchive, verdict: string]> => {
    const member = deflateRawSync(new Uint8Array(32 * mebibyte))
    const entry = (name: string, size: number, data: Uint8Array): RawZip.RawEntry => ({
      name,
      method: 8,
      data,
      central: { size },
      local: { size }
    })
    const members = (size: number, length = 33) =>
      Array.from({ length }, (_, index) => entry(`bomb/${index}`, size, member))
    const gibibyte = deflateRawSync(new Uint8Array(1024 * mebibyte - 1))
    return [
      ["many members that declare 1 GiB and more together", { entries: members(32 * mebibyte) }, "decoded-size"],
      ["many members that declare little", { entries: members(1000) }, "entry-size"],
      [
        "honest members of almost 1 GiB and a liar",
        { entries: [...members(32 * mebibyte, 31), entry("bomb/liar", 32 * mebibyte - 1, member)] },
        "entry-size"
      ],
      [
        "a member of almost 1 GiB that lies by a byte",
        { entries: [entry("a", 1024 * mebibyte, gibibyte)] },
        "entry-size"
      ],
      [
        "a member that declares 1 GiB of a few bytes",
        { entries: [entry("a", 1024 * mebibyte, utf8("x"))] },
        "entry-size"
      ],
      [
        "a member that declares 1 GiB of an early end",
        {
          entries: [
            entry("a", 1024 * mebibyte, RawZip.concat([deflateRawSync(utf8("x")), new Uint8Array(2 * mebibyte)]))
          ]
        },
        "deflate-stream"
      ]
    ]
  }

  for (const [what, bomb, verdict] of bombs()) {
    it.live(`refuses a bomb of ${what} in little memory`, () =>
      Effect.gen(function* () {
        const directory = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "bomb-"))),
          (created) => Effect.sync(() => rmSync(created, { recursive: true }))
        )
        const file = join(directory, "bomb.zip")
        writeFileSync(file, RawZip.build(bomb))
        const { stderr, stdout } = yield* run("test/support/ExtractProcess.ts", { ARCHIVE: file })
        const { peak, verdict: said }: { peak: number; verdict: string } = JSON.parse(stdout || `"${stderr}"`)
        assert.strictEqual(said, verdict)
        assert.isBelow(peak, 128 * mebibyte)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("lets other work run, and can be interrupted", () =>
    Effect.gen(function* () {
      const many = zip(
        Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`a/${index}`, new Uint8Array(mebibyte)]))
      )
      const fiber = yield* Effect.fork(SkillPackage.extract(many))
      yield* Effect.yieldNow()
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
    })
  )

  it("of any bytes gives a verdict", { timeout: 60_000 }, () => {
    const original = zip({ "greeting/": "", ...greeting })
    return check(
      [fc.array(fc.tuple(fc.nat(original.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })],
      async (changes) => {
        const changed = original.slice()
        for (const [at, byte] of changes) changed[at] = byte
        await Effect.runPromise(Effect.either(SkillPackage.extract(changed)))
      },
      { numRuns: 1000 }
    )
  })
})
