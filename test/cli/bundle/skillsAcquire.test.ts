import { randomBytes } from "node:crypto"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { gzipSync } from "node:zlib"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as DeliveryError from "../../../src/delivery/DeliveryError.js"
import * as RegistryApi from "../../../src/delivery/RegistryApi.js"
import * as CommandLine from "../../support/CommandLine.js"
import * as LoopbackRegistry from "../../support/LoopbackRegistry.js"
import * as Program from "../../support/Program.js"
import * as Skills from "../../support/Skills.js"

const key = "key-that-nobody-must-see"
const response = Skills.response(Skills.greeting)

const acquire = Effect.fnUntraced(function* (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = { CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "team" }
) {
  const { url } = yield* LoopbackRegistry.LoopbackRegistry
  const ended = yield* CommandLine.run(["skills", "acquire", ...args], {
    INTELLIGENCE_API_URL: url,
    CPK_INTELLIGENCE_API_KEY: key,
    ...env
  })
  expect(`${ended.stdout}${ended.stderr}`).not.toContain(key)
  expect(ended.stderr).not.toContain("    at ")
  return ended
})

const withRegistry = Effect.provide(LoopbackRegistry.layer)

const requests = Effect.flatMap(LoopbackRegistry.LoopbackRegistry, (registry) => registry.requests)

const enqueue = (...handlers: ReadonlyArray<LoopbackRegistry.Handler>) =>
  Effect.flatMap(LoopbackRegistry.LoopbackRegistry, (registry) => registry.enqueue(...handlers))

describe("acquires", () => {
  it.live("one container from the environment: catalog and status", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(response))
      const ended = yield* acquire([])
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout).toContain(`{"name":"greeting","description":"Greets people"}`)
      expect(ended.stdout).toMatch(/\nstatus: initialized, revision "r1", latest, checked \d{4}-\S+Z\n$/)
      const [request, ...more] = yield* requests
      expect(more).toEqual([])
      expect(request?.url).toBe("/api/v1/learning/containers/team/skills")
      expect(request?.headers.authorization).toBe(`Bearer ${key}`)
      expect(request?.headers["accept-encoding"]).toBe("identity")
    }).pipe(withRegistry)
  )

  it.live("flags win over the environment", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(response))
      const { url } = yield* LoopbackRegistry.LoopbackRegistry
      const ended = yield* acquire(["--api-url", `${url}/base`, "--container", "flag/id", "--revision", "r1"], {
        INTELLIGENCE_API_URL: "http://127.0.0.1:1",
        CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "environment",
        CPK_INTELLIGENCE_SKILLS_REVISION: "r9"
      })
      expect(ended.stdout).toContain(`status: initialized, revision "r1", pinned, checked`)
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect((yield* requests).map(({ url }) => url)).toEqual([
        "/base/api/v1/learning/containers/flag%2Fid/skills?revision=r1"
      ])
    }).pipe(withRegistry)
  )

  it.live("several containers as a list, which ignores the environment's container and revision", () =>
    Effect.gen(function* () {
      yield* enqueue(
        LoopbackRegistry.batch(RegistryApi.snapshotEntry("a", response), RegistryApi.snapshotEntry("b", response))
      )
      const ended = yield* acquire(["--container", "a", "--container", "b", "--json"], {
        CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "environment",
        CPK_INTELLIGENCE_SKILLS_REVISION: "r9"
      })
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      const { snapshot, status } = JSON.parse(ended.stdout)
      expect(snapshot.skills.map((skill: { name: string }) => skill.name)).toEqual(["a/greeting", "b/greeting"])
      expect(status).toMatchObject({
        initialized: true,
        mode: "latest",
        containers: [{ containerId: "a" }, { containerId: "b" }]
      })
      const [request] = yield* requests
      expect(request?.url).toBe("/api/v1/learning/skills/batch")
      expect(JSON.parse(request?.body ?? "")).toEqual({ containers: [{ containerId: "a" }, { containerId: "b" }] })
    }).pipe(withRegistry)
  )

  it.live.each([
    ["alone", ["--container=-x"], ["/api/v1/learning/containers/-x/skills"]],
    ["that looks like a flag", ["--container=--json"], ["/api/v1/learning/containers/--json/skills"]],
    ["in a list", ["--container=a", "--container=-x"], ["/api/v1/learning/skills/batch"]]
  ] as const)("a container with a leading dash %s, whatever the environment says", ([, args, urls]) =>
    Effect.gen(function* () {
      yield* enqueue(
        args.length > 1
          ? LoopbackRegistry.batch(RegistryApi.snapshotEntry("a", response), RegistryApi.snapshotEntry("-x", response))
          : LoopbackRegistry.snapshot(response)
      )
      const ended = yield* acquire(args, { CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "environment" })
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect((yield* requests).map(({ url }) => url)).toEqual(urls)
    }).pipe(withRegistry)
  )

  it.live("the environment's revision is not that of a container that a flag names", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(response), LoopbackRegistry.snapshot(response))
      const pinned = { CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "team", CPK_INTELLIGENCE_SKILLS_REVISION: "r1" }
      expect(yield* acquire(["--container", "other"], pinned)).toMatchObject({ code: 0, stderr: "" })
      expect(yield* acquire([], pinned)).toMatchObject({ code: 0, stderr: "" })
      expect((yield* requests).map(({ url }) => url)).toEqual([
        "/api/v1/learning/containers/other/skills",
        "/api/v1/learning/containers/team/skills?revision=r1"
      ])
    }).pipe(withRegistry)
  )

  it.live("as JSON: the snapshot without content, and the status", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(response))
      const ended = yield* acquire(["--json"])
      expect(ended.stdout.trimEnd()).not.toContain("\n")
      expect(ended.stdout).not.toContain("Say hello")
      expect(JSON.parse(ended.stdout)).toMatchObject({
        snapshot: {
          revision: "r1",
          etag: response.etag,
          skills: [{ name: "greeting", files: [{ path: "SKILL.md" }] }]
        },
        status: { initialized: true, revision: "r1", stale: false, lastCheckedAt: expect.stringMatching(/Z$/) }
      })
    }).pipe(withRegistry)
  )
})

