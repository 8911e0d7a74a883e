import { createHash } from "node:crypto"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import type { SnapshotResponse } from "../../src/delivery/Snapshot.js"

/** What an archive holds, so that a test can change any part of it before it is built. */
export interface Contents {
  readonly manifest: Manifest
  /** Decoded bytes by the path in the archive, the manifest aside. */
  readonly files: ReadonlyMap<string, Uint8Array>
}

export interface Manifest {
  readonly schemaVersion: unknown
  readonly revision: string
  readonly skills: ReadonlyArray<{
    readonly name: string
    readonly description: string
    readonly files: ReadonlyArray<{ readonly path: string; readonly size: number; readonly sha256: string }>
  }>
}

export const sha256Hex = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")

/** Contents that agree with each other: skills by name, files by path, both already in UTF-8 byte order. */
export const contents = (
  skills: Readonly<Record<string, Readonly<Record<string, string | Uint8Array>>>>,
  revision = "r1"
): Contents => {
  const files = new Map<string, Uint8Array>()
  const manifest = {
    schemaVersion: 1,
    revision,
    skills: Object.entries(skills).map(([name, content]) => ({
      name,
      description: `About ${name}`,
      files: Object.entries(content).map(([path, source]) => {
        const bytes = typeof source === "string" ? new TextEncoder().encode(source) : source
        files.set(`${name}/${path}`, bytes)
        return { path, size: bytes.length, sha256: sha256Hex(bytes) }
      })
    }))
  }
  return { manifest, files }
}

/** The entries of an archive; `manifest.json` is any JSON or any bytes. */
export const entries = (
  manifest: unknown,
  files: ReadonlyMap<string, Uint8Array>,
  method = 8
): ReadonlyArray<RawZip.RawEntry> => [
  {
    name: "manifest.json",
    content: manifest instanceof Uint8Array ? manifest : new TextEncoder().encode(JSON.stringify(manifest)),
    method
  },
  ...Array.from(files, ([name, content]) => ({ name, content, method }))
]

/** The answer that carries this archive, its own ETag computed. */
export const response = (archive: Uint8Array, rest: Partial<SnapshotResponse> = {}): SnapshotResponse => ({
  revision: "r1",
  etag: `"${sha256Hex(archive)}"`,
  contentType: "application/zip",
  archive,
  ...rest
})

/** The answer with these contents. */
export const answer = ({ files, manifest }: Contents, rest: Partial<SnapshotResponse> = {}): SnapshotResponse =>
  response(RawZip.build({ entries: entries(manifest, files) }), rest)
