// Reference analysis in plain float64 arithmetic, written from the definitions without code of src/.

import { expect } from "vitest";
import type { Analysis, AnalysisWithRows, DeltaFigures, Figures } from "../../src/merge/analysis/index.js";
import type { ReadTensor } from "./checkpoints.js";
import { readFolders, type Tensors } from "./merging.js";
import { toNumbers } from "./numbers.js";

export type Axis = "input" | "output";

/** Relative tolerance of sums: groups of up to eight differences are summed in float32. Largest seen: 1.1e-7. */
const CLOSE = 1e-6;

interface Sums {
  rows: number[];
  elements: number;
  squares: number;
  own: number;
  equal: number;
  largest: number;
  nonFinite: number;
}

interface Pair {
  dot: number;
  opposed: number;
  elements: number;
}

export interface Reference {
  readonly names: readonly string[];
  readonly experts: ReadonlyMap<string, Sums>[];
  readonly pairs: ReadonlyMap<string, Pair>[];
}

function sumsOf(b: readonly number[], e: readonly number[], shape: readonly number[], axis: Axis): Sums {
  const [height, width] = shape.length < 2 ? [1, b.length] : [shape.at(-2) as number, shape.at(-1) as number];
  const stored = shape.length < 2 || axis === "output";
  const [perMatrix, length] = stored ? [height, width] : [width, height];
  const totals = new Float64Array((b.length / (height * width)) * perMatrix);
  const sums = { elements: b.length, squares: 0, own: 0, equal: 0, largest: 0, nonFinite: 0 };
  for (let i = 0; i < b.length; i++) {
    const matrix = Math.floor(i / (height * width));
    const within = i % (height * width);
    const row = matrix * perMatrix + (stored ? Math.floor(within / width) : within % width);
    const base = b[i] as number;
    const delta = (e[i] as number) - base;
    totals[row] = (totals[row] as number) + (Number.isFinite(delta) ? Math.abs(delta) : Number.NaN);
    if (!Number.isFinite(delta)) {
      sums.nonFinite++;
      continue;
    }
    sums.squares += delta * delta;
    sums.own += base * base;
    if (delta === 0) sums.equal++;
    sums.largest = Math.max(sums.largest, Math.fround(Math.abs(delta)));
  }
  return { ...sums, rows: Array.from(totals, (total) => total / length) };
}

function pairOf(b: readonly number[], x: readonly number[], y: readonly number[]): Pair {
  const pair = { dot: 0, opposed: 0, elements: b.length };
  for (let i = 0; i < b.length; i++) {
    const product = ((x[i] as number) - (b[i] as number)) * ((y[i] as number) - (b[i] as number));
    if (!Number.isFinite(product)) continue;
    pair.dot += product;
    if (product < 0) pair.opposed++;
  }
  return pair;
}

/** Reads a base and its experts, and sums. */
export async function referenceOf(folders: readonly string[], axis: Axis): Promise<Reference> {
  const [base, ...experts] = (await readFolders(folders)) as [Tensors, ...Tensors[]];
  const result = {
    names: [...base.keys()],
    experts: experts.map(() => new Map<string, Sums>()),
    pairs: [] as Map<string, Pair>[],
  };
  for (const [name, { shape, ...stored }] of base) {
    const b = toNumbers(stored);
    const values = experts.map((expert) => toNumbers(expert.get(name) as ReadTensor));
    values.forEach((e, i) => {
      result.experts[i]?.set(name, sumsOf(b, e, shape, axis));
    });
    let pair = 0;
    values.forEach((x, i) => {
      for (const y of values.slice(i + 1)) {
        result.pairs[pair] ??= new Map();
        result.pairs[pair++]?.set(name, pairOf(b, x, y));
      }
    });
  }
  return result;
}

const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);
const most = (values: readonly number[]) => values.reduce((largest, value) => Math.max(largest, value), 0);
const finiteRows = (sums: readonly Sums[]) => sums.flatMap(({ rows }) => rows.filter((row) => !Number.isNaN(row)));

export function expectNear(what: string, found: number | null | undefined, wanted: number | null, scale = 0): void {
  if (wanted === null || Number.isNaN(wanted) || typeof found !== "number") {
    expect(found, what).toBe(wanted);
    return;
  }
  const tolerance = CLOSE * (scale || Math.abs(wanted));
  if (!(Math.abs(found - wanted) <= tolerance)) expect.fail(`${what} is ${found}, not ${wanted}`);
}

/** A share of whole elements: exact, but for its way through the shares of single tensors. */
function expectShare(what: string, found: number | undefined, wanted: number): void {
  if (!(Math.abs((found ?? Number.NaN) - wanted) <= 4e-16)) expect.fail(`${what} is ${found}, not ${wanted}`);
}

function expectDelta(found: DeltaFigures, sums: readonly Sums[], thresholds: readonly number[]): void {
  const add = (pick: (one: Sums) => number) => total(sums.map(pick));
  const rows = finiteRows(sums);
  const [norm, own] = [Math.sqrt(add((one) => one.squares)), Math.sqrt(add((one) => one.own))];
  expectNear("mean", found.mean, total(rows) / rows.length);
  expectNear("maximum", found.maximum, most(rows));
  expectNear("norm", found.norm, norm);
  expectNear("relative norm", found.relativeNorm, own > 0 ? norm / own : null);
  expectShare("share of zeros", found.exactZeroShare, add((one) => one.equal) / add((one) => one.elements));
  expect(found).toMatchObject({
    rows: add((one) => one.rows.length),
    largest: most(sums.map((one) => one.largest)),
    nonFinite: add((one) => one.nonFinite),
    shares: thresholds.map((t) => (rows.length > 0 ? rows.filter((row) => row > t).length / rows.length : 0)),
  });
}

