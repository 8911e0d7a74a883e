/** The adapter that existing agents use. Installed here only, and not typed against: the project checks without it. */
declare module "@copilotkit/runtime/internal/learned-skills" {
  export const validateSnapshot: (response: {
    readonly status: "snapshot"
    readonly revision: string
    readonly etag: string
    readonly contentType: string
    readonly bytes: Uint8Array
  }) => Promise<unknown>
}
