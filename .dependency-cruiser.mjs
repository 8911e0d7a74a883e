// The arrows of the architecture. A folder may import the folders and packages in its row and nothing else; a folder
// without a row may not exist. `npm run arrows` proves on a planted violation of each rule that the rule bites.

/** @type {Record<string, { folders: ReadonlyArray<string>, packages: ReadonlyArray<string> }>} */
export const arrows = {
  archive: { folders: [], packages: ["effect", "fflate", "@noble/hashes"] },
  files: { folders: [], packages: ["effect", "@effect/platform"] },
  delivery: { folders: ["archive", "files"], packages: ["effect", "@effect/platform"] },
  toolkit: { folders: ["delivery"], packages: ["effect", "@effect/ai"] },
  publishing: { folders: ["archive", "files", "delivery"], packages: ["effect", "@effect/platform", "yaml"] },
  materialize: { folders: ["archive", "files", "delivery", "publishing"], packages: ["effect", "@effect/platform"] },
  store: {
    folders: ["archive", "files"],
    packages: ["effect", "@effect/platform", "@effect/sql", "@effect/experimental", "@effect/sql-pg", "@libsql/client"]
  },
  registry: {
    folders: ["archive", "delivery", "publishing", "store"],
    packages: ["effect", "@effect/platform", "@effect/sql"]
  },
  runner: { folders: ["archive", "files", "store"], packages: ["effect", "@effect/platform", "@effect/sql"] },
  conformance: {
    folders: ["archive", "delivery", "toolkit", "runner"],
    packages: ["effect", "@effect/platform", "ajv"]
  },
  cli: {
    folders: [
      "archive",
      "files",
      "delivery",
      "toolkit",
      "publishing",
      "materialize",
      "store",
      "registry",
      "runner",
      "conformance"
    ],
    packages: ["effect", "@effect/platform", "@effect/platform-node", "@effect/cli", "@effect/printer-ansi"]
  }
}

/** @param {ReadonlyArray<string>} names */
const anyOf = (names) => `(?:${names.join("|")})`

/** @type {import("dependency-cruiser").IForbiddenRuleType[]} */
const perFolder = Object.entries(arrows).flatMap(([folder, { folders, packages }]) => [
  {
    name: `${folder}-folders`,
    severity: "error",
    comment: `src/${folder} imports ${folders.join(", ") || "no other folder"}`,
    from: { path: `^src/${folder}/` },
    to: { path: "^src/", pathNot: `^src/${anyOf([folder, ...folders])}/` }
  },
  {
    name: `${folder}-packages`,
    severity: "error",
    comment: `src/${folder} imports the packages ${packages.join(", ")}`,
    from: { path: `^src/${folder}/` },
    to: { path: "(?:^|/)node_modules/", pathNot: `(?:^|/)node_modules/${anyOf(packages)}/` }
  }
])

/** @type {import("dependency-cruiser").IForbiddenRuleType[]} */
export const forbidden = [
  ...perFolder,
  {
    name: "known-folders",
    severity: "error",
    comment: "every folder of src has a row above",
    from: { path: "^src/", pathNot: `^src/${anyOf(Object.keys(arrows))}/` },
    to: {}
  },
  {
    name: "portable",
    severity: "error",
    comment:
      "only the Node codec, the threads that test patterns, the store and the command line need Node, and the answers that are written on Node's own server name its types; everything else runs wherever Effect does",
    from: {
      path: "^src/",
      pathNot:
        "^src/(?:archive/codec\\.node\\.ts$|runner/PatternWorker\\.ts$|store/|registry/UnchangedAnswers\\.ts$|cli/)"
    },
    to: { dependencyTypes: ["core"] }
  },
  { name: "no-circular", severity: "error", from: {}, to: { circular: true } },
  { name: "resolvable", severity: "error", from: {}, to: { couldNotResolve: true } }
]

/** @type {import("dependency-cruiser").ICruiseOptions} */
export const options = {
  doNotFollow: "node_modules",
  // Types count: an `import type` upwards is an arrow upwards.
  tsPreCompilationDeps: true
}

/** @type {Partial<import("dependency-cruiser").IResolveOptions>} */
export const resolution = {
  conditionNames: ["effect-agent-contracts-source", "node", "import", "types", "default"],
  exportsFields: ["exports"]
}

export default { forbidden, options: { ...options, enhancedResolveOptions: resolution } }