describe("with AGENT_CONTRACTS_SKILLS_CACHE_DIR", () => {
  const temporary = Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "agent-contracts-cache-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  )

  it.scopedLive("the next process delivers what was kept, stale, while the registry is down", () =>
    Effect.gen(function* () {
      const directory = yield* temporary
      const env = { AGENT_CONTRACTS_SKILLS_CACHE_DIR: directory, CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "team" }
      yield* enqueue(LoopbackRegistry.snapshot(response), LoopbackRegistry.respond(502))
      expect(yield* acquire([], env)).toMatchObject({ code: 0, stderr: "" })
      const ended = yield* acquire([], env)
      expect(ended).toMatchObject({ code: 0, stderr: "" })
      expect(ended.stdout).toContain(`"greeting"`)
      expect(ended.stdout).toMatch(
        /\nstatus: initialized, revision "r1", latest, .*stale, last error UNSUPPORTED_SERVER/
      )
      expect((yield* requests)[1]?.headers["if-none-match"]).toBe(response.etag)
    }).pipe(withRegistry)
  )

  // Node never ends making a directory below /proc, so that neither the save nor anything that waits for it does.
  it.live.runIf(existsSync("/proc/self"))("a save that never ends is given up, and the process ends", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(response))
      const ended = yield* acquire([], {
        AGENT_CONTRACTS_SKILLS_CACHE_DIR: "/proc/nope",
        CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "team"
      })
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(0)
    }).pipe(withRegistry)
  )

  it.scopedLive("a cache that cannot be used is reported on standard error and changes nothing else", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(response))
      const ended = yield* acquire([], {
        AGENT_CONTRACTS_SKILLS_CACHE_DIR: resolve("package.json"),
        CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "team"
      })
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(0)
      expect(ended.stdout).toMatch(/\nstatus: initialized, revision "r1", latest, checked \S+Z\n$/)
      expect(ended.stderr).not.toBe("")
    }).pipe(withRegistry)
  )
})

