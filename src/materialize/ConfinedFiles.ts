/**
 * A directory's files, with links refused on the way before each step (contract, Materialization).
 *
 * The platform's file system follows links, and has no call that works below an open directory. So before each step the
 * real path of the directory that it works in is compared with its own: a link that is there by then is refused. One that
 * another writer of the directory puts there between the comparison and the step is not seen; a random staging name leaves
 * little to aim at.
 *
 * Every step is uninterruptible: the platform does not take back a system call, and one that ends after its files were
 * cleaned up would leave something behind. Between two steps an interruption takes effect.
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import { Data, Effect, Option } from "effect"
import * as Digest from "../archive/Digest.js"
import * as DurableFile from "../files/DurableFile.js"
import { MaterializeError, ofPlatform } from "./MaterializeError.js"
import { reservedPrefix } from "./TargetDirectory.js"

/** A link is on the way to `path`, or at it. */
export class LinkRefused extends Data.TaggedError("LinkRefused")<{ readonly path: string }> {}

export type Kind = "absent" | "link" | "file" | "directory" | "other"

export type ConfinedFiles = ReturnType<typeof make>

/** The content that a directory is held to: file by name, or a directory in it. */
export type Tree = ReadonlyMap<string, Tree | TreeFile>

export interface TreeFile {
  readonly size: number
  readonly sha256: string
}

/** Of one directory, while their content is proved: most of the time of a small file is waiting. */
const filesAtOnce = 8

export const temporaryPrefix = `${reservedPrefix}.tmp-`

/** An empty directory that others are removed with; it stays. */
export const emptyDirectoryName = `${reservedPrefix}.empty`

/**
 * Opens a directory: none when it is absent and `create` is false. Below `within`, by default the directory's parent, no
 * component of its path may be a link; what is above is the caller's own.
 */
export const open = Effect.fnUntraced(
  function* (options: { readonly directory: string; readonly within: string | undefined; readonly create: boolean }) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const absolute = path.resolve(options.directory)
    const trusted = path.resolve(options.within ?? path.dirname(absolute))
    const below = path.relative(trusted, absolute)
    if (below === "" || below.split(path.sep)[0] === ".." || path.isAbsolute(below)) {
      return yield* new MaterializeError({ path: "", reason: "outside" })
    }

    const kind = kindOf(fs)
    let at = trusted
    let exists = true
    for (const component of below.split(path.sep)) {
      at = path.join(at, component)
      const found = yield* kind(at)
      if (found === "link") return yield* new MaterializeError({ path: "", reason: "link" })
      exists = found !== "absent"
      if (!exists) break
      if (found !== "directory") return yield* new MaterializeError({ path: "", reason: "type" })
    }
    if (!exists) {
      if (!options.create) return Option.none()
      yield* Effect.uninterruptible(makeWay(fs, path, absolute))
    }
    const root = yield* fs.realPath(absolute)
    if (root !== path.join(yield* fs.realPath(trusted), below)) {
      return yield* new MaterializeError({ path: "", reason: "link" })
    }
    return Option.some(make(fs, path, root))
  },
  Effect.mapError((error) => (error._tag === "MATERIALIZE_FAILED" ? error : ofPlatform(error)))
)

/** Makes a directory and those above it, one by one: the platform's own recursion never ends where none can be made. */
const makeWay: (fs: FileSystem.FileSystem, path: Path.Path, at: string) => Effect.Effect<void, PlatformError> =
  Effect.fnUntraced(function* (fs, path, at) {
    const make = fs.makeDirectory(at, { mode: 0o755 })
    const above = path.dirname(at)
    yield* make.pipe(
      Effect.catchIf(
        (error) => DurableFile.isNotFound(error) && above !== at,
        () => Effect.zipRight(makeWay(fs, path, above), make)
      ),
      Effect.catchIf(DurableFile.isAlreadyThere, () => Effect.void)
    )
  })

/** What is at a path, its last component not followed. The platform has no `lstat`: only a link can be read as one. */
const kindOf = (fs: FileSystem.FileSystem) =>
  Effect.fnUntraced(
    function* (at: string): Effect.fn.Return<Kind, PlatformError> {
      const link = yield* Effect.either(fs.readLink(at))
      if (link._tag === "Right") return "link"
      if (DurableFile.isNotFound(link.left)) return "absent"
      const { type } = yield* fs.stat(at)
      return type === "File" ? "file" : type === "Directory" ? "directory" : "other"
    },
    // Gone between the two calls: another pass has given its lock back, or is swapping a tree.
    Effect.catchIf(DurableFile.isNotFound, () => Effect.succeed<Kind>("absent"))
  )

