// Runs a TypeScript file of this repository from its sources: node scripts/run.mjs <file.ts> [arguments]
//
// esbuild bundles it with the package's private condition, so that `#codec` is the TypeScript codec and nothing needs a build; packages
// stay imports, which is why the bundle lies inside the repository. This package's own entry points, by the names that its
// users import, are sources too. `import.meta.url` is that of the bundle: a script finds its files from the working directory.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { build } from "esbuild"

const [script, ...rest] = process.argv.slice(2)
if (script === undefined) {
  process.stderr.write("usage: node scripts/run.mjs <file.ts> [arguments]\n")
  process.exit(2)
}
if (!existsSync(script)) {
  process.stderr.write(`${script}: no such file\n`)
  process.exit(2)
}

const root = join(dirname(fileURLToPath(import.meta.url)), "..")
await mkdir(join(root, ".tmp"), { recursive: true })
const directory = mkdtempSync(join(root, ".tmp", "run-"))
process.on("exit", () => rmSync(directory, { recursive: true, force: true }))

// Private, so that nobody's own `source` condition picks up the sources that the package ships for its source maps.
const condition = "effect-agent-contracts-source"
const { name, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const entryPoints = Object.entries(exports).flatMap(([path, target]) =>
  target[condition] === undefined ? [] : [[`${name}${path.slice(1)}`, join(root, target[condition])]]
)

const outfile = join(directory, "script.mjs")
await build({
  entryPoints: [script],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  packages: "external",
  alias: Object.fromEntries(entryPoints),
  conditions: [condition, "node"],
  sourcemap: "inline",
  logLevel: "error"
}).catch(() => process.exit(1))

process.setSourceMapsEnabled(true)
process.argv = [process.execPath, script, ...rest]
await import(pathToFileURL(outfile).href)
