// Opens safetensors files: reads and checks headers.

import { createHash } from "node:crypto";
import { constants, open } from "node:fs/promises";
import { FormatError, isSystemError } from "../../core/index.js";
import { parseHeader, parseHeaderLength, type TensorInfo } from "./header.js";

/** An opened safetensors file: its header, checked. */
export interface SafetensorsFile {
  /** Path as given. */
  readonly path: string;
  /** Size of the whole file in bytes. */
  readonly bytes: number;
  /** Modification time in milliseconds since 1970, to notice a change between two passes. */
  readonly modified: number;
  /** SHA-256 of the length and the header, hexadecimal: covers the layout, not the values. */
  readonly headerDigest: string;
  /** Tensors in the order of their data. */
  readonly tensors: readonly TensorInfo[];
  readonly metadata: Readonly<Record<string, string>>;
}

// Without O_NONBLOCK, opening a named pipe would wait for a writer forever. Windows has neither.
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/**
 * Reads and checks the header of a safetensors file.
 * @throws FormatError if the file is missing, not a file, or breaks the format in any way
 */
export async function openSafetensors(path: string): Promise<SafetensorsFile> {
  const handle = await open(path, READ).catch((error: unknown) => {
    if (isSystemError(error, "ENOENT")) throw new FormatError(`${path} does not exist`, { file: path }, error);
    if (isSystemError(error, "EACCES")) throw new FormatError(`${path} may not be read`, { file: path }, error);
    throw error;
  });
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw new FormatError(`${path} is not a file`, { file: path });
    const start = new Uint8Array(8);
    const { bytesRead } = await handle.read(start, 0, 8, 0);
    if (new TextDecoder().decode(start) === "version ") {
      throw new FormatError(`${path} is a Git LFS pointer, not the weights; fetch them with git lfs pull`, {
        file: path,
      });
    }
    const length = parseHeaderLength(start.subarray(0, bytesRead), stats.size, path);
    const json = new Uint8Array(length);
    for (let at = 0; at < length; ) {
      const { bytesRead } = await handle.read(json, at, length - at, 8 + at);
      if (bytesRead === 0) throw new FormatError(`${path} became shorter while it was read`, { file: path });
      at += bytesRead;
    }
    const header = parseHeader(json, stats.size, path);
    const headerDigest = createHash("sha256").update(start).update(json).digest("hex");
    return { path, bytes: stats.size, modified: stats.mtimeMs, headerDigest, ...header };
  } finally {
    await handle.close();
  }
}
