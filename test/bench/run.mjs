// Installs what only the benchmarks need, bundles them from the TypeScript sources and runs them.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const here = dirname(fileURLToPath(import.meta.url))

/** @type {(command: string, ...args: Array<string>) => void} */
const run = (command, ...args) => {
  const { status } = spawnSync(command, args, { cwd: here, stdio: "inherit" })
  if (status !== 0) process.exit(status ?? 1)
}

if (!existsSync(join(here, "node_modules"))) run("npm", "ci", "--no-audit", "--no-fund")

// Where packages resolve from this directory's node_modules and then from the project's, and where no tool looks.
const outfile = join(here, "node_modules", ".bench", "bench.mjs")
await build({
  entryPoints: [join(here, "main.ts")],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  conditions: ["effect-agent-contracts-source"],
  packages: "external",
  logLevel: "warning"
})
run(process.execPath, "--expose-gc", outfile, ...process.argv.slice(2))
