// Looks up mergekit parameters, from the model up to the top level, and translates them to recipe parameters. A filter
// matches part of a tensor name; the first match wins.
import type { Problem } from "../../kit/settings/index.js";
import type { Range, Wanted } from "../methods/mergekit.js";
import type { Parameter } from "../methods/parameter.js";
import type { Parameters, Path, Setting, Spread } from "./mergekit-schema.js";

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

interface Rule {
  readonly filter?: string;
  readonly value: Spread;
  readonly path: Path;
}

/** The rules of a parameter in the order in which mergekit tries them; `isComplete` if one applies to all tensors. */
function rulesOf(name: string, levels: readonly Level[]): { rules: Rule[]; isComplete: boolean } {
  const rules: Rule[] = [];
  for (const { parameters, path } of levels) {
    const setting = parameters?.[name];
    if (setting === undefined) continue;
    for (const { filter, ...rule } of asRules(setting, [...path, "parameters", name])) {
      const isForAll = filter === undefined || filter === "" || filter === "*";
      rules.push(isForAll ? rule : { filter, ...rule });
      if (isForAll) return { rules, isComplete: true };
    }
  }
  return { rules, isComplete: false };
}

function asRules(setting: Setting, path: Path): Rule[] {
  if (!Array.isArray(setting)) return [{ value: setting, path }];
  return isSpread(setting)
    ? [{ value: setting, path }]
    : setting.map(({ filter, value }, i) => ({ ...(filter == null ? {} : { filter }), value, path: [...path, i] }));
}

function isSpread(setting: Exclude<Setting, number>): setting is number[] {
  return typeof setting[0] === "number";
}

/** The parameter for a recipe; undefined, with a problem, if a required value is missing. */
export function parameterOf(
  { name, fallback, range }: Wanted,
  levels: readonly Level[],
  span: LayerSpan,
  problem: (problem: Problem) => void,
): Parameter | undefined {
  const { rules, isComplete } = rulesOf(name, levels);
  const written = rules.map(({ filter, value, path }) => {
    const problemHere = (message: string) => problem({ path, message });
    if (filter !== undefined) checkFilter(filter, span.shift, problemHere);
    const spread = spreadOf(bounded(value, name, range, problemHere), span.layers);
    return { ...(filter === undefined ? {} : { tensors: `*${filter}*` }), value: spread };
  });
  if (!isComplete) {
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
  const { low, high, clamps = false } = range;
  const isInside = (x: number) => x >= low && (clamps || x <= high);
  if (![value].flat().every(isInside))
    problem(`${name} must be ${clamps ? `${low} or more` : `from ${low} to ${high}`}`);
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

function checkFilter(filter: string, shift: number, problem: (message: string) => void): void {
  if (filter.includes("*")) {
    problem(
      `the filter ${JSON.stringify(filter)} matches nothing: a filter is part of a tensor name, without asterisks`,
    );
  } else if (shift !== 0 && LAYER_NUMBER.test(filter)) {
    problem(
      `the filter ${JSON.stringify(filter)} names a layer by number, which is not supported in slices that renumber layers; use a gradient`,
    );
  }
}

/** Whether any value of a parameter is a gradient, which depends on the bounds of its slice. */
export function hasGradient(name: string, levels: readonly Level[]): boolean {
  return rulesOf(name, levels).rules.some(({ value }) => Array.isArray(value) && value.length > 1);
}
