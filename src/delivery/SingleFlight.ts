/**
 * Effects that many callers share: each runs once, in a fiber of its own, for all who wait for it; a caller that is
 * interrupted leaves at once, and the last one to leave interrupts the fiber (contract, Lifecycle 3 and 11).
 *
 * `Cache` and a shared `Deferred` do not fit: the first fails its other waiters when one is interrupted, the second
 * does not know when nobody waits any longer.
 *
 * @module
 */
import { Effect, Exit, type Fiber, FiberId, type Scope } from "effect"

/** One shared run. */
export interface Flight {
  readonly waiters: Set<Waiter>
  readonly abandon: () => Effect.Effect<void>
  readonly end: () => void
  fiber: Fiber.RuntimeFiber<void> | undefined
}

/** A caller that waits for one or more flights. */
export interface Waiter {
  readonly pending: Set<Flight>
  exit: Exit.Exit<void> | undefined
  resume: ((exit: Exit.Exit<void>) => void) | undefined
}

/**
 * @param options.abandon runs when nobody waits any longer, before anybody else can ask, and when the scope closes; it
 *   may run twice
 * @param options.end runs before the waiting callers go on, however the flight ended
 */
export const make = (options: { readonly abandon: () => Effect.Effect<void>; readonly end: () => void }): Flight => ({
  ...options,
  waiters: new Set(),
  fiber: undefined
})

/** Makes the caller wait for the flights, running or about to be launched. At once, so that none can end unnoticed. */
export const join = (flights: ReadonlyArray<Flight>): Waiter => {
  const waiter: Waiter = { pending: new Set(flights), exit: undefined, resume: undefined }
  for (const flight of flights) flight.waiters.add(waiter)
  return waiter
}

/** A defect, or the closing of the scope, reaches the callers as it is. */
const release = (flight: Flight, exit: Exit.Exit<void>) => {
  flight.end()
  for (const waiter of flight.waiters) {
    waiter.pending.delete(flight)
    if (Exit.isSuccess(exit) && waiter.pending.size > 0) continue
    waiter.exit ??= exit
    waiter.resume?.(waiter.exit)
  }
  flight.waiters.clear()
}

/** Starts the flight in the scope, with the caller's context: its span is the parent of those in `effect`. */
export const launch = (flight: Flight, effect: Effect.Effect<void>, scope: Scope.Scope): Effect.Effect<void> =>
  effect.pipe(
    Effect.interruptible,
    Effect.onInterrupt(() => flight.abandon()),
    Effect.forkIn(scope),
    Effect.flatMap((fiber) =>
      Effect.sync(() => {
        flight.fiber = fiber
        fiber.addObserver((exit) => release(flight, exit))
      })
    )
  )

/** Waits until all flights have ended. */
export const landed = (waiter: Waiter): Effect.Effect<void> =>
  Effect.async((resume) => {
    if (waiter.exit === undefined) waiter.resume = resume
    else resume(waiter.exit)
  })

/** Takes the caller off what it still waits for. */
export const leave = (waiter: Waiter): Effect.Effect<void> =>
  Effect.suspend(() => {
    const abandoned = [...waiter.pending]
      .filter(({ waiters }) => waiters.delete(waiter) && waiters.size === 0)
      .map(({ abandon, fiber }) => ({ abandon: abandon(), fiber }))
    return Effect.forEach(
      abandoned,
      ({ abandon, fiber }) =>
        Effect.zipRight(
          abandon,
          Effect.sync(() => fiber?.unsafeInterruptAsFork(FiberId.none))
        ),
      { discard: true }
    )
  })
