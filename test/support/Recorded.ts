import { Cause, Effect, Logger, LogLevel, Tracer } from "effect"

/** Runs the effect and gives how it ended with every span and every log line that it made. */
export const recorded = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const tracer = yield* Effect.tracer
    const spans: Array<Tracer.Span> = []
    const logs: Array<unknown> = []
    const recording = Tracer.make({
      span: (...args) => {
        const span = tracer.span(...args)
        spans.push(span)
        return span
      },
      context: tracer.context
    })
    const logger = Logger.make(({ annotations, cause, message }) => {
      logs.push({ message, annotations, cause: Cause.pretty(cause) })
    })
    const exit = yield* effect.pipe(
      Effect.exit,
      Effect.withTracer(recording),
      Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
      Logger.withMinimumLogLevel(LogLevel.All)
    )
    return { exit, spans, logs }
  })

/** What was written to a span; where in the code it was started is Effect's own addition. */
export const attributesOf = (span: Tracer.Span): Record<string, unknown> =>
  Object.fromEntries([...span.attributes].filter(([name]) => !name.startsWith("code.")))
