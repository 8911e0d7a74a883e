import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Progress from "../../src/cli/Progress.js"

const mebibyte = 1024 * 1024

const drawing = (isTTY?: boolean) => {
  const drawn: Array<string> = []
  const progress = Progress.make({ write: (text) => drawn.push(text), ...(isTTY === undefined ? {} : { isTTY }) })
  return { drawn, progress }
}

describe("progress", () => {
  it.effect("draws once per mebibyte over the line before, and wipes it at the end", () =>
    Effect.gen(function* () {
      const { drawn, progress } = drawing(true)
      for (let received = 0; received <= 2.5 * mebibyte; received += 1024) {
        yield* progress.onBytes(received, 2.5 * mebibyte)
      }
      yield* progress.clear
      expect(drawn).toEqual(["\r\u001b[Kreceiving: 1 of 3 MiB", "\r\u001b[Kreceiving: 2 of 3 MiB", "\r\u001b[K"])
    })
  )

  it.effect("says no total that the registry has not said", () =>
    Effect.gen(function* () {
      const { drawn, progress } = drawing(true)
      yield* progress.onBytes(mebibyte, undefined)
      expect(drawn).toEqual(["\r\u001b[Kreceiving: 1 MiB"])
    })
  )

  it.effect("draws nothing for a small archive", () =>
    Effect.gen(function* () {
      const { drawn, progress } = drawing(true)
      yield* progress.onBytes(mebibyte - 1, mebibyte - 1)
      yield* progress.clear
      expect(drawn).toEqual([])
    })
  )

  it.effect("says what is being done, and wipes it however that ends", () =>
    Effect.gen(function* () {
      const drawn: Array<string> = []
      const screen = { isTTY: true, write: (text: string) => drawn.push(text) }
      yield* Effect.exit(
        Effect.sync(() => drawn.push("work")).pipe(
          Effect.zipRight(Effect.die("bug")),
          Progress.during(screen, "running")
        )
      )
      expect(drawn).toEqual(["running", "work", "\r\u001b[K"])
      yield* Progress.during({ ...screen, isTTY: false }, "running")(Effect.void)
      expect(drawn).toHaveLength(3)
    })
  )

  it.effect.each([false, undefined])("draws nothing where there is no terminal (isTTY %s)", (isTTY) =>
    Effect.gen(function* () {
      const { drawn, progress } = drawing(isTTY)
      yield* progress.onBytes(10 * mebibyte, undefined)
      yield* progress.clear
      expect(drawn).toEqual([])
    })
  )
})
