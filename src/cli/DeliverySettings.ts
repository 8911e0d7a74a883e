/**
 * The delivery that a command line asks for: the environment's settings, and the flags that replace them.
 *
 * @module
 */
import { FetchHttpClient } from "@effect/platform"
import { Config, ConfigProvider, Duration, Effect, Layer, Option, Redacted } from "effect"
import * as RegistryClient from "../delivery/RegistryClient.js"
import * as SkillDelivery from "../delivery/SkillDelivery.js"
import * as SnapshotCache from "../delivery/SnapshotCache.js"
import { UsageError } from "./CliError.js"
import * as KeyFile from "./KeyFile.js"

export interface Options {
  readonly apiUrl: Option.Option<string>
  readonly keyFile: Option.Option<string>
  readonly containers: ReadonlyArray<string>
  readonly revision: Option.Option<string>
  readonly timeout: Option.Option<string>
  /** Asks the registry each time: whoever watches says when. */
  readonly watch: boolean
}

/** The settings, each with the flag that replaces it. */
const flagOf: Readonly<Record<string, string>> = {
  INTELLIGENCE_API_URL: "--api-url",
  CPK_INTELLIGENCE_API_KEY: "--key-file",
  CPK_INTELLIGENCE_LEARNING_CONTAINER_ID: "--container",
  CPK_INTELLIGENCE_SKILLS_REVISION: "--revision"
}

/** What has no setting comes from a flag alone. */
const flagOfOption: Readonly<Record<string, string>> = {
  container: "--container",
  containers: "--container",
  revision: "--revision",
  timeout: "--timeout"
}

const required = ["INTELLIGENCE_API_URL", "CPK_INTELLIGENCE_API_KEY", "CPK_INTELLIGENCE_LEARNING_CONTAINER_ID"]

/** The delivery, or as a usage error what keeps it from being made. */
export const layer = (options: Options) =>
  Layer.unwrapEffect(
    Effect.map(Effect.transposeMapOption(options.keyFile, KeyFile.read), (apiKey) => layerOf(options, apiKey))
  )

const layerOf = (options: Options, apiKey: Option.Option<Redacted.Redacted>) => {
  const { apiUrl, containers, revision, timeout, watch } = options
  const flags = new Map<string, string>([
    ...Option.toArray(apiUrl).map((value) => ["INTELLIGENCE_API_URL", value] as const),
    ...Option.toArray(apiKey).map((value) => ["CPK_INTELLIGENCE_API_KEY", Redacted.value(value)] as const),
    ...containers.map((value) => ["CPK_INTELLIGENCE_LEARNING_CONTAINER_ID", value] as const),
    ...Option.toArray(revision).map((value) => ["CPK_INTELLIGENCE_SKILLS_REVISION", value] as const)
  ])
  const settings = ConfigProvider.orElse(ConfigProvider.fromMap(flags), ConfigProvider.fromEnv)
  const times = {
    ...(Option.isSome(timeout) ? { timeout: Duration.seconds(Number(timeout.value)) } : {}),
    ...(watch ? { freshness: 0 } : {})
  }
  // One container is the single form, several are a list (contract, Lifecycle 12).
  const [container, ...others] = containers
  const delivery =
    container === undefined
      ? SkillDelivery.layerConfig(times)
      : SkillDelivery.layer(
          others.length > 0
            ? { ...times, containers }
            : { ...times, container, ...(Option.isSome(revision) ? { revision: revision.value } : {}) }
        )
  const services = delivery.pipe(
    Layer.provide([RegistryClient.layerConfig, SnapshotCache.layerConfig]),
    Layer.provide([FetchHttpClient.layer, Layer.setConfigProvider(settings)]),
    Layer.mapError((error) => {
      const setting = flags.has(error.setting) ? flagOf[error.setting] : flagOfOption[error.setting]
      const isPin = setting === undefined && error.setting === "CPK_INTELLIGENCE_SKILLS_REVISION"
      return unusable(`${setting ?? error.setting}: ${error.problem}${isPin ? "; correct it or unset it" : ""}`)
    })
  )
  return Layer.unwrapEffect(requireUsable(options).pipe(Effect.zipRight(requireAll(settings)), Effect.as(services)))
}

const requireUsable = Effect.fnUntraced(function* (options: Options) {
  if (options.containers.length > 1 && Option.isSome(options.revision)) {
    return yield* new UsageError({ message: "--revision pins one container and cannot be used with several" })
  }
  if (Option.exists(options.timeout, (text) => !/^\d+(?:\.\d+)?$/.test(text) || Number(text) === 0)) {
    return yield* new UsageError({ message: "--timeout takes a number of seconds above 0, such as 30" })
  }
})

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
