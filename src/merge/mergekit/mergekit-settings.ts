// What a parameter of mergekit comes to: looked up where mergekit looks, from the model to the whole configuration, and
// written as a parameter of a recipe. A filter is a part of a tensor's name, the first that fits holds.
import type { Problem } from "../../settings/index.js";
import type { Parameter } from "../methods/parameter.js";
import type { Parameters, Path, Setting, Spread } from "./mergekit-schema.js";

/** A place that may set parameters. */
export interface Level {
  readonly parameters: Parameters;
  readonly path: Path;
}

/** A parameter that a method asks for. */
export interface Wanted {
  readonly name: string;
  /** Where nothing is set; undefined if something must be. */
  readonly fallback?: number;
  /** What the number must be, where not every number will do. */
  readonly range?: Range;
}

export interface Range {
  readonly low: number;
  readonly high: number;
  /** Whether more than that means the same. */
  readonly clamps?: boolean;
}

/** The layers that a parameter is for. */
export interface Stretch {
  /** Their number; undefined where only the models' files have it. */
  readonly layers: number | undefined;
  /** By how much mergekit's numbers of these layers are above those in the recipe. */
  readonly shift: number;
}

interface Rule {
  readonly filter?: string;
  readonly value: Spread;
  readonly path: Path;
}

/** The rules of a parameter in the order in which mergekit tries them; `isComplete` if one is for all tensors. */
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

/** A parameter of a recipe; undefined, with a problem, where something must be set and is not. */
export function parameterOf(
  { name, fallback, range }: Wanted,
  levels: readonly Level[],
  stretch: Stretch,
  problem: (problem: Problem) => void,
): Parameter | undefined {
  const { rules, isComplete } = rulesOf(name, levels);
  const written = rules.map(({ filter, value, path }) => {
    const problemHere = (message: string) => problem({ path, message });
    if (filter !== undefined) checkFilter(filter, stretch.shift, problemHere);
    const spread = spreadOf(bounded(value, name, range, problemHere), stretch.layers);
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
  // mergekit gives a single layer the end of a gradient, and tensors outside the layers its beginning.
  return layers === 1 ? { gradient: [last], outside: first } : { gradient: [...value] };
}

// A number between dots, or at an end where a dot may follow or go before.
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

/** Whether a parameter is a gradient somewhere, and so depends on where its slice begins and ends. */
export function hasGradient(name: string, levels: readonly Level[]): boolean {
  return rulesOf(name, levels).rules.some(({ value }) => Array.isArray(value) && value.length > 1);
}

/** A setting that must be one number for all tensors, such as `normalize`; undefined, with a problem, if it is not. */
export function flagOf(
  name: string,
  fallback: boolean,
  levels: readonly Level[],
  problem: (problem: Problem) => void,
): boolean {
  const { rules } = rulesOf(name, levels);
  const [first] = rules;
  if (!first) return fallback;
  const [value, ...others] = [first.value].flat();
  if (first.filter === undefined && others.length === 0) return value !== 0;
  problem({ path: first.path, message: `${name} must be true or false, the same for all tensors` });
  return fallback;
}
