import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

// `#codec` resolves to TypeScript sources through the `effect-agent-contracts-source` condition, so tests need no build.
const conditions = ["effect-agent-contracts-source", "node", "default"]
const fromSources = { resolve: { conditions }, ssr: { resolve: { conditions } } }

// Vite always adds the `node` condition to what it runs in Node, so the portable codec is chosen by name.
const onPortableCodec = {
  ...fromSources,
  resolve: {
    conditions,
    alias: { "#codec": fileURLToPath(new URL("./src/archive/codec.portable.ts", import.meta.url)) }
  }
}

const sources = fileURLToPath(new URL("./src", import.meta.url))

/** The tests of every module that imports a codec, so that none can be forgotten. */
const ofCodecUsers = readdirSync(sources, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts") && readFileSync(join(sources, path), "utf8").includes('from "#codec"'))
  .map((path) => `test/${path.slice(0, -".ts".length)}*.test.ts`)

export default defineConfig({
  test: {
    // By default one core of the machine is left idle: on two cores, half of it.
    maxWorkers: "100%",
    projects: [
      {
        ...fromSources,
        test: {
          name: "node",
          include: ["test/**/*.test.ts"],
          exclude: ["test/bench/**", "test/cli/bundle/**", "test/package/**"],
          provide: { codec: "node" },
          globalSetup: "test/support/postgresSetup.ts",
          // A bound against hanging only: no test is timed, and machines under load are slow.
          testTimeout: 60_000
        }
      },
      // Once more on the portable codec: whatever imports it, and what shows it at work.
      {
        ...onPortableCodec,
        test: {
          name: "portable",
          include: [
            ...ofCodecUsers,
            "test/archive/**/*.test.ts",
            "test/conformance/Snapshot*.test.ts",
            "test/delivery/RegistryBatch.test.ts",
            "test/delivery/SkillArchive.test.ts",
            "test/publishing/SkillBundle.test.ts",
            "test/publishing/SkillPackage.test.ts"
          ],
          provide: { codec: "portable" },
          testTimeout: 60_000
        }
      },
      // The command line as its users run it: the bundle, as a process of its own.
      {
        ...fromSources,
        test: {
          name: "cli",
          include: ["test/cli/bundle/**/*.test.ts"],
          globalSetup: "test/cli/bundle/globalSetup.ts",
          testTimeout: 30_000
        }
      },
      // The packed package, installed in an empty project.
      {
        ...fromSources,
        test: {
          name: "package",
          include: ["test/package/**/*.test.ts"],
          globalSetup: "test/package/globalSetup.ts",
          testTimeout: 120_000,
          hookTimeout: 300_000
        }
      }
    ]
  }
})

declare module "vitest" {
  interface ProvidedContext {
    readonly codec: "node" | "portable"
  }
}
