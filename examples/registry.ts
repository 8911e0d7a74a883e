/**
 * A small registry for the examples: containers in memory, revisions that can be published, revoked and restored, and the
 * contract's two routes over real HTTP on loopback.
 */
import { createServer } from "node:http"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "@effect/platform"
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, HashMap, Layer, Option, Redacted, Ref, Schema } from "effect"
import { DeliveryError, RegistryApi, SkillArchive, Snapshot } from "effect-agent-contracts/delivery"

interface Published {
  readonly response: Snapshot.SnapshotResponse
  readonly revoked: boolean
}

/** The revisions of each container, the latest last. */
type Containers = HashMap.HashMap<string, ReadonlyArray<Published>>

export class Registry extends Context.Tag("examples/Registry")<
  Registry,
  {
    readonly url: string
    /** Fails for skills that no runtime would take. */
    readonly publish: (
      container: string,
      revision: string,
      skills: ReadonlyArray<SkillArchive.SkillSource>
    ) => Effect.Effect<void, DeliveryError.InvalidSnapshot | DeliveryError.UnsupportedServer>
    readonly revoke: (container: string, revision: string) => Effect.Effect<void>
    readonly restore: (container: string, revision: string) => Effect.Effect<void>
    /** The HTTP status of every answer so far. */
    readonly answers: Effect.Effect<ReadonlyArray<number>>
  }
>() {}

const make = Effect.fnUntraced(function* (apiKey: Redacted.Redacted) {
  const containers = yield* Ref.make<Containers>(HashMap.empty())
  const answers = yield* Ref.make<ReadonlyArray<number>>([])

  const find = Effect.fnUntraced(function* ({ containerId, revision }: RegistryApi.SnapshotRequest) {
    const published = Option.getOrUndefined(HashMap.get(yield* Ref.get(containers), containerId))
    if (published === undefined) return yield* new DeliveryError.ContainerNotFound({})
    const found =
      revision === undefined ? published.at(-1) : published.find(({ response }) => response.revision === revision)
    if (found === undefined) return yield* new DeliveryError.RevisionNotFound({})
    if (found.revoked) return yield* new DeliveryError.RevisionRevoked({})
    return found.response
  })

  const authenticated = HttpServerRequest.schemaHeaders(
    Schema.Struct({
      authorization: Schema.Literal(`Bearer ${Redacted.value(apiKey)}`),
      "if-none-match": Schema.optionalWith(Schema.String, { exact: true })
    })
  ).pipe(Effect.mapError(() => new DeliveryError.AuthenticationFailed({})))

  const one = Effect.gen(function* () {
    const headers = yield* authenticated
    const asked = yield* HttpRouter.schemaParams(
      Schema.Struct({
        containerId: RegistryApi.ContainerId,
        revision: Schema.optionalWith(RegistryApi.Revision, { exact: true })
      })
    )
    const found = yield* find(asked)
    return headers["if-none-match"] === found.etag
      ? HttpServerResponse.empty({ status: 304, headers: RegistryApi.unchangedHeaders(found.revision, found.etag) })
      : HttpServerResponse.uint8Array(found.archive, {
          contentType: RegistryApi.mediaTypes.archive,
          headers: RegistryApi.snapshotHeaders(found)
        })
  })

  const many = Effect.gen(function* () {
    yield* authenticated
    const asked = yield* HttpServerRequest.schemaBodyJson(RegistryApi.BatchRequest)
    const entries = yield* Effect.forEach(asked.containers, (request) =>
      Effect.match(find(request), {
        onFailure: (error) => RegistryApi.errorEntry(request.containerId, error),
        onSuccess: (found) =>
          request.ifNoneMatch === found.etag
            ? RegistryApi.unchangedEntry(request.containerId, found.revision, found.etag)
            : RegistryApi.snapshotEntry(request.containerId, found)
      })
    )
    return yield* HttpServerResponse.schemaJson(RegistryApi.BatchResponse)({ containers: entries })
  })

  const router = HttpRouter.empty.pipe(
    HttpRouter.get(RegistryApi.snapshotRoute, one),
    HttpRouter.post(RegistryApi.batchRoute, many),
    HttpRouter.catchTags({
      AUTHENTICATION_FAILED: (error) => refuse(401, error),
      REVISION_REVOKED: (error) => refuse(403, error),
      CONTAINER_NOT_FOUND: (error) => refuse(404, error),
      REVISION_NOT_FOUND: (error) => refuse(404, error),
      ParseError: () => refuse(400, new DeliveryError.InvalidConfig({ setting: "request", problem: "is malformed" }))
    })
  )
  yield* HttpServer.serveEffect(
    Effect.tap(router, (response) => Ref.update(answers, (all) => [...all, response.status]))
  )

  const mark = (container: string, revision: string, revoked: boolean) =>
    Ref.update(
      containers,
      HashMap.modify(container, (all) =>
        all.map((published) => (published.response.revision === revision ? { ...published, revoked } : published))
      )
    )

  return Registry.of({
    url: yield* HttpServer.addressFormattedWith(Effect.succeed),
    publish: Effect.fnUntraced(function* (container, revision, skills) {
      const response = yield* SkillArchive.pack(revision, skills)
      // What this refuses every runtime refuses.
      yield* Snapshot.verify(response)
      yield* Ref.update(
        containers,
        HashMap.modifyAt(container, (all) =>
          Option.some([...Option.getOrElse(all, () => []), { response, revoked: false }])
        )
      )
    }),
    revoke: (container, revision) => mark(container, revision, true),
    restore: (container, revision) => mark(container, revision, false),
    answers: Ref.get(answers)
  })
})

const refuse = (status: number, error: DeliveryError.DeliveryError) =>
  Effect.orDie(HttpServerResponse.schemaJson(RegistryApi.ErrorEnvelope)(RegistryApi.errorEnvelope(error), { status }))

/** Serves until the layer closes, to whoever has the key; on a port of the system's choice unless one is given. */
export const layer = (apiKey: Redacted.Redacted, port = 0) =>
  Layer.scoped(Registry, make(apiKey)).pipe(
    Layer.provide(NodeHttpServer.layer(() => createServer(), { host: "127.0.0.1", port }))
  )
