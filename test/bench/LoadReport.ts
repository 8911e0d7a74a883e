import { type Load, load, memoryOf, startServer, stopServer } from "./Load.js"
import type { Memory, ServerKind } from "./LoadServer.js"
import { serverKinds } from "./LoadServer.js"
import { fixed, mebibytes, progress, table, verdict } from "./Report.js"
import { median, ratio } from "./Timing.js"

/** What `npm run bench -- load` measures, and the name of its part of the page. */
export const loadSection = "load"

const rounds = 5
const requestsPerRound = 20_000
const memoryRequests = 200_000

const targets = { timesPlatform: 0.7, p99TimesPlatform: 1.5, largeTimesSmall: 1.5 }

/** The columns of one server, and the server that it is compared with. */
const row = (kind: ServerKind, of: Readonly<Record<ServerKind, ReadonlyArray<Load>>>) => {
  const column = (pick: (load: Load) => number) => median(of[kind].map(pick))
  const times = (pick: (load: Load) => number, base: ServerKind) => ratio(of[kind].map(pick), of[base].map(pick))
  return {
    cells: [
      kind,
      Math.round(column((load) => load.requestsPerSecond)).toString(),
      fixed(column((load) => load.median)),
      fixed(column((load) => load.p99)),
      fixed(column((load) => load.processorTime)),
      fixed(times((load) => load.requestsPerSecond, "platform")),
      fixed(times((load) => load.requestsPerSecond, "node:http")),
      fixed(times((load) => load.p99, "platform"))
    ],
    times
  }
}

/** Resident memory before and after: what a request left behind would show. */
const memoryLine = (before: Memory, after: Memory) =>
  `Memory of the registry's process over ${memoryRequests.toLocaleString("en")} requests, each time after a collection of ` +
  `garbage: resident ${mebibytes(before.resident)} MiB before and ${mebibytes(after.resident)} MiB after, heap ` +
  `${mebibytes(before.heap)} and ${mebibytes(after.heap)} MiB.`

/** Servers of one machine in turn, each in a process of its own, each loaded in every round. */
export const loadReport = async () => {
  const servers = Object.fromEntries(
    await Promise.all(serverKinds.map(async (kind) => [kind, await startServer(kind)] as const))
  ) as Record<ServerKind, Awaited<ReturnType<typeof startServer>>>
  try {
    const loads = Object.fromEntries(serverKinds.map((kind) => [kind, []])) as unknown as Record<
      ServerKind,
      Array<Load>
    >
    // One more than is counted: the compiler sees to everybody first.
    for (let round = 0; round <= rounds; round++) {
      progress(`load, round ${round} of ${rounds}`)
      for (let turn = 0; turn < serverKinds.length; turn++) {
        const kind = serverKinds[(round + turn) % serverKinds.length] as ServerKind
        const measured = await load(servers[kind], requestsPerRound)
        if (round > 0) loads[kind].push(measured)
      }
    }
    progress("load, memory")
    const before = await memoryOf(servers.registry)
    await load(servers.registry, memoryRequests)
    const after = await memoryOf(servers.registry)

    const ours = row("registry", loads)
    const timesPlatform = ours.times((load) => load.requestsPerSecond, "platform")
    const p99TimesPlatform = ours.times((load) => load.p99, "platform")
    const largeTimesSmall = row("large registry", loads).times((load) => load.median, "registry")
    return [
      table(
        [
          "server",
          "requests / s",
          "median ms",
          "p99 ms",
          "processor microseconds / request",
          "requests / platform's",
          "requests / node:http's",
          "p99 / platform's"
        ],
        serverKinds.map((kind) => row(kind, loads).cells)
      ),
      table(
        ["registry", "measured", "target", ""],
        [
          [
            "requests per second, in units of the platform's",
            fixed(timesPlatform),
            `at least ${targets.timesPlatform}`,
            verdict(timesPlatform >= targets.timesPlatform)
          ],
          [
            "p99, in units of the platform's",
            fixed(p99TimesPlatform),
            `at most ${targets.p99TimesPlatform}`,
            verdict(p99TimesPlatform <= targets.p99TimesPlatform)
          ],
          [
            "median with 5,000 containers and 100,000 versions, in units of that with one",
            fixed(largeTimesSmall),
            `below ${targets.largeTimesSmall}`,
            verdict(largeTimesSmall < targets.largeTimesSmall)
          ]
        ]
      ),
      memoryLine(before, after)
    ].join("\n\n")
  } finally {
    await Promise.all(Object.values(servers).map(stopServer))
  }
}
