/**
 * Foreign effects - a store, a client - held at arm's length: whatever they do with interruption stays with them.
 *
 * @module
 */
import { Effect, type Exit, Fiber } from "effect"

/**
 * Runs an effect in a fiber of its own and succeeds with its exit, also when it interrupts itself. Whoever waits can be
 * interrupted at once, which interrupts the fiber without waiting for it.
 */
export const exit = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Exit.Exit<A, E>, never, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDaemon(Effect.interruptible(effect)), (fiber) =>
      restore(Fiber.await(fiber)).pipe(Effect.onInterrupt(() => Fiber.interruptFork(fiber)))
    )
  )
