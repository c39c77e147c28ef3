// Output files that begin as clones: a file system that shares blocks then writes only what differs from one source.
import { chmod, constants, copyFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import {
  type FolderLayout,
  lengthenHeader,
  type SafetensorsFile,
  type ShardLayout,
} from "../../formats/safetensors/index.js";
import { syncFile } from "../../kit/files/index.js";
import { measurementsOf, Resolver, type Sources } from "../../tensor/expressions/index.js";
import { cutIntoPieces, type Program } from "../../tensor/streaming/index.js";
import { copied, type WrittenStep } from "./compile.js";

/**
 * Lengthens the header of each file of which one source gives most of the bytes, so that these are in the same place as in
 * the source. The layout, and so every byte of the output, is the same whether the file system can clone or not.
 */
export function alignWithSources(layout: FolderLayout, steps: readonly WrittenStep[], sources: Sources): FolderLayout {
  const resolver = new Resolver(sources);
  const stepOf = new Map(steps.map((step) => [step.tensor, step]));
  return { ...layout, shards: layout.shards.map((shard) => align(shard, stepOf, resolver)) };
}

function align(shard: ShardLayout, stepOf: ReadonlyMap<string, WrittenStep>, resolver: Resolver): ShardLayout {
  const inPlace = new Map<SafetensorsFile, number>();
  const longer = ({ tensors }: SafetensorsFile) => (tensors[0]?.offset ?? 0) - shard.header.byteLength;
  for (const tensor of shard.tensors) {
    const step = stepOf.get(tensor.name);
    const from = step && measurementsOf(step.value).length === 0 ? copied(step, resolver) : undefined;
    if (!from || from.file.remote || from.offset - tensor.offset !== longer(from.file)) continue;
    inPlace.set(from.file, (inPlace.get(from.file) ?? 0) + from.bytes);
  }
  const half = (shard.bytes - shard.header.byteLength) / 2;
  const [source] = [...inPlace].find(([, bytes]) => bytes > half) ?? [];
  const by = source ? longer(source) : -1;
  // Data of another alignment would be slow to read.
  return source && by >= 0 && by % 8 === 0 ? { ...lengthenHeader(shard, by), cloneOf: source.path } : shard;
}

/** Makes `path` share the blocks of a file. Returns false where the file system cannot. */
export async function cloneFile(source: string, path: string): Promise<boolean> {
  try {
    await copyFile(source, path, constants.COPYFILE_FICLONE_FORCE);
  } catch {
    return false;
  }
  // The clone has the permissions of its source, which may be read-only; it gets those of any new file.
  await chmod(path, (await stat(dirname(path))).mode & 0o666);
  await syncFile(path);
  return true;
}

/** Marks the pieces of a program that a clone already has in their place. */
export function markCloned(program: Program, clones: ReadonlyMap<string, string>, done: Uint8Array): void {
  cutIntoPieces(program.jobs).forEach(({ job: index }, i) => {
    const job = program.jobs[index];
    if (job?.kind !== "copy" || job.from.offset !== job.to.offset) return;
    const source = clones.get(program.outputs[job.to.file] ?? "");
    if (source !== undefined && program.inputs[job.from.file]?.path === source) done[i] = 1;
  });
}
