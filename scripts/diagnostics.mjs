// The Effect diagnostics (floating effects, missing services, wrong error channels...) on the whole project.
import { spawnSync } from "node:child_process"
import { resolve } from "node:path"
import { checkedRoots, requireCoverage, sourceFiles } from "./coverage.mjs"

const project = resolve("tsconfig.json")
const run = spawnSync(
  "node_modules/.bin/effect-language-service",
  ["diagnostics", "--project", project, "--format", "json", "--strict", "--severity", "error,warning"],
  { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 }
)
if (run.status !== 0) {
  console.error(run.stdout, run.stderr)
  process.exit(1)
}
const { summary } = JSON.parse(run.stdout)
requireCoverage("effect-language-service", summary.filesChecked, sourceFiles(checkedRoots).length)
