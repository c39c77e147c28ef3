// Recipe files as sources: each becomes the recipe that it holds, so that all other code meets one value.

import { realpath, stat } from "node:fs/promises";
import { basename, isAbsolute, relative, resolve } from "node:path";
import { parseHubName } from "../../formats/checkpoint/index.js";
import { exists } from "../../kit/files/index.js";
import { RecipeError } from "../../kit/index.js";
import { formatProblem } from "../../kit/settings/index.js";
import type { SourceRecipe } from "../methods/method.js";
import { isOwnMethod, loadMethod } from "./own-methods.js";
import { findMethod, mapSources, mapSourcesAsync, type OwnCode, outputFields, type RecipeInput } from "./recipe.js";
import { checkRecipe, readRecipe, validate } from "./recipe-file.js";

/** Recipe files in one recipe, repetitions included. It also bounds how deep they nest. */
const MAX_FILES = 100;

/** Whether a source is a recipe's file. A missing YAML file is one, too, as no checkpoint has such a name. */
export async function isRecipeFile(path: string): Promise<boolean> {
  // A model's config.json stands for its folder, and opening it says so.
  if (!/\.(ya?ml|json)$/i.test(path) || basename(path) === "config.json") return false;
  const stats = await stat(path).catch(() => undefined);
  return stats?.isFile() ?? /\.ya?ml$/i.test(path);
}

/**
 * Reads the recipe files that a source names: itself, or those inside a recipe. Paths in a file start from its folder.
 * @param folder folder that relative paths start from
 * @returns the source without recipe files, its relative paths from the folder, and notes on their fields that do not apply
 * @throws RecipeError with every problem of a recipe, if its method is a file, or if files name each other in a circle
 */
export async function resolveSource(source: SourceRecipe, folder: string) {
  const reader = new InnerRecipes(folder, false);
  const checked = typeof source === "string" ? source : { ...checkRecipe(source) };
  return { source: await reader.resolve(checked, folder, []), notes: reader.notes };
}

/**
 * A recipe as it is planned: checked, with the recipes that its sources are, and with the methods that are files.
 * @param allowCode whether the user allows to run these files
 * @param seed of every method that makes random choices; default: those of the recipe
 * @returns it, the files, and notes on fields of inner recipes that do not apply
 * @throws RecipeError with every problem, or if code is not allowed
 */
export async function settleRecipe(recipe: RecipeInput, folder: string, allowCode: boolean, seed?: number) {
  const reader = new InnerRecipes(folder, allowCode);
  const whole = await reader.resolveAll(checkRecipe(recipe), folder, [], true);
  const settled = seed === undefined ? whole : checkRecipe(seeded(whole, seed));
  return { recipe: settled, code: reader.code, notes: reader.notes };
}

function seeded<R extends { readonly method: string }>(recipe: R, seed: number): R {
  const inner = mapSources(recipe, (source) => (typeof source === "string" ? source : seeded(source, seed)));
  return "seed" in (findMethod(recipe.method)?.schema.shape ?? {}) ? { ...inner, seed } : inner;
}

/** A file as a person would name it: from the working folder, if it is inside. */
function named(file: string): string {
  const path = relative("", file);
  return path.startsWith("..") ? file : path;
}

class InnerRecipes {
  readonly notes: string[] = [];
  /** The methods that are files. */
  readonly code: OwnCode[] = [];
  readonly #root: string;
  readonly #allowCode: boolean;
  #files = 0;

  constructor(root: string, allowCode: boolean) {
    this.#root = root;
    this.#allowCode = allowCode;
  }

  /** @param trail files that are being read, the outermost first */
  async resolve(source: SourceRecipe, folder: string, trail: readonly string[]): Promise<SourceRecipe> {
    if (typeof source !== "string") return this.resolveAll(source, folder, trail);
    const file = resolve(folder, source);
    return (await isRecipeFile(file)) ? this.#read(file, trail) : this.#fromRoot(source, folder);
  }

  /** @param isWhole whether the recipe may have fields of the output */
  async resolveAll<R extends object>(recipe: R, folder: string, trail: readonly string[], isWhole = false): Promise<R> {
    const { method } = recipe as { readonly method?: unknown };
    const own = isOwnMethod(method) ? await this.#withMethod(recipe, resolve(folder, method), isWhole) : recipe;
    return mapSourcesAsync(own, (source) => this.resolve(source, folder, trail));
  }

  /** Loads the method that is a file, which says what the sources are, and checks the recipe by it. */
  async #withMethod<R extends object>(recipe: R, file: string, isWhole: boolean): Promise<R> {
    const code = await loadMethod(file, this.#allowCode);
    this.code.push(code);
    const { value, problems } = validate({ ...recipe, method: code.name }, isWhole);
    if (!value) throw new RecipeError(`The recipe does not fit ${file}:`, problems.map(formatProblem));
    return value as unknown as R;
  }

  async #read(file: string, trail: readonly string[]): Promise<SourceRecipe> {
    const shown = named(file);
    const { recipe, folder } = await readRecipe(shown);
    const path = await realpath(file);
    if (trail.includes(path)) {
      const circle = [...trail.slice(trail.indexOf(path)), path].map(named);
      throw RecipeError.at({ file: shown }, `recipes name each other in a circle: ${circle.join(" > ")}. Break it.`);
    }
    this.#files++;
    if (this.#files > MAX_FILES) {
      throw RecipeError.at(
        { file: shown },
        `the recipe reads more than ${MAX_FILES} recipe files. Merge one part first.`,
      );
    }
    const { dtype, ...given } = recipe as typeof recipe & Record<string, unknown>;
    const ignored = Object.keys(given).filter((field) => field in outputFields);
    if (dtype !== "keep") ignored.unshift("dtype");
    if (ignored.length > 0) {
      this.notes.push(`${ignored.join(", ")} of ${basename(file)} ignored: the outer recipe sets the output`);
    }
    const inner = Object.fromEntries(Object.entries(given).filter(([field]) => !(field in outputFields)));
    return this.resolveAll(inner, folder, [...trail, path]) as Promise<SourceRecipe & object>;
  }

  /** A source in a folder, written from the root folder. */
  async #fromRoot(source: string, folder: string): Promise<string> {
    if (resolve(folder) === resolve(this.#root)) return source;
    const isHere = (path: string) => exists(resolve(folder, path));
    const moved = async (path: string) =>
      isAbsolute(path) || path.startsWith("~") || (parseHubName(path) && !(await isHere(path)))
        ? path
        : relative(this.#root, resolve(folder, path)) || ".";
    if (parseHubName(source) || (await isHere(source))) return moved(source);
    for (let plus = source.lastIndexOf("+"); plus > 0; plus = source.lastIndexOf("+", plus - 1)) {
      const [model, adapter] = [source.slice(0, plus), source.slice(plus + 1)];
      if (parseHubName(model) || (await isHere(model))) return `${await moved(model)}+${await moved(adapter)}`;
    }
    return moved(source);
  }
}
