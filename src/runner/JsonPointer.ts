/**
 * Where in a JSON document (RFC 6901).
 *
 * @module
 */
import { Predicate } from "effect"

/** The pointer to a member of members; the document itself is `/`, as the contract writes it (facts 3). */
export const make = (path: ReadonlyArray<PropertyKey>): string =>
  path.length === 0 ? "/" : path.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")

/** What is at a place in a document: own members only, `undefined` where there is nothing. */
export const get = (value: unknown, path: ReadonlyArray<PropertyKey>): unknown =>
  path.reduce<unknown>(
    (parent, step) =>
      Predicate.isObject(parent) && Object.hasOwn(parent, step) ? Reflect.get(parent, step) : undefined,
    value
  )
