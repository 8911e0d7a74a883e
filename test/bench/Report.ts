/** How the tables of the page are written. */

export const fixed = (value: number) => value.toFixed(value < 10 ? 2 : 1)

export const mebibytes = (bytes: number) => (bytes / 1024 / 1024).toFixed(1)

export const verdict = (kept: boolean) => (kept ? "kept" : "**missed**")

export const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>) =>
  [head, head.map((_, column) => (column === 0 ? "---" : "---:")), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n")

export const progress = (line: string) => process.stderr.write(`${line}\n`)
