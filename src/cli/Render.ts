/**
 * Snapshots, statuses and errors as lines for people and as JSON for programs.
 *
 * @module
 */
import { DateTime, Schema } from "effect"
import { DeliveryError, isBlockingCode } from "../delivery/DeliveryError.js"
import { DeliveryStatus } from "../delivery/DeliveryStatus.js"
import type { Skill, VerifiedSnapshot } from "../delivery/Snapshot.js"

/** As JSON writes it, so that it can be copied. What steers a terminal is escaped by whoever prints the line. */
export const quote = (text: string): string => JSON.stringify(text)

/** An id as it is where it can be nothing else, quoted where it could pass for other text. */
export const id = (text: string): string => (/^[\w.-]+$/.test(text) ? text : quote(text))

/** A number with its noun, in the plural where it is one. */
export const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`

/** Everything about a snapshot but the files' content. */
export const snapshotLines = (snapshot: VerifiedSnapshot): ReadonlyArray<string> => {
  const files = snapshot.skills.flatMap((skill) => skill.files)
  const bytes = files.reduce((total, file) => total + file.size, 0)
  return [
    `revision  ${quote(snapshot.revision)}`,
    `etag      ${snapshot.etag}`,
    `skills    ${snapshot.skills.length} (${count(files.length, "file")}, ${count(bytes, "byte")})`,
    ...snapshot.skills.flatMap((skill) => [
      "",
      `${quote(skill.name)}: ${quote(skill.description)}`,
      ...skill.files.map((file) => `  ${file.sha256}  ${String(file.size).padStart(8)}  ${quote(file.path)}`)
    ])
  ]
}

export const snapshotJson = ({ etag, revision, skills }: VerifiedSnapshot) => ({
  revision,
  etag,
  skills: skills.map(({ description, files, name }) => ({
    name,
    description,
    files: files.map(({ isText, path, sha256, size }) => ({ path, size, sha256, isText }))
  }))
})

/** One line; of a list one more for each container. The message of an error that is `reported` elsewhere is left out. */
export const statusLines = (
  { containers = [], ...status }: DeliveryStatus,
  reported?: DeliveryError
): readonly [string, ...ReadonlyArray<string>] => {
  const count = containers.filter((container) => container.initialized).length
  // Of a list some of which are held, neither word alone would be true.
  const initialized = status.initialized || count === 0 ? held(status) : `${count} of ${containers.length} initialized`
  return [
    `status: ${statusLine(status, initialized, reported)}`,
    ...containers.map((part) => `  ${quote(part.containerId)}: ${statusLine(part, held(part), reported)}`)
  ]
}

const held = ({ initialized }: { readonly initialized: boolean }) => (initialized ? "initialized" : "not initialized")

const statusLine = (
  { lastError, ...status }: Omit<DeliveryStatus, "containers" | "initialized">,
  initialized: string,
  reported?: DeliveryError
): string => {
  const error =
    lastError === undefined || lastError.message === reported?.message
      ? lastError?.code
      : `${lastError.code}: ${lastError.message}`
  const isBlocked = lastError !== undefined && isBlockingCode(lastError.code)
  return [
    // First of all: what is held is not delivered, however good the rest looks.
    ...(isBlocked ? [`blocked by ${error}`] : []),
    initialized,
    ...(status.revision === undefined ? [] : [`revision ${quote(status.revision)}`]),
    status.mode,
    ...(status.lastCheckedAt === undefined ? [] : [`checked ${DateTime.formatIso(status.lastCheckedAt)}`]),
    ...(status.stale ? ["stale"] : []),
    ...(error === undefined || isBlocked ? [] : [`last error ${error}`])
  ].join(", ")
}

export const statusJson = Schema.encodeSync(DeliveryStatus)

/** The code and a sentence that says what to do. */
export const errorLine = (error: DeliveryError): string => `${error._tag}: ${error.message}`

const encodeError = Schema.encodeSync(DeliveryError)

export const errorJson = (error: DeliveryError) => {
  const { _tag, ...details } = encodeError(error)
  return { code: _tag, message: error.message, ...details }
}

/** What another snapshot brings against the one before, skill by skill. */
export const changeLines = (
  before: VerifiedSnapshot | undefined,
  after: VerifiedSnapshot | undefined
): ReadonlyArray<string> => {
  const known = new Map(before?.skills.map((skill) => [skill.name, identity(skill)]))
  const current = new Set(after?.skills.map((skill) => skill.name))
  const changed = after?.skills.filter((skill) => known.get(skill.name) !== identity(skill)) ?? []
  const removed = [...known.keys()].filter((name) => !current.has(name))
  return [
    ...changed.map(
      (skill) => `  ${known.has(skill.name) ? "~" : "+"} ${quote(skill.name)}: ${quote(skill.description)}`
    ),
    ...removed.map((name) => `  - ${quote(name)}`)
  ]
}

const identity = ({ description, files }: Skill): string =>
  JSON.stringify([description, files.map(({ path, sha256 }) => [path, sha256])])
