// Opens safetensors files: reads and checks headers.

import { createHash, type Hash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { requireArray } from "../../kit/arrays/index.js";
import { READ_NOW, stampOf, withFile } from "../../kit/files/index.js";
import { FormatError, isSystemError } from "../../kit/index.js";
import { parseHeader, parseHeaderLength, type TensorInfo } from "./header.js";

/** An opened safetensors file: its header, checked. */
export interface SafetensorsFile {
  /** Path as given. */
  readonly path: string;
  /** Size of the whole file in bytes. */
  readonly bytes: number;
  /** Modification time in milliseconds since 1970, to notice a change between two runs. */
  readonly modified: number;
  /** Its stamp, to notice a change within a run; empty on the hub, where a commit never changes. */
  readonly stamp: string;
  /** SHA-256 of the length and the header, hexadecimal: covers the layout, not the values. */
  readonly headerDigest: string;
  /** Tensors in the order of their data. */
  readonly tensors: readonly TensorInfo[];
  readonly metadata: Readonly<Record<string, string>>;
  /** The file on the hub, if `path` does not exist and its bytes are fetched when they are read. */
  readonly remote?: RemoteFile;
}

/** A file on the hub. */
export interface RemoteFile {
  /** SHA-256 that the hub lists, hexadecimal. */
  readonly sha256: string;
  /** A SHA-256 of the file's bytes up to `at`, where its header ends, to continue. */
  beginHash(): { readonly hash: Hash; at: number };
  /** Bytes fetched so far, without the header. */
  readonly fetched: number;
  /**
   * Streams the bytes from `start` up to, not including, `end`. Resumes broken connections.
   * @param signal ends the stream
   */
  stream(start: number, end: number, signal?: AbortSignal): AsyncIterable<Uint8Array>;
}

/**
 * Reads and checks the header of a safetensors file.
 * @throws FormatError if the file is missing, not a file, or breaks the format in any way
 */
export async function openSafetensors(path: string): Promise<SafetensorsFile> {
  return withFile(path, READ_NOW, async (handle) => {
    const stats = await handle.stat();
    if (!stats.isFile()) throw new FormatError(`${path} is not a file`, { file: path });
    const read = async (start: number, end: number) => {
      const bytes = new Uint8Array(end - start);
      await readFully(handle, path, bytes, start);
      return bytes;
    };
    const header = await readHeader(path, stats.size, read);
    return { path, bytes: stats.size, modified: stats.mtimeMs, stamp: await stampOf(handle), ...header };
  }).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) throw new FormatError(`${path} does not exist`, { file: path }, error);
    if (isSystemError(error, "EACCES")) throw new FormatError(`${path} may not be read`, { file: path }, error);
    throw error;
  });
}

/**
 * Reads and checks the header of a file of `size` bytes.
 * @param read returns the bytes from `start` up to, not including, `end`
 */
export async function readHeader(
  path: string,
  size: number,
  read: (start: number, end: number) => Promise<Uint8Array>,
): Promise<Pick<SafetensorsFile, "headerDigest" | "tensors" | "metadata">> {
  const start = await read(0, Math.min(8, size));
  if (new TextDecoder().decode(start) === "version ") {
    throw new FormatError(`${path} is a Git LFS pointer, not the weights; fetch them with git lfs pull`, {
      file: path,
    });
  }
  const length = parseHeaderLength(start, size, path);
  const json = await read(8, 8 + length);
  const header = parseHeader(json, size, path);
  return { ...header, headerDigest: createHash("sha256").update(start).update(json).digest("hex") };
}

/** Reads the bytes of a file from `start` up to, not including, `end`, from the disk or the hub. */
export async function readRange(
  file: Pick<SafetensorsFile, "path" | "remote">,
  start: number,
  end: number,
): Promise<Uint8Array> {
  const [bytes] = await readRanges(file, [[start, end]]);
  return bytes as Uint8Array;
}

/** Reads several ranges at once, with the file opened once. */
export async function readRanges(
  file: Pick<SafetensorsFile, "path" | "remote">,
  ranges: readonly (readonly [start: number, end: number])[],
): Promise<Uint8Array[]> {
  const { path, remote } = file;
  const each = (fill: (bytes: Uint8Array, start: number, end: number) => Promise<void>) =>
    Promise.all(
      ranges.map(async ([start, end]) => {
        requireArray(end - start, `reading ${end - start} bytes of ${path} at once`, { file: path });
        const bytes = new Uint8Array(end - start);
        await fill(bytes, start, end);
        return bytes;
      }),
    );
  if (!remote) return withFile(path, "r", (handle) => each((bytes, start) => readFully(handle, path, bytes, start)));
  return each(async (bytes, start, end) => {
    let at = 0;
    for await (const chunk of remote.stream(start, end)) {
      bytes.set(chunk, at);
      at += chunk.length;
    }
  });
}

/** Bytes of a piece. */
const PIECE_BYTES = 2 ** 22;

/** Reads a range of any length in pieces, in order. A piece is valid until the next. */
export async function* readPieces(
  { path, remote }: Pick<SafetensorsFile, "path" | "remote">,
  start: number,
  end: number,
): AsyncGenerator<Uint8Array> {
  if (remote) return yield* remote.stream(start, end);
  const handle = await open(path, "r");
  try {
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, end - start));
    for (let at = start; at < end; at += buffer.length) {
      const piece = buffer.subarray(0, end - at);
      await readFully(handle, path, piece, at);
      yield piece;
    }
  } finally {
    await handle.close();
  }
}

/** Node reads less than 2 GiB at once. */
const MAX_READ_BYTES = 2 ** 30;

async function readFully(handle: FileHandle, path: string, into: Uint8Array, start: number): Promise<void> {
  for (let at = 0; at < into.length; ) {
    const length = Math.min(into.length - at, MAX_READ_BYTES);
    const { bytesRead } = await handle.read(into, at, length, start + at);
    if (bytesRead === 0) throw new FormatError(`${path} became shorter while it was read`, { file: path });
    at += bytesRead;
  }
}
