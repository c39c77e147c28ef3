// How a writer's settings say that a module's weights are stored, and which modules they mean.

import type { Code } from "../../kernels/index.js";
import type { Json, Keys } from "./settings.js";

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
  schemes(settings: Json, module: string): readonly Scheme[] | string;
  /** Whether plain weights belong to these settings, which then stay in the configuration. Default: they do not. */
  keepsPlain?(settings: Json): boolean;
  /** What a model with plain weights computes otherwise than these say, as a clause. Default: nothing. */
  readonly whileRunning?: string;
}

export const isNumber = (value: unknown): value is number => typeof value === "number";
/** A key's value; undefined where it is null. */
export const given = (settings: Json, key: string): unknown => settings[key] ?? undefined;
export const namesIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];

export const INTEGERS: Readonly<Record<number, Code>> = { 2: "INT2", 4: "INT4", 8: "UINT8" };

/** Longest pattern of modules that is tried. */
const LONGEST_PATTERN = 2000;

/**
 * Whether a pattern begins to match at the start of a name, as `re.match` of Python does.
 * @returns undefined for a pattern that is not tried: it is not one of JavaScript's, or could take exponential time
 */
export function matches(pattern: string, name: string): boolean | undefined {
  if (pattern.length > LONGEST_PATTERN || /\)[*+{]|\\[1-9]/.test(pattern)) return undefined;
  try {
    return new RegExp(`^(?:${pattern})`, "u").test(name);
  } catch {
    return undefined;
  }
}
