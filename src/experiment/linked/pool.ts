// The pool of layers that linked models share: weight files by key, each beside a note of how it was left, so that one
// that was cut short or written to since is made again and not linked to. What a key says is write.ts's.
import { open, readFile, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomically } from "../../core/files.js";
import type { ShardLayout } from "../../safetensors/layout.js";

/** Path of a layer's weight file. */
export function poolFile(pool: string, key: string): string {
  return join(pool, `${key}.safetensors`);
}

function noteFile(pool: string, key: string): string {
  return join(pool, `${key}.json`);
}

/**
 * What changes when a file is written to. Not its time of change, which a link to it alters, too; so bytes that are written
 * with the modification time put back are not noticed.
 */
async function stateOf(path: string): Promise<string> {
  const { size, mtimeNs } = await stat(path, { bigint: true });
  return JSON.stringify({ bytes: Number(size), modified: String(mtimeNs) });
}

/**
 * Whether a layer is in the pool, as it was left there. Reads its header only.
 * @param layout of the file that it should be
 */
export async function isPooled(pool: string, key: string, layout: ShardLayout): Promise<boolean> {
  try {
    const path = poolFile(pool, key);
    const [now, noted] = [await stateOf(path), await readFile(noteFile(pool, key), "utf8")];
    return now === noted.trim() && (await stat(path)).size === layout.bytes && (await beginsWith(path, layout.header));
  } catch {
    return false; // one of them is not there, or cannot be read: it is written again
  }
}

async function beginsWith(path: string, header: Uint8Array): Promise<boolean> {
  const handle = await open(path, "r");
  try {
    const found = Buffer.alloc(header.byteLength);
    const { bytesRead } = await handle.read(found, 0, found.byteLength, 0);
    return bytesRead === header.byteLength && found.equals(header);
  } finally {
    await handle.close();
  }
}

/**
 * Makes a whole, flushed file the layer of a key. Of two processes that do so at once the last one's file stays; where the
 * other's note does, the layer is written once more.
 */
export async function admit(pool: string, key: string, file: string): Promise<void> {
  const state = await stateOf(file);
  await rename(file, poolFile(pool, key));
  await writeFileAtomically(noteFile(pool, key), `${state}\n`);
}
