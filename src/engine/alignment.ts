// How alike models represent the same texts, layer by layer: linear CKA of their hidden states; and how alike they route them.

import type { RoutingSpec } from "../families/index.js";
import type { SourceOptions } from "../formats/checkpoint/index.js";
import { type CallOptions, CancelledError, RecipeError } from "../kit/index.js";
import {
  type Analysis,
  type AnalyzeOptions,
  type MergeRouting,
  mergeRouting,
  type Routing,
} from "../merge/analysis/index.js";
import { pairsOf } from "../tensor/streaming/index.js";
import { openStates } from "./hidden-states.js";
import { type EngineSource, openModelSource } from "./model-source.js";
import { RouteRecord, routingOf } from "./routes.js";

export interface AlignmentOptions extends SourceOptions, CallOptions {
  readonly threads?: number | undefined;
}

const TEXTS = { least: 4, most: 1000 };

/**
 * Adds the alignment of base and experts to an analysis, and of mixtures their routing: linear CKA with the unbiased estimator of HSIC (Kornblith et al.,
 * arXiv 1905.00414, section 3; Nguyen et al., arXiv 2010.15327, section 3.1), of the mean over tokens of the state after each
 * layer.
 * @param experts by the names of the analysis
 * @param texts 4 to 1000; one row of states each
 * @throws RecipeError for another number of texts, or models of different depths
 * @throws CheckpointError if a model has no tokenizer; RuntimeMissingError if ONNX Runtime is not installed
 * @throws CancelledError if the signal fires
 */
export async function alignExperts(
  analysis: Analysis,
  base: AnalyzeOptions["base"],
  experts: AnalyzeOptions["experts"],
  texts: readonly string[],
  options: AlignmentOptions = {},
): Promise<Analysis> {
  // Planning checks nested recipes.
  const models = [base, ...analysis.experts.map((name) => experts[name] as EngineSource)];
  const { grams, routing } = await readModels(models, analysis.layers, texts, options);
  const pairs = pairsOf(models.length).map(([i, j]) =>
    (grams[i] ?? []).map((gram, layer) => cka(gram, grams[j]?.[layer] as Float64Array, texts.length)),
  );
  return { ...analysis, alignment: { texts: texts.length, pairs }, ...(routing ? { routing } : {}) };
}

/**
 * How a merge and the models that it is of route the same texts.
 * @param models what `merge` is of, at least two, by name
 * @param merge its plan
 * @param layers of all of them
 * @returns undefined if a model has no experts
 * @throws as `alignExperts`
 */
export async function routeMerge(
  models: Readonly<Record<string, EngineSource>>,
  merge: EngineSource,
  layers: number,
  texts: readonly string[],
  options: AlignmentOptions = {},
): Promise<MergeRouting | undefined> {
  const [first, ...others] = Object.values(models) as [EngineSource, ...EngineSource[]];
  // The first place is a base's, which says nothing of a merge.
  const { routing } = await readModels([first, first, ...others, merge], layers, texts, options);
  return routing && mergeRouting(routing, [...Object.keys(models), "the merge"]);
}

/** Reads texts with each model: Gram matrices of its states by layer, and how all of them route. */
async function readModels(
  models: readonly EngineSource[],
  layers: number,
  texts: readonly string[],
  options: AlignmentOptions,
): Promise<{ readonly grams: readonly (readonly Float64Array[])[]; readonly routing?: Routing | undefined }> {
  if (texts.length < TEXTS.least || texts.length > TEXTS.most)
    throw RecipeError.at({ field: "on" }, `on: needs ${TEXTS.least} to ${TEXTS.most} texts, not ${texts.length}`);
  const read = new Map<EngineSource, { grams: Float64Array[]; record: RouteRecord | undefined; isMerge: boolean }>();
  let spec: RoutingSpec | null = null;
  const distinct = [...new Set(models)];
  for (const [m, model] of distinct.entries()) {
    const source = await openModelSource(model, options);
    const at = Array.from({ length: layers }, (_, layer) => layer + 1);
    const reader = await openStates(source, { ...options, at, pool: "mean", routes: true });
    spec = reader.routing;
    const record = reader.routing ? new RouteRecord(reader.routing) : undefined;
    try {
      const states: Float64Array[] = [];
      for (const [i, text] of texts.entries()) {
        const done = m * texts.length + i;
        options.onProgress?.({ phase: "reading texts", done, total: distinct.length * texts.length, unit: "items" });
        if (options.signal?.aborted) throw new CancelledError("stopped before the end");
        const { states: own, routes } = await reader.read(text);
        states.push(own);
        record?.add(routes);
      }
      const grams = at.map((_, layer) => gramOf(states, layer, layers));
      read.set(model, { grams, record, isMerge: source.sources.size > 1 });
    } finally {
      await reader.close();
    }
  }
  const all = models.flatMap((model) => read.get(model) ?? []);
  const records = all.flatMap(({ record }) => record ?? []);
  const merges = all.flatMap(({ isMerge }, m) => (isMerge ? [m] : []));
  const isRouted = spec !== null && records.length === models.length;
  return {
    grams: all.map(({ grams }) => grams),
    routing: isRouted ? routingOf(records, spec as RoutingSpec, merges) : undefined,
  };
}

/** Dot products of the centered states of one layer, [texts, texts], with 0 on the diagonal. */
export function gramOf(states: readonly Float64Array[], layer: number, layers: number): Float64Array {
  const n = states.length;
  const width = (states[0]?.length ?? 0) / layers;
  const rows = states.map((all) => all.slice(layer * width, (layer + 1) * width));
  for (let k = 0; k < width; k++) {
    const mean = rows.reduce((sum, row) => sum + (row[k] as number), 0) / n;
    for (const row of rows) row[k] = (row[k] as number) - mean;
  }
  const gram = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    const a = rows[i] as Float64Array;
    for (let j = 0; j < i; j++) {
      const b = rows[j] as Float64Array;
      let dot = 0;
      for (let k = 0; k < width; k++) dot += (a[k] as number) * (b[k] as number);
      gram[i * n + j] = dot;
      gram[j * n + i] = dot;
    }
  }
  return gram;
}

/** CKA of two Gram matrices of n texts, about 0 for unrelated states and 1 for equal ones; null if one does not vary. */
export function cka(k: Float64Array, l: Float64Array, n: number): number | null {
  const size = hsic(k, k, n) * hsic(l, l, n);
  return size > 0 ? hsic(k, l, n) / Math.sqrt(size) : null;
}

/** The unbiased estimator of HSIC, without its factor 1 / (n (n - 3)): Song et al. 2012, equation 5. */
function hsic(k: Float64Array, l: Float64Array, n: number): number {
  let [trace, sumK, sumL, rows] = [0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    let [rowK, rowL] = [0, 0];
    for (let j = i * n; j < (i + 1) * n; j++) {
      const [x, y] = [k[j] as number, l[j] as number];
      trace += x * y;
      rowK += x;
      rowL += y;
    }
    sumK += rowK;
    sumL += rowL;
    rows += rowK * rowL;
  }
  return trace + (sumK * sumL) / ((n - 1) * (n - 2)) - (2 * rows) / (n - 2);
}
