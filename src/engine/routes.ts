// Which experts the tokens of texts choose in each layer of a mixture, and how alike two models choose.

import type { RoutingSpec } from "../families/index.js";
import type { LayerRouting, Routing } from "../merge/analysis/index.js";
import { pairsOf } from "../tensor/streaming/index.js";
import type { Route } from "./hidden-states.js";

/** Routes of one model in one layer. */
interface Recorded {
  /** The experts of each token one after another, [N, k], text by text. */
  readonly chosen: Uint16Array[];
  /** Sum of the entropies of all tokens, in nats. */
  entropy: number;
}

/** The routes of a model on texts. Memory: 2 bytes for each expert that a token chooses in a layer. */
export class RouteRecord {
  readonly #spec: RoutingSpec;
  readonly #layers = new Map<number, Recorded>();

  constructor(spec: RoutingSpec) {
    this.#spec = spec;
  }

  get layers(): readonly number[] {
    return [...this.#layers.keys()];
  }

  /** Adds a text. */
  add(routes: readonly Route[]): void {
    for (const { layer, logits, chosen } of routes) {
      const recorded = this.#layers.get(layer) ?? { chosen: [], entropy: 0 };
      recorded.chosen.push(Uint16Array.from(chosen, Number));
      recorded.entropy += entropyOf(logits, this.#spec);
      this.#layers.set(layer, recorded);
    }
  }

  tokens(layer: number): number {
    const { chosen = [] } = this.#layers.get(layer) ?? {};
    return chosen.reduce((sum, { length }) => sum + length, 0) / this.#spec.chosen;
  }

  /** The share of all choices that each expert got, and the mean entropy as a share of the largest possible. */
  figures(layer: number): LayerRouting["models"][number] {
    const { chosen, entropy } = this.#layers.get(layer) as Recorded;
    const load = new Array<number>(this.#spec.experts).fill(0);
    for (const ids of chosen) for (const id of ids) load[id] = (load[id] as number) + 1;
    const tokens = this.tokens(layer);
    return {
      load: load.map((times) => times / (tokens * this.#spec.chosen)),
      entropy: entropy / tokens / Math.log(this.#spec.experts),
    };
  }

  /** The share of the chosen experts that another model chooses for the same token. */
  agreement(other: RouteRecord, layer: number): number {
    const k = this.#spec.chosen;
    const theirs = other.#layers.get(layer)?.chosen ?? [];
    let [same, all] = [0, 0];
    for (const [text, mine] of (this.#layers.get(layer)?.chosen ?? []).entries()) {
      const found = theirs[text] as Uint16Array;
      all += mine.length;
      for (let from = 0; from < mine.length; from += k) {
        const set = found.subarray(from, from + k);
        for (let i = from; i < from + k; i++) if (set.includes(mine[i] as number)) same++;
      }
    }
    return same / all;
  }
}

/**
 * How models route the same texts.
 * @param merges places of those that are merges of the others
 */
export function routingOf(
  records: readonly RouteRecord[],
  { experts, chosen }: RoutingSpec,
  merges: readonly number[],
): Routing | undefined {
  const [first] = records;
  const layers = (first?.layers ?? []).filter((layer) => records.every((one) => one.layers.includes(layer)));
  const tokens = first?.tokens(layers[0] ?? 0) ?? 0;
  if (tokens === 0) return undefined;
  return {
    experts,
    chosen,
    tokens,
    merges,
    layers: layers.map((layer) => ({
      layer,
      models: records.map((one) => one.figures(layer)),
      pairs: pairsOf(records.length).map(([i, j]) =>
        (records[i] as RouteRecord).agreement(records[j] as RouteRecord, layer),
      ),
    })),
  };
}

/** The sum over tokens of the entropy of the router's shares of all experts: softmax, or sigmoids over their sum. */
function entropyOf(logits: Float32Array, { experts, scores }: RoutingSpec): number {
  let sum = 0;
  for (let from = 0; from < logits.length; from += experts) {
    const own = logits.subarray(from, from + experts);
    const most = own.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
    let [total, weighed] = [0, 0];
    for (const x of own) {
      // Logarithms of shares up to a constant; that of a sigmoid is -log(1 + e^-x).
      const log = scores === "sigmoid" ? -Math.log1p(Math.exp(-x)) : x - most;
      const share = Math.exp(log);
      total += share;
      if (share > 0) weighed += share * log;
    }
    sum += Math.log(total) - weighed / total;
  }
  return sum;
}
