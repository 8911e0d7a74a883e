/**
 * Writes the fixture files, or with `--check` fails when those on disk are not the ones it would write.
 *
 *     npm run fixtures [-- [--check] [directory]]
 *
 * @module
 */
import { layer as nodeContext } from "@effect/platform-node/NodeContext"
import { runMain } from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { broken, drift, write } from "./fixtures/files.js"

const check = Effect.fnUntraced(function* (directory: string) {
  const drifts = yield* drift(directory)
  if (drifts.length > 0) {
    const lines = drifts.map((line) => `${directory}/${line}`)
    return yield* Effect.fail([...lines, "not what scripts/fixtures writes: run npm run fixtures"].join("\n"))
  }
  const violations = yield* broken(directory)
  if (violations.length > 0) return yield* Effect.fail(violations.join("\n"))
  yield* Console.log(`${directory} is up to date`)
})

const main = Effect.suspend(() => {
  const parameters = process.argv.slice(2)
  const options = parameters.filter((parameter) => parameter.startsWith("-"))
  const [directory = "fixtures", ...more] = parameters.filter((parameter) => !parameter.startsWith("-"))
  if (more.length > 0 || options.some((option) => option !== "--check")) {
    return Effect.fail("usage: npm run fixtures [-- [--check] [directory]]")
  }
  if (options.length > 0) return check(directory)
  return Effect.flatMap(write(directory), (paths) =>
    Console.log(paths.map((path) => `${directory}/${path}`).join("\n"))
  )
})

main.pipe(
  Effect.catchAll((error) =>
    Effect.zipRight(
      Console.error(typeof error === "string" ? error : error.message),
      Effect.sync(() => {
        process.exitCode = 1
      })
    )
  ),
  Effect.provide(nodeContext),
  runMain
)
