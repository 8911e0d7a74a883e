import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as CommandLine from "../../support/CommandLine.js"
import * as Material from "../../support/Material.js"
import {
  command,
  interrupting,
  serve,
  serveAt,
  setOf,
  stop,
  temporary,
  timeout,
  writeSkill
} from "../../support/ServedRegistry.js"
import { skillFile } from "../../support/Uploads.js"

/** A registry, and publishes to it: of a skill of this name and text, to a container that is made where it has to be. */
const started = Effect.gen(function* () {
  const directory = yield* temporary
  const data = join(directory, "data")
  const served = yield* serve(["--data", data])
  const { adminKeyFile = "", url } = served
  const admin = command(url, adminKeyFile)
  const publish = (container: string, name: string, text: string, ...args: ReadonlyArray<string>) =>
    admin("skills", "publish", writeSkill(directory, name, text), "--container", container, "--create", ...args)
  const connection = ["--api-url", url, "--key-file", adminKeyFile]
  const key = readFileSync(adminKeyFile, "utf8").trim()
  return { admin, adminKeyFile, connection, data, directory, key, publish, served, url }
})

describe("skills publish", () => {
  it.scopedLive(
    "of one name to two containers is two skills, and uploads nothing that has not changed",
    () =>
      Effect.gen(function* () {
        const { admin, publish } = yield* started
        const ofA = yield* publish("a", "greeting", "Of a.\n")
        const ofB = yield* publish("b", "greeting", "Of b.\n")
        expect(ofA.skill.id).not.toBe(ofB.skill.id)
        const unchanged = { isNewVersion: false, isNewRevision: false }
        expect(yield* publish("a", "greeting", "Of a.\n")).toEqual({ ...ofA, ...unchanged })
        expect(yield* publish("b", "greeting", "Of b.\n")).toEqual({ ...ofB, ...unchanged })
        expect(yield* publish("a", "greeting", "Of a, again.\n")).toMatchObject({ skill: ofA.skill, version: "2" })
        expect(yield* publish("b", "greeting", "Of b.\n")).toEqual({ ...ofB, ...unchanged })
        const { containers } = yield* admin("registry", "container", "list")
        expect(containers).toMatchObject([
          { id: "a", latest: { skills: [{ skillId: ofA.skill.id, version: "2" }] } },
          { id: "b", latest: { skills: [{ skillId: ofB.skill.id, version: "1" }] } }
        ])
      }),
    timeout
  )

  it.scopedLive(
    "compares with what the container has, and with what a publish that failed half-way has uploaded",
    () =>
      Effect.gen(function* () {
        const { admin, publish } = yield* started
        const first = yield* publish("a", "greeting", "Once.\n")
        const { revision } = yield* publish("a", "greeting", "Twice.\n")
        yield* admin("registry", "revoke", "a", revision)
        // The newest version is another one, the container's own is this.
        expect(yield* publish("a", "greeting", "Once.\n")).toEqual({
          ...first,
          isNewVersion: false,
          isNewRevision: false
        })
        // Uploaded, and in no revision of this container.
        const id = first.skill.id
        expect(yield* publish("b", "greeting", "Thrice.\n", "--skill", id)).toMatchObject({ version: "3" })
        expect(yield* publish("a", "greeting", "Thrice.\n")).toMatchObject({
          skill: { id },
          version: "3",
          isNewVersion: false,
          isNewRevision: true
        })
      }),
    timeout
  )

  it.scopedLive(
    "adds to the skill that --skill names, and to no other",
    () =>
      Effect.gen(function* () {
        const { connection, directory, publish } = yield* started
        const first = yield* publish("a", "greeting", "")
        expect(yield* publish("b", "greeting", "", "--skill", first.skill.id)).toMatchObject({
          skill: first.skill,
          version: "1",
          isNewVersion: false
        })
        const refused = Effect.fnUntraced(function* (name: string, id: string, line: string) {
          const skill = writeSkill(directory, name)
          const ended = yield* CommandLine.run([
            ...["skills", "publish", skill, "--container", "a", "--skill", id],
            ...connection
          ])
          expect(ended).toEqual({ code: 1, stdout: "", stderr: `agent-contracts: ${line}\n` })
        })
        const none = `skill_${"0".repeat(32)}`
        yield* refused("greeting", none, `SKILL_NOT_FOUND: The registry has no such skill (skill ${none}).`)
        yield* refused(
          "farewell",
          first.skill.id,
          `SKILL_NAME_CHANGED: The skill has another name than the upload: keep the name, or publish another skill (skill ${first.skill.id}).`
        )
      }),
    timeout
  )

  it.scopedLive(
    "goes on when a skill of the container was deleted, which stays in it until it is published anew",
    () =>
      Effect.gen(function* () {
        const { admin, key, publish, url } = yield* started
        const greeting = yield* publish("a", "greeting", "")
        const headers = { "x-api-key": key }
        const deleted = yield* Effect.promise(() =>
          fetch(`${url}/v1/skills/${greeting.skill.id}`, { method: "DELETE", headers })
        )
        expect(deleted.status).toBe(200)
        yield* publish("a", "farewell", "")
        const again = yield* publish("a", "greeting", "")
        expect(again).toMatchObject({ version: "1", isNewVersion: true })
        expect(again.skill.id).not.toBe(greeting.skill.id)
        const { revisions } = yield* admin("registry", "revisions", "a")
        expect(revisions.map(setOf)).toEqual([
          ["farewell@1", "greeting@1"],
          ["farewell@1", "greeting@1"],
          ["greeting@1"],
          []
        ])
      }),
    timeout
  )

  it.scopedLive(
    "of a ZIP is that of what is in it, and says in lines what it did",
    () =>
      Effect.gen(function* () {
        const { connection, directory, publish } = yield* started
        const { revision, skill } = yield* publish("team", "greeting", "")
        const zip = join(directory, "out.zip")
        yield* CommandLine.run(["skills", "pack", join(directory, "greeting"), "-o", zip])
        const publishZip = CommandLine.run(["skills", "publish", zip, "--container", "team", ...connection])
        expect(yield* publishZip).toEqual({
          code: 0,
          stdout: [
            `skill      "greeting" ${skill.id}`,
            "version    1 (was there)",
            'container  "team"',
            `revision   ${revision} (was the latest)`,
            ""
          ].join("\n"),
          stderr: ""
        })
        yield* CommandLine.run(["skills", "pack", writeSkill(directory, "greeting", "Twice.\n"), "-o", zip])
        expect((yield* publishZip).stdout).toMatch(/^skill {6}"greeting" \S+\nversion {4}2\n/)
      }),
    timeout
  )

  it.scopedLive(
    "to a registry that is killed meanwhile and started again is published, and what was acknowledged before is kept",
    () =>
      Effect.gen(function* () {
        const { admin, adminKeyFile, data, directory, publish, served, url } = yield* started
        let running: Pick<typeof served, "ended" | "signal"> = served
        const first = yield* publish("team", "first", "")
        const restart = Effect.gen(function* () {
          yield* stop(yield* Effect.sync(() => running as typeof served), "SIGKILL")
          running = yield* serveAt(url, data)
        })
        for (const [name, during] of [
          ["second", false],
          ["third", true]
        ] as const) {
          const killing = yield* interrupting(url, restart, { during })
          const skill = writeSkill(directory, name)
          const ended = yield* CommandLine.run([
            ...["skills", "publish", skill, "--container", "team", "--json"],
            ...["--api-url", killing.url, "--key-file", adminKeyFile]
          ])
          expect(ended.code, ended.stderr).toBe(0)
          expect(JSON.parse(ended.stdout)).toMatchObject({ skill: { name }, version: "1" })
        }
        const { revisions } = yield* admin("registry", "revisions", "team")
        expect(revisions.map(setOf)).toEqual([
          ["first@1", "second@1", "third@1"],
          ["first@1", "second@1"],
          ["first@1"],
          []
        ])
        expect(revisions[2].revision).toBe(first.revision)
      }),
    timeout
  )

  it.scopedLive(
    "makes agents' directories hold the skill, from the server that runs to the files",
    () =>
      Effect.gen(function* () {
        const { admin, directory, publish, url } = yield* started
        const { key } = yield* admin("registry", "container", "create", "team").pipe(
          Effect.zipRight(admin("registry", "key", "create", "--name", "agents", "--container", "team"))
        )
        const skills = join(directory, "agent", "skills")
        const sync = CommandLine.run(["skills", "sync", "--container", "team", "--dir", skills], {
          INTELLIGENCE_API_URL: url,
          CPK_INTELLIGENCE_API_KEY: key
        })
        yield* publish("team", "greeting", "Once.\n")
        expect((yield* sync).stdout).toContain("(1 written, 0 kept, 0 removed, 0 failed)\n")
        yield* publish("team", "greeting", "Twice.\n")
        yield* publish("team", "farewell", "")
        expect((yield* sync).stdout).toContain("(2 written, 0 kept, 0 removed, 0 failed)\n")
        expect(Material.contents(skills)).toMatchObject({
          "greeting/SKILL.md": `${skillFile("greeting")}Twice.\n`,
          "farewell/SKILL.md": skillFile("farewell")
        })
        yield* admin("skills", "unpublish", "greeting", "--container", "team")
        expect((yield* sync).stdout).toContain(`  - "greeting": unwanted\n`)
        expect(Material.contents(skills)).not.toHaveProperty("greeting/SKILL.md")
      }),
    timeout
  )
})

