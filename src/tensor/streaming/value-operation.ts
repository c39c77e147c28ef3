// The operations that merge methods are composed of: their fields, and how a thread computes them. What serves one method is
// in its file, which adds it to the table.

import type { Kernels } from "../../kernels/index.js";
import { LayergraftError } from "../../kit/index.js";
import { callCode } from "./own-code.js";

/**
 * Field types of operations: source tensors and measured numbers in a plan, file bytes and known numbers on a thread.
 */
export interface Terms {
  readonly number: unknown;
  readonly value: unknown;
  /** Selects rows or columns. */
  readonly mask: unknown;
  /** A number for each row or column of each value. */
  readonly factors: unknown;
}

/** Two halves of a 64-bit seed. */
export type Seed = readonly [number, number];

interface FieldTypes<T extends Terms> {
  readonly number: T["number"];
  readonly numberPerValue: readonly T["number"][];
  readonly numbers: readonly T["number"][];
  readonly mask: T["mask"];
  readonly factors: T["factors"];
  readonly text: string;
  /** From 0 to 1. */
  readonly share: number;
  /** 0 or more. */
  readonly size: number;
  /** 1 or more. */
  readonly count: number;
  readonly flag: boolean;
  readonly axis: "rows" | "columns";
  readonly seed: Seed;
}

export type FieldKind = keyof FieldTypes<Terms>;

export type Fields = Readonly<Record<string, FieldKind>>;
export type FieldsOf<F extends Fields, T extends Terms> = { readonly [Name in keyof F]: FieldTypes<T>[F[Name]] };

/** Terms on a thread. A mask has one byte per row or column, 1 if selected. */
export interface KnownTerms extends Terms {
  readonly number: number;
  readonly mask: Uint8Array;
  readonly factors: Float32Array;
}

/** Elements of a tensor that are computed at once. */
export interface Block {
  /** First element, counted among the evaluated elements. */
  readonly begin: number;
  /** First element, counted in the whole tensor; differs from `begin` if only a part is evaluated. */
  readonly index: number;
  readonly length: number;
  /** Elements in a stored row. */
  readonly columns: number;
}

/** Memory that operations may use. */
export interface Workspace {
  readonly kernels: Kernels;
  /** Space for an address of each value. */
  readonly table: number;
  /** Space for a weight of each value, in float64. */
  readonly weights: number;
  readonly scratch: number;
}

/** An operation: what it takes, and how it is computed. */
export interface Declaration<F extends Fields = Fields> {
  /** Number of values, all of one shape; any number from 1 if not given, 0 for a tensor that no source has. */
  readonly values?: number;
  readonly fields: F;
  /** Whether it needs whole stored rows at once. */
  readonly wholeRows?: true;
  /** Bytes of scratch memory for rows of this many elements of so many values. */
  readonly scratch?: (columns: number, values: number) => number;
  /** Computes a block in float32. `buffers` are addresses of the values; the result replaces the first. */
  readonly apply: (
    buffers: readonly number[],
    fields: FieldsOf<F, KnownTerms>,
    block: Block,
    workspace: Workspace,
  ) => void;
}

/** Computes a block from its numbers; the result replaces those of the first value. */
export function onValues<F>(
  compute: (into: Float32Array, values: readonly Float32Array[], fields: F, block: Block) => void,
) {
  return (buffers: readonly number[], fields: F, block: Block, { kernels }: Workspace) => {
    const values = buffers.map((buffer) => kernels.floats(buffer, block.length));
    compute(values[0] as Float32Array, values, fields, block);
  };
}

function declare<const F extends Fields>(declaration: Declaration<F>): Declaration<F> {
  return declaration;
}

/** Rows that are scaled at once, each by a factor of its own. */
const SCALED_ROWS = 1024;

/** Number of values of a 32-bit draw. */
const DRAWS = 2 ** 32;

/** The seed of the draws from an index on: draws are numbered in 32 bits, and each 2^32 elements have their own. */
export function seedAt([first, second]: Seed, index: number): Seed {
  const round = Math.floor(index / DRAWS);
  return [first ^ Math.imul(round, 0x9e3779b1), second ^ Math.imul(round, 0x85ebca77)];
}

/** Drops `length` elements from an index on. */
function dropAt(
  kernels: Kernels,
  a: number,
  length: number,
  index: number,
  ...[seed, kept, scale]: readonly [seed: Seed, kept: number, scale: number]
): void {
  const until = DRAWS - (index % DRAWS);
  const count = Math.min(length, until);
  const rest = kernels.floats(a + 4 * count, length - count);
  // The kernel writes whole vectors, which may reach into the rest.
  const values = count < length ? rest.slice() : undefined;
  kernels.wasm.drop(a, count, index, ...seedAt(seed, index), kept, scale);
  if (!values) return;
  rest.set(values);
  kernels.wasm.drop(a + 4 * count, length - count, index + count, ...seedAt(seed, index + count), kept, scale);
}

