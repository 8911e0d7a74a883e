// Holds src to the arrows of .dependency-cruiser.mjs, after showing that every rule catches a planted violation.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { cruise } from "dependency-cruiser"
import { forbidden, options, resolution } from "../.dependency-cruiser.mjs"
import { requireCoverage, sourceFiles } from "./coverage.mjs"

/** @param {string} baseDir */
const check = async (baseDir) => {
  const { output } = await cruise(["src"], { ...options, baseDir, validate: true, ruleSet: { forbidden } }, resolution)
  if (typeof output === "string") throw new Error("dependency-cruiser gave text instead of a result")
  return output
}

/** What breaks each rule, and a correct file that must pass. @type {Record<string, string>} */
const planted = {
  "src/archive/Fine.ts": `import "effect"; import "fflate"`,
  "src/archive/codec.node.ts": `import "node:zlib"`,
  "src/archive/Upward.ts": `import type {} from "../delivery/Fine.js"; import "@effect/platform"`,
  "src/files/Fine.ts": `import "effect"; import "@effect/platform/Error"`,
  "src/files/Upward.ts": `import "../archive/Fine.js"; import "fflate"`,
  "src/delivery/Fine.ts": `import "../archive/Fine.js"; import "../files/Fine.js"; import "@effect/platform/HttpClient"`,
  "src/delivery/Upward.ts": `import "../toolkit/Fine.js"; import "@effect/platform-node"`,
  "src/delivery/NotPortable.ts": `import "node:fs"`,
  "src/toolkit/Fine.ts": `import "../delivery/Fine.js"; import "@effect/ai"`,
  "src/toolkit/Downward.ts": `import "../archive/Fine.js"; import "@effect/cli"`,
  "src/publishing/Fine.ts": `import "../archive/Fine.js"; import "../delivery/Fine.js"; import "yaml"`,
  "src/publishing/Upward.ts": `import "../registry/Fine.js"; import "@effect/sql"`,
  "src/materialize/Fine.ts": `import "../publishing/Fine.js"; import "../delivery/Fine.js"; import "@effect/platform"`,
  "src/materialize/Upward.ts": `import "../registry/Fine.js"; import "yaml"`,
  "src/store/Fine.ts": `import "../archive/Fine.js"; import "@effect/sql"; import "node:fs"`,
  "src/store/Upward.ts": `import "../publishing/Fine.js"; import "yaml"`,
  "src/registry/Fine.ts": `import "../store/Fine.js"; import "../publishing/Fine.js"; import "@effect/platform"`,
  "src/registry/Upward.ts": `import "../materialize/Fine.js"; import "@effect/platform-node"`,
  "src/runner/Fine.ts": `import "../store/Fine.js"; import "../archive/Fine.js"; import "@effect/platform/Command"`,
  "src/runner/Sideways.ts": `import "../delivery/Fine.js"; import "ajv"`,
  "src/conformance/Fine.ts": `import "../delivery/Fine.js"; import "../archive/Fine.js"; import "../runner/Fine.js"`,
  "src/conformance/Upward.ts": `import "../cli/Fine.js"; import "@effect/cli"`,
  "src/cli/Fine.ts": `import "../conformance/Fine.js"; import "@effect/cli/Command"; import "node:process"`,
  "src/cli/Beside.ts": `import "../elsewhere/Unknown.js"; import "vitest"`,
  "src/elsewhere/Unknown.ts": `import "effect"`,
  "src/archive/One.ts": `import "./Two.js"`,
  "src/archive/Two.ts": `import "./One.js"`,
  "src/archive/Lost.ts": `import "./NoSuchFile.js"`
}

const selfCheck = async () => {
  mkdirSync(".tmp", { recursive: true })
  const directory = mkdtempSync(resolve(".tmp/arrows-"))
  try {
    for (const [path, source] of Object.entries(planted)) {
      mkdirSync(join(directory, dirname(path)), { recursive: true })
      writeFileSync(join(directory, path), `${source}\nexport {}\n`)
    }
    const { summary } = await check(directory)
    const caught = new Set(summary.violations.map((violation) => violation.rule.name))
    const missed = forbidden.map((rule) => rule.name).filter((name) => name !== undefined && !caught.has(name))
    const wrong = summary.violations.filter(({ from }) => /\/(?:Fine|codec\.node)\.ts$/.test(from))
    if (missed.length > 0 || wrong.length > 0) {
      throw new Error(`The rules do not do what they say: ${JSON.stringify({ missed, wrong }, null, 2)}`)
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

await selfCheck()
const { modules, summary } = await check(process.cwd())
for (const { rule, from, to } of summary.violations) {
  console.error(`${rule.name}: ${from} -> ${to}`)
}
if (summary.violations.length > 0) process.exit(1)
requireCoverage(
  "dependency-cruiser",
  modules.filter(({ source }) => source.startsWith("src/")).length,
  sourceFiles(["src"]).length
)
