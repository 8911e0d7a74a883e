/** Serves the skills in `examples/skills` on loopback until it is interrupted: `npm run registry [-- <port>]`. */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Redacted } from "effect"
import { Registry, layer as registryLayer } from "./registry.js"
import { readDirectory } from "./skills.js"

const container = "examples"
const apiKey = "example-key"
const port = Number(process.argv[2] ?? 4400)
if (!Number.isInteger(port) || port < 0 || port > 65_535) {
  console.error("usage: npm run registry [-- <port>], a port being a number from 0 to 65535")
  process.exit(2)
}

const serve = Effect.gen(function* () {
  const registry = yield* Registry
  yield* registry.publish(container, "r1", yield* readDirectory("examples/skills"))
  yield* Console.log(`export INTELLIGENCE_API_URL=${registry.url}`)
  yield* Console.log(`export CPK_INTELLIGENCE_API_KEY=${apiKey}`)
  yield* Console.log(`export CPK_INTELLIGENCE_LEARNING_CONTAINER_ID=${container}`)
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
