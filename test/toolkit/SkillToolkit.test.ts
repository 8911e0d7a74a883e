import { Chat, LanguageModel, McpServer, type Prompt, type Response, type Tool, Toolkit } from "@effect/ai"
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Ref, Stream } from "effect"
import { InvocationSnapshot, RegistryScript, SkillDelivery } from "../../src/delivery/index.js"
import { SkillToolkit } from "../../src/toolkit/index.js"
import * as Skills from "../support/Skills.js"

const sources: Skills.SkillSources = {
  "release-notes": {
    description: "Writes release notes",
    files: {
      "SKILL.md": "# Release notes\n",
      "logo.png": new Uint8Array([0x89, 0xff]),
      "style.md": "Be brief."
    }
  }
}

/** Runs with these skills as the invocation's snapshot. */
const withSkills =
  (skills: Skills.SkillSources = sources) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.provideServiceEffect(effect, InvocationSnapshot.InvocationSnapshot, Skills.verified(skills))

describe("handlers", () => {
  const handled = Effect.provide(SkillToolkit.toolkit, SkillToolkit.layer)

  it.effect("load_skill gives SKILL.md and the paths of the other text files", () =>
    Effect.gen(function* () {
      const skills = yield* handled
      const { isFailure, encodedResult } = yield* skills.handle("copilotkit_load_skill", {
        skill_name: "release-notes"
      })
      assert.isFalse(isFailure)
      assert.deepStrictEqual(encodedResult, { name: "release-notes", text: "# Release notes\n", files: ["style.md"] })
    }).pipe(withSkills())
  )

  it.effect("read_skill_file gives one text file", () =>
    Effect.gen(function* () {
      const skills = yield* handled
      const { isFailure, encodedResult } = yield* skills.handle("copilotkit_read_skill_file", {
        skill_name: "release-notes",
        path: "style.md"
      })
      assert.isFalse(isFailure)
      assert.deepStrictEqual(encodedResult, { skill: "release-notes", path: "style.md", text: "Be brief." })
    }).pipe(withSkills())
  )

  it.effect.each([
    {
      skill_name: "absent",
      path: "style.md",
      tag: "UnknownSkill",
      fields: ["available", "message", "omitted", "skill"]
    },
    {
      skill_name: "release-notes",
      path: "absent.md",
      tag: "UnlistedPath",
      fields: ["available", "message", "omitted", "path", "skill"]
    },
    { skill_name: "release-notes", path: "logo.png", tag: "BinaryFile", fields: ["message", "path", "skill"] }
  ])("a failure is a result that the model can read: $tag", ({ skill_name, path, tag, fields }) =>
    Effect.gen(function* () {
      const skills = yield* handled
      const { isFailure, encodedResult } = yield* skills.handle("copilotkit_read_skill_file", { skill_name, path })
      assert.isTrue(isFailure)
      const { _tag, ...rest } = JSON.parse(JSON.stringify(encodedResult))
      assert.strictEqual(_tag, tag)
      assert.sameMembers(Object.keys(rest), fields)
      assert.notStrictEqual(rest.message, "")
    }).pipe(withSkills())
  )

  it.effect("one set of handlers serves invocations that run at once, each with its own snapshot", () =>
    Effect.gen(function* () {
      const skills = yield* handled
      const loaded = (skill_name: string) =>
        Effect.map(skills.handle("copilotkit_load_skill", { skill_name }), ({ isFailure }) => !isFailure)
      const both = Effect.all([loaded("release-notes"), loaded("greeting")], { concurrency: "unbounded" })
      const invocations = [both.pipe(withSkills()), both.pipe(withSkills(Skills.greeting))]
      assert.deepStrictEqual(yield* Effect.all(invocations, { concurrency: "unbounded" }), [
        [true, false],
        [false, true]
      ])
    })
  )
})

