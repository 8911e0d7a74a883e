/**
 * What agents write for a result, brought to the form of `paperclip.run_result.v1` before it is held to its schema (facts 8).
 *
 * @module
 */
import { Predicate, pipe } from "effect"
import * as JsonPointer from "./JsonPointer.js"
import type { NotRunReason, OwnerClass } from "./RunResult.js"

/**
 * How a member was changed:
 *
 * - `schema_name`: a missing name, or one of the tool that results are reported with, became that of the schema
 * - `disposition_name`, `criterion_status_name`, `verification_status_name`: another word for one of the vocabulary's
 * - `verification_status_unknown`: a word that says nothing became `not_run`
 * - `attention_requests_missing`, `artifacts_missing`: an empty list was added
 * - `check_from_command`, `check_numbered`: a check got its name from `command`, or from its place
 * - `detail_from_result`: a check got its detail from `result`
 * - `failure_not_run`: a check that failed for a reason outside the work did not run
 * - `reason_guessed`: a check that did not run got a reason code from words in its own texts
 * - `environment_constraint_folded`: a request about the environment became part of the detail of the first check that did not run
 * - `attention_kind_from_capability`: a request got its kind from `requestedCapability`
 * - `attention_kind_mapped`: an earlier kind became today's
 * - `attention_owner_assumed`: a request got the owner that its kind implies
 */
export type Rule =
  | "schema_name"
  | "disposition_name"
  | "criterion_status_name"
  | "attention_requests_missing"
  | "artifacts_missing"
  | "check_from_command"
  | "check_numbered"
  | "detail_from_result"
  | "verification_status_name"
  | "verification_status_unknown"
  | "failure_not_run"
  | "reason_guessed"
  | "environment_constraint_folded"
  | "attention_kind_from_capability"
  | "attention_kind_mapped"
  | "attention_owner_assumed"

/**
 * Why something was left out or not looked at:
 *
 * - `not_an_object`: the whole value, which comes back as it is
 * - `attention_request_malformed`: no object, or without a kind or a summary
 * - `environment_constraint_unbound`: there is no check that did not run
 * - `attention_kind_unknown`: neither one of today's kinds nor an earlier one
 * - `attention_owner_invalid`: no owner, or none of the vocabulary
 * - `attention_target_missing`: an agent is to act, but which one is not said
 */
export type Reason =
  | "not_an_object"
  | "attention_request_malformed"
  | "environment_constraint_unbound"
  | "attention_kind_unknown"
  | "attention_owner_invalid"
  | "attention_target_missing"

/** A change to the value at a JSON pointer into the document that was given. */
export interface Change {
  readonly path: string
  readonly rule: Rule
}

/** A piece at a JSON pointer into the document that was given, and why it is not in what came of it. */
export interface Rejection {
  readonly path: string
  readonly reason: Reason
}

export interface Normalised {
  /** The very value that was given, if nothing had to be changed. */
  readonly value: unknown
  readonly changes: ReadonlyArray<Change>
  readonly rejected: ReadonlyArray<Rejection>
}

type Members = Readonly<Record<string, unknown>>
type Path = ReadonlyArray<PropertyKey>

/** What is found on the way. */
class Findings {
  readonly changes: Array<Change> = []
  readonly rejected: Array<Rejection> = []

  change(rule: Rule, path: Path): void {
    this.changes.push({ path: JsonPointer.make(path), rule })
  }

  reject(reason: Reason, path: Path): void {
    this.rejected.push({ path: JsonPointer.make(path), reason })
  }
}

const own = (members: Members, name: string): unknown => (Object.hasOwn(members, name) ? members[name] : undefined)

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""

/** Another word for a member's value, if there is one. */
const renamed = (
  members: Members,
  name: string,
  words: ReadonlyMap<unknown, string>,
  rule: Rule,
  path: Path,
  findings: Findings
): Members => {
  const word = words.get(own(members, name))
  if (word === undefined) return members
  findings.change(rule, [...path, name])
  return { ...members, [name]: word }
}

