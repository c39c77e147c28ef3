// SHA-256 of bytes, texts, files and JSON values, in hexadecimal.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { CancelledError } from "../errors.js";
import { cacheFolder, makeCacheFolder } from "./cache-folder.js";
import { stampOf, statFile, writeFileAtomically } from "./files.js";

export function digestOf(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

/** Reading a smaller file takes no longer than looking its digest up. */
const KEPT_BYTES = 2 ** 20;
/** File systems round times, some to two seconds: a write so soon after another may leave the stamp as it is. */
const SETTLED_MS = 2000;

/**
 * A text about files, kept in a folder of the cache until the stamp of one of them changes. What is not on the disk is on the
 * hub, at a commit that its path names.
 */
export async function keptText(kind: string, paths: readonly string[]) {
  const stampAll = async () => (await Promise.all(paths.map((path) => stampOf(path).catch(() => "")))).join(" ");
  const places = await Promise.all(paths.map((path) => realpath(path).catch(() => path)));
  const asked = Date.now();
  const areSettled = async () => {
    const all = await Promise.all(paths.map((path) => stat(path).catch(() => undefined)));
    return all.every((one) => asked - (one?.ctimeMs ?? 0) > SETTLED_MS);
  };
  const file = join(cacheFolder(kind), digestOf(places.join("\n")));
  const stamp = await stampAll();
  const known = await readFile(file, "utf8").catch(() => "");
  return {
    text: known.startsWith(`${stamp}\n`) ? known.slice(stamp.length + 1) : undefined,
    keep: async (text: string): Promise<void> => {
      if ((await stampAll()) !== stamp || !(await areSettled())) return;
      // Only a cache: without it the files are read again.
      const keep = makeCacheFolder(dirname(file)).then(() => writeFileAtomically(file, `${stamp}\n${text}`));
      await keep.catch(() => undefined);
    },
  };
}

/**
 * Digest of a file's content, as `sha256sum` prints it. That of a large file is kept in the cache folder until its stamp
 * changes, so that a model is read once for all that name it.
 * @param options.onRead called with bytes as they are read, and with all of a file whose digest was kept
 * @throws CancelledError if the signal fires
 */
export async function digestOfFile(path: string, options: DigestOptions = {}): Promise<string> {
  const { size } = await statFile(path);
  if (size < KEPT_BYTES) return readDigest(path, options);
  const { text = "", keep } = await keptText("digests", [path]);
  if (/^[0-9a-f]{64}$/.test(text)) {
    options.onRead?.(size);
    return text;
  }
  const read = await readDigest(path, options);
  await keep(read);
  return read;
}

export interface DigestOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onRead?: ((bytes: number) => void) | undefined;
}

async function readDigest(path: string, { signal, onRead }: DigestOptions): Promise<string> {
  const hash = createHash("sha256");
  const content = createReadStream(path, { highWaterMark: 2 ** 20 });
  if (onRead) content.on("data", (piece) => onRead(piece.length));
  await pipeline(content, hash, signal ? { signal } : {}).catch((error: unknown) => {
    if (signal?.aborted) throw new CancelledError(`stopped while ${basename(path)} was read`);
    throw error;
  });
  return hash.digest("hex");
}

/** Digest of a value's JSON; depends on the order of fields. */
export function digestOfJson(value: unknown): string {
  const hash = createHash("sha256");
  for (const part of jsonParts(value, LISTS)) hash.update(part);
  return hash.digest("hex");
}

/** Lists within lists whose items have texts of their own. */
const LISTS = 2;

/** The JSON of a value in parts: the plan of a large mixture of experts is longer than a string may be. */
function* jsonParts(value: unknown, lists: number): Generator<string> {
  if (!Array.isArray(value) || lists === 0) return yield JSON.stringify(value) ?? "null";
  yield "[";
  for (const [i, item] of value.entries()) {
    if (i > 0) yield ",";
    yield* jsonParts(item, lists - 1);
  }
  yield "]";
}

/** JSON with sorted fields: equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** Digest of a value, whatever the order of its fields. */
export function digestOfValue(value: unknown): string {
  return digestOf(canonicalJson(value));
}