describe("prefix", () => {
  it("names the tools in the types and on the wire", () => {
    expectTypeOf<keyof typeof SkillToolkit.toolkit.tools>().toEqualTypeOf<
      "copilotkit_load_skill" | "copilotkit_read_skill_file"
    >()
    assert.sameMembers(Object.keys(SkillToolkit.toolkit.tools), ["copilotkit_load_skill", "copilotkit_read_skill_file"])

    const acme = SkillToolkit.make({ prefix: "acme_" })
    expectTypeOf<keyof typeof acme.toolkit.tools>().toEqualTypeOf<"acme_load_skill" | "acme_read_skill_file">()
    assert.sameMembers(Object.keys(acme.toolkit.tools), ["acme_load_skill", "acme_read_skill_file"])
  })

  it.effect("is the one that the catalog names", () =>
    Effect.gen(function* () {
      assert.include(yield* SkillToolkit.catalog, "copilotkit_load_skill")
      const catalog = yield* SkillToolkit.make({ prefix: "acme_" }).catalog
      assert.include(catalog, "acme_load_skill")
      assert.include(catalog, "acme_read_skill_file")
      assert.notInclude(catalog, "copilotkit_")
    }).pipe(withSkills())
  )

  it.effect("keeps two toolkits in one runtime apart", () =>
    Effect.gen(function* () {
      const acme = SkillToolkit.make({ prefix: "acme_" })
      const merged = yield* Toolkit.merge(SkillToolkit.toolkit, acme.toolkit).pipe(
        Effect.provide([SkillToolkit.layer, acme.layer])
      )
      const [first, second] = yield* Effect.all([
        merged.handle("copilotkit_load_skill", { skill_name: "release-notes" }),
        merged.handle("acme_load_skill", { skill_name: "release-notes" })
      ])
      assert.deepStrictEqual(first.encodedResult, second.encodedResult)
    }).pipe(withSkills())
  )

  it("leaves the parameters as agents in use know them", () => {
    const parameters = (tool: Tool.Any) => Object.keys(tool.parametersSchema.fields)
    assert.deepStrictEqual(parameters(SkillToolkit.toolkit.tools.copilotkit_load_skill), ["skill_name"])
    assert.deepStrictEqual(parameters(SkillToolkit.toolkit.tools.copilotkit_read_skill_file), ["skill_name", "path"])
  })
})

/** A language model that plays these turns and keeps the prompts it was given. */
const scriptedModel = Effect.fnUntraced(function* (...turns: ReadonlyArray<ReadonlyArray<Response.PartEncoded>>) {
  const left = yield* Ref.make(turns)
  const prompts: Array<Prompt.Prompt> = []
  const offered: Array<ReadonlyArray<string>> = []
  const next = (options: LanguageModel.ProviderOptions) =>
    Effect.sync(() => {
      prompts.push(options.prompt)
      offered.push(options.tools.map((tool) => tool.name))
    }).pipe(Effect.zipRight(Ref.modify(left, ([turn = [], ...rest]) => [Array.from(turn), rest])))
  const model = yield* LanguageModel.make({
    generateText: next,
    streamText: (options) =>
      Stream.fromIterableEffect(next(options) as Effect.Effect<Array<Response.StreamPartEncoded>>)
  })
  return { layer: Layer.succeed(LanguageModel.LanguageModel, model), prompts, offered }
})

const call = (id: string, name: string, params: unknown): Response.PartEncoded => ({
  type: "tool-call",
  id,
  name,
  params
})

const results = (prompt: Prompt.Prompt | undefined) =>
  (prompt?.content ?? []).flatMap((message) =>
    message.role === "tool" ? message.content.map(({ name, isFailure, result }) => ({ name, isFailure, result })) : []
  )