/** The items that are objects, each through a step; the array itself where no step changed any. */
const eachItem = (
  members: Members,
  name: string,
  step: (item: Members, path: Path) => Members,
  path: Path = []
): Members => {
  const items = own(members, name)
  if (!Array.isArray(items)) return members
  const next = items.map((item, index) => (Predicate.isRecord(item) ? step(item, [...path, name, index]) : item))
  return next.every((item, index) => item === items[index]) ? members : { ...members, [name]: next }
}

// ---------------------------------------------------------------------------------------------------------------------
// Names and lists
// ---------------------------------------------------------------------------------------------------------------------

const schemaNames = new Map<unknown, string>(
  [undefined, "paperclip_finish", "paperclip_paperclip_finish", "paperclip_finish.v1"].map((name) => [
    name,
    "paperclip.run_result.v1"
  ])
)

const dispositions = new Map<unknown, string>([
  ["complete", "done"],
  ["completed", "done"]
])

const criterionStatuses = new Map<unknown, string>([
  ["pass", "satisfied"],
  ["passed", "satisfied"],
  ["complete", "satisfied"],
  ["completed", "satisfied"],
  ["fail", "not_satisfied"],
  ["failed", "not_satisfied"],
  ["incomplete", "not_satisfied"]
])

const withCriteria = (result: Members, findings: Findings): Members => {
  const claim = own(result, "completionClaim")
  if (!Predicate.isRecord(claim)) return result
  const next = eachItem(
    claim,
    "criteria",
    (criterion, path) => renamed(criterion, "status", criterionStatuses, "criterion_status_name", path, findings),
    ["completionClaim"]
  )
  return next === claim ? result : { ...result, completionClaim: next }
}

const withList = (result: Members, name: string, rule: Rule, findings: Findings): Members => {
  if (own(result, name) !== undefined) return result
  findings.change(rule, [name])
  return { ...result, [name]: [] }
}

// ---------------------------------------------------------------------------------------------------------------------
// Verification
// ---------------------------------------------------------------------------------------------------------------------

const verificationStatuses = new Map<unknown, string>([
  ["pass", "passed"],
  ["success", "passed"],
  ["succeeded", "passed"],
  ["fail", "failed"]
])

const withCheck = (check: Members, path: Path, findings: Findings): Members => {
  if (isText(own(check, "commandOrCheck"))) return check
  const command = own(check, "command")
  findings.change(isText(command) ? "check_from_command" : "check_numbered", [...path, "commandOrCheck"])
  return { ...check, commandOrCheck: isText(command) ? command : `verification-${Number(path.at(-1)) + 1}` }
}

const withDetail = (check: Members, path: Path, findings: Findings): Members => {
  const result = own(check, "result")
  if (typeof own(check, "detail") === "string" || typeof result !== "string") return check
  findings.change("detail_from_result", [...path, "detail"])
  return { ...check, detail: result }
}

/** Why a check did not run, in the order in which the words are looked for (facts 8); which words they are is ours. */
const reasonWords: ReadonlyArray<readonly [NotRunReason, RegExp]> = [
  ["budget_exhausted", /budget|quota|spending|token limit/i],
  ["credential_missing", /credential|api key|access token|password|log ?in|unauthenticated|unauthorized/i],
  ["permission_denied", /permission|denied|forbidden|not allowed/i],
  ["policy_restricted", /policy|policies|restricted|prohibited/i],
  ["external_service_unavailable", /external|service|network|unreachable|upstream/i],
  ["dependency_missing", /dependenc|package|module|librar/i],
  ["tool_unavailable", /tool|command not found|executable|not installed/i],
  ["environment_unavailable", /environment|container|sandbox|database/i]
]

const reasons = new Set<unknown>([...reasonWords.map(([reason]) => reason), "other" satisfies NotRunReason])

const isOutsideReason = (reason: unknown) => reason !== "other" && reasons.has(reason)

