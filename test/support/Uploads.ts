import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { Effect, Either } from "effect"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import type { UploadedFile } from "../../src/publishing/Upload.js"
import type { InvalidUpload } from "../../src/publishing/UploadProblem.js"

export const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

/** A `SKILL.md`. `lines` are further lines of its frontmatter. */
export const skillFile = (name = "greeting", lines = "description: Greets people"): string =>
  `---\nname: ${name}\n${lines}\n---\n\nSay hello.\n`

/** Contents by path. */
export type Tree = Readonly<Record<string, string | Uint8Array>>

export const loose = (tree: Tree): ReadonlyArray<UploadedFile> =>
  Object.entries(tree).map(([path, content]) => ({
    path,
    bytes: typeof content === "string" ? utf8(content) : content
  }))

/** Writes files below a directory, which it gives. */
export const layOut = (directory: string, tree: Tree): string => {
  for (const { bytes, path } of loose(tree)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), bytes)
  }
  return directory
}

/** An archive of these members, each deflated; a path with `/` at its end is a directory. */
export const zip = (tree: Tree, more: ReadonlyArray<RawZip.RawEntry> = []): Uint8Array =>
  RawZip.build({
    entries: [
      ...loose(tree).map(({ bytes, path }) => ({ name: path, content: bytes, method: path.endsWith("/") ? 0 : 8 })),
      ...more
    ]
  })

/** A valid skill of two files. */
export const greeting = {
  "greeting/SKILL.md": skillFile(),
  "greeting/references/tone.md": "Warm, short.\n"
} satisfies Tree

/** The problems of an upload as `file: rule`, or the one word that it has none. */
export const verdict = <E, R>(bundle: Effect.Effect<SkillBundle.SkillBundle, InvalidUpload | E, R>) =>
  Effect.map(Effect.either(bundle), (result): ReadonlyArray<string> => {
    if (Either.isRight(result)) return ["valid"]
    const error = result.left as InvalidUpload
    return error.problems.map(({ file, rule }) => (file === undefined ? rule : `${file}: ${rule}`))
  })

export const verdictOf = (tree: Tree, options?: SkillBundle.BundleOptions) =>
  verdict(SkillBundle.fromFiles(loose(tree), options))

/** The warnings of a bundle, or of an upload that is none, as `file: rule`. */
export const warningsOf = ({ warnings }: Pick<SkillBundle.SkillBundle, "warnings">): ReadonlyArray<string> =>
  warnings.map(({ file, rule }) => (file === undefined ? rule : `${file}: ${rule}`))
