// Writes small checkpoints from memory and reads single tensors.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { writeFileAtomically, writeFully } from "../../kit/files/index.js";
import { FormatError } from "../../kit/index.js";
import { serializeHeader, type TensorDeclaration, type TensorInfo } from "./header.js";
import { layoutFolder } from "./layout.js";
import { readPieces, readRange, type SafetensorsFile } from "./reader.js";
import { moduleTensor } from "./sharded.js";

/**
 * A tensor with its values: the bytes of its elements, little-endian, row-major. `data` is read once, when the tensor
 * is written, so it may be a getter.
 */
export interface TensorData extends TensorDeclaration {
  readonly data: Uint8Array;
}

/** The bytes of a tensor: an array of any element type, or pieces one after the other. */
export type TensorBytes = ArrayBufferView<ArrayBufferLike> | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** Its values may be computed meanwhile: those of a tensor are asked for when the one before it is written. */
export interface TensorToWrite extends TensorDeclaration {
  readonly data: TensorBytes | Promise<TensorBytes>;
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
  await writeFileAtomically(path, async (handle) => {
    await writeFully(handle, header, 0);
    for (const [i, { name, bytes, offset }] of placed.entries()) {
      const data = (await tensors[i]?.data) ?? new Uint8Array();
      let written = 0;
      for await (const piece of ArrayBuffer.isView(data) ? [data] : data) {
        // Before it would overwrite the next tensor.
        if (written + piece.byteLength > bytes) throw wrongLength(name, bytes, written + piece.byteLength);
        await writeFully(handle, piece, offset + written);
        written += piece.byteLength;
      }
      if (written < bytes) throw wrongLength(name, bytes, written);
    }
  });
}

function wrongLength(tensor: string, needed: number, found: number): FormatError {
  return new FormatError(`tensor ${JSON.stringify(tensor)} needs ${needed} bytes, but has ${found}`, { tensor });
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
    const filled = shard.tensors.map(({ name }) => named(tensorOf.get(name) as TensorToWrite));
    await mkdir(dirname(join(folder, shard.name)), { recursive: true });
    await writeSafetensors(join(folder, shard.name), filled, { ...options.metadata, format: "pt" });
  }
  if (layout.index) await writeFile(join(folder, layout.index.name), layout.index.content);
  return layout.shards.map((shard) => shard.name);
}

/** A tensor under its name in its file. Its data is computed when it is asked for. */
function named(tensor: TensorToWrite): TensorToWrite {
  const inModule = moduleTensor(tensor.name);
  return inModule ? Object.create(tensor, { name: { value: inModule.name } }) : tensor;
}

/**
 * Reads the bytes of one tensor.
 * @throws LayergraftError code `memory` if it has more bytes than an array of this Node.js: 4 GiB before 22.3
 */
export function readTensor(file: Pick<SafetensorsFile, "path" | "remote">, tensor: TensorInfo): Promise<Uint8Array> {
  return readRange(file, tensor.offset, tensor.offset + tensor.bytes);
}

/** The bytes of one tensor in pieces, for tensors of any size. */
export function readTensorPieces(
  file: Pick<SafetensorsFile, "path" | "remote">,
  tensor: Pick<TensorInfo, "offset" | "bytes">,
): AsyncIterable<Uint8Array> {
  return readPieces(file, tensor.offset, tensor.offset + tensor.bytes);
}
