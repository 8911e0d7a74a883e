import type { MaterialSkill } from "../../src/materialize/MaterialSkill.js"
import { skill } from "./Material.js"

const csv = skill("csv", { "SKILL.md": "# CSV\n" })

/** One skill that changes, one that stays, one that goes; in the other set one that comes. */
export const before: ReadonlyArray<MaterialSkill> = [
  skill("pdf", { "SKILL.md": "# PDF\n", "docs/guide.md": "Read.\n" }),
  csv,
  skill("gone", { "SKILL.md": "# Gone\n" })
]
export const after: ReadonlyArray<MaterialSkill> = [
  skill("pdf", { "SKILL.md": "# PDF 2\n", "docs/other.md": "Other.\n" }),
  csv,
  skill("fresh", { "SKILL.md": "# Fresh\n", "a/b.md": "B\n" })
]
