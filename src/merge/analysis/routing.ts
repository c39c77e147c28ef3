// How models with experts route the same texts, and whether a merge still routes as its parents do.
import { formatPercent } from "../../kit/printing/index.js";
import { pairsOf } from "../../tensor/streaming/index.js";
import type { Analysis } from "./analysis.js";

/** How the base and the experts of an analysis route the same texts. */
export interface Routing {
  /** Experts of a layer. */
  readonly experts: number;
  /** Experts of a token. */
  readonly chosen: number;
  readonly tokens: number;
  /** Places, among the base and the experts, of recipes with several sources: merges of the others. */
  readonly merges: readonly number[];
  /** Layers that have experts. */
  readonly layers: readonly LayerRouting[];
}

/** How models route in one layer. */
export interface LayerRouting {
  readonly layer: number;
  /** Of base and experts: the share of all choices that each expert got, and the router's mean entropy, 1 where all shares are equal. */
  readonly models: readonly { readonly load: readonly number[]; readonly entropy: number }[];
  /** Share of the chosen experts that both of a pair choose, mean over tokens; pairs in the order (0,1), (0,2), ... */
  readonly pairs: readonly number[];
}

/**
 * How much less than its parents agree with each other a merge must agree with each of them. Soups, TIES merges and swaps of the
 * small mixtures in docs/results.md agree with a parent by 3 to 8 points more, in every layer.
 */
const MARGIN = 0.05;

/** How a merge routes in a layer, beside its parents. */
export interface SharedLayer {
  readonly layer: number;
  /** Share of the chosen experts that the merge and each parent both choose. */
  readonly withParents: readonly number[];
  /** The least share of two parents. */
  readonly between: number;
}

/** What a merge shares with its parents. @param merge its place; without two parents, no layers */
function sharedByLayer({ layers, merges }: Routing, merge: number): SharedLayer[] {
  const [first] = layers;
  const places = first?.models.map((_, i) => i) ?? [];
  // The base is a parent only where the experts are its merges.
  const parents = places.slice(1).filter((place) => !merges.includes(place));
  if (parents.length < 2) return [];
  const pairs = pairsOf(places.length);
  return layers.map(({ layer, pairs: agreements }) => {
    const agreement = (a: number, b: number) =>
      agreements[pairs.findIndex(([i, j]) => i === Math.min(a, b) && j === Math.max(a, b))] as number;
    const withParents = parents.map((parent) => agreement(parent, merge));
    const among = pairsOf(parents.length).map(([i, j]) => agreement(parents[i] as number, parents[j] as number));
    return { layer, withParents, between: Math.min(...among) };
  });
}

/** Layers in which a merge agrees with each parent less than the parents do with each other. @param merge its place */
export function brokenLayers(routing: Routing, merge: number): SharedLayer[] {
  return sharedByLayer(routing, merge).filter((one) => lossOf(one) > MARGIN);
}

/** How one merge routes texts, beside its parents. */
export interface MergeRouting extends Pick<Routing, "experts" | "chosen" | "tokens"> {
  readonly parents: readonly string[];
  /** `load` and `entropy`: of the merge. */
  readonly layers: readonly (SharedLayer & LayerRouting["models"][number])[];
  /** Whether it routes as its parents do. */
  readonly verdict: string;
}

/**
 * Of a routing with one merge, the last model.
 * @param names of its parents and of the merge
 */
export function mergeRouting(routing: Routing, names: readonly string[]): MergeRouting {
  const merge = names.length;
  const figures = new Map(routing.layers.map(({ layer, models }) => [layer, models[merge]]));
  const { experts, chosen, tokens } = routing;
  return {
    ...{ experts, chosen, tokens },
    parents: names.slice(0, -1),
    layers: sharedByLayer(routing, merge).map((one) => {
      return { ...one, ...(figures.get(one.layer) as LayerRouting["models"][number]) };
    }),
    verdict: routingSentences({ routing, experts: names }).join(" "),
  };
}

/** A sentence for each merge: whether it routes as its parents do. */
export function routingSentences({ routing, experts }: Pick<Analysis, "routing" | "experts">): string[] {
  if (!routing) return [];
  const nameOf = (place: number) => (place === 0 ? "the base" : (experts[place - 1] as string));
  const parents = experts.map((_, i) => i + 1).filter((place) => !routing.merges.includes(place));
  if (parents.length < 2) return [];
  return routing.merges.map((merge) => {
    const broken = brokenLayers(routing, merge);
    if (broken.length === 0) {
      return `The routing of ${nameOf(merge)} holds: in every layer, it shares about as many experts with a parent as the parents share, or more.`;
    }
    const worst = broken.reduce((a, b) => (lossOf(b) > lossOf(a) ? b : a));
    const shares = parents.map((parent, i) => `${formatPercent(worst.withParents[i] ?? 0)} with ${nameOf(parent)}`);
    return (
      `The routing of ${nameOf(merge)} is broken in ${broken.length} of ${routing.layers.length} layers, most in layer ` +
      `${worst.layer}: it shares ${shares.join(" and ")}, which share ${formatPercent(worst.between)} with each other ` +
      `(chance: ${formatPercent(routing.chosen / routing.experts)}). Calibrate its routers with the method harc.`
    );
  });
}

const lossOf = ({ withParents, between }: SharedLayer): number => between - Math.max(...withParents);
