import { createHash } from "node:crypto"
import * as ZipWriter from "../../src/archive/ZipWriter.js"
import * as Snapshot from "../../src/delivery/Snapshot.js"

/** A skill as a test writes it down; files by path, text or bytes. */
export interface SkillSource {
  readonly description?: string
  readonly files: Readonly<Record<string, string | Uint8Array>>
}

/** Skills by name. */
export type SkillSources = Readonly<Record<string, SkillSource>>

const sha256Hex = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

const inByteOrder = <A>(record: Readonly<Record<string, A>>): Array<[string, A]> =>
  Object.entries(record).sort(([left], [right]) => Buffer.compare(Buffer.from(left), Buffer.from(right)))

/**
 * The archive that a registry would publish for these skills: `manifest.json` with sizes and digests, then every file.
 * Names and paths are sorted here, so a test may list them in any order.
 */
export const archive = (sources: SkillSources, revision = "r1"): Uint8Array => {
  const skills = inByteOrder(sources).map(([name, source]) => ({
    name,
    description: source.description ?? `Description of ${name}`,
    files: inByteOrder(source.files).map(([path, content]) => ({
      path,
      bytes: typeof content === "string" ? Buffer.from(content) : content
    }))
  }))
  const manifest = {
    schemaVersion: 1,
    revision,
    skills: skills.map(({ files, ...skill }) => ({
      ...skill,
      files: files.map(({ path, bytes }) => ({ path, size: bytes.length, sha256: sha256Hex(bytes) }))
    }))
  }
  return ZipWriter.write([
    { path: "manifest.json", bytes: Buffer.from(JSON.stringify(manifest)) },
    ...skills.flatMap(({ name, files }) => files.map(({ path, bytes }) => ({ path: `${name}/${path}`, bytes })))
  ])
}

/** The strong ETag of an archive. */
export const etagOf = (bytes: Uint8Array): string => `"${sha256Hex(bytes)}"`

/** The whole answer of a registry for these skills: it verifies. */
export const response = (sources: SkillSources, revision = "r1"): Snapshot.SnapshotResponse => {
  const bytes = archive(sources, revision)
  return { revision, etag: etagOf(bytes), contentType: "application/zip", archive: bytes }
}

/** These skills as an agent gets them. */
export const verified = (sources: SkillSources, revision = "r1") => Snapshot.verify(response(sources, revision))

/** One skill of one file, for tests that only need some valid snapshot. */
export const greeting = {
  greeting: { description: "Greets people", files: { "SKILL.md": "# Greeting\n\nSay hello.\n" } }
} satisfies SkillSources
