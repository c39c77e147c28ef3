// References of merge methods in float64, written from the papers without code of src/, and families of tiny models.
//
// Where a method selects by size, ranks are those of the exact changes; a case whose outcome would hang on rounding is no
// test, and throws.

import { expect } from "vitest";
import type { TensorData } from "../../src/formats/safetensors/index.js";
import type { FloatDType, ReadTensor, TinyOptions } from "./checkpoints.js";
import type { Bench } from "./merging.js";
import { readFolder, roundTo, spacingOf, toNumbers } from "./numbers.js";

export interface Tensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly values: readonly number[];
  /** As stored, where it is. */
  readonly data?: Uint8Array;
}
export type Model = ReadonlyMap<string, Tensor>;

/** Expected value and tolerance of a tensor. */
export interface Expected extends Tensor {
  /** Sum of the magnitudes of what is added up to each element, which says how finely float32 can add it. */
  readonly sizes: readonly number[];
  /** `copy`: the very bytes of `data`. `exact`: these values, rounded once. `near`: see `expectMerged`. */
  readonly how: "copy" | "exact" | "near";
}
export type Expectation = ReadonlyMap<string, Expected>;

// ---- models ----

export async function readModel(folder: string): Promise<Model> {
  const tensors = await readFolder(folder);
  return new Map([...tensors].map(([name, tensor]) => [name, { ...tensor, values: toNumbers(tensor) }]));
}

export interface Place {
  readonly layer: number | null;
  readonly part: string;
  readonly block: "attention" | "mlp" | "outside";
}

/** Of a tensor of a Llama: norms go with the half that they serve. */
export function placeOf(name: string): Place {
  const match = /^model\.layers\.(\d+)\.(?:self_attn\.|mlp\.)?(\w+)/.exec(name);
  if (!match) return { layer: null, part: name.includes("norm") ? "final_norm" : "other", block: "outside" };
  const block = /self_attn|input_layernorm/.test(name) ? "attention" : "mlp";
  return { layer: Number(match[1]), part: match[2] as string, block };
}

export const tensorOf = (model: Model, name: string): Tensor => model.get(name) as Tensor;
const valuesOf = (model: Model, name: string): readonly number[] => tensorOf(model, name).values;

