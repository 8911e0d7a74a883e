import { describe, expect, it } from "@effect/vitest"
import * as Drift from "../../src/conformance/Drift.js"
import * as FixtureFile from "../../src/conformance/FixtureFile.js"

const texts = (cases: ReadonlyArray<object>) => new Map([["a.json", FixtureFile.format({}, "cases", cases)]])
const generated = texts([{ name: "one", n: 1 }, { name: "two" }, { name: "three" }])

describe("Drift", () => {
  it("finds nothing where nothing differs", () => {
    expect(Drift.compare(generated, new Map(generated))).toEqual([])
  })

  it("names the file and the first case that differs", () => {
    const actual = texts([{ name: "one", n: 1 }, { name: "two", extra: true }, { name: "THREE" }])
    expect(Drift.compare(generated, actual)).toEqual(['a.json: line 3 (case "two") differs'])
  })

  it("names the first case that is missing or not generated", () => {
    expect(Drift.compare(generated, texts([{ name: "one", n: 1 }, { name: "three" }]))).toEqual([
      'a.json: line 3 (case "two") differs'
    ])
    const more = [{ name: "one", n: 1 }, { name: "two" }, { name: "three" }, { name: "four" }]
    expect(Drift.compare(texts(more.slice(0, 3)), texts(more))).toEqual(['a.json: line 4 (case "three") differs'])
  })

  it("names the line where the difference is in no case", () => {
    const [text = ""] = generated.values()
    expect(Drift.compare(generated, new Map([["a.json", text.trimEnd()]]))).toEqual(["a.json: line 6 differs"])
    expect(Drift.compare(generated, new Map([["a.json", `\ufeff${text}`]]))).toEqual(["a.json: line 1 differs"])
  })

  it("names files that are missing or that nothing generates", () => {
    expect(Drift.compare(generated, new Map([["b.json", "{}"]]))).toEqual([
      "a.json: is missing",
      "b.json: is not generated"
    ])
  })
})
