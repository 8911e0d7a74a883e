import { Effect, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as LifecycleSuite from "../conformance/LifecycleSuite.js"
import * as Report from "../conformance/Report.js"
import * as SnapshotSuite from "../conformance/SnapshotSuite.js"
import * as Snapshot from "../delivery/Snapshot.js"
import { Unsuccessful, UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"
import * as Output from "./Output.js"

export interface Options {
  readonly snapshots: Option.Option<string>
  readonly lifecycle: Option.Option<string>
  readonly json: boolean
}

/** Where the project's own fixture files are. */
export interface OwnFixtures {
  readonly snapshots: string
  readonly lifecycle: string
}

/**
 * Runs the files that are named, or both of the project's own when none is. A lifecycle file without a snapshot file refers
 * to the project's own snapshots, which then are not run themselves.
 */
export const run = Effect.fnUntraced(function* ({ json, lifecycle, snapshots }: Options, own: OwnFixtures) {
  const runsAll = Option.isNone(snapshots) && Option.isNone(lifecycle)
  const snapshotFile = Option.getOrElse(snapshots, () => own.snapshots)
  const snapshotSuite = yield* load(snapshotFile, SnapshotSuite.decode)
  const reports: Array<Report.Report> = []
  if (runsAll || Option.isSome(snapshots)) {
    reports.push(yield* SnapshotSuite.run(snapshotSuite))
  }
  if (runsAll || Option.isSome(lifecycle)) {
    const lifecycleFile = Option.getOrElse(lifecycle, () => own.lifecycle)
    const lifecycleSuite = yield* load(lifecycleFile, LifecycleSuite.decode)
    reports.push(yield* LifecycleSuite.run(lifecycleSuite, snapshotSuite))
  }
  const report = Report.merge(reports)
  yield* json ? Output.json(report) : Output.lines(Report.lines(report))
  if (report.results.length === 0) return yield* new UsageError({ message: "the files have no cases" })
  if (report.failed > 0) return yield* new Unsuccessful()
})

/** An archive of the most bytes that the contract allows, in base64, and as much again for the rest. */
const maximumBytes = 2 * Math.ceil(Snapshot.limits.archiveBytes / 3) * 4

const load = <A, E extends { readonly message: string }>(path: string, decode: (text: string) => Effect.Effect<A, E>) =>
  Effect.flatMap(InputFile.text(path, maximumBytes), (text) =>
    Effect.mapError(
      decode(text),
      (error) => new UsageError({ message: `${display(path)} is not such a fixture file: ${error.message}` })
    )
  )
