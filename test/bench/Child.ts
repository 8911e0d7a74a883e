import { spawnSync } from "node:child_process"

/** Runs this bundle again with other arguments and gives the JSON that it writes. */
export const runChild = <Result>(...args: ReadonlyArray<string>): Result => {
  const [, main = ""] = process.argv
  const { status, stdout } = spawnSync(process.execPath, ["--expose-gc", main, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"]
  })
  if (status !== 0) throw new Error(`${args[0]} ended with ${status}`)
  return JSON.parse(stdout) as Result
}

export const answerParent = (result: unknown) => process.stdout.write(JSON.stringify(result))
