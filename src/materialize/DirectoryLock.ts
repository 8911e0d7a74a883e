/**
 * One pass at a time in a skills directory, of whatever process: a lock file that its holder touches while it is at work.
 *
 * A lock that nobody touches any longer belonged to a process that was killed, and is taken over. "No longer" is measured by
 * whoever waits, from one look to the next, so no two clocks are compared and none that is set back matters. Should a
 * holder have been stopped that long and then go on, two passes are at work: every step of theirs is a rename of a whole
 * tree or file, so that each skill still is one pass's or the other's, and the next pass finds what differs.
 *
 * @module
 */
import type { PlatformError } from "@effect/platform/Error"
import { Clock, Effect, Option, Schedule } from "effect"
import { type ConfinedFiles, LinkRefused, temporaryPrefix } from "./ConfinedFiles.js"
import { MaterializeError } from "./MaterializeError.js"
import { reservedPrefix } from "./TargetDirectory.js"

export const fileName = `${reservedPrefix}.lock`

const touchedEvery = "1 second"
const lookedAtEvery = "100 millis"
/** 5 seconds: long enough for a holder whose event loop is stalled. */
const looksUntilStale = 50
/** 30 seconds: longer than passes take. */
const looksUntilBusy = 300

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const isAlreadyThere = (error: PlatformError | LinkRefused) =>
  error._tag === "SystemError" && error.reason === "AlreadyExists"

/** Holds the directory's lock until the scope ends. Fails with `busy` when another pass does not end. */
export const hold = Effect.fn("DirectoryLock.hold")(function* (files: ConfinedFiles) {
  const token = crypto.randomUUID()
  yield* Effect.acquireReleaseInterruptible(acquire(files, token), () => Effect.ignore(release(files, token)))
  const touch = Effect.flatMap(Clock.currentTimeMillis, (now) => files.touch(fileName, now / 1000))
  yield* Effect.forkScoped(Effect.repeat(Effect.ignore(touch), Schedule.spaced(touchedEvery)))
})

const acquire = Effect.fnUntraced(function* (files: ConfinedFiles, token: string) {
  let seen: string | undefined
  let unchanged = 0
  for (let looks = 0; ; looks++) {
    if (yield* take(files, token)) return
    const state = yield* look(files)
    unchanged = state === seen ? unchanged + 1 : 0
    seen = state
    if (unchanged >= looksUntilStale) yield* takeOver(files, state)
    else if (looks >= looksUntilBusy) return yield* new MaterializeError({ path: fileName, reason: "busy" })
    else yield* Effect.sleep(lookedAtEvery)
  }
})

const take = (files: ConfinedFiles, token: string) =>
  files.write([fileName], encoder.encode(token), 0o644).pipe(
    Effect.as(true),
    Effect.catchIf(isAlreadyThere, () => Effect.succeed(false)),
    // Made, but not written: a full disk.
    Effect.tapError(() => Effect.ignore(files.removeFile([fileName]))),
    Effect.uninterruptible
  )

const content = (files: ConfinedFiles, name: string) =>
  Effect.map(files.read([name], 1024), (bytes) => Option.getOrElse(Option.map(bytes, decode), () => ""))

const decode = (bytes: Uint8Array) => decoder.decode(bytes)

/** Whose lock it is and when it was last touched; the same for a lock that has just been released. */
const look = Effect.fnUntraced(function* (files: ConfinedFiles) {
  if ((yield* files.kind([fileName])) === "link") return yield* new LinkRefused({ path: fileName })
  return yield* Effect.orElseSucceed(
    Effect.zipWith(content(files, fileName), files.modified(fileName), (token, at) => `${token} ${at}`),
    () => undefined
  )
})

/** Moves a stale lock away. Was it another one by then, it is put back. */
const takeOver = Effect.fnUntraced(
  function* (files: ConfinedFiles, stale: string | undefined) {
    const aside = `${temporaryPrefix}${crypto.randomUUID()}`
    yield* files.rename([fileName], [aside])
    const token = yield* content(files, aside)
    if (stale?.startsWith(`${token} `) !== true) yield* files.link(aside, fileName)
    yield* files.removeFile([aside])
  },
  Effect.ignore,
  Effect.uninterruptible
)

const release = Effect.fnUntraced(function* (files: ConfinedFiles, token: string) {
  if ((yield* content(files, fileName)) === token) yield* files.removeFile([fileName])
})
