import { performance } from "node:perf_hooks"
import { Effect, Layer } from "effect"
import * as RegistryScript from "../../src/delivery/RegistryScript.js"
import * as SkillDelivery from "../../src/delivery/SkillDelivery.js"
import { shapes } from "./Shapes.js"
import { median } from "./Timing.js"

const perSample = 1000

/** Microseconds of an acquire inside the freshness window, as one fiber that acquires again and again sees it. */
export const acquireMicroseconds = (samples: number): Promise<number> =>
  Effect.gen(function* () {
    const script = yield* RegistryScript.RegistryScript
    yield* script.enqueue(RegistryScript.snapshot(shapes.typical().response))
    const delivery = yield* SkillDelivery.SkillDelivery
    yield* delivery.acquire
    const times: Array<number> = []
    for (let sample = 0; sample < samples; sample++) {
      const start = performance.now()
      for (let count = 0; count < perSample; count++) yield* delivery.acquire
      times.push(((performance.now() - start) * 1000) / perSample)
    }
    return median(times)
  }).pipe(
    Effect.provide(
      SkillDelivery.layer({ container: "bench", freshness: "1 hour" }).pipe(Layer.provideMerge(RegistryScript.layer))
    ),
    Effect.runPromise
  )
