// The board: whose each layer is, as a table that a person changes by hand, and as the recipe that says the same.

import { formatRanges } from "../../kit/printing/format.js";
import { LAYER_COUNTS, type LayerOwner, layerRanges, ownerOfLayer } from "../../merge/layer-owner.js";
import { OUTPUT_FIELDS } from "../../merge/recipe/output-fields.js";

/** Halves of a layer, and the whole of it where they are alike; norms go with the half that they serve. */
export const HALVES = ["attention", "mlp"] as const;
export type Half = (typeof HALVES)[number];

/** Sources of a cell, sorted: one is copied, several are averaged. Never empty. */
export type Owners = readonly string[];

/** A row of the board, from the input. */
export type LayerOwners = Readonly<Record<Half, Owners>>;

export interface Board {
  readonly rows: readonly LayerOwners[];
  /** Embeddings, final norm and head. */
  readonly outside: Owners;
}

/** A recipe as YAML holds it. */
export type RecipeValue = Readonly<Record<string, unknown>>;

const same = (a: Owners, b: Owners) => a.length === b.length && a.every((one, i) => one === b[i]);
/** Whether both halves of a row are alike. */
export const isWhole = ({ attention, mlp }: LayerOwners) => same(attention, mlp);

/** All from one model. */
export function boardOfOne(source: string, layers: number): Board {
  const owners = [source];
  return { rows: Array.from({ length: layers }, () => ({ attention: owners, mlp: owners })), outside: owners };
}

/** Gives cells to a model. @param adds whether it joins those that have them, for an average; or leaves it, if it is one */
export function assign(
  board: Board,
  cells: { readonly from: number; readonly to: number; readonly halves: readonly Half[] } | "outside",
  source: string,
  adds: boolean,
): Board {
  const change = (owners: Owners): Owners => {
    if (!adds) return [source];
    const rest = owners.filter((one) => one !== source);
    if (rest.length < owners.length) return rest.length > 0 ? rest : owners;
    return [...owners, source].sort();
  };
  if (cells === "outside") return { ...board, outside: change(board.outside) };
  const [low, high] = [Math.min(cells.from, cells.to), Math.max(cells.from, cells.to)];
  const rows = board.rows.map((row, layer) => {
    if (layer < low || layer > high) return row;
    const [attention, mlp] = HALVES.map((half) => (cells.halves.includes(half) ? change(row[half]) : row[half]));
    return { attention: attention ?? row.attention, mlp: mlp ?? row.mlp };
  });
  return { ...board, rows };
}

/** Sources of a board, the most used first. */
function usedIn(board: Board): string[] {
  const counts = new Map<string, number>();
  const cells = [...board.rows.flatMap((row) => HALVES.map((half) => row[half])), board.outside];
  for (const owner of cells.flat()) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a).map(([source]) => source);
}

/** `0-2,5` of layers in order, as recipes have them. */
export const rangesOf = (layers: readonly number[]): string => formatRanges(layers).replaceAll(" ", "");

/** `Layers 0-1, 6-7: swahili. Layers 2-5: math. Embeddings, last norm and output head: the average of math and swahili.` */
export function describeBoard({ rows, outside }: Board, nameOf: (source: string) => string): string {
  const ofOwners = (owners: Owners) =>
    owners.length > 1 ? `the average of ${owners.map(nameOf).join(" and ")}` : nameOf(owners[0] ?? "");
  const places = new Map<string, number[]>();
  for (const [layer, row] of rows.entries()) {
    for (const half of isWhole(row) ? HALVES.slice(0, 1) : HALVES) {
      const what = isWhole(row) ? "Layers" : half === "mlp" ? "MLP of layers" : "Attention of layers";
      const key = `${what}\n${ofOwners(row[half])}`;
      places.set(key, [...(places.get(key) ?? []), layer]);
    }
  }
  const sentences = [...places].map(([key, layers]) => {
    const [what, owner] = key.split("\n");
    return `${what} ${formatRanges(layers)}: ${owner}.`;
  });
  return [...sentences, `Embeddings, last norm and output head: ${ofOwners(outside)}.`].join(" ");
}

/** `layers 2-3, 5, outside the layers`; empty where two boards are alike. */
export function differenceOf(a: Board, b: Board): string {
  const layers = [...a.rows.keys()].filter((layer) => {
    const [one, other] = [a.rows[layer], b.rows[layer]];
    return !one || !other || !HALVES.every((half) => same(one[half], other[half]));
  });
  return [
    ...(layers.length > 0 ? [`${layers.length > 1 ? "layers" : "layer"} ${formatRanges(layers)}`] : []),
    ...(same(a.outside, b.outside) ? [] : ["outside the layers"]),
  ].join(", ");
}

/** How two boards differ, in a sentence; empty where one of them is not known. */
export function differenceInWords(a: Board | undefined, b: Board | undefined): string {
  if (!a || !b) return "";
  const differing = differenceOf(a, b);
  return differing === "" ? "Both have the same layers." : `They differ in ${differing}.`;
}

