/**
 * `snapshots.v1.json`: whole ZIP archives with the metadata of their response, and whether they are valid (contract,
 * Fixture files).
 *
 * @module
 */
import { type Duration, Effect, Schema } from "effect"
import { DeliveryCode, type DeliveryError, SnapshotCheck } from "../delivery/DeliveryError.js"
import * as Snapshot from "../delivery/Snapshot.js"
import * as FixtureFile from "./FixtureFile.js"
import * as Outcome from "./Outcome.js"
import * as Report from "./Report.js"

/** One archive, as a registry would answer with it. */
export const SnapshotCase = Schema.Struct({
  name: Schema.String,
  /** The whole archive. */
  archiveBase64: Schema.Uint8ArrayFromBase64.annotations({ message: () => "is not base64" }),
  revision: Schema.String,
  etag: Schema.String,
  expected: FixtureFile.oneOf(["valid", ...DeliveryCode.literals]),
  /** The rule that must be the broken one. Ours: other implementations need not name rules as we do. */
  check: Schema.optionalWith(FixtureFile.oneOf(SnapshotCheck.literals), { exact: true })
})
export type SnapshotCase = typeof SnapshotCase.Type

/** The whole file. */
export const SnapshotSuite = Schema.Struct({
  contract: Schema.Literal(FixtureFile.contract),
  cases: Schema.Array(SnapshotCase)
})
export type SnapshotSuite = typeof SnapshotSuite.Type

/** Text of a snapshot file -> suite. Fails with `FixtureError`, which names the case and the member at fault. */
export const decode = (text: string): Effect.Effect<SnapshotSuite, FixtureFile.FixtureError> =>
  FixtureFile.decode(SnapshotSuite, text)

/** The response that the case stands for. */
export const response = (self: SnapshotCase): Snapshot.SnapshotResponse => ({
  revision: self.revision,
  etag: self.etag,
  contentType: "application/zip",
  archive: self.archiveBase64
})

export interface Options {
  /** What is under test. Default: `Snapshot.verify`. */
  readonly verify?: (response: Snapshot.SnapshotResponse) => Effect.Effect<unknown, DeliveryError>
  /** A case that takes longer has failed, so that one that never ends does not hang the run. Default: 30 seconds. */
  readonly patience?: Duration.DurationInput
}

/**
 * Verifies every archive of the suite and compares the outcome with what the file expects. Never fails: a case that
 * fails, dies or never ends is a failing case of the report.
 *
 * @example
 * ```ts
 * import { Report, SnapshotSuite } from "effect-agent-contracts/conformance"
 * import { Effect } from "effect"
 * import { readFile } from "node:fs/promises"
 *
 * const program = Effect.gen(function* () {
 *   const path = "node_modules/effect-agent-contracts/fixtures/snapshots.v1.json"
 *   const suite = yield* SnapshotSuite.decode(yield* Effect.promise(() => readFile(path, "utf8")))
 *   return Report.lines(yield* SnapshotSuite.run(suite))
 * })
 *
 * Effect.runPromise(program).then((lines) => console.log(lines.join("\n")))
 * ```
 */
export const run = Effect.fn("SnapshotSuite.run")(function* (suite: SnapshotSuite, options: Options = {}) {
  const { patience = "30 seconds", verify = Snapshot.verify } = options
  const results = yield* Effect.forEach(suite.cases, (self) =>
    Outcome.within(verify(response(self)), patience).pipe(Effect.map((outcome) => result(self, outcome)))
  )
  return Report.make(results)
})

const result = (self: SnapshotCase, outcome: Outcome.Outcome<unknown>): Report.CaseResult => {
  const got = Outcome.match(outcome, {
    Success: () => ({ word: "valid", check: undefined }),
    Failure: ({ error }) => ({ word: error._tag, check: error._tag === "INVALID_SNAPSHOT" ? error.check : undefined }),
    Broken: ({ problem }) => ({ word: problem, check: undefined })
  })
  // Where the file names no rule, which rule was broken is the verifier's own affair.
  const check = self.check === undefined ? undefined : got.check
  return {
    name: self.name,
    passed: got.word === self.expected && check === self.check,
    expected: describe(self.expected, self.check),
    got: describe(got.word, got.check)
  }
}

const describe = (word: string, check: SnapshotCheck | undefined): string =>
  check === undefined ? word : `${word} (${check})`
