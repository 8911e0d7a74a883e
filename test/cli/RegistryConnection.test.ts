import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as RegistryConnection from "../../src/cli/RegistryConnection.js"

describe("the items of a list", () => {
  it.effect("are those of all its pages, in order", () =>
    Effect.gen(function* () {
      const items = yield* RegistryConnection.all((token) =>
        Effect.succeed(token === undefined ? [[1, 2], "next"] : [[3], null])
      )
      expect(items).toEqual([1, 2, 3])
    })
  )

  it.effect("end with a page that leads back, and after more pages than a registry has", () =>
    Effect.gen(function* () {
      let pages = 0
      const endless = (next: () => string) =>
        Effect.flip(
          RegistryConnection.all(() =>
            Effect.sync(() => {
              pages++
              return [[], next()] as const
            })
          )
        )
      expect(yield* endless(() => "same")).toMatchObject({ _tag: "UNSUPPORTED_SERVER" })
      expect(pages).toBe(2)
      pages = 0
      expect(yield* endless(() => String(pages))).toMatchObject({ _tag: "UNSUPPORTED_SERVER" })
      expect(pages).toBe(10_001)
    })
  )
})
