/**
 * Why a journal does not take what it is given, or does not have what it is asked for. What the database under it cannot do is
 * `STORE_UNAVAILABLE`.
 *
 * @module
 */
import { Schema } from "effect"

/** The journal has no run with this id. */
export class RunNotFound extends Schema.TaggedError<RunNotFound>()("run_not_found", { runId: Schema.String }) {
  override get message(): string {
    return `The journal has no run ${JSON.stringify(this.runId)}.`
  }
}

/** A run with this id is there, but with another name, identity or capabilities. */
export class RunConflict extends Schema.TaggedError<RunConflict>()("run_conflict", { runId: Schema.String }) {
  override get message(): string {
    return `The journal has another run ${JSON.stringify(this.runId)}: a run's id is for one run only.`
  }
}

/** The run has its terminal: nothing new happens in it. What it has already is still acknowledged. */
export class RunEnded extends Schema.TaggedError<RunEnded>()("run_ended", { runId: Schema.String }) {
  override get message(): string {
    return `The run ${JSON.stringify(this.runId)} has ended: no event can follow its run.terminal.`
  }
}

/** An event is larger than a journal takes. */
export class EventTooLarge extends Schema.TaggedError<EventTooLarge>()("event_too_large", {
  runId: Schema.String,
  sourceEventId: Schema.String,
  /** Of the event as JSON in UTF-8. */
  bytes: Schema.Number,
  maximumBytes: Schema.Number
}) {
  override get message(): string {
    return (
      `The event ${JSON.stringify(this.sourceEventId)} has ${this.bytes} bytes, of which a journal takes ` +
      `${this.maximumBytes}: keep what is large elsewhere, and refer to it.`
    )
  }
}

/** More events come together than a journal takes. */
export class BatchTooLarge extends Schema.TaggedError<BatchTooLarge>()("batch_too_large", {
  runId: Schema.String,
  events: Schema.Number,
  maximumEvents: Schema.Number
}) {
  override get message(): string {
    return `A journal takes ${this.maximumEvents} events at once, not ${this.events}: append them in several batches.`
  }
}
