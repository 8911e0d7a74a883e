import { Chat } from "@effect/ai"
import { FetchHttpClient } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer } from "effect"
import { InvocationSnapshot, RegistryClient, SkillDelivery, SnapshotCache } from "effect-agent-contracts/delivery"
import { SkillToolkit } from "effect-agent-contracts/toolkit"
import { Model } from "./model.js" // In your runtime: the layer of a model provider.

// One delivery for the life of the runtime, configured by environment variables.
const Skills = SkillDelivery.layerConfig().pipe(
  Layer.provide([RegistryClient.layerConfig, SnapshotCache.layerConfig]),
  Layer.provide([FetchHttpClient.layer, NodeContext.layer])
)

// One snapshot for each invocation: it is acquired before the model starts, and every tool call reads it.
const answer = (question: string) =>
  Effect.gen(function* () {
    const chat = yield* Chat.fromPrompt([{ role: "system", content: yield* SkillToolkit.catalog }])
    let response = yield* chat.generateText({ prompt: question, toolkit: SkillToolkit.toolkit })
    while (response.toolCalls.length > 0) {
      response = yield* chat.generateText({ prompt: [], toolkit: SkillToolkit.toolkit })
    }
    return response.text
  }).pipe(
    InvocationSnapshot.provide,
    Effect.catchTag("REVISION_REVOKED", () => Effect.succeed("Our skills were withdrawn; try again later."))
  )

answer("Write the release notes of version 1.4.0").pipe(
  Effect.flatMap(Console.log),
  Effect.provide([Skills, SkillToolkit.layer, Model]),
  Effect.catchAll((error) =>
    Effect.sync(() => {
      console.error(`${error._tag}: ${error.message}`)
      process.exitCode = 1
    })
  ),
  NodeRuntime.runMain
)
