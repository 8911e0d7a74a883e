// A check that looked at nothing passes silently: a changed glob, a tool that cannot read this TypeScript. So every tool
// is asked how many files it looked at, and that is compared with the files that exist.
import { existsSync, readdirSync, statSync } from "node:fs"
import { join } from "node:path"

const skipped = new Set(["node_modules", "dist"])

/**
 * @param {ReadonlyArray<string>} roots files and directories; those that do not exist count for nothing
 * @returns {Array<string>} the source files among and below them
 */
export const sourceFiles = (roots) =>
  roots
    .filter((root) => existsSync(root))
    .flatMap((root) =>
      statSync(root).isDirectory()
        ? sourceFiles(
            readdirSync(root)
              .filter((name) => !skipped.has(name))
              .map((name) => join(root, name))
          )
        : /\.(ts|mjs)$/.test(root)
          ? [root]
          : []
    )

/** What the type checker, the linter and the diagnostics have to have seen. */
export const checkedRoots = ["src", "test", "scripts", "examples", "vitest.config.ts", ".dependency-cruiser.mjs"]

/**
 * Ends the process with 1 when a tool looked at fewer files than exist.
 *
 * @param {string} tool
 * @param {number} looked
 * @param {number} exist
 */
export const requireCoverage = (tool, looked, exist) => {
  if (exist === 0 || looked < exist) {
    console.error(`${tool} looked at ${looked} files, but there are ${exist}: it checks less than it seems to.`)
    process.exit(1)
  }
  console.log(`${tool}: ${looked} files, all good`)
}
