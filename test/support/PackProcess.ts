// Packs a skill in the time zone of `TZ`: how far that is from UTC, and the digest of the archive.
import { Effect } from "effect"
import * as SkillBundle from "../../src/publishing/SkillBundle.js"
import { greeting, loose } from "./Uploads.js"

const { sha256 } = await Effect.runPromise(SkillBundle.fromFiles(loose(greeting)))
process.stdout.write(`${new Date(1980, 0, 1).getTimezoneOffset()} ${sha256}`)
