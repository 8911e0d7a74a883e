import { describe, expect, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as fc from "fast-check"
import { JsonPointer, ProtocolDocument, ResultNormalisation, RunResult } from "../../src/runner/index.js"
import * as Documents from "../support/RunDocuments.js"
import { check } from "../support/Seed.js"

const { normalise } = ResultNormalisation

const resultOf = (more: object): object => ({ ...Documents.result, ...more })

/** What came of the members that were put into a result, with what was reported as [path, rule or reason]. */
const outcome = (more: object) => {
  const given = resultOf(more)
  const { changes, rejected, value } = normalise(given)
  const found = value as Record<string, unknown>
  return {
    members: Object.fromEntries(Object.keys(more).map((name) => [name, found[name]])),
    changes: changes.map(({ path, rule }) => [path, rule]),
    rejected: rejected.map(({ path, reason }) => [path, reason])
  }
}

const untouched = (more: object) => ({ members: more, changes: [], rejected: [] })

const without = (name: string) =>
  Object.fromEntries(Object.entries(Documents.result).filter(([member]) => member !== name))

const check1 = { commandOrCheck: "make test", status: "passed" }
const notRun = { commandOrCheck: "make test", status: "not_run" }

/** A check after the rules, and which of them changed it. */
const verification = (item: object) => {
  const { changes, members } = outcome({ verification: [item] })
  const [found] = members["verification"] as ReadonlyArray<unknown>
  return [found, changes.map(([path, rule]) => `${path?.replace("/verification/0/", "")} ${rule}`)]
}

/** A request after the rules, or the reason why it is left out, and what was changed. */
const attention = (request: unknown) => {
  const { changes, members, rejected } = outcome({ attentionRequests: [request] })
  const [found] = members["attentionRequests"] as ReadonlyArray<unknown>
  return [
    found ?? rejected[0]?.[1],
    changes.map(([path, rule]) => `${path?.replace("/attentionRequests/0/", "")} ${rule}`)
  ]
}

describe("the name of the schema", () => {
  it("one that is missing, or that of the tool that reports results, becomes the schema's", () => {
    const tools = ["paperclip_finish", "paperclip_paperclip_finish", "paperclip_finish.v1"]
    for (const given of [without("schema"), ...tools.map((schema) => resultOf({ schema }))]) {
      const { changes, rejected, value } = normalise(given)
      expect(value).toEqual(Documents.result)
      expect([changes, rejected]).toEqual([[{ path: "/schema", rule: "schema_name" }], []])
    }
  })

  it("any other stays, for the schema to refuse", () => {
    for (const schema of ["paperclip.run_result.v2", "constructor", null, 1]) {
      expect(outcome({ schema })).toEqual(untouched({ schema }))
    }
  })
})

describe("the disposition and the criteria", () => {
  it("complete and completed are done", () => {
    for (const reportedWorkDisposition of ["complete", "completed"]) {
      expect(outcome({ reportedWorkDisposition })).toEqual({
        members: { reportedWorkDisposition: "done" },
        changes: [["/reportedWorkDisposition", "disposition_name"]],
        rejected: []
      })
    }
    expect(outcome({ reportedWorkDisposition: "Done" })).toEqual(untouched({ reportedWorkDisposition: "Done" }))
  })

  it("words for a criterion's status become the vocabulary's; others stay", () => {
    const claim = (statuses: ReadonlyArray<string>) => ({
      completionClaim: {
        ...Documents.result.completionClaim,
        criteria: statuses.map((status) => ({ criterionId: "c", status, evidenceRefs: [] }))
      }
    })
    const words = [
      "pass",
      "passed",
      "complete",
      "completed",
      "fail",
      "failed",
      "incomplete",
      "satisfied",
      "unknown",
      "maybe"
    ]
    const becomes = [...Array(4).fill("satisfied"), ...Array(3).fill("not_satisfied"), "satisfied", "unknown", "maybe"]
    const { changes, members, rejected } = outcome(claim(words))
    expect(members).toEqual(claim(becomes))
    expect(changes).toEqual(
      [0, 1, 2, 3, 4, 5, 6].map((index) => [`/completionClaim/criteria/${index}/status`, "criterion_status_name"])
    )
    expect(rejected).toEqual([])
  })
})

describe("lists", () => {
  it("attention requests and artifacts that are missing are none; no other list is added", () => {
    expect(normalise(without("attentionRequests"))).toMatchObject({
      value: Documents.result,
      changes: [{ path: "/attentionRequests", rule: "attention_requests_missing" }]
    })
    expect(normalise(without("artifacts"))).toMatchObject({
      value: Documents.result,
      changes: [{ path: "/artifacts", rule: "artifacts_missing" }]
    })
    expect(normalise(without("evidence")).changes).toEqual([])
    expect(outcome({ artifacts: null })).toEqual(untouched({ artifacts: null }))
  })
})

describe("verification", () => {
  it("a check is named by its command, or else by its place; what was there stays", () => {
    expect(verification({ ...check1, commandOrCheck: undefined, command: "make" })).toEqual([
      { ...check1, commandOrCheck: "make", command: "make" },
      ["commandOrCheck check_from_command"]
    ])
    expect(verification({ status: "passed", command: "" })).toEqual([
      { status: "passed", command: "", commandOrCheck: "verification-1" },
      ["commandOrCheck check_numbered"]
    ])
    expect(outcome({ verification: [check1, { status: "passed" }] }).members).toEqual({
      verification: [check1, { status: "passed", commandOrCheck: "verification-2" }]
    })
    expect(verification({ ...check1, command: "make" })).toEqual([{ ...check1, command: "make" }, []])
  })

  it("a detail that is missing is the result", () => {
    expect(verification({ ...check1, result: "3 tests" })).toEqual([
      { ...check1, result: "3 tests", detail: "3 tests" },
      ["detail detail_from_result"]
    ])
    expect(verification({ ...check1, detail: "a", result: "b" })).toEqual([{ ...check1, detail: "a", result: "b" }, []])
    expect(verification({ ...check1, result: 3 })).toEqual([{ ...check1, result: 3 }, []])
  })

  it("words for a status become the vocabulary's, and all others not_run", () => {
    for (const status of ["pass", "success", "succeeded"]) {
      expect(verification({ ...check1, status })).toEqual([check1, ["status verification_status_name"]])
    }
    expect(verification({ ...check1, status: "fail" })).toEqual([
      { ...check1, status: "failed" },
      ["status verification_status_name"]
    ])
    for (const status of ["passed", "failed"])
      expect(verification({ ...check1, status })).toEqual([{ ...check1, status }, []])
    for (const status of ["skipped", "constructor", undefined, null, 1]) {
      expect(verification({ ...check1, status })).toEqual([
        { ...notRun, reasonCode: "other" },
        ["status verification_status_unknown", "reasonCode reason_guessed"]
      ])
    }
  })

  it("a check that failed for a known reason other than 'other' did not run", () => {
    const item = { ...check1, status: "fail", reasonCode: "tool_unavailable" }
    expect(verification(item)).toEqual([
      { ...item, status: "not_run" },
      ["status verification_status_name", "status failure_not_run"]
    ])
    for (const reasonCode of ["other", "unknown_code"]) {
      expect(verification({ ...check1, status: "failed", reasonCode })).toEqual([
        { ...check1, status: "failed", reasonCode },
        []
      ])
    }
  })

  const guesses: ReadonlyArray<readonly [string, string]> = [
    ["The token BUDGET was spent; the API key is missing", "budget_exhausted"],
    ["no API key, permission denied", "credential_missing"],
    ["Permission denied by policy", "permission_denied"],
    ["restricted by policy: no external service", "policy_restricted"],
    ["the network is unreachable, so no dependency could be installed", "external_service_unavailable"],
    ["a dependency of the tool is not there", "dependency_missing"],
    ["command not found in this environment", "tool_unavailable"],
    ["no container to run in", "environment_unavailable"],
    ["I had no time", "other"]
  ]
  for (const [detail, reasonCode] of guesses) {
    it(`a check that did not run without a known reason gets one by its words, the first in order: ${reasonCode}`, () => {
      const expected = [{ ...notRun, detail, reasonCode }, ["reasonCode reason_guessed"]]
      expect(verification({ ...notRun, detail })).toEqual(expected)
      expect(verification({ ...notRun, detail, reasonCode: "unknown_code" })).toEqual(expected)
    })
  }

  it("a reason is looked for in an unknown code and an unknown status too; a known one stays", () => {
    expect(verification({ ...notRun, reasonCode: "no_quota" })[0]).toEqual({
      ...notRun,
      reasonCode: "budget_exhausted"
    })
    expect(verification({ ...notRun, status: "permission denied" })[0]).toEqual({
      ...notRun,
      reasonCode: "permission_denied"
    })
    const known = { ...notRun, detail: "the budget is gone", reasonCode: "other" }
    expect(verification(known)).toEqual([known, []])
  })

  it("what is no check stays, for the schema to refuse", () => {
    for (const verification of [null, "none", {}, [null, "x", [check1]]]) {
      expect(outcome({ verification })).toEqual(untouched({ verification }))
    }
  })
})

describe("attention", () => {
  const summary = "Look at this"

  it("a request without a kind or a summary is left out as malformed", () => {
    for (const request of [
      null,
      "x",
      [],
      {},
      { kind: "review" },
      { summary },
      { kind: "", summary },
      { kind: 1, summary },
      { kind: "review", summary: "" }
    ]) {
      expect(attention(request)).toEqual(["attention_request_malformed", []])
    }
  })

  it("a request without a kind has that of the capability it asks for", () => {
    expect(attention({ requestedCapability: "approval", summary, ownerClass: "human" })).toEqual([
      { requestedCapability: "approval", summary, ownerClass: "human", kind: "approval" },
      ["kind attention_kind_from_capability"]
    ])
  })

  it("today's kinds are kept with an owner of the vocabulary, members that nobody knows included", () => {
    for (const kind of ["review", "human_input", "approval", "credential", "external_action", "agent_handoff"]) {
      for (const ownerClass of ["human", "external_system"]) {
        const request = { kind, summary, ownerClass, urgency: 1 }
        expect(attention(request)).toEqual([request, []])
      }
      const handed = { kind, summary, ownerClass: "agent", targetAgentId: "agent-1" }
      expect(attention(handed)).toEqual([handed, []])
      expect(attention({ kind, summary, ownerClass: "agent" })).toEqual(["attention_target_missing", []])
      expect(attention({ kind, summary, ownerClass: "manager" })).toEqual(["attention_owner_invalid", []])
    }
  })

  it("a review without an owner is a human's, an external action an external system's; of the others an owner is asked for", () => {
    expect(attention({ kind: "review", summary })).toEqual([
      { kind: "review", summary, ownerClass: "human" },
      ["ownerClass attention_owner_assumed"]
    ])
    expect(attention({ kind: "external_action", summary })).toEqual([
      { kind: "external_action", summary, ownerClass: "external_system" },
      ["ownerClass attention_owner_assumed"]
    ])
    for (const kind of ["human_input", "approval", "credential", "agent_handoff"]) {
      expect(attention({ kind, summary })).toEqual(["attention_owner_invalid", []])
    }
  })

  it("earlier kinds become today's", () => {
    const mapped = ["kind attention_kind_mapped", "ownerClass attention_owner_assumed"]
    expect(attention({ kind: "credential_grant", summary })).toEqual([
      { kind: "credential", summary, ownerClass: "human" },
      mapped
    ])
    expect(attention({ kind: "governed_approval", summary })).toEqual([
      { kind: "approval", summary, ownerClass: "human" },
      mapped
    ])
    expect(attention({ kind: "subjective_decision", summary })).toEqual([
      { kind: "human_input", summary, ownerClass: "human" },
      mapped
    ])
    expect(attention({ kind: "credential_grant", summary, ownerClass: "external_system" })).toEqual([
      { kind: "credential", summary, ownerClass: "external_system" },
      ["kind attention_kind_mapped"]
    ])
    const targetAgentId = "agent-1"
    expect(attention({ kind: "domain_expertise", summary, targetAgentId })).toEqual([
      { kind: "agent_handoff", summary, targetAgentId, ownerClass: "agent" },
      mapped
    ])
    expect(attention({ kind: "domain_expertise", summary, ownerClass: "human" })).toEqual([
      "attention_target_missing",
      []
    ])
  })

  it("any other kind is left out", () => {
    for (const kind of ["wish", "constructor", "Review"]) {
      expect(attention({ kind, summary, ownerClass: "human" })).toEqual(["attention_kind_unknown", []])
    }
  })

  it("what the environment did not allow explains the first check that did not run, and gives it its reason", () => {
    const constraint = { kind: "environment_constraint", summary: "There is no database" }
    const review = { kind: "review", summary, ownerClass: "human" }
    const verification = [check1, { ...notRun, detail: "skipped" }, { ...notRun, reasonCode: "other" }]
    expect(
      outcome({ verification, attentionRequests: [constraint, review, { ...constraint, summary: "nor a key" }] })
    ).toEqual({
      members: {
        verification: [
          check1,
          { ...notRun, detail: "skipped\nThere is no database\nnor a key", reasonCode: "environment_unavailable" },
          { ...notRun, reasonCode: "other" }
        ],
        attentionRequests: [review]
      },
      changes: [
        ["/attentionRequests/0", "environment_constraint_folded"],
        ["/attentionRequests/2", "environment_constraint_folded"],
        ["/verification/1/detail", "environment_constraint_folded"],
        ["/verification/1/reasonCode", "reason_guessed"]
      ],
      rejected: []
    })
    expect(
      outcome({
        verification: [{ ...check1, status: "failed", reasonCode: "tool_unavailable" }],
        attentionRequests: [constraint]
      }).members
    ).toEqual({
      verification: [{ ...notRun, reasonCode: "tool_unavailable", detail: "There is no database" }],
      attentionRequests: []
    })
  })

  it("what the environment did not allow is reported where there is no such check", () => {
    const constraint = { requestedCapability: "environment_constraint", summary }
    expect(outcome({ verification: [check1], attentionRequests: [constraint] })).toEqual({
      members: { verification: [check1], attentionRequests: [] },
      changes: [["/attentionRequests/0/kind", "attention_kind_from_capability"]],
      rejected: [["/attentionRequests/0", "environment_constraint_unbound"]]
    })
  })
})

const word = fc.constantFrom(
  "pass",
  "passed",
  "failed",
  "fail",
  "completed",
  "incomplete",
  "not_run",
  "tool_unavailable",
  "other",
  "review",
  "approval",
  "environment_constraint",
  "domain_expertise",
  "credential_grant",
  "human",
  "agent",
  "",
  "the budget",
  "constructor",
  "paperclip_finish"
)
const loose: fc.Arbitrary<unknown> = fc.oneof(word, word, fc.jsonValue({ maxDepth: 1 }))
const looseRecord = (...names: ReadonlyArray<string>): fc.Arbitrary<unknown> =>
  fc.record(Object.fromEntries(names.map((name) => [name, loose])), { requiredKeys: [] })
const listOf = (item: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 9, arbitrary: fc.array(fc.oneof({ weight: 9, arbitrary: item }, loose), { maxLength: 4 }) }, loose)

