// Formatter and linter over everything, with proof that it was everything.
import { spawnSync } from "node:child_process"
import { checkedRoots, requireCoverage, sourceFiles } from "./coverage.mjs"

const biome = spawnSync(
  "node_modules/.bin/biome",
  ["check", "--colors=off", "--error-on-warnings", ...process.argv.slice(2)],
  {
    encoding: "utf8"
  }
)
const output = `${biome.stdout}${biome.stderr}`
if (biome.status !== 0) {
  console.error(output)
  process.exit(1)
}
requireCoverage("biome", Number(/Checked (\d+) files?/.exec(output)?.[1] ?? 0), sourceFiles(checkedRoots).length)
