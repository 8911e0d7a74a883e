import { FileSystem, Path } from "@effect/platform"
import { Effect, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as Policy from "../publishing/Policy.js"
import * as SkillBundle from "../publishing/SkillBundle.js"
import * as SkillPackage from "../publishing/SkillPackage.js"
import type { InvalidUpload } from "../publishing/UploadProblem.js"
import { Unsuccessful, UsageError } from "./CliError.js"
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
  const bundle = yield* target
    .bundle(Policy.seed)
    .pipe(Effect.catchTag("INVALID_UPLOAD", (error) => reportInvalid(target, error, json)))
  const { archive, warnings: ofUpload, ...skill } = bundle
  const output = Option.getOrElse(options.output, () => `${skill.name}.zip`)
  yield* requireReplaceable(output)
  yield* requireOutside(source, output)
  yield* write(output, archive)
  // What no container could deliver can be packed, and published for others than agents.
  const warnings = [...ofUpload, ...SkillBundle.deliverable(bundle)]
  yield* Effect.forEach(warnings, (warning) => Output.problem(SkillTarget.format(target, warning, "warning: ")))
  yield* json
    ? Output.json({ archive: output, archiveBytes: archive.length, ...skill, warnings })
    : Output.lines([
        `packed    ${display(output)} (${Render.count(skill.files.length, "file")}, ${Render.count(archive.length, "byte")})`,
        `sha256    ${skill.sha256}`
      ])
})

const reportInvalid = Effect.fnUntraced(function* (
  target: SkillTarget.SkillTarget,
  { _tag: code, problems }: InvalidUpload,
  json: boolean
) {
  if (json) yield* Output.json({ error: { code, problems } })
  const lines = problems.map((problem) => SkillTarget.format(target, problem))
  yield* Output.problem(
    [`${code}: ${display(target.path)} is not a valid skill, and nothing is written`, ...lines].join("\n")
  )
  return yield* new Unsuccessful()
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

/** Beside its place, synced and renamed: whatever happens, the old file or the new one is there, whole. */
const write = (output: string, archive: Uint8Array) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = path.dirname(output)
    const temporary = path.join(directory, `.${crypto.randomUUID()}.zip.tmp`)
    const writeTemporary = Effect.scoped(
      Effect.gen(function* () {
        const handle = yield* fs.open(temporary, { flag: "wx" })
        yield* handle.writeAll(archive)
        yield* handle.sync
      })
    )
    // Syncing the directory makes the rename survive a power failure, on systems that can; what goes wrong undoes nothing.
    const syncDirectory = Effect.exit(Effect.scoped(Effect.flatMap(fs.open(directory), (handle) => handle.sync)))
    yield* writeTemporary.pipe(
      Effect.zipRight(fs.rename(temporary, output)),
      Effect.onError(() => Effect.ignore(fs.remove(temporary, { force: true }))),
      Effect.zipRight(syncDirectory),
      // The platform does not take back a system call: one that ended later could leave the temporary file behind.
      Effect.uninterruptible
    )
  }).pipe(Effect.mapError((error) => unwritable(output, InputFile.reason(error))))
