import { FetchHttpClient } from "@effect/platform"
import { Config, ConfigProvider, DateTime, Effect, Either, Layer, Option } from "effect"
import type { DeliveryError } from "../delivery/DeliveryError.js"
import * as DeliveryStatus from "../delivery/DeliveryStatus.js"
import * as RegistryClient from "../delivery/RegistryClient.js"
import * as SkillCatalog from "../delivery/SkillCatalog.js"
import * as SkillDelivery from "../delivery/SkillDelivery.js"
import type { VerifiedSnapshot } from "../delivery/Snapshot.js"
import * as SnapshotCache from "../delivery/SnapshotCache.js"
import { UsageError } from "./CliError.js"
import * as Output from "./Output.js"
import * as Progress from "./Progress.js"
import * as Render from "./Render.js"

export interface Options {
  readonly apiUrl: Option.Option<string>
  readonly containers: ReadonlyArray<string>
  readonly revision: Option.Option<string>
  readonly watch: boolean
  readonly json: boolean
}

/** Acquires once, or with `watch` again and again. Prints the catalog and the status, then each change. */
export const run = Effect.fnUntraced(function* (options: Options, screen: Progress.Screen) {
  if (options.containers.length > 1 && Option.isSome(options.revision)) {
    return yield* new UsageError({ message: "--revision pins one container and cannot be used with several" })
  }
  const progress = Progress.make(screen)
  const observe = Effect.ensuring(observation, progress.clear)
  yield* (options.watch ? watch(observe, options.json) : once(observe, options.json)).pipe(
    Effect.provide(layer(options)),
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

/** The settings, each with the flag that replaces it. */
const flagOf: Readonly<Record<string, string>> = {
  INTELLIGENCE_API_URL: "--api-url",
  CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "--container",
  CPK_INTELLIGENCE_SKILLS_REVISION: "--revision"
}

const required = ["INTELLIGENCE_API_URL", "CPK_INTELLIGENCE_API_KEY", "CPK_INTELLIGENCE_LEARNING_CONTAINER_ID"]

/** The services from the environment's settings and the flags. */
const layer = ({ apiUrl, containers, revision, watch }: Options) => {
  const flags = new Map<string, string>([
    ...Option.toArray(apiUrl).map((value) => ["INTELLIGENCE_API_URL", value] as const),
    ...containers.map((value) => ["CPK_INTELLIGENCE_LEARNING_CONTAINER_ID", value] as const),
    ...Option.toArray(revision).map((value) => ["CPK_INTELLIGENCE_SKILLS_REVISION", value] as const)
  ])
  const settings = ConfigProvider.orElse(ConfigProvider.fromMap(flags), ConfigProvider.fromEnv)
  const services = SkillDelivery.layerConfig({
    // One container is the single form, several are a list (contract, Lifecycle 12).
    ...(containers.length > 1 ? { containers } : {}),
    ...(watch ? { freshness: 0 } : {})
  }).pipe(
    Layer.provide([RegistryClient.layerConfig, SnapshotCache.layerConfig]),
    Layer.provide([FetchHttpClient.layer, Layer.setConfigProvider(settings)]),
    Layer.mapError((error) => {
      // A list has no variable; its container ids come from flags alone.
      const flag = flags.has(error.setting)
        ? flagOf[error.setting]
        : /^containers?$/.test(error.setting) && "--container"
      return unusable(`${flag || error.setting}: ${error.problem}`)
    })
  )
  return Layer.unwrapEffect(Effect.as(requireAll(settings), services))
}

/** All that is missing at once, not one per attempt. */
const requireAll = Effect.fnUntraced(function* (settings: ConfigProvider.ConfigProvider) {
  const missing = yield* Effect.filter(required, (variable) => Effect.isFailure(settings.load(Config.string(variable))))
  if (missing.length === 0) return
  const remedies = missing.map((variable) => {
    const flag = flagOf[variable]
    return `set ${variable}${flag === undefined ? "" : ` or give ${flag}`}`
  })
  return yield* unusable(remedies.join("; "))
})

/** A setting that cannot be used is wrong usage; the same code in a registry's answer is not, and takes another way. */
const unusable = (problem: string) => new UsageError({ message: `INVALID_CONFIG: ${problem}` })
