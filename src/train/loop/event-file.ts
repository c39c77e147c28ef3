import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { AppendFile, ProtoWriter } from "../../core/index.js";

/** CRC-32C (RFC 3720, appendix B.4) as TFRecord files mask it (TensorFlow, `crc32c.h`). */
function maskedCrc(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 && 0x82f63b78);
  }
  return (((~crc >>> 15) | (~crc << 17)) + 0xa282ead8) >>> 0;
}

/** A name that TensorBoard recognizes, and reads in the order of the first part. */
export const eventFileName = (part: string): string => `events.out.tfevents.${part}.layergraft`;

const eventNow = () => new ProtoWriter().double(1, Date.now() / 1000);

/** An event file of TensorBoard (`event.proto`, `summary.proto`): scalars by step. */
export class EventFile extends AppendFile {
  /** @param bytes length to keep; 0 starts a new file, and makes its folder */
  constructor(path: string, bytes: number) {
    mkdirSync(dirname(path), { recursive: true });
    super(path, bytes);
    if (bytes === 0) this.#add(eventNow().string(3, "brain.Event:2"));
  }

  /** Adds scalars by their tags, such as `train/loss`. @throws DiskFullError if there is no room */
  scalars(step: number, values: Readonly<Record<string, number>>): void {
    const summary = new ProtoWriter();
    for (const [tag, number] of Object.entries(values)) {
      summary.message(1, new ProtoWriter().string(1, tag).float(2, number));
    }
    this.#add(eventNow().integer(2, step).message(5, summary));
  }

  /** Adds a record: length, its checksum, data, its checksum; little-endian. */
  #add(event: ProtoWriter): void {
    const data = event.finish();
    const record = Buffer.alloc(data.length + 16);
    record.writeBigUInt64LE(BigInt(data.length));
    record.writeUInt32LE(maskedCrc(record.subarray(0, 8)), 8);
    record.set(data, 12);
    record.writeUInt32LE(maskedCrc(data), data.length + 12);
    this.append(record);
  }
}
