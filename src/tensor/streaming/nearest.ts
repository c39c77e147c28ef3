// The atoms at the least distance from rows, and weights by it: common interpolation of mergekit-tokensurgeon.
import type { Kernels } from "../../kernels/index.js";
import type { Inputs } from "./files.js";
import { eachRun, type Pursuit } from "./pursuit.js";

interface Nearest {
  /** Atoms, the nearest first. */
  readonly chosen: number[];
  readonly weights: number[];
}

// As in mergekit: what distances, sums and products of norms are at least.
const LEAST = 1e-6;

const squares = (values: ArrayLike<number>, from: number, end: number) => {
  let sum = 0;
  for (let i = from; i < end; i++) sum += (values[i] as number) ** 2;
  return sum;
};

/** The k atoms nearest to each target. Weights are inverse distances, or cosines, divided by their sum. */
export function nearestAtoms(
  kernels: Kernels,
  files: Inputs,
  pursuit: Pursuit,
  targets: readonly Float64Array[],
): Nearest[] {
  const { k, nearest, donor } = pursuit;
  const { columns } = donor;
  const isCosine = nearest === "cosine";
  const norms = targets.map((target) => Math.sqrt(squares(target, 0, columns)));
  const found = targets.map((): { chosen: number[]; distances: number[] } => ({ chosen: [], distances: [] }));
  eachRun(kernels, files, pursuit, targets, (from, count, products, width, values) => {
    for (let a = 0; a < count; a++) {
      const length = Math.sqrt(squares(values, a * columns, (a + 1) * columns));
      for (const [i, { chosen, distances }] of found.entries()) {
        const product = products[a * width + i] as number;
        const norm = norms[i] as number;
        const distance = isCosine
          ? 1 - product / Math.max(norm * length, LEAST)
          : Math.sqrt(Math.max(0, norm * norm + length * length - 2 * product));
        if (distances.length === k && distance >= (distances[k - 1] as number)) continue;
        let place = distances.length;
        while (place > 0 && (distances[place - 1] as number) > distance) place--;
        distances.splice(place, 0, distance);
        chosen.splice(place, 0, from + a);
        if (distances.length > k) {
          distances.pop();
          chosen.pop();
        }
      }
    }
  });
  return found.map(({ chosen, distances }) => {
    const sizes = distances.map((distance) => (isCosine ? 1 - distance : 1 / Math.max(distance, LEAST)));
    const sum = Math.max(
      sizes.reduce((total, size) => total + size, 0),
      LEAST,
    );
    return { chosen, weights: sizes.map((size) => size / sum) };
  });
}
