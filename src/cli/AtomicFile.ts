/**
 * Files that a command writes: each whole, or as it was before.
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import { isPlatformError, type PlatformError } from "@effect/platform/Error"
import { Effect, Option } from "effect"

/**
 * Writes a file beside its place, syncs it and renames it: whatever happens, the old file or the new one is there, whole. A
 * process that is killed leaves its temporary file, which the next write to the same place removes.
 *
 * Several processes may write one place at once; the last one to rename wins.
 */
export const write = Effect.fnUntraced(
  function* (file: string, bytes: Uint8Array, options: { readonly mode?: number } = {}) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = path.dirname(file)
    // Its beginning alone, since a longer file name than the file's might be too long.
    const prefix = `.${[...path.basename(file)].slice(0, 40).join("")}.`
    const temporary = path.join(directory, `${prefix}${crypto.randomUUID()}.tmp`)
    // Whether their processes still run cannot be told; one that does writes its own again.
    const removeOthers = Effect.gen(function* () {
      const names = yield* fs.readDirectory(directory)
      yield* Effect.forEach(
        names.filter((name) => name.startsWith(prefix) && /^[0-9a-f-]{36}\.tmp$/.test(name.slice(prefix.length))),
        (name) => Effect.ignore(fs.remove(path.join(directory, name))),
        { discard: true }
      )
    }).pipe(Effect.ignore)
    const writeTemporary = Effect.scoped(
      Effect.gen(function* () {
        // Exclusive, so that a link planted under this name is not followed.
        const handle = yield* fs.open(temporary, { flag: "wx", ...options })
        yield* handle.writeAll(bytes)
        yield* handle.sync
      })
    )
    const install: Effect.Effect<void, PlatformError> = Effect.zipRight(
      writeTemporary,
      // Ends: every other process removes others' files once.
      Effect.catchIf(fs.rename(temporary, file), isMissing, () => install)
    )
    // Syncing the directory makes the rename survive a power failure, on systems that can; what goes wrong undoes nothing.
    const syncDirectory = Effect.exit(Effect.scoped(Effect.flatMap(fs.open(directory), (handle) => handle.sync)))
    yield* removeOthers.pipe(
      Effect.zipRight(install),
      Effect.onError(() => Effect.ignore(fs.remove(temporary, { force: true }))),
      Effect.zipRight(syncDirectory)
    )
  },
  // The platform does not take back a system call: one that ended later could leave the temporary file behind, or write into the
  // next file with its descriptor.
  Effect.uninterruptible,
  // A file that cannot be closed is a defect of the platform's: a disk that is full may say so only then.
  Effect.catchSomeDefect((defect) => (isPlatformError(defect) ? Option.some(Effect.fail(defect)) : Option.none()))
)

const isMissing = (error: PlatformError) => error._tag === "SystemError" && error.reason === "NotFound"