/** Layers of `0-2,5`, of a list, or of `all`; undefined for something else. */
export function layersOf(value: unknown, count: number): readonly number[] | undefined {
  const all = Array.from({ length: count }, (_, layer) => layer);
  return layerRanges(value, count)?.flatMap(([first, last]) => all.slice(first, last + 1));
}

/**
 * The recipe of a board: a layer swap where two models suffice and layers are whole, otherwise a soup whose weights differ by
 * layer and half. Its fields stand in the order in which people write them.
 */
export function recipeOfBoard(board: Board): RecipeValue {
  const used = usedIn(board);
  const [only] = used;
  if (used.length === 1 && only !== undefined) return { method: "passthrough", slices: [{ model: only }] };
  return swapOf(board, used) ?? soupOf(board, used);
}

function swapOf(board: Board, used: readonly string[]): RecipeValue | undefined {
  if (used.length !== 2 || !board.rows.every(isWhole)) return undefined;
  const [first, last] = [board.rows[0]?.mlp, board.rows.at(-1)?.mlp];
  const single = (owners: Owners | undefined) => (owners?.length === 1 ? owners[0] : undefined);
  // The language expert has the ends of the tower, or at least fewer layers.
  const language = single(first) ?? single(last) ?? used[1];
  const task = used.find((source) => source !== language);
  if (language === undefined || task === undefined) return undefined;
  const kinds = board.rows.map(({ mlp }) => (mlp.length > 1 ? "average" : mlp[0] === language ? "language" : "task"));
  const outside = board.outside.length > 1 ? "average" : board.outside[0] === language ? "language" : "task";
  const rest = outside === "average" ? {} : { outside };
  const runs: { kind: string; length: number }[] = [];
  for (const kind of kinds) {
    const run = runs.at(-1);
    if (run?.kind === kind) run.length++;
    else runs.push({ kind, length: 1 });
  }
  const shape = runs.map(({ kind }) => kind[0]).join("");
  const length = (at: number) => runs[at]?.length ?? 0;
  const found = /^(l?)(a?)t(a?)(l?)$/.exec(shape);
  if (found) {
    const [, bottom = "", low = "", high = "", top = ""] = found;
    const at = (sign: string, index: number) => (sign === "" ? 0 : length(index));
    const middle = bottom.length + low.length;
    const counts = {
      bottom: at(bottom, 0),
      top: at(top, runs.length - 1),
      ...(low ? { bottom_transition: at(low, bottom.length) } : {}),
      ...(high ? { top_transition: at(high, middle + 1) } : {}),
    };
    return { method: "swap", task, language, ...counts, ...rest };
  }
  const of = (kind: string) => kinds.flatMap((one, layer) => (one === kind ? [layer] : []));
  const layers = {
    ...(of("language").length > 0 ? { language: rangesOf(of("language")) } : {}),
    ...(of("average").length > 0 ? { average: rangesOf(of("average")) } : {}),
  };
  return { method: "swap", task, language, layers, ...rest };
}

interface LayerRule {
  readonly layers?: string;
  readonly parts?: readonly string[];
  readonly value: number;
}

function soupOf(board: Board, used: readonly string[]): RecipeValue {
  const models = used.map((model) => {
    const has = (owners: Owners) => owners.includes(model);
    const where = (test: (row: LayerOwners) => boolean) =>
      board.rows.flatMap((row, layer) => (test(row) ? [layer] : []));
    const whole = where(({ attention, mlp }) => has(attention) && has(mlp));
    const rules: LayerRule[] = whole.length > 0 ? [{ layers: rangesOf(whole), value: 1 }] : [];
    for (const half of HALVES) {
      const other = half === "attention" ? "mlp" : "attention";
      const layers = where((row) => has(row[half]) && !has(row[other]));
      if (layers.length > 0) rules.push({ layers: rangesOf(layers), parts: [half], value: 1 });
    }
    if (has(board.outside)) rules.push({ parts: ["outside"], value: 1 });
    // A rule after those that match everything would be refused.
    if (whole.length === board.rows.length && has(board.outside)) return model;
    return { model, weight: [...rules, { value: 0 }] };
  });
  return { method: "soup", models };
}

/**
 * The board of a recipe that the board can say; undefined for others.
 * @param defaults numbers of layers of a swap that has none, which depend on the depth
 */
export function boardOfRecipe(
  recipe: RecipeValue,
  layers: number,
  defaults?: { readonly bottom: number; readonly top: number },
): Board | undefined {
  if (recipe.method === "swap") {
    return boardOfSwap(recipe.layers === undefined ? { ...defaults, ...recipe } : recipe, layers);
  }
  if (recipe.method === "soup") return boardOfSoup(recipe, layers);
  if (recipe.method !== "passthrough" || !Array.isArray(recipe.slices) || recipe.slices.length !== 1) return undefined;
  const { model, ...more } = Object(recipe.slices[0]) as Record<string, unknown>;
  return typeof model === "string" && Object.keys(more).length === 0 ? boardOfOne(model, layers) : undefined;
}

