/** What registry and delivery do, once through, over real HTTP on loopback: `npm start`. */
import { createServer } from "node:http"
import { FetchHttpClient, FileSystem, HttpClient, HttpServer, Path } from "@effect/platform"
import { NodeContext, NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Console, Context, Data, Effect, FiberRef, Layer, LogLevel, Ref, Schema } from "effect"
import { DeliveryStatus, RegistryClient, SkillCatalog, SkillDelivery } from "effect-agent-contracts/delivery"
import { SkillBundle } from "effect-agent-contracts/publishing"
import { Registry, RegistryServer } from "effect-agent-contracts/registry"
import { BlobStore, Database } from "effect-agent-contracts/store"
import { exampleDirectories } from "./skills.js"

// `npm start | head`: that nobody reads any further is no failure.
process.stdout.on("error", () => process.exit())

const container = "examples"

/** The walk found something else than it should have. */
class Unexpected extends Data.TaggedError("Unexpected")<{ readonly message: string }> {}

const expect = (holds: boolean, message: string) => (holds ? Effect.void : new Unexpected({ message }))

const title = (text: string) => Console.log(`\n== ${text}`)

/** The HTTP status of every answer that the delivery got. */
class Answers extends Context.Tag("examples/Answers")<Answers, Ref.Ref<ReadonlyArray<number>>>() {}

const lastAnswer = Effect.map(Effect.flatMap(Answers, Ref.get), (answers) => answers.at(-1))

/** One line of status, and the HTTP status of the answer that it comes from. */
const showStatus = Effect.gen(function* () {
  const status = yield* Schema.encode(DeliveryStatus.DeliveryStatus)(yield* SkillDelivery.status)
  const parts = Object.entries(status).map(([name, value]) =>
    typeof value === "object" && "code" in value ? `${name}=${value.code}` : `${name}=${value}`
  )
  yield* Console.log(`answer: ${yield* lastAnswer}; status: ${parts.join(" ")}`)
})

const walk = Effect.gen(function* () {
  const registry = yield* Registry.Registry
  const uploaded = yield* Effect.forEach(yield* exampleDirectories, (directory) =>
    Effect.gen(function* () {
      const bundle = yield* SkillBundle.fromDirectory(directory)
      const { skill, version } = yield* registry.createSkill({ displayTitle: null, bundle, keyId: "examples" })
      return { skillId: skill.id, version: version.version }
    })
  )
  const { container: empty } = yield* registry.putContainer({ id: container })
  const published = yield* registry.publish({
    containerId: container,
    base: empty.latest?.revision ?? null,
    skills: uploaded
  })
  const url = yield* HttpServer.addressFormattedWith(Effect.succeed)
  yield* Console.log(
    `Registry at ${url}: container "${container}" has revision ${published.revision} with ${uploaded.length} skills`
  )

  yield* title("Acquire")
  const first = yield* SkillDelivery.acquire
  yield* Console.log(SkillCatalog.text(first))
  yield* showStatus
  yield* expect(
    first.revision === published.revision && first.skills.length === uploaded.length,
    "the first acquire gives the revision whole"
  )

  yield* title("Load a skill")
  const loaded = yield* SkillCatalog.load(first, "release-notes")
  yield* Console.log(loaded.text)
  yield* Console.log(`other text files: ${loaded.files.join(", ")}`)
  yield* expect(loaded.files.length > 0, "the skill has a reference to read")

  yield* title("Unchanged")
  const second = yield* SkillDelivery.acquire
  yield* showStatus
  yield* expect(second === first && (yield* lastAnswer) === 304, "an unchanged check keeps the snapshot")

  yield* title("A new revision")
  const smaller = yield* registry.publish({
    containerId: container,
    base: published.revision,
    skills: uploaded.slice(0, -1)
  })
  const third = yield* SkillDelivery.acquire
  yield* showStatus
  yield* expect(
    third.revision === smaller.revision && third.skills.length === uploaded.length - 1,
    "a new revision replaces the old"
  )

  yield* title("Revoked")
  yield* registry.revoke(container, smaller.revision)
  const fallback = yield* SkillDelivery.acquire
  yield* showStatus
  yield* expect(fallback.revision === published.revision, "what was before a revoked revision is the latest again")

  yield* title("Denied")
  yield* registry.setEnabled(container, false)
  const denied = yield* Effect.either(SkillDelivery.acquire)
  yield* Console.log(denied._tag === "Left" ? `${denied.left._tag}: ${denied.left.message}` : "acquired")
  yield* showStatus
  yield* expect(denied._tag === "Left" && denied.left._tag === "DELIVERY_DISABLED", "a disabled container is refused")

  yield* title("Recovered")
  yield* registry.setEnabled(container, true)
  const recovered = yield* SkillDelivery.acquire
  yield* showStatus
  const { lastError } = yield* SkillDelivery.status
  yield* expect(
    recovered.revision === published.revision && lastError === undefined,
    "a successful check lifts the denial"
  )
})

/** A registry in a directory that goes with it. */
const registry = Layer.unwrapScoped(
  Effect.gen(function* () {
    const path = yield* Path.Path
    const directory = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
    return Registry.layer.pipe(
      Layer.provide([
        Database.layerLibsql({ directory }),
        BlobStore.layerFiles({ directory: path.join(directory, "blobs") })
      ])
    )
  })
)

const server = RegistryServer.layer().pipe(
  Layer.provideMerge(registry),
  Layer.provideMerge(NodeHttpServer.layer(() => createServer(), { port: 0, host: "127.0.0.1" }))
)

// A freshness of 0 checks at every acquire, so that the walk has nothing to wait for; the timeout is for a busy machine.
const delivery = Layer.unwrapEffect(
  Effect.gen(function* () {
    const answers = yield* Answers
    const { issueKey } = yield* Registry.Registry
    const { key } = yield* issueKey({ name: "agents", scope: "read", containers: [container] })
    const http = yield* HttpClient.HttpClient
    const watched = HttpClient.tap(http, ({ status }) => Ref.update(answers, (all) => [...all, status]))
    return SkillDelivery.layer({ container, freshness: 0, timeout: "30 seconds" }).pipe(
      Layer.provide(
        RegistryClient.layer({ apiUrl: yield* HttpServer.addressFormattedWith(Effect.succeed), apiKey: key })
      ),
      Layer.provide(Layer.succeed(HttpClient.HttpClient, watched))
    )
  })
).pipe(
  Layer.provideMerge(Layer.effect(Answers, Ref.make<ReadonlyArray<number>>([]))),
  Layer.provideMerge(server),
  Layer.provide(FetchHttpClient.layer)
)

walk.pipe(
  Effect.provide(Layer.provideMerge(delivery, NodeContext.layer)),
  // The server logs a line for each request.
  Effect.locally(FiberRef.currentMinimumLogLevel, LogLevel.Warning),
  NodeRuntime.runMain
)
