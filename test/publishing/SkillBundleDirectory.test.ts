import { execFileSync } from "node:child_process"
import { symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { SystemError } from "@effect/platform/Error"
import { NodeContext } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer } from "effect"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import { limits } from "../../src/publishing/Upload.js"
import { greeting, layOut, loose, skillFile, type Tree, verdict, warningsOf } from "../support/Uploads.js"

/** A directory with these files below it. */
const lay = (tree: Tree) =>
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
    (directory) => layOut(directory, tree)
  )

it.layer(NodeContext.layer)("a bundle of a directory", (it) => {
  it.scoped("is the one of the same files uploaded", () =>
    Effect.gen(function* () {
      const directory = yield* lay({ ...greeting, "greeting/docs/deep/er/a": "a" })
      const bundle = yield* SkillBundle.fromDirectory(join(directory, "greeting"))
      const uploaded = yield* SkillBundle.fromFiles(loose({ ...greeting, "greeting/docs/deep/er/a": "a" }))
      assert.deepStrictEqual(bundle, uploaded)
    })
  )

  it.scoped("takes its name from the directory, however that is written", () =>
    Effect.gen(function* () {
      const directory = yield* lay(greeting)
      for (const written of ["greeting/", "./greeting", "greeting/.", "greeting/references/.."]) {
        assert.strictEqual((yield* SkillBundle.fromDirectory(`${directory}/${written}`)).directory, "greeting")
      }
      const hello = yield* lay({ "hello/SKILL.md": skillFile() })
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromDirectory(join(hello, "hello"))), [
        "hello/SKILL.md: directory-name"
      ])
    })
  )

  it.scoped("keeps the rules that every upload keeps", () =>
    Effect.gen(function* () {
      const directory = yield* lay({
        "greeting/SKILL.md": skillFile("Greeting"),
        "greeting/a\\b": "a",
        "greeting/.DS_Store": "x",
        "greeting/con": "x"
      })
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromDirectory(join(directory, "greeting"))), [
        "greeting/a\\u{5c}b: path-backslash",
        "greeting/SKILL.md: name-format"
      ])
    })
  )

  it.scoped("leaves out what macOS adds, and warns of it and of names that Windows does not have", () =>
    Effect.gen(function* () {
      const directory = yield* lay({ ...greeting, "greeting/.DS_Store": "x", "greeting/con": "x" })
      const bundle = yield* SkillBundle.fromDirectory(join(directory, "greeting"))
      assert.deepStrictEqual(warningsOf(bundle), ["greeting/.DS_Store: ignored-member", "greeting/con: windows-name"])
      assert.deepStrictEqual(
        bundle.files.map(({ path }) => path),
        ["SKILL.md", "con", "references/tone.md"]
      )
    })
  )

  it.scoped("names every link below it, and follows none", () =>
    Effect.gen(function* () {
      const outside = yield* lay({ "secret/a": "secret", file: "secret" })
      const directory = yield* lay(greeting)
      const skill = join(directory, "greeting")
      symlinkSync(join(outside, "file"), join(skill, "to-file"))
      symlinkSync(join(outside, "secret"), join(skill, "to-directory"))
      symlinkSync(join(outside, "nothing"), join(skill, "to-nothing"))
      symlinkSync(skill, join(skill, "to-itself"))
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromDirectory(skill)), [
        "greeting/to-directory: link",
        "greeting/to-file: link",
        "greeting/to-itself: link",
        "greeting/to-nothing: link"
      ])
    })
  )

  it.scoped("may itself be given by a link", () =>
    Effect.gen(function* () {
      const directory = yield* lay({ "v2/SKILL.md": skillFile() })
      symlinkSync(join(directory, "v2"), join(directory, "greeting"))
      assert.strictEqual((yield* SkillBundle.fromDirectory(join(directory, "greeting"))).name, "greeting")
    })
  )

  it.scoped("with a FIFO names it, and does not wait for somebody to write to it", () =>
    Effect.gen(function* () {
      const directory = yield* lay(greeting)
      execFileSync("mkfifo", [join(directory, "greeting", "fifo")])
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromDirectory(join(directory, "greeting"))), [
        "greeting/fifo: special-file"
      ])
    })
  )

  it.scoped("with a name that is not UTF-8 says so", () =>
    Effect.gen(function* () {
      const directory = yield* lay(greeting)
      writeFileSync(Buffer.concat([Buffer.from(`${directory}/greeting/`), Buffer.from([0x61, 0xff])]), "a")
      assert.deepStrictEqual(yield* verdict(SkillBundle.fromDirectory(join(directory, "greeting"))), [
        "greeting/a\ufffd: path-encoding"
      ])
    })
  )

  it.scoped("of more than 30 MiB is not read, but for its SKILL.md", () =>
    Effect.gen(function* () {
      const directory = yield* lay({ ...greeting, "greeting/large": "" })
      truncateSync(join(directory, "greeting", "large"), limits.totalBytes)
      const fs = yield* FileSystem.FileSystem
      const read: Array<string> = []
      const watched = Layer.succeed(FileSystem.FileSystem, {
        ...fs,
        open: (path, options) =>
          Effect.zipRight(
            Effect.sync(() => read.push(path)),
            fs.open(path, options)
          )
      })
      const bundle = Effect.provide(SkillBundle.fromDirectory(join(directory, "greeting")), watched)
      assert.deepStrictEqual(yield* verdict(bundle), ["total-size"])
      assert.deepStrictEqual(read, [join(directory, "greeting", "SKILL.md")])
    })
  )

  it.scoped("with a file that grows or shrinks behind its size is refused, and no more is read than was summed", () =>
    Effect.gen(function* () {
      const directory = yield* lay({ ...greeting, "greeting/log": "12345678", "greeting/other": "12345678" })
      const fs = yield* FileSystem.FileSystem
      const read = new Map<string, number>()
      const after = (change: (file: string) => void) =>
        Layer.succeed(FileSystem.FileSystem, {
          ...fs,
          open: (path, options) =>
            Effect.gen(function* () {
              if (path.endsWith("log")) change(path)
              const file = yield* fs.open(path, options)
              return {
                ...file,
                read: (buffer) =>
                  Effect.tap(file.read(buffer), (size) =>
                    Effect.sync(() => read.set(path, (read.get(path) ?? 0) + Number(size)))
                  )
              }
            })
        })
      const log = join(directory, "greeting", "log")
      for (const [length, most] of [
        [40 * 1024 * 1024, 9],
        [9, 9],
        [7, 7],
        [0, 0]
      ] as const) {
        truncateSync(log, 8)
        read.clear()
        const bundle = SkillBundle.fromDirectory(join(directory, "greeting"))
        const changed = after((file) => truncateSync(file, length))
        assert.deepStrictEqual(yield* verdict(Effect.provide(bundle, changed)), ["greeting/log: file-unreadable"])
        assert.strictEqual(read.get(log), most)
        assert.strictEqual(read.get(join(directory, "greeting", "other")), 8)
      }
    })
  )

  it.scoped("with files that may not be read names all of them", () =>
    Effect.gen(function* () {
      const directory = yield* lay({ ...greeting, "greeting/a": "a", "greeting/b": "b" })
      const fs = yield* FileSystem.FileSystem
      const denied = new SystemError({ module: "FileSystem", method: "open", reason: "PermissionDenied" })
      const closed = Layer.succeed(FileSystem.FileSystem, {
        ...fs,
        open: (path, options) => (/[ab]$/.test(path) ? Effect.fail(denied) : fs.open(path, options))
      })
      const bundle = Effect.provide(SkillBundle.fromDirectory(join(directory, "greeting")), closed)
      assert.deepStrictEqual(yield* verdict(bundle), ["greeting/a: file-unreadable", "greeting/b: file-unreadable"])
    })
  )

  it.scoped("of more than 10,000 files and directories is not walked to its end", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const skill = join(yield* lay(greeting), "greeting", "SKILL.md")
      let looks = 0
      const endless = Layer.succeed(FileSystem.FileSystem, {
        ...fs,
        readDirectory: () =>
          Effect.succeed(["SKILL.md", "more", ...Array.from({ length: 4000 }, (_, index) => `${index}`)]),
        readLink: () => Effect.fail(looks++) as never,
        open: () => fs.open(skill),
        stat: (path) =>
          Effect.map(fs.stat("."), (info) => ({
            ...info,
            type: path.endsWith("more") ? "Directory" : "File",
            size: FileSystem.Size(10)
          }))
      })
      const bundle = Effect.provide(SkillBundle.fromDirectory("greeting"), endless)
      assert.deepStrictEqual((yield* verdict(bundle))[0], "member-count")
      assert.strictEqual(looks, 10_001)
    })
  )

  it.scoped("that is not there, or is a file, is an error of the file system", () =>
    Effect.gen(function* () {
      const directory = yield* lay(greeting)
      for (const path of ["nothing", "greeting/SKILL.md"]) {
        const error = yield* Effect.flip(SkillBundle.fromDirectory(join(directory, path)))
        assert.strictEqual(error._tag, "SystemError", path)
      }
    })
  )

  it.scoped("stops at an interruption", () =>
    Effect.gen(function* () {
      const directory = yield* lay(greeting)
      const fs = yield* FileSystem.FileSystem
      const started = yield* Deferred.make<void>()
      const hanging = Layer.succeed(FileSystem.FileSystem, {
        ...fs,
        open: () => Effect.zipRight(Deferred.succeed(started, undefined), Effect.never)
      })
      const bundle = Effect.provide(SkillBundle.fromDirectory(join(directory, "greeting")), hanging)
      const fiber = yield* Effect.fork(bundle)
      yield* Deferred.await(started)
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
    })
  )
})