/** Fields of a swap that say how averages are weighted, not of what. */
export const SWAP_WEIGHTS = ["weights", "base"];
const hasOnly = (recipe: RecipeValue, fields: readonly string[]) =>
  Object.keys(recipe).every((key) => fields.includes(key) || OUTPUT_FIELDS.includes(key));

function boardOfSwap(recipe: RecipeValue, count: number): Board | undefined {
  const { task, language, layers, outside = "average", parts = "all" } = recipe;
  const known = ["method", "task", "language", ...LAYER_COUNTS];
  if (!hasOnly(recipe, [...known, "layers", "outside", "parts", ...SWAP_WEIGHTS]) || parts !== "all") return undefined;
  if (typeof task !== "string" || typeof language !== "string") return undefined;
  const owners = { task: [task], language: [language], average: [task, language].sort() };
  if (typeof outside !== "string" || !Object.hasOwn(owners, outside)) return undefined;
  const kinds = layers === undefined ? kindsByCount(recipe, count) : kindsByList(layers, count);
  if (!kinds) return undefined;
  return {
    rows: kinds.map((kind) => ({ attention: owners[kind], mlp: owners[kind] })),
    outside: owners[outside as keyof typeof owners],
  };
}

function kindsByCount(recipe: RecipeValue, count: number): LayerOwner[] | undefined {
  const { bottom, top, bottom_transition = 0, top_transition = 0 } = recipe;
  const all = [bottom, top, bottom_transition, top_transition].map(Number);
  if (!all.every((one) => Number.isInteger(one) && one >= 0) || all.reduce((a, b) => a + b) > count) return undefined;
  const [b = 0, t = 0, low = 0, high = 0] = all;
  const counts = { bottom: b, top: t, bottom_transition: low, top_transition: high };
  return Array.from({ length: count }, (_, layer) => ownerOfLayer(layer, count, counts));
}

function kindsByList(layers: unknown, count: number): LayerOwner[] | undefined {
  const { language, average, ...more } = Object(layers) as Record<string, unknown>;
  const sets = [language, average].map((value) => (value === undefined ? [] : layersOf(value, count)));
  const [ofLanguage, averaged] = sets;
  if (!ofLanguage || !averaged || Object.keys(more).length > 0) return undefined;
  return Array.from({ length: count }, (_, layer) =>
    ofLanguage.includes(layer) ? "language" : averaged.includes(layer) ? "average" : "task",
  );
}

function boardOfSoup(recipe: RecipeValue, count: number): Board | undefined {
  const { weights = "equal", normalize = true } = recipe;
  if (weights !== "equal" || normalize !== true || recipe.base !== undefined) return undefined;
  if (!hasOnly(recipe, ["method", "models", "weights", "normalize"]) || !Array.isArray(recipe.models)) return undefined;
  const cells = { attention: blank(count), mlp: blank(count), outside: [] as string[] };
  for (const entry of recipe.models as unknown[]) {
    const {
      model,
      weight = 1,
      ...more
    } = typeof entry === "string"
      ? ({ model: entry } as Record<string, unknown>)
      : (Object(entry) as Record<string, unknown>);
    if (typeof model !== "string" || Object.keys(more).length > 0) return undefined;
    const rules = Array.isArray(weight) ? weight : [{ value: weight }];
    const valueAt = (layer: number | null, half: Half | "outside"): number | undefined => {
      for (const rule of rules) {
        const { layers, parts, value, ...unknown } = Object(rule) as Record<string, unknown>;
        if (Object.keys(unknown).length > 0 || (value !== 0 && value !== 1)) return undefined;
        const within = layers === undefined ? undefined : layersOf(layers, count);
        if (layers !== undefined && !within) return undefined;
        if (within && (layer === null || !within.includes(layer))) continue;
        if (parts !== undefined && ![parts].flat().includes(half)) continue;
        return value;
      }
      return 0;
    };
    for (const half of HALVES) {
      for (let layer = 0; layer < count; layer++) {
        const value = valueAt(layer, half);
        if (value === undefined) return undefined;
        if (value === 1) cells[half][layer]?.push(model);
      }
    }
    if (valueAt(null, "outside") === 1) cells.outside.push(model);
  }
  const rows = Array.from({ length: count }, (_, layer) => ({
    attention: cells.attention[layer] ?? [],
    mlp: cells.mlp[layer] ?? [],
  }));
  for (const owners of [...cells.attention, ...cells.mlp, cells.outside]) owners.sort();
  const isFull = cells.outside.length > 0 && rows.every((row) => HALVES.every((half) => row[half].length > 0));
  return isFull ? { rows, outside: cells.outside } : undefined;
}

const blank = (count: number): string[][] => Array.from({ length: count }, () => []);
