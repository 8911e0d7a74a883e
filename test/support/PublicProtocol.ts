/**
 * The public schemas and fixtures of PRP version 1, where they are at hand. Tests over them are skipped where they are not.
 *
 * They are looked for in the directory that `PRP_PROTOCOL_DIR` names, and else beside the repository.
 */
import { existsSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

export const directory = resolve(
  process.env["PRP_PROTOCOL_DIR"] ?? fileURLToPath(new URL("../../../shared/data/prp", import.meta.url))
)

export const present = existsSync(join(directory, "manifest.json"))

/** For the title of what is skipped. */
export const note = present ? "" : " (skipped: not at hand; PRP_PROTOCOL_DIR names their directory)"

/** A file's text, by its path in the manifest. */
export const read = (path: string): string => readFileSync(join(directory, path), "utf8")

export interface SchemaEntry {
  readonly path: string
  readonly id: string
  readonly sha256: string
}

export interface FixtureEntry {
  readonly path: string
  readonly sha256: string
  readonly expectation: "accept" | "reject"
  readonly compatibilityCase: string
}

interface Manifest {
  readonly schemas: ReadonlyArray<SchemaEntry>
  readonly fixtures: ReadonlyArray<FixtureEntry>
}

export const manifest = (): Manifest => JSON.parse(read("manifest.json"))

const atHand = ({ path }: { readonly path: string }) => existsSync(join(directory, path))

/** The manifest lists more than is at hand. */
export const schemas = (): ReadonlyArray<SchemaEntry> => manifest().schemas.filter(atHand)
export const fixtures = (): ReadonlyArray<FixtureEntry> => manifest().fixtures.filter(atHand)
