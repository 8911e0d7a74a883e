/**
 * A parameter of a path in the API's declaration. `HttpApiClient` puts what a parameter encodes to into the path as it is, and
 * a server's router decodes a path before it looks at its parameters: so it is percent-encoded here by a client alone, and the
 * rules of a value, its length among them, are for the value on both sides and never for its encoding.
 *
 * @module
 */
import { Either, Encoding, JSONSchema, ParseResult, Schema } from "effect"

/** A value of this schema as one segment of a path. */
export const of = <A>(schema: Schema.Schema<A, string>): Schema.Schema<A, string> => {
  const { $schema: _, ...jsonSchema } = JSONSchema.make(schema)
  return Schema.transformOrFail(Schema.String, schema, {
    strict: true,
    decode: (segment) => ParseResult.succeed(segment),
    encode: (value, _, ast) =>
      Either.mapLeft(
        Encoding.encodeUriComponent(value),
        () => new ParseResult.Type(ast, value, "must be well-formed Unicode")
      )
  }).annotations({ jsonSchema })
}
