/**
 * The marker of a skills directory: which versions the last pass laid out (contract, Materialization).
 *
 * A marker can be written by whoever may write the directory, an agent say, so it proves nothing by itself: `matches` is the
 * reference's test of presence, and `SkillMaterializer` proves the content of every file.
 *
 * @module
 */
import { Effect, Option, Schema } from "effect"
import * as ArchivePath from "../archive/ArchivePath.js"
import * as BoundedJson from "../archive/BoundedJson.js"
import * as Utf8 from "../archive/Utf8.js"

/** The marker's name in the skills directory. */
export const fileName = ".materialized"

/**
 * The integrity generation: what a pass that wrote the marker was bound to have done. In generation 2 every archive was
 * verified against the digest recorded for it.
 */
export const generation = 2

/** One skill that was laid out. */
export interface MarkerEntry {
  readonly skillId: string
  readonly version: string
}

/** A skill that is to be laid out, for {@link matches}. `directory` comes from trusted metadata. */
export interface Resolved extends MarkerEntry {
  readonly directory: string
}

const Entry = Schema.Struct({
  skillId: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("skill_id")),
  version: Schema.String
})

const Entries = Schema.Array(Entry)
const Current = Schema.Struct({ v: Schema.Literal(generation), skills: Entries })
const AnyGeneration = Schema.Union(Entries, Schema.Struct({ skills: Entries }))

/**
 * The canonical bytes of a set: entries in UTF-8 byte order of their ids, so that equal sets give equal bytes. Ids must be
 * unique.
 *
 * @example
 * ```ts
 * import * as Marker from "./Marker.js"
 *
 * const bytes = Marker.encode([{ skillId: "pdf", version: "3" }])
 * console.log(new TextDecoder().decode(bytes)) // {"v":2,"skills":[{"skill_id":"pdf","version":"3"}]}
 * ```
 */
export const encode = (entries: Iterable<MarkerEntry>): Uint8Array => {
  const skills = [...entries]
    .sort((left, right) => ArchivePath.compare(left.skillId, right.skillId))
    .map(({ skillId, version }) => ({ skill_id: skillId, version }))
  return new TextEncoder().encode(JSON.stringify({ v: generation, skills }))
}

/** Strict UTF-8 without a byte order mark, as JSON on the wire has to be. */
const parseJson = Effect.fnUntraced(function* (bytes: Uint8Array) {
  if (bytes[0] === 0xef || !(yield* Utf8.isValid(bytes))) return Option.none<unknown>()
  return yield* Effect.option(BoundedJson.parse(bytes))
})

/**
 * The entries of a marker of the current generation. None for anything else - an older one, the bare array of the first,
 * a newer one, or bytes that are no marker - which all mean "materialize again": a guarantee that this code cannot judge
 * must not satisfy the one that it gives.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import * as Marker from "./Marker.js"
 *
 * Effect.runPromise(Marker.parse(new TextEncoder().encode("[]"))).then(console.log) // none
 * ```
 */
export const parse: (bytes: Uint8Array) => Effect.Effect<Option.Option<ReadonlyArray<MarkerEntry>>> = Effect.fnUntraced(
  function* (bytes) {
    const json = yield* parseJson(bytes)
    return Option.map(Option.flatMap(json, Schema.decodeUnknownOption(Current)), (marker) => marker.skills)
  }
)

/**
 * The ids that a marker of any generation names, or none for bytes that are no marker. They say nothing of what is on disk,
 * only that a directory was written by a materialization once, and so may be replaced by one.
 */
export const namedIds: (bytes: Uint8Array) => Effect.Effect<Option.Option<ReadonlySet<string>>> = Effect.fnUntraced(
  function* (bytes) {
    const marker = Option.flatMap(yield* parseJson(bytes), Schema.decodeUnknownOption(AnyGeneration))
    return Option.map(
      marker,
      (marker) => new Set(("skills" in marker ? marker.skills : marker).map((entry) => entry.skillId))
    )
  }
)

/** Whether the marker's set is exactly the wanted one: as many, and each wanted id once with its version. */
export const isBijection = (entries: ReadonlyArray<MarkerEntry>, wanted: ReadonlyArray<MarkerEntry>): boolean => {
  if (entries.length !== wanted.length) return false
  const versions = new Map(entries.map((entry) => [entry.skillId, entry.version]))
  return versions.size === entries.length && wanted.every(({ skillId, version }) => versions.get(skillId) === version)
}

/**
 * The reference's test whether the wanted set is laid out already: the marker is of the current generation, names exactly
 * the wanted versions, and every wanted directory has a `SKILL.md`. The directories are those of trusted metadata, so a
 * rewritten marker cannot point at others; `wanted` has every id once.
 *
 * It tests presence, not content. An edit in place, a deleted second file and a forged version pass it;
 * `SkillMaterializer.materialize` lets none of them pass.
 *
 * @param options.read reads a file by its path in the skills directory; a failure means that it is not there
 *
 * @example
 * ```ts
 * import { FileSystem } from "@effect/platform"
 * import { Effect } from "effect"
 * import * as Marker from "./Marker.js"
 *
 * const isLaidOut = Effect.gen(function* () {
 *   const fs = yield* FileSystem.FileSystem
 *   const marker = yield* fs.readFile("skills/.materialized")
 *   return yield* Marker.matches({
 *     marker,
 *     wanted: [{ skillId: "skill_01", version: "3", directory: "pdf" }],
 *     read: (path) => fs.readFile(`skills/${path}`)
 *   })
 * })
 * ```
 */
export const matches = Effect.fn("Marker.matches")(function* <E, R>(options: {
  readonly marker: Uint8Array
  readonly wanted: ReadonlyArray<Resolved>
  readonly read: (path: string) => Effect.Effect<unknown, E, R>
}) {
  const entries = yield* parse(options.marker)
  if (Option.isNone(entries) || !isBijection(entries.value, options.wanted)) return false
  for (const { directory } of options.wanted) {
    if (!(yield* Effect.isSuccess(options.read(`${directory}/SKILL.md`)))) return false
  }
  return true
})
