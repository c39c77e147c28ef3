// Rounds base plus adapter before a merge, as mergekit does, which writes the merged base of each adapter first.
import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import { DTYPE_BY_TORCH_NAME, type TorchDTypeName } from "../../kit/index.js";

/** Sources whose adapted tensors are rounded to a dtype. Changes `sources` in place. */
export function roundAdapters(sources: Map<string, Checkpoint>, asked: TorchDTypeName | undefined): void {
  const rounded = asked === undefined ? "F32" : DTYPE_BY_TORCH_NAME[asked];
  if (rounded === "F32") return;
  for (const [label, source] of sources) {
    if (!source.adapter) continue;
    const tensors = [...source.tensors].map(([name, tensor]): [string, CheckpointTensor] => {
      return [name, tensor.lowRank ? { ...tensor, lowRank: { ...tensor.lowRank, rounded } } : tensor];
    });
    sources.set(label, { ...source, tensors: new Map(tensors) });
  }
}
