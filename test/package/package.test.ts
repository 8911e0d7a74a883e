import { execFile } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { promisify } from "node:util"
import { build } from "esbuild"
import { describe, expect, inject, it } from "vitest"

const consumer = inject("consumer")
const installed = join(consumer, "node_modules/effect-agent-contracts")
const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"))

const run = async (command: string, ...args: ReadonlyArray<string>) => {
  const { stdout } = await promisify(execFile)(command, args, { cwd: consumer })
  return stdout
}

/** A file of the consumer's own; gives its path. */
const write = (path: string, content: string) => {
  const file = join(consumer, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, content)
  return file
}

const files = readdirSync(installed, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name))

/** Every string in a map of exports, imports or bins. */
const targets = (value: unknown): ReadonlyArray<string> =>
  typeof value === "string" ? [value] : Object.values(value ?? {}).flatMap(targets)

// Types and values of several modules, and the codec.
const program = `
import { DeliveryError, SkillCatalog, Snapshot } from "effect-agent-contracts/delivery"
import { Effect } from "effect"

const snapshot: Snapshot.VerifiedSnapshot = { revision: "r1", etag: '"0"', skills: [] }
const refused = Snapshot.verifyArchive(new Uint8Array(22)).pipe(
  Effect.catchTag("INVALID_SNAPSHOT", (error) => Effect.succeed<DeliveryError.SnapshotCheck | undefined>(error.check))
)
console.log(SkillCatalog.text(snapshot).startsWith("No skills"), Effect.runSync(Effect.either(refused))._tag)
`

describe("what is in the package", () => {
  it("every file that package.json names exists", () => {
    const named = targets([manifest.bin, manifest.exports, manifest.imports]).filter((target) => !target.includes("*"))
    expect(named.length).toBeGreaterThan(8)
    expect(named.filter((target) => !existsSync(join(installed, target)))).toEqual([])
  })

  it("licence, fixtures and nothing of the workshop", () => {
    const tops = readdirSync(installed)
    expect(tops).toEqual(
      expect.arrayContaining(["LICENSE", "README.md", "dist", "docs", "fixtures", "package.json", "src"])
    )
    expect(
      files
        .map((file) => file.slice(installed.length))
        // The scripts among the fixtures are those of harnesses.
        .filter((file) => !file.startsWith("/fixtures/"))
        .filter((file) => /\.test\.|tsbuildinfo|\/(?:test|scripts|\.ci|\.tmp)\//.test(file))
    ).toEqual([])
    expect(existsSync(join(installed, "dist/bin/LICENSES.txt"))).toBe(true)
  })

  it("every link of the README and the guides leads to a file of the package", () => {
    const pages = files.filter((file) => file.endsWith(".md"))
    const links = pages.flatMap((page) =>
      [...readFileSync(page, "utf8").matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, link = ""]) =>
        resolve(dirname(page), link)
      )
    )
    expect(links.length).toBeGreaterThan(5)
    expect(links.filter((link) => !existsSync(link))).toEqual([])
  })

  it("every source map leads to a file of the package", () => {
    const maps = files.filter((file) => file.endsWith(".map"))
    expect(maps.length).toBeGreaterThan(10)
    const missing = maps.flatMap((map) => {
      const { sources } = JSON.parse(readFileSync(map, "utf8"))
      return sources
        .map((source: string) => resolve(dirname(map), source))
        .filter((source: string) => !existsSync(source))
    })
    expect(missing).toEqual([])
  })
})

describe("with the required peers only", () => {
  it("the optional peers are not installed", () => {
    expect(existsSync(join(consumer, "node_modules/@effect/ai"))).toBe(false)
    expect(existsSync(join(consumer, "node_modules/@effect/cli"))).toBe(false)
  })

  it("the bin shows its help and its version", async () => {
    expect(await run("npx", "--no-install", "agent-contracts", "--help")).toContain("USAGE")
    expect(await run("npx", "--no-install", "agent-contracts", "--version")).toContain(manifest.version)
  })

  it("the bin runs the project's own fixtures", async () => {
    const output = await run("npx", "--no-install", "agent-contracts", "conformance", "run")
    const lines = output.trimEnd().split("\n")
    expect(lines.at(-1)).toMatch(/^[1-9]\d* passed, 0 failed$/)
  })

  it("JavaScript imports every entry point that needs no optional peer", async () => {
    write(
      "imports.js",
      `for (const name of ["delivery", "conformance"]) {
        const entry = await import("effect-agent-contracts/" + name)
        console.log(name, Object.keys(entry).length > 0)
      }
      import fixture from "effect-agent-contracts/fixtures/lifecycle.v1.json" with { type: "json" }
      console.log(fixture.contract)`
    )
    expect(await run("node", "imports.js")).toBe("delivery true\nconformance true\ncopilotkit-learned-skills-v1\n")
  })

  it.each([
    ["nodenext", "nodenext", false],
    // The same declarations: here only how they are found is in question.
    ["esnext", "bundler", true]
  ])(
    "TypeScript compiles and runs a program against it (module %s, resolution %s)",
    async (module, moduleResolution, skipLibCheck) => {
      const directory = `ts-${moduleResolution}`
      write(`${directory}/program.ts`, program)
      write(
        `${directory}/tsconfig.json`,
        JSON.stringify({
          compilerOptions: {
            module,
            moduleResolution,
            target: "es2022",
            lib: ["es2023", "dom", "dom.iterable"],
            types: [],
            strict: true,
            exactOptionalPropertyTypes: true,
            skipLibCheck,
            outDir: "out"
          }
        })
      )
      await run("node", resolve("node_modules/typescript/bin/tsc"), "-p", directory)
      expect(await run("node", `${directory}/out/program.js`)).toBe("true Right\n")
    }
  )

  it("a bundler with a `source` condition of its own gets JavaScript", async () => {
    const entry = write("source.js", `export * from "effect-agent-contracts/delivery"`)
    const { metafile } = await build({
      entryPoints: [entry],
      bundle: true,
      write: false,
      platform: "node",
      conditions: ["source"],
      metafile: true,
      format: "esm"
    })
    expect(Object.keys(metafile.inputs).filter((file) => file.endsWith(".ts"))).toEqual([])
  })

  it("a bundler without the `node` condition gets the portable codec and nothing of Node", async () => {
    const entry = write("browser.js", `export * from "effect-agent-contracts/delivery"`)
    const bundle = await build({
      entryPoints: [entry],
      bundle: true,
      write: false,
      platform: "browser",
      metafile: true,
      format: "esm"
    })
    const inputs = Object.keys(bundle.metafile.inputs).join("\n")
    expect(inputs).toContain("dist/archive/codec.portable.js")
    expect(inputs).not.toContain("codec.node.js")
    expect(bundle.outputFiles[0]?.text).not.toMatch(/from\s*"node:/)
  })
})

describe("with the peers of the toolkit", async () => {
  it("JavaScript imports the toolkit", async () => {
    const { devDependencies } = JSON.parse(readFileSync("package.json", "utf8"))
    const peers = ["@effect/ai", "@effect/experimental", "@effect/rpc"].map(
      (name) => `${name}@${devDependencies[name]}`
    )
    await run("npm", "install", "--prefer-offline", "--no-audit", "--no-fund", ...peers)
    write(
      "toolkit.js",
      `import { SkillToolkit } from "effect-agent-contracts/toolkit"; console.log(Object.keys(SkillToolkit.toolkit.tools))`
    )
    expect(await run("node", "toolkit.js")).toContain("copilotkit_load_skill")
  })
})
