import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import * as fc from "fast-check"
import * as RawZip from "../../scripts/fixtures/RawZip.js"
import * as Snapshot from "../../src/delivery/Snapshot.js"
import { contents, entries, response, sha256Hex } from "../support/SnapshotArchive.js"

const options = { seed: 20_260_101, numRuns: 8_000 }

const sample = contents({
  alpha: {
    "SKILL.md": "# Alpha\n\nUse it for everything that starts with an A.\n",
    "docs/guide.md": "guide ".repeat(40)
  },
  beta: { "SKILL.md": "# Beta\n", empty: "", "logo.png": Uint8Array.of(0x89, 0x50, 0xff, 0x00) }
})
const deflated = entries(sample.manifest, sample.files)
const stored = entries(sample.manifest, sample.files, 0)

/** The forms of a valid archive: what a mutation can hit differs with them. */
const archives = [
  { entries: deflated },
  { entries: stored },
  {
    entries: [{ name: "alpha/" }, ...stored.slice(0, 3), ...deflated.slice(3)],
    comment: new TextEncoder().encode("hello")
  },
  {
    entries: deflated.map(
      (entry, index) => ({ ...entry, descriptor: index % 2 === 0 ? "signed" : "unsigned" }) as const
    )
  },
  { entries: deflated.map((entry) => ({ ...entry, zip64: true })), zip64: {} },
  {
    entries: stored.map((entry) => ({ ...entry, gap: Uint8Array.of(1, 2, 3) })),
    prefix: new TextEncoder().encode("#!/bin/sh\n")
  }
].map(RawZip.build)

/** Where the headers of a valid archive lie. */
const headersOf = (archive: Uint8Array) => {
  const view = new DataView(archive.buffer)
  const find = (signature: number) => {
    const found: Array<number> = []
    for (let at = 0; at + 4 <= archive.length; at++) if (view.getUint32(at, true) === signature) found.push(at)
    return found
  }
  return { locals: find(0x04034b50), centrals: find(0x02014b50), ends: [...find(0x06064b50), ...find(0x06054b50)] }
}
const headers = archives.map(headersOf)

/** Offset and width of the fields that a reader acts on. */
const localFields = [
  [4, 2],
  [6, 2],
  [8, 2],
  [14, 4],
  [18, 4],
  [22, 4],
  [26, 2],
  [28, 2],
  [30, 4]
] as const
const centralFields = [
  [4, 2],
  [6, 2],
  [8, 2],
  [10, 2],
  [16, 4],
  [20, 4],
  [24, 4],
  [28, 2],
  [30, 2],
  [32, 2],
  [34, 2],
  [38, 4],
  [42, 4],
  [46, 4]
] as const
const endFields = [
  [4, 2],
  [6, 2],
  [8, 2],
  [10, 2],
  [12, 4],
  [16, 4],
  [20, 2],
  [24, 4],
  [32, 4],
  [40, 4],
  [48, 4]
] as const

type Patch = (bytes: Uint8Array, base: number) => Uint8Array

const pick = <A>(values: ReadonlyArray<A>, index: number): A | undefined => values[index % values.length]

const write = (bytes: Uint8Array, at: number, width: number, value: number) => {
  for (let index = 0; index < width && at + index < bytes.length; index++) bytes[at + index] = value >>> (8 * index)
}

const read = (bytes: Uint8Array, at: number, width: number) => {
  let value = 0
  for (let index = 0; index < width; index++) value += (bytes[at + index] ?? 0) * 2 ** (8 * index)
  return value
}

const headerKind = fc.constantFrom(
  { of: "locals", fields: localFields } as const,
  { of: "centrals", fields: centralFields } as const,
  { of: "ends", fields: endFields } as const
)

/** What numbers lie about: off by one, nothing, all bits, the bound, a bomb, or anything. */
const lie = fc.oneof(
  fc.constantFrom(
    (value: number) => value + 1,
    (value: number) => value - 1,
    (value: number) => value * 1032
  ),
  fc.constantFrom(0, 1, 8, 0xffff, 0xffffffff, 0x80000000, 32 * 1024 * 1024).map((value) => () => value),
  fc.nat(4096).map((value) => () => value),
  fc.nat(0xffffffff).map((value) => () => value)
)

const bitFlip = fc.tuple(fc.nat(), fc.nat(7)).map<Patch>(([at, bit]) => (bytes) => {
  const index = at % Math.max(bytes.length, 1)
  write(bytes, index, 1, (bytes[index] ?? 0) ^ (1 << bit))
  return bytes
})

const truncation = fc.tuple(fc.nat(), fc.boolean()).map<Patch>(([at, fromStart]) => (bytes) => {
  const cut = at % (bytes.length + 1)
  return fromStart ? bytes.slice(cut) : bytes.slice(0, cut)
})

const lyingField = fc
  .tuple(headerKind, fc.nat(), fc.nat(), lie)
  .map<Patch>(([kind, header, field, lies]) => (bytes, base) => {
    const start = pick(headers[base]?.[kind.of] ?? [], header) ?? 0
    const [offset, width] = pick<readonly [number, number]>(kind.fields, field) ?? [0, 0]
    write(bytes, start + offset, width, lies(read(bytes, start + offset, width)))
    return bytes
  })