/** The operations of many methods, by name. `of` are their values. */
const GENERAL = {
  /** of[0] - of[1]: what an expert changed. */
  subtract: declare({
    values: 2,
    fields: {},
    apply: ([a = 0, b = 0], _, { length }, { kernels }) => kernels.wasm.subtract(a, b, length),
  }),

  /** of[0] where low <= |of[0]| <= high, else 0. */
  trim: declare({
    values: 1,
    fields: { low: "number", high: "number" },
    apply: ([a = 0], { low, high }, { length }, { kernels }) => kernels.wasm.trimBy(a, a, length, low, high),
  }),

  /** of[0] where |of[1]| >= low, else 0. */
  "trim-by": declare({
    values: 2,
    fields: { low: "number" },
    apply: ([a = 0, b = 0], { low }, { length }, { kernels }) => kernels.wasm.trimBy(a, b, length, low, Infinity),
  }),

  /**
   * of[0] where low <= |last value| <= high, else 0; where that equals `low`, only before the index `before`, and where it
   * equals `high`, only from the index `from` on.
   */
  cut: declare({
    fields: { low: "number", before: "number", high: "number", from: "number" },
    apply: (buffers, { low, before, high, from }, { index, length }, { kernels }) => {
      const [a = 0] = buffers;
      const by = buffers.at(-1) ?? a;
      kernels.wasm.trimBy(a, by, length, low, high);
      const [values, sizes] = [kernels.floats(a, length), kernels.floats(by, length)];
      for (let i = Math.max(0, before - index); i < length; i++) {
        if (Math.abs(sizes[i] as number) === low) values[i] = 0;
      }
      for (let i = 0; i < Math.min(length, from - index); i++) {
        if (Math.abs(sizes[i] as number) === high) values[i] = 0;
      }
    },
  }),

  /** Each element of of[0] with probability `density`, times `scale`, else 0. Depends only on seed and index. */
  drop: declare({
    values: 1,
    fields: { density: "share", scale: "number", seed: "seed" },
    apply: ([a = 0], { density, scale, seed }, { index, length }, { kernels }) => {
      const kept = Math.round(density * DRAWS);
      if (kept >= DRAWS) kernels.wasm.scaleF32(a, a, length, scale);
      else dropAt(kernels, a, length, index, seed, kept, scale);
    },
  }),

  /** |of[0] - of[1]| over the sum of the sizes of the other values, which counts as at least `floor`. */
  deviation: declare({
    fields: { floor: "size" },
    apply: onValues((into, [, other, ...sizes], { floor }) => {
      for (let i = 0; i < into.length; i++) {
        let size = 0;
        for (const value of sizes) size += Math.abs(value[i] as number);
        into[i] = Math.abs((into[i] as number) - (other?.[i] as number)) / Math.max(floor, size);
      }
    }),
  }),

  /**
   * Rows or columns of of[0] where the mask selects them, else of[1]. In a stack, each matrix of `matrix` elements has
   * its own mask.
   */
  select: declare({
    values: 2,
    fields: { mask: "mask", axis: "axis", matrix: "count" },
    wholeRows: true,
    scratch: (columns) => columns * 4,
    apply: ([a = 0, b = 0], fields, block, { kernels, scratch }) => {
      const { index, length, columns } = block;
      if (fields.axis === "rows") {
        const [into, from] = [kernels.floats(a, length), kernels.floats(b, length)];
        for (let at = 0; at < length; at += columns) {
          if (fields.mask[(index + at) / columns] !== 1) into.set(from.subarray(at, at + columns), at);
        }
      } else {
        eachMatrix(fields, block, (mask, from, count) => {
          kernels.integers(scratch, mask.length).set(Int32Array.from(mask, (marked) => -marked));
          kernels.wasm.selectColumns(a + from * 4, b + from * 4, count / columns, columns, scratch);
        });
      }
    },
  }),

  /**
   * The sum of the values, each row or column of each times its own factor. Factors are [values, lines], for each matrix
   * of `matrix` elements.
   */
  "scale-lines": declare({
    fields: { factors: "factors", axis: "axis", matrix: "count" },
    wholeRows: true,
    scratch: (columns, values) => 4 * values * Math.max(columns, SCALED_ROWS),
    apply: (buffers, { factors, axis, matrix }, { index, length, columns }, { kernels, table, scratch }) => {
      const count = buffers.length;
      const isByColumn = axis === "columns";
      const lines = isByColumn ? columns : matrix / columns;
      for (let at = 0; at < length; ) {
        const within = (index + at) % matrix;
        const rows = Math.min(
          (length - at) / columns,
          (matrix - within) / columns,
          isByColumn ? Infinity : SCALED_ROWS,
        );
        const first = ((index + at - within) / matrix) * count * lines + (isByColumn ? 0 : within / columns);
        const stride = isByColumn ? columns : rows;
        const into = kernels.floats(scratch, count * stride);
        for (let k = 0; k < count; k++) {
          into.set(factors.subarray(first + k * lines, first + k * lines + stride), k * stride);
        }
        const from = at;
        kernels.counters(table, count).set(buffers.map((buffer) => buffer + 4 * from));
        kernels.wasm.scaleLines(table, count, rows, columns, scratch, stride, isByColumn);
        at += rows * columns;
      }
    },
  }),

  /** The values of each matrix merged by a rule, with a number. The evaluator calls `mergeMatrix`, as it takes all rows. */
  "whole-matrix": declare({
    fields: { rule: "text", number: "size", matrix: "count" },
    wholeRows: true,
    apply: () => undefined,
  }),

  /** Known values from `at` on, as [rows, columns]: a tensor that no source has. */
  given: declare({
    values: 0,
    fields: { values: "factors", at: "size", rows: "count", columns: "count" },
    apply: ([a = 0], { values, at }, { index, length }, { kernels }) =>
      kernels.floats(a, length).set(values.subarray(at + index, at + index + length)),
  }),

  /** of[0] over a number for each block of `height` rows and `width` columns of each matrix, which has `rows` rows. */
  "divide-blocks": declare({
    values: 1,
    fields: { factors: "factors", rows: "count", height: "count", width: "count" },
    apply: onValues((into, _, { factors, rows, height, width }, { index, length, columns }) => {
      const [down, across] = [Math.ceil(rows / height), Math.ceil(columns / width)];
      for (let at = 0; at < length; ) {
        const column = (index + at) % columns;
        const row = (index + at - column) / columns;
        const line = Math.floor(row / rows) * down + Math.floor((row % rows) / height);
        const factor = factors[line * across + Math.floor(column / width)] as number;
        const stop = Math.min(length, at + Math.min(columns - column, width - (column % width)));
        for (; at < stop; at++) into[at] = (into[at] as number) / factor;
      }
    }),
  }),

  /** A function of a user's file, which `code` names by its digest. */
  call: declare({
    fields: { code: "text", function: "text", numbers: "numbers" },
    wholeRows: true,
    apply: onValues((_, values, { code, function: name, numbers }, { columns }) => {
      callCode(code, name, values, numbers, columns);
    }),
  }),
} as const;

