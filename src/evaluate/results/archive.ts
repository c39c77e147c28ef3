// Reads the zip archive that Inspect writes as a binary log: JSON files, packed with deflate or zstd.
import { buffer } from "node:stream/consumers";
import { crc32 } from "node:zlib";
import type { Entry, ZipFile } from "yauzl";
import { formatBytes, isAnySystemError, isFile, RecipeError } from "../../core/index.js";

/** One sample with its transcript. Inspect starts another zstd frame at 200 MiB, and the decompressor reads one. */
const MAX_ENTRY_BYTES = 200_000_000;
const MAX_TOTAL_BYTES = 20_000_000_000;
const MAX_ENTRIES = 500_000;

/** Compression method of zip archives (APPNOTE 4.4.5). */
const ZSTD = 93;

export interface ArchiveEntry {
  readonly name: string;
  readonly text: string;
}

/**
 * Yields the files of an archive that are wanted, one at a time. Of several with one name, the last counts.
 * @throws RecipeError if the archive is damaged, or unpacks to more than a log holds
 */
export async function* readArchive(
  file: string,
  isWanted: (name: string) => boolean,
): AsyncGenerator<ArchiveEntry, void> {
  // Names are not paths here: nothing is written, so they need no check.
  const { openPromise } = await import("yauzl");
  // Opening a pipe waits for its writer.
  if (!(await isFile(file))) throw new RecipeError(`${file} does not exist or is not a file`, [], { file });
  const zip = await openPromise(file, { autoClose: false, decodeStrings: false }).catch((error: unknown) => {
    throw damaged(file, error);
  });
  try {
    for (const [name, entry] of await listEntries(file, zip, isWanted)) {
      const text = await unpack(zip, entry).catch((error: unknown) => {
        throw damaged(file, error);
      });
      yield { name, text };
    }
  } finally {
    zip.close();
  }
}

async function listEntries(
  file: string,
  zip: ZipFile,
  isWanted: (name: string) => boolean,
): Promise<Map<string, Entry>> {
  if (zip.entryCount > MAX_ENTRIES) throw tooLarge(file, `has ${zip.entryCount} files`);
  const wanted = new Map<string, Entry>();
  try {
    for await (const entry of zip.eachEntry()) {
      const name = entry.fileNameRaw.toString("utf8");
      if (isWanted(name)) wanted.set(name, entry);
    }
  } catch (error) {
    throw damaged(file, error);
  }
  let total = 0;
  for (const [name, { uncompressedSize }] of wanted) {
    total += uncompressedSize;
    if (uncompressedSize > MAX_ENTRY_BYTES) throw tooLarge(file, `has ${formatBytes(uncompressedSize)} in ${name}`);
    if (total > MAX_TOTAL_BYTES) throw tooLarge(file, `unpacks to more than ${formatBytes(MAX_TOTAL_BYTES)}`);
  }
  return wanted;
}

async function unpack(zip: ZipFile, entry: Entry): Promise<string> {
  const isZstd = entry.compressionMethod === ZSTD;
  const { compressedSize, uncompressedSize } = entry;
  // Each byte that is read costs time; nothing that a compressor writes is longer than what it packs, but for headers.
  if (compressedSize > uncompressedSize + uncompressedSize / 100 + 1_000) throw new Error("a size is wrong");
  const packed = await buffer(await zip.openReadStreamPromise(entry, isZstd ? { decodeFileData: false } : {}));
  const bytes = isZstd ? await unpackZstd(packed, uncompressedSize) : packed;
  if (crc32(bytes) !== entry.crc32) throw new Error("a checksum is wrong");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** With the output given, the decompressor allocates nothing that the data asks for, and writes nothing past its end. */
async function unpackZstd(packed: Uint8Array, size: number): Promise<Uint8Array> {
  const { decompressZstd } = await import("hyparquet-compressors");
  return decompressZstd(packed, new Uint8Array(size));
}

function damaged(file: string, error: unknown): unknown {
  if (isAnySystemError(error)) return error;
  const reason = (error as Error).message.replace(/\.$/, "");
  return new RecipeError(`${file} is damaged or is not a log of Inspect (${reason}); copy it again`, [], { file });
}

const tooLarge = (file: string, what: string) =>
  new RecipeError(`${file} ${what}, more than compare reads of a log`, [], { file });
