import { FileSystem, Path } from "@effect/platform"
import { Effect, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as Deliverability from "../publishing/Deliverability.js"
import * as SkillPackage from "../publishing/SkillPackage.js"
import * as AtomicFile from "./AtomicFile.js"
import { UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"
import * as Output from "./Output.js"
import * as Render from "./Render.js"
import * as SkillTarget from "./SkillTarget.js"

export interface Options {
  readonly source: string
  readonly output: Option.Option<string>
  readonly json: boolean
}

/** Packs a skill as the archive that a registry stores: the file, and its digest. */
export const run = Effect.fnUntraced(function* ({ json, source, ...options }: Options) {
  const target = yield* SkillTarget.one(source)
  const bundle = yield* target.bundle().pipe(
    Effect.catchTag("INVALID_UPLOAD", ({ problems }) =>
      SkillTarget.reportInvalid(target, problems, {
        consequence: "is not a valid skill, and nothing is written",
        json
      })
    )
  )
  const { archive, warnings, ...skill } = bundle
  const output = Option.getOrElse(options.output, () => `${skill.name}.zip`)
  yield* requireReplaceable(output)
  yield* requireOutside(source, output)
  yield* Effect.mapError(AtomicFile.write(output, archive), (error) => unwritable(output, InputFile.reason(error)))
  // What no container could deliver can be packed, and published for others than agents.
  const problems = yield* Deliverability.check(bundle)
  yield* Effect.forEach(problems, (problem) => Output.problem(SkillTarget.format(target, problem)))
  yield* Effect.forEach(warnings, (warning) => Output.problem(SkillTarget.format(target, warning, "warning: ")))
  yield* json
    ? Output.json({ archive: output, archiveBytes: archive.length, ...skill, problems, warnings })
    : Output.lines([
        `packed    ${display(output)} (${Render.count(skill.files.length, "file")}, ${Render.count(archive.length, "byte")})`,
        `sha256    ${skill.sha256}`
      ])
})

const unwritable = (output: string, problem: string) =>
  new UsageError({ message: `cannot write ${display(output)}: ${problem}` })

/** An earlier archive is replaced, and an empty file; whatever else is there was not meant. */
const requireReplaceable = Effect.fnUntraced(function* (output: string) {
  const fs = yield* FileSystem.FileSystem
  // There is no `lstat`; only a link can be read as one.
  if (yield* Effect.isSuccess(fs.readLink(output))) return yield* unwritable(output, "is a link")
  const found = yield* Effect.option(fs.stat(output))
  if (Option.isNone(found)) return
  if (found.value.type !== "File") {
    return yield* unwritable(output, found.value.type === "Directory" ? "is a directory" : "is no file")
  }
  const start = yield* InputFile.bytes(output, 4)
  if (start.length > 0 && !SkillPackage.isZip(start)) {
    return yield* unwritable(output, "is there already, and is no ZIP archive")
  }
})

/** In the directory that is packed the archive would be a file of the skill the next time; in its own place it would be lost. */
const requireOutside = Effect.fnUntraced(function* (source: string, output: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const real = (at: string) => Effect.orElseSucceed(fs.realPath(at), () => path.resolve(at))
  const from = yield* real(source)
  const to = path.join(yield* real(path.dirname(output)), path.basename(output))
  if (to === from) return yield* unwritable(output, "is what is packed; choose another place with -o")
  const relative = path.relative(from, to)
  if (relative.split(path.sep)[0] !== ".." && !path.isAbsolute(relative)) {
    return yield* unwritable(output, "is in the skill, and would be packed with it; choose another place with -o")
  }
})
