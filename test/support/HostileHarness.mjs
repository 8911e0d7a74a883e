// A harness that does what its arguments say, one after the other, down to single bytes. An argument is a word, and after a
// colon what it needs: `ready`, `long:65537`, `exit:7`.
import { spawn } from "node:child_process"
import { closeSync, readSync, writeSync } from "node:fs"

const stdout = 1
const stderr = 2

let sequence = 0

/** @param {number} descriptor @param {string | Uint8Array} data */
const write = (descriptor, data) => {
  const bytes = Buffer.from(data)
  for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done)
}

/** @param {string} type @param {unknown} payload */
const say = (type, payload) => {
  sequence++
  write(
    stdout,
    `${JSON.stringify({ schema: "paperclip.fake_harness.message.v1", messageSeq: sequence, type, payload })}\n`
  )
}

const result = {
  schema: "paperclip.run_result.v1",
  reportedWorkDisposition: "done",
  summary: "Done.",
  completionClaim: { contractRevision: "r1", objectiveSatisfied: true, criteria: [], remainingWork: [] },
  evidence: [],
  verification: [],
  attentionRequests: [],
  artifacts: []
}

/** Says the number of a process. @param {number | undefined} pid @param {string} as */
const tell = (pid, as) =>
  as === "event"
    ? say("event", { eventType: "session.updated", turnId: null, itemId: null, payload: { pid } })
    : say("diagnostic", { workerPid: pid, purpose: "cleanup_conformance" })

/** A process of its own that holds on to the outputs. @param {boolean} detached */
const worker = (detached) => {
  const child = spawn(process.execPath, ["-e", "process.on('SIGTERM', () => {}); setInterval(() => {}, 1e9)"], {
    detached,
    stdio: ["ignore", "inherit", "inherit"]
  })
  child.unref()
  return child.pid
}

/** Never comes back. */
const stay = () => new Promise(() => setInterval(() => {}, 1e9))

/** One byte after the other, until a line has ended or the input has. */
const readLine = () => {
  const byte = Buffer.alloc(1)
  while (readSync(0, byte) === 1 && byte[0] !== 10);
}

/** @type {Record<string, (argument: string) => unknown>} */
const verbs = {
  ready: () => say("ready", { version: "1.0.0", script: "hostile" }),
  result: () => say("result", { result }),
  events: (count) => {
    for (let n = 1; n <= Number(count); n++) {
      say("event", { eventType: "item.delta", turnId: "turn", itemId: "item", payload: { text: String(n) } })
    }
  },
  text: (text) => write(stdout, `${text}\n`),
  part: (text) => write(stdout, text),
  crlf: () =>
    write(
      stdout,
      `${JSON.stringify({ schema: "paperclip.fake_harness.message.v1", messageSeq: 1, type: "log", payload: { stream: "stdout", text: "crlf" } })}\r\n`
    ),
  bytes: (base64) => write(stdout, Buffer.from(base64, "base64")),
  deep: (depth) => write(stdout, `${"[".repeat(Number(depth))}${"]".repeat(Number(depth))}\n`),
  /** A log message whose line has that many bytes. */
  long: (bytes) => {
    const line = (/** @type {string} */ text) =>
      JSON.stringify({
        schema: "paperclip.fake_harness.message.v1",
        messageSeq: 1,
        type: "log",
        payload: { stream: "stdout", text }
      })
    write(stdout, `${line("x".repeat(Number(bytes) - line("").length))}\n`)
  },
  endless: () => {
    for (;;) write(stdout, "x".repeat(4096))
  },
  stderr: (lines) => write(stderr, Array.from({ length: Number(lines) }, (_, n) => `complaint ${n + 1}\n`).join("")),
  "stderr-long": (bytes) => write(stderr, `${"x".repeat(Number(bytes))}\nafter\n`),
  "ignore-term": () => process.on("SIGTERM", () => {}),
  "close-stdout": () => closeSync(stdout),
  "close-stdin": () => closeSync(0),
  read: readLine,
  worker: (as) => tell(worker(false), as),
  daemon: (as) => tell(worker(true), as),
  kill: () => process.kill(process.pid, "SIGKILL"),
  exit: (code) => process.exit(Number(code)),
  pid: (as) => tell(process.pid, as),
  stay
}

for (const step of process.argv.slice(2)) {
  const [verb = "", ...argument] = step.split(":")
  const run = verbs[verb]
  if (run === undefined) throw new Error(`No such step: ${verb}`)
  await run(argument.join(":"))
}
