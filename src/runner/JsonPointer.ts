/**
 * Where in a JSON document (RFC 6901).
 *
 * @module
 */

/** The pointer to a member of members; the document itself is `/`, as the contract writes it (facts 3). */
export const make = (path: ReadonlyArray<PropertyKey>): string =>
  path.length === 0 ? "/" : path.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")
