/** Packs the package as it would be published and installs it in an empty project, with the required peers only. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { TestProject } from "vitest/node"

declare module "vitest" {
  interface ProvidedContext {
    /** The directory of the project that the package is installed in. */
    readonly consumer: string
  }
}

export default ({ provide }: TestProject) => {
  const consumer = realpathSync(mkdtempSync(join(tmpdir(), "agent-contracts-consumer-")))
  // Packing builds; what the build says goes to standard error.
  execFileSync("npm", ["pack", "--foreground-scripts", "--loglevel=error", "--pack-destination", consumer], {
    stdio: ["ignore", 2, 2]
  })
  const tarball = readdirSync(consumer).find((name) => name.endsWith(".tgz"))
  const { devDependencies } = JSON.parse(readFileSync("package.json", "utf8"))
  writeFileSync(join(consumer, "package.json"), JSON.stringify({ name: "consumer", private: true, type: "module" }))
  const peers = ["effect", "@effect/platform"].map((name) => `${name}@${devDependencies[name]}`)
  execFileSync(
    "npm",
    ["install", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", `./${tarball}`, ...peers],
    {
      cwd: consumer,
      stdio: ["ignore", "ignore", "inherit"]
    }
  )
  provide("consumer", consumer)
  return () => rmSync(consumer, { recursive: true, force: true })
}
