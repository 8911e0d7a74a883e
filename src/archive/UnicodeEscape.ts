/**
 * A character as JSON escapes it: `\uXXXX` for each of its UTF-16 units, so that a reader of JSON gets it back. For text that
 * comes from outside and must not steer a terminal or a model.
 */
export const unicodeEscape = (character: string): string =>
  character.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
