// Durable writes, and bounded reads of files that users name.
import { createHash, randomBytes } from "node:crypto";
import { closeSync, constants, createReadStream, openSync, readSync, type Stats } from "node:fs";
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from "node:fs/promises";
import { Socket } from "node:net";
import { basename, dirname, join, resolve, sep } from "node:path";
import { Readable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { bytesInPieces } from "../arrays/index.js";
import { CheckpointError, isAnySystemError, isSystemError, OutputError } from "../errors.js";
import { isDeeperThan } from "../json.js";
import { formatBytes } from "../printing/format.js";

/** Flushes the entries of a folder to disk. Does nothing on Windows, which cannot. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform !== "win32") await syncFile(path, "r");
}

/** Flushes the content of a file to disk. */
export function syncFile(path: string, flags = "r+"): Promise<void> {
  return withFile(path, flags, (handle) => handle.sync());
}

/**
 * Checks that a disk has space for an output.
 * @param present bytes of it that are there already
 * @throws OutputError with the bytes needed in `where.expected` and those free in `where.actual`
 */
export async function requireSpace(path: string, bytes: number, present = 0): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(path));
  const free = bavail * bsize + present;
  if (free >= bytes) return;
  throw new OutputError(
    `the output needs ${formatBytes(bytes)}, but the disk of ${dirname(path)} has only ${formatBytes(free)} free. Free some space, or choose another disk.`,
    { file: path, expected: `${bytes} bytes`, actual: `${free} bytes` },
  );
}

/** Works on an open file, and closes it however that ends. */
export async function withFile<T>(
  path: string,
  flags: string | number,
  work: (handle: FileHandle) => Promise<T>,
  mode?: number,
): Promise<T> {
  const handle = await open(path, flags, mode);
  try {
    return await work(handle);
  } catch (error) {
    // Errors of an open file have no path.
    if (isAnySystemError(error)) error.path ??= path;
    throw error;
  } finally {
    await handle.close();
  }
}

/** The bytes of a view of memory, which they share. */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView<ArrayBufferLike>): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Writes all bytes of an array, of any element type, into a file, from a position on. */
export async function writeFully(
  handle: FileHandle,
  array: ArrayBufferView<ArrayBufferLike>,
  position: number,
): Promise<void> {
  let place = position;
  for (const bytes of bytesInPieces(array)) {
    // A write takes fewer bytes than asked for when the disk fills up.
    for (let at = 0; at < bytes.byteLength; ) {
      at += (await handle.write(bytes, at, bytes.byteLength - at, place + at)).bytesWritten;
    }
    place += bytes.byteLength;
  }
}

/**
 * Writes a file so that a crash at any moment leaves either the old or the new content.
 * @param content what it has, or what writes that
 * @param mode permissions. Default: those of the process
 */
export async function writeFileAtomically(
  path: string,
  content: string | Uint8Array | ((handle: FileHandle) => Promise<void>),
  mode?: number,
): Promise<void> {
  const temporary = pathBeside(path, `.${randomBytes(4).toString("hex")}.tmp`);
  const write = async (handle: FileHandle) => {
    await (typeof content === "function" ? content(handle) : handle.writeFile(content));
    await handle.sync();
  };
  try {
    await withFile(temporary, "wx", write, mode);
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(temporary, { force: true });
    if (isAnySystemError(error) && error.path === temporary) error.path = path;
    throw error;
  }
}

/** Every file system takes names of so many bytes. */
const SAFE_NAME_BYTES = 128;

/**
 * The path with a suffix, for what is renamed to it. A long name is cut and told apart by its digest, so that the result is no
 * longer than what the file system must take anyway.
 */
export function pathBeside(path: string, suffix: string): string {
  const name = Buffer.from(basename(path));
  const most = Math.max(SAFE_NAME_BYTES, name.length) - suffix.length;
  if (name.length <= most) return `${path}${suffix}`;
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 16);
  // Part of a character would become a longer one.
  const start = name
    .subarray(0, most - digest.length - 1)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
  return join(dirname(path), `${start}-${digest}${suffix}`);
}

/**
 * Makes a folder and those around it that are missing.
 * @param make makes one or, recursively, all; for tests
 */
export async function makeFolder(path: string, make: typeof mkdir = mkdir): Promise<void> {
  try {
    await make(path, { recursive: true });
  } catch (error) {
    // Node.js says so of a read-only file system, too.
    if (!isSystemError(error, "ENOENT")) throw error;
    let first = path;
    while (!(await exists(dirname(first), { link: true }))) first = dirname(first);
    await make(first);
    throw error;
  }
}

/**
 * Whether anything exists at this path.
 * @param options.link whether a broken link counts; default false
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

/**
 * Whether a missing path was meant for this machine rather than as a name such as `org/name`: the first of its folders is
 * here.
 */
export async function beginsHere(path: string, base = "."): Promise<boolean> {
  const [first = "", ...rest] = path.split(/[/\\]/);
  return rest.length > 0 && first !== "" && (await exists(resolve(base, first)));
}

/** Whether this is a regular file; a pipe or a device could be read without end. */
export async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return false;
    throw error;
  }
}

/**
 * The size and times of a regular file. Opening a pipe waits for its writer, and a device could be read without end.
 * @throws CheckpointError if it is something else
 */
export async function statFile(path: string): Promise<Stats> {
  const stats = await stat(path);
  if (!stats.isFile()) throw new CheckpointError(`${path} is not a file`, { file: path });
  return stats;
}