describe("with a language model", () => {
  it.effect("the model reads catalog, skill and file, and recovers from a failed call", () =>
    Effect.gen(function* () {
      const model = yield* scriptedModel(
        [call("1", "copilotkit_load_skill", { skill_name: "Release Notes" })],
        [
          call("2", "copilotkit_load_skill", { skill_name: "release-notes" }),
          call("3", "copilotkit_read_skill_file", { skill_name: "release-notes", path: "style.md" })
        ],
        [{ type: "text", text: "Done, briefly." }]
      )
      const answer = yield* Effect.gen(function* () {
        const chat = yield* Chat.fromPrompt([{ role: "system", content: yield* SkillToolkit.catalog }])
        yield* chat.generateText({ prompt: "Write the notes", toolkit: SkillToolkit.toolkit })
        yield* chat.generateText({ prompt: [], toolkit: SkillToolkit.toolkit })
        return yield* chat.generateText({ prompt: [], toolkit: SkillToolkit.toolkit })
      }).pipe(Effect.provide([model.layer, SkillToolkit.layer]))

      assert.strictEqual(answer.text, "Done, briefly.")
      assert.deepStrictEqual(model.offered[0], ["copilotkit_load_skill", "copilotkit_read_skill_file"])
      assert.include(JSON.stringify(model.prompts[0]), "host's instructions outrank skills")
      const [failed, loaded, read] = results(model.prompts[2])
      assert.strictEqual(failed?.isFailure, true)
      assert.deepInclude(failed?.result, { _tag: "UnknownSkill", available: ["release-notes"] })
      assert.deepStrictEqual(
        [loaded, read],
        [
          {
            name: "copilotkit_load_skill",
            isFailure: false,
            result: { name: "release-notes", text: "# Release notes\n", files: ["style.md"] }
          },
          {
            name: "copilotkit_read_skill_file",
            isFailure: false,
            result: { skill: "release-notes", path: "style.md", text: "Be brief." }
          }
        ]
      )
    }).pipe(withSkills())
  )

  it.effect("a streamed answer calls the tools too", () =>
    Effect.gen(function* () {
      const model = yield* scriptedModel([call("1", "copilotkit_load_skill", { skill_name: "release-notes" })])
      const parts = yield* LanguageModel.streamText({ prompt: "Write", toolkit: SkillToolkit.toolkit }).pipe(
        Stream.runCollect,
        Effect.provide([model.layer, SkillToolkit.layer])
      )
      const result = [...parts].find((part) => part.type === "tool-result")
      assert.deepInclude(result, { isFailure: false, name: "copilotkit_load_skill" })
    }).pipe(withSkills())
  )

  it.effect("every call of one invocation reads the snapshot it began with", () =>
    Effect.gen(function* () {
      const version = (text: string): Skills.SkillSources => ({ greeting: { files: { "SKILL.md": text } } })
      const script = yield* RegistryScript.RegistryScript
      yield* script.enqueue(
        RegistryScript.snapshot(Skills.response(version("old"), "r1")),
        RegistryScript.snapshot(Skills.response(version("new"), "r2"))
      )
      const load = call("1", "copilotkit_load_skill", { skill_name: "greeting" })
      const model = yield* scriptedModel([load], [load], [load])
      const turn = Effect.map(
        LanguageModel.generateText({ prompt: "Greet", toolkit: SkillToolkit.toolkit }),
        (response) => response.toolResults.map(({ result }) => ("text" in result ? result.text : result._tag))
      )
      const firstTurn = yield* Deferred.make<void>()
      const refreshed = yield* Deferred.make<void>()
      yield* Effect.gen(function* () {
        const invocation = yield* InvocationSnapshot.provide(
          Effect.all([turn, Deferred.succeed(firstTurn, undefined), Deferred.await(refreshed), turn])
        ).pipe(Effect.fork)
        yield* Deferred.await(firstTurn)
        assert.deepStrictEqual(yield* InvocationSnapshot.provide(turn), ["new"])
        yield* Deferred.succeed(refreshed, undefined)
        const [before, , , after] = yield* Fiber.join(invocation)
        assert.deepStrictEqual([before, after], [["old"], ["old"]])
      }).pipe(Effect.provide([model.layer, SkillToolkit.layer]))
    }).pipe(
      Effect.provide(
        SkillDelivery.layer({ container: "c", freshness: 0 }).pipe(Layer.provideMerge(RegistryScript.layer))
      )
    )
  )
})

describe("with an MCP server", () => {
  const server = McpServer.registerToolkit(SkillToolkit.toolkit).pipe(
    Effect.provide(SkillToolkit.layer),
    Effect.zipRight(McpServer.McpServer)
  )

  const readOnly = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false }

  const takes = (...names: ReadonlyArray<string>) => ({
    type: "object",
    required: names,
    properties: Object.fromEntries(
      names.map((name) => [
        name,
        {
          type: "string",
          description:
            name === "path"
              ? "The file's path, exactly as loading the skill lists it."
              : "The skill's name, exactly as the catalog lists it."
        }
      ])
    ),
    additionalProperties: false
  })

  it.effect("both tools are listed as reading only", () =>
    Effect.gen(function* () {
      const { tools } = yield* server
      assert.deepStrictEqual(
        tools.map(({ name, inputSchema, annotations }) => [name, inputSchema, { ...annotations }]),
        [
          ["copilotkit_load_skill", takes("skill_name"), readOnly],
          ["copilotkit_read_skill_file", takes("skill_name", "path"), readOnly]
        ]
      )
    }).pipe(withSkills(), Effect.provide(McpServer.McpServer.layer))
  )

  // McpServer has no failed result for a tool that returns its failures: the model tells it by the `_tag`.
  it.effect("a failed call gives the failure as structured content", () =>
    Effect.gen(function* () {
      const { callTool } = yield* server
      const result = yield* callTool({ name: "copilotkit_load_skill", arguments: { skill_name: "absent" } })
      assert.deepInclude(result.structuredContent, { _tag: "UnknownSkill", available: ["release-notes"] })
    }).pipe(withSkills(), Effect.provide(McpServer.McpServer.layer))
  )

  it.effect("a call gives the result as structured content", () =>
    Effect.gen(function* () {
      const { callTool } = yield* server
      const result = yield* callTool({ name: "copilotkit_load_skill", arguments: { skill_name: "release-notes" } })
      assert.deepStrictEqual(result.structuredContent, {
        name: "release-notes",
        text: "# Release notes\n",
        files: ["style.md"]
      })
    }).pipe(withSkills(), Effect.provide(McpServer.McpServer.layer))
  )
})
