/**
 * The other direction of `Snapshot.verify`: skills packed as the archive that a registry delivers, for test doubles and for
 * servers.
 *
 * @module
 */
import { Effect } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import * as ZipWriter from "../archive/ZipWriter.js"
import type { SnapshotResponse } from "./Snapshot.js"

/** A skill to pack. `files` by path in the skill: text, or bytes for what is not text. One of them is `SKILL.md`. */
export interface SkillSource {
  readonly name: string
  readonly description: string
  readonly files: Readonly<Record<string, string | Uint8Array>>
}

/**
 * Packs skills as one revision of a container: manifest, canonical archive and strong ETag. The same skills give the same
 * bytes, in whatever order they and their files are listed.
 *
 * Names and paths have to be safe and unique; an unsafe or repeated path is a defect. Whether the contract allows the rest, a
 * skill without `SKILL.md` or a name with a `/` in it, is asked by `Snapshot.verify`: verify what is to be delivered.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { SkillArchive, Snapshot } from "effect-agent-contracts/delivery"
 *
 * const program = Effect.gen(function* () {
 *   const response = yield* SkillArchive.pack("r1", [
 *     { name: "greeting", description: "Greets people", files: { "SKILL.md": "Say hello." } }
 *   ])
 *   return yield* Snapshot.verify(response)
 * })
 *
 * Effect.runPromise(program).then((snapshot) => console.log(snapshot.skills.length)) // 1
 * ```
 */
export const pack = Effect.fn("SkillArchive.pack")(function* (revision: string, skills: ReadonlyArray<SkillSource>) {
  const packed = yield* Effect.forEach(
    skills.toSorted((left, right) => ArchivePath.compare(left.name, right.name)),
    packSkill
  )
  const manifest = { schemaVersion: 1, revision, skills: packed.map((skill) => skill.entry) }
  const archive = ZipWriter.write([
    { path: "manifest.json", bytes: encoder.encode(JSON.stringify(manifest)) },
    ...packed.flatMap((skill) => skill.files)
  ])
  const response: SnapshotResponse = {
    revision,
    etag: yield* Digest.etag(archive),
    contentType: "application/zip",
    archive
  }
  return response
})

const encoder = new TextEncoder()

const packSkill = Effect.fnUntraced(function* ({ name, description, files }: SkillSource) {
  const sources = Object.entries(files)
    .toSorted(([left], [right]) => ArchivePath.compare(left, right))
    .map(([path, content]) => ({ path, bytes: typeof content === "string" ? encoder.encode(content) : content }))
  const listed = yield* Effect.forEach(sources, ({ path, bytes }) =>
    Effect.map(Digest.sha256Hex(bytes), (sha256) => ({ path, size: bytes.length, sha256 }))
  )
  return {
    entry: { name, description, files: listed },
    files: sources.map(({ path, bytes }) => ({ path: `${name}/${path}`, bytes }))
  }
})
