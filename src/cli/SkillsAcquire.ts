import { DateTime, Effect, Either, Option } from "effect"
import type { DeliveryError } from "../delivery/DeliveryError.js"
import * as DeliveryStatus from "../delivery/DeliveryStatus.js"
import * as RegistryClient from "../delivery/RegistryClient.js"
import * as SkillCatalog from "../delivery/SkillCatalog.js"
import * as SkillDelivery from "../delivery/SkillDelivery.js"
import type { VerifiedSnapshot } from "../delivery/Snapshot.js"
import * as DeliverySettings from "./DeliverySettings.js"
import * as Output from "./Output.js"
import * as Progress from "./Progress.js"
import * as Render from "./Render.js"

export interface Options extends DeliverySettings.Options {
  readonly json: boolean
}

/** Acquires once, or with `watch` again and again. Prints the catalog and the status, then each change. */
export const run = Effect.fnUntraced(function* (options: Options, screen: Progress.Screen) {
  const progress = Progress.make(screen)
  const observe = Effect.ensuring(observation, progress.clear)
  yield* (options.watch ? watch(observe, options.json) : once(observe, options.json)).pipe(
    Effect.provide(DeliverySettings.layer(options)),
    Effect.provideService(RegistryClient.DownloadProgress, progress)
  )
})

/** What one acquire gave, and the status after it. */
interface Observation {
  readonly acquired: Either.Either<VerifiedSnapshot, DeliveryError>
  readonly status: DeliveryStatus.DeliveryStatus
}

type Observe = Effect.Effect<Observation, never, SkillDelivery.SkillDelivery>

export const observation: Observe = Effect.all({
  acquired: Effect.either(SkillDelivery.acquire),
  status: SkillDelivery.status
})

const once = Effect.fnUntraced(function* (observe: Observe, json: boolean) {
  const observed = yield* observe
  yield* print(observed, json)
  yield* observed.acquired
})

/** How often a watch checks: the contract's default freshness. */
const watchInterval = "5 seconds"

/** Goes on through failures, which are changes like others, until it is interrupted. */
export const watch = Effect.fnUntraced(function* (observe: Observe, json: boolean) {
  const first = yield* observe
  yield* print(first, json)
  yield* reportFailure(first, json)
  return yield* Effect.iterate(first, {
    while: () => true,
    body: (before) =>
      Effect.tap(Effect.delay(observe, watchInterval), (after) =>
        isChange(before, after)
          ? Effect.zipRight(printChange(before, after, json), reportFailure(after, json))
          : Effect.void
      )
  })
})

/** A watch does not end by a failure, so nobody else says what it was; JSON has said it. */
const reportFailure = ({ acquired }: Observation, json: boolean) => {
  const error = failure(acquired)
  return error === undefined || json ? Effect.void : Output.problem(Render.errorLine(error))
}

/** A later check that found the same is no change. */
const isChange = (before: Observation, after: Observation): boolean =>
  snapshot(before)?.etag !== snapshot(after)?.etag ||
  !DeliveryStatus.equals(withoutTime(before.status), withoutTime(after.status))

const snapshot = ({ acquired }: Observation): VerifiedSnapshot | undefined =>
  Either.getOrElse(acquired, () => undefined)

const failure = (acquired: Observation["acquired"]): DeliveryError | undefined =>
  Option.getOrUndefined(Either.getLeft(acquired))

const withoutTime = ({ containers, lastCheckedAt: _, ...status }: DeliveryStatus.DeliveryStatus) => ({
  ...status,
  ...(containers === undefined ? {} : { containers: containers.map(({ lastCheckedAt: _, ...part }) => part) })
})

const print = ({ acquired, status }: Observation, json: boolean) => {
  if (json) {
    const result = Either.match(acquired, {
      onLeft: (error) => ({ error: Render.errorJson(error) }),
      onRight: (snapshot) => ({ snapshot: Render.snapshotJson(snapshot) })
    })
    return Output.json({ ...result, status: Render.statusJson(status) })
  }
  const catalog = Either.match(acquired, {
    onLeft: () => [],
    onRight: (snapshot) => [SkillCatalog.text(snapshot), ""]
  })
  return Output.lines([...catalog, ...Render.statusLines(status, failure(acquired))])
}

const printChange = (before: Observation, after: Observation, json: boolean) => {
  if (json) return print(after, json)
  const [status, ...parts] = Render.statusLines(after.status, failure(after.acquired))
  return Effect.flatMap(DateTime.now, (now) =>
    Output.lines([
      `${DateTime.formatIso(now)} ${status}`,
      ...parts,
      ...Render.changeLines(snapshot(before), snapshot(after))
    ])
  )
}
