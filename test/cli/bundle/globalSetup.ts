/** Bundles the command line that these tests run. */
import { execFileSync } from "node:child_process"

export default () => {
  execFileSync(process.execPath, ["scripts/bundle.mjs"], { stdio: ["ignore", "ignore", "inherit"] })
}
