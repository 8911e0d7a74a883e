/**
 * Archives on their way to those who asked for them. A fleet asks for a new revision all at once, and each takes it at its own pace:
 * all of them are sent the same bytes, read and proved once, which are kept for as long as anybody is sent them and no longer.
 *
 * @module
 */
import { Context, Data, Effect, Layer, RcMap, type Scope, Stream } from "effect"
import type { CorruptBlob } from "../store/BlobStore.js"
import type { StoreUnavailable } from "../store/StoreError.js"
import * as ByteBudget from "./ByteBudget.js"
import { Registry } from "./Registry.js"

/** An archive as its row has it. */
interface Archive {
  readonly sha256: string
  /** In bytes. */
  readonly size: number
}

export class OutgoingArchives extends Context.Tag("effect-agent-contracts/registry/OutgoingArchives")<
  OutgoingArchives,
  {
    /** An archive, its digest proved, for as long as the scope is open. Shared: not to be changed. */
    readonly get: (
      archive: Archive
    ) => Effect.Effect<Uint8Array, CorruptBlob | ByteBudget.ServerBusy | StoreUnavailable, Scope.Scope>
  }
>() {}

/** Of all different archives that are on their way at once, in bytes: eight of the largest that are delivered. */
const maximumBytes = 256 * 1024 * 1024

export const layer: Layer.Layer<OutgoingArchives, never, Registry> = Layer.scoped(
  OutgoingArchives,
  Effect.gen(function* () {
    const registry = yield* Registry
    const budget = ByteBudget.make(maximumBytes)
    const archives = yield* RcMap.make({
      // Room for it before it is read, and for as long as the map keeps it.
      lookup: ({ sha256, size }: Archive) => Effect.zipRight(budget.reserve(size), registry.archive(sha256))
    })
    return { get: ({ sha256, size }) => RcMap.get(archives, Data.struct({ sha256, size })) }
  })
)

/** How much of an archive is written, or coded, at once. Whole groups of base64. In bytes. */
const sliceBytes = 3 * 16 * 1024

/** An archive as it is written: the caller's pace decides, and a caller who leaves ends it. */
export const slices = (bytes: Uint8Array): Stream.Stream<Uint8Array> =>
  Stream.map(
    Stream.iterate(0, (start) => start + sliceBytes),
    (start) => bytes.subarray(start, start + sliceBytes)
  ).pipe(Stream.take(Math.ceil(bytes.length / sliceBytes)))