describe("progress", () => {
  const size = 3 * 1024 * 1024
  const large = Skills.response({ large: { files: { "SKILL.md": "", "data.bin": randomBytes(size) } } })
  it.live("is drawn on standard error when that is a terminal, and wiped", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(large))
      const { url } = yield* LoopbackRegistry.LoopbackRegistry
      const ended = yield* Program.execute(
        "python3",
        ["-c", errorsOnTerminal, process.execPath, CommandLine.bundle, "skills", "acquire", "--container", "team"],
        { PATH: process.env["PATH"] ?? "", INTELLIGENCE_API_URL: url, CPK_INTELLIGENCE_API_KEY: key }
      )
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(0)
      const drawn = [1, 2, 3].map((mebibytes) => `receiving: ${mebibytes} of 4 MiB`)
      expect(ended.stderr.split("\r\u001b[K")).toEqual(["", ...drawn, ""])
      expect(ended.stdout).not.toContain("receiving")
    }).pipe(withRegistry)
  )

  it.live("is not drawn into a file or a pipe", () =>
    Effect.gen(function* () {
      yield* enqueue(LoopbackRegistry.snapshot(large))
      expect(yield* acquire([])).toMatchObject({ code: 0, stderr: "" })
    }).pipe(withRegistry)
  )
})

describe("a failure exits with 1, its code on standard error, the status on standard output", () => {
  const html = "<html><body>Please sign in, secret-of-the-server</body></html>"
  const cases: ReadonlyArray<{
    readonly name: string
    readonly handler: LoopbackRegistry.Handler
    readonly code: string
    readonly denied?: boolean
    readonly args?: ReadonlyArray<string>
    readonly says?: string
  }> = [
    {
      name: "a server that answers HTML",
      handler: LoopbackRegistry.respond(200, { "content-type": "text/html" }, html),
      code: "INVALID_SNAPSHOT"
    },
    {
      name: "an error page",
      handler: LoopbackRegistry.respond(502, { "content-type": "text/html" }, html),
      code: "UNSUPPORTED_SERVER"
    },
    {
      name: "a redirect, which is not followed",
      handler: LoopbackRegistry.respond(302, { location: "/elsewhere" }, html),
      code: "UNSUPPORTED_SERVER",
      says: `The registry redirected (HTTP status 302); redirects are not followed: give the final URL (container "team").`
    },
    {
      name: "half a body, then the connection breaks",
      handler: LoopbackRegistry.sequence(
        LoopbackRegistry.head(200, {
          ...RegistryApi.snapshotHeaders(response),
          "content-length": response.archive.length
        }),
        ({ reset, write }) => Effect.zipRight(write(response.archive.subarray(0, 100)), reset)
      ),
      code: "NETWORK_ERROR"
    },
    {
      name: "a length that is longer than the body",
      handler: LoopbackRegistry.sequence(
        LoopbackRegistry.head(200, {
          ...RegistryApi.snapshotHeaders(response),
          "content-length": response.archive.length + 1
        }),
        ({ hangUp, write }) => Effect.zipRight(write(response.archive), hangUp)
      ),
      code: "NETWORK_ERROR"
    },
    {
      name: "a length that is shorter than the body",
      handler: ({ hangUp, raw }) => {
        const { etag, "x-copilotkit-skills-revision": revision } = RegistryApi.snapshotHeaders(response)
        const head = `HTTP/1.1 200 OK\r\ncontent-type: application/zip\r\netag: ${etag}\r\nx-copilotkit-skills-revision: ${revision}\r\ncontent-length: 50\r\n\r\n`
        return raw(head).pipe(Effect.zipRight(raw(response.archive)), Effect.zipRight(hangUp))
      },
      code: "INVALID_SNAPSHOT"
    },
    {
      name: "gzip of zeros that unpacks past the bound",
      handler: LoopbackRegistry.respond(
        200,
        { ...RegistryApi.snapshotHeaders(response), "content-encoding": "gzip" },
        gzipSync(new Uint8Array(64 * 1024 * 1024))
      ),
      code: "INVALID_SNAPSHOT"
    },
    {
      name: "a revoked revision",
      handler: LoopbackRegistry.failure(403, new DeliveryError.RevisionRevoked()),
      code: "REVISION_REVOKED",
      denied: true
    },
    {
      name: "a registry that calls the configuration wrong",
      handler: LoopbackRegistry.failure(400, new DeliveryError.InvalidConfig({ setting: "S", problem: "is wrong" })),
      code: "INVALID_CONFIG",
      denied: true
    },
    {
      name: "a refused key",
      handler: LoopbackRegistry.respond(401, {}, html),
      code: "AUTHENTICATION_FAILED",
      denied: true
    },
    { name: "a hung server", handler: LoopbackRegistry.stall, code: "TIMEOUT" },
    {
      name: "a hung server, for as long as --timeout says",
      args: ["--timeout", "0.5"],
      handler: LoopbackRegistry.stall,
      code: "TIMEOUT",
      says: "within 500 ms"
    }
  ]
  for (const { args = [], code, denied = false, handler, name, says = "" } of cases) {
    it.live(name, () =>
      Effect.gen(function* () {
        yield* enqueue(handler)
        const ended = yield* acquire(args)
        expect(ended.stderr).toContain(says)
        expect(ended).toMatchObject({
          code: 1,
          stdout: denied
            ? `status: blocked by ${code}, not initialized, latest\n`
            : `status: not initialized, latest, last error ${code}\n`,
          stderr: expect.stringMatching(new RegExp(`^agent-contracts: ${code}: .+\\n$`))
        })
        expect(`${ended.stdout}${ended.stderr}`).not.toContain("secret-of-the-server")
        expect(yield* requests).toHaveLength(1)
      }).pipe(withRegistry)
    )
  }

  it.live("a dead server, as JSON too", () =>
    Effect.gen(function* () {
      const url = yield* unusedUrl
      const ended = yield* acquire(["--json", "--api-url", url])
      expect(ended.code, `${ended.stdout}${ended.stderr}`).toBe(1)
      expect(ended.stderr).toContain("NETWORK_ERROR")
      expect(JSON.parse(ended.stdout)).toMatchObject({
        error: { code: "NETWORK_ERROR", reason: "ECONNREFUSED", retryable: true },
        status: { initialized: false, lastError: { code: "NETWORK_ERROR" } }
      })
    }).pipe(withRegistry)
  )
})

