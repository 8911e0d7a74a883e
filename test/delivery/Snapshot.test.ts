import { readdirSync, readFileSync } from "node:fs"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Option, Tracer } from "effect"
import { sliceBytes, yieldToEventLoop } from "#codec"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import { answer, type Contents, contents, entries, response, sha256Hex } from "../support/SnapshotArchive.js"
import { turnsDuring } from "../support/Turns.js"

const notUtf8 = Uint8Array.of(0x89, 0x50, 0xff, 0x00)

const sample = contents({
  alpha: { "SKILL.md": "# Alpha\n", "docs/guide.md": "\ufeffGuide: \u{10000}\n", "logo.png": notUtf8 },
  beta: { "SKILL.md": "# Beta\n" }
})

const verifies = (given: Snapshot.SnapshotResponse) =>
  Effect.map(Snapshot.verify(given), (snapshot) => expect(snapshot.etag).toBe(given.etag))

const refuses = (given: Snapshot.SnapshotResponse, check: string, entry?: string) =>
  Effect.map(Effect.flip(Snapshot.verify(given)), (error) => {
    expect(error).toMatchObject({ _tag: "INVALID_SNAPSHOT", check, retryable: false })
    if (error._tag === "INVALID_SNAPSHOT") expect(error.entry).toBe(entry)
  })

/** The sample with one file's bytes in the archive replaced, or taken out, or a file put in beside them. */
const withFile = (path: string, bytes: Uint8Array | undefined): Contents => {
  const files = new Map(sample.files)
  if (bytes === undefined) files.delete(path)
  else files.set(path, bytes)
  return { ...sample, files }
}

/** `size` bytes that do not compress. */
const noise = (size: number) => {
  const bytes = new Uint8Array(size)
  let state = 1
  for (let index = 0; index < size; index++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    bytes[index] = state
  }
  return bytes
}

/** A snapshot of one skill with `bytes` beside its `SKILL.md`. */
const large = (bytes: Uint8Array, method: number) => {
  const { files, manifest } = contents({ alpha: { "SKILL.md": "# Alpha\n", "data.bin": bytes } })
  return RawZip.build({ entries: entries(manifest, files, method) })
}

