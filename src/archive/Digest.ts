import type { Effect } from "effect"

/** Hex SHA-256 of the bytes. Long input yields to the event loop between slices. */
export declare const sha256Hex: (bytes: Uint8Array) => Effect.Effect<string>
/** Hex SHA-256 of a short input, at once. */
export declare const sha256HexSync: (bytes: Uint8Array) => string
/** The strong ETag of an archive: `"` + hex SHA-256 + `"`. */
export declare const etag: (archive: Uint8Array) => Effect.Effect<string>