const make = (fs: FileSystem.FileSystem, path: Path.Path, root: string) => {
  const kindAt = kindOf(fs)

  /** The place of a path that is given by its components below the root. */
  const place = (components: ReadonlyArray<string>) => path.join(root, ...components)
  const show = (components: ReadonlyArray<string>) => components.join("/")
  const parent = (components: ReadonlyArray<string>) => components.slice(0, -1)

  /** No component of a directory's path is a link. */
  const guard = Effect.fnUntraced(function* (directory: ReadonlyArray<string>) {
    const at = place(directory)
    if ((yield* fs.realPath(at)) !== at) return yield* new LinkRefused({ path: show(directory) })
  })

  const step = <A>(directory: ReadonlyArray<string>, effect: Effect.Effect<A, PlatformError>) =>
    Effect.uninterruptible(Effect.zipRight(guard(directory), effect))

  const kind = Effect.fnUntraced(function* (components: ReadonlyArray<string>) {
    yield* guard(parent(components))
    return yield* kindAt(place(components))
  })

  const list = (directory: ReadonlyArray<string>) => step(directory, fs.readDirectory(place(directory)))

  /** At most `limit` bytes of a regular file in a directory that was looked at; none when it is longer, or else. */
  const readRegular = Effect.fnUntraced(
    function* (components: ReadonlyArray<string>, limit: number) {
      // Opening a pipe would wait for a writer, and a device has no end.
      if ((yield* kindAt(place(components))) !== "file") return Option.none()
      const handle = yield* fs.open(place(components))
      const size = Number((yield* handle.stat).size)
      if (size > limit) return Option.none()
      // One byte more, to see that it does not grow meanwhile.
      const bytes = new Uint8Array(size + 1)
      let length = 0
      while (length < bytes.length) {
        const count = Number(yield* Effect.uninterruptible(handle.read(bytes.subarray(length))))
        if (count === 0) break
        length += count
      }
      return length > size ? Option.none() : Option.some(bytes.subarray(0, length))
    },
    Effect.scoped,
    DurableFile.withClosing
  )

  const read = (components: ReadonlyArray<string>, limit: number) =>
    Effect.zipRight(guard(parent(components)), readRegular(components, limit))

  const makeDirectory = (components: ReadonlyArray<string>, mode: number) =>
    step(parent(components), fs.makeDirectory(place(components), { mode }))

  /** Makes a file that must not be there, open until the scope ends. */
  const create = (components: ReadonlyArray<string>, bytes: Uint8Array, mode: number) =>
    Effect.zipRight(guard(parent(components)), DurableFile.create(fs, place(components), bytes, { mode }))

  const write = (components: ReadonlyArray<string>, bytes: Uint8Array, mode: number) =>
    create(components, bytes, mode).pipe(Effect.asVoid, Effect.scoped, DurableFile.withClosing)

  const move = (from: ReadonlyArray<string>, to: ReadonlyArray<string>) =>
    Effect.zipRight(guard(parent(from)), step(parent(to), fs.rename(place(from), place(to))))

  /** Whether a rename that failed was done all the same, as can be on a network's file system. */
  const wasRenamed = (from: ReadonlyArray<string>, to: ReadonlyArray<string>) =>
    Effect.zipWith(kind(from), kind(to), (left, arrived) => left === "absent" && arrived !== "absent")

  const rename = (from: ReadonlyArray<string>, to: ReadonlyArray<string>) =>
    move(from, to).pipe(
      Effect.catchAll((error) =>
        Effect.flatMap(wasRenamed(from, to), (renamed) => (renamed ? Effect.void : Effect.fail(error)))
      ),
      Effect.zipLeft(Effect.exit(DurableFile.syncDirectory(fs, place(parent(to))))),
      Effect.uninterruptible
    )

  const removeFile = (components: ReadonlyArray<string>) => step(parent(components), fs.remove(place(components)))

  /**
   * Removes a directory that is empty. The platform removes directories only with all that is in them, and would follow a
   * link that somebody puts in the place of one of them meanwhile. But a rename replaces a directory only when it is
   * empty: so another empty one is renamed over it, and back.
   */
  const removeEmpty = (directory: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const found = yield* kind([emptyDirectoryName])
      if (found !== "directory" && found !== "absent") yield* removeFile([emptyDirectoryName])
      if (found !== "directory") yield* makeDirectory([emptyDirectoryName], 0o700)
      yield* move([emptyDirectoryName], directory)
      yield* move(directory, [emptyDirectoryName])
    }).pipe(Effect.uninterruptible)

  /**
   * Removes a directory below `holder`, or `holder` itself, and all that is in it, step by step; a link in it is removed,
   * and what it leads to stays. Subdirectories are moved into `holder` first, so that no path is longer than that, and one
   * that a disk is mounted on, which cannot be moved, is left alone. Fails with the first thing that cannot be removed, when
   * all others are.
   */
  const removeTree = Effect.fnUntraced(function* (holder: ReadonlyArray<string>, directory: ReadonlyArray<string>) {
    const errors: Array<PlatformError | LinkRefused> = []
    const attempt = Effect.catchAll((error: PlatformError | LinkRefused) => Effect.sync(() => void errors.push(error)))
    const open: Array<ReadonlyArray<string>> = []
    const empty = Effect.fnUntraced(function* (directory: ReadonlyArray<string>) {
      for (const name of yield* list(directory)) {
        const entry = [...directory, name]
        const aside = directory.length === holder.length ? entry : [...holder, crypto.randomUUID()]
        yield* Effect.gen(function* () {
          if ((yield* kind(entry)) !== "directory") return yield* removeFile(entry)
          if (aside !== entry) yield* move(entry, aside)
          open.push(aside)
        }).pipe(attempt)
      }
    })
    yield* attempt(empty(directory))
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      yield* attempt(Effect.zipRight(empty(next), removeEmpty(next)))
    }
    yield* attempt(removeEmpty(directory))
    const [first] = errors
    if (first !== undefined) return yield* Effect.fail(first)
  })

  /** Replaces a file of the root whole or not at all. */
  const replace = (name: string, bytes: Uint8Array) => {
    const temporary = [`${temporaryPrefix}${crypto.randomUUID()}`]
    return write(temporary, bytes, 0o644).pipe(
      Effect.zipRight(rename(temporary, [name])),
      Effect.onError(() => Effect.ignore(removeFile(temporary)))
    )
  }

  const fileMatches = Effect.fnUntraced(function* (components: ReadonlyArray<string>, { sha256, size }: TreeFile) {
    const bytes = yield* readRegular(components, size)
    return Option.isSome(bytes) && bytes.value.length === size && (yield* Digest.sha256Hex(bytes.value)) === sha256
  })

  /**
   * Whether a directory holds exactly these files, byte for byte, and nothing else. The way is looked at once for each
   * directory: there may be thousands of files, and nothing is written.
   */
  const matches: (directory: ReadonlyArray<string>, tree: Tree) => Effect.Effect<boolean, PlatformError | LinkRefused> =
    Effect.fnUntraced(function* (directory, tree) {
      const names = yield* list(directory)
      if (names.length !== tree.size || !names.every((name) => tree.has(name))) return false
      const wrong = yield* Effect.filter(
        tree,
        ([name, expected]) =>
          "sha256" in expected ? fileMatches([...directory, name], expected) : Effect.succeed(true),
        { concurrency: filesAtOnce, negate: true }
      )
      if (wrong.length > 0) return false
      // One after another, so that a deep tree opens no more files at once than a flat one.
      for (const [name, expected] of tree) {
        const entry = [...directory, name]
        if ("sha256" in expected) continue
        if ((yield* kindAt(place(entry))) !== "directory" || !(yield* matches(entry, expected))) return false
      }
      return true
    })

  const modified = Effect.fnUntraced(function* (name: string) {
    const { mtime } = yield* fs.stat(place([name]))
    return Option.match(mtime, { onNone: () => 0, onSome: (mtime) => mtime.getTime() })
  })

  /** Gives a file a second name, unless there is something with that name. */
  const link = (from: string, to: string) => step([], fs.link(place([from]), place([to])))

  return {
    create,
    kind,
    link,
    list,
    makeDirectory,
    matches,
    modified,
    read,
    removeFile,
    removeTree,
    rename,
    replace,
    write
  } as const
}
