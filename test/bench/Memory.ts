import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import { answerParent, runChild } from "./Child.js"
import { type Shape, shapes } from "./Shapes.js"
import { collectGarbage } from "./Timing.js"

/** The argument that makes the bundle measure memory instead, in a process that did nothing else before. */
export const memoryFlag = "--memory"

const statusBytes = (field: "VmHWM" | "VmRSS") =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024

/** In the child: the kernel's high-water mark of resident memory, reset before the verification. */
export const measureMemory = async (archivePath: string) => {
  const archive = new Uint8Array(readFileSync(archivePath))
  const { response } = shapes.typical()
  await Effect.runPromise(Snapshot.verify(response))
  await collectGarbage()
  writeFileSync("/proc/self/clear_refs", "5")
  const before = statusBytes("VmRSS")
  const snapshot = await Effect.runPromise(Snapshot.verifyArchive(archive))
  const peak = statusBytes("VmHWM")
  if (snapshot.skills.length === 0) throw new Error("nothing was verified")
  answerParent(peak - before)
}

/** The most memory beyond what was there before, over several processes; none where the kernel does not tell. */
export const peakExtraBytes = ({ response }: Shape, runs: number): number | undefined => {
  if (process.platform !== "linux") return undefined
  const directory = mkdtempSync(join(tmpdir(), "bench-"))
  try {
    const archivePath = join(directory, "archive.zip")
    writeFileSync(archivePath, response.archive)
    return Math.max(...Array.from({ length: runs }, () => runChild<number>(memoryFlag, archivePath)))
  } finally {
    rmSync(directory, { recursive: true })
  }
}
