// A reader of TensorBoard's event files for tests, independent of the writer: checks every checksum.
import { readFileSync } from "node:fs";
import { bytesAt, fieldOf } from "../../core/protobuf.test-util.js";

/** CRC-32C bit by bit, and masked. */
function maskedCrc(bytes: Uint8Array): number {
  let crc = 0xffffffffn;
  for (const byte of bytes) {
    crc ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) crc = (crc >> 1n) ^ (crc & 1n ? 0x82f63b78n : 0n);
  }
  crc ^= 0xffffffffn;
  return Number(BigInt.asUintN(32, ((crc >> 15n) | (crc << 17n)) & 0xffffffffn) + 0xa282ead8n) % 2 ** 32;
}

export interface ReadEvent {
  /** Seconds since 1970. */
  readonly time: number;
  readonly step: number;
  readonly version?: string;
  readonly values: Readonly<Record<string, number>>;
}

export function readEvents(path: string): ReadEvent[] {
  const file = readFileSync(path);
  const events: ReadEvent[] = [];
  for (let at = 0; at < file.length; ) {
    const length = Number(file.readBigUInt64LE(at));
    const data = file.subarray(at + 12, at + 12 + length);
    if (data.length < length) throw new Error(`truncated at ${at}`);
    if (file.readUInt32LE(at + 8) !== maskedCrc(file.subarray(at, at + 8))) throw new Error(`length damaged at ${at}`);
    if (file.readUInt32LE(at + 12 + length) !== maskedCrc(data)) throw new Error(`data damaged at ${at}`);
    at += length + 16;
    const [version] = fieldOf(data, 3) as Uint8Array[];
    const values = fieldOf(data, 5).flatMap((summary) => fieldOf(summary as Uint8Array, 1) as Uint8Array[]);
    events.push({
      time: Buffer.from(bytesAt(data, 1)).readDoubleLE(0),
      step: Number(fieldOf(data, 2)[0] ?? 0n),
      ...(version ? { version: Buffer.from(version).toString() } : {}),
      values: Object.fromEntries(
        values.map((value) => [
          Buffer.from(bytesAt(value, 1)).toString(),
          Buffer.from(bytesAt(value, 2)).readFloatLE(0),
        ]),
      ),
    });
  }
  return events;
}
