/** The repository's own fixture files. */
import { readFile } from "node:fs/promises"
import { Effect } from "effect"
import * as LifecycleSuite from "../../src/conformance/LifecycleSuite.js"
import * as SnapshotSuite from "../../src/conformance/SnapshotSuite.js"

export const directory = "fixtures"

/** Read and decoded once for all tests of a file. */
const load = <A, E>(name: string, decode: (text: string) => Effect.Effect<A, E>) =>
  Effect.runSync(
    Effect.cached(
      Effect.flatMap(
        Effect.promise(() => readFile(`${directory}/${name}`, "utf8")),
        decode
      )
    )
  )

export const snapshots = load("snapshots.v1.json", SnapshotSuite.decode)
export const lifecycle = load("lifecycle.v1.json", LifecycleSuite.decode)
