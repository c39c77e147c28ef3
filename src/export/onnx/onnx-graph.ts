// A decoder's graph with the inputs and outputs that transformers.js feeds and fetches.
// Names and shapes: huggingface/transformers.js 4.3, src/models/modeling_utils.js (decoder_forward, addPastKeyValues).

import { type Node, reachable } from "../../engine/graph/index.js";
import { usesOf, type WeightUses } from "../../engine/index.js";
import {
  buildDecoder,
  type Decoder,
  type DecoderSpec,
  FEEDS,
  pastKey,
  pastValue,
  ropeCos,
  ropeSin,
} from "../../engine/model/index.js";
import type { Emitter, ExternalData } from "../../engine/runtime/index.js";

/** Names of sizes. transformers.js finds the batch by its name, to make the first cache. */
export const AXES = {
  batch: "batch_size",
  time: "sequence_length",
  past: "past_sequence_length",
  "past+time": "total_sequence_length",
  kept: "num_logits",
} as const;

// Fed by transformers.js: how many of the last positions have logits; 0 for all.
const KEPT = "num_logits_to_keep";
// End of a slice: the last element.
const END = 2 ** 31 - 1;

export interface OnnxGraph {
  readonly decoder: Decoder;
  readonly outputs: Readonly<Record<string, Node>>;
  readonly uses: WeightUses;
}

/** Builds the graph of a decoder whose cache is fed and returned whole. */
export function buildOnnxGraph(spec: DecoderSpec): OnnxGraph {
  const decoder = buildDecoder(spec, { cached: "joined", rows: "batch*kept" });
  const { graph, logits, fresh, weights } = decoder;
  const outputs: Record<string, Node> = {
    logits: graph.reshape(logits, ["batch", "kept", spec.vocabularySize]),
  };
  for (const layer of spec.layers.keys()) {
    for (const [name, feed] of [
      ["key", pastKey(layer)],
      ["value", pastValue(layer)],
    ] as const) {
      const node = fresh.get(feed);
      if (node) outputs[`present.${layer}.${name}`] = node;
    }
  }
  return { decoder, outputs, uses: usesOf(reachable(Object.values(outputs)), weights) };
}

/** The stored tables of a rotation: rows for positions from 0, then, where frequencies depend on the length, others. */
export interface RopeTable {
  /** Index of the rotation. */
  readonly rope: number;
  /** Rows of the first table, and of the second. */
  readonly rows: number;
  readonly longRows: number;
  /** Length of a text above which the second table is used. */
  readonly above: number;
  readonly cos: ExternalData;
  readonly sin: ExternalData;
}

/**
 * Declares the feeds of transformers.js and computes those of the decoder from them. Positions count the tokens of the
 * attention mask, so rows may be padded at their beginning.
 * @returns values by the names of the decoder's feeds
 */
export function computeFeeds(
  emitter: Emitter,
  spec: DecoderSpec,
  tables: readonly RopeTable[],
): ReadonlyMap<string, string> {
  const { layers, kvHeads, headDim } = spec;
  const values = new Map<string, string>();
  const ids = emitter.feed("input_ids", "i64", ["batch", "time"]);
  const mask = emitter.feed("attention_mask", "i64", ["batch", "past+time"]);
  const kept = emitter.feed(KEPT, "i64", []);
  for (const layer of layers.keys()) {
    for (const [name, part] of [
      [pastKey(layer), "key"],
      [pastValue(layer), "value"],
    ] as const) {
      values.set(name, emitter.feed(`past_key_values.${layer}.${part}`, "f32", ["batch", kvHeads, "past", headDim]));
    }
  }
  const columns = (x: string, from: string, to: string) => emitter.node("Slice", [x, from, to, emitter.integers([1])]);
  const [zero, one] = [emitter.integers([0]), emitter.integers([1])];
  const [past, total] = [emitter.size("past"), emitter.size("past+time")];
  const counted = emitter.node("CumSum", [mask, emitter.integers([1], [])]);
  // Padding has position 0, too, as tables have no rows below.
  const positions = emitter.node("Max", [emitter.node("Sub", [counted, one]), zero]);
  values.set(FEEDS.ids, ids);
  values.set(FEEDS.positions, columns(positions, past, total));
  values.set(FEEDS.pastPositions, columns(positions, zero, past));
  values.set(FEEDS.segments, columns(mask, past, total));
  values.set(FEEDS.pastSegments, columns(mask, zero, past));

  const scalar = (size: string) => emitter.node("Squeeze", [size]);
  const count = emitter.node("Mul", [emitter.size("batch"), emitter.size("time")]);
  const start = emitter.integers([0], []);
  const all = emitter.node("Range", [start, scalar(count), emitter.integers([1], [])]);
  const grid = emitter.node("Reshape", [all, emitter.node("Shape", [ids])]);
  const last = emitter.node("Unsqueeze", [emitter.node("Neg", [kept]), zero]);
  const rows = columns(grid, last, emitter.integers([END]));
  emitter.defineSize("kept", emitter.node("Shape", [rows], { start: 1, end: 2 }));
  values.set(FEEDS.rows, emitter.node("Reshape", [rows, emitter.integers([-1])]));

  for (const { rope, rows: height, longRows, above, cos, sin } of tables) {
    const half = (spec.ropes[rope]?.dimensions ?? 0) / 2;
    const isLong = longRows > 0 && emitter.node("Greater", [total, emitter.integers([above])]);
    const from = isLong && emitter.node("Where", [isLong, emitter.integers([height]), zero]);
    for (const [name, place] of [
      [ropeCos(rope), cos],
      [ropeSin(rope), sin],
    ] as const) {
      const table = emitter.store(name, "f32", [height + longRows, half], place);
      values.set(name, from ? emitter.node("Slice", [table, from, emitter.node("Add", [from, total]), zero]) : table);
    }
  }
  return values;
}
