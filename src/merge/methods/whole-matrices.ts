// Baselines that decompose the changes of whole matrices: Iso-C and Iso-CTS, TSV-M and DG-Hard. One matrix is in memory at a time.
import { z } from "zod";
import { elementCount } from "../../kit/index.js";
import { defineCombination, type Totals } from "../../tensor/measurements/index.js";
import {
  added,
  decompose,
  JOINED_MEMORY,
  joined,
  type MatrixRule,
  mean,
  product,
  productBytes,
  turn,
  VALUES_MEMORY,
  withValues,
} from "../../tensor/streaming/index.js";
import { defineMethod, expertFields, lambdaField, type Operands, sourceField } from "./method.js";
import type { PlanContext } from "./operand.js";
import type { Parameter } from "./parameter.js";
import { mergeTaskVectors } from "./task-vectors.js";

const example = { models: ["math-expert", "swahili-expert"], base: "base" };
const OTHERS = "Baseline. Of the matrices in layers; all else takes the mean change";

/** The median singular value of noise with unit variance in a long side's length (Marchenko and Pastur 1967). */
function medianOfNoise(beta: number): number {
  // The density of eigenvalues x = 1 + beta + 2 sqrt(beta) cos(t) is 2 sin^2(t) / (pi x) in t.
  const steps = 20_000;
  const eigenvalue = (i: number) => 1 + beta + 2 * Math.sqrt(beta) * Math.cos((Math.PI * (i + 0.5)) / steps);
  let [i, share] = [-1, 0];
  let last = 0;
  while (share < 0.5 && i < steps) {
    i++;
    last = (2 * Math.sin((Math.PI * (i + 0.5)) / steps) ** 2) / eigenvalue(i) / steps;
    share += last;
  }
  return Math.sqrt(eigenvalue(i + (0.5 - share) / last + 0.5));
}

/** By what the median is multiplied for the threshold. Gavish & Donoho 2014, arXiv 1305.5870, equations 4 and 11. */
export function noiseThreshold(beta: number): number {
  const omega = Math.sqrt(2 * (beta + 1) + (8 * beta) / (beta + 1 + Math.sqrt(beta ** 2 + 14 * beta + 1)));
  return omega / medianOfNoise(beta);
}

/** Half to even, as Python rounds. */
function roundToEven(x: number): number {
  const rounded = Math.round(x);
  return x % 1 === 0.5 && rounded % 2 === 1 ? rounded - 1 : rounded;
}

/** Iso-C, and Iso-CTS with a share `number` of common directions. arXiv 2502.04959, algorithms 1 and 2. */
export const isoRule: MatrixRule = {
  name: "iso",
  // Iso-CTS keeps the changes beside their sum, what is left of each, and their factors as they are and turned.
  bytes: (size, number) =>
    number < 1
      ? 2 * JOINED_MEMORY.bytes(size, number) + 24 * size.rows * size.columns
      : VALUES_MEMORY.bytes(size, number),
  // It projects by a product with as many inner directions as rows.
  kernelBytes: (size, number) =>
    number < 1
      ? Math.max(JOINED_MEMORY.kernelBytes(size, number), productBytes(size.rows, size.columns))
      : VALUES_MEMORY.kernelBytes(size, number),
  merge: (kernels, changes, size, number) => {
    const rank = Math.min(size.rows, size.columns);
    const own = roundToEven((rank - Math.floor(number * rank)) / changes.length);
    if (own === 0) {
      const sum = added(size, changes, changes[0]);
      return withValues(kernels, sum, (singular) => singular.map(() => mean(singular, rank)));
    }
    const common = decompose(kernels, added(size, changes), rank - own * changes.length);
    const ones = Array.from({ length: size.rows }, () => 1);
    const basis = common.left.map((x, i) => x / Math.sqrt(Math.sqrt(common.gains[i % common.rank] as number)));
    const turned = basis.map((_, i) => basis[(i % size.rows) * common.rank + Math.floor(i / size.rows)] as number);
    const spaces = changes.map((values) => {
      const within = product(kernels, turned, values, ones, size.columns);
      const projected = product(kernels, basis, within, ones.slice(0, common.rank), size.columns);
      const left = common.rank > 0 ? values.map((x, i) => x - (projected[i] as number)) : values;
      return decompose(kernels, { ...size, values: left }, own);
    });
    return joined(kernels, [...spaces, common], size, true);
  },
};

/** TSV-M, arXiv 2412.00081, algorithm 1. */
export const tsvRule: MatrixRule = {
  name: "tsv_m",
  ...JOINED_MEMORY,
  merge: (kernels, changes, size) => {
    const rank = Math.floor(Math.min(size.rows, size.columns) / changes.length);
    const isTurned = size.rows < size.columns;
    const matrices = changes.map((values) => (isTurned ? turn({ ...size, values }) : { ...size, values }));
    const [first = { ...size, values: new Float32Array(size.rows * size.columns) }] = matrices;
    const spaces = matrices.map((matrix) => decompose(kernels, matrix, rank));
    const values = joined(kernels, spaces, first, false, first.values);
    return isTurned ? turn({ ...first, values }).values : values;
  },
};

