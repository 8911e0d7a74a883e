import { Effect, Option } from "effect"
import { display } from "../archive/ArchivePath.js"
import * as Snapshot from "../delivery/Snapshot.js"
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
export const run = Effect.fnUntraced(function* ({ archive, json, ...expected }: Options) {
  // One byte more than allowed is enough to refuse it.
  const bytes = yield* InputFile.bytes(archive, Snapshot.limits.archiveBytes + 1)
  const snapshot = yield* Snapshot.verifyArchive(bytes, {
    ...(Option.isSome(expected.revision) ? { revision: expected.revision.value } : {}),
    ...(Option.isSome(expected.etag) ? { etag: expected.etag.value } : {})
  }).pipe(
    Effect.tapError((error) =>
      json
        ? Output.json({ verdict: "invalid", archive, error: Render.errorJson(error) })
        : Output.lines([`invalid   ${display(archive)}`])
    )
  )
  yield* json
    ? Output.json({ verdict: "valid", archive, archiveBytes: bytes.length, ...Render.snapshotJson(snapshot) })
    : Output.lines([`valid     ${display(archive)} (${bytes.length} bytes)`, ...Render.snapshotLines(snapshot)])
})