/** What agents may write: the members that the rules are about with words that they know, other words and other values. */
const written: fc.Arbitrary<unknown> = fc.record(
  {
    schema: loose,
    reportedWorkDisposition: loose,
    summary: loose,
    completionClaim: fc.oneof(fc.record({ criteria: listOf(looseRecord("criterionId", "status")) }), loose),
    verification: listOf(looseRecord("commandOrCheck", "command", "status", "reasonCode", "detail", "result")),
    attentionRequests: listOf(looseRecord("kind", "requestedCapability", "summary", "ownerClass", "targetAgentId")),
    artifacts: loose,
    extra: fc.jsonValue(),
    ["__proto__"]: fc.jsonValue({ maxDepth: 1 })
  },
  { requiredKeys: [] }
)

const frozen = (value: unknown): unknown => {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen)
  return value
}

type Path = ReadonlyArray<string>

/** The places, as deep as they go, at which the two are not the same. */
const differences = (before: unknown, after: unknown, path: Path = []): ReadonlyArray<Path> => {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  const isHolder = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null
  if (!isHolder(before) || !isHolder(after) || Array.isArray(before) !== Array.isArray(after)) return [path]
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].flatMap((name) =>
    Object.hasOwn(before, name) && Object.hasOwn(after, name)
      ? differences(before[name], after[name], [...path, name])
      : [[...path, name]]
  )
}

