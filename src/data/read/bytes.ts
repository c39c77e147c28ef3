// The bytes of a text file, unpacked if they are gzip. Which it is, its first bytes say, not its name.

import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { isAnySystemError } from "../../core/index.js";
import { DataError } from "./data-error.js";

/** Large enough that a file is read in few steps, small enough to hold several. */
const CHUNK_BYTES = 2 ** 18;

/** First bytes of what is not text, and what to tell a person. */
const FOREIGN: readonly (readonly [bytes: readonly number[], advice: string])[] = [
  [[0x28, 0xb5, 0x2f, 0xfd], "is packed with zstd, which is not read here; unpack it, or pack it with gzip"],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a], "is packed with xz, which is not read here; unpack it, or pack it with gzip"],
  [[0x42, 0x5a, 0x68], "is packed with bzip2, which is not read here; unpack it, or pack it with gzip"],
  [[0x50, 0x4b, 0x03, 0x04], "is a zip archive; unpack it first"],
  [[0x50, 0x41, 0x52, 0x31], "is a parquet file; say format: parquet"],
  [[0xff, 0xfe], "is UTF-16, not UTF-8; convert it first"],
  [[0xfe, 0xff], "is UTF-16, not UTF-8; convert it first"],
];

/**
 * Reads a file from the beginning, in chunks; a gzip file (of one or several members) unpacked.
 * @throws {DataError} if it is of a kind that no text reader takes, or broken gzip
 */
export async function* readBytes(file: string): AsyncGenerator<Buffer> {
  const head = await readHead(file, 8);
  const startsWith = (bytes: readonly number[]) => bytes.every((byte, i) => head[i] === byte);
  const foreign = FOREIGN.find(([bytes]) => startsWith(bytes));
  if (foreign) throw new DataError(`${file} ${foreign[1]}`, { file });
  const source = createReadStream(file, { highWaterMark: CHUNK_BYTES });
  if (!startsWith([0x1f, 0x8b])) {
    yield* source as AsyncIterable<Buffer>;
    return;
  }
  const unpacked = createGunzip({ chunkSize: CHUNK_BYTES });
  // What fails in the file reaches the reader of the unpacked stream, which pipeline() destroys with it.
  pipeline(source, unpacked, () => {});
  try {
    yield* unpacked as AsyncIterable<Buffer>;
  } catch (error) {
    if (isAnySystemError(error)) throw error;
    throw new DataError(
      `${file} is broken or incomplete gzip (${(error as Error).message}); get it again`,
      { file },
      error,
    );
  } finally {
    source.destroy();
  }
}

async function readHead(file: string, length: number): Promise<Buffer> {
  const handle = await open(file, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
