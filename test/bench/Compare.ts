import { readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"

/** The argument that makes the bundle run the fixtures through the adapter: `npm run bench -- --compare`. */
export const compareFlag = "--compare"

interface FixtureCase {
  readonly name: string
  readonly expected: string
  readonly revision: string
  readonly etag: string
  readonly contentType?: string
  readonly archiveBase64: string
}

const fixtures = join(import.meta.dirname, "../../../../fixtures/snapshots.v1.json")

/** Longer than the adapter takes for any case that it settles, by far. */
const patience = 2000

/** How the adapter ends each case of `fixtures/snapshots.v1.json` where it ends otherwise than this package. */
export const compareWithAdapter = async () => {
  const { validateSnapshot } = await import("@copilotkit/runtime/internal/learned-skills")
  const { cases } = JSON.parse(readFileSync(fixtures, "utf8")) as { cases: Array<FixtureCase> }
  let uncaught: string | undefined
  // Thrown where no caller of the adapter could catch it.
  process.on("uncaughtException", (error) => {
    uncaught = error.name
  })
  const differences: Array<string> = []
  for (const { archiveBase64, contentType = "application/zip", etag, expected, name, revision } of cases) {
    uncaught = undefined
    const answer = {
      status: "snapshot",
      revision,
      etag,
      contentType,
      bytes: Buffer.from(archiveBase64, "base64")
    } as const
    const settled = (async () => validateSnapshot(answer))().then(
      () => "valid",
      (error: { code?: string }) => String(error.code)
    )
    const ended = await Promise.race([settled, setTimeout(patience, "never settles", { ref: true })])
    const outcome = uncaught === undefined ? ended : `uncaught ${uncaught}`
    if (outcome !== expected) differences.push(`${name}: ${expected} here, ${outcome} there`)
  }
  console.log([...differences, `${differences.length} of ${cases.length} cases`].join("\n"))
}