describe("--watch", () => {
  it.live("prints the catalog, then each change, and ends with 130 on SIGINT", () =>
    Effect.gen(function* () {
      const next = Skills.response({ ...Skills.greeting, parting: { files: { "SKILL.md": "Say goodbye." } } }, "r2")
      yield* enqueue(LoopbackRegistry.snapshot(response), LoopbackRegistry.snapshot(next))
      const { url } = yield* LoopbackRegistry.LoopbackRegistry
      const watch = yield* CommandLine.start(["skills", "acquire", "--watch", "--json", "--container", "team"], {
        INTELLIGENCE_API_URL: url,
        CPK_INTELLIGENCE_API_KEY: key
      })
      expect(JSON.parse(yield* watch.line)).toMatchObject({ status: { revision: "r1" } })
      expect(JSON.parse(yield* watch.line)).toMatchObject({
        snapshot: { revision: "r2", skills: [{ name: "greeting" }, { name: "parting" }] },
        status: { revision: "r2" }
      })
      expect((yield* requests).map(({ headers }) => headers["if-none-match"])).toEqual([undefined, response.etag])
      yield* watch.signal("SIGINT")
      expect(yield* watch.ended).toBe(130)
    }).pipe(withRegistry, Effect.scoped)
  )

  it.live.each([
    ["SIGINT", 130],
    ["SIGTERM", 143]
  ] as const)("%s during a check releases the connection and ends with %d", ([signal, code]) =>
    Effect.gen(function* () {
      const hung = yield* LoopbackRegistry.watched(LoopbackRegistry.head(200, RegistryApi.snapshotHeaders(response)))
      yield* enqueue(hung.handler)
      const { url } = yield* LoopbackRegistry.LoopbackRegistry
      const watch = yield* CommandLine.start(["skills", "acquire", "--container", "team"], {
        INTELLIGENCE_API_URL: url,
        CPK_INTELLIGENCE_API_KEY: key
      })
      yield* hung.reached
      yield* watch.signal(signal)
      yield* hung.closed
      expect(yield* watch.ended).toBe(code)
    }).pipe(withRegistry, Effect.scoped)
  )
})

/** Runs a program whose standard error is a terminal, and copies what is drawn there to its own. */
const errorsOnTerminal = `
import os, pty, subprocess, sys
terminal, end = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stderr=end)
os.close(end)
try:
    while drawn := os.read(terminal, 4096):
        sys.stderr.buffer.write(drawn)
except OSError:
    pass # Linux says so when the other end is closed.
sys.exit(child.wait())
`

/** A port that was free a moment ago. */
const unusedUrl = Effect.async<string>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address()
    const port = typeof address === "object" ? address?.port : undefined
    server.close(() => resume(Effect.succeed(`http://127.0.0.1:${port}`)))
  })
})
