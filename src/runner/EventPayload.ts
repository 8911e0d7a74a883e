/**
 * What a replay reads of payloads that no schema binds: a member of another type than the rule names is one that is not there.
 *
 * @module
 */
import { Predicate } from "effect"
import type { ReplayedRequest } from "./ReplaySnapshot.js"

const member = (payload: unknown, name: string): unknown => (Predicate.isRecord(payload) ? payload[name] : undefined)

/** The member if it is a string. */
export const text = (payload: unknown, name: string): string | undefined => {
  const value = member(payload, name)
  return typeof value === "string" ? value : undefined
}

/** The request that a `runtime_request.created` tells of: its member `request`, or else the payload itself. */
export const request = (payload: unknown): ReplayedRequest => {
  const inner = member(payload, "request")
  const told = Predicate.isRecord(inner) ? inner : payload
  return {
    requestId: text(told, "requestId") ?? "",
    requestKind: text(told, "requestKind") ?? "runtime",
    type: text(told, "type") ?? "runtime",
    status: text(told, "status") ?? "pending",
    prompt: text(told, "prompt") ?? ""
  }
}
