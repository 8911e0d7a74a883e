import { Effect, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as Policy from "../publishing/Policy.js"
import type * as SkillBundle from "../publishing/SkillBundle.js"
import type { UploadProblem, UploadWarning } from "../publishing/UploadProblem.js"
import { Unsuccessful, UsageError } from "./CliError.js"
import * as Output from "./Output.js"
import * as Render from "./Render.js"
import * as Sarif from "./Sarif.js"
import * as SkillTarget from "./SkillTarget.js"

export interface Options {
  readonly targets: ReadonlyArray<string>
  readonly policy: Option.Option<string>
  readonly json: boolean
  readonly sarif: boolean
}

/** Checks skills as a registry would, and whether a container could deliver them: every problem, then the verdict. */
export const run = Effect.fnUntraced(function* ({ json, policy: name, sarif, targets }: Options) {
  if (json && sarif) return yield* new UsageError({ message: "give --json or --sarif, not both" })
  const policy = yield* policyOf(name)
  const results: Array<Sarif.Result> = []
  let isGood = true
  for (const target of yield* SkillTarget.all(targets)) {
    const checked = yield* check(target, policy)
    isGood &&= checked.problems.length === 0
    if (sarif) results.push(...resultsOf(target, checked))
    else yield* json ? Output.json(toJson(target, policy, checked)) : Output.lines(toLines(target, checked))
  }
  if (sarif) yield* Effect.flatMap(Sarif.log(results), Output.json)
  if (!isGood) return yield* new Unsuccessful()
})

const policyOf = (name: Option.Option<string>) =>
  Option.match(name, {
    onNone: () => Effect.succeed(Policy.seed),
    onSome: (name) =>
      Effect.mapError(
        Policy.byName(name),
        () => new UsageError({ message: `--policy takes ${Policy.all.map((policy) => policy.name).join(" or ")}` })
      )
  })

interface Checked {
  /** The skill, where the upload is one. Without its archive: there may be many skills. */
  readonly skill: Option.Option<Omit<SkillBundle.SkillBundle, "archive" | "warnings">>
  readonly problems: ReadonlyArray<UploadProblem>
  readonly warnings: ReadonlyArray<UploadWarning>
}

const check = (target: SkillTarget.SkillTarget, policy: Policy.Policy) =>
  target.bundle({ policy, deliverable: true }).pipe(
    Effect.map(
      ({ archive: _, warnings, ...skill }): Checked => ({ skill: Option.some(skill), problems: [], warnings })
    ),
    Effect.catchTag("INVALID_UPLOAD", ({ problems, warnings }) =>
      Effect.succeed<Checked>({ skill: Option.none(), problems, warnings })
    )
  )

const toLines = (target: SkillTarget.SkillTarget, { problems, skill, warnings }: Checked): ReadonlyArray<string> => {
  const verdict = problems.length === 0 ? "valid    " : "invalid  "
  const counts = [
    ...Option.match(skill, {
      onNone: () => [],
      onSome: ({ files }) => [Render.count(files.length, "file")]
    }),
    ...(problems.length === 0 ? [] : [Render.count(problems.length, "problem")]),
    ...(warnings.length === 0 ? [] : [Render.count(warnings.length, "warning")])
  ]
  return [
    ...problems.map((problem) => SkillTarget.format(target, problem)),
    ...warnings.map((warning) => SkillTarget.format(target, warning, "warning: ")),
    `${verdict} ${display(target.path)} (${counts.join(", ")})`
  ]
}

const toJson = (target: SkillTarget.SkillTarget, policy: Policy.Policy, { problems, skill, warnings }: Checked) => {
  const located = (finding: UploadProblem | UploadWarning) => ({ ...finding, path: target.locate(finding.file).path })
  return {
    verdict: problems.length === 0 ? "valid" : "invalid",
    target: target.path,
    policy: policy.name,
    ...Option.getOrElse(skill, () => ({})),
    problems: problems.map(located),
    warnings: warnings.map(located)
  }
}

const resultsOf = (target: SkillTarget.SkillTarget, { problems, warnings }: Checked): ReadonlyArray<Sarif.Result> => {
  const result =
    (level: Sarif.Result["level"]) =>
    (finding: UploadProblem | UploadWarning): Sarif.Result => {
      const { file, member } = target.locate(finding.file)
      const message = member === undefined ? finding.message : `${member}: ${finding.message}`
      return { rule: finding.rule, level, message, file }
    }
  return [...problems.map(result("error")), ...warnings.map(result("warning"))]
}
