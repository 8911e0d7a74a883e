/**
 * A small model of the contract's Lifecycle section, written from its text and not from the service: pure functions over a
 * virtual clock. It says which acquires have ended and how, what was asked, and the status; nothing about fibers, scopes or
 * archives.
 */
import { createHash } from "node:crypto"
import type { DeliveryCode } from "../../src/delivery/DeliveryError.js"

/** A failure as callers and the status see it. */
export interface Failure {
  readonly code: DeliveryCode
  readonly retryable: boolean
}

/** What a registry published: to the lifecycle a snapshot is its identity. */
export interface Published {
  readonly revision: string
  readonly etag: string
}

/** What a registry says about one container. */
export type Answer =
  | { readonly snapshot: Published }
  /** An archive that does not verify. */
  | { readonly corrupt: Published }
  /** "You hold the current one", naming the held snapshot or one that differs in one of its two names. */
  | { readonly unchanged: "held" | "other revision" | "other etag" }
  | { readonly error: Failure }

/** How a request ends; times in milliseconds, `after` the request was made. */
export type Reply =
  /** One answer per container of the selection, of which the request gets those that it asks for. */
  | { readonly _tag: "Answers"; readonly after: number; readonly answers: ReadonlyArray<Answer> }
  /** The request as a whole fails. */
  | { readonly _tag: "Fails"; readonly after: number; readonly failure: Failure }
  /** The head of a 403 arrives; `refined` counts from then on, without it the body stalls for ever. */
  | {
      readonly _tag: "Denied"
      readonly after: number
      readonly refined?: { readonly after: number; readonly failure: Failure }
    }
  | { readonly _tag: "Hangs" }

/** A 403 says this much with its head alone. */
export const forbidden: Failure = { code: "AUTHORIZATION_FAILED", retryable: false }

const invalid: Failure = { code: "INVALID_SNAPSHOT", retryable: false }
const timedOut: Failure = { code: "TIMEOUT", retryable: true }

const transients: ReadonlyArray<DeliveryCode> = ["NETWORK_ERROR", "TIMEOUT", "INVALID_SNAPSHOT", "UNSUPPORTED_SERVER"]
/** `INVALID_CONFIG` from a server blocks as a denial does. */
const isDenial = ({ code }: Failure) => !transients.includes(code)

interface Container {
  readonly id: string
  readonly pin?: string
  /** `value` counts replacements: the same number is the same value, by reference. */
  readonly held?: Published & { readonly value: number }
  readonly checkedAt?: number
  /** Confirmed: blocks. */
  readonly denial?: Failure
  /** The last check's transient failure. */
  readonly trouble?: Failure
}

/** What was asked for one container. */
export interface Asked {
  readonly containerId: string
  readonly revision?: string
  readonly ifNoneMatch?: string
}

/** A check is one request; its number is the request's. */
interface Check {
  readonly asked: ReadonlyArray<Asked>
  readonly startedAt: number
  readonly reply: Reply
  /** The denial whose head has arrived. */
  readonly denied: boolean
  readonly running: boolean
}

/** What an acquire gave. */
export type Result =
  | { readonly revision: string; readonly etag: string; readonly skills: ReadonlyArray<string>; readonly value: string }
  | { readonly failure: Failure }
  | "interrupted"

/** An acquire waits for checks, by number, or has its result. */
interface Acquire {
  readonly waitsFor: ReadonlyArray<number>
  readonly result?: Result
}

export interface Settings {
  readonly containers: ReadonlyArray<{ readonly id: string; readonly pin?: string }>
  /** Whether the containers were given as a list: combined snapshot and status, batch requests. */
  readonly list: boolean
  readonly windowMs: number
  readonly timeoutMs: number
}

export interface Model {
  readonly settings: Settings
  readonly now: number
  readonly containers: ReadonlyArray<Container>
  readonly checks: ReadonlyArray<Check>
  readonly acquires: ReadonlyArray<Acquire>
}

export const initial = (settings: Settings): Model => ({
  settings,
  now: 0,
  containers: settings.containers,
  checks: [],
  acquires: []
})

/** Rules 2, 5, 6 and 7: inside the window of a successful check, unless a later check failed. */
const isFresh = ({ now, settings }: Model, { checkedAt, denial, trouble }: Container) =>
  checkedAt !== undefined &&
  denial === undefined &&
  trouble === undefined &&
  now - checkedAt >= 0 &&
  now - checkedAt < settings.windowMs