/** DG-Hard, arXiv 2605.20296. `number` scales the threshold. */
export const dgHardRule: MatrixRule = {
  name: "dg_hard",
  ...VALUES_MEMORY,
  merge: (kernels, changes, size, number) => {
    const [short = 1, long = 1] = [size.rows, size.columns].sort((a, b) => a - b);
    return withValues(kernels, added(size, changes, changes[0]), (singular) => {
      const [low = 0, high = 0] = [singular[Math.floor((short - 1) / 2)], singular[Math.ceil((short - 1) / 2)]];
      const threshold = (number * noiseThreshold(short / long) * (low + high)) / 2;
      return singular.map((value) => (value > threshold ? value : 0));
    });
  },
};

export const iso = defineMethod({
  name: "iso",
  title: "Iso-C",
  summary: "Gives the summed change of each matrix one singular value, the mean of its own. A baseline.",
  formula: `theta_base + lambda mean(S) U V^T; U S V^T = sum tau_i, whose directions without a change stay so (Iso-C). With common < 1 the r - N k largest of its r singular triples and the k largest of each tau_i outside of them, k = round((r - int(common r)) / N) with halves to even, made orthonormal (Iso-CTS, as in the authors' code). ${OTHERS}`,
  reference: "Marczak et al., ICML 2025, arXiv 2502.04959",
  fields: () => ({
    ...expertFields({}),
    lambda: lambdaField,
    common: z
      .number()
      .min(0)
      .max(1)
      .default(1)
      .describe("share of the common directions: 1 is Iso-C, 0.8 the paper's Iso-CTS"),
  }),
  example: { method: "iso", ...example, common: 0.8 },
  tensors: (recipe, sources, context) => mergeMatrices(recipe, recipe.common, sources, context),
});

export const tsvM = defineMethod({
  name: "tsv_m",
  title: "TSV-M",
  summary: "Joins the largest singular vectors of each expert's change, made orthogonal to each other. A baseline.",
  formula: `theta_base + lambda U S V^T, with the int(r / N) largest singular triples of each tau_i, U and V replaced by their polar factors. ${OTHERS}`,
  reference: "Gargiulo et al., CVPR 2025, arXiv 2412.00081, algorithm 1",
  fields: () => ({ ...expertFields({}), lambda: lambdaField }),
  example: { method: "tsv_m", ...example },
  tensors: (recipe, sources, context) => mergeMatrices(recipe, 0, sources, context),
});

export const dgHard = defineMethod({
  name: "dg_hard",
  title: "DG-Hard",
  summary: "Removes the singular values of an expert's change that look like noise. A baseline.",
  formula:
    "theta_base + U S' V^T, U S V^T = tau, S' = S where S > scale omega(beta) median(S) / mu(beta), else 0; beta the shorter side divided by the longer, omega and mu of Gavish & Donoho, arXiv 1305.5870. Of the matrices in layers; all else is the expert's",
  reference: "Abro & Tahir, 2026, arXiv 2605.20296",
  fields: () => ({
    expert: sourceField("the expert"),
    base: sourceField("model that it was fine-tuned from"),
    scale: z.number().min(0).max(1e3).default(1).describe("factor of the threshold"),
  }),
  example: { method: "dg_hard", expert: "math-expert", base: "base" },
  tensors: ({ method, scale }, sources, context) => {
    const expert = sources.get("expert");
    const recipe = { method, models: [expert.label], lambda: 1 };
    return mergeMatrices(recipe, scale, { ...sources, models: [expert] }, context);
  },
});

export const anyChange = defineCombination("any-change", (totals: Totals) => [
  totals.some(({ sumSquares }) => sumSquares > 0) ? 1 : 0,
]);

/** base + lambda times what the rule of the method makes of the changes. */
function mergeMatrices(
  recipe: { readonly method: string; readonly models: readonly (string | object)[]; readonly lambda: Parameter },
  number: number,
  sources: Operands,
  context: PlanContext,
) {
  return mergeTaskVectors(recipe, sources, context, {
    join: (changes, _, name) => {
      const { shape, layer } = sources.models[0]?.tensors.get(name) ?? { shape: [], layer: null };
      const of = changes.map(({ value }) => value);
      if (layer === null || shape.length < 2) return { blend: changes };
      // Says which tensor is not finite, and that one without changes needs no decomposition.
      const isChanged = context.measure({
        id: `changes of ${name} of ${sources.models.map(({ label }) => label).join(", ")}`,
        kind: "totals",
        label: "changes",
        values: of,
        combine: anyChange.with({}),
      });
      const matrix = elementCount(shape.slice(-2));
      return { sum: [{ weight: isChanged, value: { op: "whole-matrix", of, rule: recipe.method, number, matrix } }] };
    },
  });
}
