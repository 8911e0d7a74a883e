/**
 * Serves the skills in `examples/skills` on loopback until it is interrupted: `npm run registry [-- <port>]`. Lines of its
 * standard input publish the skills anew, as they are then, or revoke and restore the latest revision.
 */
import { createInterface } from "node:readline"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Redacted, Ref, Stream } from "effect"
import { Registry, layer as registryLayer } from "./registry.js"
import { readExamples } from "./skills.js"

const container = "examples"
const apiKey = "example-key"
const port = Number(process.argv[2] ?? 4400)
if (!Number.isInteger(port) || port < 0 || port > 65_535) {
  console.error("usage: npm run registry [-- <port>], a port being a number from 0 to 65535")
  process.exit(2)
}

const serve = Effect.gen(function* () {
  const registry = yield* Registry
  const published = yield* Ref.make(0)
  const latest = Effect.map(Ref.get(published), (number) => `r${number}`)

  const publish = Effect.gen(function* () {
    const skills = yield* readExamples
    const revision = `r${(yield* Ref.get(published)) + 1}`
    yield* registry.publish(container, revision, skills)
    yield* Ref.update(published, (number) => number + 1)
    return `published ${revision} with ${skills.length} skills`
  })

  const obey = (command: string) => {
    switch (command) {
      case "publish":
        return publish
      case "revoke":
        return Effect.flatMap(latest, (revision) =>
          Effect.as(registry.revoke(container, revision), `revoked ${revision}`)
        )
      case "restore":
        return Effect.flatMap(latest, (revision) =>
          Effect.as(registry.restore(container, revision), `restored ${revision}`)
        )
      default:
        return Effect.succeed("publish, revoke or restore?")
    }
  }

  const first = yield* publish
  yield* Console.log(`export INTELLIGENCE_API_URL=${registry.url}`)
  yield* Console.log(`export CPK_INTELLIGENCE_API_KEY=${apiKey}`)
  yield* Console.log(`export CPK_INTELLIGENCE_LEARNING_CONTAINER_ID=${container}`)
  yield* Console.error(`${first}; serving until Ctrl-C; type publish, revoke or restore`)

  yield* Stream.fromAsyncIterable(createInterface({ input: process.stdin }), String).pipe(
    Stream.runForEach((line) =>
      obey(line.trim()).pipe(
        // Skills that are being edited may be wrong: what was published stays.
        Effect.catchAll((error) => Effect.succeed(error.message)),
        Effect.flatMap(Console.error)
      )
    )
  )
  return yield* Effect.never
})

serve.pipe(
  Effect.provide(Layer.merge(registryLayer(Redacted.make(apiKey), port), NodeContext.layer)),
  Effect.catchTag("ServeError", (error) =>
    Effect.sync(() => {
      console.error(`Port ${port}: ${error.cause}`)
      process.exitCode = 1
    })
  ),
  NodeRuntime.runMain
)
