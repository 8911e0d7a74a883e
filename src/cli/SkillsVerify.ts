import { Effect, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as Digest from "../archive/Digest.js"
import type { InvalidSnapshot, UnsupportedServer } from "../delivery/DeliveryError.js"
import * as Snapshot from "../delivery/Snapshot.js"
import { Unsuccessful, UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"
import * as Output from "./Output.js"
import * as Render from "./Render.js"

export interface Options {
  readonly archive: string
  readonly revision: Option.Option<string>
  readonly etag: Option.Option<string>
  readonly json: boolean
}

/** Verifies an archive file: the verdict and what is in it, or the rule that it breaks. */
export const run = Effect.fnUntraced(function* ({ archive, json, revision, ...options }: Options) {
  const etag = Option.map(options.etag, (text) => (text.startsWith('"') ? text : `"${text}"`))
  if (Option.exists(etag, (text) => !Digest.etagPattern.test(text))) {
    return yield* new UsageError({
      message: "--etag takes 64 lower-case hex digits, with or without quotes around them"
    })
  }
  // One byte more than allowed is enough to refuse it.
  const bytes = yield* InputFile.bytes(archive, Snapshot.limits.archiveBytes + 1)
  const snapshot = yield* Snapshot.verifyArchive(bytes, {
    ...(Option.isSome(revision) ? { revision: revision.value } : {}),
    ...(Option.isSome(etag) ? { etag: etag.value } : {})
  }).pipe(
    Effect.catchAll(
      Effect.fnUntraced(function* (error) {
        const message = describe(error, revision)
        yield* json
          ? Output.json({ verdict: "invalid", archive, error: { ...Render.errorJson(error), message } })
          : Output.lines([`invalid   ${display(archive)}`])
        yield* Output.problem(`${error._tag}: ${message}`)
        return yield* new Unsuccessful()
      })
    )
  )
  yield* json
    ? Output.json({ verdict: "valid", archive, archiveBytes: bytes.length, ...Render.snapshotJson(snapshot) })
    : Output.lines([`valid     ${display(archive)} (${bytes.length} bytes)`, ...Render.snapshotLines(snapshot)])
})

/** What the error says, in the words of the command line: there is no answer that the manifest could differ from. */
const describe = (error: InvalidSnapshot | UnsupportedServer, revision: Option.Option<string>): string =>
  error._tag === "INVALID_SNAPSHOT" && error.check === "manifest-revision" && Option.isSome(revision)
    ? `The snapshot is not valid: manifest-revision (--revision is ${Render.quote(revision.value)}, the manifest says another one).`
    : error.message
