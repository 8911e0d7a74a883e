import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodePath } from "@effect/platform-node"
import { assert } from "@effect/vitest"
import { Clock, Effect } from "effect"
import * as SkillMaterializer from "../../src/materialize/SkillMaterializer.js"
import * as InterceptedFileSystem from "./InterceptedFileSystem.js"
import { contents, laidOut } from "./Material.js"
import { after, before } from "./MaterialSets.js"

/** What no materialization may touch. */
const foreign = { "mine/SKILL.md": "mine", "README.md": "notes" }

/** Where the tests of faults work: in memory where that is possible, for they lay out the same skills hundreds of times. */
export const temporaryDirectory = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const memory = "/dev/shm"
  const options = existsSync(memory) ? { directory: memory } : {}
  return yield* fs.realPath(yield* fs.makeTempDirectoryScoped(options))
})

/** Makes the directory anew, with the first set in it and something of its user's. */
export const prepare = (directory: string) =>
  Effect.gen(function* () {
    const template = `${directory}.template`
    if (!existsSync(template)) {
      mkdirSync(join(template, "mine"), { recursive: true })
      for (const [path, text] of Object.entries(foreign)) writeFileSync(join(template, path), text)
      yield* SkillMaterializer.materialize({ directory: template, skills: before })
    }
    rmSync(directory, { recursive: true, force: true })
    cpSync(template, directory, { recursive: true })
  }).pipe(Effect.provide(NodeContext.layer))

const treeOf = (found: Readonly<Record<string, string>>, prefix: string) =>
  Object.fromEntries(
    Object.entries(found)
      .filter(([path]) => path === prefix || path.startsWith(`${prefix}/`))
      .map(([path, text]) => [path.slice(prefix.length + 1), text])
  )

const isSame = (left: object, right: object) =>
  JSON.stringify(Object.entries(left).sort()) === JSON.stringify(Object.entries(right).sort())

/**
 * Asserts that every skill is whole: its old tree, its new one, or - where a pass may have been killed - neither, with the
 * old one in staging. Gives what each is.
 */
export const assertWhole = (directory: string, at: string): Readonly<Record<string, string>> => {
  const found = contents(directory)
  const state: Record<string, string> = {}
  for (const name of ["pdf", "csv", "gone", "fresh"]) {
    const tree = treeOf(found, name)
    const versions = [before, after].map((skills) => {
      const skill = skills.find((one) => one.name === name)
      return skill === undefined ? {} : treeOf(laidOut([skill]), name)
    })
    const [old = {}, next = {}] = versions
    if (isSame(tree, old)) state[name] = "old"
    else if (isSame(tree, next)) state[name] = "new"
    else {
      assert.deepStrictEqual(tree, {}, `${at}: ${name} is neither old nor new`)
      const staging = Object.keys(found).find((path) => /^\.materialized\.staging-[^/]*\/old\//.test(path))
      const kept = treeOf(found, `${staging?.split("/")[0]}/old/${name}`)
      assert.deepStrictEqual(kept, old, `${at}: ${name} is absent, and its old tree is not in staging`)
      state[name] = "absent"
    }
  }
  for (const [path, text] of Object.entries(foreign)) assert.strictEqual(found[path], text, at)
  // The marker may lack what is there, but never names what is not.
  const marker: { skills: ReadonlyArray<{ skill_id: string; version: string }> } = JSON.parse(
    found[".materialized"] ?? ""
  )
  for (const { skill_id: id, version } of marker.skills) {
    const skills = state[id] === "old" ? before : state[id] === "new" ? after : []
    assert.include(
      skills.map((skill) => `${skill.name} ${skill.version}`),
      `${id} ${version}`,
      `${at}: the marker names what is not there`
    )
  }
  return state
}

/** Asserts that the directory holds the second set, with its marker, and nothing that a pass left. */
export const assertSettled = (directory: string, at: string) => {
  assert.deepStrictEqual(contents(directory), { ...laidOut(after), ...foreign }, at)
}

/** A pass for the second set on a file system on which every operation goes through `around`. */
export const pass = (directory: string, around: InterceptedFileSystem.Around = (_, effect) => effect) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => passOn(InterceptedFileSystem.intercept(fs, around), directory)).pipe(
    Effect.provide(NodeContext.layer)
  )

/**
 * The next pass for the second set after one that was cut off. It would wait until the lock of that one is stale, which takes a
 * second each time even while time is passing; `DirectoryLock.test.ts` and the kills of processes wait for it.
 */
export const nextPass = (directory: string) =>
  Effect.suspend(() => {
    rmSync(join(directory, ".materialized.lock"), { force: true })
    return pass(directory)
  })

/** A pass for the second set on this file system. */
export const passOn = (fs: FileSystem.FileSystem, directory: string) =>
  SkillMaterializer.materialize({ directory, skills: after }).pipe(
    Effect.provideService(FileSystem.FileSystem, fs),
    Effect.provide(NodePath.layer)
  )

const hurried: Clock.Clock = Object.create(Clock.make(), {
  sleep: { value: () => Effect.promise(() => new Promise((resolve) => setImmediate(resolve))) }
})

/** Runs an effect that may wait for a lock to go stale: a sleep takes one turn of the event loop. */
export const withTimePassing = Effect.withClock(hurried)
