import { createHash } from "node:crypto"
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs"
import { join } from "node:path"
import * as MaterialSkill from "../../src/materialize/MaterialSkill.js"

/** A skill as a test writes it down: files by path, text or bytes. Without a version that of its content. */
export const skill = (
  name: string,
  files: Readonly<Record<string, string | Uint8Array>>,
  rest: Partial<MaterialSkill.MaterialSkill> = {}
): MaterialSkill.MaterialSkill => {
  const material = Object.entries(files).map(([path, content]) => {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content
    return { path, bytes, size: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") }
  })
  return { skillId: name, name, version: MaterialSkill.contentVersion(material), files: material, ...rest }
}

/**
 * Everything below a directory by its path: a file's text, a link's target behind `->`, `/` for an empty directory; but for
 * the one that a materialization removes others with.
 */
export const contents = (directory: string): Record<string, string> => {
  const found: Record<string, string> = {}
  const walk = (at: string, prefix: string) => {
    const names = readdirSync(at).sort()
    if (names.length === 0 && prefix !== "") found[prefix] = ""
    for (const name of names) {
      const path = join(at, name)
      const stat = lstatSync(path)
      if (stat.isSymbolicLink()) found[`${prefix}${name}`] = `-> ${readlinkSync(path)}`
      else if (stat.isDirectory()) walk(path, `${prefix}${name}/`)
      else found[`${prefix}${name}`] = stat.isFile() ? readFileSync(path, "utf8") : "special"
    }
  }
  walk(directory, "")
  const { ".materialized.empty/": _, ...rest } = found
  return rest
}

/** The marker that names these versions. */
export const marker = (versions: Readonly<Record<string, string>>): string =>
  JSON.stringify({
    v: 2,
    skills: Object.entries(versions)
      .sort(([left], [right]) => Buffer.compare(Buffer.from(left), Buffer.from(right)))
      .map(([skill_id, version]) => ({ skill_id, version }))
  })

/** A directory that holds exactly these skills, each in the directory of its name, and their marker. */
export const laidOut = (skills: ReadonlyArray<MaterialSkill.MaterialSkill>): Record<string, string> => ({
  ...Object.fromEntries(
    skills.flatMap(({ files, name }) =>
      files.map(({ bytes, path }) => [`${name}/${path}`, new TextDecoder().decode(bytes)] as const)
    )
  ),
  ".materialized": marker(Object.fromEntries(skills.map(({ skillId, version }) => [skillId, version])))
})
