import { HttpClient } from "@effect/platform"
import { Context, Effect, Layer, Redacted } from "effect"
import * as RegistryClient from "../../src/delivery/RegistryClient.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import { type Handler, LoopbackRegistry, sequence } from "./LoopbackRegistry.js"
import { apiKey } from "./RegistryConnection.js"

/** The whole stack over the server of the test, as a runtime composes it; `cache` may be a `SnapshotCache` layer. */
export const deliver = (options: SkillDelivery.Options, cache: Layer.Layer<never> = Layer.empty) =>
  Effect.gen(function* () {
    const registry = yield* LoopbackRegistry
    const http = yield* HttpClient.HttpClient
    const headArrived = yield* Effect.makeLatch()
    const client = HttpClient.tap(http, () => headArrived.open)
    const skills = SkillDelivery.layer(options).pipe(
      Layer.provide(RegistryClient.layer({ apiUrl: registry.url, apiKey: Redacted.make(apiKey) })),
      Layer.provide(Layer.succeed(HttpClient.HttpClient, client)),
      Layer.provide(cache)
    )
    const delivery = Context.get(yield* Layer.build(skills), SkillDelivery.SkillDelivery)
    return {
      ...delivery,
      /** Acquires, and gives the revision or the code of the failure. */
      outcome: delivery.acquire.pipe(
        Effect.map((snapshot): string => snapshot.revision),
        Effect.catchAll((error) => Effect.succeed<string>(error._tag))
      ),
      enqueue: registry.enqueue,
      requests: registry.requests,
      requestCount: Effect.map(registry.requests, (requests) => requests.length),
      /** Done when the head of an answer has arrived on this side; a latch of the server only says that it was sent. */
      headArrived: headArrived.await
    }
  })

/** A handler that says when its request has arrived and answers when it may. */
export const held = (handler: Handler) =>
  Effect.gen(function* () {
    const arrived = yield* Effect.makeLatch()
    const opened = yield* Effect.makeLatch()
    return {
      handler: sequence(
        () => arrived.open,
        () => opened.await,
        handler
      ),
      arrived: arrived.await,
      open: opened.open
    }
  })
