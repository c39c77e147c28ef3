import { blockOf } from "../../formats/checkpoint/index.js";
import { groupBy, RecipeError } from "../../kit/index.js";
import { formatRanges } from "../../kit/printing/index.js";
import { pairsOf } from "../../tensor/streaming/index.js";
import { ownerOfLayer, PAPER_DEPTH, presetLayers, profileLayers, type SwapLayers } from "../layer-owner.js";
import { weightsByShare } from "../methods/share-swap.js";
import type { RecipeInput } from "../recipe/recipe.js";
import type { Analysis } from "./analysis.js";

/** A configuration to try. */
export interface Suggestion {
  /** Short and unique, such as `paper-default`. */
  readonly name: string;
  /** The name in words. */
  readonly title: string;
  /** What it rests on: what others published, where these experts changed, or how they represent texts. */
  readonly evidence: "published" | "changes" | "texts";
  /** Why to try it. */
  readonly reason: string;
  /** Paper or model that used it first. */
  readonly reference: string;
  /** Source of each layer, in words. */
  readonly layers: string;
  readonly owners: LayerOwners;
  readonly recipe: RecipeInput;
}

/** Sources of each layer, from the input, and of the tensors outside the layers; several are averaged. */
export interface LayerOwners {
  readonly rows: readonly { readonly attention: readonly string[]; readonly mlp: readonly string[] }[];
  readonly outside: readonly string[];
}

export interface SuggestOptions {
  /** An analysis that includes both experts. */
  readonly analysis: Analysis;
  /** Names of the experts in the analysis; `task` and `language` by default. */
  readonly names?: { readonly task: string; readonly language: string };
  /** Sources for the recipes. */
  readonly sources: { readonly base: string; readonly task: string; readonly language: string };
  /** What the reasons call the experts. Default: the task expert, the language expert. */
  readonly called?: Called | undefined;
  /** Difference of shares from which one expert owns a layer or module. Default: 0.001. */
  readonly tau?: number | undefined;
  /** The task expert's weight where shares are about equal. Default: 0.5. */
  readonly alpha?: number | undefined;
  /** If vocabularies differ, the one to align rows to: `task`, `language`, `base` or `union`. Default: none. */
  readonly vocabulary?: string | undefined;
}

interface Called {
  readonly task: string;
  readonly language: string;
}
const EXPERTS: Called = { task: "the task expert", language: "the language expert" };

type Owner = "task" | "language" | "average";

/** A suggestion before its owners have sources and words. */
interface Draft extends Omit<Suggestion, "layers" | "owners"> {
  /** Of each layer; of halves where they differ. */
  readonly attention: readonly Owner[];
  readonly mlp?: readonly Owner[];
  readonly outside?: Owner;
}

const SWAP = "Bandarkar et al., arXiv 2410.01335";
const SHARES = "Shin & Hwang, arXiv 2601.22620";

/**
 * Suggests configurations; those that do not depend on the analysis come first.
 * @throws RecipeError if an expert is not in the analysis
 */
export function suggestRecipes(options: SuggestOptions): Suggestion[] {
  const { analysis } = options;
  const names = options.names ?? { task: "task", language: "language" };
  const experts = [names.task, names.language].map((name) => analysis.experts.indexOf(name));
  const missing = [names.task, names.language].find((_, i) => experts[i] === -1);
  if (missing !== undefined) {
    throw RecipeError.at(
      { field: "names" },
      `${missing} is not in the analysis; it has ${analysis.experts.join(", ")}`,
    );
  }
  const [task = 0, language = 1] = experts;
  return [
    ...paperRange(analysis.layers, options),
    ...byShares(analysis, task, language, options),
    ...byProfile(analysis, task, language, options),
    ...byAlignment(analysis, task, language, options),
    ...otherSwaps(analysis.layers, options),
  ]
    .filter(isFirstOfItsKind)
    .map((one) => finish(one, options));
}

function finish(draft: Draft, { sources, vocabulary }: SuggestOptions): Suggestion {
  const { attention, mlp = attention, outside = "average", ...one } = draft;
  const sourcesOf = (owner: Owner | undefined) =>
    owner === "task" || owner === "language" ? [sources[owner]] : [sources.task, sources.language].sort();
  const owners =
    mlp === attention
      ? [describeOwners(mlp)]
      : [`attention: ${describeOwners(attention)}`, `mlp: ${describeOwners(mlp)}`];
  return {
    ...one,
    layers: `${owners.join(" | ")}; ${outside === "average" ? "averaged" : outside} outside the layers`,
    owners: {
      rows: attention.map((owner, layer) => ({ attention: sourcesOf(owner), mlp: sourcesOf(mlp[layer]) })),
      outside: sourcesOf(outside),
    },
    recipe: vocabulary === undefined ? one.recipe : { ...one.recipe, vocabulary },
  };
}

/** At a small depth several configurations may be the same; only the first is kept. */
function isFirstOfItsKind({ recipe }: Draft, index: number, all: readonly Draft[]): boolean {
  const same = JSON.stringify(recipe);
  return all.findIndex((other) => JSON.stringify(other.recipe) === same) === index;
}

