/** One PostgreSQL for all tests of a run, started when the first of them asks for it. */
import { createServer } from "node:http"
import type { TestProject } from "vitest/node"
import * as EmbeddedPostgres from "./EmbeddedPostgres.js"

export default async function setup(project: TestProject) {
  let started: Promise<EmbeddedPostgres.Cluster> | undefined
  const start = async () => {
    const cluster = await EmbeddedPostgres.initialise()
    await cluster.start()
    return cluster
  }
  // Tests run in processes of their own, so that they ask over HTTP.
  const server = createServer((_, response) => {
    started ??= start()
    started.then(
      (cluster) => response.end(cluster.url("postgres")),
      (cause) => response.writeHead(500).end(String(cause))
    )
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  if (typeof address !== "object" || address === null) throw new Error("The server has no port")
  project.provide("postgres", `http://127.0.0.1:${address.port}`)

  return async () => {
    server.closeAllConnections()
    server.close()
    await started?.then((cluster) => cluster.remove())
  }
}

declare module "vitest" {
  interface ProvidedContext {
    /** Where to ask for the address of the shared PostgreSQL. */
    readonly postgres: string
  }
}
