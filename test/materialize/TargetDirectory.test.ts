import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import * as fc from "fast-check"
import { targetDirectory } from "../../src/materialize/TargetDirectory.js"
import { check } from "../support/Seed.js"

const unusable = [
  "",
  ".",
  "..",
  "a/b",
  "/a",
  "a/",
  "a\\b",
  "C:a",
  "a\0b",
  "a\nb",
  "\ud800",
  "x".repeat(256),
  "é".repeat(128),
  ".materialized",
  ".Materialized.claims"
]

describe("targetDirectory", () => {
  it("is the version's name", () => {
    for (const name of ["pdf", "PDF", "a b", "...", ".hidden", "é", "x".repeat(255), "materialized"]) {
      assert.deepStrictEqual(targetDirectory(name, "skill_01"), Option.some(name))
    }
  })

  it("is the id when the name is empty or cannot be one path component", () => {
    for (const name of unusable) {
      assert.deepStrictEqual(targetDirectory(name, "skill_01"), Option.some("skill_01"), JSON.stringify(name))
    }
  })

  it("is none when the id cannot be one either", () => {
    for (const id of unusable) assert.deepStrictEqual(targetDirectory("..", id), Option.none(), JSON.stringify(id))
  })

  it("is always one component below the skills directory, and never a file of the marker's", () =>
    check([fc.fullUnicodeString(), fc.string()], (name, id) => {
      for (const directory of Option.toArray(targetDirectory(name, id))) {
        assert.isFalse(["", ".", ".."].includes(directory) || /[/\\\0]/.test(directory))
        assert.isFalse(directory.toLowerCase().startsWith(".materialized"))
      }
    }))
})