/** Configurations the paper found effective at 32 layers, scaled to the depth. */
function paperRange(depth: number, { sources }: SuggestOptions): Draft[] {
  const scaled = (count: number) => Math.round((count * depth) / PAPER_DEPTH);
  const swap = (name: string, title: string, counts: SwapLayers, reason: string, weights?: "magnitude"): Draft[] => {
    if (Object.values(counts).reduce((sum, count) => sum + count, 0) >= depth) return [];
    const { task, language, base } = sources;
    const recipe = { method: "swap" as const, task, language, ...counts };
    return [
      {
        name,
        title,
        evidence: "published",
        reason,
        reference: SWAP,
        attention: Array.from({ length: depth }, (_, layer) => ownerOfLayer(layer, depth, counts)),
        recipe: weights ? { ...recipe, base, weights } : recipe,
      },
    ];
  };
  const standard = presetLayers(depth);
  const grid = [5, 4, 3].flatMap((bottom) => [2, 1, 0].map((top) => [bottom, top] as const));
  const at = depth === PAPER_DEPTH ? "" : ` of ${PAPER_DEPTH} layers, in proportion`;
  return [
    ...swap("paper-default", "The paper's default", standard, `the paper's default: bottom 5, top 2${at}`),
    ...swap(
      "paper-magnitude",
      "The paper's default, averages weighted by magnitude",
      standard,
      `the paper's default with averages, of tensors outside the layers, weighted by the inverse magnitude of the change`,
      "magnitude",
    ),
    ...swap(
      "paper-smallest",
      "The paper's smallest swap",
      presetLayers(depth, "paper-smallest"),
      `the smallest configuration that worked: bottom 3${at}`,
    ),
    ...swap(
      "paper-largest",
      "The paper's largest swap",
      presetLayers(depth, "paper-largest"),
      `the largest configuration that worked: bottom 5, top 2, transitions 2${at}`,
    ),
    ...grid.flatMap(([bottom, top]) =>
      swap(
        `paper-${bottom}-${top}`,
        `The paper's swap of bottom ${bottom} and top ${top}`,
        { ...standard, bottom: Math.max(1, scaled(bottom)), top: scaled(top) },
        `in the paper's effective range: bottom ${bottom}, top ${top}${at}`,
      ),
    ),
  ];
}

/** `language 0-4, 30-31; task 5-29` */
function describeOwners(owners: readonly string[]): string {
  const byOwner = groupBy([...owners.keys()], (layer) => owners[layer] ?? "");
  return ["language", "average", "task"]
    .flatMap((owner) => {
      const layers = byOwner.get(owner);
      return layers ? [`${owner === "average" ? "averaged" : owner} ${formatRanges(layers)}`] : [];
    })
    .join("; ");
}

/** How far an expert moved each group of matrices and norms of the layers, relative to the base. */
function relativeChanges(
  analysis: Analysis,
  experts: readonly number[],
  groupOf: (tensor: Analysis["tensors"][number]) => string,
  sum: "sum" | "root",
): Map<string, number[]> {
  const inLayers = analysis.tensors
    .filter(({ layer }) => layer !== null)
    .sort((a, b) => (a.layer ?? 0) - (b.layer ?? 0));
  const groups = groupBy(inLayers, groupOf);
  return new Map(
    [...groups].map(([name, tensors]) => [
      name,
      experts.map((expert) => {
        const ratios = tensors.map((tensor) => tensor.experts[expert]?.relativeNorm ?? 0);
        return sum === "sum" ? ratios.reduce((total, ratio) => total + ratio, 0) : Math.hypot(...ratios);
      }),
    ]),
  );
}

function byShares(analysis: Analysis, task: number, language: number, options: SuggestOptions): Draft[] {
  const { sources, tau = 0.001, alpha = 0.5, called = EXPERTS } = options;
  return (["layer", "module"] as const).map((by) => {
    const changes = relativeChanges(
      analysis,
      [task, language],
      ({ layer, part }) => (by === "layer" ? `${layer}` : `${layer} ${blockOf(part)}`),
      by === "layer" ? "sum" : "root",
    );
    const weights = weightsByShare([...changes.values()], tau, alpha);
    const groups = [...changes.keys()];
    const owners = groups.map(
      (_, i): Owner => (weights[i * 2] === 1 ? "task" : weights[i * 2 + 1] === 1 ? "language" : "average"),
    );
    const count = (who: Owner) => owners.filter((owner) => owner === who).length;
    const ownersIn = (block: string) =>
      Array.from({ length: analysis.layers }, (_, layer) => owners[groups.indexOf(`${layer} ${block}`)] ?? "average");
    return {
      name: `shares-by-${by}`,
      title: `Each ${by} from whom it changed more in`,
      evidence: "changes",
      reference: SHARES,
      reason:
        `each ${by} from the expert whose share of the change exceeds the other's by ${tau}: ` +
        `${count("task")} from ${called.task}, ${count("language")} from ${called.language}, ${count("average")} blended`,
      ...(by === "layer" ? { attention: owners } : { attention: ownersIn("attention"), mlp: ownersIn("mlp") }),
      recipe: { method: "share_swap", ...sources, by, tau, alpha },
    };
  });
}

