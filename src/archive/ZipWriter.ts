export interface ZipFile {
  readonly path: string
  readonly bytes: Uint8Array
}
/** Canonical ZIP: the same files always give the same bytes. */
export declare const write: (files: ReadonlyArray<ZipFile>) => Uint8Array
