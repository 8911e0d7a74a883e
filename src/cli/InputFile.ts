/**
 * Files that a command line names. One that cannot be read is a usage error which says so.
 *
 * @module
 */
import { type Error, FileSystem } from "@effect/platform"
import { Chunk, Effect, Stream } from "effect"
import { display } from "../archive/ArchivePath.js"
import { UsageError } from "./CliError.js"

/** The file's bytes; no more than `limit` are ever read, whatever the file is. */
export const bytes: (path: string, limit: number) => Effect.Effect<Uint8Array, UsageError, FileSystem.FileSystem> =
  Effect.fnUntraced(function* (path, limit) {
    const fs = yield* FileSystem.FileSystem
    const { type } = yield* Effect.mapError(fs.stat(path), unreadable(path))
    // The platform reads at positions, which a pipe has none of, and opening one without a writer never ends.
    if (type === "FIFO" || type === "Socket") {
      return yield* new UsageError({ message: `cannot read ${display(path)}: is a pipe; save what it gives in a file` })
    }
    const chunks = yield* Effect.mapError(
      Stream.runCollect(fs.stream(path, { bytesToRead: limit, chunkSize: 1024 * 1024 })),
      unreadable(path)
    )
    return Buffer.concat(Chunk.toReadonlyArray(chunks))
  })

/** The file's text; of a file of more than `limit` bytes no more is read than shows it. */
export const text = (path: string, limit: number): Effect.Effect<string, UsageError, FileSystem.FileSystem> =>
  Effect.flatMap(bytes(path, limit + 1), (content) =>
    content.length > limit
      ? new UsageError({ message: `${display(path)} is longer than ${limit} bytes` })
      : Effect.succeed(new TextDecoder().decode(content))
  )

/** Says which file cannot be read, and why. */
export const unreadable = (path: string) => (error: Error.PlatformError) =>
  new UsageError({ message: `cannot read ${display(path) || '""'}: ${reason(error)}` })

/** The same of a path that the failure names itself. */
export const unusable = (error: Error.PlatformError) => {
  const at = error._tag === "SystemError" ? error.pathOrDescriptor : undefined
  return new UsageError({ message: `cannot use ${typeof at === "string" ? display(at) : "a path"}: ${reason(error)}` })
}

/** Node's description begins "ENOENT: no such file or directory, open '...'"; the path is said once. */
export const reason = ({ description = "unknown reason" }: Error.PlatformError): string =>
  description.startsWith("EISDIR") ? "is a directory" : description.replace(/,.*/s, "")