export function each(lead: Model, make: (name: string, tensor: Tensor) => Expected): Expectation {
  const entries = [...lead].map(([name, tensor]): [string, Expected] => {
    const { data, ...made } = make(name, tensor);
    return [name, made.how === "copy" && data ? { ...made, data } : made];
  });
  return new Map(entries);
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const size = (values: readonly number[]) => sum(values.map(Math.abs));
const most = (values: readonly number[]) => Math.max(...values.map(Math.abs));
const square = (values: readonly number[]) => sum(values.map((x) => x * x));
const dot = (a: readonly number[], b: readonly number[]) => sum(a.map((x, i) => x * (b[i] as number)));

// ---- parameters ----

export type Parameter =
  | number
  | readonly number[]
  | { readonly gradient: readonly number[]; readonly outside?: number }
  | readonly { readonly fits: (name: string) => boolean; readonly value: Parameter }[];

/** A parameter's number for a tensor: one per layer, a gradient over the layers, or the first rule that fits. */
export function at(parameter: Parameter, name: string, layers: number, fallback = 1): number {
  const { layer } = placeOf(name);
  if (typeof parameter === "number") return parameter;
  if ("gradient" in parameter) {
    const { gradient, outside = gradient[0] as number } = parameter;
    if (layer === null) return outside;
    const position = (layer / (layers - 1)) * (gradient.length - 1);
    const below = Math.floor(position);
    const [low, high] = [gradient[below] as number, gradient[Math.min(below + 1, gradient.length - 1)] as number];
    return low * (1 - (position - below)) + high * (position - below);
  }
  if (typeof parameter[0] === "number") return parameter[layer ?? 0] as number;
  const rules = parameter as readonly { fits: (name: string) => boolean; value: Parameter }[];
  const rule = rules.find(({ fits }) => fits(name));
  return rule ? at(rule.value, name, layers) : fallback;
}

// ---- copies and averages ----

export const copy = (tensor: Tensor): Expected => ({
  ...tensor,
  sizes: tensor.values.map(Math.abs),
  how: tensor.data ? "copy" : "near",
});

/** sum(w_i x_i) / sum(w_i); of equal weights the sum in float32, divided once. */
export function average(tensors: readonly Tensor[], given: readonly number[]): Expected {
  const used = tensors.filter((_, i) => given[i] !== 0);
  const weights = given.filter((w) => w !== 0);
  const [first] = used as [Tensor, ...Tensor[]];
  if (used.length === 1) return copy(first);
  const isEqual = weights.every((w) => w === weights[0]);
  const round = isEqual ? Math.fround : (x: number) => x;
  const [values, sizes]: [number[], number[]] = [[], []];
  first.values.forEach((_, e) => {
    const terms = used.map((tensor, i) => (isEqual ? 1 : (weights[i] as number)) * (tensor.values[e] as number));
    const total = isEqual ? used.length : sum(weights);
    values.push(round(terms.reduce((x, y) => round(x + y)) / total));
    sizes.push(size(terms) / Math.abs(total));
  });
  const how = isEqual && used.every(({ data }) => data) ? "exact" : "near";
  return { dtype: first.dtype, shape: first.shape, values, sizes, how };
}

export type WeightOf = (model: number, name: string) => number;

export const soup = (models: readonly Model[], weightOf: WeightOf = () => 1): Expectation =>
  each(models[0] as Model, (name) =>
    average(
      models.map((model) => tensorOf(model, name)),
      models.map((_, i) => weightOf(i, name)),
    ),
  );

/** Average over all rows, which are input features, of the mean absolute change of each; a vector is one row. */
export function magnitude(expert: Model, base: Model): number {
  const rows = [...expert].flatMap(([name, { shape }]) => rowSizes(changeIn(expert, base, name), shape, "input"));
  return sum(rows) / rows.length;
}

/** Mean absolute value of each row of a matrix [out, in], or of each of a stack of them. */
export function rowSizes(values: readonly number[], shape: readonly number[], axis: "input" | "output"): number[] {
  const columns = shape.length < 2 ? values.length : (shape.at(-1) as number);
  const height = shape.length < 2 ? 1 : (shape.at(-2) as number);
  const isStored = shape.length < 2 || axis === "output";
  const rows = new Map<number, number[]>();
  values.forEach((x, i) => {
    const matrix = Math.floor(i / (height * columns));
    const row = isStored ? Math.floor(i / columns) : matrix * columns + (i % columns);
    rows.set(row, [...(rows.get(row) ?? []), Math.abs(x)]);
  });
  return [...rows].sort(([a], [b]) => a - b).map(([, row]) => sum(row) / row.length);
}

/** Each tensor copied from one model, or averaged over several, as weights say. */
export const choose = (models: readonly Model[], weightsOf: (name: string, place: Place) => readonly number[]) =>
  soup(models, (i, name) => weightsOf(name, placeOf(name))[i] as number);

// ---- interpolations ----

/** Weights of two vectors on the arc between them at t; linear if |cos| is above `straight`. */
function arc(a: readonly number[], b: readonly number[], t: number, straight: number): [number, number] {
  const norms = Math.sqrt(square(a)) * Math.sqrt(square(b));
  const cosine = norms > 0 ? Math.max(-1, Math.min(1, dot(a, b) / norms)) : 0;
  if (Math.abs(cosine) > straight) return [1 - t, t];
  const angle = Math.acos(cosine);
  return [Math.sin((1 - t) * angle) / Math.sin(angle), Math.sin(t * angle) / Math.sin(angle)];
}

/** base + slerp of two models' changes, or the slerp of the models; flattened, or row by row. */
export function slerp(
  [first, second]: readonly [Model, Model],
  tOf: (name: string) => number,
  options: { base?: Model; rows?: boolean; straight?: number } = {},
): Expectation {
  const { base, rows = false, straight = 0.9995 } = options;
  return each(first, (name, tensor) => {
    const t = tOf(name);
    if (!base && t === 0) return copy(tensor);
    if (!base && t === 1) return copy(tensorOf(second, name));
    const pick = (model: Model) => (base ? changeIn(model, base, name) : valuesOf(model, name));
    const [a, b] = [pick(first), pick(second)];
    const width = rows && tensor.shape.length > 1 ? (tensor.shape.at(-1) as number) : a.length;
    const [values, sizes]: [number[], number[]] = [[], []];
    for (let from = 0; from < a.length; from += width) {
      const [v, w] = [a.slice(from, from + width), b.slice(from, from + width)];
      const [p, q] = arc(v, w, t, straight);
      v.forEach((x, i) => {
        const [y, origin] = [w[i] as number, base ? (valuesOf(base, name)[from + i] as number) : 0];
        values.push(origin + p * x + q * y);
        sizes.push(size([origin, p * x, q * y]));
      });
    }
    return { ...tensor, values, sizes, how: "near" };
  });
}

/** (1 - w) a + w b, w = clamp(t / |a - b|, 0, 1) */
export const nearswap = (task: Model, language: Model, tOf: (name: string) => number): Expectation =>
  each(task, (name, tensor) => {
    if (tOf(name) === 0) return copy(tensor);
    const other = valuesOf(language, name);
    const values = tensor.values.map((a, i) => {
      const b = other[i] as number;
      const w = a === b ? 1 : Math.min(1, tOf(name) / Math.abs(a - b));
      return (1 - w) * a + w * b;
    });
    return { ...tensor, values, sizes: tensor.values.map((a, i) => most([a, other[i] as number])), how: "near" };
  });

/** Flattened tensors joined with factors of at most `most`; with a base, their changes, which are added to it. */
function joined(
  models: readonly Model[],
  base: Model | undefined,
  join: (vectors: readonly (readonly number[])[]) => readonly number[],
  most = 1,
): Expectation {
  return each(models[0] as Model, (name, tensor) => {
    const vectors = models.map((model) => (base ? changeIn(model, base, name) : valuesOf(model, name)));
    const origin = base ? valuesOf(base, name) : tensor.values.map(() => 0);
    const added = join(vectors);
    const values = origin.map((x, i) => x + (added[i] as number));
    const sizes = origin.map((x, i) => size([x, ...vectors.map((vector) => most * (vector[i] as number))]));
    return { ...tensor, values, sizes, how: "near" };
  });
}

const norm = (values: readonly number[]) => Math.sqrt(square(values));
const scaled = (values: readonly number[], by: number) => values.map((x) => x * by);
const added = (vectors: readonly (readonly number[])[]) =>
  (vectors[0] as readonly number[]).map((_, i) => sum(vectors.map((vector) => vector[i] as number)));

/** mergekit's definition, with the step along the tangent at the mean direction. */
export const multislerp = (models: readonly Model[], weights: readonly number[], base?: Model): Expectation =>
  joined(
    models,
    base,
    (vectors) => {
      const units = vectors.map((vector) => scaled(vector, 1 / norm(vector)));
      const total = added(units.map((unit, i) => scaled(unit, weights[i] as number)));
      const mean = scaled(total, 1 / norm(total));
      const tangent = added(
        units.map((unit, i) => added([unit, scaled(mean, -dot(unit, mean))]).map((x) => x * (weights[i] as number))),
      );
      const length = sum(vectors.map((vector, i) => (weights[i] as number) * norm(vector)));
      const angle = norm(tangent) + 1e-8;
      return scaled(added([scaled(mean, Math.cos(angle)), scaled(tangent, Math.sin(angle) / angle)]), length);
    },
    sum(weights),
  );

/** The mean by gradient steps on the sphere itself. */
export const karcher = (models: readonly Model[], weights: readonly number[], steps = 10): Expectation =>
  joined(models, undefined, (vectors) => {
    const shares = weights.map((weight) => weight / sum(weights));
    const units = vectors.map((vector) => scaled(vector, 1 / norm(vector)));
    const start = added(units.map((unit, i) => scaled(unit, shares[i] as number)));
    let mean = scaled(start, 1 / norm(start));
    for (let step = 0; step < steps; step++) {
      const pull = added(
        units.map((unit, i) => {
          const angle = Math.acos(Math.min(1, dot(unit, mean)));
          const along = added([unit, scaled(mean, -Math.cos(angle))]);
          return scaled(along, angle < 1e-5 ? 0 : ((shares[i] as number) * angle) / Math.sin(angle));
        }),
      );
      if (norm(pull) < 1e-5) break;
      mean = added([scaled(mean, Math.cos(norm(pull))), scaled(pull, Math.sin(norm(pull)) / norm(pull))]);
      mean = scaled(mean, 1 / norm(mean));
    }
    return scaled(mean, sum(vectors.map((vector, i) => (shares[i] as number) * norm(vector))));
  });

/** Changes of more than a size: what several experts made on average, what one made times 1 + r min(shared / unique, alpha). */
export const ram = (models: readonly Model[], base: Model, than: number, r = 0, alpha = 0): Expectation =>
  joined(models, base, (vectors) => {
    const isActive = vectors.map((vector) => vector.map((x) => Math.abs(x) > than));
    const counts = added(isActive.map((flags) => flags.map(Number)));
    const scales = isActive.map((flags) => {
      const own = flags.flatMap((flag, e) => (flag ? [counts[e]] : []));
      const unique = own.filter((count) => count === 1).length;
      return 1 + r * Math.min((own.length - unique) / unique, alpha);
    });
    return counts.map((count, e) => {
      const terms = vectors.map((vector, i) => (isActive[i]?.[e] ? (vector[e] as number) : 0));
      return sum(terms.map((x, i) => (count === 1 ? x * (scales[i] as number) : x / Math.max(1, count))));
    });
  });

/** The sum of the changes where enough of them are large beside the sum of the others. */
export const consensus = (models: readonly Model[], base: Model, than: number, agree: number, lambda: number) =>
  joined(models, base, (vectors) =>
    added(vectors).map((total, e) => {
      const needs = vectors.filter(
        (vector) => Math.abs(vector[e] as number) > than * Math.abs(total - (vector[e] as number)),
      );
      return needs.length >= agree ? lambda * total : 0;
    }),
  );

/** base + factor of the layer * change, added to another model if there is one. */
export const scaledChange = (expert: Model, base: Model, factorOf: (name: string) => number, to: Model = base) =>
  each(to, (name, from) => {
    const factor = factorOf(name);
    const change = changeIn(expert, base, name);
    const values = from.values.map((x, i) => x + factor * (change[i] as number));
    const sizes = from.values.map((x, i) =>
      size([x, factor * (valuesOf(expert, name)[i] as number), factor * (valuesOf(base, name)[i] as number)]),
    );
    return { ...from, values, sizes, how: "near" };
  });

/** The changes whose importance is at least the median and 1.5 times the range between the quartiles. */
export const arceeFusion = (expert: Model, base: Model): Expectation =>
  each(expert, (name, tensor) => {
    const [values, origin] = [tensor.values, valuesOf(base, name)];
    const width = tensor.shape.length > 1 ? (tensor.shape.at(-1) as number) : values.length;
    const softmax = (row: readonly number[]) => {
      const powers = row.map((x) => Math.exp(x));
      return powers.map((x) => x / sum(powers) + 1e-8);
    };
    const importance = values.map((x, i) => {
      const from = i - (i % width);
      const [p, q] = [values, origin].map((all) => softmax(all.slice(from, from + width))) as [number[], number[]];
      const divergence = sum(p.map((one, k) => one * Math.log(one / (q[k] as number))));
      return Math.abs(x - (origin[i] as number)) * divergence;
    });
    const sorted = importance.toSorted((a, b) => a - b);
    const [q1, q2, q3] = [0.25, 0.5, 0.75].map((share) => sorted[Math.floor(share * (sorted.length - 1))]) as [
      number,
      number,
      number,
    ];
    const threshold = q2 + 1.5 * (q3 - q1);
    const close = importance.filter((x) => x !== threshold && Math.abs(x - threshold) < 1e-5 * threshold);
    if (close.length > 0) throw new Error(`the reference is undecided: ${close[0]} from ${threshold}`);
    const merged = origin.map((x, i) => ((importance[i] as number) >= threshold ? (values[i] as number) : x));
    return { ...tensor, values: merged, sizes: origin.map((x, i) => size([x, values[i] as number])), how: "near" };
  });

// ---- sparsified changes ----

/** The change of every tensor of one expert. */
export type Changes = ReadonlyMap<string, readonly number[]>;

function changeIn(expert: Model, base: Model, name: string): number[] {
  return valuesOf(expert, name).map((x, i) => x - (valuesOf(base, name)[i] as number));
}

export const changesOf = (expert: Model, base: Model): Changes =>
  new Map([...expert.keys()].map((name) => [name, changeIn(expert, base, name)]));

export const mapChanges = (
  changes: Changes,
  to: (values: readonly number[], name: string) => readonly number[],
): Changes => new Map([...changes].map(([name, values]) => [name, to(values, name)]));

/** Sizes that agree to this are the same, computed in another order. */
const SAME = 1e-12;

/** The size at a rank, counted from the smallest. Those beside it must differ from it by more than rounding, or not at all. */
function sizeAtRank(sizes: readonly number[], rank: number, margin = 1e-6): number {
  const found = sizes.toSorted((a, b) => a - b)[rank];
  if (found === undefined) return Infinity;
  const distances = sizes.map((size) => Math.abs(size - found));
  const close = distances.filter((distance) => distance > SAME * found && distance < margin * found);
  if (close.length > 0) throw new Error(`the reference is undecided: ${close[0]} from ${found}`);
  return found;
}

/** The int(k n) largest sizes, and those that tie with the smallest of them. */
function largest(sizes: readonly number[], count: number, margin?: number): (size: number) => boolean {
  const threshold = sizeAtRank(sizes, sizes.length - count, margin);
  return (size) => size >= threshold * (1 - SAME);
}

/** Marks `count` sizes after the `above` largest; of equal sizes the first are the larger. */
export function exactly(sizes: readonly number[], count: number, above = 0): boolean[] {
  const order = sizes.map((_, i) => i).toSorted((a, b) => (sizes[b] as number) - (sizes[a] as number) || a - b);
  const kept = new Set(order.slice(above, above + count));
  return sizes.map((_, i) => kept.has(i));
}

/** Keeps exactly the int(k n) largest, of all tensors together, in their order, or of each. */
export function trimExactly(changes: Changes, share: number, of: "model" | "tensor"): Changes {
  const mark = (sizes: readonly number[]) => exactly(sizes, Math.floor(share * sizes.length));
  const marks = of === "model" ? mark([...changes.values()].flat().map(Math.abs)) : [];
  return mapChanges(changes, (values) => {
    const own = of === "model" ? marks.splice(0, values.length) : mark(values.map(Math.abs));
    return values.map((x, i) => (own[i] ? x : 0));
  });
}

/** Keeps the largest share, of all tensors together or of each. */
export function trim(changes: Changes, share: Parameter, of: "model" | "tensor"): Changes {
  const all = of === "model" ? [...changes.values()].flat().map(Math.abs) : [];
  const ofModel = of === "model" ? largest(all, Math.floor((share as number) * all.length)) : undefined;
  return mapChanges(changes, (values, name) => {
    const sizes = values.map(Math.abs);
    const isKept = ofModel ?? largest(sizes, Math.floor(at(share, name, 2) * sizes.length));
    return values.map((x) => (isKept(Math.abs(x)) ? x : 0));
  });
}

/** Drops the largest gamma and the smallest 1 - density - gamma of each tensor; where that is negative, fewer large ones. */
export const crumbs = (changes: Changes, density: number, gamma: number, isExact = false): Changes =>
  mapChanges(changes, (values) => {
    const [n, sizes] = [values.length, values.map(Math.abs)];
    const kept = Math.floor(density * n);
    const top = Math.min(Math.floor(gamma * n), n - kept);
    if (isExact) {
      const marks = exactly(sizes, kept, top);
      return values.map((x, i) => (marks[i] ? x : 0));
    }
    if (kept === 0) return values.map(() => 0);
    const low = n - kept - top === 0 ? 0 : sizeAtRank(sizes, n - kept - top);
    const high = top === 0 ? Infinity : sizeAtRank(sizes, n - top - 1);
    return values.map((x) => (low <= Math.abs(x) && Math.abs(x) <= high ? x : 0));
  });

// ---- combined changes ----

export interface Adding {
  readonly weightOf?: WeightOf;
  readonly lambda?: (name: string) => number;
  /** Divides by the sum of the weights: of all, or of those that were elected. */
  readonly normalize?: boolean;
  /** Only the changes with the sign of their weighted (or plain) sum; of no sum the sign given. */
  readonly elect?: { readonly tie: number; readonly unweighted?: boolean };
}

/** The sign of a sum, which must not hang on rounding. */
function signOf(terms: readonly number[]): number {
  const total = sum(terms);
  if (total !== 0 && Math.abs(total) < 1e-6 * most(terms)) throw new Error(`the reference is undecided: ${terms}`);
  return Math.sign(total);
}

/** base + lambda * sum(w_i d_i), or an average, or of the elected. */
export function addChanges(base: Model, changes: readonly Changes[], options: Adding = {}): Expectation {
  const { weightOf = () => 1, lambda = () => 1, elect, normalize = elect !== undefined } = options;
  return each(base, (name, from) => {
    const factor = lambda(name);
    if (factor === 0) return copy(from);
    const weights = changes.map((_, i) => weightOf(i, name));
    const [values, sizes]: [number[], number[]] = [[], []];
    from.values.forEach((x, e) => {
      const deltas = changes.map((one) => one.get(name)?.[e] as number);
      const weighted = deltas.map((delta, i) => (weights[i] as number) * delta);
      const votes = elect?.unweighted ? deltas : weighted;
      const sign = elect ? signOf(votes) || elect.tie : 0;
      const counts = votes.map((vote) => !elect || (sign !== 0 && Math.sign(vote) === sign));
      const divisor = (normalize && sum(weights.filter((_, i) => counts[i]))) || 1;
      const terms = weighted.filter((_, i) => counts[i]).map((change) => (factor * change) / divisor);
      values.push(x + sum(terms));
      sizes.push(size([x, ...terms]));
    });
    return { ...from, values, sizes, how: "near" };
  });
}

/** The sign that most elements of a merge elect, over the whole model. */
export function majority(changes: readonly Changes[], weightOf: WeightOf = () => 1): number {
  const signs = [...(changes[0] as Changes)].flatMap(([name, values]) =>
    values.map((_, e) => signOf(changes.map((one, i) => weightOf(i, name) * (one.get(name)?.[e] as number)))),
  );
  return Math.sign(sum(signs));
}

/** t mean(theta_i) + (1 - t) theta_base, t from the mean cosine of the changes of a tensor; 0 where that is not positive. */
/** t mean + (1 - t) base, with t from the angles of whole tensors or, by rows, of each row. */
export const modelStock = (experts: readonly Model[], base: Model, rows = false): Expectation =>
  each(base, (name, from) => {
    const changes = experts.map((expert) => changeIn(expert, base, name));
    const [n, all] = [experts.length, from.values.length];
    const width = rows && from.shape.length > 1 ? (from.shape.at(-1) as number) : all;
    const ratios = Array.from({ length: all / width }, (_, row) => {
      const parts = changes.map((change) => change.slice(row * width, (row + 1) * width));
      const cosines = parts.flatMap((a, i) =>
        parts.slice(i + 1).map((b) => (norm(a) * norm(b) > 0 ? dot(a, b) / (norm(a) * norm(b)) : 0)),
      );
      const cosine = sum(cosines) / cosines.length;
      return cosine <= 0 ? 0 : (n * cosine) / (1 + (n - 1) * cosine);
    });
    if (!rows && ratios[0] === 0) return copy(from);
    const shares = from.values.map((_, e) => ratios[Math.floor(e / width)] as number);
    const means = changes[0]?.map((_, e) => sum(changes.map((change) => change[e] as number)) / n) as number[];
    const values = from.values.map((x, e) => x + (shares[e] as number) * (means[e] as number));
    const sizes = from.values.map((x, e) => size([x, ...changes.map((change) => change[e] as number)]));
    return { ...from, values, sizes, how: "near" };
  });

/** Select by variance, calculate weights from mean squares, erase minority signs. */
export function sce(
  experts: readonly Model[],
  base: Model,
  selectOf: (name: string) => number,
  lambda = 1,
  isExact = false,
) {
  const changes = experts.map((expert) => changesOf(expert, base));
  const selected = changes.map((one) =>
    mapChanges(one, (values, name) => {
      const variances = values.map((_, e) => {
        // By the differences of pairs, which is 0 where all agree.
        const xs = changes.map((other) => other.get(name)?.[e] as number);
        return square(xs.flatMap((x, i) => xs.slice(i + 1).map((y) => x - y))) / xs.length ** 2;
      });
      const count = Math.floor(selectOf(name) * variances.filter((variance) => variance > 0).length);
      // A variance is made of differences of near numbers, so it is known less well than they are.
      const isKept = selectOf(name) < 1 ? largest(variances, count, 1e-4) : () => true;
      const marks = isExact ? exactly(variances, count) : variances.map(isKept);
      return values.map((x, e) => (marks[e] ? x : 0));
    }),
  );
  const weightOf = (i: number, name: string) => {
    const squares = selected.map((one) => square(one.get(name) as number[]));
    return sum(squares) > 0 ? (squares[i] as number) / sum(squares) : 1 / squares.length;
  };
  return addChanges(base, selected, { weightOf, lambda: () => lambda, elect: { tie: 1, unweighted: true } });
}

export const groupOf = (by: "layer" | "module", { layer, block }: Place) =>
  by === "layer" ? `${layer}` : `${layer} ${block}`;

/** Each expert's share of its own whole change, by layer or module. */
export function shares(experts: readonly Model[], base: Model, by: "layer" | "module", put: "sum" | "root") {
  const groups = new Map<string, number[][]>();
  for (const name of base.keys()) {
    if (placeOf(name).layer === null) continue;
    const ratio = (expert: Model) => Math.sqrt(square(changeIn(expert, base, name)) / square(valuesOf(base, name)));
    const group = groupOf(by, placeOf(name));
    groups.set(group, [...(groups.get(group) ?? []), experts.map(ratio)]);
  }
  const sizes = [...groups].map(([group, ratios]): [string, number[]] => {
    const ofExpert = experts.map((_, i) => ratios.map((ratio) => ratio[i] as number));
    return [group, ofExpert.map(put === "sum" ? sum : (xs) => Math.sqrt(square(xs)))];
  });
  const totals = experts.map((_, i) => sum(sizes.map(([, xs]) => xs[i] as number)));
  return new Map(sizes.map(([group, xs]) => [group, xs.map((x, i) => x / (totals[i] as number))]));
}

// ---- families ----

/** Folders and what is in them. As many experts as were asked for; the types say three, for tests to name them. */
export interface Family {
  readonly base: string;
  readonly experts: [string, string, string];
  readonly origin: Model;
  readonly models: readonly [Model, Model, Model];
  readonly changes: readonly [Changes, Changes, Changes];
}

export interface FamilyOptions extends Pick<TinyOptions, "tied" | "layers" | "vocabulary" | "config"> {
  readonly dtype?: FloatDType;
  /** Factor of an expert's change of a tensor. */
  readonly scaleOf?: (expert: number, name: string) => number;
  /** Other values: of the base's element of a tensor, or of an expert's. */
  readonly elementOf?: (expert: number | "base", tensor: number, element: number) => number;
  /** Changes names and shapes. */
  readonly edit?: (tensors: TensorData[]) => TensorData[];
}

export function encode(values: readonly number[], dtype: FloatDType): Uint8Array {
  const floats = Float32Array.from(values, (x) => roundTo(dtype, x));
  if (dtype === "F32") return new Uint8Array(floats.buffer);
  const patterns = new Uint32Array(floats.buffer);
  if (dtype === "BF16") return new Uint8Array(Uint16Array.from(patterns, (p) => p >>> 16).buffer);
  const half = (x: number) => {
    const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
    const spacing = spacingOf("F16", x);
    return sign | (Math.abs(x) / spacing + (Math.log2(spacing) + 24) * 1024);
  };
  return new Uint8Array(Uint16Array.from(floats, half).buffer);
}

/** Biases, and a matrix whose rows and whole are no multiple of what a vector register holds. */
const oddShapes = (tensors: TensorData[]): TensorData[] =>
  tensors.flatMap((tensor) => {
    if (/layers\.1.*k_proj/.test(tensor.name)) return [{ ...tensor, shape: [3, 11] }];
    if (!/q_proj/.test(tensor.name)) return [tensor];
    return [tensor, { ...tensor, name: tensor.name.replace("weight", "bias"), shape: [5] }];
  });

/** Numbers in [-1, 1) that have nothing to do with those of another seed. */
function noise(seed: number, n: number): number[] {
  return Array.from({ length: n }, (_, i) => {
    let h = Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(i + 1, 0x85ebca77);
    h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
    h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
    return ((h ^ (h >>> 15)) >>> 0) / 2 ** 31 - 1;
  });
}

/**
 * A base, and experts that moved from it: by small steps most of which are far smaller than the largest, in part together,
 * and not at all in some elements.
 * @param sizes the largest step of each
 */
export async function family(bench: Bench, sizes: readonly number[], options: FamilyOptions = {}): Promise<Family> {
  const { dtype = "F32", scaleOf = () => 1, elementOf, edit = (tensors) => tensors, ...model } = options;
  const round = (x: number) => roundTo(dtype, x);
  const make = (expert: number | "base", t: number, name: string, n: number): number[] => {
    const of = (k: number, whose = 0) => noise(7 * t + k + 100_003 * whose, n);
    if (elementOf) return Array.from({ length: n }, (_, i) => elementOf(expert, t, i));
    const origin = of(1).map(round);
    if (expert === "base") return origin;
    const [common, own, still, asleep] = [of(2), of(3, expert + 1), of(4), of(5, expert + 1)];
    const scale = (sizes[expert] as number) * scaleOf(expert, name);
    return origin.map((x, i) => {
      if (Math.max(still[i] as number, asleep[i] as number) > 0.8) return x;
      return x + scale * (0.4 * (common[i] as number) ** 3 + 0.6 * (own[i] as number) ** 3);
    });
  };
  const write = (expert: number | "base") => {
    const filled = (tensor: TensorData, t: number): TensorData => {
      const n = tensor.shape.reduce((product, extent) => product * extent, 1);
      return { ...tensor, dtype, data: encode(make(expert, t, tensor.name, n), dtype) };
    };
    return bench.model({ ...model, edit: (tensors) => edit(oddShapes(tensors)).map(filled) });
  };
  const base = await write("base");
  const experts: string[] = [];
  for (const i of sizes.keys()) experts.push(await write(i));
  const [origin, models] = [await readModel(base), await Promise.all(experts.map(readModel))];
  const changes = models.map((expert) => changesOf(expert, origin));
  return { base, experts, origin, models, changes } as unknown as Family;
}

// ---- comparing ----

// In float32 each operation rounds to half a unit of its result. The longest way to an element: a change is taken, rescaled
// by what was itself rounded, weighted likewise, added up term by term, divided, and added to the base.
const wideUnits = (terms: number) => (terms + 4) / 2;

/**
 * Expects every tensor: copies and equal averages bit for bit, all else within rounding.
 *
 * In 16 bits that is half a unit in the last place, for the one rounding at the end, and what float32 lost before. In
 * float32 it is that loss: units of the sum of the magnitudes of all that is added up, as what is left of them
 * may be small.
 * @param terms how many models are added up
 */
export function expectMerged(found: ReadonlyMap<string, ReadTensor>, wanted: Expectation, terms = 3): void {
  expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
  for (const [name, { dtype, shape, how, data, values, sizes }] of wanted) {
    const tensor = found.get(name) as ReadTensor;
    expect([tensor.dtype, tensor.shape], name).toEqual([dtype, shape]);
    if (how === "copy") expect(Buffer.compare(tensor.data, data as Uint8Array), `${name}, copied`).toBe(0);
    if (how === "copy") continue;
    toNumbers(tensor).forEach((value, i) => {
      const exact = values[i] as number;
      if (how === "exact") {
        const rounded = roundTo(dtype as FloatDType, exact);
        if (!Object.is(value, rounded)) expect.fail(`${name}[${i}] is ${value}, not exactly ${rounded}`);
        return;
      }
      const lost = wideUnits(terms) * spacingOf("F32", sizes[i] as number);
      const allowed = dtype === "F32" ? lost : spacingOf(dtype as FloatDType, exact) / 2 + lost;
      const error = Math.abs(value - exact);
      if (!(error <= allowed))
        expect.fail(`${name}[${i}] is ${value}, not ${exact}: ${error / allowed} of what is allowed`);
    });
  }
}
