// How a writer's settings say that a module's weights are stored, and which modules they mean.

import type { Code } from "../../kernels/index.js";
import type { JsonObject } from "../../kit/index.js";
import { Disagreement } from "./parts.js";
import type { Keys } from "./settings.js";

/** Values that share a scale: all, a row, a column, `group` columns of a row, or a block. */
export type Sharing =
  | "tensor"
  | "row"
  | "column"
  | { readonly group: number }
  | { readonly block: readonly [rows: number, columns: number] };

/** What the settings say of a module. Every tensor of the module must agree. */
export interface Scheme {
  readonly layout: "bytes" | "halves" | "words" | "experts" | "gptq" | "awq";
  readonly code: Code;
  /** Any of these. */
  readonly scales: readonly Sharing[];
  /** Stored zeros that say what `zero` does, where the settings say that codes are symmetric. Default: zeros are as stored. */
  readonly symmetric?: { readonly zero: number; readonly stored: readonly number[] };
  /** Added to stored zeros. Default: 0. */
  readonly zero?: number;
  /** Whether columns are in an order of their own, which a tensor gives. */
  readonly isOrdered?: boolean;
}

/** What layergraft knows of the files of a program that quantises. */
export interface WriterPage {
  /** Values of `quant_method`. */
  readonly names: readonly string[];
  /** What is read, for the table. */
  readonly reads: string;
  readonly keys: Keys;
  /**
   * How the settings say that a module is stored: any of these, of which exactly one must agree with the tensors.
   * @returns a problem, as a clause, where they do not say
   */
  schemes(settings: JsonObject, module: string): readonly Scheme[] | string;
  /** Whether plain weights belong to these settings, which then stay in the configuration. Default: they do not. */
  keepsPlain?(settings: JsonObject): boolean;
  /** What a model with plain weights computes otherwise than these say, as a clause. Default: nothing. */
  readonly whileRunning?: string;
}

export const isNumber = (value: unknown): value is number => typeof value === "number";
/** A key's value; undefined where it is null. */
export const given = (settings: JsonObject, key: string): unknown => settings[key] ?? undefined;
export const namesIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];

export const INTEGERS: Readonly<Record<number, Code>> = { 2: "INT2", 4: "INT4", 8: "UINT8" };

/** Longest pattern of modules that is tried. */
const LONGEST_PATTERN = 2000;

/**
 * Whether a pattern begins to match at the start of a name, as `re.match` of Python does.
 * @throws Disagreement for a pattern that is not tried: it is not one of JavaScript's, or could take exponential time
 */
export function matches(pattern: string, name: string): boolean {
  const untried = new Disagreement(`layergraft does not try the pattern ${JSON.stringify(pattern)} of the settings`);
  if (pattern.length > LONGEST_PATTERN || /\)[*+{]|\\[1-9]/.test(pattern)) throw untried;
  try {
    return new RegExp(`^(?:${pattern})`, "u").test(name);
  } catch {
    throw untried;
  }
}

/**
 * How a list names a module: 1 by its name, 2 by a pattern, 3 as a linear layer; undefined if it does not.
 * A container that is named does not stand for the modules in it.
 */
export function rankIn(list: readonly string[], module: string): number | undefined {
  if (list.includes(module)) return 1;
  if (list.some((one) => isPatternOf(one, module))) return 2;
  return list.includes("Linear") ? 3 : undefined;
}

function isPatternOf(pattern: string, module: string): boolean {
  if (pattern.startsWith("re:")) return matches(pattern.slice(3), module);
  // As ModelOpt writes them.
  const parts = pattern.split("*").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return parts.length > 1 && matches(`${parts.join(".*")}$`, module);
}

/** Keys of what is not quantised. */
const LEFT_OUT = ["ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"];

/** The key of the settings that leaves a module out. */
export const leftOut = (settings: JsonObject, module: string): string | undefined =>
  LEFT_OUT.find((key) => rankIn(namesIn(settings[key]), module) !== undefined);
