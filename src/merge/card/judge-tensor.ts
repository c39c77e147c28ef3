// How far a tensor is off what a recipe gives: by roundings, by what cuts among equal values leave open, or otherwise.
import { Converter } from "../../kernels/index.js";
import type { DType } from "../../kit/index.js";

/** How a tensor is off what the recipe gives. */
export interface TensorCheck {
  readonly tensor: string;
  readonly layer: number | null;
  /**
   * identical: its bits; rounding: within a few roundings of `dtype`; ties: but for elements at a cut among equal values; differs:
   * otherwise; form: it has another shape, or a dtype that cannot be compared.
   */
  readonly verdict: "identical" | "rounding" | "ties" | "differs" | "form";
  /** Elements compared. */
  readonly elements: number;
  /** Of these, how many differ. */
  readonly differing: number;
  /** What it was rounded to on the way; of a rounding. */
  readonly dtype?: DType;
  /** Roundings of that dtype by which it is off at most; null if it is not a matter of rounding. */
  readonly roundings?: number | null;
  /** Norm of what it is off, as a share of what the merge changed in the tensor; null if nothing. */
  readonly left?: number | null;
  readonly published?: string;
  readonly planned?: string;
}

/** Values of some elements of a tensor. */
export interface Values {
  readonly published: Float32Array;
  readonly own: Float32Array;
  /** What a cut among equal values may give besides. */
  readonly atCuts: readonly Float32Array[];
  /** All values that the recipe reads. */
  readonly addends: readonly Float32Array[];
  readonly reference: Float32Array | undefined;
}

/** Unit roundoff, and the smallest normal number. */
const ROUNDINGS = {
  F32: { unit: 2 ** -24, smallest: 2 ** -126 },
  F16: { unit: 2 ** -11, smallest: 2 ** -14 },
  BF16: { unit: 2 ** -8, smallest: 2 ** -126 },
} as const;

export const roundingOf = (dtype: string) => ROUNDINGS[dtype as keyof typeof ROUNDINGS] ?? ROUNDINGS.F32;

/** By root mean square, in units of the sizes of all that is added up: one rounding adds a third of a unit of one of these. */
const MOST_ON_AVERAGE = 0.5;

/** @param stored dtype of the published tensor */
export function judged(found: TensorCheck, stored: DType, values: Values): TensorCheck {
  const { published, own, atCuts, addends, reference } = values;
  let [largest, squares, off, change, tied, isKnown] = [0, 0, 0, 0, 0, false];
  const { unit: least, smallest } = roundingOf(stored);
  const most = addends.length + 2;
  for (let i = 0; i < own.length; i++) {
    const [theirs, ours] = [published[i] as number, own[i] as number];
    const moved = ours - ((reference?.[i] as number | undefined) ?? 0);
    change += moved * moved;
    if (Object.is(theirs, ours)) continue;
    isKnown = true;
    let size: number = smallest;
    for (const one of addends) size += Math.abs(one[i] as number);
    let deviation = Math.abs(theirs - ours);
    // What is not near a cut is the same in all, but for rounding.
    if (deviation > least * size) {
      const nearest = Math.min(...atCuts.map((one) => Math.abs(theirs - (one[i] as number))), deviation);
      if (nearest < deviation / 2) {
        tied++;
        deviation = nearest;
      }
    }
    off += deviation * deviation;
    const relative = deviation / size;
    squares += relative * relative;
    largest = Number.isNaN(relative) ? Number.POSITIVE_INFINITY : Math.max(largest, relative);
  }
  const left = change > 0 && Number.isFinite(off) ? Math.sqrt(off / change) : null;
  // Where what differs was not looked at.
  if (!isKnown) return { ...found, verdict: "differs", roundings: null, left: null };
  const mean = Math.sqrt(squares / own.length);
  const dtype = (Object.keys(ROUNDINGS) as (keyof typeof ROUNDINGS)[]).find((one) => {
    const { unit } = ROUNDINGS[one];
    const isWithin = unit >= least && largest <= most * unit && mean <= MOST_ON_AVERAGE * unit;
    // What was computed in a smaller type has no other values.
    return isWithin && (unit === least || isOfType(published, one));
  });
  // Few elements are near a cut; if many were, it would not be the same one.
  if (!dtype || tied > Math.max(MOST_TIED * own.length, 2))
    return { ...found, verdict: "differs", roundings: null, left };
  const roundings = Math.ceil((largest / ROUNDINGS[dtype].unit) * (1 - 1e-6));
  return { ...found, verdict: tied > 0 ? "ties" : "rounding", dtype, roundings, left };
}

const MOST_TIED = 0.05;

function isOfType(values: Float32Array, dtype: keyof typeof ROUNDINGS): boolean {
  const converter = new Converter();
  const rounded = converter.decode(dtype, converter.encode(dtype, values).bytes);
  return rounded.every((value, i) => Object.is(value, values[i]));
}
