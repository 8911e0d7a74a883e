import { Deferred, Effect, Stream } from "effect"
import type { Run } from "../../src/runner/LocalRunner.js"
import type { CommandType, RunCommand } from "../../src/runner/RunCommand.js"
import type { EventType, RunEvent } from "../../src/runner/RunEvent.js"
import type { CommandReceipt, RunnerMessage } from "../../src/runner/RunnerStream.js"

export const identity = { runId: "run-1", runnerInstanceId: "runner-1", normalizedSessionId: "session-1" }

/** A command with a number, and an id made of it. */
export const command = (
  controllerSeq: number,
  type: CommandType,
  payload: Record<string, unknown> = {},
  commandId = `command-${controllerSeq}`
): RunCommand => ({
  schema: "paperclip.prp.command.v1",
  commandId,
  controllerSeq,
  type,
  issuedAt: "2026-01-31T12:00:00.000Z",
  payload
})

type Send = (type: CommandType, payload?: Record<string, unknown>) => Effect.Effect<CommandReceipt>

/** Reads everything that a run says, while it says it; what is to be done about an event is done beside that. */
export const observe = Effect.fnUntraced(function* (
  run: Run,
  react: (event: RunEvent, send: Send) => Effect.Effect<unknown> | undefined = () => undefined
) {
  let commands = 0
  const send: Send = (type, payload) => Effect.suspend(() => run.send(command(++commands, type, payload)))
  const messages: Array<RunnerMessage> = []
  const events: Array<RunEvent> = []
  const types = () => events.map(({ eventType }) => eventType)
  const counted = (eventType: EventType) => types().filter((type) => type === eventType).length
  const waiting = new Set<{ readonly isOver: () => boolean; readonly over: Deferred.Deferred<void> }>()
  const ended = yield* run.messages.pipe(
    Stream.runForEach((message) =>
      Effect.gen(function* () {
        messages.push(message)
        if (message.kind !== "event") return
        events.push(message.event)
        for (const waiter of waiting) if (waiter.isOver()) yield* Deferred.succeed(waiter.over, undefined)
        yield* Effect.forkDaemon(react(message.event, send) ?? Effect.void)
      })
    ),
    Effect.forkDaemon
  )
  return {
    messages,
    events,
    types,
    /** Sends the next command. */
    send,
    /** Waits for an event of the type, or for so many. */
    seen: Effect.fnUntraced(function* (eventType: EventType, times = 1) {
      const waiter = { isOver: () => counted(eventType) >= times, over: yield* Deferred.make<void>() }
      waiting.add(waiter)
      if (!waiter.isOver()) yield* Deferred.await(waiter.over)
      waiting.delete(waiter)
    }),
    /** Everything has been read. */
    ended: ended.await,
    /** The payload of the one event of this type. */
    payload: (eventType: EventType): unknown => {
      const [event, ...more] = events.filter((event) => event.eventType === eventType)
      if (event === undefined || more.length > 0) throw new Error(`There is not exactly one ${eventType}`)
      return event.payload
    }
  }
})