/** The same lie in both headers of an entry, so that they agree. */
const agreedLie = fc
  .tuple(fc.nat(), fc.constantFrom([18, 20, 4], [22, 24, 4], [8, 10, 2], [6, 8, 2], [26, 28, 2]), lie)
  .map<Patch>(([entry, [local = 0, central = 0, width = 0], lies]) => (bytes, base) => {
    const { centrals = [], locals = [] } = headers[base] ?? {}
    const centralAt = (pick(centrals, entry) ?? 0) + central
    // Local headers lie in the order of the central directory in every archive here.
    const value = lies(read(bytes, centralAt, width))
    write(bytes, centralAt, width, value)
    write(bytes, (pick(locals, entry) ?? 0) + local, width, value)
    return bytes
  })

const swappedField = fc
  .tuple(headerKind, fc.nat(), fc.nat(), fc.nat())
  .map<Patch>(([kind, one, other, field]) => (bytes, base) => {
    const starts = headers[base]?.[kind.of] ?? []
    const [offset, width] = pick<readonly [number, number]>(kind.fields, field) ?? [0, 0]
    const left = (pick(starts, one) ?? 0) + offset
    const right = (pick(starts, other) ?? 0) + offset
    const kept = read(bytes, left, width)
    write(bytes, left, width, read(bytes, right, width))
    write(bytes, right, width, kept)
    return bytes
  })

/** Entries that share bytes, or lie over the central directory. */
const overlap = fc
  .tuple(fc.nat(), fc.nat(), fc.integer({ min: -64, max: 64 }))
  .map<Patch>(([entry, target, shift]) => (bytes, base) => {
    const { centrals = [], locals = [] } = headers[base] ?? {}
    write(bytes, (pick(centrals, entry) ?? 0) + 42, 4, (pick([...locals, ...centrals], target) ?? 0) + shift)
    return bytes
  })

const range = fc.tuple(fc.nat(), fc.nat(200), fc.nat())
const copiedRange = range.map<Patch>(([from, length, to]) => (bytes) => {
  const source = bytes.slice(from % Math.max(bytes.length, 1)).subarray(0, length)
  const target = to % Math.max(bytes.length, 1)
  bytes.set(source.subarray(0, bytes.length - target), target)
  return bytes
})
const insertedRange = range.map<Patch>(([from, length, to]) => (bytes) => {
  const target = to % (bytes.length + 1)
  return RawZip.concat([
    bytes.subarray(0, target),
    bytes.slice(from % (bytes.length + 1)).subarray(0, length),
    bytes.subarray(target)
  ])
})
const removedRange = range.map<Patch>(([from, length]) => (bytes) => {
  const start = from % (bytes.length + 1)
  return RawZip.concat([bytes.subarray(0, start), bytes.subarray(start + length)])
})
const splice = fc.tuple(fc.nat(), fc.nat(), fc.nat()).map<Patch>(([other, head, tail]) => (bytes) => {
  const archive = pick(archives, other) ?? bytes
  return RawZip.concat([bytes.subarray(0, head % (bytes.length + 1)), archive.subarray(tail % (archive.length + 1))])
})

const mutation = fc
  .tuple(
    fc.nat(archives.length - 1),
    fc.array(
      fc.oneof(
        bitFlip,
        truncation,
        lyingField,
        agreedLie,
        swappedField,
        overlap,
        copiedRange,
        insertedRange,
        removedRange,
        splice
      ),
      { minLength: 1, maxLength: 3 }
    )
  )
  .map(([base, patches]) => {
    const original = archives[base] ?? new Uint8Array()
    return { original, mutated: patches.reduce<Uint8Array>((bytes, patch) => patch(bytes, base), original.slice()) }
  })

/** What must be true of every skill file, whatever was done to the archive. */
const filesOf = (snapshot: Snapshot.VerifiedSnapshot) =>
  snapshot.skills.flatMap(({ files, name }) =>
    files.map((file) => [`${name}/${file.path}`, Buffer.from(file.bytes).toString("hex")])
  )
const originalFiles = Array.from(sample.files, ([path, bytes]) => [path, Buffer.from(bytes).toString("hex")])

const verify = (given: Snapshot.SnapshotResponse) => Effect.runPromise(Effect.exit(Snapshot.verify(given)))

const expectRefusal = (exit: Exit.Exit<unknown, unknown>) => {
  const isRefused = Exit.isFailure(exit) && Cause.isFailType(exit.cause)
  if (!isRefused) throw new Error(`neither valid nor refused: ${exit}`)
}

describe("Snapshot.verify, fuzzed", () => {
  it(`holds on ${options.numRuns} mutated archives`, { timeout: 300_000 }, async () => {
    console.log(`fast-check seed ${options.seed}`)
    for (const archive of archives) expect(Exit.isSuccess(await verify(response(archive)))).toBe(true)

    let stillValid = 0
    await fc.assert(
      fc.asyncProperty(mutation, async ({ mutated, original }) => {
        const isUnchanged = Buffer.compare(mutated, original) === 0
        const { etag } = response(original)
        const underOriginal = await verify(response(mutated, { etag }))
        if (isUnchanged) expect(Exit.isSuccess(underOriginal)).toBe(true)
        else expectRefusal(underOriginal)

        const underOwn = await verify(response(mutated))
        if (Exit.isFailure(underOwn)) return expectRefusal(underOwn)
        if (!isUnchanged) stillValid++
        expect(filesOf(underOwn.value)).toEqual(originalFiles)
        for (const { bytes, sha256, size } of underOwn.value.skills.flatMap(({ files }) => files)) {
          expect({ sha256, size }).toEqual({ sha256: sha256Hex(bytes), size: bytes.length })
        }
      }),
      options
    )
    // Some mutations hit what no rule reads, so that the last part of the property is not idle.
    expect(stillValid).toBeGreaterThan(100)
    expect(stillValid).toBeLessThan(options.numRuns / 2)
  })
})