/** Layers in which the language expert's share of its change exceeds the task expert's. */
function byProfile(analysis: Analysis, task: number, language: number, options: SuggestOptions): Draft[] {
  const { sources, called = EXPERTS } = options;
  const changes = relativeChanges(analysis, [task, language], ({ layer }) => `${layer}`, "root");
  const [ofTask = [], ofLanguage = []] = [0, 1].map((expert) => [...changes.values()].map((one) => one[expert] ?? 0));
  const above = profileLayers(ofLanguage, ofTask);
  if (above.length === 0) return [];
  return [
    {
      name: "profile",
      title: `Layers in which ${called.language} changed more`,
      evidence: "changes",
      reference: "arXiv 2410.01335, section 3.2, read as a rule",
      reason: `the layers in which ${called.language}'s profile of change exceeds ${called.task}'s`,
      attention: Array.from({ length: analysis.layers }, (_, layer) => (above.includes(layer) ? "language" : "task")),
      recipe: {
        method: "swap",
        task: sources.task,
        language: sources.language,
        layers: { language: formatRanges(above).replaceAll(" ", "") },
      },
    },
  ];
}

/** The block of layers in which the experts are most alike: the largest sum of CKA above its mean. */
function byAlignment(analysis: Analysis, task: number, language: number, options: SuggestOptions): Draft[] {
  const { called = EXPERTS } = options;
  const { alignment, experts, layers: depth } = analysis;
  // The base is the first model of the pairs.
  const [i, j] = [Math.min(task, language) + 1, Math.max(task, language) + 1];
  const pair = pairsOf(experts.length + 1).findIndex(([a, b]) => a === i && b === j);
  const alike = (alignment?.pairs[pair] ?? []).map((value) => value ?? 0);
  const mean = alike.reduce((sum, value) => sum + value, 0) / alike.length;
  const best = { from: 0, until: 0, sum: 0 };
  for (let from = 0; from < alike.length; from++) {
    let sum = 0;
    for (let until = from + 1; until <= alike.length; until++) {
      sum += (alike[until - 1] as number) - mean;
      if (sum > best.sum) Object.assign(best, { from, until, sum });
    }
  }
  return middleOfTask("alignment", best, depth, options, {
    title: "Middle layers in which both represent texts alike",
    evidence: "texts",
    reason: `${called.language} with ${called.task}'s layers in the block in which both represent ${alignment?.texts} texts most alike (CKA)`,
    reference:
      "Kornblith et al., arXiv 1905.00414, as a measure; the block of a task expert is LightOn's, arXiv 2605.26735",
  });
}

/** The language expert with a block of layers of the task expert. */
function middleOfTask(
  name: string,
  { from, until }: { readonly from: number; readonly until: number },
  depth: number,
  { sources: { task, language } }: SuggestOptions,
  texts: Pick<Draft, "title" | "evidence" | "reason" | "reference">,
): Draft[] {
  const outer = Array.from({ length: depth }, (_, layer) => layer).filter((layer) => layer < from || layer >= until);
  if (outer.length === 0 || outer.length === depth) return [];
  const layers = { language: formatRanges(outer).replaceAll(" ", "") };
  return [
    {
      name,
      ...texts,
      attention: Array.from({ length: depth }, (_, layer) => (layer >= from && layer < until ? "task" : "language")),
      outside: "language",
      recipe: { method: "swap", task, language, outside: "language", layers },
    },
  ];
}

// Layers 13 to 22 of 36 in LightOn's swap.
const REVERSE = { from: 13, to: 22, depth: 36 };

function otherSwaps(depth: number, options: SuggestOptions): Draft[] {
  const { sources, called = EXPERTS } = options;
  const { task, language } = sources;
  const from = Math.round((REVERSE.from * depth) / REVERSE.depth);
  const until = Math.max(from + 1, Math.round(((REVERSE.to + 1) * depth) / REVERSE.depth));
  const reverse = middleOfTask("reverse", { from, until }, depth, options, {
    title: `The reverse: ${called.language} outside, ${called.task} in the middle`,
    evidence: "published",
    reason: `the reverse: ${called.language} with middle layers of ${called.task} (${REVERSE.from} to ${REVERSE.to} of ${REVERSE.depth}, in proportion)`,
    reference: "LightOn, arXiv 2605.26735",
  });
  const all = (owner: Owner) => Array.from({ length: depth }, () => owner);
  return [
    ...reverse,
    {
      name: "attention-from-language",
      title: `Attention from ${called.language}`,
      evidence: "published",
      reference: "Tran et al., ACL Findings 2026",
      reason: `attention of all layers from ${called.language}, feed-forward from ${called.task}`,
      attention: all("language"),
      mlp: all("task"),
      recipe: { method: "swap", task, language, layers: { language: "all" }, parts: "attention" },
    },
  ];
}
