import { FetchHttpClient } from "@effect/platform"
import { Effect, Layer, Option, Tracer } from "effect"
import { RegistryClient, SkillDelivery } from "effect-agent-contracts/delivery"

const path = (span: Tracer.AnySpan): string =>
  span._tag === "ExternalSpan"
    ? span.spanId
    : Option.match(span.parent, { onNone: () => span.name, onSome: (parent) => `${path(parent)} > ${span.name}` })

// Prints each span when it ends. To export them, provide a layer of @effect/opentelemetry in its place.
const PrintedSpans = Layer.unwrapEffect(
  Effect.map(Effect.tracer, (native) =>
    Layer.setTracer(
      Tracer.make({
        context: (run, fiber) => native.context(run, fiber),
        span: (...options) => {
          const span = native.span(...options)
          const end = span.end.bind(span)
          span.end = (time, exit) => {
            end(time, exit)
            console.log(path(span), exit._tag, JSON.stringify(Object.fromEntries(span.attributes)))
          }
          return span
        }
      })
    )
  )
)

const Skills = SkillDelivery.layerConfig({ freshness: 0 }).pipe(
  Layer.provide(RegistryClient.layerConfig),
  Layer.provide(FetchHttpClient.layer)
)

const refreshes = Effect.all([
  Effect.withSpan(SkillDelivery.acquire, "first invocation"),
  Effect.withSpan(SkillDelivery.acquire, "second invocation")
])

await refreshes.pipe(
  Effect.provide(Layer.provideMerge(Skills, PrintedSpans)),
  Effect.catchAll((error) =>
    Effect.sync(() => {
      console.error(`${error._tag}: ${error.message}`)
      process.exitCode = 1
    })
  ),
  Effect.runPromise
)
