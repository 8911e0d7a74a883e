/**
 * Lists in parts. A page begins after a row rather than at a number of rows, so that what is added or deleted between two
 * pages neither repeats nor hides another row.
 *
 * @module
 */
import { Either } from "effect"
import { InvalidPage } from "./RegistryError.js"
import type { Page, PageRequest } from "./RegistryModel.js"

const defaultLimit = 20
const maximumLimit = 1000

/** Of a list whose every item may hold a set of a thousand skills: whoever asks for more gets this many and the next page. */
export const maximumSets = 100

/** What a query needs to know of a request. `after` is the ordinal of the last row of the page before. */
export interface Position {
  readonly limit: number
  readonly after: number | undefined
}

export const parse = (
  { limit: asked = defaultLimit, page }: PageRequest,
  maximum = maximumLimit
): Either.Either<Position, InvalidPage> => {
  if (!Number.isInteger(asked) || asked < 1 || asked > maximumLimit) {
    return Either.left(new InvalidPage({ problem: "limit" }))
  }
  const limit = Math.min(asked, maximum)
  if (page === undefined || page === null) return Either.right({ limit, after: undefined })
  return /^\d{1,15}$/.test(page)
    ? Either.right({ limit, after: Number(page) })
    : Either.left(new InvalidPage({ problem: "page" }))
}

/** The page that `rows` begin: queried with one more than the limit, which tells whether there is another page. */
export const toPage = <Row, A>(
  rows: ReadonlyArray<Row>,
  { limit }: Position,
  options: { readonly ordinal: (row: Row) => unknown; readonly item: (row: Row) => A }
): Page<A> => {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return {
    items: shown.map(options.item),
    nextPage: rows.length > limit && last !== undefined ? String(options.ordinal(last)) : null
  }
}
