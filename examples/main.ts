/** What a delivery does, once through, against a registry over real HTTP: `npm start`. */
import { FetchHttpClient } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Data, Effect, Layer, Redacted, Schema } from "effect"
import { DeliveryStatus, RegistryClient, SkillCatalog, SkillDelivery } from "effect-agent-contracts/delivery"
import { Registry, layer as registryLayer } from "./registry.js"
import { readExamples } from "./skills.js"

// `npm start | head`: that nobody reads any further is no failure.
process.stdout.on("error", () => process.exit())

const container = "examples"
const apiKey = Redacted.make("example-key")

/** The walk found something else than it should have. */
class Unexpected extends Data.TaggedError("Unexpected")<{ readonly message: string }> {}

const expect = (holds: boolean, message: string) => (holds ? Effect.void : new Unexpected({ message }))

const title = (text: string) => Console.log(`\n== ${text}`)

/** One line of status, and the HTTP status of the answer that it comes from. */
const showStatus = Effect.gen(function* () {
  const answers = yield* (yield* Registry).answers
  const status = yield* Schema.encode(DeliveryStatus.DeliveryStatus)(yield* SkillDelivery.status)
  const parts = Object.entries(status).map(([name, value]) =>
    typeof value === "object" && "code" in value ? `${name}=${value.code}` : `${name}=${value}`
  )
  yield* Console.log(`answer: ${answers.at(-1)}; status: ${parts.join(" ")}`)
})

const walk = Effect.gen(function* () {
  const registry = yield* Registry
  const skills = yield* readExamples
  yield* registry.publish(container, "r1", skills)
  yield* Console.log(
    `Registry at ${registry.url}: container "${container}" has revision r1 with ${skills.length} skills`
  )

  yield* title("Acquire")
  const first = yield* SkillDelivery.acquire
  yield* Console.log(SkillCatalog.text(first))
  yield* showStatus
  yield* expect(first.revision === "r1" && first.skills.length === skills.length, "the first acquire gives r1 whole")

  yield* title("Load a skill")
  const loaded = yield* SkillCatalog.load(first, "release-notes")
  yield* Console.log(loaded.text)
  yield* Console.log(`other text files: ${loaded.files.join(", ")}`)
  yield* expect(loaded.files.length > 0, "the skill has a reference to read")

  yield* title("Unchanged")
  const second = yield* SkillDelivery.acquire
  yield* showStatus
  yield* expect(second === first && (yield* registry.answers).at(-1) === 304, "an unchanged check keeps the snapshot")

  yield* title("A new revision")
  yield* registry.publish(container, "r2", skills.slice(0, -1))
  const third = yield* SkillDelivery.acquire
  yield* showStatus
  yield* expect(third.revision === "r2" && third.skills.length === skills.length - 1, "a new revision replaces the old")

  yield* title("Revoked")
  yield* registry.revoke(container, "r2")
  const denied = yield* Effect.either(SkillDelivery.acquire)
  yield* Console.log(denied._tag === "Left" ? `${denied.left._tag}: ${denied.left.message}` : "acquired")
  yield* showStatus
  yield* expect(denied._tag === "Left" && denied.left._tag === "REVISION_REVOKED", "a revoked revision is refused")

  yield* title("Recovered")
  yield* registry.restore(container, "r2")
  const recovered = yield* SkillDelivery.acquire
  yield* showStatus
  const { lastError } = yield* SkillDelivery.status
  yield* expect(recovered.revision === "r2" && lastError === undefined, "a successful check lifts the denial")
})

// A freshness of 0 checks at every acquire, so that the walk has nothing to wait for; the timeout is for a busy machine.
const delivery = Layer.unwrapEffect(
  Effect.map(Registry, ({ url }) =>
    SkillDelivery.layer({ container, freshness: 0, timeout: "30 seconds" }).pipe(
      Layer.provide(RegistryClient.layer({ apiUrl: url, apiKey })),
      Layer.provide(FetchHttpClient.layer)
    )
  )
)

walk.pipe(
  Effect.provide(delivery.pipe(Layer.provideMerge(registryLayer(apiKey)), Layer.merge(NodeContext.layer))),
  NodeRuntime.runMain
)
