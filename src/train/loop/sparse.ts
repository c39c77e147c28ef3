// Sparse fine-tuning (Ansell et al. 2022, arXiv 2110.07560): masks of the weights that changed most, and their steps.
import type { TrainingKernels } from "../../weights/index.js";
import type { Parameter } from "./optimizer.js";

/** Bit i % 8 of byte i / 8 says whether element i of a parameter is trained. */
export type Mask = Uint8Array;
export type Masks = ReadonlyMap<string, Mask>;

export const maskBytes = (elements: number): number => Math.ceil(elements / 8);

/** Keys of a count: the upper or the lower half of the bits of a float32. */
const KEYS = 65_536;
const SIGN = 0x7fffffff;

/**
 * Masks of the largest magnitudes among all elements of several arrays. The bits of |x| sort like the numbers, so that two
 * counts, of upper and of lower halves, find the threshold without holding another copy. Of equal magnitudes, the first
 * ones in the order of the arrays are taken.
 * @param count elements to take; all if there are no more
 */
export function largestMasks(arrays: ReadonlyMap<string, Float32Array>, count: number): Map<string, Mask> {
  const upper = new Float64Array(KEYS);
  for (const bits of bitsOf(arrays)) {
    for (let i = 0; i < bits.length; i++) add(upper, ((bits[i] ?? 0) & SIGN) >>> 16);
  }
  const high = keyAt(upper, count);
  const lower = new Float64Array(KEYS);
  for (const bits of bitsOf(arrays)) {
    for (let i = 0; i < bits.length; i++) {
      const magnitude = (bits[i] ?? 0) & SIGN;
      if (magnitude >>> 16 === high.key) add(lower, magnitude & 0xffff);
    }
  }
  const low = keyAt(lower, high.left);
  const threshold = high.key * KEYS + low.key;
  let ties = low.left;
  const masks = new Map<string, Mask>();
  for (const [name, array] of arrays) {
    const bits = new Uint32Array(array.buffer, array.byteOffset, array.length);
    const mask = new Uint8Array(maskBytes(bits.length));
    for (let i = 0; i < bits.length; i++) {
      const magnitude = (bits[i] ?? 0) & SIGN;
      if (magnitude < threshold || (magnitude === threshold && ties-- <= 0)) continue;
      mask[i >> 3] = (mask[i >> 3] ?? 0) | (1 << (i & 7));
    }
    masks.set(name, mask);
  }
  return masks;
}

function add(counts: Float64Array, key: number): void {
  counts[key] = (counts[key] ?? 0) + 1;
}

function* bitsOf(arrays: ReadonlyMap<string, Float32Array>): Iterable<Uint32Array> {
  for (const array of arrays.values()) yield new Uint32Array(array.buffer, array.byteOffset, array.length);
}

/** The key that the last of the largest `count` has, and how many of them have it. */
function keyAt(counts: Float64Array, count: number): { readonly key: number; readonly left: number } {
  let left = count;
  for (let key = KEYS - 1; key > 0; key--) {
    const here = counts[key] ?? 0;
    if (left <= here) return { key, left };
    left -= here;
  }
  return { key: 0, left };
}

/** Elements inside the masks, and elements of all parameters. */
export function keptOf(
  masks: Masks,
  parameters: ReadonlyMap<string, Parameter>,
): { readonly kept: number; readonly of: number } {
  let kept = 0;
  for (const mask of masks.values()) {
    for (const byte of mask) for (let bits = byte; bits > 0; bits &= bits - 1) kept++;
  }
  return { kept, of: [...parameters.values()].reduce((sum, { weights }) => sum + weights.length, 0) };
}

/** Sets the elements outside a mask to 0. */
export function zeroOutside(values: Float32Array, mask: Mask): void {
  for (let byte = 0; byte < mask.length; byte++) {
    const bits = mask[byte] ?? 0;
    if (bits === 0) values.fill(0, 8 * byte, 8 * byte + 8);
    else if (bits !== 0xff) {
      for (let bit = 0; bit < 8; bit++) if (!(bits & (1 << bit))) values[8 * byte + bit] = 0;
    }
  }
}

/** Elements of a masked step that are gathered at once. */
const BLOCK = 32_768;

/** AdamW on the elements of a mask alone: the others keep their bits, as even decay would change them. */
export class MaskedSteps {
  readonly #at = new Float64Array(BLOCK);
  readonly #gathered: Record<"weights" | "gradient" | "first" | "second", Float32Array>;

  constructor(kernels: TrainingKernels) {
    const array = () => kernels.array(BLOCK);
    this.#gathered = { weights: array(), gradient: array(), first: array(), second: array() };
  }

  adamw(
    kernels: TrainingKernels,
    parameter: Parameter,
    mask: Mask,
    settings: Parameters<TrainingKernels["adamw"]>[1],
  ): void {
    let count = 0;
    const run = (): void => {
      const { weights, gradient, first, second } = this.#gathered;
      for (let j = 0; j < count; j++) {
        const i = this.#at[j] ?? 0;
        weights[j] = parameter.weights[i] ?? 0;
        gradient[j] = parameter.gradient[i] ?? 0;
        first[j] = parameter.first[i] ?? 0;
        second[j] = parameter.second[i] ?? 0;
      }
      const part = (array: Float32Array) => array.subarray(0, count);
      const parts = { weights: part(weights), gradient: part(gradient), first: part(first), second: part(second) };
      kernels.adamw(parts, settings);
      for (let j = 0; j < count; j++) {
        const i = this.#at[j] ?? 0;
        parameter.weights[i] = weights[j] ?? 0;
        parameter.first[i] = first[j] ?? 0;
        parameter.second[i] = second[j] ?? 0;
      }
      count = 0;
    };
    for (let byte = 0; byte < mask.length; byte++) {
      const bits = mask[byte] ?? 0;
      for (let bit = 0; bits >> bit > 0; bit++) {
        if (!(bits & (1 << bit))) continue;
        this.#at[count++] = 8 * byte + bit;
        if (count === BLOCK) run();
      }
    }
    if (count > 0) run();
  }
}
