// Extracts the archive at `ARCHIVE` in a process that did little else before, and writes what came of it with the most memory
// in bytes that it took at any time, by the kernel's high-water mark.
import { readFileSync, writeFileSync } from "node:fs"
import { Effect, Either } from "effect"
import * as SkillPackage from "../../src/publishing/SkillPackage.js"
import { greeting, zip } from "./Uploads.js"

const statusBytes = (field: "VmHWM" | "VmRSS") =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024

const { ARCHIVE: file = "" } = process.env
const archive = new Uint8Array(readFileSync(file))

// What is loaded and compiled at the first extraction is not what is measured.
await Effect.runPromise(SkillPackage.extract(zip(greeting)))

writeFileSync("/proc/self/clear_refs", "5")
const before = statusBytes("VmRSS")
const result = await Effect.runPromise(Effect.either(SkillPackage.extract(archive)))
const peak = statusBytes("VmHWM") - before
process.stdout.write(JSON.stringify({ verdict: Either.isLeft(result) ? result.left.check : "valid", peak }))
