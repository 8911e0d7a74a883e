/**
 * Where a pass works beside the skills: trees are staged there whole, and swapped in and moved away by renames. Whatever a
 * crash leaves of it, the next pass puts back or removes.
 *
 * @module
 */
import { Effect, Option } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import { type ConfinedFiles, temporaryPrefix } from "./ConfinedFiles.js"
import type { Leftover } from "./MaterializeReport.js"
import type { MaterialFile } from "./MaterialSkill.js"
import * as SkillFailure from "./SkillFailure.js"
import * as SkillTree from "./SkillTree.js"
import type { Target } from "./Target.js"
import * as TargetDirectory from "./TargetDirectory.js"

/** A target whose place is not as wanted. */
export interface Change extends Target {
  /** Whether something of ours is there, to be replaced. */
  readonly occupied: boolean
}

/** What became of the staging directories of this pass and of those before it. */
export interface Cleared {
  /** Directories that were put back. */
  readonly restored: Array<string>
  readonly leftovers: Array<Leftover>
}

const stagingPrefix = `${TargetDirectory.reservedPrefix}.staging-`

/** Of what is only to be removed: nobody works in it any longer, and nothing in it is to be put back. */
const discardedPrefix = `${TargetDirectory.reservedPrefix}.discarded-`

export const isLeftover = (name: string): boolean =>
  [stagingPrefix, discardedPrefix, temporaryPrefix].some((prefix) => name.startsWith(prefix))

/** The name of a staging directory: a random one leaves nothing to aim at. */
export const randomName = (): string => `${stagingPrefix}${crypto.randomUUID()}`

export const make = Effect.fnUntraced(function* (files: ConfinedFiles, staging: string) {
  yield* files.makeDirectory([staging], 0o700)
  for (const part of ["new", "old", "removed"]) yield* files.makeDirectory([staging, part], 0o700)
})

/** What the file system refuses is the skill's own failure. */
const orCause = Effect.catchAll((error: SkillFailure.FileError) => Effect.succeedSome(SkillFailure.ofFile(error)))

/** Writes a skill's whole tree, each file held to its metadata. Gives the path of one that is not what they say. */
const stage = (files: ConfinedFiles, at: ReadonlyArray<string>, tree: SkillTree.SkillTree) =>
  Effect.gen(function* () {
    yield* files.makeDirectory(at, 0o755)
    const open: Array<readonly [ReadonlyArray<string>, SkillTree.SkillTree]> = [[at, tree]]
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [directory, nodes] = next
      for (const [name, node] of nodes) {
        const entry = [...directory, name]
        if (SkillTree.isFile(node)) {
          const wrong = yield* writeFile(files, entry, node)
          if (wrong) return Option.some(node.path)
        } else {
          yield* files.makeDirectory(entry, 0o755)
          open.push([entry, node])
        }
      }
    }
    return Option.none<string>()
  })

/** True when the file's bytes are not what its metadata say; then nothing is written. */
const writeFile = Effect.fnUntraced(function* (files: ConfinedFiles, at: ReadonlyArray<string>, file: MaterialFile) {
  const { bytes } = file
  if (bytes.length !== file.size || (yield* Digest.sha256Hex(bytes)) !== file.sha256) return true
  // No execute bits: a skill's metadata have none, so none are invented.
  yield* files.write(at, bytes, 0o644)
  return false
})

/** Puts a staged tree in its place by renames: the old tree is there, or the new one. */
const swap = Effect.fnUntraced(function* (files: ConfinedFiles, staging: string, { directory, occupied }: Change) {
  const kind = yield* files.kind([directory])
  if (kind === "link") return Option.some<SkillFailure.Cause>({ reason: "link" })
  // It was not there when the directory was read, so it is somebody else's.
  if (kind !== "absent" && !occupied) return Option.some<SkillFailure.Cause>({ reason: "occupied" })
  const old = [staging, "old", directory]
  if (kind !== "absent") yield* files.rename([directory], old)
  yield* files
    .rename([staging, "new", directory], [directory])
    .pipe(Effect.onError(() => Effect.ignore(putBack(files, staging, directory))))
  // From here on it is never to be put back.
  if (kind !== "absent") yield* Effect.ignore(files.rename(old, [staging, "removed", directory]))
  return Option.none<SkillFailure.Cause>()
})

/**
 * Lays a skill out, or says why not. `isHeld` fails when the directory is another pass's by now. `landed` is run in one step
 * with the swap, after which an interruption may come.
 */
