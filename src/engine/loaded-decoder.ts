// A decoder with its weights in the runtime: computes logits from new tokens and a cache, and extends the cache.

import { type DecoderSpec, longestContext } from "../families/index.js";
import type { BlendOptions } from "./blends.js";
import { KeyValueCache } from "./key-value-cache.js";
import { buildDecoder } from "./model/decoder-graph.js";
import { FEEDS } from "./model/feeds.js";
import { readSpec } from "./model/read-spec.js";
import type { ModelSource } from "./model-source.js";
import { RopeTables } from "./rope-tables.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type Session, type SessionOptions, type TensorValue } from "./runtime/session.js";
import { openBound } from "./weights.js";

export interface LoadOptions extends BlendOptions, Pick<SessionOptions, "threads" | "providers"> {}

/** A position whose logits are used. */
export interface Wanted {
  /** Row of the batch. */
  readonly row: number;
  /** Index among the row's new tokens. */
  readonly at: number;
  /** Next token, whose log-probability is computed; default 0. */
  readonly next?: number;
}

/** Results of a pass, in the order of `wanted`. */
export interface PassResult {
  /** [N, V], if requested. */
  readonly logits?: Float32Array;
  /** Natural log-probability of each `next`, if requested. */
  readonly logprobs?: Float32Array;
  /** The most likely next tokens, if requested; undefined where a logit is not a number. */
  readonly best?: readonly (number | undefined)[];
}

export type Output = "logits" | "logprobs" | "best";

const LABELS = "labels";
/** Sum of a row's logits: NaN if one of them is. The largest logit would not show it. */
const TOTAL = "total";
const REAL = 1n;
const PADDING = 0n;

export class LoadedDecoder {
  readonly spec: DecoderSpec;
  /** Notes on how the weights were read. */
  readonly notes: readonly string[];
  readonly #session: Session;
  readonly #ropes: RopeTables;
  /**
   * Rows of every pass, at least. Products of a single row with weights that are not packed are added up in another order
   * than those of several rows, so an answer would depend on the others in its batch.
   */
  readonly #leastRows: number;

  private constructor(spec: DecoderSpec, notes: readonly string[], session: Session, isPacked: boolean) {
    this.spec = spec;
    this.notes = notes;
    this.#session = session;
    this.#leastRows = isPacked ? 1 : 2;
    this.#ropes = new RopeTables(spec.ropes);
  }

  /**
   * Builds the graph, binds the weights, opens the session.
   * @throws CheckpointError if the family is not supported or the weights do not match the configuration
   * @throws RuntimeMissingError if ONNX Runtime is not installed
   */
  static async load(source: ModelSource, options: LoadOptions = {}): Promise<LoadedDecoder> {
    const spec = readSpec(source.config, source.tensors.keys());
    const decoder = buildDecoder(spec, { cached: true });
    const { graph, logits, fresh } = decoder;
    const labels = graph.input(LABELS, "i64", ["rows"]);
    const head = {
      logits,
      logprobs: graph.pick(graph.logSoftmax(logits), labels),
      best: graph.argMax(logits),
      [TOTAL]: graph.sum(logits, [1]),
    };
    const { threads, providers, shared = false } = options;
    const outputs = { ...head, ...Object.fromEntries([...fresh].map(([feed, node]) => [freshOf(feed), node])) };
    // Packed weights are a copy of this session's own.
    const config: Record<string, string> = shared ? { "session.disable_prepacking": "1" } : {};
    return openBound(decoder, source, options, async ({ weights, notes }) => {
      const session = await openSession(lowerGraph(outputs, { weights }), { threads, providers, config });
      return new LoadedDecoder(spec, notes, session, !shared);
    });
  }

  get contextLength(): number {
    return longestContext(this.spec);
  }

  /** Whether frequencies depend on the length of each text, so that texts are computed one at a time. */
  get isAlone(): boolean {
    return this.spec.ropes.some(({ long, dynamic }) => long !== undefined || dynamic !== undefined);
  }

  newCache(rows: number, width?: number): KeyValueCache {
    return new KeyValueCache(this.spec, Math.max(rows, this.#leastRows), width);
  }

  /**
   * Computes new tokens of every row of a cache, and appends them to it.
   * @param tokens by row of the cache; rows may have different numbers of them, not all none
   * @param wanted at least one position
   * @param outputs results for `wanted`
   * @param planned final length of the longest text, on which frequencies may depend
   */
  async pass(
    cache: KeyValueCache,
    tokens: readonly (readonly number[])[],
    wanted: readonly Wanted[],
    outputs: readonly Output[],
    planned = 0,
  ): Promise<PassResult> {
    const least = this.#leastRows;
    const [batch, time] = [Math.max(tokens.length, least), Math.max(...tokens.map(({ length }) => length))];
    const rows = wanted.map(({ row, at }) => BigInt(row * time + at));
    while (rows.length < least) rows.push(rows[0] ?? 0n);
    // Short rows are padded with their own tokens, as a NaN in another text must not spoil them, even times 0.
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
      [FEEDS.rows]: integers(BigInt64Array.from(rows), [rows.length]),
      [LABELS]: integers(
        BigInt64Array.from(rows, (_, i) => BigInt(wanted[i]?.next ?? 0)),
        [rows.length],
      ),
      ...this.#ropes.feeds(longest),
      ...cache.feeds(batch),
    };
    const grown = cache.parts.map(({ feed }) => freshOf(feed));
    const named = outputs.flatMap((output) => (output === "best" ? [output, TOTAL] : [output]));
    const results = await this.#session.run(feeds, [...named, ...grown]);
    cache.append(
      cache.parts.map(({ feed }) => results[freshOf(feed)]?.data as Float32Array),
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

/** Name of the output with what a pass adds to a part of the cache. */
const freshOf = (feed: string) => `new.${feed}`;
