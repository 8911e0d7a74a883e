import { resolve } from "node:path"
import ts from "typescript"
import { expect, inject, it } from "vitest"
import * as used from "#codec"
import * as node from "../../src/archive/codec.node.js"
import * as portable from "../../src/archive/codec.portable.js"

// Vite adds the `node` condition on its own account: without this, the portable project could test the Node codec twice.
it("this project runs on the codec that it is named for", () => {
  const [expected, other] = inject("codec") === "portable" ? [portable, node] : [node, portable]
  expect(used.makeSha256).toBe(expected.makeSha256)
  expect(used.makeSha256).not.toBe(other.makeSha256)
})

it.each([
  ["tsconfig.json", "codec.node.ts"],
  ["tsconfig.portable.json", "codec.portable.ts"]
])("%s type-checks %s", (config, codec) => {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} }
  const options = ts.getParsedCommandLineOfConfigFile(config, {}, host)?.options ?? {}
  const importer = resolve("src/archive/Digest.ts")
  const mode = options.module === ts.ModuleKind.NodeNext ? ts.ModuleKind.ESNext : undefined
  const { resolvedModule } = ts.resolveModuleName("#codec", importer, options, ts.sys, undefined, undefined, mode)
  expect(resolvedModule?.resolvedFileName).toBe(resolve("src/archive", codec))
})