export const write = <E>(
  files: ConfinedFiles,
  staging: string,
  change: Change,
  { isHeld, landed }: { readonly isHeld: Effect.Effect<void, E>; readonly landed: Effect.Effect<unknown> }
) => {
  const staged = [staging, "new", change.directory]
  const writing = stage(files, staged, change.tree).pipe(
    Effect.map(Option.map((path): SkillFailure.Cause => ({ reason: "content", detail: ArchivePath.display(path) })))
  )
  const landing = Effect.zipRight(
    isHeld,
    swap(files, staging, change).pipe(
      orCause,
      Effect.tap((cause) => (Option.isNone(cause) ? landed : Effect.void))
    )
  ).pipe(Effect.uninterruptible)
  return writing.pipe(
    orCause,
    Effect.flatMap((cause) => (Option.isNone(cause) ? landing : Effect.succeed(cause))),
    Effect.tap((cause) =>
      // A full disk needs the space for the next one.
      Option.isNone(cause) ? Effect.void : Effect.ignore(files.removeTree([staging], staged))
    )
  )
}

/** Moves a skill's directory away in one step, so that never a part of it is there; or says why it is there still. */
export const remove = (files: ConfinedFiles, staging: string, directory: string) =>
  Effect.gen(function* () {
    const kind = yield* files.kind([directory])
    if (kind === "link") return Option.some<SkillFailure.Cause>({ reason: "link" })
    if (kind !== "absent") yield* files.rename([directory], [staging, "removed", directory])
    return Option.none<SkillFailure.Cause>()
  }).pipe(orCause)

/** Puts the old tree of a swap back where its place is empty. Says whether it did. */
const putBack = Effect.fnUntraced(function* (files: ConfinedFiles, staging: string, directory: string) {
  const old = [staging, "old", directory]
  if (!TargetDirectory.isUsable(directory) || (yield* files.kind(old)) !== "directory") return false
  if ((yield* files.kind([directory])) !== "absent") return false
  yield* files.rename(old, [directory])
  return true
})

/** Says of what cannot be cleared away why: the next pass tries again. */
const reporting = (name: string, cleared: Cleared) =>
  Effect.catchAll((error: SkillFailure.FileError) =>
    Effect.sync(() => {
      cleared.leftovers.push({ name: ArchivePath.display(name), ...SkillFailure.ofFile(error) })
    })
  )

/** Puts back what a swap that did not end has moved away. Only of recorded directories: others were planted. */
export const restore = (files: ConfinedFiles, staging: string, recorded: ReadonlySet<string>, cleared: Cleared) =>
  Effect.gen(function* () {
    if ((yield* files.kind([staging, "old"])) !== "directory") return
    for (const directory of yield* files.list([staging, "old"])) {
      if (recorded.has(directory) && (yield* putBack(files, staging, directory))) cleared.restored.push(directory)
    }
  })

const discard = (files: ConfinedFiles, name: string, cleared: Cleared) =>
  Effect.flatMap(files.kind([name]), (kind) =>
    kind === "directory" ? files.removeTree([name], [name]) : files.removeFile([name])
  ).pipe(reporting(name, cleared))

/** Removes a staging directory of which nothing is to be put back. */
export const clear = (files: ConfinedFiles, staging: string, cleared: Cleared) => {
  const discarded = `${discardedPrefix}${crypto.randomUUID()}`
  return Effect.zipRight(files.rename([staging], [discarded]), discard(files, discarded, cleared)).pipe(
    reporting(staging, cleared)
  )
}

/** Clears what passes before this one left. */
export const recover = Effect.fnUntraced(function* (
  files: ConfinedFiles,
  recorded: ReadonlySet<string>,
  cleared: Cleared
) {
  for (const name of (yield* files.list([])).filter(isLeftover)) {
    yield* Effect.gen(function* () {
      const isOver = name.startsWith(discardedPrefix) || (yield* files.kind([name])) !== "directory"
      if (isOver) return yield* discard(files, name, cleared)
      // Under another name nobody who might still be at work in it can swap a half removed tree in.
      const staging = randomName()
      yield* files.rename([name], [staging])
      yield* Effect.zipRight(restore(files, staging, recorded, cleared), clear(files, staging, cleared)).pipe(
        reporting(staging, cleared)
      )
    }).pipe(reporting(name, cleared))
  }
})