describe("Snapshot.verify", () => {
  it.live("gives files that the owner of no other buffer can change", () =>
    Effect.gen(function* () {
      const { files, manifest } = contents({ alpha: { "SKILL.md": "# Alpha\n".repeat(9) } })
      const archive = RawZip.build({ entries: entries(manifest, files, 8) })
      const snapshot = yield* Snapshot.verify(response(archive))
      // Node's small buffers lie in one that they share. Put back at once: it may hold anybody's bytes.
      const shared = new Uint8Array(Buffer.allocUnsafe(1).buffer)
      const before = shared.slice()
      shared.fill(0x58)
      const text = snapshot.skills[0]?.files[0]?.text
      shared.set(before)
      expect(text).toEqual(Option.some("# Alpha\n".repeat(9)))
    })
  )

  it.effect("gives skills and files in order with sizes, digests, text and bytes", () =>
    Effect.gen(function* () {
      const given = answer(sample)
      const snapshot = yield* Snapshot.verify(given)
      expect(snapshot.revision).toBe("r1")
      expect(snapshot.etag).toBe(given.etag)
      expect(snapshot.skills.map(({ description, name }) => ({ description, name }))).toEqual([
        { name: "alpha", description: "About alpha" },
        { name: "beta", description: "About beta" }
      ])
      expect(snapshot.skills[0]?.files.map((file) => ({ ...file, text: file.text, bytes: file.bytes }))).toEqual(
        ["SKILL.md", "docs/guide.md", "logo.png"].map((path) => {
          const bytes = sample.files.get(`alpha/${path}`) ?? new Uint8Array()
          const isText = path !== "logo.png"
          const text = isText ? Option.some(Buffer.from(bytes).toString("utf8")) : Option.none()
          return { path, size: bytes.length, sha256: sha256Hex(bytes), isText, text, bytes }
        })
      )
    })
  )

  it.effect("keeps a byte order mark in text", () =>
    Effect.map(Snapshot.verify(answer(sample)), ({ skills }) =>
      expect(Option.getOrThrow(skills[0]?.files[1]?.text ?? Option.none())).toBe("\ufeffGuide: \u{10000}\n")
    )
  )

  it.effect("accepts a container without skills", () =>
    Effect.map(Snapshot.verify(answer(contents({}))), ({ skills }) => expect(skills).toEqual([]))
  )

  it.effect("accepts explicit directories, which add no files", () => {
    const archive = RawZip.build({
      entries: [
        { name: "alpha/" },
        { name: "alpha/docs/" },
        { name: "gamma/" },
        ...entries(sample.manifest, sample.files)
      ]
    })
    return Effect.map(Snapshot.verify(response(archive)), ({ skills }) =>
      expect(skills.map(({ files }) => files.length)).toEqual([3, 1])
    )
  })

  describe("content type", () => {
    it.effect.each([
      "application/zip",
      "Application/ZIP",
      " application/zip ",
      "application/zip; charset=binary",
      "application/zip;x=1;y=2"
    ])("accepts %j", (contentType) => verifies(answer(sample, { contentType })))

    it.effect.each([
      "",
      "application/zipx",
      "application/octet-stream",
      "text/html",
      "; application/zip",
      "application/zip, x"
    ])("refuses %j", (contentType) => refuses(answer(sample, { contentType }), "content-type"))
  })

  describe("ETag", () => {
    const digest = answer(sample).etag.slice(1, -1)

    it.effect.each([
      digest,
      `W/"${digest}"`,
      `"${digest.toUpperCase()}"`,
      `"${digest.slice(1)}"`,
      `"${digest}0"`,
      `"${digest}`,
      `"sha256:${digest}"`,
      `"${digest}"\n`,
      '""',
      ""
    ])("refuses the form %j", (etag) => refuses(answer(sample, { etag }), "etag-format"))

    it.effect("refuses one that is not the digest of the archive", () =>
      refuses(answer(sample, { etag: `"${"0".repeat(64)}"` }), "etag-mismatch")
    )

    it.effect("is checked before the archive is", () =>
      refuses(answer(sample, { archive: Uint8Array.of(1, 2, 3) }), "etag-mismatch")
    )
  })

  describe("archive", () => {
    it.effect.each([
      ["no bytes at all", new Uint8Array(0), "end-record", undefined],
      ["something else", new TextEncoder().encode("<!doctype html><title>Sign in</title>"), "end-record", undefined],
      ["an unsafe name", RawZip.build({ entries: [{ name: "../a" }] }), "entry-path", "../a"]
    ] as const)("refuses %s and names the rule of the archive", ([_, archive, check, entry]) =>
      refuses(response(archive), check, entry)
    )

    it.effect("accepts 32 MiB of archive and not a byte more", () =>
      Effect.gen(function* () {
        const bound = 32 * 1024 * 1024
        const overhead = large(new Uint8Array(16 * 1024 * 1024), 0).length - 16 * 1024 * 1024
        const atBound = large(new Uint8Array(bound - overhead), 0)
        expect(atBound.length).toBe(bound)
        yield* verifies(response(atBound))
        yield* refuses(response(large(new Uint8Array(bound - overhead + 1), 0)), "archive-size")
      })
    )

    it.effect("accepts 32 MiB of decoded bytes, the manifest's included, and not a byte more", () =>
      Effect.gen(function* () {
        const bound = 32 * 1024 * 1024
        // The digits of the size are as many as those of the file that makes the bound full.
        const rest = contents({ alpha: { "SKILL.md": "# Alpha\n", "data.bin": new Uint8Array(bound - 1000) } })
        const others = JSON.stringify(rest.manifest).length + "# Alpha\n".length
        yield* verifies(response(large(new Uint8Array(bound - others), 8)))
        yield* refuses(response(large(new Uint8Array(bound - others + 1), 8)), "decoded-size", "alpha/data.bin")
      })
    )

    it.effect("accepts 1,000 entries, manifest and directories included, and not one more", () =>
      Effect.gen(function* () {
        const many = (files: number) =>
          contents({
            alpha: {
              "SKILL.md": "# Alpha\n",
              ...Object.fromEntries(Array.from({ length: files - 1 }, (_, index) => [`f${1000 + index}`, `${index}`]))
            }
          })
        const build = ({ files, manifest }: Contents) =>
          RawZip.build({ entries: [{ name: "alpha/" }, ...entries(manifest, files, 0)] })
        yield* verifies(response(build(many(998))))
        yield* refuses(response(build(many(999))), "entry-count")
      })
    )
  })

  describe("manifest", () => {
    const withManifest = (manifest: unknown) => response(RawZip.build({ entries: entries(manifest, sample.files) }))
    const encode = (text: string) => new TextEncoder().encode(text)

    it.effect("has to be there", () =>
      refuses(response(RawZip.build({ entries: entries({}, sample.files).slice(1) })), "manifest-missing")
    )

    it.effect("has to be a file at the root", () =>
      Effect.gen(function* () {
        const [, ...rest] = entries({}, sample.files)
        for (const name of ["manifest.json/", "alpha/manifest.json", "Manifest.json"]) {
          yield* refuses(response(RawZip.build({ entries: [{ name }, ...rest] })), "manifest-missing")
        }
      })
    )

    it.effect.each([
      ["is not UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), "manifest-encoding", "manifest.json"],
      [
        "has a byte order mark",
        encode(`\ufeff${JSON.stringify(sample.manifest)}`),
        "manifest-encoding",
        "manifest.json"
      ],
      ["is not JSON", encode("{"), "manifest-json", "manifest.json"],
      ["is no object", [], "manifest-json", "manifest.json"],
      [
        "has no schema version",
        { ...sample.manifest, schemaVersion: undefined },
        "manifest-shape",
        "manifest.json: schemaVersion"
      ],
      ["has no skills", { ...sample.manifest, skills: undefined }, "manifest-shape", "manifest.json: skills"],
      ["has another revision", { ...sample.manifest, revision: "r2" }, "manifest-revision", "manifest.json"],
      [
        "has skills out of order",
        { ...sample.manifest, skills: sample.manifest.skills.toReversed() },
        "skill-order",
        "alpha"
      ]
    ] as const)("is refused when it %s", ([_, manifest, check, entry]) => refuses(withManifest(manifest), check, entry))

    it.effect("of another schema version is unsupported, whatever else it and the archive hold", () =>
      Effect.gen(function* () {
        for (const manifest of [{ ...sample.manifest, schemaVersion: 2 }, { schemaVersion: 2 }]) {
          expect(yield* Effect.flip(Snapshot.verify(withManifest(manifest)))).toMatchObject({
            _tag: "UNSUPPORTED_SERVER",
            schemaVersion: 2
          })
        }
      })
    )

    it.effect("of another schema version is looked at only after ETag and archive", () =>
      Effect.gen(function* () {
        const manifest = { ...sample.manifest, schemaVersion: 2 }
        yield* refuses({ ...withManifest(manifest), etag: answer(sample).etag }, "etag-mismatch")
        const archive = RawZip.build({ entries: [...entries(manifest, sample.files), { name: "a", mode: 0o120777 }] })
        yield* refuses(response(archive), "entry-type", "a")
      })
    )

    it.effect("may have members that nobody knows yet", () =>
      verifies(
        withManifest({
          ...sample.manifest,
          publishedAt: "2026-01-01",
          skills: sample.manifest.skills.map((skill) => ({ ...skill, tags: [] }))
        })
      )
    )

    it.effect("may not be blank in its revision, even when the response agrees", () =>
      refuses(
        { ...withManifest({ ...sample.manifest, revision: "" }), revision: "" },
        "manifest-shape",
        "manifest.json: revision"
      )
    )
  })

  describe("membership", () => {
    it.effect("refuses an archive without a listed file", () =>
      refuses(answer(withFile("alpha/docs/guide.md", undefined)), "file-missing", "alpha/docs/guide.md")
    )

    it.effect("refuses a directory in place of a listed file", () => {
      const files = new Map(sample.files)
      files.delete("alpha/logo.png")
      return refuses(
        response(RawZip.build({ entries: [...entries(sample.manifest, files), { name: "alpha/logo.png/" }] })),
        "file-missing",
        "alpha/logo.png"
      )
    })

    it.effect.each(["alpha/extra.md", "README.md", "gamma/SKILL.md", "alpha/docs/Guide.md", "alpha/manifest.json"])(
      "refuses the unlisted file %j",
      (path) => refuses(answer(withFile(path, new Uint8Array(0))), "file-unlisted", path)
    )

    it.effect("shows an unlisted name escaped", () =>
      refuses(answer(withFile('a\u202eb"', new Uint8Array(0))), "file-unlisted", "a\\u{202e}b\\u{22}")
    )

    it.effect("compares names as they are, without normalisation", () => {
      const composed = contents({ alpha: { "SKILL.md": "#", "\u00e9": "x" } })
      const files = new Map(composed.files)
      files.delete("alpha/\u00e9")
      files.set("alpha/e\u0301", new TextEncoder().encode("x"))
      return Effect.zipRight(
        verifies(answer(composed)),
        refuses(answer({ ...composed, files }), "file-missing", "alpha/\u00e9")
      )
    })
  })

  describe("files", () => {
    it.effect("refuses another size than the manifest's", () =>
      refuses(answer(withFile("beta/SKILL.md", new TextEncoder().encode("# Beta"))), "file-size", "beta/SKILL.md")
    )

    it.effect("refuses other bytes than the manifest's", () =>
      refuses(answer(withFile("beta/SKILL.md", new TextEncoder().encode("# BETA\n"))), "file-digest", "beta/SKILL.md")
    )

    it.effect("does not ask CRC-32, which digests stand above", () => {
      const archive = RawZip.build({
        entries: entries(sample.manifest, sample.files).map((entry) => ({
          ...entry,
          local: { crc: 1 },
          central: { crc: 2 }
        }))
      })
      return verifies(response(archive))
    })

    it.effect("accepts empty files", () =>
      verifies(answer(contents({ alpha: { "SKILL.md": "", "empty.bin": new Uint8Array(0) } })))
    )
  })

  describe("SKILL.md", () => {
    it.effect("has to be at the root of every skill", () =>
      Effect.gen(function* () {
        for (const path of ["docs/SKILL.md", "skill.md", "SKILL.md.txt"]) {
          yield* refuses(answer(contents({ alpha: { [path]: "# Alpha" } })), "skill-md-missing", "alpha/SKILL.md")
        }
        yield* refuses(answer(contents({ alpha: {} })), "skill-md-missing", "alpha/SKILL.md")
      })
    )

    it.effect("has to be UTF-8", () =>
      refuses(answer(contents({ alpha: { "SKILL.md": notUtf8 } })), "skill-md-encoding", "alpha/SKILL.md")
    )

    it.effect("elsewhere is an ordinary file", () =>
      verifies(answer(contents({ alpha: { "SKILL.md": "", "docs/SKILL.md": notUtf8 } })))
    )
  })
})

describe("the verified snapshot", () => {
  it.effect("is frozen to its depth", () =>
    Effect.map(Snapshot.verify(answer(sample)), (snapshot) => {
      const parts: ReadonlyArray<object> = [
        snapshot,
        snapshot.skills,
        ...snapshot.skills.flatMap((skill) => [skill, skill.files, ...skill.files]),
        Object.getPrototypeOf(snapshot.skills[0]?.files[0])
      ]
      expect(parts.every(Object.isFrozen)).toBe(true)
    })
  )

  it.effect("gives fresh bytes at each read", () =>
    Effect.map(Snapshot.verify(answer(sample)), ({ skills }) => {
      const file = skills[0]?.files[0]
      file?.bytes.fill(0)
      expect(Buffer.from(file?.bytes ?? []).toString()).toBe("# Alpha\n")
      expect(file?.bytes.buffer.byteLength).toBe(file?.size)
    })
  )

  it.effect.each([
    ["stored", 0],
    ["deflated", 8]
  ] as const)("owns its bytes: what happens to the response's buffer changes nothing (%s)", ([_, method]) =>
    Effect.gen(function* () {
      const bytes = noise(6 * 1024 * 1024)
      const expected = sha256Hex(bytes)
      // A Buffer, whose `slice` would not copy.
      const archive = Buffer.from(large(bytes, method))
      const fiber = yield* Effect.fork(Snapshot.verify(response(archive)))
      // Verification is under way, and has not come far: 6 MiB take several slices.
      yield* yieldToEventLoop
      expect(fiber.unsafePoll()).toBe(null)
      archive.fill(0)
      const { skills } = yield* Fiber.join(fiber)
      archive.fill(1)
      const file = skills[0]?.files[1]
      expect(sha256Hex(file?.bytes ?? new Uint8Array())).toBe(expected)
    })
  )

  it.effect("takes a buffer over that is handed to it, and leaves its owner an empty one", () =>
    Effect.gen(function* () {
      const bytes = noise(1024)
      const given = response(Uint8Array.from(large(bytes, 0)))
      const { skills } = yield* Snapshot.verify(given, { transfer: true })
      expect(given.archive.length).toBe(0)
      expect(sha256Hex(skills[0]?.files[1]?.bytes ?? new Uint8Array())).toBe(sha256Hex(bytes))
    })
  )

  it.effect("copies what is handed to it as a part of a larger buffer, which may be anybody's", () =>
    Effect.gen(function* () {
      const archive = large(noise(1024), 0)
      const larger = new Uint8Array(archive.length + 1)
      larger.set(archive)
      const given = response(larger.subarray(0, archive.length))
      const { skills } = yield* Snapshot.verify(given, { transfer: true })
      larger.fill(0)
      expect(given.archive.length).toBe(archive.length)
      expect(sha256Hex(skills[0]?.files[1]?.bytes ?? new Uint8Array())).toBe(skills[0]?.files[1]?.sha256)
    })
  )

  it.effect("keeps the bytes of a thousand files once, and no archive", () =>
    Effect.gen(function* () {
      setFlagsFromString("--expose-gc")
      const collect: () => void = runInNewContext("gc")
      const held = Effect.gen(function* () {
        // Backing stores are freed off this thread, some turns after the collection.
        for (let turn = 0; turn < 10; turn++) {
          collect()
          yield* yieldToEventLoop
        }
        return process.memoryUsage().arrayBuffers
      })
      const size = 4000
      const text = "x".repeat(size)
      const many = contents({
        alpha: {
          "SKILL.md": "# Alpha\n",
          ...Object.fromEntries(Array.from({ length: 994 }, (_, index) => [`f${1000 + index}`, `${text}${index}`]))
        }
      })
      const given = answer(many)
      const before = yield* held
      const snapshot = yield* Snapshot.verify(given)
      const after = yield* held
      const bytes = snapshot.skills.flatMap(({ files }) => files).reduce((total, file) => total + file.size, 0)
      expect(bytes).toBeGreaterThan(994 * size)
      expect(after - before).toBeLessThan(bytes * 1.25)
    })
  )
})

describe("verification", () => {
  it.effect("lets the event loop run between its slices", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(Snapshot.verify(response(large(noise(16 * 1024 * 1024), 0))))
      let turns = 0
      while (fiber.unsafePoll() === null) {
        turns++
        yield* yieldToEventLoop
      }
      yield* Fiber.join(fiber)
      // The archive and the file are hashed in four slices each, or in more.
      expect(turns).toBeGreaterThan(5)
    })
  )

  it.live("lets the event loop run while it finds out whether a long file is text", () =>
    Effect.gen(function* () {
      const bytes = new TextEncoder().encode("é".repeat(8 * sliceBytes))
      const text = yield* turnsDuring(Snapshot.verify(response(large(bytes, 0))))
      // No text from its first byte on, so that this need not be read for it.
      bytes[0] = 0xff
      const binary = yield* turnsDuring(Snapshot.verify(response(large(bytes, 0))))
      expect(text - binary).toBeGreaterThanOrEqual(12)
    })
  )

  it.effect.each([
    ["stored", 0],
    ["deflated", 8]
  ] as const)("stops at an interruption, at whatever step (%s)", ([_, method]) =>
    Effect.gen(function* () {
      const given = response(large(new Uint8Array(8 * 1024 * 1024), method))
      let steps = 0
      // Every step at first, then fewer: a codec of small slices has many.
      for (let isDone = false; !isDone; steps += 1 + (steps >> 3)) {
        const fiber = yield* Effect.fork(Snapshot.verify(given))
        for (let turn = 0; turn < steps; turn++) yield* yieldToEventLoop
        isDone = fiber.unsafePoll() !== null
        const exit = yield* Fiber.interrupt(fiber)
        if (!isDone) expect(Exit.isInterrupted(exit)).toBe(true)
      }
      expect(steps).toBeGreaterThan(2)
    })
  )

  it.effect("does not hold up whoever interrupts it", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const fiber = yield* Effect.fork(
        Effect.zipRight(
          Deferred.succeed(started, undefined),
          Snapshot.verify(response(large(noise(8 * 1024 * 1024), 0)))
        )
      )
      yield* Deferred.await(started)
      yield* yieldToEventLoop
      let turns = 0
      const counter = yield* Effect.fork(
        Effect.forever(
          Effect.zipRight(
            Effect.sync(() => turns++),
            yieldToEventLoop
          )
        )
      )
      const exit = yield* Fiber.interrupt(fiber)
      yield* Fiber.interrupt(counter)
      expect(Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause)).toBe(true)
      expect(turns).toBeLessThan(5)
    })
  )

  it.effect("is a span that carries counts and sizes only", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.Span> = []
      const native = yield* Effect.tracer
      const tracer = Tracer.make({
        context: native.context,
        span: (...args) => {
          const span = native.span(...args)
          spans.push(span)
          return span
        }
      })
      const given = answer(sample)
      yield* Effect.withTracer(Snapshot.verify(given), tracer)
      const span = spans.find(({ name }) => name === "Snapshot.verify")
      const attributes = Object.fromEntries(span?.attributes ?? [])
      expect(attributes).toMatchObject({
        "snapshot.archive_bytes": given.archive.length,
        "snapshot.entries": 5,
        "snapshot.skills": 2
      })
      for (const { attributes } of spans) {
        for (const [key, value] of attributes) if (!key.startsWith("code.")) expect(typeof value).toBe("number")
      }
    })
  )
})

