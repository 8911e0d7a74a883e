/**
 * The JSON Schemas of this package, its Effect Schemas and the public JSON Schemas, where they are at hand, say the same of
 * every document.
 */
import { readdirSync, readFileSync } from "node:fs"
import { setImmediate } from "node:timers/promises"
import { afterEach, describe, expect, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import * as fc from "fast-check"
import * as JsonSchemaSet from "../../src/conformance/JsonSchemaSet.js"
import {
  Capabilities,
  CrossLanguageRun,
  Identity,
  ProtocolDocument,
  ProviderDescriptor,
  ProviderEvent,
  QuestionAdapterFixture,
  QuestionResponse,
  QuestionSet,
  ReplayFixture,
  RunCommand,
  RunEvent,
  RunResult,
  RunTerminal,
  RuntimeRequest,
  SemanticTool,
  StopReason,
  Usage,
  WorkspaceDiff,
  WorkspaceFileReference
} from "../../src/runner/index.js"
import * as Fixtures from "../support/Fixtures.js"
import * as JsonSchemaArbitrary from "../support/JsonSchemaArbitrary.js"
import * as PublicProtocol from "../support/PublicProtocol.js"
import * as Seed from "../support/Seed.js"

/** The Effect Schemas by the names of the JSON Schemas. */
const decoders: Readonly<Record<string, (value: unknown) => Effect.Effect<unknown, unknown>>> = {
  capabilities: ProtocolDocument.decode(Capabilities.Capabilities),
  command: ProtocolDocument.decode(RunCommand.RunCommand),
  "conformance-fixture": ProtocolDocument.decode(CrossLanguageRun.CrossLanguageInput),
  "conformance-output": ProtocolDocument.decode(CrossLanguageRun.CrossLanguageOutput),
  event: ProtocolDocument.decode(RunEvent.RunEvent),
  fixture: ProtocolDocument.decode(ReplayFixture.ReplayFixture),
  identity: ProtocolDocument.decode(Identity.Identity),
  "provider-descriptor": ProtocolDocument.decode(ProviderDescriptor.ProviderDescriptor),
  "provider-event": ProtocolDocument.decode(ProviderEvent.ProviderEvent),
  "question-adapter-fixture": ProtocolDocument.decode(QuestionAdapterFixture.QuestionAdapterFixture),
  "question-response": ProtocolDocument.decode(QuestionResponse.QuestionResponse),
  "question-set": ProtocolDocument.decode(QuestionSet.QuestionSet),
  request: ProtocolDocument.decode(RuntimeRequest.RuntimeRequest),
  result: ProtocolDocument.decode(RunResult.RunResult),
  "semantic-tool": ProtocolDocument.decode(SemanticTool.SemanticTool),
  "stop-reason": ProtocolDocument.decode(StopReason.StopReason),
  terminal: ProtocolDocument.decode(RunTerminal.RunTerminal),
  usage: ProtocolDocument.decode(Usage.Usage),
  "workspace-diff": ProtocolDocument.decode(WorkspaceDiff.WorkspaceDiff),
  "workspace-file-reference": ProtocolDocument.decode(WorkspaceFileReference.WorkspaceFileReference)
}

const filesIn = (directory: string) =>
  readdirSync(directory).map((name) => ({ path: name, bytes: new Uint8Array(readFileSync(`${directory}/${name}`)) }))

const schemasOf = (directory: string) => {
  const files = filesIn(directory)
  const parsed = files.map(({ bytes }): JsonSchemaArbitrary.JsonSchema => JSON.parse(new TextDecoder().decode(bytes)))
  return { set: Effect.runPromise(JsonSchemaSet.make(files)), documents: JsonSchemaArbitrary.make(parsed), parsed }
}

const own = schemasOf(`${Fixtures.directory}/runner/schemas`)
const published = PublicProtocol.present ? schemasOf(`${PublicProtocol.directory}/schemas`) : undefined

/** What each implementation says of a value; which of them there are depends on what is at hand. */
const verdicts = async (name: string, value: unknown): Promise<Readonly<Record<string, boolean>>> => {
  const id = JsonSchemaSet.idOf(name)
  const accepts = (set: JsonSchemaSet.JsonSchemaSet) => Effect.runSync(Effect.isSuccess(set.validate(id, value)))
  const decoded = Effect.runSyncExit(decoders[name]?.(value) ?? Effect.die("no model"))
  // What is decoded is the document itself, never a copy that lost something.
  if (Exit.isSuccess(decoded)) expect(decoded.value).toBe(value)
  const publicSet = await published?.set
  return {
    effectSchema: Exit.isSuccess(decoded),
    jsonSchema: accepts(await own.set),
    ...(publicSet?.ids.includes(id) ? { publicJsonSchema: accepts(publicSet) } : {})
  }
}

const tally = () => ({ accepted: 0, rejected: 0 })

/** Fails where they differ; else counts. */
const agree = async (name: string, value: unknown, counts: ReturnType<typeof tally>) => {
  const all = await verdicts(name, value)
  const accepted = all["jsonSchema"] === true
  expect(all).toEqual(Object.fromEntries(Object.keys(all).map((who) => [who, accepted])))
  counts[accepted ? "accepted" : "rejected"]++
}

/** Where documents of a schema come from: this package's text of it, and the public one. */
const sources = (name: string) =>
  [own, ...(published === undefined ? [] : [published])].filter(({ parsed }) =>
    parsed.some(({ $id }) => $id === JsonSchemaSet.idOf(name))
  )

const numRuns = 200

// No property waits for anything, and the test runner has to be heard now and then.
afterEach(() => setImmediate())

describe.each(Object.keys(decoders))("%s: JSON Schema, Effect Schema and public JSON Schema agree", (name) => {
  const id = JsonSchemaSet.idOf(name)

  it("on documents that are valid by construction, which all accept", async () => {
    const counts = tally()
    for (const { documents } of sources(name)) {
      await Seed.check([documents(id, "valid")], (value) => agree(name, value, counts), { numRuns })
    }
    expect(counts.rejected).toBe(0)
  })

  it("on documents with values at and across the bounds", async () => {
    const counts = tally()
    for (const { documents } of sources(name)) {
      await Seed.check([documents(id, "edges")], (value) => agree(name, value, counts), { numRuns })
    }
    expect(Math.min(counts.accepted, counts.rejected)).toBeGreaterThan(0)
  })

  it("on documents that were changed", async () => {
    const counts = tally()
    for (const { documents } of sources(name)) {
      const changed = JsonSchemaArbitrary.changed(documents(id, "valid"))
      await Seed.check([changed], (value) => agree(name, value, counts), { numRuns })
    }
    expect(Math.min(counts.accepted, counts.rejected)).toBeGreaterThan(0)
  })
})

/** Schemas by the constants that documents name them with. */
const byConstant: ReadonlyMap<string, string> = new Map([
  ["paperclip.prp.fixture.v1", "fixture"],
  ["paperclip.prp.identity.v1", "identity"],
  ["paperclip.prp.capabilities.v1", "capabilities"],
  ["paperclip.prp.command.v1", "command"],
  ["paperclip.prp.event.v1", "event"],
  ["paperclip.run_result.v1", "result"],
  ["paperclip.prp.terminal.v1", "terminal"],
  ["paperclip.prp.stop_reason.v1", "stop-reason"],
  ["paperclip.prp.semantic_tool.v1", "semantic-tool"],
  ["paperclip.question_set.v1", "question-set"],
  ["paperclip.question_response.v1", "question-response"],
  ["paperclip.runtime_request.v1", "request"],
  ["paperclip.runtime_request.v2", "request"],
  ["paperclip.interaction_request.v1", "request"],
  ["paperclip.runner.conformance.fixture.v1", "conformance-fixture"],
  ["paperclip.runner.conformance.output.v1", "conformance-output"]
])

/** Every part of a document that names a schema, itself included. */
const parts = (value: unknown): ReadonlyArray<readonly [name: string, part: unknown]> => {
  if (typeof value !== "object" || value === null) return []
  const name = byConstant.get(Reflect.get(value, "schema") ?? Reflect.get(value, "schemaVersion"))
  return [...(name === undefined ? [] : [[name, value] as const]), ...Object.values(value).flatMap(parts)]
}

describe.skipIf(!PublicProtocol.present)(`the public documents${PublicProtocol.note}`, () => {
  const found = PublicProtocol.present
    ? PublicProtocol.fixtures().flatMap(({ path }) => parts(JSON.parse(PublicProtocol.read(path))))
    : []

  it("and every part of them that names a schema get the same verdict", async () => {
    const counts = tally()
    for (const [name, part] of found) await agree(name, part, counts)
    // The one of a later version.
    expect(counts.rejected).toBe(1)
    expect(counts.accepted).toBeGreaterThan(80)
    expect([...new Set(found.map(([name]) => name))].sort()).toEqual([
      "capabilities",
      "command",
      "conformance-fixture",
      "conformance-output",
      "event",
      "fixture",
      "identity",
      "request",
      "result",
      "terminal"
    ])
  })

  it("get the same verdict when they are changed", async () => {
    const counts = tally()
    const changed = fc
      .constantFrom(...found)
      .chain(([name, part]) => JsonSchemaArbitrary.changed(fc.constant(part)).map((value) => [name, value] as const))
    await Seed.check([changed], ([name, value]) => agree(name, value, counts), { numRuns: 10 * numRuns })
    expect(Math.min(counts.accepted, counts.rejected)).toBeGreaterThan(0)
  })
})
