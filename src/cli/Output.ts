/**
 * Results on standard output, problems on standard error. Both may carry names from a registry or an archive, so nothing
 * that steers a terminal gets through.
 *
 * @module
 */
import { Terminal } from "@effect/platform"
import { Console, Effect } from "effect"
import { unicodeEscape } from "../archive/UnicodeEscape.js"
import { reasonOf } from "../store/StoreError.js"
import { OutputClosed, OutputFailed } from "./CliError.js"

/** Control and format characters, line separators, lone surrogates and private characters. */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu

const printable = (text: string): string =>
  text.replace(unsafe, (character) => (character === "\n" ? character : unicodeEscape(character)))

const write = (text: string): Effect.Effect<void, OutputClosed | OutputFailed, Terminal.Terminal> =>
  Effect.flatMap(Terminal.Terminal, (terminal) => terminal.display(text)).pipe(
    // A reader that has stopped reading must not keep anybody from interrupting: the display itself cannot be.
    Effect.disconnect,
    Effect.mapError((error) => {
      const reason = reasonOf(error)
      return reason === "EPIPE" ? new OutputClosed() : new OutputFailed({ reason })
    })
  )

/** Lines of text. */
export const lines = (lines: ReadonlyArray<string>) => write(printable(`${lines.join("\n")}\n`))

/** One JSON value on one line. The escapes are JSON's own, so a reader gets every character back. */
export const json = (value: unknown) => write(`${JSON.stringify(value).replace(unsafe, unicodeEscape)}\n`)

/** A problem, for people. */
export const problem = (text: string): Effect.Effect<void> => Console.error(printable(`agent-contracts: ${text}`))
