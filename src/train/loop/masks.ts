// Masks of sparse fine-tuning (Ansell et al., ACL 2022, arXiv 2110.07560): the weights that a first run changed most.
import { computeBlends } from "../../engine/index.js";
import { elementCount, RecipeError } from "../../kit/index.js";
import type { OpenedPlan, Step } from "../../merge/index.js";
import { leavesOf, type Value } from "../../tensor/expressions/index.js";
import { CUT, type CutMeasurement, measureAll } from "../../tensor/measurements/index.js";

/** By parameter, whether each element is trained: bit i % 8 of byte floor(i / 8) for element i, row-major. */
export type Masks = ReadonlyMap<string, Uint8Array>;

export interface MaskPlan {
  /** The base plus the change of the first run: sources `base` and `models[0]`. */
  readonly opened: OpenedPlan;
  /** The tensors that are ranked together, with their changes. */
  readonly changes: readonly { readonly step: Step; readonly change: Value }[];
  /** How many weights the masks hold at most. */
  readonly kept: number;
  readonly elements: number;
}

/**
 * Plans masks, from headers alone.
 * @param opened task arithmetic of one model and its base
 * @param names of the tensors to rank together
 * @throws RecipeError if the share keeps no weight
 */
export function planMasks(opened: OpenedPlan, names: ReadonlySet<string>, share: number): MaskPlan {
  const changes = opened.plan.steps.flatMap((step) => {
    if (!names.has(step.tensor)) return [];
    const leaves = leavesOf(step.value);
    const of = ["models[0]", "base"].map((id) => leaves.find(({ source }) => source === id));
    return [{ step, change: { op: "subtract", of: of as Value[] } as Value }];
  });
  const elements = changes.reduce((sum, { step }) => sum + elementCount(step.shape), 0);
  // int(share n), as in the authors' code and in TIES.
  const kept = Math.floor(share * elements);
  if (kept > 0) return { opened, changes, kept, elements };
  throw RecipeError.at({ field: "mask.share" }, `mask.share: ${share} of ${elements} weights keeps none`);
}

/**
 * The masks of the largest changes. The threshold is that of a sort of all changes; of equal ones, the first are taken, in the
 * order of the model. Weights that did not change are never in a mask. Memory holds one tensor at a time, and the masks.
 * @throws RecipeError if no weight changed, or one of those kept is not finite
 */
export async function measureMasks({ opened, changes, kept }: MaskPlan, signal?: AbortSignal): Promise<Masks> {
  const { sources } = opened;
  const id = "largest changes of the first run";
  const cut: CutMeasurement = {
    kind: "cut",
    id,
    label: id,
    of: ["models[0]"],
    isExact: true,
    values: changes.map(({ change }) => change),
    keep: kept,
  };
  const measured = await measureAll([cut], sources, { signal });
  if ((measured.get(id) as readonly number[])[CUT.kept] === 0) {
    throw RecipeError.at({ field: "mask.from" }, "mask.from: it does not differ from the base in what is trained");
  }
  const masks = new Map<string, Uint8Array>();
  for (const [i, { step, change }] of changes.entries()) {
    const at = (place: number) => ({ measured: id, at: place });
    const [before, from] = [at(CUT.places + 2 * i), at(CUT.places + 2 * i + 1)];
    const value: Value = { op: "cut", of: [change], low: at(CUT.low), before, high: at(CUT.high), from };
    const blends = await computeBlends([{ ...step, value, dtype: "F32" }], sources, measured, { signal });
    const kept = new Float32Array(blends.get(step.tensor) as SharedArrayBuffer);
    // Infinite changes would count as the largest, and NaN has no place in their order.
    if (!kept.every(Number.isFinite)) {
      const message = `mask.from: ${step.tensor} has values that are not finite. Choose an earlier checkpoint`;
      throw RecipeError.at({ field: "mask.from", tensor: step.tensor }, message);
    }
    masks.set(step.tensor, bitsOf(kept));
  }
  return masks;
}

/** A bit for each value, 1 if it is not zero. */
function bitsOf(values: Float32Array): Uint8Array {
  const bits = new Uint8Array(Math.ceil(values.length / 8));
  for (let i = 0; i < values.length; i++) if (values[i] !== 0) bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
  return bits;
}

/** Sets the elements outside a mask to 0. */
export function zeroOutside(values: Float32Array, mask: Uint8Array): void {
  for (let i = 0; i < values.length; i += 8) {
    const bits = mask[i >> 3] ?? 0;
    if (bits === 0) values.fill(0, i, i + 8);
    else if (bits !== 0xff) for (let bit = 0; bit < 8; bit++) if (!((bits >> bit) & 1)) values[i + bit] = 0;
  }
}

/** Multiplies the elements of a mask, and leaves the others alone. @param factor a float32 number */
export function scaleInside(values: Float32Array, mask: Uint8Array, factor: number): void {
  for (let i = 0; i < values.length; i += 8) {
    const bits = mask[i >> 3] ?? 0;
    for (let bit = 0; bits >> bit > 0; bit++) if ((bits >> bit) & 1) values[i + bit] = (values[i + bit] ?? 0) * factor;
  }
}