describe("any value", () => {
  it("property: gets an answer, is itself never changed, and gets the same form twice", () =>
    check(
      [fc.oneof({ weight: 9, arbitrary: written }, fc.jsonValue())],
      (given) => {
        const before = JSON.stringify(given)
        const { value } = normalise(frozen(given))
        expect(JSON.stringify(given)).toBe(before)
        const again = normalise(value)
        expect(again.value).toBe(value)
        expect(again.changes).toEqual([])
        expect(again.rejected.filter(({ reason }) => reason !== "not_an_object")).toEqual([])
      },
      { numRuns: 2000 }
    ))

  it("property: what is reported is what differs, all of it and nothing else", () =>
    check(
      [written],
      (given) => {
        const { changes, rejected, value } = normalise(given)
        const folded = changes.filter(
          ({ path, rule }) => rule === "environment_constraint_folded" && path.startsWith("/att")
        )
        const gone = new Set([...rejected, ...folded].map(({ path }) => path))
        const requests = (given as { readonly attentionRequests?: unknown }).attentionRequests
        const indices = Array.isArray(requests)
          ? [...requests.keys()].filter((index) => !gone.has(`/attentionRequests/${index}`))
          : []
        // Without the requests that are said to be left out, at whose places the others stand in what was given.
        const kept = Array.isArray(requests)
          ? { ...(given as object), attentionRequests: indices.map((index) => requests[index]) }
          : given
        const differing = differences(kept, value).map(([name = "", index = "", ...rest]) =>
          JsonPointer.make(
            [name, name === "attentionRequests" && index !== "" ? `${indices[Number(index)]}` : index, ...rest].filter(
              (step) => step !== ""
            )
          )
        )
        const isGone = (path: string) => [...gone].some((other) => path === other || path.startsWith(`${other}/`))
        const reported = changes.map(({ path }) => path).filter((path) => !isGone(path))
        expect(new Set(reported)).toEqual(new Set(differing))
        if (changes.length + rejected.length === 0) expect(value).toBe(given)
      },
      { numRuns: 2000 }
    ))

  it("property: a report holds nothing of what agents wrote", () =>
    check([written], (given) => {
      const { changes, rejected } = normalise(given)
      for (const { path, rule } of changes) expect([path, rule].join(" ")).toMatch(/^(?:\/(?:[A-Za-z]+|\d+))+ [a-z_]+$/)
      for (const { path, reason } of rejected)
        expect([path, reason].join(" ")).toMatch(/^(?:\/attentionRequests\/\d+|\/) [a-z_]+$/)
    }))

  it("what is no object comes back as it is, and is reported", () => {
    for (const value of [null, undefined, "x", 1, [Documents.result]]) {
      expect(normalise(value)).toEqual({ value, changes: [], rejected: [{ path: "/", reason: "not_an_object" }] })
    }
  })

  it("property: a result in today's form comes back as it is, with nothing to report", () =>
    check([result], (given) => {
      const normalised = normalise(given)
      expect(normalised.value).toBe(given)
      expect([normalised.changes, normalised.rejected]).toEqual([[], []])
      Effect.runSync(ProtocolDocument.decode(RunResult.RunResult)(given))
    }))

  it("property: a result that satisfies its schema still does afterwards, whatever had to change", () => {
    let satisfied = 0
    return check(
      [written],
      (given) => {
        const whole = { ...Documents.result, ...(given as object), completionClaim: Documents.result.completionClaim }
        for (const candidate of [
          whole,
          { ...whole, schema: Documents.result.schema, summary: "s", artifacts: [], reportedWorkDisposition: "done" }
        ]) {
          const decode = ProtocolDocument.decode(RunResult.RunResult)
          if (Either.isLeft(Effect.runSync(Effect.either(decode(candidate))))) continue
          satisfied++
          Effect.runSync(decode(normalise(candidate).value))
        }
      },
      { numRuns: 3000 }
    ).then(() => expect(satisfied).toBeGreaterThan(50))
  })
})

