import { describe, expect, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as fc from "fast-check"
import * as MultipartForm from "../../../src/registry/MultipartForm.js"
import { check } from "../../support/Seed.js"
import { turnsDuring } from "../../support/Turns.js"
import { utf8 } from "../../support/Uploads.js"

const type = 'multipart/form-data; boundary="b"'

/** A form from its parts, each the lines of its head and its content. */
const form = (...parts: ReadonlyArray<readonly [head: string, content: string]>) =>
  utf8(`${parts.map(([head, content]) => `--b\r\n${head}\r\n\r\n${content}\r\n`).join("")}--b--\r\n`)

const file = (filename: string, content = "x") =>
  [`Content-Disposition: form-data; name="files[]"; ${filename}`, content] as const

const outcome = (body: Uint8Array, contentType: string = type) =>
  Effect.match(MultipartForm.parse(body, contentType), {
    onFailure: (error) => error.message,
    onSuccess: ({ fields, files }) => ({
      fields: Object.fromEntries(fields),
      files: Object.fromEntries(files.map(({ bytes, path }) => [path, new TextDecoder().decode(bytes)]))
    })
  })

const pathsOf = (body: Uint8Array) =>
  Effect.map(MultipartForm.parse(body, type), ({ files }) => files.map(({ path }) => path))

describe("a multipart form", () => {
  it("reads back whatever the platform's own form data writes", () =>
    check(
      [
        fc.array(
          fc.tuple(
            fc
              .fullUnicodeString({ minLength: 1, maxLength: 20 })
              .filter((path) => !/%(?:22|0D|0A)|\r(?!\n)|(?<!\r)\n|\\$/i.test(path)),
            fc.uint8Array({ maxLength: 200 })
          ),
          { maxLength: 10 }
        ),
        fc.option(
          fc.fullUnicodeString({ maxLength: 30 }).filter((text) => !/[\r\n]/.test(text)),
          { nil: undefined }
        )
      ],
      async (files, title) => {
        const data = new FormData()
        for (const [path, bytes] of files) data.append("files[]", new File([bytes], path))
        if (title !== undefined) data.append("display_name", title)
        const request = new Response(data)
        const body = new Uint8Array(await request.arrayBuffer())
        const contentType = request.headers.get("content-type") ?? undefined
        if (files.length === 0 && title === undefined) return
        const parsed = await Effect.runPromise(MultipartForm.parse(body, contentType))
        expect(parsed.files.map(({ bytes, path }) => [path, Uint8Array.from(bytes)])).toEqual(
          files.map(([path, bytes]) => [path.replace(/\\"/g, '"'), bytes])
        )
        expect(parsed.fields.get("display_name")).toBe(title)
      },
      { numRuns: 150 }
    ))

  it.effect("that names a file or its boundary twice is refused: whoever reads the other name sees another file", () =>
    Effect.gen(function* () {
      const twice = yield* outcome(form(file('filename="s/a.md"; filename="s/b.md"')))
      expect(twice).toContain("a part without a name")
      const boundaries = yield* outcome(form(file('filename="s/a.md"')), "multipart/form-data; boundary=c; boundary=b")
      expect(boundaries).toContain("it is not multipart/form-data with a boundary")
    })
  )

  it("of any bytes is a form or a refusal, never a bug", () =>
    check(
      [
        fc.array(
          fc.constantFrom(
            "--b",
            "\r\n",
            "--",
            "Content-Disposition: form-data; ",
            'name="files"',
            "; filename=",
            '"',
            "\\",
            "%",
            "'",
            ":",
            "x",
            "\0"
          ),
          { maxLength: 40 }
        )
      ],
      async (pieces) => {
        const result = await Effect.runPromise(
          Effect.either(MultipartForm.parse(utf8(`--b\r\n${pieces.join("")}`), type))
        )
        if (Either.isLeft(result)) expect(["INVALID_REQUEST", "INVALID_UPLOAD"]).toContain(result.left._tag)
      },
      { numRuns: 500 }
    ))

  it.effect("takes names in the ways in which clients write them", () =>
    Effect.gen(function* () {
      const names = [
        ['filename="s/a.md"', "s/a.md"],
        ["filename=a.md", "a.md"],
        ['filename="s/a\\"b.md"', 's/a"b.md'],
        ['filename="s/a%22b%0d%0Ac.md"', 's/a"b\r\nc.md'],
        ['filename="s\\a.md"', "s\\a.md"],
        ['filename="s/日本.md"', "s/日本.md"],
        ["filename*=UTF-8''s%2F%E6%97%A5.md", "s/日.md"],
        ["filename*=utf-8'en'a.md; filename=b.md", "a.md"],
        ['filename="%41.md"', "%41.md"],
        ['filename=""', ""]
      ] as const
      for (const [written, path] of names) expect(yield* pathsOf(form(file(written)))).toEqual([path])
    })
  )

  it.effect("ignores what stands before the first boundary and after the last, and padding", () =>
    Effect.gen(function* () {
      const body = utf8(
        `preamble\r\n--b \t\r\ncontent-disposition:form-data;name=files;filename=a\r\nX: y\r\n\r\n1\r\n--b--epilogue`
      )
      expect(yield* outcome(body)).toEqual({ fields: {}, files: { a: "1" } })
    })
  )

  it.effect("keeps contents that look like boundaries", () =>
    Effect.gen(function* () {
      const content = "\r\n--a\r\n--\r\n\r\n-b\r--b\n--b"
      expect(yield* outcome(form(file("filename=a", content)))).toEqual({ fields: {}, files: { a: content } })
      expect(yield* outcome(form(file("filename=a", "")))).toEqual({ fields: {}, files: { a: "" } })
    })
  )

  it("finds every part of contents that nearly are a boundary", () =>
    check(
      [
        // Boundaries of these repeat themselves, so what has matched so far can be the start of a match as well.
        fc.stringOf(fc.constantFrom("-", "a"), { minLength: 1, maxLength: 6 }),
        fc.array(fc.stringOf(fc.constantFrom("\r", "\n", "-", "a"), { maxLength: 60 }), { maxLength: 4 })
      ],
      async (boundary, contents) => {
        const sent = contents.filter((content) => !`\r\n${content}\r\n`.includes(`\r\n--${boundary}`))
        const body = sent
          .map((content, index) => `--${boundary}\r\n${file(`filename=${index}`, content).join("\r\n\r\n")}\r\n`)
          .concat(`--${boundary}--`)
          .join("")
        expect(await Effect.runPromise(outcome(utf8(body), `multipart/form-data; boundary=${boundary}`))).toEqual({
          fields: {},
          files: Object.fromEntries(sent.entries())
        })
      }
    ))

  it.effect("leaves the event loop its turn while a long one is searched", () =>
    Effect.gen(function* () {
      const contents = "\r".repeat(2 * 1024 * 1024)
      const body = form(file("filename=a", contents), file("filename=b", contents), file("filename=c", contents))
      expect(yield* turnsDuring(pathsOf(body))).toBeGreaterThanOrEqual(3)
    })
  )

  it.effect.each([
    ["another media type", form(file("filename=a")), "application/json", "multipart/form-data"],
    ["no media type", form(file("filename=a")), "", "multipart/form-data"],
    ["no boundary", form(file("filename=a")), "multipart/form-data", "with a boundary"],
    ["another boundary", form(file("filename=a")), "multipart/form-data; boundary=c", "ends early"],
    ["nothing in it", new Uint8Array(0), type, "ends early"],
    ["no end", form(file("filename=a")).subarray(0, -8), type, "ends early"],
    ["text after a boundary", utf8("--bx\r\n\r\n\r\n--b--"), type, "broken boundary"],
    ["a head that does not end", utf8(`--b\r\n${"x: y\r\n".repeat(5000)}\r\n\r\n\r\n--b--`), type, "without a head"],
    ["no disposition", form(["X: y", "x"]), type, "without a name"],
    [
      "another disposition",
      form(["Content-Disposition: attachment; name=files; filename=a", "x"]),
      type,
      "without a name"
    ],
    ["no name", form(["Content-Disposition: form-data; filename=a", "x"]), type, "without a name"],
    ["an open quote", form(file('filename="a')), type, "without a name"],
    ["two dispositions", form([`${file("filename=a")[0]}\r\n${file("filename=b")[0]}`, "x"]), type, "two names"],
    ["a name of broken escapes", form(file("filename*=UTF-8''%E6")), type, "without a name"],
    ["a name in another charset", form(file("filename*=latin1''a")), type, "without a name"],
    ["encoded content", form([`${file("filename=a")[0]}\r\nContent-Transfer-Encoding: base64`, "x"]), type, "encoded"],
    [
      "a file of another name",
      form(["Content-Disposition: form-data; name=other; filename=a", "x"]),
      type,
      "not named files"
    ],
    [
      "a field twice",
      form(["Content-Disposition: form-data; name=t", "x"], ["Content-Disposition: form-data; name=t", "y"]),
      type,
      "twice"
    ],
    ["a long field", form(["Content-Disposition: form-data; name=t", "x".repeat(70_000)]), type, "no short text"],
    [
      "many fields",
      form(
        ...Array.from({ length: 17 }, (_, index) => [`Content-Disposition: form-data; name=t${index}`, "x"] as const)
      ),
      type,
      "too many fields"
    ]
  ] as const)("with %s is refused", ([, body, contentType, problem]) =>
    Effect.map(outcome(body, contentType), (message) => expect(message).toContain(problem))
  )

  it.effect("with a name that is not UTF-8 is refused, not changed", () =>
    Effect.gen(function* () {
      const body = form(file('filename="a?b"'))
      body[body.indexOf(63)] = 0xff
      expect(yield* outcome(body)).toContain("not UTF-8")
    })
  )

  it.effect("takes ten thousand files and no more", () =>
    Effect.gen(function* () {
      const files = (count: number) => form(...Array.from({ length: count }, (_, index) => file(`filename=f${index}`)))
      expect((yield* pathsOf(files(10_000))).length).toBe(10_000)
      expect(yield* outcome(files(10_001))).toContain("[member-count]")
    })
  )
})
