/**
 * The two tools through which a model reads skills, as a `Toolkit` of `@effect/ai`.
 *
 * @module
 */
import { Tool, Toolkit } from "@effect/ai"
import { Context, Effect, Schema } from "effect"
import * as InvocationSnapshot from "../delivery/InvocationSnapshot.js"
import * as SkillCatalog from "../delivery/SkillCatalog.js"

/** One text file of a skill. */
export const SkillFileText = Schema.Struct({
  skill: Schema.String,
  path: Schema.String,
  text: Schema.String
})
export type SkillFileText = typeof SkillFileText.Type

const parameters = {
  skill_name: Schema.String.annotations({ description: "The skill's name, exactly as the catalog lists it." }),
  path: Schema.String.annotations({ description: "The file's path, exactly as loading the skill lists it." })
}

/** Both tools only read a snapshot that never changes; an MCP client may run them without asking. */
const annotations = Context.empty().pipe(
  Context.add(Tool.Readonly, true),
  Context.add(Tool.Destructive, false),
  Context.add(Tool.Idempotent, true),
  Context.add(Tool.OpenWorld, false)
)

/**
 * The toolkit under a prefix of your own, with its handlers and the catalog text that names its tools.
 *
 * - `toolkit`: `<prefix>load_skill(skill_name)` and `<prefix>read_skill_file(skill_name, path)`. Prefix and names together
 *   have to be a name that the model's provider takes: usually letters, digits, `_` and `-`, at most 64.
 * - `layer`: the handlers. It needs nothing, so a runtime builds it once.
 * - `catalog`: the catalog text for the model's instructions.
 *
 * The tools read the `InvocationSnapshot` of whoever runs the model, at each call: provide it around the invocation
 * (`InvocationSnapshot.provide`) and every call of one invocation reads one snapshot. (`McpServer.toolkit` registers tools
 * once: there the snapshot is the one of the registration.) A failure (`UnknownSkill`, `UnlistedPath`, `BinaryFile`) goes
 * back to the model as a failed tool result and does not fail the invocation.
 *
 * @example
 * ```ts
 * import { LanguageModel } from "@effect/ai"
 * import { Effect } from "effect"
 * import { InvocationSnapshot } from "effect-agent-contracts/delivery"
 * import { SkillToolkit } from "effect-agent-contracts/toolkit"
 *
 * const skills = SkillToolkit.make({ prefix: "acme_" })
 *
 * export const answer = (question: string) =>
 *   Effect.gen(function* () {
 *     const system = yield* skills.catalog
 *     return yield* LanguageModel.generateText({
 *       prompt: [
 *         { role: "system", content: system },
 *         { role: "user", content: question }
 *       ],
 *       toolkit: skills.toolkit
 *     })
 *   }).pipe(InvocationSnapshot.provide, Effect.provide(skills.layer))
 * ```
 */
export const make = <const Prefix extends string = SkillCatalog.DefaultPrefix>(options?: {
  readonly prefix?: Prefix
}) => {
  // Without the option `Prefix` is inferred as its default.
  const prefix = (options?.prefix ?? SkillCatalog.defaultPrefix) as Prefix
  const names = SkillCatalog.toolNames(prefix)

  const loadSkill = Tool.make(names.load, {
    description:
      "Loads a skill by its exact name: returns the text of its SKILL.md and the paths of its other text files.",
    parameters: { skill_name: parameters.skill_name },
    success: SkillCatalog.LoadedSkill,
    failure: SkillCatalog.UnknownSkill,
    failureMode: "return",
    dependencies: [InvocationSnapshot.InvocationSnapshot]
  }).annotateContext(annotations)

  const readSkillFile = Tool.make(names.read, {
    description: "Reads one text file of a skill by its exact path.",
    parameters,
    success: SkillFileText,
    failure: Schema.Union(SkillCatalog.UnknownSkill, SkillCatalog.UnlistedPath, SkillCatalog.BinaryFile),
    failureMode: "return",
    dependencies: [InvocationSnapshot.InvocationSnapshot]
  }).annotateContext(annotations)

  const toolkit = Toolkit.make(loadSkill, readSkillFile)

  const load = ({ skill_name }: Tool.Parameters<typeof loadSkill>) =>
    Effect.flatMap(InvocationSnapshot.InvocationSnapshot, (snapshot) => SkillCatalog.load(snapshot, skill_name))

  const read = ({ skill_name, path }: Tool.Parameters<typeof readSkillFile>) =>
    Effect.flatMap(InvocationSnapshot.InvocationSnapshot, (snapshot) =>
      Effect.map(SkillCatalog.read(snapshot, skill_name, path), (text) => ({ skill: skill_name, path, text }))
    )

  // A computed key of a generic type widens to `string`, so the compiler has to be told which key holds which handler.
  const handlers = { [names.load]: load, [names.read]: read } as unknown as Toolkit.HandlersFrom<
    Toolkit.Tools<typeof toolkit>
  >

  return {
    toolkit,
    layer: toolkit.toLayer(handlers),
    catalog: Effect.map(InvocationSnapshot.InvocationSnapshot, (snapshot) => SkillCatalog.text(snapshot, { prefix }))
  }
}

const withDefaultPrefix = make()

/** The toolkit under the default prefix: `copilotkit_load_skill` and `copilotkit_read_skill_file`. */
export const toolkit = withDefaultPrefix.toolkit
/** The handlers of `toolkit`. */
export const layer = withDefaultPrefix.layer
/** The catalog text that names the tools of `toolkit`. */
export const catalog = withDefaultPrefix.catalog
