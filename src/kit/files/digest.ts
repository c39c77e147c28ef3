// SHA-256 of bytes, texts, files and JSON values, in hexadecimal.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { cacheFolder, makeCacheFolder } from "./cache-folder.js";
import { stampOf, writeFileAtomically } from "./files.js";

export function digestOf(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

/** Reading a smaller file takes no longer than looking its digest up. */
const KEPT_BYTES = 2 ** 20;
/** File systems round times, some to two seconds: a write so soon after another may leave the stamp as it is. */
const SETTLED_MS = 2000;

/**
 * Digest of a file's content, as `sha256sum` prints it. That of a large file is kept in the cache folder until its stamp
 * changes, so that a model is read once for all that name it.
 */
export async function digestOfFile(path: string): Promise<string> {
  const { size, ctimeMs } = await stat(path);
  if (size < KEPT_BYTES) return readDigest(path);
  const stamp = await stampOf(path);
  const isSettled = Date.now() - ctimeMs > SETTLED_MS;
  const kept = join(cacheFolder("digests"), digestOf(await realpath(path)));
  const known = await readFile(kept, "utf8").catch(() => "");
  const digest = /^[0-9a-f]{64}$/.exec(known.startsWith(`${stamp}\n`) ? known.slice(stamp.length + 1) : "")?.[0];
  if (digest !== undefined) return digest;
  const read = await readDigest(path);
  if (isSettled && (await stampOf(path)) === stamp) {
    // Only a cache: without it the file is read again.
    const keep = makeCacheFolder(dirname(kept)).then(() => writeFileAtomically(kept, `${stamp}\n${read}`));
    await keep.catch(() => undefined);
  }
  return read;
}

async function readDigest(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 2 ** 20 }), hash);
  return hash.digest("hex");
}

/** Digest of a value's JSON; depends on the order of fields. */
export function digestOfJson(value: unknown): string {
  return digestOf(JSON.stringify(value));
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