describe("Snapshot.verifyArchive", () => {
  const { archive, etag } = answer(sample)

  it.effect("takes revision and ETag from the archive where none are expected", () =>
    Effect.map(Snapshot.verifyArchive(archive), (snapshot) => expect(snapshot).toMatchObject({ revision: "r1", etag }))
  )

  it.effect("holds the archive against what is expected", () =>
    Effect.gen(function* () {
      yield* Snapshot.verifyArchive(archive, { revision: "r1", etag })
      const checkOf = (expected: { readonly revision?: string; readonly etag?: string }) =>
        Effect.map(Effect.flip(Snapshot.verifyArchive(archive, expected)), (error) => "check" in error && error.check)
      expect(yield* checkOf({ revision: "r2" })).toBe("manifest-revision")
      expect(yield* checkOf({ etag: `"${"0".repeat(64)}"` })).toBe("etag-mismatch")
      expect(yield* checkOf({ etag: `W/${etag}` })).toBe("etag-format")
    })
  )

  it.effect("keeps the bounds", () =>
    Effect.map(Effect.flip(Snapshot.verifyArchive(new Uint8Array(32 * 1024 * 1024 + 1))), (error) =>
      expect(error).toMatchObject({ check: "archive-size" })
    )
  )

  const foreign = new URL("../archive/foreign/", import.meta.url)
  it.effect.each(readdirSync(foreign).filter((name) => name.endsWith(".zip")))("accepts %s of another tool", (name) =>
    Effect.map(Snapshot.verifyArchive(readFileSync(new URL(name, foreign))), ({ skills }) =>
      expect(skills.length).toBeGreaterThan(0)
    )
  )
})

