/**
 * Sequences, sets and tables that only grow, as values: adding gives a new one and leaves the old one as it was.
 *
 * Adding to the newest is done in constant time, since the values share their memory as slices of one array do: each knows how
 * much of it is its own. Only adding to one that another has grown from copies what it holds. The sets and tables are found by
 * `Map`, not by a hash of their own, so that no choice of keys makes them slow.
 *
 * @module
 */
/** A sequence. What lies beyond `length` belongs to others. */
export interface Sequence<A> {
  readonly shared: Array<A>
  readonly length: number
}

export const emptySequence = <A>(): Sequence<A> => ({ shared: [], length: 0 })

const isNewest = ({ length, shared }: Sequence<unknown>) => shared.length === length

export const toArray = <A>({ length, shared }: Sequence<A>): Array<A> => shared.slice(0, length)

export const append = <A>(sequence: Sequence<A>, value: A): Sequence<A> => {
  const shared = isNewest(sequence) ? sequence.shared : toArray(sequence)
  shared.push(value)
  return { shared, length: sequence.length + 1 }
}

/** A set of strings, in the order in which they came. */
export interface Keys {
  readonly inOrder: Sequence<string>
  /** The place of every key of the shared sequence, also of keys that are not this set's. */
  readonly places: Map<string, number>
}

export const emptyKeys = (): Keys => ({ inOrder: emptySequence(), places: new Map() })

const place = ({ inOrder, places }: Keys, key: string): number | undefined => {
  const found = places.get(key)
  return found !== undefined && found < inOrder.length ? found : undefined
}

export const has = (keys: Keys, key: string): boolean => place(keys, key) !== undefined

export const add = (keys: Keys, key: string): Keys => {
  if (has(keys, key)) return keys
  const { inOrder } = keys
  const places = isNewest(inOrder) ? keys.places : new Map(toArray(inOrder).map((own, index) => [own, index]))
  places.set(key, inOrder.length)
  return { inOrder: append(inOrder, key), places }
}

const bits = 5
const width = 2 ** bits

/** A tree of values by place, of which a change copies only the path to the value. */
type Tree<A> = { readonly values: ReadonlyArray<A> } | { readonly branches: ReadonlyArray<Tree<A>> }

const replaced = <A>(array: ReadonlyArray<A>, index: number, value: A): ReadonlyArray<A> => {
  const copy = array.slice()
  copy[index] = value
  return copy
}

/** `levels` is how many lie below. A place that is new is the one after the last. */
const setIn = <A>(tree: Tree<A> | undefined, levels: number, at: number, value: A): Tree<A> => {
  const index = (at >>> (levels * bits)) % width
  if (levels === 0) {
    return { values: replaced(tree !== undefined && "values" in tree ? tree.values : [], index, value) }
  }
  const branches = tree !== undefined && "branches" in tree ? tree.branches : []
  return { branches: replaced(branches, index, setIn(branches[index], levels - 1, at, value)) }
}

const getIn = <A>(tree: Tree<A> | undefined, levels: number, at: number): A | undefined => {
  if (tree === undefined) return undefined
  const index = (at >>> (levels * bits)) % width
  return "values" in tree ? tree.values[index] : getIn(tree.branches[index], levels - 1, at)
}

const leaves = <A>(tree: Tree<A>): ReadonlyArray<A> =>
  "values" in tree ? tree.values : tree.branches.flatMap((branch) => leaves(branch))

/** Values by key, in the order in which the keys came. A value can be replaced. */
export interface Table<A> {
  readonly keys: Keys
  readonly tree: Tree<A>
  readonly levels: number
}

export const emptyTable = <A>(): Table<A> => ({ keys: emptyKeys(), tree: { values: [] }, levels: 0 })

export const get = <A>({ keys, levels, tree }: Table<A>, key: string): A | undefined => {
  const at = place(keys, key)
  return at === undefined ? undefined : getIn(tree, levels, at)
}

export const set = <A>(table: Table<A>, key: string, value: A): Table<A> => {
  const known = place(table.keys, key)
  const at = known ?? table.keys.inOrder.length
  const isFull = at === width ** (table.levels + 1)
  const levels = isFull ? table.levels + 1 : table.levels
  const tree = isFull ? { branches: [table.tree] } : table.tree
  return { keys: known === undefined ? add(table.keys, key) : table.keys, tree: setIn(tree, levels, at, value), levels }
}

export const keysOf = <A>({ keys }: Table<A>): Array<string> => toArray(keys.inOrder)

export const valuesOf = <A>({ tree }: Table<A>): ReadonlyArray<A> => leaves(tree)
