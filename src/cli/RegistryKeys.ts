/**
 * The API keys of a running registry: issued, listed and revoked.
 *
 * @module
 */
import { DateTime, Effect, Option, Redacted, Schema } from "effect"
import * as RegistryHttpApi from "../registry/RegistryHttpApi.js"
import * as Model from "../registry/RegistryModel.js"
import { UsageError } from "./CliError.js"
import * as Output from "./Output.js"
import * as RegistryConnection from "./RegistryConnection.js"
import * as Render from "./Render.js"

interface Options extends RegistryConnection.Options {
  readonly json: boolean
}

export interface CreateOptions extends Options {
  readonly name: string
  readonly scope: Option.Option<string>
  readonly containers: ReadonlyArray<string>
}

const decodeScope = Schema.decodeUnknown(Model.KeyScope)

/** Issues a key and prints it: nobody can, later. */
export const create = Effect.fnUntraced(function* ({ containers, json, name, ...options }: CreateOptions) {
  const scope = yield* Effect.mapError(
    decodeScope(Option.getOrElse(options.scope, () => "read")),
    () => new UsageError({ message: "--scope takes read, publish or admin" })
  )
  if (containers.length > 0 && scope !== "read") {
    return yield* new UsageError({ message: "--container is for keys that read; publish and admin keys open all" })
  }
  const { callOnce } = yield* RegistryConnection.connect(options)
  // Sent once: sent again it would be another key.
  const issued = yield* callOnce(({ keys }) =>
    keys.issueKey({ payload: { name, scope, containers: containers.length === 0 ? null : containers } })
  )
  yield* json
    ? Output.json(encodeIssued(issued))
    : Output.lines([`key         ${Render.id(Redacted.value(issued.key))}`, ...keyLines(issued.apiKey)])
})

/** Every key that there is or was; no key itself. */
export const list = Effect.fnUntraced(function* ({ json, ...options }: Options) {
  const { call } = yield* RegistryConnection.connect(options)
  const keys = yield* call(({ keys }) => keys.listKeys({}))
  yield* json
    ? Output.json({ keys: keys.map((key) => encodeKey(key)) })
    : Output.lines(
        keys.map(({ containers, createdAt, id, name, revokedAt, scope }) =>
          [
            Render.id(id),
            scope.padEnd("publish".length),
            DateTime.formatIso(createdAt),
            Render.quote(name),
            ...(containers === null ? [] : [`for ${containers.map(Render.quote).join(", ")}`]),
            ...(revokedAt === null ? [] : [`revoked ${DateTime.formatIso(revokedAt)}`])
          ].join("  ")
        )
      )
})

/** Revokes a key, everywhere within a second. */
export const revoke = Effect.fnUntraced(function* ({ id, json, ...options }: Options & { readonly id: string }) {
  const { call } = yield* RegistryConnection.connect(options)
  const key = yield* call(({ keys }) => keys.revokeKey({ path: { keyId: id } }))
  yield* json ? Output.json(encodeKey(key)) : Output.lines(keyLines(key))
})

const encodeKey = Schema.encodeSync(Model.ApiKey)
const encodeIssued = Schema.encodeSync(RegistryHttpApi.IssuedKey)

const keyLines = ({ containers, createdAt, id, name, revokedAt, scope }: Model.ApiKey): ReadonlyArray<string> => [
  `id          ${Render.id(id)}`,
  `name        ${Render.quote(name)}`,
  `scope       ${scope}`,
  `containers  ${containers === null ? "all" : containers.map(Render.quote).join(", ")}`,
  `created     ${DateTime.formatIso(createdAt)}`,
  ...(revokedAt === null ? [] : [`revoked     ${DateTime.formatIso(revokedAt)}`])
]
