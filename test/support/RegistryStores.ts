import { Layer } from "effect"
import * as ZipWriter from "../../src/archive/ZipWriter.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import * as Registry from "../../src/registry/Registry.js"
import { stores } from "./Stores.js"

const encoder = new TextEncoder()

/** A registry over each store, empty whenever it is built; the store under it is given too. */
export const registries = stores.map(([name, store]) => [name, Layer.provideMerge(Registry.layer, store)] as const)

const toBytes = (content: string | Uint8Array) => (typeof content === "string" ? encoder.encode(content) : content)

/** A valid upload: a skill that says `text`, and other files by path. */
export const bundle = (
  name: string,
  text = "Say hello.",
  files: Readonly<Record<string, string | Uint8Array>> = {},
  description = `Description of ${name}`
) =>
  SkillBundle.fromFiles([
    { path: `${name}/SKILL.md`, bytes: toBytes(`---\nname: ${name}\ndescription: ${description}\n---\n${text}\n`) },
    ...Object.entries(files).map(([path, content]) => ({ path: `${name}/${path}`, bytes: toBytes(content) }))
  ])

/** What no upload makes, but another program's rows may hold: a bundle of whatever files. */
export const looseBundle = (
  name: string,
  files: Readonly<Record<string, string | Uint8Array>>
): SkillBundle.SkillBundle => ({
  name,
  description: `Description of ${name}`,
  directory: name,
  archive: ZipWriter.write(
    Object.entries(files).map(([path, content]) => ({ path: `${name}/${path}`, bytes: toBytes(content) }))
  ),
  sha256: "",
  files: [],
  warnings: []
})