type GeneralName = keyof typeof GENERAL;

type GeneralOperation<Name extends GeneralName, T extends Terms> = {
  readonly op: Name;
  readonly of: readonly T["value"][];
} & FieldsOf<(typeof GENERAL)[Name]["fields"], T>;

/** An operation of one method, which its declaration makes. */
export interface OwnOperation<T extends Terms> {
  /** Its name. The type is one that no other operation has, so that theirs tell them apart. */
  readonly op: "a method's";
  readonly of: readonly T["value"][];
}

export type Operation<T extends Terms> =
  | { [Name in GeneralName]: GeneralOperation<Name, T> }[GeneralName]
  | OwnOperation<T>;

/** Arithmetic that a method brings: an operation, or something else that plans refer to by name. */
export interface Arithmetic {
  readonly name: string;
}

const TABLE = new Map<string, object>(Object.entries(GENERAL));

/** Makes arithmetic of methods known to this thread. */
export function addArithmetic(all: readonly Arithmetic[]): void {
  for (const one of all) TABLE.set(one.name, one);
}

/**
 * What a plan refers to by name.
 * @throws LayergraftError code "changed" if the table has none of the kind
 */
export function arithmeticOf<One extends object>(name: string, kind: keyof One): One {
  const found = TABLE.get(name);
  if (found && kind in found) return found as One;
  throw new LayergraftError(
    "changed",
    `This version of layergraft cannot compute ${name}, which the plan needs. Plan again.`,
  );
}

/** Every operation by name. */
export function operations(): [string, Declaration][] {
  return [...TABLE].flatMap(([name, one]) => ("apply" in one ? [[name, one as Declaration]] : []));
}

export function declarationOf({ op }: { readonly op: string }): Declaration {
  return arithmeticOf<Declaration>(op, "apply");
}

/** The same operation over other terms. */
export function mapOperation<From extends Terms, To extends Terms>(
  operation: Operation<From>,
  to: {
    readonly value: (value: From["value"]) => To["value"];
    readonly number: (number: From["number"]) => To["number"];
    readonly mask: (mask: From["mask"]) => To["mask"];
    readonly factors: (factors: From["factors"]) => To["factors"];
  },
): Operation<To> {
  const fields = { ...operation, of: operation.of.map(to.value) } as Record<string, unknown>;
  for (const [name, kind] of Object.entries(declarationOf(operation).fields)) {
    if (kind === "number") fields[name] = to.number(fields[name]);
    else if (kind === "numberPerValue" || kind === "numbers")
      fields[name] = (fields[name] as From["number"][]).map(to.number);
    else if (kind === "mask") fields[name] = to.mask(fields[name]);
    else if (kind === "factors") fields[name] = to.factors(fields[name]);
  }
  return fields as Operation<To>;
}

/** The parts of a block that are in one matrix each, with that matrix's mask of columns. */
function eachMatrix(
  { mask, matrix }: { readonly mask: Uint8Array; readonly matrix: number },
  { index, length, columns }: Block,
  each: (mask: Uint8Array, from: number, length: number) => void,
): void {
  for (let from = 0; from < length; ) {
    const number = Math.floor((index + from) / matrix);
    const until = Math.min(length, (number + 1) * matrix - index);
    each(mask.subarray(number * columns, (number + 1) * columns), from, until - from);
    from = until;
  }
}
