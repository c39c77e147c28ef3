// The tensors of linear attention and of state spaces. Source: conversion/qwen.py, mamba.py and falcon_h1.py of
// ggml-org/llama.cpp, November 2026.
import type { LayerWeights, NormWeights, RecurrenceSpec, StoredWeight } from "../../families/index.js";
import { type FolderRows, rowsOf, type TensorList, type Writing } from "./tensor-list.js";

type Weights = Required<LayerWeights>;
type Delta = RecurrenceSpec & { readonly state: NonNullable<RecurrenceSpec["state"]> };

const heightOf = ({ shape }: StoredWeight) => shape[0] ?? 0;
const widthOf = ({ shape }: StoredWeight) => shape.at(-1) ?? 0;

/** Writes weights times a factor. */
export const times = (factor = 1): Writing => (factor === 1 ? {} : { divisor: 1 / factor });

/**
 * The gated delta rule.
 * @param tiled whether llama.cpp has the first value head of every key head, then the second, and so on
 */
export function addDelta(list: TensorList, layer: number, { state }: Delta, weights: LayerWeights, tiled: boolean) {
  const { mix, outputGate, rate, decay, convolution, decayScale, decayBias, innerNorm, mixed } = weights as Weights;
  const { heads, keyHeads, keyWidth, valueWidth } = state;
  const perKey = heads / keyHeads;
  const keys = keyHeads * keyWidth;
  const name = (of: string) => `blk.${layer}.${of}`;
  const isTiled = tiled && perKey > 1 && keyHeads > 1;
  const order = Array.from({ length: heads }, (_, i) => (i % keyHeads) * perKey + Math.floor(i / keyHeads));
  /** Rows of all value heads, each of `size` rows, in llama.cpp's order. */
  const valueRows = (weight: StoredWeight, size: number, from = 0): FolderRows[] =>
    isTiled
      ? order.map((head) => rowsOf(weight, {}, from + head * size, size))
      : [rowsOf(weight, {}, from, heads * size)];
  const turned = (cell: number): Writing => (isTiled ? { turn: { rows: keyHeads, columns: perKey, cell } } : {});
  const width = widthOf(mix.weight);
  const [channels, values] = [2 * keys + heads * valueWidth, heads * valueWidth];
  if (outputGate) {
    const parts = [rowsOf(mix.weight, {}, 0, 2 * keys), ...valueRows(mix.weight, valueWidth, 2 * keys)];
    list.add(name("attn_qkv.weight"), layer, [channels, width], parts);
    list.add(name("attn_gate.weight"), layer, [values, width], valueRows(outputGate.weight, valueWidth));
  } else {
    // Head by head of the keys: a query, a key, values, and gates.
    const each = perKey * valueWidth;
    const size = 2 * keyWidth + 2 * each;
    const part = (from: number, count: number) =>
      Array.from({ length: keyHeads }, (_, head) => rowsOf(mix.weight, {}, head * size + from, count));
    const parts = [...part(0, keyWidth), ...part(keyWidth, keyWidth), ...part(2 * keyWidth, each)];
    list.add(name("attn_qkv.weight"), layer, [channels, width], parts);
    list.add(name("attn_gate.weight"), layer, [values, width], part(2 * keyWidth + each, each));
  }
  if (decay) {
    list.add(name("ssm_beta.weight"), layer, [heads, width], valueRows(rate.weight, 1));
    list.add(name("ssm_alpha.weight"), layer, [heads, width], valueRows(decay.weight, 1));
  } else list.addWeight(name("ssm_ba.weight"), rate.weight, layer);
  const convolved = [
    rowsOf(convolution.weight, {}, 0, 2 * keys),
    ...valueRows(convolution.weight, valueWidth, 2 * keys),
  ];
  list.add(name("ssm_conv1d.weight"), layer, [channels, widthOf(convolution.weight)], convolved);
  list.addWeight(name("ssm_dt.bias"), decayBias.weight, layer, turned(1));
  list.addWeight(name("ssm_a"), decayScale.weight, layer, { ...turned(1), negativeExp: true });
  list.addWeight(name("ssm_norm.weight"), innerNorm.weight, layer);
  list.addWeight(name("ssm_out.weight"), mixed.weight, layer, turned(valueWidth));
}

/** Mamba-2. */
export function addStateSpace(list: TensorList, layer: number, recurrence: Delta, weights: LayerWeights) {
  const { mix, outputGate, decay, convolution, decayScale, decayBias, skip, mixed } = weights as Weights;
  const innerNorm: NormWeights | undefined = weights.innerNorm;
  const { keyHeads, keyWidth, heads, valueWidth } = recurrence.state;
  const name = (of: string) => `blk.${layer}.${of}`;
  const keys = keyHeads * keyWidth;
  const factors = recurrence.factors ?? [1, 1, 1];
  let from = 0;
  const mixedRows = [heads * valueWidth, keys, keys].map((count, i) => {
    from += count;
    const factor = (mix.factor ?? 1) * (factors[i] as number);
    return rowsOf(mix.weight, times(factor), from - count, count);
  });
  const parts = [
    rowsOf(outputGate.weight, times(outputGate.factor)),
    ...mixedRows,
    rowsOf(decay.weight, times(decay.factor)),
  ];
  const rows = heightOf(outputGate.weight) + heightOf(mix.weight) + heightOf(decay.weight);
  list.add(name("ssm_in.weight"), layer, [rows, widthOf(mix.weight)], parts);
  list.addWeight(name("ssm_conv1d.weight"), convolution.weight, layer);
  if (convolution.bias) list.addWeight(name("ssm_conv1d.bias"), convolution.bias, layer);
  list.addWeight(name("ssm_dt.bias"), decayBias.weight, layer);
  list.add(name("ssm_a"), layer, [heads, 1], [rowsOf(decayScale.weight, { negativeExp: true })]);
  list.add(name("ssm_d"), layer, [heads, 1], [rowsOf(skip.weight)]);
  if (innerNorm) {
    list.add(name("ssm_norm.weight"), layer, [keyHeads, (heads * valueWidth) / keyHeads], [rowsOf(innerNorm.weight)]);
  }
  list.addWeight(name("ssm_out.weight"), mixed.weight, layer, times(mixed.factor));
}
