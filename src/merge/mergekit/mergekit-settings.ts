// Looks up mergekit parameters, from the model up to the top level, and translates them to recipe parameters. A filter
// matches part of a tensor name; the first match wins.
import { formatSome } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import type { Range, Wanted } from "../methods/mergekit.js";
import type { Parameter } from "../methods/parameter.js";
import { type Parameters, type Path, SETTING, type Setting, type Spread, type Strictness } from "./mergekit-schema.js";

/** A place that may set parameters. */
export interface Level {
  readonly parameters: Parameters;
  readonly path: Path;
}

/** Layers that a parameter applies to. */
export interface LayerSpan {
  /** Number of layers; undefined if only the model files have it. */
  readonly layers: number | undefined;
  /** Offset of mergekit's layer numbers from the recipe's. */
  readonly shift: number;
}

/** What is reported while parameters are read. */
export interface Reports {
  readonly problem: (problem: Problem) => void;
  readonly strictness: Strictness;
  /** Names of the models' tensors, if they are known. */
  readonly tensors: readonly string[] | undefined;
}

interface FilterRule {
  readonly filter?: string;
  readonly value: Spread;
  readonly path: Path;
}

/** The rules of a parameter in the order in which mergekit tries them; `isComplete` if one applies to all tensors. */
function rulesOf(name: string, levels: readonly Level[]): { rules: FilterRule[]; isComplete: boolean } {
  const rules: FilterRule[] = [];
  for (const { parameters, path } of levels) {
    const setting = parameters?.[name];
    if (setting === undefined || setting === "words") continue;
    for (const { filter, ...rule } of asRules(setting, [...path, "parameters", name])) {
      const isForAll = filter === undefined || filter === "" || filter === "*";
      rules.push(isForAll ? rule : { filter, ...rule });
      if (isForAll) return { rules, isComplete: true };
    }
  }
  return { rules, isComplete: false };
}

function asRules(setting: Setting, path: Path): FilterRule[] {
  if (!Array.isArray(setting)) return [{ value: setting, path }];
  return isSpread(setting)
    ? [{ value: setting, path }]
    : setting.map(({ filter, value }, i) => ({ ...(filter == null ? {} : { filter }), value, path: [...path, i] }));
}

/** Keys of a setting's entries that mergekit does not read, with their paths. */
export function unreadKeys(setting: Setting | "words", path: Path): { path: Path; key: string }[] {
  if (!Array.isArray(setting) || isSpread(setting)) return [];
  return setting.flatMap((entry, i) =>
    Object.keys(entry)
      .filter((key) => key !== "filter" && key !== "value")
      .map((key) => ({ path: [...path, i, key], key })),
  );
}

function isSpread(setting: Exclude<Setting, number>): setting is number[] {
  return typeof setting[0] === "number";
}

/** The parameter for a recipe; undefined, with a problem, if a value is not a number or a required one is missing. */
export function parameterOf(
  { name, fallback, range }: Wanted,
  levels: readonly Level[],
  span: LayerSpan,
  { problem, strictness, tensors }: Reports,
): Parameter | undefined {
  const unread = levels.filter(({ parameters }) => parameters?.[name] === "words");
  for (const { path } of unread) problem({ path: [...path, "parameters", name], message: SETTING });
  if (unread.length > 0) return undefined;
  const { rules, isComplete } = rulesOf(name, levels);
  const left = new Set(tensors);
  const written = rules.flatMap(({ filter, value, path }) => {
    const problemHere = (message: string) => problem({ path, message });
    if (filter !== undefined) {
      const useless = uselessness(filter, tensors, left);
      if (useless !== undefined) {
        strictness.report(path, useless);
        return [];
      }
      checkFilter(filter, span.shift, problemHere);
    }
    const spread = spreadOf(bounded(value, name, range, problemHere), span.layers);
    return [{ ...(filter === undefined ? {} : { tensors: `*${filter}*` }), value: spread }];
  });
  const last = written.at(-1);
  if (!isComplete && fallback === undefined && last && tensors && left.size === 0) {
    // Its filter matches all that those before it leave.
    written.splice(-1, 1, { value: last.value });
  } else if (!isComplete) {
    if (fallback === undefined) {
      problem({
        path: rules.at(-1)?.path ?? levels[0]?.path ?? [],
        message:
          rules.length === 0
            ? `${name} is missing: this method needs it, here or in the top-level parameters`
            : `${name} is set for some tensors only; add { value: ... } without a filter for the others`,
      });
      return undefined;
    }
    written.push({ value: fallback });
  }
  const [first] = written;
  return first && !("tensors" in first) ? first.value : written;
}

function bounded(value: Spread, name: string, range: Range | undefined, problem: (message: string) => void): Spread {
  if (!range) return value;
  const { low, high, clamps = false, isWhole = false, least = 0 } = range;
  const isInside = (x: number) => x >= low && (clamps || x <= high);
  const isOf = (x: number) => isInside(x) && (!isWhole || Number.isInteger(x)) && (x === 0 || Math.abs(x) >= least);
  const wrong = [value].flat().find((x) => !isOf(x));
  if (wrong !== undefined) {
    const bounds =
      least > 0 ? `0, or of a size from ${least} to ${high}` : clamps ? `${low} or more` : `from ${low} to ${high}`;
    problem(`${name} must be ${isWhole ? "a whole number, " : ""}${bounds}, not ${wrong}`);
  }
  const inside = (x: number) => Math.min(x, high);
  return typeof value === "number" ? inside(value) : value.map(inside);
}

function spreadOf(value: Spread, layers: number | undefined) {
  if (typeof value === "number") return value;
  const [first = 0] = value;
  const last = value.at(-1) ?? first;
  if (value.length === 1) return first;
  // In mergekit a single layer gets the end of a gradient, tensors outside the layers its beginning.
  return layers === 1 ? { gradient: [last], outside: first } : { gradient: [...value] };
}

// A number between dots or at either end of a name.
const LAYER_NUMBER = /(^|\.)\d+(\.|$)/;

/** Why a filter never applies; undefined if it may. @param left tensors that no filter before it matches */
function uselessness(filter: string, tensors: readonly string[] | undefined, left: Set<string>): string | undefined {
  const named = `the filter ${JSON.stringify(filter)}`;
  if (filter.includes("*")) {
    return `${named} matches nothing: a filter is part of a tensor name, without asterisks`;
  }
  // A number is that of a layer of a slice, which may not be the model's.
  if (!tensors || LAYER_NUMBER.test(filter)) return undefined;
  const matched = tensors.filter((tensor) => tensor.includes(filter));
  if (matched.length === 0) {
    return `${named} matches no tensor of the models, which have such as ${formatSome(tensors.slice(-3))}`;
  }
  if (!matched.some((tensor) => left.has(tensor)))
    return `${named} never applies: those before it match all its tensors`;
  for (const tensor of matched) left.delete(tensor);
  return undefined;
}

function checkFilter(filter: string, shift: number, problem: (message: string) => void): void {
  if (shift !== 0 && LAYER_NUMBER.test(filter)) {
    problem(
      `the filter ${JSON.stringify(filter)} names a layer by number, which is not supported in slices that renumber layers; use a gradient`,
    );
  }
}

/** Whether any value of a parameter is a gradient, which depends on the bounds of its slice. */
export function hasGradient(name: string, levels: readonly Level[]): boolean {
  return rulesOf(name, levels).rules.some(({ value }) => Array.isArray(value) && value.length > 1);
}