function expectFigures(found: Figures, reference: Reference, names: readonly string[], at: readonly number[]): void {
  const of = <T>(map: ReadonlyMap<string, T>) => names.map((name) => map.get(name) as T);
  expect(found.experts.length).toBe(reference.experts.length);
  expect(found.pairs.length).toBe(reference.pairs.length);
  reference.experts.forEach((expert, i) => {
    expectDelta(found.experts[i] as DeltaFigures, of(expert), at);
  });
  const norms = reference.experts.map((expert) => Math.sqrt(total(of(expert).map((one) => one.squares))));
  const pairs = norms.flatMap((_, i) => norms.slice(i + 1).map((_, j) => [i, i + 1 + j] as const));
  const sizes = norms.flatMap((norm, i) => norms.slice(i + 1).map((other) => norm * other));
  reference.pairs.forEach((pair, i) => {
    const [parts, size] = [of(pair), sizes[i] as number];
    const dot = total(parts.map((one) => one.dot));
    expectNear("cosine", found.pairs[i]?.cosine, size > 0 ? dot / size : null, 1);
    const share = total(parts.map((one) => one.opposed)) / total(parts.map((one) => one.elements));
    expectShare("share of conflicts", found.pairs[i]?.conflictShare, share);
    const [x, y] = pairs[i] as [number, number];
    const [own, other] = [x, y].map((expert) => of(reference.experts[expert] as ReadonlyMap<string, Sums>));
    const rows = (own ?? []).flatMap((sums, t) => sums.rows.map((row, r) => [row, other?.[t]?.rows[r] as number]));
    const finite = rows.filter((both) => !both.some(Number.isNaN));
    const overlap = at.map((t) => {
      const above = finite.map((both) => both.filter((row) => row > t).length).filter((count) => count > 0);
      return above.length > 0 ? above.filter((count) => count === 2).length / above.length : null;
    });
    expect(found.pairs[i]?.overlap).toEqual(overlap);
  });
}

/** Checks every figure and every row of an analysis whose thresholds are `at`. */
export function expectAnalysis(
  { analysis, rows }: AnalysisWithRows,
  reference: Reference,
  at: readonly number[],
): void {
  const names = (pick: (tensor: Analysis["tensors"][number]) => boolean) =>
    analysis.tensors.filter(pick).map(({ tensor }) => tensor);
  expect(names(() => true).sort()).toEqual([...reference.names].sort());
  expect(rows.size).toBe(reference.names.length * reference.experts.length);
  for (const tensor of analysis.tensors) {
    expectFigures(tensor, reference, [tensor.tensor], at);
    reference.experts.forEach((expert, i) => {
      expectRows(rows.get(`${analysis.experts[i]}/${tensor.tensor}`), expert.get(tensor.tensor)?.rows ?? []);
    });
  }
  for (const group of analysis.parts) {
    const own = names(
      ({ layer, part, tensor }) => layer === group.layer && part === group.part && !tensor.endsWith(".bias"),
    );
    expectFigures(group, reference, own, at);
  }
  for (const group of analysis.byLayer) {
    const own = names(({ layer }) => layer === group.layer);
    expectFigures(group, reference, own, at);
  }
  expectFigures(
    analysis.total,
    reference,
    names(() => true),
    at,
  );
  // Each part and each layer once, layers from the input to the output, and last what is in none.
  expect(new Set(analysis.parts.map(({ layer, part }) => `${layer} ${part}`)).size).toBe(analysis.parts.length);
  const layers = [...new Set(analysis.tensors.map(({ layer }) => layer ?? analysis.layers))].sort((a, b) => a - b);
  expect(analysis.byLayer.map(({ layer }) => layer ?? analysis.layers)).toEqual(layers);
  expect([...new Set(analysis.parts.map(({ layer }) => layer ?? analysis.layers))]).toEqual(layers);
}

export function expectRows(found: Float32Array | undefined, wanted: readonly number[]): void {
  expect(found?.length).toBe(wanted.length);
  wanted.forEach((row, i) => {
    expectNear(`row ${i}`, found?.[i], row);
  });
}

/** Thresholds that cut the reference's rows in unequal halves, in gaps that no rounding bridges; one below them all. */
export function thresholdsBetween({ experts }: Reference): number[] {
  const sorted = finiteRows(experts.flatMap((expert) => [...expert.values()])).sort((a, b) => a - b);
  const middles = sorted.slice(1).flatMap((row, i) => {
    const below = sorted[i] as number;
    return row > 1.0001 * below ? [(row + below) / 2] : [];
  });
  return [1e-12, ...[0.25, 0.5, 0.9].flatMap((share) => middles[Math.floor(share * middles.length)] ?? [])];
}

/** Expects two analyses to be bit-identical. */
export function expectSame(a: AnalysisWithRows, b: AnalysisWithRows): void {
  expect(a.analysis).toEqual(b.analysis);
  expect([...a.rows.keys()]).toEqual([...b.rows.keys()]);
  for (const [name, rows] of a.rows) {
    const bits = (floats: Float32Array | undefined) => Buffer.from(new Float32Array(floats ?? []).buffer);
    expect(bits(rows).equals(bits(b.rows.get(name))), name).toBe(true);
  }
}