const withStatus = (check: Members, path: Path, findings: Findings): Members => {
  const named = renamed(check, "status", verificationStatuses, "verification_status_name", path, findings)
  const status = own(named, "status")
  const isFailure = status === "failed" && isOutsideReason(own(named, "reasonCode"))
  if (!isFailure && (status === "passed" || status === "failed" || status === "not_run")) return named
  findings.change(isFailure ? "failure_not_run" : "verification_status_unknown", [...path, "status"])
  return { ...named, status: "not_run" }
}

/** `said` is the check as it was reported, whose status may say more than `not_run` does. */
const withReason = (check: Members, said: Members, path: Path, findings: Findings): Members => {
  const reasonCode = own(check, "reasonCode")
  if (own(check, "status") !== "not_run" || reasons.has(reasonCode)) return check
  const texts = [reasonCode, own(said, "status"), own(check, "detail")].filter(Predicate.isString).join("\n")
  const [reason] = reasonWords.find(([, words]) => words.test(texts)) ?? ["other" satisfies NotRunReason]
  findings.change("reason_guessed", [...path, "reasonCode"])
  return { ...check, reasonCode: reason }
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention
// ---------------------------------------------------------------------------------------------------------------------

/** Today's kind for a kind, and who is to act where the request does not say it. */
interface Kind {
  readonly kind: string
  readonly owner?: OwnerClass
  /** Only where it says which agent. */
  readonly needsTarget?: true
}

const kinds = new Map<unknown, Kind>([
  ["review", { kind: "review", owner: "human" }],
  ["human_input", { kind: "human_input" }],
  ["approval", { kind: "approval" }],
  ["credential", { kind: "credential" }],
  ["external_action", { kind: "external_action", owner: "external_system" }],
  ["agent_handoff", { kind: "agent_handoff" }],
  ["credential_grant", { kind: "credential", owner: "human" }],
  ["governed_approval", { kind: "approval", owner: "human" }],
  ["subjective_decision", { kind: "human_input", owner: "human" }],
  ["domain_expertise", { kind: "agent_handoff", owner: "agent", needsTarget: true }]
])

const owners = new Set<unknown>(["human", "agent", "external_system"] satisfies ReadonlyArray<OwnerClass>)

/** A request of today's kinds, or nothing where it is left out. */
const withKind = (request: Members, path: Path, findings: Findings): Members | undefined => {
  const known = kinds.get(own(request, "kind"))
  if (known === undefined) return void findings.reject("attention_kind_unknown", path)
  const owner = own(request, "ownerClass") ?? known.owner
  if (!owners.has(owner)) return void findings.reject("attention_owner_invalid", path)
  if ((known.needsTarget || owner === "agent") && !isText(own(request, "targetAgentId"))) {
    return void findings.reject("attention_target_missing", path)
  }
  let next = request
  if (known.kind !== own(request, "kind")) {
    findings.change("attention_kind_mapped", [...path, "kind"])
    next = { ...next, kind: known.kind }
  }
  if (owner !== own(request, "ownerClass")) {
    findings.change("attention_owner_assumed", [...path, "ownerClass"])
    next = { ...next, ownerClass: owner }
  }
  return next
}

const withCapability = (request: Members, path: Path, findings: Findings): Members => {
  const capability = own(request, "requestedCapability")
  if (isText(own(request, "kind")) || !isText(capability)) return request
  findings.change("attention_kind_from_capability", [...path, "kind"])
  return { ...request, kind: capability }
}

interface Constraint {
  readonly summary: string
  readonly path: Path
}

/** What the environment did not allow explains the first check that did not run. */
const withConstraints = (result: Members, constraints: ReadonlyArray<Constraint>, findings: Findings): Members => {
  if (constraints.length === 0) return result
  const checks = own(result, "verification")
  const isOpen = (check: unknown) =>
    Predicate.isRecord(check) &&
    own(check, "status") === "not_run" &&
    (own(check, "detail") === undefined || typeof own(check, "detail") === "string")
  const position = Array.isArray(checks) ? checks.findIndex(isOpen) : -1
  if (!Array.isArray(checks) || position < 0) {
    for (const { path } of constraints) findings.reject("environment_constraint_unbound", path)
    return result
  }
  for (const { path } of constraints) findings.change("environment_constraint_folded", path)
  findings.change("environment_constraint_folded", ["verification", position, "detail"])
  const said = own(checks[position], "detail")
  const detail = [...(isText(said) ? [said] : []), ...constraints.map(({ summary }) => summary)].join("\n")
  return { ...result, verification: checks.with(position, { ...checks[position], detail }) }
}

const withAttention = (result: Members, findings: Findings): Members => {
  const requests = own(result, "attentionRequests")
  if (!Array.isArray(requests)) return result
  const constraints: Array<Constraint> = []
  const kept = requests.flatMap((request, index) => {
    const path = ["attentionRequests", index]
    const named = Predicate.isRecord(request) ? withCapability(request, path, findings) : {}
    const summary = own(named, "summary")
    if (!isText(own(named, "kind")) || !isText(summary)) {
      findings.reject("attention_request_malformed", path)
      return []
    }
    if (own(named, "kind") === "environment_constraint") {
      constraints.push({ summary, path })
      return []
    }
    const known = withKind(named, path, findings)
    return known === undefined ? [] : [known]
  })
  const isSame = kept.length === requests.length && kept.every((request, index) => request === requests[index])
  return withConstraints(isSame ? result : { ...result, attentionRequests: kept }, constraints, findings)
}

// ---------------------------------------------------------------------------------------------------------------------
// All of it
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Brings a result to the form of its schema where the contract says how, and reports all that it did: every change with the rule,
 * everything left out with the reason, each with a JSON pointer into the value that was given. Never fails, and never changes what
 * it was given; once more changes nothing, as does a value in this form.
 *
 * Whatever the rules do not name stays as it is, members that the schema does not know too, so what comes back need not satisfy the
 * schema: decode it with `RunResult` after this. A value that satisfies the schema already may change all the same, where it says
 * something in another than today's way: a check that did not run gets a reason, a request without a kind is left out.
 *
 * @example
 * ```ts
 * import { ResultNormalisation } from "effect-agent-contracts/runner"
 *
 * const { changes, rejected } = ResultNormalisation.normalise({
 *   schema: "paperclip_finish",
 *   reportedWorkDisposition: "done",
 *   attentionRequests: [{ kind: "wish", summary: "A larger screen" }],
 *   artifacts: []
 * })
 *
 * console.log(changes, rejected)
 * // [{ path: "/schema", rule: "schema_name" }] [{ path: "/attentionRequests/0", reason: "attention_kind_unknown" }]
 * ```
 */
export const normalise = (value: unknown): Normalised => {
  const findings = new Findings()
  if (!Predicate.isRecord(value)) {
    findings.reject("not_an_object", [])
    return { value, changes: findings.changes, rejected: findings.rejected }
  }
  const said = own(value, "verification")
  const result = pipe(
    value,
    (result) => renamed(result, "schema", schemaNames, "schema_name", [], findings),
    (result) => renamed(result, "reportedWorkDisposition", dispositions, "disposition_name", [], findings),
    (result) => withCriteria(result, findings),
    (result) =>
      eachItem(result, "verification", (check, path) =>
        withStatus(withDetail(withCheck(check, path, findings), path, findings), path, findings)
      ),
    // Before the reasons: it is a reason that a constraint of the environment gives.
    (result) => withAttention(result, findings),
    (result) =>
      eachItem(result, "verification", (check, path) =>
        withReason(check, Array.isArray(said) ? said[Number(path.at(-1))] : check, path, findings)
      ),
    (result) => withList(result, "attentionRequests", "attention_requests_missing", findings),
    (result) => withList(result, "artifacts", "artifacts_missing", findings)
  )
  return { value: result, changes: findings.changes, rejected: findings.rejected }
}
