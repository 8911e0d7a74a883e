import { defineConfig } from "vitest/config"

// `#codec` resolves to TypeScript sources through the `source` condition, so tests need no build. The second project runs
// everything that touches a codec once more on the portable one.
const sourceConditions = (...runtime: ReadonlyArray<string>) => {
  const conditions = ["source", ...runtime, "default"]
  return { resolve: { conditions }, ssr: { resolve: { conditions } } }
}

export default defineConfig({
  test: {
    projects: [
      {
        ...sourceConditions("node"),
        test: { name: "node", include: ["test/**/*.test.ts"], exclude: ["test/bench/**", "test/package/**"] }
      },
      {
        ...sourceConditions(),
        test: { name: "portable", include: ["test/archive/**/*.test.ts", "test/delivery/Snapshot*.test.ts"] }
      }
    ]
  }
})
