/**
 * The file of `--key-file`: no flag takes a key itself, which others could see.
 *
 * @module
 */
import { Effect, Redacted } from "effect"
import { UsageError } from "./CliError.js"
import * as InputFile from "./InputFile.js"

/** Far longer than any key, in bytes. */
const mostBytes = 64 * 1024

/** The key in a file, without the line break after it. */
export const read = (path: string) =>
  InputFile.text(path, mostBytes).pipe(
    Effect.mapBoth({
      onSuccess: (text) => Redacted.make(text.trim()),
      onFailure: ({ message }) => new UsageError({ message: `--key-file: ${message}` })
    })
  )