const covers = (check: Check, { id }: Container) =>
  check.running && check.asked.some(({ containerId }) => containerId === id)

/** Rules 2, 3, 8, 11 and 12: joins the checks that run, and asks for the rest of what needs one in one request. */
export const acquire = (model: Model, reply: Reply): Model => {
  const needed = model.containers.filter((container) => !isFresh(model, container))
  const idle = needed.filter((container) => !model.checks.some((check) => covers(check, container)))
  const asked = idle.map(
    ({ held, id, pin }): Asked => ({
      containerId: id,
      ...(pin === undefined ? {} : { revision: pin }),
      ...(held === undefined ? {} : { ifNoneMatch: held.etag })
    })
  )
  const started: ReadonlyArray<Check> =
    asked.length === 0 ? [] : [{ asked, startedAt: model.now, reply, denied: false, running: true }]
  const checks = [...model.checks, ...started]
  const waitsFor = checks.flatMap((check, number) =>
    needed.some((container) => covers(check, container)) ? [number] : []
  )
  return deliver({ ...model, checks, acquires: [...model.acquires, { waitsFor }] })
}

/** The acquires that wait, by number. */
export const waiting = ({ acquires }: Model): ReadonlyArray<number> =>
  acquires.flatMap(({ result }, number) => (result === undefined ? [number] : []))

/** Rule 11: a check ends with the last that waits for it, and only a denial whose head has arrived remains of it. */
export const interrupt = (model: Model, number: number): Model => {
  const acquires = model.acquires.map((one, index) =>
    index === number ? { waitsFor: [], result: "interrupted" as const } : one
  )
  const abandoned = (check: Check, index: number) =>
    check.running && !acquires.some(({ waitsFor }) => waitsFor.includes(index))
  const denied = model.checks.filter((check, index) => abandoned(check, index) && check.denied)
  return {
    ...model,
    acquires,
    checks: model.checks.map((check, index) => (abandoned(check, index) ? { ...check, running: false } : check)),
    containers: model.containers.map((container) =>
      denied.some(({ asked }) => asked.some(({ containerId }) => containerId === container.id))
        ? settled(container, { error: forbidden }, model.now)
        : container
    )
  }
}

/** Something that happens to a check by itself. */
export interface Event {
  readonly check: number
  readonly at: number
  readonly what: "deadline" | "head" | "end"
}

const events = (check: Check, number: number, { timeoutMs }: Settings): ReadonlyArray<Event> => {
  if (!check.running) return []
  const event = (what: Event["what"], after: number): Event => ({ check: number, at: check.startedAt + after, what })
  const deadline = event("deadline", timeoutMs)
  const { reply } = check
  switch (reply._tag) {
    case "Hangs":
      return [deadline]
    case "Denied":
      if (!check.denied) return [deadline, event("head", reply.after)]
      return reply.refined === undefined ? [deadline] : [deadline, event("end", reply.after + reply.refined.after)]
    default:
      return [deadline, event("end", reply.after)]
  }
}

/** What happens next unless somebody acts first. At the deadline itself an answer is late (rule 10). */
export const next = (model: Model): Event | undefined => {
  const all = model.checks.flatMap((check, number) => events(check, number, model.settings))
  const order = (event: Event) => [event.at, event.what === "deadline" ? 0 : 1, event.check] as const
  return all.reduce<Event | undefined>((first, event) => {
    if (first === undefined) return event
    const [at, late, check] = order(event)
    const [firstAt, firstLate, firstCheck] = order(first)
    return (at - firstAt || late - firstLate || check - firstCheck) < 0 ? event : first
  }, undefined)
}

/** The clock stands at another time; it may go back. */
export const at = (model: Model, now: number): Model => ({ ...model, now })

export const happen = (model: Model, { check: number, what }: Event): Model => {
  const checks = (change: Partial<Check>) =>
    model.checks.map((check, index) => (index === number ? { ...check, ...change } : check))
  if (what === "head") return { ...model, checks: checks({ denied: true }) }
  return deliver({
    ...model,
    checks: checks({ running: false }),
    containers: model.containers.map((container, index) => {
      const check = model.checks[number]
      return check === undefined || !covers(check, container)
        ? container
        : settled(container, outcome(check, what, index), model.now)
    })
  })
}

