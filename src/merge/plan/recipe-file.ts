// Reading recipes: from YAML or JSON text, or from a value of the library; all faults at once, with lines where there
// are lines.

import { dirname } from "node:path";
import type { z } from "zod";
import { closest, didYouMean, isDeeperThan, RecipeError, shorten } from "../../core/index.js";
import {
  type Checked,
  type Fault,
  faultsOfIssues,
  formatFault,
  lineOfField,
  parseSettings,
  readSettingsText,
  withHint,
} from "../../settings/index.js";
import { METHODS } from "../methods/index.js";
import { findMethod, mapSources, outputFields, type Recipe, sourcesOf } from "./recipe.js";

/** A recipe and the folder that its relative paths start from. */
export interface LocatedRecipe {
  readonly recipe: Recipe;
  readonly folder: string;
  /** The line of the file on which a field stands, such as `models[1].weight`, or the closest that does. */
  readonly lineOf: (field: string) => number | undefined;
}

/**
 * Reads a recipe from a YAML (or JSON) file.
 * @throws {RecipeError} with every fault and its line
 */
export async function readRecipe(file: string): Promise<LocatedRecipe> {
  const text = await readSettingsText(file, "recipe");
  const recipe = parseRecipe(text, file);
  return { recipe, folder: dirname(file), lineOf: (field) => lineOfField(text, field) };
}

/** Parses the text of a recipe; `file` is for messages. */
export function parseRecipe(text: string, file = "recipe"): Recipe {
  return parseSettings(text, { file, kind: "recipe", check: (value) => validate(value, file) });
}

/** Checks a recipe given as a value. */
export function checkRecipe(value: unknown): Recipe {
  const { value: recipe, faults } = validate(value, "the recipe");
  if (recipe) return recipe;
  throw new RecipeError("This is not a valid recipe:", faults.map(formatFault));
}

/** What is wrong with a recipe given as a value. */
export function recipeFaults(value: unknown): readonly Fault[] {
  return validate(value, "the recipe").faults;
}

/** Each recipe within another takes up to three levels. */
const MAX_DEPTH = 60;

function validate(value: unknown, name: string): Checked<Recipe> {
  // What contains itself has no depth; nobody writes a recipe that would fill a stack.
  if (isDeeperThan(value, MAX_DEPTH)) throw new RecipeError(`${name} nests too deep, or contains itself`);
  const faults: Fault[] = [];
  const recipe = check(value, [], faults);
  return faults.length > 0 ? { faults } : { value: recipe as Recipe, faults };
}

/** Checks a recipe by its method's schema, then the recipes within it; adds to `faults`. */
function check(value: unknown, path: readonly PropertyKey[], faults: Fault[]): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    faults.push({ path, message: "must be a recipe: a mapping with a method and its sources" });
    return value;
  }
  const name = "method" in value ? value.method : undefined;
  const method = typeof name === "string" ? findMethod(name) : undefined;
  if (!method) {
    faults.push({ path: [...path, "method"], message: unknownMethod(name, Object.keys(value)) });
    return value;
  }
  const schema = path.length === 0 ? method.schema.extend(outputFields) : method.schema;
  const parsed = schema.safeParse(value, { reportInput: true });
  if (!parsed.success) faults.push(...faultsOf(parsed.error.issues, path, schema));
  // Of a recipe with faults too, the ones within it are looked at, so that all faults come at once.
  const checked: object = parsed.success ? parsed.data : value;
  const places = new Map(sourcesOf(checked).map(([label, , at]) => [label, at]));
  return mapSources(checked, (source, label) =>
    typeof source === "object" && source !== null && "method" in source
      ? check(source, [...path, ...(places.get(label) ?? [])], faults)
      : source,
  );
}

/** Names of fields within fields, as of an entry of a list or of a rule. */
const INNER_FIELDS = ["model", "weight", "density", "gamma", "epsilon", "scale", "layers", "parts", "tensors", "value"];

function faultsOf(issues: readonly z.core.$ZodIssue[], path: readonly PropertyKey[], schema: z.ZodObject): Fault[] {
  const known = [...Object.keys(schema.shape), ...INNER_FIELDS, "gradient", "outside"];
  return faultsOfIssues(issues, path).map((fault) => withHint(fault, known));
}

function unknownMethod(name: unknown, fields: readonly string[]): string {
  const known = METHODS.map((method) => method.name as string);
  const misspelt = fields.find((field) => name === undefined && closest(field, ["method"]) !== undefined);
  if (misspelt !== undefined) return `is missing; did you mean method where it says ${shorten(misspelt)}?`;
  return `must be one of ${known.join(", ")}${typeof name === "string" ? didYouMean(name, known) : ""}`;
}
