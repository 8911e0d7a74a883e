import { LanguageModel, type Prompt, type Response } from "@effect/ai"
import { Effect, Layer, Stream } from "effect"

/**
 * Stands in for a model provider: loads the first skill that its instructions list, then says which skill it follows.
 */
export const Model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) => Effect.succeed([nextPart(prompt)]),
    streamText: () => Stream.dieMessage("this stand-in does not stream")
  })
)

const nextPart = ({ content: messages }: Prompt.Prompt): Response.PartEncoded => {
  const results = messages.flatMap((message) => (message.role === "tool" ? message.content : []))
  if (results[0] !== undefined) return { type: "text", text: `I follow ${JSON.stringify(results[0].result)}` }
  const instructions = messages.map((message) => (message.role === "system" ? message.content : "")).join("")
  const skill = /^\{"name":"([^"]+)"/m.exec(instructions)?.[1]
  return skill === undefined
    ? { type: "text", text: "I have no skill to follow." }
    : { type: "tool-call", id: "1", name: "copilotkit_load_skill", params: { skill_name: skill } }
}
