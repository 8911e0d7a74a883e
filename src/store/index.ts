export * as BlobStore from "./BlobStore.js"
export * as Database from "./Database.js"
