/**
 * Files that a command writes: each whole, or as it was before.
 *
 * @module
 */
import { FileSystem, Path } from "@effect/platform"
import type { PlatformError } from "@effect/platform/Error"
import { Effect } from "effect"
import * as DurableFile from "../files/DurableFile.js"

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
    const install: Effect.Effect<void, PlatformError> = Effect.zipRight(
      DurableFile.write(fs, temporary, bytes, options),
      // Ends: every other process removes others' files once.
      Effect.catchIf(fs.rename(temporary, file), DurableFile.isNotFound, () => install)
    )
    yield* removeOthers.pipe(
      Effect.zipRight(install),
      Effect.onError(() => Effect.ignore(fs.remove(temporary, { force: true }))),
      // What goes wrong there undoes nothing.
      Effect.zipRight(Effect.exit(DurableFile.syncDirectory(fs, directory)))
    )
  },
  // The platform does not take back a system call: one that ended later could leave the temporary file behind.
  Effect.uninterruptible,
  DurableFile.withClosing
)
