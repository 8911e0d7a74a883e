/** A registry that `agent-contracts registry serve` runs, and the commands that talk to it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Server } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect } from "@effect/vitest"
import { Effect, Runtime } from "effect"
import * as CommandLine from "./CommandLine.js"
import { skillFile } from "./Uploads.js"

/** Every test starts several processes, which take seconds each on a machine under load. */
export const timeout = 240_000

export const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "agent-contracts-registry-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

/** A skill on disk. */
export const writeSkill = (directory: string, name: string, text = "") => {
  const skill = join(directory, name)
  mkdirSync(skill, { recursive: true })
  writeFileSync(join(skill, "SKILL.md"), `${skillFile(name)}${text}`)
  return skill
}

export const serve = Effect.fnUntraced(function* (
  args: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>> = {}
) {
  const served = yield* CommandLine.start(["registry", "serve", "--json", "--port", "0", ...args], variables)
  const started: { readonly url: string; readonly adminKeyFile?: string } = JSON.parse(yield* served.line)
  return { ...served, ...started }
})

/** The same on the port that a URL has. */
export const serveAt = Effect.fnUntraced(function* (url: string, data: string) {
  const served = yield* CommandLine.start(
    ["registry", "serve", "--json", "--port", new URL(url).port, "--data", data],
    {}
  )
  yield* served.line
  return served
})

/** A command about a registry with the key of this file: what it printed as JSON. */
export const command = (url: string, keyFile: string) =>
  Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
    const ended = yield* CommandLine.run([...args, "--json", "--api-url", url, "--key-file", keyFile])
    expect({ code: ended.code, stderr: ended.stderr }, args.join(" ")).toEqual({ code: 0, stderr: "" })
    return JSON.parse(ended.stdout)
  })

/** Listens on loopback until the scope ends, and gives the port. */
export const listen = (server: Server) =>
  Effect.acquireRelease(
    Effect.async<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () => Effect.sync(() => server.close())
  )

/**
 * Stands before a registry and lets something happen at the first publish of a container: before the registry gets it, or with
 * `during` while it has it, whose answer is lost then. Gives how each publish was answered.
 */
export const interrupting = Effect.fnUntraced(function* <R>(
  target: string,
  event: Effect.Effect<unknown, never, R>,
  options: { readonly during?: boolean } = {}
) {
  const run = Runtime.runPromise(yield* Effect.runtime<R>())
  const statuses: Array<number> = []
  let isFirst = true
  const forward = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const parts: Array<Uint8Array> = []
    for await (const part of incoming) parts.push(part)
    const { authorization = "", "content-type": type } = incoming.headers
    const send = () =>
      fetch(`${target}${incoming.url}`, {
        method: incoming.method ?? "GET",
        headers: { authorization, ...(type === undefined ? {} : { "content-type": type }) },
        ...(parts.length === 0 ? {} : { body: Buffer.concat(parts) })
      })
    const isPublish = incoming.method === "POST" && incoming.url?.endsWith("/revisions") === true
    if (isPublish && isFirst) {
      isFirst = false
      const lost = options.during === true ? send().catch(() => undefined) : undefined
      await run(event)
      if (lost !== undefined) {
        await lost
        return outgoing.destroy()
      }
    }
    const answer = await send()
    if (isPublish) statuses.push(answer.status)
    outgoing.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" })
    return outgoing.end(Buffer.from(await answer.arrayBuffer()))
  }
  const server = createHttpServer((incoming, outgoing) => {
    forward(incoming, outgoing).catch((error) => outgoing.destroy(error))
  })
  return { url: `http://127.0.0.1:${yield* listen(server)}`, statuses }
})

/** What a revision publishes. */
export const setOf = (revision: { readonly skills: ReadonlyArray<{ name: string; version: string }> }) =>
  revision.skills.map(({ name, version }) => `${name}@${version}`)

/** Sends a signal and gives the exit code. */
export const stop = (served: Effect.Effect.Success<ReturnType<typeof CommandLine.start>>, signal: NodeJS.Signals) =>
  Effect.zipRight(served.signal(signal), served.ended)