describe("in lines", () => {
  it.scopedLive(
    "keys, containers and revisions are as people read them",
    () =>
      Effect.gen(function* () {
        const { admin, connection, publish } = yield* started
        const run = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
          const ended = yield* CommandLine.run([...args, ...connection])
          expect({ code: ended.code, stderr: ended.stderr }, args.join(" ")).toEqual({ code: 0, stderr: "" })
          return ended.stdout
        })
        const time = String.raw`\d{4}-\d\d-\d\dT[\d:.]+Z`
        expect(yield* run("registry", "container", "create", "team", "--title", "The team")).toMatch(
          /^"team" {2}revision [0-9a-f]{64} {2}"The team"\n$/
        )
        const { revision } = yield* publish("team", "greeting", "")
        expect(yield* run("registry", "container", "list")).toBe(`"team"  revision ${revision}  "The team"\n`)
        expect(yield* run("registry", "revisions", "team")).toMatch(
          new RegExp(`^   2  ${revision}  ${time}  "greeting"@1  latest\n   1  [0-9a-f]{64}  ${time}  no skills\n$`)
        )
        expect(yield* run("registry", "revoke", "team", revision.slice(0, 8))).toMatch(
          new RegExp(`^   2  ${revision}  ${time}  "greeting"@1  revoked ${time}\n$`)
        )

        const created = yield* run("registry", "key", "create", "--name", "agents", "--container", "team")
        expect(created).toMatch(
          new RegExp(
            `^key         ask_[\\w-]+\nid          \\w+\nname        "agents"\nscope       read\ncontainers  "team"\ncreated     ${time}\n$`
          )
        )
        const id = /^id {10}(\w+)$/m.exec(created)?.[1] ?? ""
        expect(yield* run("registry", "key", "revoke", id)).toMatch(new RegExp(`\nrevoked     ${time}\n$`))
        const { keys } = yield* admin("registry", "key", "list")
        expect(yield* run("registry", "key", "list")).toMatch(
          new RegExp(
            `^${keys[0].id}  admin    ${time}  "admin"\n${id}  read     ${time}  "agents"  for "team"  revoked ${time}\n$`
          )
        )
      }),
    timeout
  )
})
