// totals.mjs <failed steps> [<vitest report> <exit status>]...: prints "N passed, N failed" and fails unless all is good.
import { existsSync, readFileSync } from "node:fs"

const [failedSteps, ...pairs] = process.argv.slice(2)
let passed = 0
let failed = Number(failedSteps)
for (let index = 0; index < pairs.length; index += 2) {
  const [report, status] = [String(pairs[index]), Number(pairs[index + 1])]
  const { numPassedTests, numFailedTests } = existsSync(report)
    ? JSON.parse(readFileSync(report, "utf8"))
    : { numPassedTests: 0, numFailedTests: 0 }
  passed += numPassedTests
  // A run can fail without a failed test: a file that does not load, an error that nobody caught, no test at all.
  failed += Math.max(numFailedTests, status !== 0 || numPassedTests === 0 ? 1 : 0)
}
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 && passed > 0 ? 0 : 1
