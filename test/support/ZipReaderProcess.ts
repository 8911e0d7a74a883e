// Reads the archive at `ARCHIVE` in a process that did little else before, and writes what came of it with the most memory
// in bytes that it took at any time, by the kernel's high-water mark: what is given back before anybody looks counts too.
import { readFileSync, writeFileSync } from "node:fs"
import { Effect, Either } from "effect"
import * as ZipReader from "../../src/archive/ZipReader.js"
import * as ZipWriter from "../../src/archive/ZipWriter.js"

const statusBytes = (field: "VmHWM" | "VmRSS") =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024

const { ARCHIVE: file = "" } = process.env
const limits = { archiveBytes: 1 << 20, decodedBytes: 1 << 20, entries: 10 }
const archive = new Uint8Array(readFileSync(file))

// What is loaded and compiled at the first reading is not what is measured.
await Effect.runPromise(ZipReader.read(ZipWriter.write([{ path: "a", bytes: new Uint8Array(100) }]), limits))

writeFileSync("/proc/self/clear_refs", "5")
const before = statusBytes("VmRSS")
const result = await Effect.runPromise(Effect.either(ZipReader.read(archive, limits)))
const peak = statusBytes("VmHWM") - before
process.stdout.write(JSON.stringify({ verdict: Either.isLeft(result) ? result.left.check : "valid", peak }))