const some = fc.string({ minLength: 1, maxLength: 10 })

/** Results that say everything as the contract says it today. */
const result = fc
  .record({
    verification: fc.array(
      fc.oneof(
        fc.record(
          { commandOrCheck: some, status: fc.constantFrom("passed", "failed"), detail: fc.string() },
          { requiredKeys: ["commandOrCheck", "status"] }
        ),
        fc.record({
          commandOrCheck: some,
          status: fc.constant("not_run"),
          reasonCode: fc.constantFrom("other", "budget_exhausted")
        }),
        fc.record({ commandOrCheck: some, status: fc.constant("failed"), reasonCode: fc.constant("other") })
      )
    ),
    attentionRequests: fc.array(
      fc.record({
        kind: fc.constantFrom("review", "approval", "agent_handoff"),
        summary: some,
        ownerClass: fc.constantFrom("human", "agent"),
        targetAgentId: some
      })
    ),
    criteria: fc.array(
      fc.record({
        criterionId: some,
        status: fc.constantFrom("satisfied", "not_satisfied", "unknown"),
        evidenceRefs: fc.array(fc.string())
      })
    ),
    unknown: fc.jsonValue()
  })
  .map(({ criteria, ...more }) =>
    resultOf({ ...more, completionClaim: { ...Documents.result.completionClaim, criteria } })
  )
