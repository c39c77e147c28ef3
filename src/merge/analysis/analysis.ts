// Measures where experts changed from their base (Bandarkar et al., arXiv 2410.01335, section 3.2).

import {
  type Checkpoint,
  compareParts,
  isMatrix,
  type Part,
  requireUnchanged,
  type SourceOptions,
} from "../../formats/checkpoint/index.js";
import { elementCount, groupBy, RecipeError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { type Leaf, leavesOf } from "../../tensor/expressions/index.js";
import {
  analyzeTensors,
  type ExpertDelta,
  isAnalyzable,
  measureAll,
  type RowAxis,
  type TensorDelta,
  type TensorToAnalyze,
} from "../../tensor/measurements/index.js";
import { pairsOf, type StreamOptions } from "../../tensor/streaming/index.js";
import type { SourceRecipe } from "../methods/method.js";
import { keepSketch } from "../plan/budget.js";
import { OperandBuilder } from "../plan/operand-builder.js";
import { compareWeights } from "../plan/relatedness.js";
import { resolveSource } from "../recipe/inner-recipes.js";
import { isCounted } from "./counted.js";
import { type PaperLikeness, paperLikeness } from "./paper-maps.js";
import type { Routing } from "./routing.js";
import { autoThreshold, countOverlap, countRows, jaccard, type RowOverlap, type ThresholdSpec } from "./thresholds.js";
import { type TrainingSigns, trainingSigns } from "./training-signs.js";

export interface AnalyzeOptions extends StreamOptions, SourceOptions {
  /** The model that the experts were fine-tuned from: a folder, or `FOLDER+ADAPTER`. */
  readonly base: string;
  /** The experts by name, in the order of the result; recipes are computed on the fly. */
  readonly experts: Readonly<Record<string, SourceRecipe>>;
  /** Feature that makes a row: input (a column, as in arXiv 2410.01335) or output. Default: `input`. */
  readonly rows?: RowAxis | undefined;
  /** Thresholds above which a row counts as changed. Default: one, chosen from the data. */
  readonly thresholds?: readonly ThresholdSpec[] | undefined;
  /** If vocabularies differ, the one to align rows to: `base`, `union` or an expert's name. Default: none. */
  readonly vocabulary?: string | undefined;
}

/** Figures of one expert over a tensor, a layer's part, a layer, or the whole model. */
export interface DeltaFigures extends Omit<ExpertDelta, "rows" | "blocks" | "baseNorm" | "firstNonFinite"> {
  /** Number of rows. */
  readonly rows: number;
  /** `norm` divided by the base's norm; null if the base is zero. */
  readonly relativeNorm: number | null;
  /** Share of rows above each threshold, in the order of `Analysis.thresholds`. */
  readonly shares: readonly number[];
}

/** Figures of an expert that is named. */
export interface ExpertFigures extends DeltaFigures {
  /** Name of the expert, as in `Analysis.experts`. */
  readonly name: string;
}

/** How two experts' changes relate over a tensor, a part, a layer, or the model. */
export interface PairFigures {
  /** Cosine of the angle between the changes; null where one of them is zero. */
  readonly cosine: number | null;
  /** Share of elements that the experts moved in opposite directions. */
  readonly conflictShare: number;
  /**
   * Of the rows that at least one expert changed by more than its threshold, the share that both did (Jaccard index), in the
   * order of `Analysis.thresholds`; null where neither did.
   */
  readonly overlap: readonly (number | null)[];
}

export interface Figures {
  /** In the order of `Analysis.experts`. */
  readonly experts: readonly ExpertFigures[];
  /** Pairs of experts in the order (0,1), (0,2), ..., (1,2), ... */
  readonly pairs: readonly PairFigures[];
}

export interface TensorAnalysis extends Figures, Pick<TensorDelta, "tensor" | "shape" | "layer" | "part"> {}

/** Where experts changed, by tensor, part, layer and model. The content of analysis.json. */
export interface Analysis {
  readonly format: 1;
  readonly base: string;
  readonly architecture: string;
  readonly layers: number;
  readonly rowAxis: RowAxis;
  readonly experts: readonly string[];
  /** One value per expert; they differ only for `auto`. */
  readonly thresholds: readonly { readonly name: string; readonly values: readonly number[] }[];
  readonly tensors: readonly TensorAnalysis[];
  /** Every part of every layer, by its matrices where it has any, without biases; `layer` is null outside the layers. */
  readonly parts: readonly ({ readonly layer: number | null; readonly part: Part } & Figures)[];
  readonly byLayer: readonly ({ readonly layer: number | null } & Figures)[];
  /** The matrices of all layers: the rows of every figure, and those that `auto` looks at. */
  readonly matrices: Figures;
  /** The whole model, with embeddings, norms and biases. */
  readonly total: Figures;
  /**
   * Linear CKA of the states after each layer, of pairs of base and experts in the order (0,1), (0,2), ...; the base is 0.
   * Null where states do not vary. Absent if no text was read.
   */
  readonly alignment?: { readonly texts: number; readonly pairs: readonly (readonly (number | null)[])[] };
  /** How base and experts route the same texts. Absent if no text was read, or the models have no experts in their layers. */
  readonly routing?: Routing;
  /** How like each expert's map is to the published ones of math and of language experts. */
  readonly paper: readonly PaperLikeness[];
  /** What each expert's changes show of its training. */
  readonly training: readonly TrainingSigns[];
  /** Tensors left out because they are not floating point. */
  readonly skipped: readonly string[];
  /** Warnings, such as experts equal to the base or values that are not finite. */
  readonly warnings: readonly string[];
}

/** An analysis with the value of every row; other thresholds need no second pass. */
export interface AnalysisWithRows {
  readonly analysis: Analysis;
  /** Row MAVs by `EXPERT/TENSOR`. */
  readonly rows: ReadonlyMap<string, Float32Array>;
}

/**
 * Analyses experts against their base in one streaming pass.
 * @throws MismatchError if the checkpoints do not fit together
 * @throws RecipeError if no expert is given
 */
export async function analyzeExperts(options: AnalyzeOptions): Promise<AnalysisWithRows> {
  const {
    base,
    rows: rowAxis = "input",
    thresholds = [{ name: "auto", value: "auto" }],
    folder = ".",
    vocabulary,
    hub,
    ...run
  } = options;
  const names = Object.keys(options.experts);
  if (names.length === 0) throw RecipeError.at({ field: "experts" }, "an analysis needs at least one expert");
  requireDistinct(names);
  requireThresholdsOf(names, thresholds);

  const builder = new OperandBuilder(folder, hub);
  await builder.open(base, "base", { isBase: true });
  const located: [name: string, source: SourceRecipe][] = [];
  for (const name of names) {
    const { source, notes } = await resolveSource(options.experts[name] as SourceRecipe, folder);
    for (const note of notes) builder.note(note);
    located.push([name, source]);
  }
  for (const [name, source] of located) await builder.open(source, name);
  await builder.requireCompatible(vocabulary, "compared");
  const { unrelated } = await compareWeights(builder.sources, (label) => builder.isBase(label));
  const root = builder.operand(base, "base");
  const experts = located.map(([name, source]) => builder.operand(source, name));
  const measured = await measureAll([...builder.measurements.values()], builder.sources, run);

  const all = [...root.tensors].map(
    ([tensor, { shape, layer, part, value }]): TensorToAnalyze => ({
      tensor,
      shape,
      layer,
      part,
      base: value as Leaf, // the base is a checkpoint, so its values are leaves
      experts: experts.map((expert) => expert.tensors.get(tensor)?.value ?? value),
    }),
  );
  const isUsable = (tensor: TensorToAnalyze) =>
    isAnalyzable(tensor, [tensor.base, ...tensor.experts.flatMap(leavesOf)], builder.sources);
  const deltas = await analyzeTensors(all.filter(isUsable), builder.sources, measured, rowAxis, run);
  await requireUnchanged(builder.sources.values(), "the analysis would mix old and new. Run it again.");
  for (const [i, [name, source]] of located.entries()) {
    const [model, root] = [builder.sources.get(name), builder.sources.get("base")];
    if (typeof source !== "string" || !model || !root || vocabulary !== undefined) continue;
    await keepSketch(model, root, Object.fromEntries(deltas.map((one) => [one.tensor, one.experts[i]?.blocks ?? []])));
  }
  const resolved = resolveThresholds(thresholds, deltas, names);
  const counted = deltas.map((delta): CountedTensor => {
    const counts = delta.experts.map(({ rows }, expert) =>
      countRows(
        rows,
        resolved.map(({ values }) => values[expert] ?? 0),
      ),
    );
    const overlaps = pairsOf(names.length).map(([i, j]) =>
      countOverlap(
        [delta.experts[i]?.rows ?? new Float32Array(), delta.experts[j]?.rows ?? new Float32Array()],
        resolved.map(({ values }) => [values[i] ?? 0, values[j] ?? 0] as const),
      ),
    );
    return { ...delta, counts, overlaps };
  });
  const grouped = (of: readonly CountedTensor[], key: (delta: TensorDelta) => string) => {
    return [...groupBy(of, key).values()].map((group) => ({
      layer: group[0]?.layer ?? null,
      part: group[0]?.part ?? "other",
      ...figures(group, names),
    }));
  };

  // A vector is a single row and would count as much as each of a matrix's thousands of rows.
  const keyOf = ({ layer, part }: TensorDelta) => `${layer} ${part}`;
  const withMatrices = new Set(counted.filter((one) => isMatrix(one.tensor, one)).map(keyOf));
  const ofParts = counted.filter((one) =>
    withMatrices.has(keyOf(one)) ? isMatrix(one.tensor, one) : !one.tensor.endsWith(".bias"),
  );
  const rows = new Map(
    deltas.flatMap(({ tensor, experts }) =>
      names.map((name, i) => [`${name}/${tensor}`, experts[i]?.rows ?? new Float32Array()] as const),
    ),
  );
  const tensors = counted.map((delta): TensorAnalysis => {
    const { tensor, shape, layer, part } = delta;
    return { tensor, shape, layer, part, ...figures([delta], names) };
  });
  const maps = { layers: root.layers, experts: names, thresholds: resolved, tensors };
  const analysis: Analysis = {
    format: 1,
    base: root.lead.checkpoint.name,
    architecture: root.lead.checkpoint.architecture,
    rowAxis,
    ...maps,
    paper: paperLikeness(maps, rows),
    training: trainingSigns(tensors, names),
    parts: grouped(ofParts, keyOf).sort(
      (a, b) => (a.layer ?? root.layers) - (b.layer ?? root.layers) || compareParts(a.part, b.part),
    ),
    byLayer: grouped(counted, ({ layer }) => `${layer}`)
      .map(({ part: _, ...rest }) => rest)
      .sort((a, b) => (a.layer ?? root.layers) - (b.layer ?? root.layers)),
    matrices: figures(counted.filter(isCounted), names),
    total: figures(counted, names),
    skipped: all.filter((tensor) => !isUsable(tensor)).map(({ tensor }) => tensor),
    warnings: [...unrelated, ...uncounted(counted, root.lead.checkpoint), ...warningsOf(deltas, names)],
  };
  return { analysis, rows };
}

/** Expert names share a namespace with `base` and with sources inside recipes, such as `soup.models[0]`. */
function requireDistinct(names: readonly string[]): void {
  const problems = names.flatMap((name) => {
    if (name === "base" || name === "") return [`${JSON.stringify(name)} is not a name for an expert`];
    const other = names.find((prefix) => name.startsWith(`${prefix}.`));
    return other === undefined ? [] : [`${name} could also name a source within ${other}; rename one of them`];
  });
  if (problems.length > 0) throw new RecipeError("Rename these experts:", problems, { field: "experts" });
}

/** Before weights are read, which may take an hour. */
function requireThresholdsOf(names: readonly string[], specs: readonly ThresholdSpec[]): void {
  const named = specs.flatMap(({ value }) => (typeof value === "object" ? Object.keys(value) : []));
  const unknown = named.find((name) => !names.includes(name));
  const twice = named.find((name, i) => named.indexOf(name) !== i);
  const wrong = unknown ?? twice;
  if (wrong === undefined) return;
  const message =
    unknown === undefined
      ? `threshold: ${wrong} has several; give one for each expert`
      : `threshold: there is no expert ${JSON.stringify(unknown)}; there are ${names.join(", ")}`;
  throw RecipeError.at({ field: "threshold", actual: wrong }, message);
}

function resolveThresholds(
  specs: readonly ThresholdSpec[],
  deltas: readonly TensorDelta[],
  names: readonly string[],
): Analysis["thresholds"] {
  const rowsOf = (expert: number) =>
    deltas.filter(isCounted).map((delta) => delta.experts[expert]?.rows ?? new Float32Array());
  const all = [...names.keys()];
  const ofExperts = specs.filter(({ value }) => typeof value === "object");
  const own = new Map(ofExperts.flatMap(({ value }) => Object.entries(value)));
  const joined = { name: ofExperts.map(({ name }) => name).join(", "), value: Object.fromEntries(own) };
  const one = specs.flatMap((spec) => (spec === ofExperts[0] ? [joined] : ofExperts.includes(spec) ? [] : [spec]));
  return one.map(({ name, value }) => {
    if (typeof value === "object") {
      return { name, values: all.map((expert) => value[names[expert] ?? ""] ?? autoThreshold(rowsOf(expert))) };
    }
    if (value === "auto") return { name, values: all.map((expert) => autoThreshold(rowsOf(expert))) };
    const common = value === "common" ? autoThreshold(all.flatMap(rowsOf)) : value;
    return { name, values: all.map(() => common) };
  });
}

/** A tensor with its row counts, computed once for all groups that include it. */
interface CountedTensor extends TensorDelta {
  readonly counts: readonly ReturnType<typeof countRows>[];
  /** In the order of `pairsOf`. */
  readonly overlaps: readonly RowOverlap[];
}

function figures(deltas: readonly CountedTensor[], names: readonly string[]): Figures {
  const elements = deltas.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  return {
    experts: names.map((name, expert) => ({ name, ...deltaFigures(deltas, expert, elements) })),
    pairs: pairsOf(names.length).map(([i, j], pair): PairFigures => {
      const norm = (expert: number) => Math.hypot(...deltas.map((delta) => delta.experts[expert]?.norm ?? 0));
      const size = norm(i) * norm(j);
      const dot = deltas.reduce((sum, delta) => sum + (delta.pairs[pair]?.dot ?? 0), 0);
      const conflicts = deltas.reduce(
        (sum, { pairs, shape }) => sum + (pairs[pair]?.conflictShare ?? 0) * elementCount(shape),
        0,
      );
      const overlap = jaccard(deltas.map(({ overlaps }) => overlaps[pair] as RowOverlap));
      return { cosine: size > 0 ? dot / size : null, conflictShare: conflicts / elements, overlap };
    }),
  };
}

function deltaFigures(deltas: readonly CountedTensor[], expert: number, elements: number): DeltaFigures {
  const own = deltas.map((delta) => delta.experts[expert] as ExpertDelta);
  const above: number[] = [];
  let [rows, finite, sum, equal] = [0, 0, 0, 0];
  own.forEach((delta, i) => {
    const counts = deltas[i]?.counts[expert] ?? { finite: 0, above: [] };
    rows += delta.rows.length;
    finite += counts.finite;
    sum += counts.finite > 0 ? delta.mean * counts.finite : 0;
    equal += delta.exactZeroShare * elementCount(deltas[i]?.shape ?? []);
    counts.above.forEach((count, t) => {
      above[t] = (above[t] ?? 0) + count;
    });
  });
  const norm = Math.hypot(...own.map((delta) => delta.norm));
  const baseNorm = Math.hypot(...own.map((delta) => delta.baseNorm));
  return {
    rows,
    mean: finite > 0 ? sum / finite : Number.NaN,
    maximum: own.reduce((most, delta) => Math.max(most, delta.maximum), 0),
    largest: own.reduce((most, delta) => Math.max(most, delta.largest), 0),
    exactZeroShare: elements > 0 ? equal / elements : 0,
    norm,
    relativeNorm: baseNorm > 0 ? norm / baseNorm : null,
    nonFinite: own.reduce((count, delta) => count + delta.nonFinite, 0),
    shares: above.map((count) => (finite > 0 ? count / finite : 0)),
  };
}

/** Why the map is empty, where it is. */
function uncounted(tensors: readonly CountedTensor[], { name, withoutLayers }: Checkpoint): string[] {
  if (tensors.some(isCounted)) return [];
  const why = withoutLayers ?? "its layers have no matrices";
  return [`no row of ${name} is in the map, as ${why}; analysis.json has the figures of every tensor`];
}

function warningsOf(deltas: readonly TensorDelta[], names: readonly string[]): string[] {
  return names.flatMap((name, expert) => {
    const warnings: string[] = [];
    if (deltas.every((delta) => delta.experts[expert]?.largest === 0 && delta.experts[expert]?.nonFinite === 0)) {
      warnings.push(`${name} is identical to the base in every tensor`);
    }
    for (const { tensor, experts } of deltas) {
      const { nonFinite = 0, firstNonFinite = -1 } = experts[expert] ?? {};
      if (nonFinite === 0) continue;
      warnings.push(
        `${tensor} of ${name} has ${plural(nonFinite, "infinite or NaN change")}, the first at index ${firstNonFinite}; the rows with them are left out`,
      );
    }
    return warnings;
  });
}
