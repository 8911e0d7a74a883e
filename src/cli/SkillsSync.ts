import { Path } from "@effect/platform"
import { DateTime, Effect, Either, FiberRef, Logger, LogLevel, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import type { DeliveryError } from "../delivery/DeliveryError.js"
import type { DeliveryStatus } from "../delivery/DeliveryStatus.js"
import * as RegistryClient from "../delivery/RegistryClient.js"
import * as SkillDelivery from "../delivery/SkillDelivery.js"
import type { MaterializeError } from "../materialize/MaterializeError.js"
import * as MaterializeReport from "../materialize/MaterializeReport.js"
import * as SkillMaterializer from "../materialize/SkillMaterializer.js"
import { Unsuccessful, UsageError } from "./CliError.js"
import * as DeliverySettings from "./DeliverySettings.js"
import * as Output from "./Output.js"
import * as Progress from "./Progress.js"
import * as Render from "./Render.js"

export interface Options extends DeliverySettings.Options {
  readonly directory: string
  readonly within: Option.Option<string>
  readonly keepOnDenial: boolean
  readonly json: boolean
}

/** Makes a directory hold the skills that a registry delivers, or with `watch` keeps it so. Prints what each pass did. */
export const run = Effect.fnUntraced(function* ({ within, ...rest }: Options, screen: Progress.Screen) {
  const options = { ...rest, ...(yield* trusted(rest.directory, within)) }
  const progress = Progress.make(screen)
  const delivery = Effect.map(SkillDelivery.SkillDelivery, (delivery) => ({
    ...delivery,
    // Before anything is printed.
    acquire: Effect.ensuring(delivery.acquire, progress.clear)
  }))
  yield* (options.watch ? watch(options) : once(options)).pipe(
    Effect.provideServiceEffect(SkillDelivery.SkillDelivery, delivery),
    Effect.provide(DeliverySettings.layer(options)),
    Effect.provideService(RegistryClient.DownloadProgress, progress)
  )
})

/**
 * Below which directory no link is followed. What is below the working directory may have come with a clone, or an agent may have
 * written it; of a directory elsewhere nothing is known but that its parent was named.
 */
const trusted = Effect.fnUntraced(function* (directory: string, within: Option.Option<string>) {
  const path = yield* Path.Path
  const isBelow = (trusted: string) => {
    const relative = path.relative(path.resolve(trusted), path.resolve(directory))
    return relative !== "" && relative.split(path.sep)[0] !== ".." && !path.isAbsolute(relative)
  }
  if (Option.isSome(within)) {
    return isBelow(within.value)
      ? { within: within.value }
      : yield* new UsageError({ message: "--dir has to be below --within" })
  }
  return isBelow(".") ? { within: "." } : {}
})

/** What a pass takes of the options. */
interface PassOptions extends Omit<Options, "within"> {
  readonly within?: string
}

type Outcome = Either.Either<SkillMaterializer.SyncOutcome, MaterializeError>

/** How one pass ended, and the delivery's status after it. */
interface Pass {
  readonly outcome: Outcome
  readonly status: DeliveryStatus
}

const once = Effect.fnUntraced(function* (options: PassOptions) {
  const outcome = yield* Effect.either(SkillMaterializer.syncOnce(options))
  yield* print({ outcome, status: yield* SkillDelivery.status }, options)
  yield* reportFailed(outcome)
  const ended = yield* outcome
  if (ended._tag !== "Synced") return yield* ended.error
  if (ended.report.failed.length > 0) return yield* new Unsuccessful()
})

/** Prints the first pass, then each that did something or ended otherwise, until it is interrupted. */
const watch = Effect.fnUntraced(function* (options: PassOptions) {
  const delivery = yield* SkillDelivery.SkillDelivery
  const level = yield* FiberRef.get(FiberRef.currentMinimumLogLevel)
  let before: string | undefined
  return yield* SkillMaterializer.sync({
    ...options,
    onOutcome: Effect.fnUntraced(function* (outcome) {
      const pass = { outcome, status: yield* delivery.status }
      const ending = endingOf(pass)
      const isNews = ending !== before || Option.exists(Either.getRight(outcome), hasChanged)
      before = ending
      if (!isNews) return
      yield* print(pass, options)
      // JSON has said it.
      if (options.json) return
      yield* reportFailed(outcome)
      // A watch does not end by a failure, so nobody else says what it was.
      const error = errorOf(outcome)
      if (error !== undefined) yield* Output.problem(`${error._tag}: ${error.message}`)
    })
  }).pipe(
    // Its log says what is printed here; the delivery's own says more.
    Logger.withMinimumLogLevel(LogLevel.None),
    Effect.provideService(SkillDelivery.SkillDelivery, {
      ...delivery,
      acquire: Logger.withMinimumLogLevel(delivery.acquire, level)
    })
  )
})

const errorOf = (outcome: Outcome): DeliveryError | MaterializeError | undefined =>
  Either.match(outcome, {
    onLeft: (error) => error,
    onRight: (ended) => (ended._tag === "Synced" ? undefined : ended.error)
  })

const reportOf = (outcome: SkillMaterializer.SyncOutcome): Option.Option<MaterializeReport.MaterializeReport> => {
  switch (outcome._tag) {
    case "Synced":
      return Option.some(outcome.report)
    case "Denied":
      return outcome.report
    case "Unavailable":
      return Option.none()
  }
}

const hasChanged = (outcome: SkillMaterializer.SyncOutcome): boolean =>
  Option.exists(
    reportOf(outcome),
    ({ removed, restored, written }) => written.length + removed.length + restored.length > 0
  )

/** What is the same of two passes that ended alike. */
const endingOf = ({ outcome, status }: Pass): string =>
  JSON.stringify([
    errorOf(outcome)?.message,
    ...Option.toArray(Either.getRight(outcome)).map((ended) => [
      ended._tag === "Synced" ? ended.revision : undefined,
      Option.map(reportOf(ended), ({ failed }) => failed)
    ]),
    status.stale,
    status.lastError?.code
  ])

const reportFailed = (outcome: Outcome): Effect.Effect<void> =>
  Effect.forEach(
    Option.toArray(Option.flatMap(Either.getRight(outcome), reportOf)).flatMap(({ failed }) => failed),
    (failed) => Output.problem(MaterializeReport.format(failed)),
    { discard: true }
  )

const print = Effect.fnUntraced(function* (pass: Pass, { directory, json, watch }: PassOptions) {
  if (json) return yield* Output.json(toJson(pass, directory))
  const error = errorOf(pass.outcome)
  const reported = error?._tag === "MATERIALIZE_FAILED" ? undefined : error
  const [first, ...more] = outcomeLines(pass.outcome, directory)
  const time = watch ? `${DateTime.formatIso(yield* DateTime.now)} ` : ""
  yield* Output.lines([`${time}${first}`, ...more, ...Render.statusLines(pass.status, reported)])
})

const toJson = ({ outcome, status }: Pass, directory: string) => {
  const delivered = { directory, status: Render.statusJson(status) }
  if (Either.isLeft(outcome)) {
    const { _tag: code, detail, message, path, reason } = outcome.left
    return {
      outcome: "failed",
      error: { code, message, path, reason, ...(detail === undefined ? {} : { detail }) },
      ...delivered
    }
  }
  const ended = outcome.right
  const report = Option.match(reportOf(ended), { onNone: () => ({}), onSome: (report) => ({ report }) })
  return ended._tag === "Synced"
    ? { outcome: "synced", revision: ended.revision, ...report, ...delivered }
    : { outcome: ended._tag.toLowerCase(), error: Render.errorJson(ended.error), ...report, ...delivered }
}

const outcomeLines = (outcome: Outcome, directory: string): readonly [string, ...ReadonlyArray<string>] => {
  const shown = display(directory)
  if (Either.isLeft(outcome)) return [`failed    ${shown}`]
  const ended = outcome.right
  const report = reportOf(ended)
  const verdict = ended._tag === "Synced" ? "synced    " : ended._tag === "Denied" ? "denied    " : "unavailable "
  if (Option.isNone(report)) return [`${verdict}${shown} (left as it is)`]
  const { failed, kept, leftovers, removed, restored, written } = report.value
  const counts = `${written.length} written, ${kept.length} kept, ${removed.length} removed, ${failed.length} failed`
  return [
    `${verdict}${shown} (${counts})`,
    ...restored.map((name) => `  < ${Render.quote(name)}: put back after a pass that was cut off`),
    ...written.map(
      (skill) => `  + ${nameOf(skill)}: ${Render.count(skill.files, "file")}, ${Render.count(skill.bytes, "byte")}`
    ),
    ...removed.map((skill) => `  - ${nameOf(skill)}: ${skill.reason}`),
    ...leftovers.map(
      ({ detail, name, reason }) => `  ! ${Render.quote(name)}: cannot be cleared away, ${detail ?? reason}`
    )
  ]
}

const nameOf = ({ directory, skillId }: { readonly directory: string; readonly skillId: string }): string =>
  directory === skillId ? Render.quote(skillId) : `${Render.quote(skillId)} in ${Render.quote(directory)}`
