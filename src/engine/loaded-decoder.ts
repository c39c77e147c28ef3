// A decoder with its weights in the runtime: new tokens and a cache in; logits, and the cache grown, out. Knows tokens,
// not text.

import type { BlendOptions } from "./blends.js";
import { KeyValueCache, type NewPositions } from "./key-value-cache.js";
import { buildDecoder, type DecoderSpec, FEEDS, readSpec } from "./model/index.js";
import type { ModelSource } from "./model-source.js";
import { RopeTables } from "./rope-tables.js";
import { lowerGraph, openSession, type Session, type SessionOptions, type TensorValue } from "./runtime/index.js";
import { bindWeights } from "./weights.js";

export interface LoadOptions extends BlendOptions, Pick<SessionOptions, "threads" | "providers"> {}

/** Rows whose logits are looked at in a pass. */
export interface Wanted {
  /** Row of the batch. */
  readonly row: number;
  /** Place among the row's new tokens. */
  readonly at: number;
  /** Token whose log-probability is wanted as what comes next; 0 if none is. */
  readonly next?: number;
}

/** What a pass found, in the order of what was wanted. */
export interface PassResult {
  /** [N, V], if asked for. */
  readonly logits?: Float32Array;
  /** Natural log-probability of each `next`, if asked for. */
  readonly logprobs?: Float32Array;
  /** The most likely next tokens, if asked for; undefined where a logit is no number, so that none is likely. */
  readonly best?: readonly (number | undefined)[];
}

export type Output = "logits" | "logprobs" | "best";

const LABELS = "labels";
/** Sum of the logits of a row: no number where one of them is none. The largest alone would not tell. */
const TOTAL = "total";
const REAL = 1n;
const PADDING = 0n;

export class LoadedDecoder {
  readonly spec: DecoderSpec;
  /** What a person should know of how the weights were understood. */
  readonly notes: readonly string[];
  readonly #session: Session;
  readonly #ropes: RopeTables;

  private constructor(spec: DecoderSpec, notes: readonly string[], session: Session) {
    this.spec = spec;
    this.notes = notes;
    this.#session = session;
    this.#ropes = new RopeTables(spec.ropes);
  }

  /**
   * Builds the graph, binds the weights, opens the session.
   * @throws {CheckpointError} if the family is unknown or the weights are not those that the configuration describes
   * @throws {RuntimeMissingError} if there is no runtime for this platform
   */
  static async load(source: ModelSource, options: LoadOptions = {}): Promise<LoadedDecoder> {
    const spec = readSpec(source.config);
    const decoder = buildDecoder(spec, { cached: true });
    const { graph, logits, keys, values } = decoder;
    const labels = graph.input(LABELS, "i64", ["rows"]);
    const outputs = {
      logits,
      logprobs: graph.pick(graph.logSoftmax(logits), labels),
      best: graph.argMax(logits),
      [TOTAL]: graph.sum(logits, [1]),
      ...Object.fromEntries(keys.map((key, layer) => [newKey(layer), key])),
      ...Object.fromEntries(values.map((value, layer) => [newValue(layer), value])),
    };
    const bound = await bindWeights(decoder, source, options);
    const model = lowerGraph(outputs, { weights: bound.weights });
    const session = await openSession(model, { threads: options.threads, providers: options.providers });
    return new LoadedDecoder(spec, bound.notes, session);
  }

  newCache(rows: number, width?: number): KeyValueCache {
    return new KeyValueCache(this.spec, rows, width);
  }

  /**
   * Computes new tokens of every row of a cache, and appends them to it.
   * @param tokens by row of the cache; rows may have different numbers, at least one has one
   * @param outputs what to return of `wanted`, of which there must be at least one
   * @param planned length that the longest text is known to have in the end; where frequencies depend on length
   */
  async pass(
    cache: KeyValueCache,
    tokens: readonly (readonly number[])[],
    wanted: readonly Wanted[],
    outputs: readonly Output[],
    planned = 0,
  ): Promise<PassResult> {
    const [batch, time] = [tokens.length, Math.max(...tokens.map(({ length }) => length))];
    // Short rows are filled with tokens of their own: one that is not a number must not spoil other texts, even times 0.
    const ids = BigInt64Array.from({ length: batch * time }, (_, i) => BigInt(tokens[Math.floor(i / time)]?.[0] ?? 0));
    const positions = new BigInt64Array(batch * time);
    const segments = new BigInt64Array(batch * time).fill(PADDING);
    let longest = planned;
    for (const [row, list] of tokens.entries()) {
      const before = cache.length(row);
      longest = Math.max(longest, before + list.length);
      for (const [at, id] of list.entries()) {
        ids[row * time + at] = BigInt(id);
        positions[row * time + at] = BigInt(before + at);
        segments[row * time + at] = REAL;
      }
    }
    const integers = (data: BigInt64Array, shape: readonly number[]): TensorValue => ({ dtype: "i64", shape, data });
    const feeds: Record<string, TensorValue> = {
      [FEEDS.ids]: integers(ids, [batch, time]),
      [FEEDS.positions]: integers(positions, [batch, time]),
      [FEEDS.segments]: integers(segments, [batch, time]),
      [FEEDS.rows]: integers(
        BigInt64Array.from(wanted, ({ row, at }) => BigInt(row * time + at)),
        [wanted.length],
      ),
      [LABELS]: integers(
        BigInt64Array.from(wanted, ({ next = 0 }) => BigInt(next)),
        [wanted.length],
      ),
      ...this.#ropes.feeds(longest),
      ...cache.feeds(),
    };
    const layers = this.spec.layers.map((_, layer) => layer);
    const grown = layers.flatMap((layer) => [newKey(layer), newValue(layer)]);
    const named = outputs.flatMap((output) => (output === "best" ? [output, TOTAL] : [output]));
    const results = await this.#session.run(feeds, [...named, ...grown]);
    const fresh = layers.map(
      (layer): NewPositions => ({
        key: results[newKey(layer)]?.data as Float32Array,
        value: results[newValue(layer)]?.data as Float32Array,
      }),
    );
    cache.append(
      fresh,
      time,
      tokens.map(({ length }) => length),
    );
    return {
      ...(results.logits ? { logits: results.logits.data as Float32Array } : {}),
      ...(results.logprobs ? { logprobs: results.logprobs.data as Float32Array } : {}),
      ...(results.best
        ? { best: mostLikely(results.best.data as BigInt64Array, results[TOTAL]?.data as Float32Array) }
        : {}),
    };
  }

  close(): Promise<void> {
    return this.#session.close();
  }
}

function mostLikely(ids: BigInt64Array, totals: Float32Array): (number | undefined)[] {
  return Array.from(ids, (id, row) => (Number.isNaN(totals[row]) ? undefined : Number(id)));
}

const newKey = (layer: number) => `new.${layer}.key`;
const newValue = (layer: number) => `new.${layer}.value`;
