/**
 * The optional peer that compiles JSON Schemas. In a module of its own, which is imported when it is needed: what is bundled has no
 * named exports of a CommonJS module that is imported so itself.
 *
 * @module
 */
export { Ajv2020 } from "ajv/dist/2020.js"
