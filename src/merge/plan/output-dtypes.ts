import { type Checkpoint, keepsFloat32 } from "../../formats/checkpoint/index.js";
import { DTYPE_BY_TORCH_NAME, isFloatDType, type TorchDTypeName } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { leavesOf } from "../../tensor/expressions/index.js";
import type { Step } from "../model-plan.js";

/**
 * Steps with the dtype of the result. Integers and packed numbers keep theirs, and some tensors stay float32.
 * @param lead whose configuration the result has
 * @param models by the labels of leaves; other leaves, such as statistics, do not count
 * @returns the steps, and a note on those that stay float32
 */
export function withDType(
  steps: readonly Step[],
  asked: TorchDTypeName,
  lead: Checkpoint,
  models: ReadonlyMap<string, Checkpoint>,
): { readonly steps: readonly Step[]; readonly notes: readonly string[] } {
  const to = DTYPE_BY_TORCH_NAME[asked];
  const staysFloat32 = to === "F32" ? undefined : keepsFloat32(lead, to);
  const kept: string[] = [];
  const converted = steps.map((step): Step => {
    if (!isFloatDType(step.dtype)) return step;
    const owned = leavesOf(step.value).flatMap((leaf) => {
      const checkpoint = models.get(leaf.source);
      return checkpoint ? [{ checkpoint, tensor: leaf.tensor }] : [];
    });
    if (!staysFloat32?.(step.tensor, owned)) return { ...step, dtype: to };
    kept.push(step.tensor);
    return { ...step, dtype: "F32" };
  });
  if (kept.length === 0) return { steps: converted, notes: [] };
  const [verb, them] = kept.length === 1 ? ["stays", "it"] : ["stay", "them"];
  const note = `${plural(kept.length, "tensor")} ${verb} float32, as ${asked} is too coarse for ${them} (${formatSome(kept)})`;
  return { steps: converted, notes: [note] };
}
