// Merging tiny models and comparing every element of the result with a formula of the sources' elements.
import { join } from "node:path";
import { expect } from "vitest";
import { planRecipe, type RecipeInput } from "../../src/merge/index.js";
import { type ExecuteResult, executePlan, verifyOutput } from "../../src/merge/output/index.js";
import { type FloatDType, type ReadTensor, type TinyOptions, temporaryFolder, writeTiny } from "./checkpoints.js";
import { readFolder, roundTo, spacingOf, toNumbers } from "./numbers.js";

export type Tensors = ReadonlyMap<string, ReadTensor>;
/** Of the values of one element in each source. */
export type Formula = (...values: number[]) => number;

/** A folder of models and merges, each with a name and seed of its own. */
export class Bench {
  readonly folder = temporaryFolder();
  #count = 0;
  /** Forms of the recipes whose outputs were verified. */
  readonly #verified = new Set<string>();

  next(name: string): string {
    return join(this.folder, `${name}${this.#count++}`);
  }

  /** A model of two layers, with a seed of its own. */
  model(options: TinyOptions = {}): Promise<string> {
    return writeTiny(this.next("model"), { layers: 2, seed: this.#count, ...options });
  }

  async models(n: number, options: TinyOptions = {}): Promise<string[]> {
    const folders: string[] = [];
    for (let i = 0; i < n; i++) folders.push(await this.model(options));
    return folders;
  }

  /** Executes a recipe. */
  async write(recipe: RecipeInput): Promise<ExecuteResult> {
    return executePlan(await planRecipe(recipe), { force: true, allowUnrelated: true, out: this.next("out") });
  }

  /** Executes a recipe, checks that the output verifies, and reads it. */
  async merge(recipe: RecipeInput): Promise<ExecuteResult & { tensors: Tensors }> {
    const result = await this.write(recipe);
    const tensors = await readFolder(result.out);
    // Verifying costs half of a merge, and does the same for recipes that differ in numbers, such as those of folders.
    const dtypes = [...tensors.values()].map(({ dtype }) => dtype);
    const form = `${JSON.stringify(recipe).replace(/[-.\d]+/g, "")} ${dtypes}`;
    if (!this.#verified.has(form)) expect((await verifyOutput(result.out)).deviations).toEqual([]);
    this.#verified.add(form);
    return { ...result, tensors };
  }
}

export const readFolders = (folders: readonly string[]): Promise<Tensors[]> => Promise.all(folders.map(readFolder));

/** The values of one tensor in each source. */
export function valuesOf(name: string, sources: readonly Tensors[]): number[][] {
  return sources.map((source) => toNumbers(source.get(name) as ReadTensor));
}

/** Every element must be the formula of the sources' elements, rounded to the tensor's dtype, to the bit. */
export function expectExactly(found: Tensors, sources: readonly Tensors[], formulaOf: (name: string) => Formula): void {
  expect([...found.keys()]).toEqual([...(sources[0]?.keys() ?? [])]);
  for (const [name, tensor] of found) {
    const values = valuesOf(name, sources);
    const formula = formulaOf(name);
    const wanted = (values[0] ?? []).map((_, i) =>
      roundTo(tensor.dtype as FloatDType, formula(...values.map((list) => list[i] as number))),
    );
    expect(toNumbers(tensor), name).toEqual(wanted);
  }
}

/**
 * Every element must be the formula, evaluated in float64, to one unit in the last place. In float32, where the sum
 * itself is rounded, to one unit per source, of the largest value that was added.
 */
export function expectClosely(found: Tensors, sources: readonly Tensors[], formulaOf: (name: string) => Formula): void {
  expect([...found.keys()]).toEqual([...(sources[0]?.keys() ?? [])]);
  for (const [name, tensor] of found) {
    const values = valuesOf(name, sources);
    const formula = formulaOf(name);
    const dtype = tensor.dtype as FloatDType;
    const numbers = toNumbers(tensor);
    expect(numbers.length).toBe(values[0]?.length);
    numbers.forEach((value, i) => {
      const terms = values.map((list) => list[i] as number);
      const exact = formula(...terms);
      const tolerance =
        dtype === "F32"
          ? sources.length * spacingOf(dtype, Math.max(...[exact, ...terms].map(Math.abs)))
          : spacingOf(dtype, exact);
      if (!(Math.abs(value - exact) <= tolerance)) expect.fail(`${name}[${i}] is ${value}, not ${exact}`);
    });
  }
}

/** (x1 + ... + xn) / n, each operation rounded to float32. */
export const mean: Formula = (...values) => Math.fround(sum(values) / values.length);

/** sum(w x) / sum(w), each operation rounded to float32. */
export function weighted(...weights: number[]): Formula {
  const divisor = Math.fround(weights.reduce((total, weight) => total + weight, 0));
  return (...values) => {
    const products = values.map((value, i) => Math.fround(Math.fround(weights[i] as number) * value));
    return Math.fround(sum(products) / divisor);
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => Math.fround(total + value));
}
