// A decoder computed from its description with plain loops in float64: slow, and simple enough to be read beside the
// formulas. Tests compare it with transformers, and builders of graphs may be compared with it.

import type {
  Activation,
  DecoderSpec,
  LayerSpec,
  LinearWeights,
  NormSpec,
  NormWeights,
  RopeSpec,
  StoredWeight,
} from "./families/spec.js";
import type { Values } from "./fixtures.test-util.js";

type Rows = number[][];

/** Logits [T][V] of one sequence without padding. */
export function referenceLogits(spec: DecoderSpec, weights: (name: string) => Values, ids: readonly number[]): Rows {
  const read = ({ name, shape, rows }: StoredWeight): Rows => {
    const tensor = weights(name);
    const columns = shape.length > 1 ? (shape.at(-1) as number) : 1;
    const stored = tensor.shape.length > 1 ? (tensor.shape.at(-1) as number) : 1;
    if (columns !== stored || tensor.shape[0] !== (rows?.of ?? shape[0])) {
      throw new Error(`${name} has shape ${tensor.shape}, not ${shape}`);
    }
    const count = shape.slice(0, shape.length > 1 ? -1 : 1).reduce((a, b) => a * b, 1);
    const from = rows?.from ?? 0;
    return Array.from({ length: count }, (_, r) => tensor.values.slice((from + r) * columns, (from + r + 1) * columns));
  };
  const vector = (weight: StoredWeight) => read(weight).flat();
  const linear = (x: Rows, { weight, bias }: LinearWeights): Rows => {
    const matrix = read(weight);
    const shift = bias ? vector(bias) : [];
    return x.map((row) => matrix.map((w, i) => dot(row, w) + (shift[i] ?? 0)));
  };
  const norm = (x: Rows, kind: NormSpec, weight: NormWeights | undefined): Rows => {
    if (!weight) return x;
    const [scale, shift] = [vector(weight.weight), weight.bias ? vector(weight.bias) : []];
    return x.map((row) => normalize(row, kind).map((v, i) => v * (kind.offset + at(scale, i)) + (shift[i] ?? 0)));
  };
  const scaled = (x: Rows, factor: number): Rows => x.map((row) => row.map((v) => v * factor));
  const feedForward = (x: Rows, { gate, up, down }: LayerSpec["weights"]): Rows => {
    const activate = (rows: Rows) => rows.map((row) => row.map(ACTIVATIONS[spec.activation]));
    const wide = linear(x, up);
    if (!gate) return linear(activate(wide), down);
    const gated = activate(linear(x, gate));
    return linear(
      wide.map((row, t) => row.map((v, i) => v * at(gated[t] ?? [], i))),
      down,
    );
  };

  const embedding = read(spec.embedding);
  let x = scaled(
    ids.map((id) => embedding[id] as number[]),
    spec.embeddingScale,
  );
  for (const layer of spec.layers) {
    const { weights: w } = layer;
    const read1 = norm(x, spec.norm, w.beforeAttention);
    const attended = norm(attention(spec, layer, read1, linear, vector), spec.norm, w.afterAttention);
    const withAttention = add(x, scaled(attended, spec.residualScale));
    const read2 = spec.layout === "parallel" ? read1 : norm(withAttention, spec.norm, w.beforeFeedForward);
    x = add(withAttention, scaled(norm(feedForward(read2, w), spec.norm, w.afterFeedForward), spec.residualScale));
  }
  const logits = linear(norm(x, spec.norm, spec.finalNorm), { weight: spec.head ?? spec.embedding });
  return scaled(logits, spec.logitScale).map((row) => row.map((v) => softcap(v, spec.logitSoftcap)));
}

function attention(
  spec: DecoderSpec,
  { window, rope, weights }: LayerSpec,
  x: Rows,
  linear: (x: Rows, weights: LinearWeights) => Rows,
  vector: (weight: StoredWeight) => number[],
): Rows {
  const { heads, kvHeads, headDim } = spec;
  const { scale, softcap: cap, qkNorm } = spec.attention;
  const rotation = rope === null ? undefined : spec.ropes[rope];
  const prepare = (projection: LinearWeights, normWeights: NormWeights | undefined): number[][][] =>
    linear(x, projection).map((row, position) => {
      const weight = normWeights ? vector(normWeights.weight) : [];
      const whole = qkNorm?.over === "width" ? normalize(row, qkNorm).map((v, i) => v * at(weight, i)) : row;
      return split(whole, headDim).map((head, h) => {
        const normal =
          qkNorm && qkNorm.over !== "width"
            ? normalize(head, qkNorm).map(
                (v, i) => v * (qkNorm.offset + at(weight, qkNorm.over === "head" ? i : h * headDim + i)),
              )
            : head;
        return rotation ? rotate(normal, rotation, position, x.length) : normal;
      });
    });
  const q = prepare(weights.q, weights.qNorm);
  const k = prepare(weights.k, weights.kNorm);
  const v = linear(x, weights.v).map((row) => split(row, headDim));
  const mixed = q.map((queryHeads, position) => {
    const first = window === null ? 0 : Math.max(0, position - window + 1);
    return queryHeads.flatMap((query, h) => {
      const kv = Math.floor(h / (heads / kvHeads));
      const seen = Array.from({ length: position - first + 1 }, (_, i) => first + i);
      const scores = seen.map((p) => softcap(dot(query, k[p]?.[kv] ?? []) * scale, cap));
      const most = Math.max(...scores);
      const powers = scores.map((score) => Math.exp(score - most));
      const total = powers.reduce((a, b) => a + b, 0);
      return Array.from({ length: headDim }, (_, e) =>
        seen.reduce((sum, p, i) => sum + (at(powers, i) / total) * at(v[p]?.[kv] ?? [], e), 0),
      );
    });
  });
  return linear(mixed, weights.o);
}

function rotate(head: number[], rope: RopeSpec, position: number, length: number): number[] {
  const frequencies = rope.long && length > rope.long.above ? rope.long.frequencies : rope.frequencies;
  const turned = [...head];
  frequencies.forEach((frequency, i) => {
    const [a, b] = rope.pairs === "half" ? [i, i + rope.dimensions / 2] : [2 * i, 2 * i + 1];
    const cos = Math.cos(position * frequency) * rope.attentionFactor;
    const sin = Math.sin(position * frequency) * rope.attentionFactor;
    turned[a] = at(head, a) * cos - at(head, b) * sin;
    turned[b] = at(head, b) * cos + at(head, a) * sin;
  });
  return turned;
}

function normalize(row: readonly number[], { kind, eps }: NormSpec): number[] {
  const mean = kind === "layer" ? row.reduce((a, b) => a + b, 0) / row.length : 0;
  const centred = row.map((v) => v - mean);
  const size = Math.sqrt(dot(centred, centred) / row.length + eps);
  return centred.map((v) => v / size);
}

const ACTIVATIONS: Record<Activation, (x: number) => number> = {
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  gelu: () => Number.NaN, // no fixture has it, and JavaScript has no erf
  relu: (x) => Math.max(0, x),
};

const softcap = (x: number, cap: number | null) => (cap === null ? x : cap * Math.tanh(x / cap));
const add = (a: Rows, b: Rows): Rows => a.map((row, t) => row.map((v, i) => v + at(b[t] ?? [], i)));
const at = (row: readonly number[], i: number): number => row[i] as number;
const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, v, i) => sum + v * at(b, i), 0);
const split = (row: readonly number[], size: number): Rows =>
  Array.from({ length: row.length / size }, (_, h) => row.slice(h * size, (h + 1) * size));
