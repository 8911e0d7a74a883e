import type { PlatformError } from "@effect/platform/Error"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import { Effect } from "effect"

/** What a test does around one operation: nothing, fail instead of it, wait before it. */
export type Around = <A, R>(
  operation: string,
  effect: Effect.Effect<A, PlatformError, R>
) => Effect.Effect<A, PlatformError, R>

const failure = (code: string, text: string) => (operation: string) =>
  new SystemError({
    module: "FileSystem",
    method: operation,
    reason: "Unknown",
    pathOrDescriptor: "/secret/path",
    description: `${code}: ${text}, '/secret/path'`,
    cause: Object.assign(new Error(`${code}: ${text}, '/secret/path'`), { code })
  })

/** The failure of a disk that gives up. The path is there to see that it goes no further. */
export const ioError = failure("EIO", "i/o error")

/** The failure of a disk that is full. */
export const noSpace = failure("ENOSPC", "no space left on device")

const interceptFile = (file: FileSystem.File, around: Around): FileSystem.File => ({
  [FileSystem.FileTypeId]: FileSystem.FileTypeId,
  fd: file.fd,
  stat: around(
    "file.stat",
    Effect.suspend(() => file.stat)
  ),
  seek: (...args) => file.seek(...args),
  sync: around(
    "file.sync",
    Effect.suspend(() => file.sync)
  ),
  read: (...args) => around("file.read", file.read(...args)),
  readAlloc: (...args) => around("file.readAlloc", file.readAlloc(...args)),
  truncate: (...args) => around("file.truncate", file.truncate(...args)),
  write: (...args) => around("file.write", file.write(...args)),
  writeAll: (...args) => around("file.writeAll", file.writeAll(...args))
})

/**
 * A file system on which every operation goes through `around`, those of its open files included. A file that cannot be
 * closed is a defect, as it is with the platform's own.
 */
export const intercept = (fs: FileSystem.FileSystem, around: Around): FileSystem.FileSystem => ({
  ...fs,
  makeDirectory: (...args) => around("makeDirectory", fs.makeDirectory(...args)),
  readDirectory: (...args) => around("readDirectory", fs.readDirectory(...args)),
  link: (...args) => around("link", fs.link(...args)),
  readFile: (...args) => around("readFile", fs.readFile(...args)),
  readLink: (...args) => around("readLink", fs.readLink(...args)),
  realPath: (...args) => around("realPath", fs.realPath(...args)),
  remove: (...args) => around("remove", fs.remove(...args)),
  rename: (...args) => around("rename", fs.rename(...args)),
  stat: (...args) => around("stat", fs.stat(...args)),
  utimes: (...args) => around("utimes", fs.utimes(...args)),
  writeFile: (...args) => around("writeFile", fs.writeFile(...args)),
  open: (...args) =>
    Effect.acquireRelease(around("open", fs.open(...args)), () => Effect.orDie(around("close", Effect.void))).pipe(
      Effect.map((file) => interceptFile(file, around))
    )
})

/** The operations that change nothing. */
export const reads: ReadonlySet<string> = new Set([
  "close",
  "file.read",
  "file.stat",
  "open",
  "readDirectory",
  "readLink",
  "realPath",
  "stat"
])

/** Whether an operation may change something; an `open` may make a file. */
export const writes = (operation: string): boolean => !reads.has(operation) || operation === "open"
