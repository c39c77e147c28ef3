// How much of a model's change from its base survives rounding to a narrower element type.
import type { Converter } from "./convert.js";
import type { KernelDType } from "./kernels.js";

/** How much of a change rounding keeps. Without a change, all of it. */
export interface KeptChange {
  /** Element type: bfloat16 or float16. */
  readonly dtype: "bfloat16" | "float16";
  /** Share of the changed elements that differ from the rounded base, from 0 to 1. */
  readonly elements: number;
  /** The same of tensors of one dimension, norms and biases; undefined where none, or nothing else, changed. */
  readonly norms?: number | undefined;
  /** Root mean square of what rounding did to the change, as a share of the change's own; at 1, nothing of it is right. */
  readonly error: number;
}

/** Numbers of changed and kept elements, and sums of squares of the error and of the change. */
export type KeptSums = readonly [changed: number, kept: number, errors: number, changes: number];

/** Share of the changed elements below which a saved model needs a warning. */
const MIN_KEPT = 0.9;

/** Adds up over tensors how much of a change rounding keeps. The last 16-bit type names the whole. */
export class Rounding {
  readonly #converter: Converter;
  #dtype: KeptChange["dtype"] | undefined;
  readonly #sums = [0, 0, 0, 0] as [number, number, number, number];
  readonly #norms = { changed: 0, kept: 0 };

  constructor(converter: Converter) {
    this.#converter = converter;
  }

  /**
   * Compares a change with what rounding makes of it. The base is rounded, too, as an unchanged weight would be. Float32 loses nothing.
   * @param exact values of the changed tensor
   * @param bytes `exact` rounded to `dtype`
   * @param base values of the base; without it zeros, as for factors of LoRA
   * @param isNorm whether the tensor has one dimension
   */
  add(dtype: KernelDType, exact: Float32Array, bytes: Uint8Array, base?: Float32Array, isNorm = false): void {
    if (dtype === "F32") return;
    const rounded = this.#converter.decode(dtype, bytes);
    const from = base && this.#converter.decode(dtype, this.#converter.encode(dtype, base).bytes);
    this.addSums(dtype, keptSums({ exact, rounded, base, roundedBase: from }), isNorm);
  }

  addSums(dtype: "BF16" | "F16", sums: readonly number[], isNorm = false): void {
    this.#dtype = dtype === "BF16" ? "bfloat16" : "float16";
    for (let i = 0; i < 4; i++) this.#sums[i] = (this.#sums[i] ?? 0) + (sums[i] ?? 0);
    if (!isNorm) return;
    const [changed = 0, kept = 0] = sums;
    this.#norms.changed += changed;
    this.#norms.kept += kept;
  }

  /** Undefined if nothing was rounded. */
  result(): KeptChange | undefined {
    const [changed, kept, errors, changes] = this.#sums;
    if (this.#dtype === undefined) return undefined;
    const elements = changed === 0 ? 1 : kept / changed;
    const { changed: ofNorms, kept: keptOfNorms } = this.#norms;
    const norms = ofNorms > 0 && ofNorms < changed ? { norms: keptOfNorms / ofNorms } : {};
    return { dtype: this.#dtype, elements, ...norms, error: changes === 0 ? 0 : Math.sqrt(errors / changes) };
  }
}

interface Rounded {
  readonly exact: Float32Array;
  readonly rounded: Float32Array;
  readonly base?: Float32Array | undefined;
  readonly roundedBase?: Float32Array | undefined;
}

/** The sums over one tensor or a part of it; arrays of one length. Values that are not finite have no change. */
export function keptSums({ exact, rounded, base, roundedBase }: Rounded): KeptSums {
  let [changed, kept, errors, changes] = [0, 0, 0, 0];
  for (let i = 0; i < exact.length; i++) {
    const change = (exact[i] ?? 0) - (base?.[i] ?? 0);
    if (change === 0 || !Number.isFinite(change)) continue;
    const found = (rounded[i] ?? 0) - (roundedBase?.[i] ?? 0);
    // Beyond the largest number of the type: lost.
    const after = Number.isFinite(found) ? found : 0;
    changed++;
    if (after !== 0) kept++;
    errors += (after - change) ** 2;
    changes += change ** 2;
  }
  return [changed, kept, errors, changes];
}

/** Share of what all tensors keep below which norms are named. */
const FAR_LESS = 0.5;

/** `bfloat16 keeps 43.0% of the changed elements (0.5% of those in norms and biases); the change is off by 73.1%`. */
export function describeKept({ dtype, elements, norms, error }: KeptChange): string {
  const percent = (share: number) => `${(100 * share).toFixed(1)}%`;
  const apart =
    norms !== undefined && norms < FAR_LESS * elements ? ` (${percent(norms)} of those in norms and biases)` : "";
  return `${dtype} keeps ${percent(elements)} of the changed elements${apart}; the change is off by ${percent(error)}`;
}

/** Whether rounding loses so much of the change that the saved model is another than the one that was made. */
export const losesChange = ({ elements }: KeptChange): boolean => elements < MIN_KEPT;
