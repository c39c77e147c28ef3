// Writes small checkpoints from memory and reads single tensors.

import { type FileHandle, open, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { FormatError, syncFolder } from "../../core/index.js";
import { serializeHeader, type TensorDeclaration, type TensorInfo } from "./header.js";
import { layoutFolder } from "./layout.js";
import { readRange, type SafetensorsFile } from "./reader.js";

/**
 * A tensor with its values: the bytes of its elements, little-endian, row-major. `data` is read once, when the tensor
 * is written, so it may be a getter.
 */
export interface TensorData extends TensorDeclaration {
  readonly data: Uint8Array;
}

/** Its values may be computed meanwhile: those of a tensor are asked for when the one before it is written. */
interface TensorToWrite extends TensorDeclaration {
  readonly data: Uint8Array | Promise<Uint8Array>;
}

/**
 * Writes one safetensors file; it appears whole or not at all.
 * @throws FormatError if the length of a tensor's data does not match its dtype and shape
 */
export async function writeSafetensors(
  path: string,
  tensors: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>> = { format: "pt" },
): Promise<void> {
  const { bytes: header, tensors: placed } = serializeHeader(tensors, metadata);
  const temporary = `${path}.tmp`;
  const handle = await open(temporary, "w");
  try {
    await writeAll(handle, header);
    for (const [i, { name, bytes }] of placed.entries()) {
      const data = (await tensors[i]?.data) ?? new Uint8Array();
      if (data.byteLength !== bytes) {
        throw new FormatError(`tensor ${JSON.stringify(name)} needs ${bytes} bytes, but has ${data.byteLength}`, {
          tensor: name,
        });
      }
      await writeAll(handle, data);
    }
    await handle.sync();
    await handle.close();
    await rename(temporary, path);
  } catch (error) {
    await handle.close().catch(() => undefined);
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

// A single write takes at most 2 GiB less a page on Linux, and less than asked for when the disk fills up.
const MAX_WRITE_BYTES = 2 ** 30;

async function writeAll(handle: FileHandle, data: Uint8Array): Promise<void> {
  for (let at = 0; at < data.byteLength; ) {
    const { bytesWritten } = await handle.write(data, at, Math.min(data.byteLength - at, MAX_WRITE_BYTES));
    at += bytesWritten;
  }
}

/**
 * Writes the weight files of a folder: `model.safetensors`, or shards and their index.
 * @returns the names of the weight files
 */
export async function writeSharded(
  folder: string,
  tensors: readonly TensorToWrite[],
  options: { shardBytes?: number; metadata?: Readonly<Record<string, string>> } = {},
): Promise<string[]> {
  const layout = layoutFolder(tensors, options);
  const tensorOf = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  for (const shard of layout.shards) {
    const filled = shard.tensors.map(({ name }) => tensorOf.get(name) as TensorToWrite);
    await writeSafetensors(join(folder, shard.name), filled, { ...options.metadata, format: "pt" });
  }
  if (layout.index) await writeFile(join(folder, layout.index.name), layout.index.content);
  return layout.shards.map((shard) => shard.name);
}

/** Reads the bytes of one tensor. */
export function readTensor(file: Pick<SafetensorsFile, "path" | "remote">, tensor: TensorInfo): Promise<Uint8Array> {
  return readRange(file, tensor.offset, tensor.offset + tensor.bytes);
}
