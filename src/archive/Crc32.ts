/**
 * CRC-32 as ZIP headers carry it. Readers here do not consult it (contract, Archive: SHA-256 decides); the writer fills it
 * in for everybody else's.
 *
 * @module
 */

/** The CRC-32 of `bytes`, unsigned; behind other bytes with that CRC-32 where `previous` is given. */
export const crc32 = (bytes: Uint8Array, previous = 0): number => {
  let crc = ~previous
  for (const byte of bytes) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 0xff] ?? 0)
  return ~crc >>> 0
}

/** The reversed polynomial 0x04C11DB7, one step per bit, for each byte value. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})
