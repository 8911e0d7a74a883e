/**
 * Files whose content survives a crash whole, as every store and directory of this package writes them: made exclusively under a
 * temporary name, synced, and renamed to their place by whoever owns it.
 *
 * The platform does not take back a system call when it is interrupted, so each is uninterruptible here: one that ended later could
 * leave its file behind, or write into the next file with its descriptor.
 *
 * @module
 */
import type { FileSystem } from "@effect/platform"
import { isPlatformError, type PlatformError } from "@effect/platform/Error"
import { Effect, Option, type Scope } from "effect"

/** Between two of these a write can be interrupted. In bytes. */
const partBytes = 1024 * 1024

/**
 * Makes a file that must not be there, written and synced, and open until the scope ends. Exclusive, so that a link planted under
 * its name is not followed.
 */
export const create = (
  fs: FileSystem.FileSystem,
  file: string,
  bytes: Uint8Array,
  options: { readonly mode?: number } = {}
): Effect.Effect<FileSystem.File, PlatformError, Scope.Scope> =>
  Effect.gen(function* () {
    const handle = yield* fs.open(file, { flag: "wx", ...options })
    for (let start = 0; start < bytes.length; start += partBytes) {
      yield* Effect.uninterruptible(handle.writeAll(bytes.subarray(start, start + partBytes)))
    }
    yield* Effect.uninterruptible(handle.sync)
    return handle
  })

/** The same, closed. */
export const write = (...args: Parameters<typeof create>): Effect.Effect<void, PlatformError> =>
  Effect.scoped(Effect.asVoid(create(...args)))

/** Makes the names in a directory survive a power failure, on systems that can sync one. */
export const syncDirectory = (fs: FileSystem.FileSystem, directory: string): Effect.Effect<void, PlatformError> =>
  Effect.uninterruptible(Effect.scoped(Effect.flatMap(fs.open(directory), (handle) => handle.sync)))

/** The failure that a file cannot be closed, which is a defect of the platform's: a full disk may say so only then. */
export const withClosing: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | PlatformError, R> =
  Effect.catchSomeDefect((defect) => (isPlatformError(defect) ? Option.some(Effect.fail(defect)) : Option.none()))

export const isNotFound = (error: { readonly _tag: string }): boolean => hasReason(error, "NotFound")

export const isAlreadyThere = (error: { readonly _tag: string }): boolean => hasReason(error, "AlreadyExists")

const hasReason = (error: { readonly _tag: string }, reason: string) =>
  isPlatformError(error) && error._tag === "SystemError" && error.reason === reason
