/**
 * What takes long, drawn over itself on a terminal: how much of a large archive has arrived, or what is being done.
 *
 * @module
 */
import { Effect } from "effect"
import type { DownloadProgressService } from "../delivery/RegistryClient.js"

/** Where progress is drawn: standard error, when it is a terminal. */
export interface Screen {
  readonly isTTY?: boolean
  readonly write: (text: string) => unknown
}

export interface Progress extends DownloadProgressService {
  /** Wipes what was drawn. */
  readonly clear: Effect.Effect<void>
}

/** Says what is being done as long as it is. */
export const during =
  (screen: Screen, text: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    screen.isTTY === true
      ? Effect.acquireUseRelease(
          Effect.sync(() => screen.write(text)),
          () => effect,
          () => Effect.sync(() => screen.write(eraseLine))
        )
      : effect

const mebibyte = 1024 * 1024

const eraseLine = "\r\u001b[K"

/** Draws once per mebibyte, so small archives draw nothing and large ones not too often. */
export const make = (screen: Screen): Progress => {
  if (screen.isTTY !== true) return { onBytes: () => Effect.void, clear: Effect.void }
  let drawn = 0
  const draw = (text: string) => screen.write(`${eraseLine}${text}`)
  return {
    onBytes: (received, total) =>
      Effect.sync(() => {
        const mebibytes = Math.floor(received / mebibyte)
        if (mebibytes === drawn) return
        drawn = mebibytes
        draw(`receiving: ${mebibytes}${total === undefined ? "" : ` of ${Math.ceil(total / mebibyte)}`} MiB`)
      }),
    clear: Effect.sync(() => {
      if (drawn > 0) draw("")
      drawn = 0
    })
  }
}
