import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { request } from "node:http"
import { createServer } from "node:net"
import { dirname, join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as CommandLine from "../../support/CommandLine.js"
import * as EmbeddedPostgres from "../../support/EmbeddedPostgres.js"
import { execute } from "../../support/Program.js"
import {
  command,
  interrupting,
  listen,
  serve,
  setOf,
  stop,
  temporary,
  timeout,
  writeSkill
} from "../../support/ServedRegistry.js"
import { skillFile } from "../../support/Uploads.js"

describe("registry serve", () => {
  it.scopedLive(
    "writes an admin key on the first start, for its owner only, and shows it nowhere; later starts write none",
    () =>
      Effect.gen(function* () {
        const data = join(yield* temporary, "deep", "data")
        const first = yield* serve(["--data", data])
        const keyFile = join(data, "admin-key")
        expect(first.adminKeyFile).toBe(keyFile)
        expect(statSync(keyFile).mode & 0o777).toBe(0o600)
        const key = readFileSync(keyFile, "utf8")
        expect(key).toMatch(/^ask_[\w-]+\n$/)
        expect((yield* command(first.url, keyFile)("registry", "key", "list")).keys).toMatchObject([
          { name: "admin", scope: "admin", revokedAt: null }
        ])
        expect(yield* stop(first, "SIGINT")).toBe(130)
        const log = yield* first.problems
        expect(log).toContain('"http.path":"/api/v1/learning/keys"')
        expect(log).not.toContain(key.trim())

        const second = yield* serve(["--data", data])
        expect(second.adminKeyFile).toBe(keyFile)
        expect(readFileSync(keyFile, "utf8")).toBe(key)
        yield* command(second.url, keyFile)("registry", "key", "list")
        expect(yield* stop(second, "SIGTERM")).toBe(143)
      }),
    timeout
  )

  it.scopedLive(
    "says in one line that another process has the directory, or the port",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const data = join(directory, "data")
        const { url } = yield* serve(["--data", data])
        const refused = (args: ReadonlyArray<string>) => CommandLine.run(["registry", "serve", ...args])
        expect(yield* refused(["--data", data, "--port", "0"])).toEqual({
          code: 1,
          stdout: "",
          stderr: expect.stringMatching(/^agent-contracts: DATABASE_IN_USE: .*is in use by another process.*\n$/)
        })
        expect(yield* refused(["--data", join(directory, "other"), "--port", new URL(url).port])).toEqual({
          code: 1,
          stdout: "",
          stderr: expect.stringMatching(/^agent-contracts: CANNOT_LISTEN: Port .*EADDRINUSE.*\n$/)
        })
      }),
    timeout
  )

  it.scopedLive(
    "finishes the requests that run when it is terminated, and takes no new ones",
    () =>
      Effect.gen(function* () {
        const data = join(yield* temporary, "data")
        const served = yield* serve(["--data", data])
        const key = readFileSync(join(data, "admin-key"), "utf8").trim()
        const boundary = "boundary"
        const body = [
          `--${boundary}`,
          `content-disposition: form-data; name="files[]"; filename="greeting/SKILL.md"`,
          "",
          skillFile(),
          `--${boundary}--`,
          ""
        ].join("\r\n")

        const upload = request(`${served.url}/v1/skills`, {
          method: "POST",
          headers: {
            "x-api-key": key,
            "content-type": `multipart/form-data; boundary=${boundary}`,
            "content-length": Buffer.byteLength(body),
            expect: "100-continue"
          }
        })
        const answered = new Promise<{ readonly status: number | undefined; readonly text: string }>(
          (resolve, reject) => {
            upload.on("error", reject)
            upload.on("response", (response) => {
              let text = ""
              response.setEncoding("utf8").on("data", (part) => {
                text += part
              })
              response.on("end", () => resolve({ status: response.statusCode, text }))
            })
          }
        )
        // Said when the request has been handed to the server.
        yield* Effect.promise(() => new Promise((resolve) => upload.once("continue", resolve)))
        yield* served.signal("SIGTERM")
        yield* Effect.promise(() => fetch(`${served.url}/health`)).pipe(
          Effect.repeat({ until: ({ status }) => status === 503 })
        )
        upload.end(body)
        const { status, text } = yield* Effect.promise(() => answered)
        expect(status).toBe(200)
        expect(JSON.parse(text)).toMatchObject({ type: "skill", name: "greeting" })
        expect(yield* served.ended).toBe(143)
      }),
    timeout
  )

  it.scopedLive.each([
    ["SIGTERM", "SIGTERM"],
    ["SIGINT", "SIGTERM"],
    ["SIGTERM", "SIGINT"]
  ] as const)(
    "waits after %s for a request that does not end, and ends at once on %s",
    ([first, second]) =>
      Effect.gen(function* () {
        const data = join(yield* temporary, "data")
        const served = yield* serve(["--data", data])
        const upload = request(`${served.url}/v1/skills`, {
          method: "POST",
          headers: {
            "x-api-key": readFileSync(join(data, "admin-key"), "utf8").trim(),
            "content-type": "multipart/form-data; boundary=boundary",
            expect: "100-continue"
          }
        })
        upload.on("error", () => {})
        // Said when the request has been handed to the server; its body never comes.
        yield* Effect.promise(() => new Promise((resolve) => upload.once("continue", resolve)))
        yield* served.signal(first)
        yield* Effect.promise(() => fetch(`${served.url}/health`)).pipe(
          Effect.repeat({ until: ({ status }) => status === 503 })
        )
        // No exit code: it ended by the signal, for which a shell says 143 or 130.
        expect(yield* stop(served, second)).toBe(null)
        upload.destroy()
        // Nothing is left that would keep the next one from starting.
        yield* serve(["--data", data])
      }),
    timeout
  )

  it.scopedLive(
    "says in one line what is wrong with its directory, and keeps no key that it could not write",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        writeFileSync(join(directory, "file"), "")
        const refused = (data: string) => CommandLine.run(["registry", "serve", "--port", "0", "--data", data])
        const under = yield* refused(join(directory, "file", "data"))
        expect(under).toMatchObject({ code: 2, stdout: "" })
        expect(under.stderr).toMatch(/^agent-contracts: --data: cannot use \S+data: ENOTDIR: not a directory\n$/)
        const file = yield* refused(join(directory, "file"))
        expect(file).toMatchObject({ code: 2, stdout: "" })
        expect(file.stderr).toMatch(/^agent-contracts: --data: cannot use \S+file: is no directory\n$/)

        const data = join(directory, "data")
        mkdirSync(join(data, "admin-key"), { recursive: true })
        expect(yield* refused(data)).toEqual({
          code: 1,
          stdout: "",
          stderr: `agent-contracts: ADMIN_KEY_NOT_WRITTEN: The admin key of the first start cannot be written to ${JSON.stringify(join(data, "admin-key"))}: EISDIR.\n`
        })
        expect(readdirSync(data).filter((name) => name.includes("tmp"))).toEqual([])

        rmSync(join(data, "admin-key"), { recursive: true })
        const { adminKeyFile = "", url } = yield* serve(["--data", data])
        const { keys } = yield* command(url, adminKeyFile)("registry", "key", "list")
        expect(keys).toHaveLength(1)
      }),
    timeout
  )

  it.scopedLive(
    "warns of a directory that others can write to, and of an admin key that they can read",
    () =>
      Effect.gen(function* () {
        const data = join(yield* temporary, "data")
        const warnings = Effect.fnUntraced(function* ({ problems }: { readonly problems: Effect.Effect<string> }) {
          const lines = (yield* problems).trim().split("\n")
          return lines.map((line) => JSON.parse(line)).filter(({ logLevel }) => logLevel === "WARN")
        })
        const first = yield* serve(["--data", data])
        expect(yield* warnings(first)).toEqual([])
        yield* stop(first, "SIGTERM")
        chmodSync(data, 0o777)
        chmodSync(join(data, "admin-key"), 0o644)
        expect(yield* warnings(yield* serve(["--data", data]))).toMatchObject([
          { logLevel: "WARN", message: expect.stringContaining("data directory"), annotations: { directory: data } },
          {
            logLevel: "WARN",
            message: expect.stringContaining("admin key"),
            annotations: { file: join(data, "admin-key") }
          }
        ])
      }),
    timeout
  )

  it.scopedLive(
    "starts no registry of its own when the URL of the shared database is empty",
    () =>
      Effect.gen(function* () {
        const data = join(yield* temporary, "data")
        const ended = yield* CommandLine.run(["registry", "serve", "--port", "0", "--data", data], {
          AGENT_CONTRACTS_DATABASE_URL: ""
        })
        expect(ended).toEqual({
          code: 2,
          stdout: "",
          stderr: "agent-contracts: AGENT_CONTRACTS_DATABASE_URL must begin with postgres://, or not be set at all\n"
        })
        expect(existsSync(data)).toBe(false)
      }),
    timeout
  )

  it.scopedLive(
    "prints a URL that can be used also of an IPv6 address",
    () =>
      Effect.gen(function* () {
        const { url } = yield* serve(["--host", "::1", "--data", join(yield* temporary, "data")])
        expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/)
        expect((yield* Effect.promise(() => fetch(`${url}/health`))).status).toBe(200)
      }),
    timeout
  )

  it.scopedLive(
    "without the drivers is one line that says what to install",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const bin = join(directory, "dist", "bin")
        cpSync(dirname(CommandLine.bundle), bin, { recursive: true })
        for (const args of [[], ["--database-url", "postgres://nobody@127.0.0.1:1/none"]]) {
          const command = ["registry", "serve", "--data", join(directory, "data"), ...args]
          const ended = yield* execute(process.execPath, [join(bin, "agent-contracts.js"), ...command])
          expect(ended).toEqual({
            code: 1,
            stdout: "",
            stderr: expect.stringMatching(/^agent-contracts: DATABASE_ERROR: .*driver is not installed.*\n$/)
          })
        }
      }),
    timeout
  )

  it.scopedLive(
    "on PostgreSQL shares everything between servers, and says nothing of a URL that cannot be used",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const cluster = yield* Effect.acquireRelease(
          Effect.promise(() => EmbeddedPostgres.initialise()),
          ({ remove }) => Effect.promise(remove)
        )
        yield* Effect.promise(cluster.start)
        const variables = { AGENT_CONTRACTS_DATABASE_URL: cluster.url("postgres") }
        const first = yield* serve(["--data", join(directory, "one")], variables)
        const second = yield* serve(["--data", join(directory, "two")], variables)
        const keyFile = join(directory, "one", "admin-key")
        expect([first.adminKeyFile, second.adminKeyFile]).toEqual([keyFile, undefined])
        const skill = writeSkill(directory, "greeting")
        const published = yield* command(
          first.url,
          keyFile
        )(...["skills", "publish", skill, "--container", "team", "--create"])
        const { revisions } = yield* command(second.url, keyFile)("registry", "revisions", "team")
        expect(revisions[0].revision).toBe(published.revision)

        const secret = "postgres://nobody:secret-word@127.0.0.1:1/none"
        const ended = yield* CommandLine.run(["registry", "serve", "--port", "0", "--database-url", secret])
        expect(ended).toMatchObject({ code: 1, stdout: "" })
        expect(ended.stderr).toMatch(/^agent-contracts: DATABASE_ERROR: .*\n$/)
        expect(ended.stderr).not.toContain("secret-word")
      }),
    timeout
  )
})

