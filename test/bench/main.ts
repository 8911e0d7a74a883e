import { readFileSync, writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { Effect } from "effect"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import { acquireMicroseconds } from "./Acquire.js"
import { adapterFlag, adapterResult, measureAdapter } from "./Adapter.js"
import { compareFlag, compareWithAdapter } from "./Compare.js"
import { loadReport, loadSection } from "./LoadReport.js"
import { loadServerFlag, serveLoad, serverKinds } from "./LoadServer.js"
import { measureMemory, memoryFlag, peakExtraBytes } from "./Memory.js"
import { replayReport, replaySection } from "./Replay.js"
import { fixed, mebibytes, progress, table, verdict } from "./Report.js"
import { floor, type Shape, type ShapeName, shapes } from "./Shapes.js"
import { stalls } from "./Stall.js"
import { measure, median, ratio } from "./Timing.js"

interface Plan {
  readonly rounds: number
  /** At most this many times the floor. */
  readonly timesFloor?: number
  /** At most this many milliseconds. */
  readonly milliseconds?: number
  /** Whether stalls of the event loop and memory are measured too. */
  readonly large?: boolean
}

const plans: Readonly<Record<ShapeName, Plan>> = {
  tiny: { rounds: 1001, milliseconds: 0.3 },
  typical: { rounds: 201, timesFloor: 1.5 },
  many: { rounds: 41, timesFloor: 1.5 },
  "large text": { rounds: 11, timesFloor: 1.2, large: true },
  "large binary, stored": { rounds: 11, timesFloor: 1.2, large: true },
  "large single file": { rounds: 11, timesFloor: 1.2, large: true }
}

const stallTarget = 15
const acquireTarget = 10
const memoryAllowance = 16 * 1024 * 1024

const ours = ({ response }: Shape) => Effect.runPromise(Snapshot.verify(response))

/** As the registry client has it verified: the buffer handed over, each run's own. */
const handedOver = ({ response }: Shape, runs: number) => {
  const archives = Array.from({ length: runs }, () => new Uint8Array(response.archive))
  return () =>
    Effect.runPromise(Snapshot.verify({ ...response, archive: archives.pop() ?? response.archive }, { transfer: true }))
}

const [cpu] = cpus()
const machine =
  `Machine: ${cpu?.model}, ${cpus().length} cores, ${process.platform} ${process.arch}, Node ${process.version} ` +
  `(zlib ${process.versions.zlib}, OpenSSL ${process.versions.openssl}).`

const report = async (names: ReadonlyArray<ShapeName>) => {
  const times: Array<ReadonlyArray<string>> = []
  const loads: Array<ReadonlyArray<string>> = []
  for (const name of names) {
    progress(name)
    const plan = plans[name]
    const shape = shapes[name]()
    const samples = await measure(
      {
        floor: () => floor(shape),
        ours: () => ours(shape),
        // Every contestant runs twice in each round: untimed first.
        handedOver: handedOver(shape, 2 * plan.rounds)
      },
      plan.rounds
    )
    const timesFloor = ratio(samples.ours, samples.floor)
    const adapter = adapterResult(name, Math.ceil(plan.rounds / 3))
    times.push([
      name,
      String(shape.files),
      mebibytes(shape.decodedBytes),
      mebibytes(shape.response.archive.length),
      fixed(median(samples.floor)),
      fixed(median(samples.ours)),
      fixed(adapter.milliseconds),
      fixed(timesFloor),
      fixed(ratio(samples.handedOver, samples.floor)),
      fixed(adapter.timesFloor),
      plan.timesFloor === undefined ? `${plan.milliseconds} ms` : `${plan.timesFloor} x`,
      verdict(
        plan.timesFloor === undefined ? median(samples.ours) < (plan.milliseconds ?? 0) : timesFloor <= plan.timesFloor
      )
    ])
    if (plan.large !== true) continue
    const oursLongest = await stalls(() => ours(shape), 20)
    const handedOverLongest = await stalls(handedOver(shape, 20), 20)
    const peak = peakExtraBytes(shape, 3)
    const bound = shape.response.archive.length + shape.decodedBytes + memoryAllowance
    loads.push([
      name,
      fixed(median(oursLongest)),
      fixed(Math.max(...oursLongest)),
      fixed(median(handedOverLongest)),
      fixed(Math.max(...handedOverLongest)),
      fixed(adapter.longestStall),
      `${stallTarget} ms`,
      verdict(Math.max(...oursLongest, ...handedOverLongest) <= stallTarget),
      peak === undefined ? "not measured" : mebibytes(peak),
      mebibytes(bound),
      peak === undefined ? "" : verdict(peak <= bound)
    ])
  }

  const acquire = await acquireMicroseconds(200)
  const bytes = new Uint8Array(30 * 1024 * 1024)
  const kept: Array<Uint8Array> = []
  const copies = await measure(
    { reused: () => new Uint8Array(bytes), fresh: () => kept.push(new Uint8Array(bytes)) },
    7
  )
  const idle = await stalls(() => setTimeout(150), 20)
  return [
    machine,
    table(
      [
        "shape",
        "files",
        "MiB",
        "zipped",
        "floor ms",
        "ours ms",
        "adapter ms",
        "ours / floor",
        "handed over / floor",
        "adapter / floor",
        "target",
        ""
      ],
      times
    ),
    table(
      [
        "shape",
        "stall, median ms",
        "stall, longest ms",
        "handed over, median ms",
        "handed over, longest ms",
        "adapter's longest ms",
        "target",
        "",
        "peak extra MiB",
        "bound MiB",
        ""
      ],
      loads
    ),
    `With nothing to do for 150 ms the same measurement gives a median of ${fixed(median(idle))} ms and a longest stall of ` +
      `${fixed(Math.max(...idle))} ms: what the machine's other work adds.`,
    "Copying 30 MiB, which a verification does so that it owns its bytes and which the floor does not: " +
      `${fixed(median(copies.reused))} ms into memory used before, ${fixed(median(copies.fresh))} ms into fresh memory.`,
    `An acquire inside the freshness window: ${fixed(acquire)} microseconds (target: ${acquireTarget}; ` +
      `${verdict(acquire <= acquireTarget)}).`
  ].join("\n\n")
}

/** Keeps a section's last tables in the page, between its two markers. */
const keep = (section: string, text: string) => {
  const page = join(import.meta.dirname, "../../../../docs/performance.md")
  const kept = readFileSync(page, "utf8").replace(
    new RegExp(`(<!-- ${section} -->\n)[\\s\\S]*(<!-- /${section} -->)`),
    (_, start: string, end: string) => `${start}\n${text}\n\n${end}`
  )
  writeFileSync(page, kept)
}

const isShape = (name: string): name is ShapeName => Object.hasOwn(shapes, name)

const [, , ...args] = process.argv
const [flag, argument = "", rounds] = args
if (flag === memoryFlag) await measureMemory(argument)
else if (flag === compareFlag) await compareWithAdapter()
else if (flag === loadServerFlag) serveLoad(serverKinds.find((kind) => kind === argument) ?? "node:http")
else if (flag === adapterFlag && isShape(argument)) await measureAdapter(argument, Number(rounds))
else {
  const all = Object.keys(plans).filter(isShape)
  const chosen = args.length === 0 ? all : args.filter(isShape)
  if (chosen.length > 0) {
    const text = await report(chosen)
    process.stdout.write(`${text}\n\n`)
    if (chosen.length === all.length) keep("bench", text)
  }
  if (args.length === 0 || args.includes(loadSection)) {
    const text = `${machine}\n\n${await loadReport()}`
    process.stdout.write(`${text}\n`)
    keep(loadSection, text)
  }
  if (args.length === 0 || args.includes(replaySection)) {
    const text = `${machine}\n\n${await replayReport()}`
    process.stdout.write(`${text}\n`)
    keep(replaySection, text)
  }
}
