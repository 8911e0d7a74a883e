/**
 * One pass at a time in a skills directory, of whatever process: a lock file that its holder touches while it is at work.
 *
 * A lock that nobody touches any longer belonged to a process that was killed, and is taken over. "No longer" is measured by
 * whoever waits, from one look to the next, so no two clocks are compared and none that is set back matters.
 *
 * Two passes can be at work all the same: when a holder was stopped for that long and then goes on; and when two that wait
 * take the same stale lock over, the second moves the first one's new lock away, and a third takes the empty place before
 * it is put back. The file system has no exchange that depends on a file's content, and a lock for the taking over could go
 * stale as well. So a pass looks before each step whether the lock is still its own, and ends when it is not; and no skill's
 * wholeness depends on it: every step is a rename of a whole tree or file, each skill is one pass's or the other's, and the
 * next pass finds what differs.
 *
 * @module
 */
import { Effect, Option, Schedule } from "effect"
import * as DurableFile from "../files/DurableFile.js"
import { type ConfinedFiles, temporaryPrefix } from "./ConfinedFiles.js"
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

const busy = () => new MaterializeError({ path: fileName, reason: "busy" })

/**
 * Holds the directory's lock until the scope ends, and gives a check that it still does. Both fail with `busy`: when another
 * pass does not end, and when another one has taken the lock over.
 */
export const hold = Effect.fn("DirectoryLock.hold")(function* (files: ConfinedFiles) {
  const token = crypto.randomUUID()
  const lock = yield* Effect.acquireReleaseInterruptible(acquire(files, token), () =>
    Effect.ignore(release(files, token))
  )
  // By the open file: whatever is in its place by then is not touched.
  const touch = Effect.zipRight(lock.seek(0, "start"), lock.write(encoder.encode(token)))
  // The scope's end waits for the fiber, which inherits from a caller that is uninterruptible that it is too.
  yield* Effect.forkScoped(
    Effect.interruptible(Effect.repeat(Effect.ignore(Effect.uninterruptible(touch)), Schedule.spaced(touchedEvery)))
  )
  return Effect.filterOrFail(content(files, fileName), (found) => found === token, busy).pipe(Effect.asVoid)
})

const acquire = Effect.fnUntraced(function* (files: ConfinedFiles, token: string) {
  let seen: string | undefined
  let unchanged = 0
  for (let looks = 0; ; looks++) {
    const taken = yield* take(files, token)
    if (Option.isSome(taken)) return taken.value
    // Nobody's lock.
    const isLink = (yield* files.kind([fileName])) === "link"
    if (isLink) yield* files.removeFile([fileName])
    const state = yield* look(files)
    unchanged = state === seen ? unchanged + 1 : 0
    seen = state
    if (unchanged >= looksUntilStale) yield* takeOver(files, state)
    else if (looks >= looksUntilBusy) return yield* busy()
    else if (!isLink) yield* Effect.sleep(lookedAtEvery)
  }
})

const take = (files: ConfinedFiles, token: string) =>
  files.create([fileName], encoder.encode(token), 0o644).pipe(
    Effect.asSome,
    Effect.catchIf(DurableFile.isAlreadyThere, () => Effect.succeedNone),
    // Made, but not written: a full disk.
    Effect.tapError(() => Effect.ignore(files.removeFile([fileName]))),
    Effect.uninterruptible
  )

const content = (files: ConfinedFiles, name: string) =>
  Effect.map(files.read([name], 1024), (bytes) => Option.getOrElse(Option.map(bytes, decode), () => ""))

const decode = (bytes: Uint8Array) => decoder.decode(bytes)

/** Whose lock it is and when it was last touched; the same for a lock that has just been released. */
const look = (files: ConfinedFiles) =>
  Effect.orElseSucceed(
    Effect.zipWith(content(files, fileName), files.modified(fileName), (token, at) => `${token} ${at}`),
    () => undefined
  )

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
