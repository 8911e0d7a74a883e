import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as ZipReader from "../../src/archive/ZipReader.js"

const directory = join(import.meta.dirname, "foreign")
const archives = readdirSync(directory).filter((name) => name.endsWith(".zip"))
const limits = { archiveBytes: 4096, decodedBytes: 4096, entries: 10 }

const sha256 = (bytes: Uint8Array | undefined) => bytes && createHash("sha256").update(bytes).digest("hex")

describe("archives made by other tools", () => {
  it("are all here", () => {
    expect(archives).toHaveLength(13)
  })

  it.effect.each(archives)("%s reads with every byte that its manifest names", (name) =>
    Effect.gen(function* () {
      const entries = yield* ZipReader.read(readFileSync(join(directory, name)), limits)
      const files = new Map(entries.filter((entry) => !entry.isDirectory).map((entry) => [entry.path, entry.bytes]))
      const manifest = JSON.parse(new TextDecoder().decode(files.get("manifest.json")))
      const listed = manifest.skills[0].files.map((file: { path: string }) => `greeter/${file.path}`)
      expect([...files.keys()].sort()).toEqual([...listed, "manifest.json"].sort())
      expect(listed).toContain("greeter/docs/grüße.md")
      for (const file of manifest.skills[0].files) {
        expect(sha256(files.get(`greeter/${file.path}`))).toBe(file.sha256)
      }
    })
  )
})
