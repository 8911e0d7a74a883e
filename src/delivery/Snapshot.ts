import type { Effect, Option } from "effect"
import type { InvalidSnapshot, UnsupportedServer } from "./DeliveryError.js"

/** One file of a verified skill. Its bytes cannot be changed from outside. */
export interface SkillFile {
  readonly path: string
  /** In bytes. */
  readonly size: number
  /** Lower-case hex. */
  readonly sha256: string
  /** Whether the bytes are strict UTF-8. */
  readonly isText: boolean
  /** The text, every character kept, decoded at each read; none for a binary file. */
  readonly text: Option.Option<string>
  /** A fresh copy of the bytes. */
  readonly bytes: Uint8Array
}

export interface Skill {
  readonly name: string
  readonly description: string
  /** In UTF-8 byte order of their paths. */
  readonly files: ReadonlyArray<SkillFile>
}

/** The immutable value that an agent sees. */
export interface VerifiedSnapshot {
  readonly revision: string
  readonly etag: string
  /** In UTF-8 byte order of their names; combined: by container in the order given, then name. */
  readonly skills: ReadonlyArray<Skill>
}

/** What a registry answered: one revision's archive with its metadata. */
export interface SnapshotResponse {
  readonly revision: string
  readonly etag: string
  readonly contentType: string
  readonly archive: Uint8Array
}

/** Bounds of the contract. */
export declare const limits: { readonly archiveBytes: number; readonly decodedBytes: number; readonly entries: number }

/** Response -> verified snapshot. */
export declare const verify: (
  response: SnapshotResponse
) => Effect.Effect<VerifiedSnapshot, InvalidSnapshot | UnsupportedServer>

/** The same for an archive at hand (a file): what is not expected is taken from the archive itself. */
export declare const verifyArchive: (
  archive: Uint8Array,
  expected?: { readonly revision?: string; readonly etag?: string }
) => Effect.Effect<VerifiedSnapshot, InvalidSnapshot | UnsupportedServer>

export interface SnapshotPart {
  readonly containerId: string
  readonly snapshot: VerifiedSnapshot
}

/** The combined snapshot of a list of containers (contract, Lifecycle 12). */
export declare const combine: (parts: ReadonlyArray<SnapshotPart>) => VerifiedSnapshot
