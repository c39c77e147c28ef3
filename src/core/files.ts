// Files that are on the disk when we say so: durable writes, folder syncs, JSON with a named culprit.
// Not for tensor data, which streaming/ moves.
import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Readable } from "node:stream";
import { CheckpointError, isAnySystemError, isSystemError } from "./errors.js";
import { isDeeperThan } from "./json.js";

/** Flushes a folder's entries (names, renames) to the disk. Does nothing where folders cannot be synced (Windows). */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes a whole small file so that, after a crash at any moment, either the old or the new content is there. */
export async function writeFileAtomically(path: string, content: string | Uint8Array): Promise<void> {
  const temporary = `${path}.${randomBytes(4).toString("hex")}.tmp`;
  try {
    const handle = await open(temporary, "wx");
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Whether something stands at this path, of whatever kind.
 * @param options.link whether a link that leads nowhere counts; default false
 */
export async function exists(path: string, options: { link?: boolean } = {}): Promise<boolean> {
  try {
    await (options.link ? lstat(path) : stat(path));
    return true;
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return false;
    throw error;
  }
}

/** Whether a regular file stands at this path; a pipe or a device could be read without end. */
export async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return false;
    throw error;
  }
}

/**
 * The bytes of a file, or of a stream, that the user names. They are counted while they are read, as pipes and devices have no size.
 * @throws what `tooLarge` makes, for more than `mostBytes`
 */
export async function readBounded(
  source: string | Readable,
  mostBytes: number,
  tooLarge: () => Error,
): Promise<Buffer> {
  if (typeof source === "string" && (await stat(source)).size > mostBytes) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of typeof source === "string" ? createReadStream(source) : source) {
      bytes += (chunk as Buffer).length;
      if (bytes > mostBytes) throw tooLarge();
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    // A folder is opened, and its first read fails without a name.
    if (isAnySystemError(error) && typeof source === "string") error.path ??= source;
    throw error;
  }
  return Buffer.concat(chunks);
}

// A configuration or index of a published model is at most a few MB; this bounds what a hostile one can make us read.
const MAX_JSON_BYTES = 100_000_000;
const MAX_JSON_DEPTH = 500;

/**
 * The stamp of a file: another one after any change of its bytes, even where size and modification time were put back.
 * Links to it and permissions change it, too.
 */
export async function stampOf(path: string): Promise<string> {
  const { size, mtimeNs, ctimeNs, ino } = await stat(path, { bigint: true });
  return [size, mtimeNs, ctimeNs, ino].join(" ");
}

/**
 * Reads a JSON object from a file.
 * @throws {CheckpointError} if it is missing, too large, not JSON, or not an object.
 */
export async function readJsonObject(
  path: string,
  mostBytes = MAX_JSON_BYTES,
  parseText: (text: string) => unknown = JSON.parse,
): Promise<Record<string, unknown>> {
  let size: number;
  try {
    const stats = await stat(path);
    if (!stats.isFile()) throw new CheckpointError(`${path} is not a file`, { file: path });
    size = stats.size;
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new CheckpointError(`${path} does not exist`, { file: path }, error);
    throw error;
  }
  if (size > mostBytes) {
    throw new CheckpointError(`${path} has ${size} bytes, too many for a JSON file of a checkpoint`, { file: path });
  }
  let value: unknown;
  try {
    value = parseText(await readFile(path, "utf8"));
  } catch (error) {
    throw new CheckpointError(`${path} is not valid JSON: ${(error as Error).message}`, { file: path }, error);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new CheckpointError(`${path} does not hold a JSON object`, { file: path });
  }
  // Published files nest some ten levels, a plan of nested recipes some hundred; code that walks a value calls itself for each.
  if (isDeeperThan(value, MAX_JSON_DEPTH)) {
    throw new CheckpointError(`${path} nests deeper than ${MAX_JSON_DEPTH} levels`, { file: path });
  }
  return value as Record<string, unknown>;
}

/**
 * Rewrites a file that holds a JSON object. Numbers that do not change keep their source text: transformers refuses `30`
 * where a field is declared as a float, and `1e30` is not the integer that it was.
 * @param change gets numbers that JavaScript would print otherwise as objects; `Number()` reads them
 * @throws {CheckpointError} as `readJsonObject` does
 */
export async function rewriteJson(
  from: string,
  to: string,
  change: (json: Record<string, unknown>) => Readonly<Record<string, unknown>>,
): Promise<void> {
  const { LosslessNumber, parse, stringify } = await import("lossless-json");
  const sourceNumber = (text: string) => (String(Number(text)) === text ? Number(text) : new LosslessNumber(text));
  const json = await readJsonObject(from, MAX_JSON_BYTES, (text) =>
    // Of a key that is repeated the last value counts, as for JSON.parse.
    parse(text, null, { parseNumber: sourceNumber, onDuplicateKey: ({ newValue }) => newValue }),
  );
  await writeFile(to, `${stringify(change(json), null, 2)}\n`);
}
