import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { isAnySystemError } from "../../core/index.js";
import { DataError } from "./row.js";

const CHUNK_BYTES = 2 ** 18;

/** First bytes of files that are not UTF-8 text. */
const FOREIGN: readonly (readonly [bytes: readonly number[], advice: string])[] = [
  [[0x28, 0xb5, 0x2f, 0xfd], "is packed with zstd, which is not supported. Unpack it, or use gzip."],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a], "is packed with xz, which is not supported. Unpack it, or use gzip."],
  [[0x42, 0x5a, 0x68], "is packed with bzip2, which is not supported. Unpack it, or use gzip."],
  [[0x50, 0x4b, 0x03, 0x04], "is a zip archive. Unpack it first."],
  [[0x50, 0x41, 0x52, 0x31], "is a parquet file. Set format: parquet."],
  [[0xff, 0xfe], "is UTF-16, not UTF-8. Convert it first."],
  [[0xfe, 0xff], "is UTF-16, not UTF-8. Convert it first."],
];

/**
 * The bytes of a file in chunks, unpacked from gzip of one or several members.
 * @throws DataError if it is not text, or broken gzip
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
  // Errors of the file reach the unpacked stream, which pipeline() destroys.
  pipeline(source, unpacked, () => {});
  try {
    yield* unpacked as AsyncIterable<Buffer>;
  } catch (error) {
    if (isAnySystemError(error)) throw error;
    throw new DataError(
      `${file} is broken or incomplete gzip (${(error as Error).message}). Download it again.`,
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
