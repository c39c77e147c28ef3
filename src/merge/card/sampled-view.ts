// Some rows of a model's matrices as a model of their own, in a file on this machine, so that many passes fetch them once.
import { join } from "node:path";
import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import { openSafetensors, readRanges, writeSafetensors } from "../../formats/safetensors/index.js";
import { CancelledError, elementCount } from "../../kit/index.js";
import { type SampleSettings, sampledRows } from "./sample.js";

/** Elements of a tensor at most: weights are found to three digits by fewer. */
const MOST_ELEMENTS = 2 ** 14;
/** Bytes of a model that is no larger are read whole. */
const SMALL = 2 ** 22;
/** Ranges that are read at once. */
const READS = 16;

/**
 * Without what is not stored plainly, and without matrices beside the layers.
 * @param folder that the file is written to
 * @param name of the file, without its extension
 */
export async function sampledView(
  checkpoint: Checkpoint,
  { share, seed }: SampleSettings,
  folder: string,
  name: string,
  signal: AbortSignal | undefined,
): Promise<Checkpoint> {
  const plain = [...checkpoint.tensors.values()].filter(isPlain);
  const bytes = plain.reduce((sum, one) => sum + one.bytes, 0);
  const parts = plain.flatMap((tensor) => {
    const [rows = 1, columns] = tensor.shape;
    const most = bytes <= SMALL ? 1 : Math.min(share, MOST_ELEMENTS / Math.max(1, elementCount(tensor.shape)));
    const isWhole = columns === undefined || most >= 1;
    if (!isWhole && tensor.layer === null) return [];
    const ranges = isWhole ? [{ begin: 0, end: rows }] : sampledRows(tensor.name, rows, { share: most, seed });
    return [{ tensor, ranges, perRow: tensor.bytes / Math.max(1, rows) }];
  });
  const data = new Map<string, Uint8Array>();
  for (let at = 0; at < parts.length; at += READS) {
    if (signal?.aborted) throw new CancelledError("stopped before the end");
    const group = parts.slice(at, at + READS);
    await Promise.all(
      group.map(async ({ tensor, ranges, perRow }) => {
        const found = await readRanges(
          tensor.file,
          ranges.map(({ begin, end }) => [tensor.offset + begin * perRow, tensor.offset + end * perRow] as const),
        );
        data.set(tensor.name, Buffer.concat(found));
      }),
    );
  }
  const path = join(folder, `${name}.safetensors`);
  await writeSafetensors(
    path,
    parts.map(({ tensor: { name: own, dtype, shape }, ranges }) => {
      const rows = ranges.reduce((sum, { begin, end }) => sum + end - begin, 0);
      return { name: own, dtype, shape: [rows, ...shape.slice(1)], data: data.get(own) as Uint8Array };
    }),
  );
  const file = await openSafetensors(path);
  const tensors = file.tensors.map(({ name: own, shape, offset, bytes: size }): [string, CheckpointTensor] => [
    own,
    { ...(checkpoint.tensors.get(own) as CheckpointTensor), shape, offset, bytes: size, file },
  ]);
  return { ...checkpoint, files: [file], tensors: new Map(tensors) };
}

const isPlain = ({ shape, lowRank, gathered, blocks, coded, undo }: CheckpointTensor) =>
  !(lowRank || gathered || blocks || coded || undo) && (shape.length === 1 || shape.length === 2);
