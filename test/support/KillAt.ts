import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Effect, Layer } from "effect"
import * as InterceptedFileSystem from "./InterceptedFileSystem.js"

/**
 * Counts the calls that go through it, and kills this process during the n-th as `SIGKILL` would at any moment, with no chance
 * to clean up: the call has left for the thread pool or the database, or is even done. 0 kills at none.
 */
export const killAt = (n: number) => {
  let calls = 0
  return <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      calls++
      if (calls !== n) return call
      return Effect.fork(Effect.interruptible(call)).pipe(
        Effect.zipRight(Effect.yieldNow()),
        Effect.zipRight(Effect.sync(() => process.kill(process.pid, "SIGKILL"))),
        Effect.zipRight(Effect.never)
      )
    })
}

/** The files of a process that kills itself so during the n-th of the operations that count; 0 kills at none. */
export const layerFiles = (
  n: number,
  counts: (operation: string) => boolean = () => true
): Layer.Layer<FileSystem.FileSystem> => {
  const counted = killAt(n)
  const around: InterceptedFileSystem.Around = (operation, effect) => (counts(operation) ? counted(effect) : effect)
  return Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs) => InterceptedFileSystem.intercept(fs, around))
  ).pipe(Layer.provide(NodeFileSystem.layer))
}
