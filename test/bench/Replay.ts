import { Replay, type RunEvent } from "../../src/runner/index.js"
import { fixed, progress, table, verdict } from "./Report.js"
import { measure, median, ratio } from "./Timing.js"

export const replaySection = "replay"

const sizes = [50_000, 100_000, 200_000] as const

const words = "The runner reads the page, finds what is asked for, and writes down what it has found, step by step."

const identity = {
  schema: "paperclip.prp.identity.v1",
  companyId: "company-1",
  issueId: "issue-1",
  runId: "run-1",
  environmentLeaseId: "lease-1",
  runnerInstanceId: "runner-1",
  normalizedSessionId: "session-1",
  driverSessionId: "driver-1"
} as const

const capabilities = {
  schema: "paperclip.prp.capabilities.v1",
  sessionReusePolicy: "new_per_run",
  driver: { kind: "fake", version: "1.0.0" },
  steer: true,
  interrupt: true,
  resume: true,
  runtimeRequests: true,
  structuredResult: true,
  typedEvents: true
} as const

const begin = () => Replay.begin({ fixtureName: "Benchmark", identity, capabilities })

/** How the events of a run are made: its lines, as a journal or a harness would have them. */
interface Mix {
  readonly name: string
  /** At most this many times `JSON.parse` of the same lines. */
  readonly target?: number
  readonly lines: (count: number) => ReadonlyArray<string>
}

const line = (sourceSeq: number, eventType: string, payload: object, more: object = {}) =>
  JSON.stringify({
    schema: "paperclip.prp.event.v1",
    sourceEventId: `event_${String(sourceSeq).padStart(8, "0")}`,
    sourceSeq,
    sourceInstanceId: "runner-1",
    sourceKind: "runner",
    runId: "run-1",
    normalizedSessionId: "session-1",
    eventType,
    schemaVersion: 1,
    priority: 2,
    emittedAt: "2026-01-31T12:00:00.000Z",
    payload,
    ...more
  })

const tool = (status: string) => ({
  schema: "paperclip.tool.execution.v1",
  executionId: "execution-1",
  transport: "process",
  operation: "execute",
  name: "make",
  status,
  output: status === "running" ? null : words,
  outputBytes: status === "running" ? 0 : words.length,
  outputTruncated: false,
  outputDigest: null
})

/**
 * Turns of some 50 items; an item is a message with eight deltas, and every fourth a command with a tool's events and its
 * output. One in 500 events is delivered twice, one in 1,000 numbers is missing.
 */
const working = (count: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let sequence = 0
  const push = (eventType: string, payload: object, more: object = {}) => {
    sequence += sequence % 1000 === 999 ? 2 : 1
    const text = line(sequence, eventType, payload, more)
    lines.push(text)
    if (sequence % 500 === 0) lines.push(text)
  }
  push("session.started", {})
  for (let item = 0; lines.length < count; item++) {
    const turnId = `turn-${Math.floor(item / 50)}`
    const about = { turnId, itemId: `item-${item}` }
    if (item % 50 === 0) push("turn.started", {}, { turnId })
    const kind = item % 4 === 3 ? "command" : "assistant_message"
    push("item.started", { kind, text: "" }, about)
    if (kind === "command") push("tool.execution.started", tool("running"), about)
    for (let delta = 0; delta < 8; delta++) push("item.delta", { text: words.slice(delta * 8) }, about)
    if (kind === "command") push("tool.execution.completed", tool("completed"), about)
    push("item.completed", { kind, text: words.repeat(4) }, about)
    if (item % 50 === 49) push("turn.completed", {}, { turnId })
  }
  return lines.slice(0, count)
}

/** One message that never ends. */
const endless = (count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) =>
    line(index + 1, "item.delta", { text: words.slice(0, 20) }, { turnId: "turn-1", itemId: "item-1" })
  )

/** Each event with a source, an item, a request and a gap of its own. */
const hostile = (count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => {
    const own = { sourceEventId: `e${index}`, sourceInstanceId: `s${index}`, itemId: `i${index}` }
    return index % 2 === 0
      ? line(2, "item.started", { kind: "command" }, own)
      : line(2, "runtime_request.created", { requestId: `r${index}`, type: "input", prompt: "Go on?" }, own)
  })

const mixes: ReadonlyArray<Mix> = [
  { name: "a working run", target: 3, lines: working },
  { name: "one endless message", lines: endless },
  { name: "no two events alike", lines: hostile }
]

const parse = (lines: ReadonlyArray<string>): ReadonlyArray<RunEvent.RunEvent> => lines.map((text) => JSON.parse(text))

const oneByOne = (events: ReadonlyArray<RunEvent.RunEvent>) =>
  events.reduce((state, event) => Replay.reduce(state, [event]), begin())

const rounds = 3

/** How the time grows when the run doubles; none for the shortest. */
const doubled = (now: ReadonlyArray<number>, before: ReadonlyArray<number> | undefined) =>
  before === undefined ? "" : fixed(ratio(now, before))

/** Parsing and reducing the same lines, the sizes of a run taking turns. */
export const replayReport = async (): Promise<string> => {
  const rows: Array<ReadonlyArray<string>> = []
  for (const { lines, name, target } of mixes) {
    progress(name)
    const samples = await measure(
      Object.fromEntries(
        sizes.flatMap((size) => {
          const texts = lines(size)
          const events = parse(texts)
          return [
            [`parse ${size}`, () => parse(texts)],
            [`batch ${size}`, () => Replay.reduce(begin(), events)],
            [`single ${size}`, () => oneByOne(events)]
          ]
        })
      ),
      rounds
    )
    const taken = sizes.map((size) => ({
      size,
      parse: samples[`parse ${size}`] ?? [],
      batch: samples[`batch ${size}`] ?? [],
      single: samples[`single ${size}`] ?? []
    }))
    for (const [index, { batch, parse, single, size }] of taken.entries()) {
      const half = taken[index - 1]
      const [whole, oneByOne] = [ratio(batch, parse), ratio(single, parse)]
      rows.push([
        name,
        size.toLocaleString("en-US"),
        fixed(median(parse)),
        fixed(median(batch)),
        fixed(median(single)),
        fixed(whole),
        fixed(oneByOne),
        target === undefined ? "" : `${target} x`,
        target === undefined ? "" : verdict(Math.max(whole, oneByOne) <= target),
        doubled(batch, half?.batch),
        doubled(single, half?.single)
      ])
    }
  }
  return table(
    [
      "run",
      "events",
      "parse ms",
      "reduce ms",
      "one by one ms",
      "reduce / parse",
      "one by one / parse",
      "target",
      "",
      "doubled",
      "doubled, one by one"
    ],
    rows
  )
}
