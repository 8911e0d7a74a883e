import { execFile } from "node:child_process"
import { Effect } from "effect"

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end, with these environment variables and no others; an interruption kills it. */
export const execute = (
  program: string,
  args: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>> = {}
) =>
  Effect.async<Ended>((resume) => {
    const options = { env: variables, maxBuffer: 64 * 1024 * 1024 }
    const child = execFile(program, args, options, (_, stdout, stderr) =>
      resume(Effect.succeed({ code: child.exitCode, stdout, stderr }))
    )
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** Runs a TypeScript program from the repository's sources. */
export const run = (file: string, variables?: Readonly<Record<string, string>>) =>
  execute(process.execPath, ["scripts/run.mjs", file], variables)
