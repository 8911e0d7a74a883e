import { Effect, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import type { FixtureError } from "../conformance/FixtureFile.js"
import * as FixtureManifest from "../conformance/FixtureManifest.js"
import * as LifecycleSuite from "../conformance/LifecycleSuite.js"
import * as Report from "../conformance/Report.js"
import * as RunnerSuite from "../conformance/RunnerSuite.js"
import * as SnapshotSuite from "../conformance/SnapshotSuite.js"
import * as Snapshot from "../delivery/Snapshot.js"
import { Unsuccessful, UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"
import * as Output from "./Output.js"
import * as Progress from "./Progress.js"

export interface Options {
  readonly snapshots: Option.Option<string>
  readonly lifecycle: Option.Option<string>
  readonly runner: Option.Option<string>
  readonly json: boolean
}

/** Where the project's own fixture files are. */
export interface OwnFixtures {
  readonly snapshots: string
  readonly lifecycle: string
  /** A directory. */
  readonly runner: string
}

/**
 * Runs the files that are named, or all of the project's own when none is. A lifecycle file without a snapshot file refers
 * to the project's own snapshots, which then are not run themselves.
 */
export const run = Effect.fnUntraced(function* (
  { json, lifecycle, runner, snapshots }: Options,
  own: OwnFixtures,
  screen: Progress.Screen
) {
  const running = ({ length }: { readonly length: number }) => Progress.during(screen, `running ${length} cases`)
  const runsAll = [snapshots, lifecycle, runner].every(Option.isNone)
  const reports: Array<Report.Report> = []
  if (runsAll || Option.isSome(snapshots) || Option.isSome(lifecycle)) {
    const snapshotFile = Option.getOrElse(snapshots, () => own.snapshots)
    const snapshotSuite = yield* load(snapshotFile, kinds.snapshots, kinds.lifecycle)
    if (runsAll || Option.isSome(snapshots)) {
      reports.push(yield* SnapshotSuite.run(snapshotSuite).pipe(running(snapshotSuite.cases)))
    }
    if (runsAll || Option.isSome(lifecycle)) {
      const lifecycleFile = Option.getOrElse(lifecycle, () => own.lifecycle)
      const lifecycleSuite = yield* load(lifecycleFile, kinds.lifecycle, kinds.snapshots)
      reports.push(yield* LifecycleSuite.run(lifecycleSuite, snapshotSuite).pipe(running(lifecycleSuite.cases)))
    }
  }
  if (runsAll || Option.isSome(runner)) {
    const directory = Option.getOrElse(runner, () => own.runner)
    const files = yield* Effect.mapError(FixtureManifest.readFiles(directory), InputFile.unreadable(directory))
    reports.push(
      yield* RunnerSuite.run(files).pipe(
        running(files),
        Effect.catchTags({
          FixtureError: () =>
            new UsageError({ message: `${display(directory)} has no manifest.json of the runner protocol` }),
          // Bundled with the command line.
          JsonSchemaUnavailable: Effect.die
        })
      )
    )
  }
  const report = Report.merge(reports)
  yield* json ? Output.json(report) : Output.lines(Report.lines(report))
  if (report.results.length === 0) return yield* new UsageError({ message: "the files have no cases" })
  if (report.failed > 0) return yield* new Unsuccessful()
})

/** An archive of the most bytes that the contract allows, in base64, and as much again for the rest. */
const maximumBytes = 2 * Math.ceil(Snapshot.limits.archiveBytes / 3) * 4

interface Kind<A> {
  readonly name: string
  readonly flag: string
  readonly decode: (text: string) => Effect.Effect<A, FixtureError>
}

const kinds = {
  snapshots: { name: "a snapshot file", flag: "--snapshots", decode: SnapshotSuite.decode },
  lifecycle: { name: "a lifecycle file", flag: "--lifecycle", decode: LifecycleSuite.decode }
} as const

const load = Effect.fnUntraced(function* <A>(path: string, kind: Kind<A>, other: Kind<unknown>) {
  const text = yield* InputFile.text(path, maximumBytes)
  return yield* Effect.catchAll(
    kind.decode(text),
    Effect.fnUntraced(function* ({ problems }) {
      if (yield* Effect.isSuccess(other.decode(text))) {
        const message = `${display(path)} is ${other.name}, not ${kind.name}: give it with ${other.flag}`
        return yield* new UsageError({ message })
      }
      const omitted = problems.length - shownProblems
      const lines = [...problems.slice(0, shownProblems), ...(omitted > 0 ? [`... and ${omitted} more`] : [])]
      return yield* new UsageError({ message: `${display(path)} is not ${kind.name}: ${lines.join("\n")}` })
    })
  )
})

/** What is wrong with one case is often wrong with all. */
const shownProblems = 5