/** Whether what exists at a path is in one of these folders, as far as they exist, once symbolic links are followed. */
export async function staysIn(path: string, ...folders: readonly string[]): Promise<boolean> {
  const target = await realpath(path);
  const homes = await Promise.all(folders.map((one) => realpath(one).catch(() => undefined)));
  return homes.some((home) => home !== undefined && target.startsWith(join(home, sep)));
}

/** To open without waiting: opening a named pipe waits for a writer, which may never come. Windows has neither. */
export const READ_NOW = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Milliseconds in which something has to begin to write to a pipe. */
const WRITER_COMES = 2000;

/** What a pipe gives until nothing writes to it any more; nothing if nothing begins to. */
async function* readPipe(path: string): AsyncGenerator<Buffer> {
  const fd = openSync(path, READ_NOW);
  const first = Buffer.alloc(2 ** 16);
  try {
    let length = 0;
    for (const end = performance.now() + WRITER_COMES; length === 0; await setTimeout(10)) {
      length = readSync(fd, first);
      if (length === 0 && performance.now() > end) return closeSync(fd);
    }
    yield first.subarray(0, length);
  } catch (error) {
    if (!isSystemError(error, "EAGAIN")) throw error;
  }
  // It has a writer, whose end it tells.
  yield* new Socket({ fd, readable: true, writable: false }) as AsyncIterable<Buffer>;
}

/**
 * Reads a file or stream that the user names. Bytes are counted while they are read, as pipes and devices have no size.
 * @throws the error of `tooLarge` for more than `mostBytes`
 */
export async function readBounded(
  source: string | Readable,
  mostBytes: number,
  tooLarge: () => Error,
): Promise<Buffer> {
  let stream = source;
  if (typeof stream === "string") {
    const stats = await stat(stream);
    if (stats.size > mostBytes) throw tooLarge();
    stream = stats.isFIFO() ? Readable.from(readPipe(stream)) : createReadStream(stream);
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      bytes += (chunk as Buffer).length;
      if (bytes > mostBytes) throw tooLarge();
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    // A folder can be opened, but the error of its first read has no path.
    if (isAnySystemError(error) && typeof source === "string") error.path ??= source;
    throw error;
  }
  return Buffer.concat(chunks);
}

// Well above the few MB of published configurations and indexes.
const MAX_JSON_BYTES = 100_000_000;
const MAX_JSON_DEPTH = 500;

/**
 * The stamp of a file, which changes with its bytes, even if size and modification time are restored. New links and
 * permissions change it too.
 */
export async function stampOf(file: string | FileHandle): Promise<string> {
  const stats = typeof file === "string" ? stat(file, { bigint: true }) : file.stat({ bigint: true });
  const { size, mtimeNs, ctimeNs, ino } = await stats;
  return [size, mtimeNs, ctimeNs, ino].join(" ");
}

/**
 * Reads a JSON object from a file.
 * @throws CheckpointError if it is missing, too large, not JSON, or not an object.
 */
export async function readJsonObject(
  path: string,
  mostBytes = MAX_JSON_BYTES,
  parse: (bytes: Buffer) => unknown = (bytes) => JSON.parse(bytes.toString("utf8")),
): Promise<Record<string, unknown>> {
  let size: number;
  try {
    size = (await statFile(path)).size;
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new CheckpointError(`${path} does not exist`, { file: path }, error);
    throw error;
  }
  if (size > mostBytes) {
    throw new CheckpointError(`${path} has ${size} bytes, too many for a JSON file of a checkpoint`, { file: path });
  }
  let value: unknown;
  try {
    value = parse(await readFile(path));
  } catch (error) {
    throw new CheckpointError(`${path} is not valid JSON: ${(error as Error).message}`, { file: path }, error);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new CheckpointError(`${path} does not contain a JSON object`, { file: path });
  }
  // Published files have some ten levels, plans of nested recipes some hundred. Code that walks values is recursive.
  if (isDeeperThan(value, MAX_JSON_DEPTH)) {
    throw new CheckpointError(`${path} nests deeper than ${MAX_JSON_DEPTH} levels`, { file: path });
  }
  return value as Record<string, unknown>;
}

/**
 * The text of a rewritten JSON object. Unchanged numbers keep their source text: transformers refuses `30` in a field that is declared
 * as a float, and `1e30` would become an integer.
 * @param change gets numbers that JavaScript would print differently as objects; `Number()` reads them
 * @throws CheckpointError as `readJsonObject` does
 */
export async function rewrittenJson(
  from: string,
  change: (json: Record<string, unknown>) => Readonly<Record<string, unknown>>,
): Promise<string> {
  const { LosslessNumber, parse, stringify } = await import("lossless-json");
  const sourceNumber = (text: string) => (String(Number(text)) === text ? Number(text) : new LosslessNumber(text));
  const json = await readJsonObject(from, MAX_JSON_BYTES, (bytes) =>
    // The last value of a repeated key counts, as in JSON.parse.
    parse(bytes.toString("utf8"), null, { parseNumber: sourceNumber, onDuplicateKey: ({ newValue }) => newValue }),
  );
  return `${stringify(change(json), null, 2)}\n`;
}

/** Writes the text of `rewrittenJson` to a file. */
export async function rewriteJson(
  from: string,
  to: string,
  change: (json: Record<string, unknown>) => Readonly<Record<string, unknown>>,
): Promise<void> {
  await writeFile(to, await rewrittenJson(from, change));
}