describe("a running registry", () => {
  it.scopedLive(
    "is published to, asked for its history, taken back and acquired from",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const { adminKeyFile = "", problems, url } = yield* serve(["--data", join(directory, "data")])
        const admin = command(url, adminKeyFile)
        const issue = Effect.fnUntraced(function* (name: string, ...args: ReadonlyArray<string>) {
          const issued = yield* admin("registry", "key", "create", "--name", name, ...args)
          const file = join(directory, `${name}-key`)
          writeFileSync(file, `${issued.key}\n`)
          return { id: issued.apiKey.id as string, key: issued.key as string, file }
        })
        const publisher = yield* issue("ci", "--scope", "publish")
        const reader = yield* issue("agent", "--container", "team/é")
        const ci = command(url, publisher.file)

        expect(yield* ci("registry", "container", "create", "team/é", "--title", "Team")).toMatchObject({
          id: "team/é",
          title: "Team"
        })
        const skill = writeSkill(directory, "greeting")
        const publish = ci("skills", "publish", skill, "--container", "team/é")
        const first = yield* publish
        expect(first).toMatchObject({ version: "1", isNewVersion: true, isNewRevision: true, container: "team/é" })
        expect(yield* publish).toEqual({ ...first, isNewVersion: false, isNewRevision: false })
        writeSkill(directory, "greeting", "Twice.\n")
        const second = yield* publish
        expect(second).toMatchObject({ skill: first.skill, version: "2", isNewVersion: true, isNewRevision: true })
        writeSkill(directory, "farewell")
        const third = yield* ci("skills", "publish", join(directory, "farewell"), "--container", "team/é")

        const { revisions } = yield* ci("registry", "revisions", "team/é")
        expect(revisions.map(setOf)).toEqual([["farewell@1", "greeting@2"], ["greeting@2"], ["greeting@1"], []])
        yield* ci("registry", "revoke", "team/é", third.revision)
        const { containers } = yield* ci("registry", "container", "list")
        expect(containers).toMatchObject([{ id: "team/é", latest: { revision: second.revision } }])

        const acquire = CommandLine.run(["skills", "acquire", "--json", "--container", "team/é"], {
          INTELLIGENCE_API_URL: url,
          CPK_INTELLIGENCE_API_KEY: reader.key
        })
        const acquired = yield* acquire
        expect(JSON.parse(acquired.stdout).snapshot).toMatchObject({
          revision: second.revision,
          skills: [{ name: "greeting" }]
        })
        yield* admin("registry", "key", "revoke", reader.id)
        const denied = yield* acquire
        expect(denied.code).toBe(1)
        expect(denied.stderr).toContain("AUTHENTICATION_FAILED")
        const { keys } = yield* admin("registry", "key", "list")
        expect(keys).toMatchObject([
          { name: "admin" },
          { name: "ci", scope: "publish" },
          { name: "agent", scope: "read", containers: ["team/é"], revokedAt: expect.any(String) }
        ])
        const log = yield* problems
        for (const key of [publisher.key, reader.key]) expect(log).not.toContain(key)
      }),
    timeout
  )

  it.scopedLive(
    "loses no skill of publishers that publish at once",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const { adminKeyFile = "", url } = yield* serve(["--data", join(directory, "data")])
        const admin = command(url, adminKeyFile)
        yield* admin("registry", "container", "create", "team")
        const names = ["one", "two", "three", "four"]
        const publish = (name: string) => admin("skills", "publish", writeSkill(directory, name), "--container", "team")
        yield* Effect.forEach(names, publish, { concurrency: "unbounded" })
        const { containers } = yield* admin("registry", "container", "list")
        const published = containers[0].latest.skills.map(({ name }: { readonly name: string }) => name)
        expect(published).toEqual(names.toSorted())
      }),
    timeout
  )

  it.scopedLive(
    "publishes and takes out over what somebody else published in between",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const { adminKeyFile = "", url } = yield* serve(["--data", join(directory, "data")])
        const admin = command(url, adminKeyFile)
        const publish = (name: string, text = "") =>
          admin("skills", "publish", writeSkill(directory, name, text), "--container", "team", "--create")
        yield* publish("greeting")

        const publishing = yield* interrupting(url, publish("other"))
        const farewell = writeSkill(directory, "farewell")
        const published = yield* command(publishing.url, adminKeyFile)(
          "skills",
          "publish",
          farewell,
          "--container",
          "team"
        )
        expect(published).toMatchObject({ version: "1", isNewVersion: true, isNewRevision: true })
        expect(publishing.statuses).toEqual([412, 200])

        const takingOut = yield* interrupting(url, publish("greeting", "Twice.\n"))
        const takenOut = yield* command(takingOut.url, adminKeyFile)(
          "skills",
          "unpublish",
          "greeting",
          "--container",
          "team"
        )
        expect(takenOut).toMatchObject({ skill: { name: "greeting" }, version: "2" })
        expect(takingOut.statuses).toEqual([412, 200])

        const { revisions } = yield* admin("registry", "revisions", "team")
        expect(revisions.slice(0, 4).map(setOf)).toEqual([
          ["farewell@1", "other@1"],
          ["farewell@1", "greeting@2", "other@1"],
          ["farewell@1", "greeting@1", "other@1"],
          ["greeting@1", "other@1"]
        ])
        expect(revisions[0].revision).toBe(takenOut.revision)
      }),
    timeout
  )

  it.scopedLive(
    "takes a skill out of a container and keeps it, and says of one that is not in it that it is not",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const { adminKeyFile = "", url } = yield* serve(["--data", join(directory, "data")])
        const admin = command(url, adminKeyFile)
        const skill = writeSkill(directory, "greeting")
        const publish = admin("skills", "publish", skill, "--container", "team", "--create")
        const published = yield* publish
        const unpublish = ["skills", "unpublish", "greeting", "--container", "team"]
        const takenOut = yield* admin(...unpublish)
        expect(takenOut).toEqual({
          skill: published.skill,
          version: "1",
          container: "team",
          revision: expect.stringMatching(/^[0-9a-f]{64}$/)
        })
        const latest = Effect.map(admin("registry", "container", "list"), ({ containers }) => containers[0].latest)
        expect(yield* latest).toMatchObject({ revision: takenOut.revision, skills: [] })

        const connection = ["--api-url", url, "--key-file", adminKeyFile]
        expect(yield* CommandLine.run([...unpublish, ...connection])).toEqual({
          code: 1,
          stdout: "",
          stderr: 'agent-contracts: SKILL_NOT_PUBLISHED: The latest revision of "team" has no skill "greeting".\n'
        })
        expect(yield* latest).toMatchObject({ revision: takenOut.revision })

        const again = yield* admin("skills", "publish", skill, "--container", "team", "--skill", published.skill.id)
        expect(again).toMatchObject({ skill: published.skill, version: "1", isNewVersion: false, isNewRevision: true })
        const ended = yield* CommandLine.run([...unpublish, ...connection])
        expect(ended).toEqual({
          code: 0,
          stdout: [
            `skill      "greeting" ${published.skill.id} (taken out)`,
            "version    1",
            'container  "team"',
            `revision   ${takenOut.revision}`,
            ""
          ].join("\n"),
          stderr: ""
        })
      }),
    timeout
  )

  it.scopedLive(
    "delivers a disabled container to nobody until it is enabled, which an administrator alone does",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const { adminKeyFile = "", url } = yield* serve(["--data", join(directory, "data")])
        const admin = command(url, adminKeyFile)
        const skill = writeSkill(directory, "greeting")
        const { revision } = yield* admin("skills", "publish", skill, "--container", "team/é", "--create")
        const { key } = yield* admin("registry", "key", "create", "--name", "ci", "--scope", "publish")
        const variables = { INTELLIGENCE_API_URL: url, CPK_INTELLIGENCE_API_KEY: key }
        const acquire = CommandLine.run(["skills", "acquire", "--container", "team/é"], variables)
        expect((yield* acquire).code).toBe(0)

        const denied = yield* CommandLine.run(["registry", "container", "disable", "team/é"], variables)
        expect(denied).toMatchObject({ code: 1, stdout: "" })
        expect(denied.stderr).toMatch(/^agent-contracts: AUTHORIZATION_FAILED: .*delivery switch\.\n$/)

        expect(yield* admin("registry", "container", "disable", "team/é")).toMatchObject({
          id: "team/é",
          enabled: false,
          latest: { revision }
        })
        const refused = yield* acquire
        expect(refused.code).toBe(1)
        expect(refused.stderr).toContain("DELIVERY_DISABLED")

        const enable = (id: string) =>
          CommandLine.run(["registry", "container", "enable", id, "--api-url", url, "--key-file", adminKeyFile])
        expect(yield* enable("none")).toMatchObject({ code: 1, stderr: expect.stringContaining("CONTAINER_NOT_FOUND") })
        expect(yield* enable("team/é")).toEqual({ code: 0, stdout: `"team/é"  revision ${revision}\n`, stderr: "" })
        expect((yield* acquire).code).toBe(0)
      }),
    timeout
  )

  it.scopedLive(
    "refuses with a code and exit 1, and is asked nothing about a skill that is none",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporary
        const { adminKeyFile = "", problems, url } = yield* serve(["--data", join(directory, "data")])
        const skill = writeSkill(directory, "greeting")
        const run = (args: ReadonlyArray<string>) =>
          CommandLine.run([...args, "--api-url", url, "--key-file", adminKeyFile])
        const codes = [
          [["skills", "publish", skill, "--container", "none"], "CONTAINER_NOT_FOUND"],
          [["skills", "unpublish", "greeting", "--container", "none"], "CONTAINER_NOT_FOUND"],
          [["registry", "revisions", "none"], "CONTAINER_NOT_FOUND"],
          [["registry", "key", "revoke", "none"], "KEY_NOT_FOUND"],
          [["registry", "key", "create", "--name", " "], "INVALID_VALUE"]
        ] as const
        for (const [args, code] of codes) {
          const ended = yield* run(args)
          expect(ended).toMatchObject({ code: 1, stdout: "" })
          expect(ended.stderr).toMatch(new RegExp(`^agent-contracts: ${code}: .*\\n$`))
        }
        const publisher = yield* command(
          url,
          adminKeyFile
        )(...["registry", "key", "create", "--name", "ci", "--scope", "publish"])
        const denied = yield* CommandLine.run(["registry", "key", "list", "--api-url", url], {
          CPK_INTELLIGENCE_API_KEY: publisher.key
        })
        expect(denied).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("AUTHORIZATION_FAILED") })

        const before = yield* problems
        const bad = join(directory, "bad")
        mkdirSync(bad)
        writeFileSync(join(bad, "SKILL.md"), "---\nname: Bad Name\n---\n")
        const invalid = yield* run(["skills", "publish", bad, "--container", "none"])
        expect(invalid).toMatchObject({ code: 1, stdout: "" })
        expect(invalid.stderr).toContain("INVALID_UPLOAD")
        expect(invalid.stderr).toContain("[name-format]")
        expect(invalid.stderr).toContain("[description-missing]")
        expect(yield* problems).toBe(before)
      }),
    timeout
  )

  it.live(
    "that nobody named, or a value that cannot be, is wrong usage",
    () =>
      Effect.gen(function* () {
        const usage = [
          [
            ["registry", "key", "list"],
            ": INVALID_CONFIG: set INTELLIGENCE_API_URL or give --api-url; set CPK_INTELLIGENCE_API_KEY or give --key-file\n"
          ],
          [
            ["registry", "key", "list", "--api-url", "http://127.0.0.1:1"],
            ": INVALID_CONFIG: set CPK_INTELLIGENCE_API_KEY or give --key-file\n"
          ],
          [
            ["skills", "unpublish", "greeting", "--container", "team", "--key-file", "none"],
            ": INVALID_CONFIG: set INTELLIGENCE_API_URL or give --api-url; --key-file: cannot read none: ENOENT"
          ],
          [["registry", "key", "list", "--api-url", "ftp://x", "--key-file", "package.json"], "--api-url: "],
          [["registry", "key", "list", "--api-url", "http://x", "--key-file", "package.json"], "--key-file: "],
          [["registry", "key", "create", "--name", "n", "--scope", "all"], "--scope"],
          [["registry", "revisions", ".."], "container id"],
          [["registry", "container", "disable", ".."], "container id"],
          [["skills", "unpublish", "greeting", "--container", ".."], "container id"],
          [["registry", "revoke", "team"], "<revision> is missing"],
          [["registry", "serve", "--port", "65536"], "--port"],
          [
            ["registry", "serve", "--database-url", "mysql://word@db"],
            ": --database-url must begin with postgres://\n"
          ],
          [["skills", "verify", "package.json/a"], "cannot use package.json/a: ENOTDIR"],
          [
            ["registry", "key", "list", "--api-url", "http://x", "--key-file", "package.json/a"],
            "--key-file: cannot read package.json/a: ENOTDIR"
          ]
        ] as const
        for (const [args, text] of usage) {
          const ended = yield* CommandLine.run(args)
          expect(ended).toMatchObject({ code: 2, stdout: "" })
          expect(ended.stderr).toContain(text)
        }
      }),
    timeout
  )

  it.scopedLive(
    "that is not there is said so, and the key does not follow a redirect",
    () =>
      Effect.gen(function* () {
        const asked: Array<string> = []
        const server = createServer((socket) =>
          socket.on("data", (data) => {
            asked.push(String(data).split("\r\n", 1)[0] ?? "")
            socket.end("HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")
          })
        )
        const port = yield* listen(server)
        const list = (url: string) =>
          CommandLine.run(["registry", "key", "list", "--api-url", url], { CPK_INTELLIGENCE_API_KEY: "key" })
        const redirected = yield* list(`http://127.0.0.1:${port}`)
        expect(redirected).toMatchObject({ code: 1, stdout: "" })
        expect(redirected.stderr).toContain("UNSUPPORTED_SERVER: The registry redirected")
        expect(asked).toEqual(["GET /api/v1/learning/keys HTTP/1.1"])
        const away = yield* list("http://127.0.0.1:1")
        expect(away).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("NETWORK_ERROR") })
      }),
    timeout
  )
})