/** What a check that ends says about one container. */
const outcome = ({ denied, reply }: Check, what: Event["what"], index: number): Answer => {
  if (what === "deadline" || reply._tag === "Hangs") return { error: denied ? forbidden : timedOut }
  if (reply._tag === "Fails") return { error: reply.failure }
  if (reply._tag === "Denied") return { error: reply.refined?.failure ?? forbidden }
  return reply.answers[index] ?? { error: invalid }
}

/** Rules 2 and 4 to 9: what one answer makes of a container. */
const settled = (container: Container, answer: Answer, now: number): Container => {
  const { denial, held, trouble: _, ...rest } = container
  const kept = held === undefined ? rest : { ...rest, held }

  if ("snapshot" in answer) {
    const { etag, revision } = answer.snapshot
    if (container.pin !== undefined && container.pin !== revision) return settled(container, { error: invalid }, now)
    const isHeld = held?.revision === revision && held.etag === etag
    const next = isHeld ? held : { revision, etag, value: (held?.value ?? 0) + 1 }
    return { ...rest, held: next, checkedAt: now }
  }
  if ("unchanged" in answer) {
    const matches = held !== undefined && answer.unchanged === "held"
    return matches ? { ...kept, checkedAt: now } : settled(container, { error: invalid }, now)
  }
  if ("corrupt" in answer) return settled(container, { error: invalid }, now)

  if (isDenial(answer.error)) return { ...kept, denial: answer.error }
  return denial === undefined ? { ...kept, trouble: answer.error } : container
}

/** Gives its result to every acquire that no longer waits for a check. */
const deliver = (model: Model): Model => {
  const isRunning = (number: number) => model.checks[number]?.running === true
  return {
    ...model,
    acquires: model.acquires.map((acquire) => {
      if (acquire.result !== undefined) return acquire
      const waitsFor = acquire.waitsFor.filter(isRunning)
      return waitsFor.length > 0 ? { waitsFor } : { waitsFor, result: result(model) }
    })
  }
}

/** Rules 5 to 7 and 12: the first denial, else the first cold failure, else the held snapshots as one. */
const result = ({ containers, settings }: Model): Result => {
  const denied = containers.find(({ denial }) => denial !== undefined)?.denial
  if (denied !== undefined) return { failure: denied }
  const cold = containers.find(({ held }) => held === undefined)?.trouble
  if (cold !== undefined) return { failure: cold }

  const parts = containers.flatMap(({ held, id }) => (held === undefined ? [] : [{ id, held }]))
  const value = parts.map(({ held }) => held.value).join("+")
  const [only] = parts
  if (!settings.list && only !== undefined) {
    const { etag, revision } = only.held
    return { revision, etag, skills: [skillName], value }
  }
  const identity = JSON.stringify(parts.map(({ held, id }) => [id, held.revision, held.etag]))
  const digest = createHash("sha256").update(identity).digest("hex")
  const skills = parts.map(({ id }) => `${encodeURIComponent(id)}/${skillName}`)
  return { revision: `multi:${digest}`, etag: `"${digest}"`, skills, value }
}

/** The one skill of every snapshot here. */
export const skillName = "greeting"

/** Rule 13, as JSON without messages. */
export const status = ({ containers, settings }: Model): unknown => {
  const parts = containers.map(({ checkedAt, denial, held, id, pin, trouble }) => ({
    containerId: id,
    initialized: held !== undefined,
    revision: held?.revision,
    mode: pin === undefined ? "latest" : "pinned",
    lastCheckedAt: checkedAt === undefined ? undefined : new Date(checkedAt).toISOString(),
    stale: held !== undefined && denial === undefined && trouble !== undefined,
    lastError: denial ?? trouble
  }))
  const [only] = parts
  if (!settings.list && only !== undefined) {
    const { containerId: _, ...status } = only
    return status
  }
  const checks = parts.map(({ lastCheckedAt }) => lastCheckedAt)
  const errors = parts.flatMap(({ lastError }) => lastError ?? [])
  return {
    initialized: parts.every(({ initialized }) => initialized),
    mode: parts.every(({ mode }) => mode === "pinned") ? "pinned" : "latest",
    lastCheckedAt: checks.includes(undefined) ? undefined : [...checks].sort()[0],
    stale: parts.some(({ stale }) => stale),
    lastError: errors.find(isDenial) ?? errors[0],
    containers: parts
  }
}