describe("Snapshot.combine", () => {
  it.effect("names skills after their container and keeps the order of the list", () =>
    Effect.gen(function* () {
      const first = yield* Snapshot.verify(answer(sample))
      const second = yield* Snapshot.verify(answer(contents({ alpha: { "SKILL.md": "# Other\n" } })))
      const combined = Snapshot.combine([
        { containerId: "team/z é", snapshot: first },
        { containerId: "a", snapshot: second }
      ])
      expect(combined.skills.map(({ name }) => name)).toEqual([
        "team%2Fz%20%C3%A9/alpha",
        "team%2Fz%20%C3%A9/beta",
        "a/alpha"
      ])
      expect(combined.skills[0]?.description).toBe("About alpha")
      // The same files, not copies of them.
      expect(combined.skills[0]?.files).toBe(first.skills[0]?.files)
      expect([combined, combined.skills, ...combined.skills].every(Object.isFrozen)).toBe(true)
    })
  )

  it.effect("has the digest of its parts' identities as its own", () =>
    Effect.gen(function* () {
      const snapshot = yield* Snapshot.verify(answer(sample))
      const digest = sha256Hex(
        Buffer.from(`[["a","r1",${JSON.stringify(snapshot.etag)}],["b","r1",${JSON.stringify(snapshot.etag)}]]`)
      )
      const combined = Snapshot.combine([
        { containerId: "a", snapshot },
        { containerId: "b", snapshot }
      ])
      expect(combined.revision).toBe(`multi:${digest}`)
      expect(combined.etag).toBe(`"${digest}"`)
    })
  )
})
