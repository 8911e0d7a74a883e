/** Bundles the command line that these tests run, apart from `dist`, which somebody may build meanwhile. */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { join, resolve } from "node:path"
import type { TestProject } from "vitest/node"

export default ({ provide }: TestProject) => {
  mkdirSync(".tmp", { recursive: true })
  // Two levels below the repository, whose fixtures the bundle runs.
  const directory = mkdtempSync(".tmp/cli-")
  execFileSync(process.execPath, ["scripts/bundle.mjs", directory], { stdio: ["ignore", "ignore", "inherit"] })
  provide("commandLine", resolve(join(directory, "agent-contracts.js")))
  return () => rmSync(directory, { recursive: true, force: true })
}

declare module "vitest" {
  interface ProvidedContext {
    readonly commandLine: string
  }
}
