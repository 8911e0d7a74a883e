/**
 * Whether a text matches a pattern that somebody else wrote, as JavaScript's `RegExp.test` has it (facts 7).
 *
 * A short pattern can take longer than anybody lives, and nothing in the thread that runs it can stop it. So this is a service:
 * what implements it has to give up after a time, and must not hold up the event loop meanwhile. `PatternWorker` does, on Node;
 * another runtime brings a layer of its own.
 *
 * @module
 */
import { Context, type Effect, Schema } from "effect"

/** The pattern is no regular expression. */
export class InvalidPattern extends Schema.TaggedError<InvalidPattern>()("invalid_pattern", {}) {
  override get message(): string {
    return "The pattern is not a regular expression of JavaScript"
  }
}

const undecidedBy = {
  time: "The pattern takes too long to test: simplify it, nested repetitions above all",
  memory: "The pattern takes too much memory to test: simplify it",
  thread: "The pattern cannot be tested: no thread could be started for it, or it ended early"
} as const

/**
 * Nobody knows whether the text matches: the test took more time (`time`) or memory (`memory`) than it may, or could not be run
 * at all (`thread`). To be taken as a refusal.
 */
export class PatternUndecided extends Schema.TaggedError<PatternUndecided>()("pattern_undecided", {
  reason: Schema.Literal("time", "memory", "thread")
}) {
  override get message(): string {
    return undecidedBy[this.reason]
  }
}

export interface Service {
  /** Without flags and not anchored: a match anywhere in the text counts. Ends what it started when it is interrupted. */
  readonly test: (pattern: string, text: string) => Effect.Effect<boolean, InvalidPattern | PatternUndecided>
}

export class PatternTest extends Context.Tag("effect-agent-contracts/runner/PatternTest")<PatternTest, Service>() {}
